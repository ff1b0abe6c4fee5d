"""F as solvers see it: what nodes, containers, split jobs and migrations cost, and D is worth.

F = Σ over open nodes (open + slot·used) − credit·D + Σ over split jobs split + migration·M
+ other.
``other`` sums the objectives that solvers cannot model; it is at least ``other_min``.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np

from apps.common.core.arrays import as_readonly
from apps.inventory.core.snapshot import Floats
from apps.placement.core.problem.instance import Communication, Instance
from apps.placement.core.problem.objectives import BUILT_IN, Objective, check_weights

_MODELLED: Final = frozenset({"D", "C", "M"})  # apart from the objectives with rates


class Costs(NamedTuple):
    """Coefficients of F, all >= 0 except ``other_min``; kernels read them as they are.

    Attributes
    ----------
    open, slot : (n,) cost of a node that holds a container, and of each container on it
    credit : worth of one unit of D
    split : (j,) cost of a job outside its effective communication; 0 for ``cluster`` jobs
    migration : cost of a container that leaves its node
    other_min : lower bound on objectives without rates: minus their weight if higher is better
    beta : weight of D, which turns F into a ratio scale: F + beta >= 0 (built-in objectives)
    """

    open: Floats
    slot: Floats
    credit: float
    split: Floats
    migration: float
    other_min: float
    beta: float


def costs(
    instance: Instance,
    weights: Mapping[str, float],
    objectives: Mapping[str, Objective] = BUILT_IN,
) -> Costs:
    """Return the coefficients of F for these weights.

    Raises
    ------
    ValueError : a weight is negative, or names an unknown objective.
    """
    check_weights(weights, objectives)
    per_unit = {
        name: _cost_per_unit(instance, objectives[name], weight)
        for name, weight in weights.items()
        if weight
    }
    rate: Floats = np.zeros(len(instance.node_ids))
    other_min = 0.0
    for name in per_unit.keys() - _MODELLED:
        objective = objectives[name]
        if objective.rates is not None:
            rate = rate + per_unit[name] * objective.rates(instance)
        elif objective.is_higher_better and per_unit[name] > 0.0:
            other_min -= weights[name]
    is_sensitive = instance.effective_communication != Communication.CLUSTER
    return Costs(
        open=as_readonly(rate * instance.idle_watts),
        slot=as_readonly(rate * (instance.peak_watts - instance.idle_watts) / instance.slots),
        credit=float(per_unit.get("D", 0.0)),
        split=as_readonly(per_unit.get("C", 0.0) * instance.size * is_sensitive, np.float64),
        migration=float(per_unit.get("M", 0.0)),
        other_min=other_min,
        beta=float(weights.get("D", 0.0)),
    )


def _cost_per_unit(instance: Instance, objective: Objective, weight: float) -> float:
    """Return the cost of one unit of the raw value, without its sign."""
    scale = objective.scale(instance)
    return weight / scale if scale > 0.0 else 0.0
