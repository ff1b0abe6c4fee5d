"""NSGA-II over placements: a front that improves for as long as the search runs.

c containers, m starts. Numba is loaded when a search begins, not on import.
Source: ClavisMO §3.1, C3; Deb et al. (2002).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

import numpy as np

from apps.inventory.core.snapshot import Floats, Ints
from apps.placement.core.front.archive import (
    MAX_SHOWN,
    MAX_STORED,
    Archive,
    ParetoFront,
    losses,
    representatives,
)
from apps.placement.core.problem.instance import Instance
from apps.placement.core.problem.objectives import scales

if TYPE_CHECKING:
    from apps.placement.core.front.nsga2_kernels import ArchiveArrays

POPULATION: Final = 100
_SLICE_S: Final = 0.05  # between two checks of the clock
_FIRST_SLICE: Final = 2  # generations before the duration of one is known
_MAX_SLICE: Final = 50  # the archive needs room for all points that these generations may add


@dataclass(frozen=True, slots=True)
class FrontProgress:
    """State of a search, reported a few times a second."""

    seconds: float
    generations: int
    hypervolume: float
    points: int


class FrontSearch:
    """One search. The same seed and starts give the same generations.

    Core code has no clock: ``clock`` returns seconds; ``began`` is its value when the whole search
    for a front began.
    """

    def __init__(  # noqa: PLR0913 - all but two have defaults
        self,
        instance: Instance,
        starts: Sequence[Ints],
        *,
        clock: Callable[[], float],
        seed: int = 0,
        size: int = POPULATION,
        limit: int = MAX_STORED,
        began: float | None = None,
    ) -> None:
        """Begin with the starts, and mutants of them; (c,) each, at least one.

        More starts than ``size`` all go to the archive, and the first population is a sample that
        is spread over their front.

        Raises
        ------
        ValueError : no start, a start of another length or that overfills a node, a size below 2.
        """
        from apps.placement.core.front import genome, nsga2_kernels  # noqa: PLC0415 - numba
        from apps.placement.core.problem.evaluator import pack  # noqa: PLC0415 - numba

        if size < 2:
            raise ValueError(f"size must be at least 2, not {size}")
        checked = _checked(instance, starts)
        self.instance = instance
        self.generations = 0
        self.archive = Archive(instance.job.size, max(limit, 2 * size * _MAX_SLICE))
        self._clock, self._began = clock, clock() if began is None else began
        self._volumes: list[Floats] = []
        self._kernels = nsga2_kernels
        self._packed = pack(instance)
        self._decoded = genome.allocate(instance, seed)
        self._population = nsga2_kernels.population(size, instance.job.size)
        if len(checked) > size:
            checked = self._sample(checked, size)
        self.archive.make_room(size)
        self.archive.size = self._kernels.begin(
            self._packed,
            self._decoded,
            self._population,
            self._archive_arrays(),
            self.archive.size,
            checked,
        )

    @property
    def seconds(self) -> float:
        """Time since the search began."""
        return self._clock() - self._began

    @property
    def volumes(self) -> Floats:
        """(generations,) hypervolume after each generation."""
        return np.concatenate([np.empty(0), *self._volumes])

    def advance(self, generations: int) -> None:
        """Breed a number of generations; none if the instance has no container."""
        while generations > 0 and self.instance.job.size:
            count = min(generations, _MAX_SLICE)
            self.archive.make_room(count * len(self._population.rows) // 2)
            volumes = np.empty(count)
            self.archive.size = self._kernels.advance(
                self._packed,
                self._decoded,
                self._population,
                self._archive_arrays(),
                self.archive.size,
                volumes,
            )
            self._volumes.append(volumes)
            self.generations += count
            generations -= count

    def run(
        self,
        budget_s: float,
        *,
        should_stop: Callable[[], bool] = lambda: False,
        on_progress: Callable[[FrontProgress], None] = lambda _: None,
    ) -> None:
        """Search until the budget, counted from the beginning, is spent, or until stopped."""
        count = _FIRST_SLICE
        while self.instance.job.size and self.seconds < budget_s and not should_stop():
            before = self.seconds
            self.advance(count)
            generation_s = (self.seconds - before) / count
            slice_s = min(_SLICE_S, budget_s - self.seconds)
            count = max(1, min(int(slice_s / max(generation_s, 1e-6)), 2 * count, _MAX_SLICE))
            on_progress(self.progress())

    def progress(self) -> FrontProgress:
        """Return the state of the search."""
        volume = self._volumes[-1][-1] if self._volumes else self.archive.hypervolume()
        return FrontProgress(self.seconds, self.generations, float(volume), self.archive.size)

    def front(self, limit: int = MAX_SHOWN, *, is_exact: bool = False) -> ParetoFront:
        """Return the present front as a version of its own."""
        return self.archive.front(
            self.instance,
            limit=limit,
            generations=self.generations,
            seconds=self.seconds,
            is_exact=is_exact,
        )

    def _sample(self, starts: Ints, size: int) -> Ints:
        """Offer all starts to the archive, and return a sample of it."""
        from apps.placement.core.problem.evaluator import raw_values  # noqa: PLC0415 - numba

        raw = raw_values(self.instance, starts)
        self.archive.offer(losses(raw / scales(self.instance)), starts)
        slots = self.archive.slots[: self.archive.size]
        return self.archive.genomes[
            slots[representatives(self.archive.losses[: slots.size], size)]
        ]

    def _archive_arrays(self) -> "ArchiveArrays":
        archive = self.archive
        return self._kernels.ArchiveArrays(archive.losses, archive.slots, archive.genomes)


def _checked(instance: Instance, starts: Sequence[Ints]) -> Ints:
    """(m, c) starts."""
    if not len(starts):
        raise ValueError("starts must have at least one placement")
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
