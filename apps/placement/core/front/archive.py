"""Pareto fronts: placements of which none dominates another.

k points, c containers. Losses are minimised: (k, 3) normalised P, 1 − D and C, in [0, 1], rounded
to `GRAIN` so that the summation order has no effect. The hypervolume is the volume between a front
and `REFERENCE`, which is a tenth beyond the worst values: a full cluster has P = 1 everywhere, and
its hypervolume is still positive. Source: ClavisMO §3.1, C3; Deb et al. (2002); hypervolume:
Zitzler and Thiele (1999).
"""

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from apps.inventory.core.snapshot import Floats, Ints
from apps.placement.core.problem.instance import Instance
from apps.placement.core.problem.objectives import scales

REFERENCE: Final = (1.1, 1.1, 1.1)
GRAIN: Final = 2.0**-30
MAX_SHOWN: Final = 2_000
MAX_STORED: Final = 10_000


@dataclass(frozen=True, slots=True, eq=False)
class ParetoFront:
    """One version of a front, read-only, sorted by power.

    Attributes
    ----------
    raw, normalised : (k, 3) P, D, C
    assignments : (k, c) node of each container
    points : size of the full front, of which k points are stored here
    hypervolume : of the full front, up to `REFERENCE`
    generations, seconds : effort of the search
    is_exact : proven to be the complete front
    """

    raw: Floats
    normalised: Floats
    assignments: Ints
    points: int
    hypervolume: float
    generations: int
    seconds: float
    is_exact: bool

    def __post_init__(self) -> None:
        for array in (self.raw, self.normalised, self.assignments):
            array.flags.writeable = False


def losses(normalised: Floats) -> Floats:
    """(k, 3) minimised values P, 1 − D, C, rounded to `GRAIN`."""
    minimised = normalised * (1.0, -1.0, 1.0) + (0.0, 1.0, 0.0)
    rounded: Floats = np.round(minimised / GRAIN) * GRAIN
    return rounded


def hypervolume(points: Floats, reference: tuple[float, float, float] = REFERENCE) -> float:
    """Volume between (k, 3) losses and a reference point; points beyond it are ignored.

    Raises
    ------
    ValueError : points are not (k, 3), or not finite.
    """
    from apps.placement.core.front import kernels  # noqa: PLC0415 - numba

    if points.ndim != 2 or points.shape[1] != 3 or not np.isfinite(points).all():
        raise ValueError(f"points must be finite and (k, 3), not {points.shape}")
    ordered = np.ascontiguousarray(points[np.argsort(points[:, 0], kind="stable")])
    return kernels.hypervolume(ordered, len(ordered), np.array(reference))


def representatives(points: Floats, limit: int) -> Ints:
    """(≤ limit,) indices of evenly spread points, ascending.

    A smaller selection is always a subset of a larger one.
    """
    from apps.placement.core.front import kernels  # noqa: PLC0415 - numba

    if limit < 1:
        raise ValueError(f"limit must be at least 1, not {limit}")
    if len(points) <= limit:
        return np.arange(len(points))
    return np.sort(kernels.spread_out(np.ascontiguousarray(points), limit))


def representative_rank(points: Floats) -> Ints:
    """(k,) rank of each of (k, 3) losses in the order in which `representatives` selects them.

    The points with a rank below m are the m representatives, for every m.
    """
    from apps.placement.core.front import kernels  # noqa: PLC0415 - numba

    rank: Ints = np.empty(len(points), dtype=np.int64)
    if len(points):
        order = kernels.spread_out(np.ascontiguousarray(points), len(points))
        rank[order] = np.arange(len(points))
    return rank


class Archive:
    """Non-dominated placements, at most ``limit``.

    Above the limit it is reduced to three quarters, which loses little hypervolume.
    """

    def __init__(self, containers: int, limit: int = MAX_STORED) -> None:
        self.limit = limit
        self.size = 0
        self.losses: Floats = np.empty((0, 3))
        self.slots: Ints = np.empty(0, dtype=np.int64)
        self.genomes: Ints = np.empty((0, containers), dtype=np.int32)
        self.make_room(1)

    def offer(self, points: Floats, assignments: Ints) -> int:
        """Add the non-dominated ones of (k, 3) losses and (k, c) assignments; return their number.

        Equal losses count as one point, the first.
        """
        from apps.placement.core.front import kernels  # noqa: PLC0415 - numba

        added = 0
        for point, assignment in zip(points, assignments, strict=True):
            self.make_room(1)
            self.size, slot = kernels.insert(self.losses, self.slots, self.size, point)
            if slot != kernels.REJECTED:
                self.genomes[slot] = assignment
                added += 1
        return added

    def holds(self, points: Floats) -> bool:
        """Whether each of (k, 3) losses is in the archive."""
        stored = {*map(tuple, self.losses[: self.size].tolist())}
        return {*map(tuple, points.tolist())} <= stored

    def make_room(self, more: int) -> None:
        """Grow the arrays for a number of new points, or reduce the archive at the limit."""
        if self.size + more > self.limit:
            self._keep(representatives(self.losses[: self.size], max(self.limit * 3 // 4, 1)))
        capacity = len(self.slots)
        if self.size + more <= capacity:
            return
        wider = max(2 * capacity, self.size + more, 64)
        self.losses = np.concatenate([self.losses, np.empty((wider - capacity, 3))])
        self.slots = np.concatenate([self.slots, np.arange(capacity, wider)])
        added = np.empty((wider - capacity, self.genomes.shape[1]), dtype=np.int32)
        self.genomes = np.concatenate([self.genomes, added])

    def _keep(self, chosen: Ints) -> None:
        rest = np.setdiff1d(np.arange(len(self.slots)), chosen)
        order = np.concatenate([chosen, rest])
        self.losses, self.slots, self.size = self.losses[order], self.slots[order], chosen.size

    def hypervolume(self) -> float:
        """Volume between the points and `REFERENCE`."""
        return hypervolume(self.losses[: self.size])

    def front(
        self,
        instance: Instance,
        *,
        limit: int = MAX_SHOWN,
        generations: int = 0,
        seconds: float = 0.0,
        is_exact: bool = False,
    ) -> ParetoFront:
        """Return the current points, at most ``limit`` of them, as a version of the front."""
        from apps.placement.core.problem.evaluator import raw_values  # noqa: PLC0415 - numba

        selected = representatives(self.losses[: self.size], limit)
        assignments = self.genomes[self.slots[selected]].astype(np.int64)
        raw = raw_values(instance, assignments)
        return ParetoFront(
            raw=raw,
            normalised=raw / scales(instance),
            assignments=assignments,
            points=self.size,
            hypervolume=self.hypervolume(),
            generations=generations,
            seconds=seconds,
            is_exact=is_exact,
        )


def thinned_front(front: ParetoFront, limit: int) -> ParetoFront:
    """Return a version with at most ``limit`` evenly spread points."""
    kept = representatives(losses(front.normalised), limit)
    return replace(
        front,
        raw=front.raw[kept],
        normalised=front.normalised[kept],
        assignments=front.assignments[kept],
    )
