"""Kinds of jobs: the truths of running jobs, each stored once in the engine's tables."""

from collections.abc import Iterable

from apps.emulation.core.event_kernels import EngineState
from apps.emulation.core.tables import with_kind, with_more_kinds
from apps.emulation.core.truth import Truth


class Kinds:
    """Number of each truth, by identity.

    A truth keeps its number while a job of it runs. When all numbers are taken, those of truths
    without a running job are given to others.
    """

    def __init__(self, size: int) -> None:
        self._known: dict[int, tuple[int, Truth]] = {}  # by id, which is unique while it is held
        self._free = list(range(size - 1, -1, -1))

    def number(self, truth: Truth) -> int | None:
        """Return the number of a truth, None if it has none."""
        known = self._known.get(id(truth))
        return None if known is None else known[0]

    def add(
        self, state: EngineState, truth: Truth, running: Iterable[int]
    ) -> tuple[EngineState, int]:
        """State with a new truth, and its number.

        Parameters
        ----------
        running : numbers of the truths of running jobs
        """
        if not self._free:
            used = set(running)
            unused = [key for key, (number, _) in self._known.items() if number not in used]
            self._free += [self._known.pop(key)[0] for key in unused]
        if not self._free:
            size = len(state.kinds.phases)
            state = with_more_kinds(state)
            self._free = list(range(2 * size - 1, size - 1, -1))
        number = self._free.pop()
        self._known[id(truth)] = (number, truth)
        return with_kind(state, number, truth), number
