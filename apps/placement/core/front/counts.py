"""The exact front of class counts: the possible P, D and C, except for rack and node boundaries.

With identical nodes and two intensities only counts matter, and `knapsack` lists the options of
every job: each protects tazes or not, weighs on the nodes, and costs a split or not. Here these
three are separate: the minimum C for every number of protected tazes p and stuck turtles s, then
for every N = ⌈max(c, T + (k−1)·p + s)/k⌉ nodes. No placement dominates a point of this front.
Racks may rule a point out; packing it (`pack_point`) shows that.

Source: ClavisMO §3.2 counts pairs for the same reason.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from apps.inventory.core.snapshot import Floats, Ints
from apps.placement.core.problem.costs import Costs, costs
from apps.placement.core.problem.instance import Instance
from apps.placement.core.problem.objectives import BUILT_IN
from apps.placement.core.solver.knapsack import (
    JobOption,
    KnapsackModel,
    job_options,
    knapsack_model,
)
from apps.placement.core.solver.packing import pack
from apps.placement.core.solver.racks import role_plan

if TYPE_CHECKING:
    from apps.placement.core.front.counts_kernels import CostTables, OptionTable


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
    _tables: "_CountsTables"

    def options(self, point: int) -> list[JobOption]:
        """Return the option of each job that leads to a point. O(j·stuck turtles)."""
        from apps.placement.core.front import counts_kernels as kernels  # noqa: PLC0415 - numba

        tables, protected = self._tables, int(self.protected[point])
        max_stuck = tables.max_stuck(int(self.nodes[point]), protected)
        numbers = kernels.walk_back(
            tables.options, tables.costs, protected, max_stuck, self.raw[point, 2]
        )
        first = tables.options.first[:-1]
        return [
            options[int(number - begin)]
            for options, number, begin in zip(tables.by_job, numbers, first, strict=True)
        ]


class _CountsTables(NamedTuple):
    """The tables from which the options of a point are reconstructed."""

    model: KnapsackModel
    tazes: int
    by_job: list[list[JobOption]]
    options: "OptionTable"
    costs: "CostTables"

    def max_stuck(self, nodes: int, protected: int) -> int:
        """Return the number of stuck turtles for which the nodes have slots."""
        k = self.model.slots
        return k * nodes - self.tazes - (k - 1) * protected


def counts_front(instance: Instance) -> CountsFront | None:
    """Return the front of class counts, or None if nodes or intensities differ.

    O(jobs·tazes + tazes·stuck turtles + nodes·tazes) time if no job has both.
    """
    from apps.placement.core.front import counts_kernels as kernels  # noqa: PLC0415 - numba

    counting = _counting_costs(instance)
    model = knapsack_model(instance, counting)
    if model is None:
        return None
    by_job = job_options(instance, counting, model)
    options = _option_table(by_job, model)
    tables = kernels.fill(options)
    tazes, count = int(model.tazes.sum()), int(instance.job.size)
    min_nodes = -(-count // model.slots)
    points = kernels.sweep(tables.min_cost, model.slots, tazes, min_nodes, len(instance.node_ids))
    nodes, protected = points[:, 0].astype(np.int64), points[:, 1].astype(np.int64)
    node_watts, container_watts = _watts(instance)
    watts = node_watts * nodes + container_watts * count
    raw = np.stack([watts, model.taz_intensity * protected, points[:, 2]], axis=1)
    return CountsFront(raw, nodes, protected, _CountsTables(model, tazes, by_job, options, tables))


def pack_point(instance: Instance, front: CountsFront, point: int) -> Ints:
    """(c,) a placement packed by a point's options; because of racks it may miss the point."""
    return pack(instance, _counting_costs(instance), role_plan(instance, front.options(point)))


def _counting_costs(instance: Instance) -> Costs:
    """Return costs under which the value of an option is its C, and nodes cost their watts."""
    return costs(instance, {"P": 1.0, "C": BUILT_IN["C"].scale(instance)})


def _watts(instance: Instance) -> tuple[float, float]:
    """Return the watts of an open node, and of each container on it."""
    if not instance.slots.size:
        return 0.0, 0.0
    span = float(instance.peak_watts[0] - instance.idle_watts[0])
    return float(instance.idle_watts[0]), span / float(instance.slots[0])


def _option_table(by_job: list[list[JobOption]], model: KnapsackModel) -> "OptionTable":
    """Return the options of all jobs as columns."""
    from apps.placement.core.front.counts_kernels import OptionTable  # noqa: PLC0415 - numba

    rows = [
        (tazes if option.is_protected else 0, option.weight, option.value)
        for tazes, options in zip(model.tazes.tolist(), by_job, strict=True)
        for option in options
    ]
    columns = np.array(rows, dtype=np.float64).reshape(len(rows), 3)
    protected = columns[:, 0].astype(np.int64)
    stuck = columns[:, 1].astype(np.int64) - (model.slots - 1) * protected
    ends = np.cumsum([len(options) for options in by_job], dtype=np.int64)
    return OptionTable(np.append(np.int64(0), ends), protected, stuck, np.round(columns[:, 2]))
