"""The exact front of class counts: what P, D and C can be, but for where racks and nodes end.

With identical nodes and two intensities only counts matter, and `knapsack` offers every job's
choices: each protects tazes or not, weighs on the nodes, and costs a split or not. Here all three
are kept apart: the least C for every number of protected tazes p and stuck turtles s, then of
every N = ⌈max(c, T + (k−1)·p + s)/k⌉ nodes. No placement is better than a point of this front in
everything; whether racks allow a point is seen when it is packed (`placed`).

Source: limits.md §3; ClavisMO §3.2 counts pairs for the same reason.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from apps.inventory.core.snapshot import Floats, Ints
from apps.placement.core.costs import Costs, costs
from apps.placement.core.instance import Instance
from apps.placement.core.knapsack import Choice, Profile, choices, profile
from apps.placement.core.objectives import BUILT_IN
from apps.placement.core.packing import place, plan_of

if TYPE_CHECKING:
    from apps.placement.core.counts_kernels import Options, Tables


@dataclass(frozen=True, slots=True, eq=False)
class CountsFront:
    """The front of class counts; ascending by nodes, then descending by D.

    Attributes
    ----------
    raw : (k, 3) P, D, C
    nodes, protected : (k,) nodes and protected tazes of each point
    """

    raw: Floats
    nodes: Ints
    protected: Ints
    _made: "_Made"

    def choices(self, point: int) -> list[Choice]:
        """Return the choice of each job that leads to one of the points. O(j·stuck turtles)."""
        from apps.placement.core import counts_kernels as kernels  # noqa: PLC0415 - numba

        made = self._made
        spare = made.slack(int(self.nodes[point]), int(self.protected[point]))
        picked = kernels.walk_back(
            made.options, made.tables, int(self.protected[point]), spare, self.raw[point, 2]
        )
        first = made.options.first[:-1]
        return [
            offered[int(pick - begin)]
            for offered, pick, begin in zip(made.offered, picked, first, strict=True)
        ]


class _Made(NamedTuple):
    """What a point's choices are found again from."""

    known: Profile
    tazes: int
    offered: list[list[Choice]]
    options: "Options"
    tables: "Tables"

    def slack(self, nodes: int, protected: int) -> int:
        """Return how many stuck turtles so many nodes have room for."""
        k = self.known.slots
        return k * nodes - self.tazes - (k - 1) * protected


def counts_front(instance: Instance) -> CountsFront | None:
    """Return the front of class counts, or None where nodes or intensities differ.

    O(jobs·tazes + tazes·stuck turtles + nodes·tazes) time, with no jobs that bring both.
    """
    from apps.placement.core import counts_kernels as kernels  # noqa: PLC0415 - numba

    counting = _costs(instance)
    known = profile(instance, counting)
    if known is None:
        return None
    offered = choices(instance, counting, known)
    options = _options(offered, known)
    tables = kernels.fill(options)
    tazes, count = int(known.tazes.sum()), int(instance.job.size)
    least = -(-count // known.slots)
    found = kernels.sweep(tables.least, known.slots, tazes, least, len(instance.node_ids))
    nodes, protected = found[:, 0].astype(np.int64), found[:, 1].astype(np.int64)
    watts, more = _watts(instance)
    raw = np.stack([watts * nodes + more * count, known.level * protected, found[:, 2]], axis=1)
    return CountsFront(raw, nodes, protected, _Made(known, tazes, offered, options, tables))


def placed(instance: Instance, front: CountsFront, point: int) -> Ints:
    """(c,) a placement packed by the choices of a point; it may miss the point where racks end."""
    return place(instance, _costs(instance), plan_of(instance, front.choices(point)))


def _costs(instance: Instance) -> Costs:
    """Costs under which a choice's value is its C, and nodes are as dear as their watts."""
    return costs(instance, {"P": 1.0, "C": BUILT_IN["C"].scale(instance)})


def _watts(instance: Instance) -> tuple[float, float]:
    """Watts of an open node, and of each container on it."""
    if not instance.slots.size:
        return 0.0, 0.0
    span = float(instance.peak_watts[0] - instance.idle_watts[0])
    return float(instance.idle_watts[0]), span / float(instance.slots[0])


def _options(offered: list[list[Choice]], known: Profile) -> "Options":
    """Lay the choices side by side."""
    from apps.placement.core.counts_kernels import Options  # noqa: PLC0415 - numba

    each = [
        (tazes if choice.is_protected else 0, choice.weight, choice.value)
        for tazes, options in zip(known.tazes.tolist(), offered, strict=True)
        for choice in options
    ]
    columns = np.array(each, dtype=np.float64).reshape(len(each), 3)
    protected = columns[:, 0].astype(np.int64)
    stuck = columns[:, 1].astype(np.int64) - (known.slots - 1) * protected
    ends = np.cumsum([len(options) for options in offered], dtype=np.int64)
    return Options(np.append(np.int64(0), ends), protected, stuck, np.round(columns[:, 2]))
