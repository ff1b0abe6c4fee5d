"""NSGA-II over placements: a front that gets better for as long as one lets it.

c containers, m starts. Numba is loaded when a search begins, not on import.
Source: ClavisMO §3.1, C3; Deb et al. (2002).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

import numpy as np

from apps.inventory.core.snapshot import Floats, Ints
from apps.placement.core.front import (
    MOST_HELD,
    MOST_SHOWN,
    Archive,
    Front,
    losses,
    scales,
    thin,
)
from apps.placement.core.instance import Instance

if TYPE_CHECKING:
    from apps.placement.core.nsga2_kernels import Held

POPULATION: Final = 100
_SLICE_S: Final = 0.05  # between two looks at the clock
_FIRST: Final = 2  # generations before the length of one is known
_MOST_AT_ONCE: Final = 50  # the archive needs room for all that these may find


@dataclass(frozen=True, slots=True)
class Progress:
    """What a watcher is told a few times a second."""

    seconds: float
    generations: int
    hypervolume: float
    points: int


class Search:
    """One search under way. The same seed and starts give the same generations.

    Core code has no clock: ``clock`` gives seconds, ``began`` is when all this is said to begin.
    """

    def __init__(  # noqa: PLR0913 - all but two have defaults
        self,
        instance: Instance,
        starts: Sequence[Ints],
        *,
        clock: Callable[[], float],
        seed: int = 0,
        size: int = POPULATION,
        limit: int = MOST_HELD,
        began: float | None = None,
    ) -> None:
        """Begin with the starts, and mutants of them; (c,) each, at least one.

        More starts than ``size`` are all in the archive, and the population begins with some that
        are spread over their front.

        Raises
        ------
        ValueError : no start, one of another length or over a node's slots, a population below 2.
        """
        from apps.placement.core import genome, nsga2_kernels  # noqa: PLC0415 - numba

        if size < 2:
            raise ValueError(f"size must be at least 2, not {size}")
        checked = _checked(instance, starts)
        self.instance = instance
        self.generations = 0
        self.archive = Archive(instance.job.size, max(limit, 2 * size * _MOST_AT_ONCE))
        self._clock, self._began = clock, clock() if began is None else began
        self._volumes: list[Floats] = []
        self._kernels = nsga2_kernels
        self._space = genome.space(instance)
        self._work = genome.work(instance, seed)
        self._rows = nsga2_kernels.population(size, instance.job.size)
        if len(checked) > size:
            checked = self._chosen(checked, size)
        self.archive.make_room(size)
        self.archive.size = self._kernels.begin(
            self._space, self._work, self._rows, self._held(), self.archive.size, checked
        )

    @property
    def seconds(self) -> float:
        """Time since the beginning."""
        return self._clock() - self._began

    @property
    def volumes(self) -> Floats:
        """(generations,) hypervolume after each generation."""
        return np.concatenate([np.empty(0), *self._volumes])

    def advance(self, generations: int) -> None:
        """Make so many generations; none where there is nothing to place."""
        while generations > 0 and self.instance.job.size:
            now = min(generations, _MOST_AT_ONCE)
            self.archive.make_room(now * len(self._rows.rows) // 2)
            volumes = np.empty(now)
            self.archive.size = self._kernels.advance(
                self._space, self._work, self._rows, self._held(), self.archive.size, volumes
            )
            self._volumes.append(volumes)
            self.generations += now
            generations -= now

    def run(
        self,
        budget_s: float,
        *,
        should_stop: Callable[[], bool] = lambda: False,
        watch: Callable[[Progress], None] = lambda _: None,
    ) -> None:
        """Go on until the budget, counted from the beginning, is used up, or told to stop."""
        at_once = _FIRST
        while self.instance.job.size and self.seconds < budget_s and not should_stop():
            before = self.seconds
            self.advance(at_once)
            each = (self.seconds - before) / at_once
            left = min(_SLICE_S, budget_s - self.seconds)
            at_once = max(1, min(int(left / max(each, 1e-6)), 2 * at_once, _MOST_AT_ONCE))
            watch(self.progress())

    def progress(self) -> Progress:
        """Say how far it is."""
        volume = self._volumes[-1][-1] if self._volumes else self.archive.hypervolume()
        return Progress(self.seconds, self.generations, float(volume), self.archive.size)

    def front(self, most: int = MOST_SHOWN, *, is_exact: bool = False) -> Front:
        """Return the front as it is now, as a version of its own."""
        return self.archive.front(
            self.instance,
            most=most,
            generations=self.generations,
            seconds=self.seconds,
            is_exact=is_exact,
        )

    def _chosen(self, starts: Ints, size: int) -> Ints:
        """Offer all starts to the archive, and choose from it."""
        raw = raw_values(self.instance, starts)
        self.archive.offer(losses(raw / scales(self.instance)), starts)
        slots = self.archive.slots[: self.archive.size]
        return self.archive.genomes[slots[thin(self.archive.losses[: slots.size], size)]]

    def _held(self) -> "Held":
        return self._kernels.Held(self.archive.losses, self.archive.slots, self.archive.genomes)


def raw_values(instance: Instance, assignments: Ints) -> Floats:
    """(m, 3) raw P, D and C of (m, c) assignments."""
    from apps.placement.core.kernels import evaluate_all, problem  # noqa: PLC0415 - numba

    return evaluate_all(problem(instance), assignments.astype(np.int64))


def _checked(instance: Instance, starts: Sequence[Ints]) -> Ints:
    """(m, c) starts."""
    if not len(starts):
        raise ValueError("starts: at least one placement is needed")
    nodes, containers = len(instance.node_ids), instance.job.size
    for number, start in enumerate(starts):
        if start.shape != (containers,):
            raise ValueError(f"starts[{number}] places {start.size} containers of {containers}")
        if containers and not 0 <= start.min() <= start.max() < nodes:
            raise ValueError(f"starts[{number}] has a node that is not among {nodes}")
        used = np.bincount(start, minlength=nodes)
        if (used > instance.slots).any():
            node = int(np.argmax(used - instance.slots))
            raise ValueError(
                f"starts[{number}] puts {used[node]} containers on {instance.node_ids[node]!r},"
                f" which holds {instance.slots[node]}"
            )
    whole = np.array(starts, dtype=np.int32).reshape(len(starts), containers)
    return cast("Ints", whole)
