"""A bound for identical nodes and two intensities, exact except for rack and node boundaries.

Only counts matter then (ClavisMO §3.2 counts pairs for the same reason). k slots per node; T
tazes, c containers. Let p tazes be protected: each is the only taz of its node. A ``node`` job
that stays on one node unprotected shares it with tazes; its turtles are *stuck*: they cannot be
guests of a protected taz. The nodes without a protected taz hold all other T − p tazes and all s
stuck turtles, and all nodes hold c containers, so

    N >= p + ⌈(T − p + s)/k⌉   and   N >= ⌈c/k⌉,   that is   N >= ⌈max(c, T + w)/k⌉

with the weight w = (k − 1)·p + s, a sum over jobs. An option of a job (protected or not, whole or
split) has a weight and a value (credits lost, cost of a split); options that no rack or node can
hold are excluded. A job of t turtles and d exposed tazes that stays whole in a rack of n nodes
has stuck turtles too: if x of them are stuck, (t − x)/(k − 1) nodes have one of its hosts and
(x + d)/k have none, which is at most n if x >= k·t + (k − 1)·d − k·(k − 1)·n.

The minimum value for each total weight is a knapsack. The minimum of F over all weights is a lower
bound on F, because every placement implies one option for each job.
"""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from apps.inventory.core.snapshot import Floats, Ints
from apps.placement.core.problem.costs import Costs
from apps.placement.core.problem.instance import Communication, Instance

Bytes = NDArray[np.int8]

_MAX_CELLS: Final = 100_000_000  # of the table: a byte each, and a few seconds


class JobOption(NamedTuple):
    """One way to place a job: its weight in the knapsack, and what it adds to F."""

    weight: int
    value: float
    is_protected: bool
    is_whole: bool


class KnapsackBound(NamedTuple):
    """A lower bound on F, and options by job that attain it if racks allow.

    Attributes
    ----------
    value : lower bound on F
    options : one for each job
    nodes : number of nodes that these options need
    """

    value: float
    options: list[JobOption]
    nodes: int


class KnapsackModel(NamedTuple):
    """An instance to which the knapsack applies.

    Attributes
    ----------
    slots : k, the same on every node
    tazes : (j,) of each job
    taz_intensity : of every taz, > 0; turtles have 0
    """

    slots: int
    tazes: Ints
    taz_intensity: float


def knapsack_model(instance: Instance, costs: Costs) -> KnapsackModel | None:
    """Return the model, or None unless nodes and tazes are identical and turtles have none."""
    if not _is_uniform(instance.slots, costs.open, costs.slot) or costs.migration > 0.0:
        return None
    levels = instance.intensity[instance.is_taz]
    is_plain = levels.size == 0 or (levels[0] > 0.0 and bool((levels == levels[0]).all()))
    if not is_plain or instance.intensity[~instance.is_taz].any():
        return None
    tazes: Ints = np.bincount(instance.job[instance.is_taz], minlength=len(instance.job_ids))
    slots = int(instance.slots[0]) if instance.slots.size else 1
    if slots * instance.job.size * instance.size.size > _MAX_CELLS:
        return None
    return KnapsackModel(slots, tazes, float(levels[0]) if levels.size else 0.0)


def job_options(instance: Instance, costs: Costs, model: KnapsackModel) -> list[list[JobOption]]:
    """Return the options of each job that some placement could use."""
    widest = int(np.bincount(instance.rack).max(initial=0))
    taz_credit = costs.credit * model.taz_intensity
    by_job = []
    each = zip(
        instance.size.tolist(),
        model.tazes.tolist(),
        instance.effective_communication.tolist(),
        costs.split.tolist(),
        strict=True,
    )
    for size, tazes, scope, split in each:
        if scope == Communication.NODE and size > 1:
            by_job.append(_node_options(size, tazes, split, taz_credit, model.slots))
        elif scope == Communication.RACK and size > 1:
            by_job.append(_rack_options(size, tazes, split, taz_credit, (model.slots, widest)))
        else:
            by_job.append(_cluster_options(tazes, taz_credit, model.slots))
    return by_job


def _cluster_options(tazes: int, taz_credit: float, slots: int) -> list[JobOption]:
    """Return the options of a ``cluster`` job."""
    spread = JobOption((slots - 1) * tazes, -taz_credit * tazes, True, True)
    return [JobOption(0, 0.0, False, True), spread] if tazes else [spread]


def _rack_options(
    size: int, tazes: int, split: float, taz_credit: float, rack: tuple[int, int]
) -> list[JobOption]:
    """Return the options of a ``rack`` job that fits in a rack."""
    slots, nodes = rack
    turtles, closed = size - tazes, slots * (slots - 1) * nodes
    outside = [
        option._replace(value=option.value + split, is_whole=False)
        for option in _cluster_options(tazes, taz_credit, slots)
    ]
    stuck = min(max(0, slots * turtles - closed), turtles)
    spread = JobOption((slots - 1) * tazes + stuck, -taz_credit * tazes, True, True)
    inside = [spread] if tazes <= nodes else []
    if tazes:
        stuck = min(max(0, slots * turtles + (slots - 1) * tazes - closed), turtles)
        inside.insert(0, JobOption(stuck, 0.0, False, True))
    # a split of the same weight as staying whole is never better
    same = {(option.weight, option.is_protected) for option in inside}
    return [*inside, *(o for o in outside if (o.weight, o.is_protected) not in same)]


def _node_options(
    size: int, tazes: int, split: float, taz_credit: float, slots: int
) -> list[JobOption]:
    """Return the options of a ``node`` job that fits on a node."""
    apart = JobOption((slots - 1) * tazes, split - taz_credit * tazes, True, False)
    if tazes == 0:
        # turtles that fill a node leave no slot for a taz; fewer of them may be guests together
        together = JobOption(size if size == slots else 0, 0.0, True, True)
        return [together, apart] if together.weight else [together]
    if tazes == 1:
        alone = JobOption(slots - 1, -taz_credit, True, True)
        crowd = [JobOption(size - 1, 0.0, False, True)] if size < slots else []
        return [JobOption(0, split, False, False), *crowd, alone]
    return [JobOption(size - tazes, 0.0, False, True), JobOption(0, split, False, False), apart]


def knapsack_bound(instance: Instance, costs: Costs, model: KnapsackModel) -> KnapsackBound:
    """Return the minimum of F over all total weights that the nodes can hold. O(j·k·n) time."""
    by_job = job_options(instance, costs, model)
    tazes, count = int(model.tazes.sum()), int(instance.job.size)
    max_weight = sum(max(option.weight for option in options) for options in by_job)
    capacity = min(model.slots * len(instance.node_ids) - tazes, max_weight)
    min_value, best_options = _knapsack(by_job, capacity)
    needed = -(-np.maximum(count, tazes + np.arange(capacity + 1)) // model.slots)
    opened, used = (float(each[0]) if each.size else 0.0 for each in (costs.open, costs.slot))
    values = min_value + opened * needed
    weight = int(values.argmin())
    chosen = _chosen(by_job, best_options, weight)
    value = float(values[weight]) + used * count + costs.other_min
    return KnapsackBound(value, chosen, int(needed[weight]))


def _knapsack(by_job: list[list[JobOption]], capacity: int) -> tuple[Floats, list[Bytes | None]]:
    """(capacity + 1,) minimum value by total weight, and the option of each job at each weight."""
    min_value: Floats = np.full(capacity + 1, np.inf)
    min_value[0] = 0.0
    best_options: list[Bytes | None] = []
    for options in by_job:
        if len(options) == 1:
            min_value = _shifted(min_value, options[0])
            best_options.append(None)
            continue
        best = _shifted(min_value, options[0])
        choice = np.zeros(best.size, dtype=np.int8)
        for number, option in enumerate(options[1:], start=1):
            other = _shifted(min_value, option)
            choice[other < best] = number
            best = np.minimum(best, other)
        min_value = best
        best_options.append(choice)
    return min_value, best_options


def _shifted(min_value: Floats, option: JobOption) -> Floats:
    if option.weight == 0:
        return min_value + option.value
    shifted: Floats = np.full(min_value.size, np.inf)
    if option.weight < min_value.size:
        shifted[option.weight :] = min_value[: -option.weight] + option.value
    return shifted


def _chosen(
    by_job: list[list[JobOption]], best_options: list[Bytes | None], weight: int
) -> list[JobOption]:
    """Walk back from the total weight to the option of each job."""
    chosen = []
    for options, best in zip(reversed(by_job), reversed(best_options), strict=True):
        option = options[0] if best is None else options[int(best[weight])]
        chosen.append(option)
        weight -= option.weight
    chosen.reverse()
    return chosen


def _is_uniform(*columns: "Floats | Ints") -> bool:
    return all(column.size == 0 or bool((column == column[0]).all()) for column in columns)
