"""Fronts: placements none of which is better than another in everything.

k points, c containers. Losses are what is minimised: (k, 3) normalised P, 1 − D and C, in [0, 1],
rounded to `GRAIN` so that the order of a sum decides nothing. The hypervolume is what a front and
`REFERENCE` enclose, which lies a tenth beyond the worst that can be: a full cluster has P = 1
everywhere, and its front encloses something still. Source: ClavisMO §3.1, C3; Deb et al. (2002);
the hypervolume is Zitzler and Thiele's (1999).
"""

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from apps.inventory.core.snapshot import Floats, Ints
from apps.placement.core.instance import Instance
from apps.placement.core.objectives import BUILT_IN

OBJECTIVES: Final = ("P", "D", "C")
REFERENCE: Final = (1.1, 1.1, 1.1)
GRAIN: Final = 2.0**-30
MOST_SHOWN: Final = 2_000
MOST_HELD: Final = 10_000


@dataclass(frozen=True, slots=True, eq=False)
class Front:
    """One version of a front; read-only, ascending by power.

    Attributes
    ----------
    raw, normalised : (k, 3) P, D, C
    assignments : (k, c) node of each container
    points : found in all, of which k are here
    hypervolume : of all points found, up to `REFERENCE`; thinning does not change it
    generations, seconds : it took
    is_exact : proven to be the whole front
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


def scales(instance: Instance) -> Floats:
    """(3,) what divides raw P, D and C; infinite where there is nothing to divide."""
    scale = np.array([BUILT_IN[name].scale(instance) for name in OBJECTIVES])
    return np.where(scale > 0.0, scale, np.inf)


def losses(normalised: Floats) -> Floats:
    """(k, 3) what is minimised: P, 1 − D, C, rounded to `GRAIN`."""
    turned = normalised * (1.0, -1.0, 1.0) + (0.0, 1.0, 0.0)
    rounded: Floats = np.round(turned / GRAIN) * GRAIN
    return rounded


def hypervolume(points: Floats, reference: tuple[float, float, float] = REFERENCE) -> float:
    """Volume between (k, 3) losses and a reference; points beyond it add nothing.

    Raises
    ------
    ValueError : points are not (k, 3), or not finite.
    """
    from apps.placement.core import front_kernels as kernels  # noqa: PLC0415 - numba

    if points.ndim != 2 or points.shape[1] != 3 or not np.isfinite(points).all():
        raise ValueError(f"points must be finite and (k, 3), not {points.shape}")
    ordered = np.ascontiguousarray(points[np.argsort(points[:, 0], kind="stable")])
    return kernels.hypervolume(ordered, len(ordered), np.array(reference))


def thin(points: Floats, most: int) -> Ints:
    """(≤ most,) indices of points that stand for all, ascending; all of them if they are so few.

    Fewer are always among more: thinning to 50 keeps what thinning to 200 keeps.
    """
    from apps.placement.core import front_kernels as kernels  # noqa: PLC0415 - numba

    if most < 1:
        raise ValueError(f"most must be at least 1, not {most}")
    if len(points) <= most:
        return np.arange(len(points))
    return np.sort(kernels.spread_out(np.ascontiguousarray(points), most))


def standing(points: Floats) -> Ints:
    """(k,) place of each of (k, 3) losses among those that stand for all, 0 first.

    Those below m are what `thin` keeps of m: so it can be told once, for any m.
    """
    from apps.placement.core import front_kernels as kernels  # noqa: PLC0415 - numba

    place: Ints = np.empty(len(points), dtype=np.int64)
    if len(points):
        order = kernels.spread_out(np.ascontiguousarray(points), len(points))
        place[order] = np.arange(len(points))
    return place


class Archive:
    """Placements that no other found is better than in everything; at most ``limit``.

    Above the limit it is thinned to three quarters, which costs little hypervolume.
    """

    def __init__(self, containers: int, limit: int = MOST_HELD) -> None:
        self.limit = limit
        self.size = 0
        self.losses: Floats = np.empty((0, 3))
        self.slots: Ints = np.empty(0, dtype=np.int64)
        self.genomes: Ints = np.empty((0, containers), dtype=np.int32)
        self.make_room(1)

    def offer(self, points: Floats, assignments: Ints) -> int:
        """Take those of (k, 3) losses and (k, c) assignments that nothing covers; says how many.

        Equal losses are the same point: the first stays.
        """
        from apps.placement.core import front_kernels as kernels  # noqa: PLC0415 - numba

        taken = 0
        for point, assignment in zip(points, assignments, strict=True):
            self.make_room(1)
            self.size, slot = kernels.insert(self.losses, self.slots, self.size, point)
            if slot != kernels.REJECTED:
                self.genomes[slot] = assignment
                taken += 1
        return taken

    def holds(self, points: Floats) -> bool:
        """Whether each of (k, 3) losses is one of the points."""
        held = {*map(tuple, self.losses[: self.size].tolist())}
        return {*map(tuple, points.tolist())} <= held

    def make_room(self, more: int) -> None:
        """Grow so that so many more points fit, or thin when that would be above the limit."""
        if self.size + more > self.limit:
            self._keep(thin(self.losses[: self.size], max(self.limit * 3 // 4, 1)))
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
        most: int = MOST_SHOWN,
        generations: int = 0,
        seconds: float = 0.0,
        is_exact: bool = False,
    ) -> Front:
        """Return at most so many of the points held now, as a version of its own."""
        from apps.placement.core.kernels import evaluate_all, problem  # noqa: PLC0415 - numba

        shown = thin(self.losses[: self.size], most)
        held = self.genomes[self.slots[shown]].astype(np.int64)
        raw = evaluate_all(problem(instance), held)
        return Front(
            raw=raw,
            normalised=raw / scales(instance),
            assignments=held,
            points=self.size,
            hypervolume=self.hypervolume(),
            generations=generations,
            seconds=seconds,
            is_exact=is_exact,
        )


def thinned(front: Front, most: int) -> Front:
    """Return a version with at most so many points, spread over the whole."""
    kept = thin(losses(front.normalised), most)
    return replace(
        front,
        raw=front.raw[kept],
        normalised=front.normalised[kept],
        assignments=front.assignments[kept],
    )
