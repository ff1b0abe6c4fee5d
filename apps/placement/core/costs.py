"""F as solvers see it: costs per node, per slot, per split job, per move, and worth per credit.

F = Σ over open nodes (open + slot·used) − credit·D + Σ over split jobs split + move·M + rest. The
rest is what objectives add that solvers know nothing about; it is at least ``least``.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from apps.inventory.core.snapshot import Floats
from apps.placement.core.instance import Communication, Instance
from apps.placement.core.objectives import BUILT_IN, Objective, check_weights

_SPECIAL = frozenset({"D", "C", "M"})


@dataclass(frozen=True, slots=True, eq=False)
class Costs:
    """Coefficients of F, all >= 0 but ``least``.

    Attributes
    ----------
    open, slot : (n,) cost of a node that holds a container, and of each container there
    credit : worth of one unit of D
    split : (j,) cost of a job that is not where it counts as wishing to be; 0 where it is neutral
    move : cost of a container that leaves its node
    least : what objectives without rates add at least: minus their weight if higher is better
    beta : weight of D, which turns F into a ratio scale: F + beta >= 0 (of the three built in)
    """

    open: Floats
    slot: Floats
    credit: float
    split: Floats
    move: float
    least: float
    beta: float


def costs(
    instance: Instance,
    weights: Mapping[str, float],
    objectives: Mapping[str, Objective] = BUILT_IN,
) -> Costs:
    """Return the coefficients of F for these weights.

    Raises
    ------
    ValueError : weights of unknown objectives, or negative.
    """
    check_weights(weights, objectives)
    each = {
        name: _each(instance, objectives[name], weight)
        for name, weight in weights.items()
        if weight
    }
    rate: Floats = np.zeros(len(instance.node_ids))
    least = 0.0
    for name in each.keys() - _SPECIAL:
        objective = objectives[name]
        if objective.rates is not None:
            rate = rate + each[name] * objective.rates(instance)
        elif objective.is_higher_better and each[name] > 0.0:
            least -= weights[name]
    wishes = instance.counts_as != Communication.CLUSTER
    return Costs(
        open=rate * instance.idle_watts,
        slot=rate * (instance.peak_watts - instance.idle_watts) / instance.slots,
        credit=each.get("D", 0.0),
        split=each.get("C", 0.0) * instance.size * wishes,
        move=each.get("M", 0.0),
        least=least,
        beta=weights.get("D", 0.0),
    )


def _each(instance: Instance, objective: Objective, weight: float) -> float:
    """Return what one unit of the raw value adds to F, without its sign."""
    scale = objective.scale(instance)
    return weight / scale if scale > 0.0 else 0.0
