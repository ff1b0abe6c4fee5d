"""A bound for identical nodes and two intensities, exact but for where racks and nodes end.

Only counts matter then (limits.md §3; ClavisMO §3.2 counts pairs for the same reason). k slots a
node; T tazes, c containers. Let p tazes be protected: each is the only taz of its node. A node job
kept on one node without being protected by it brings tazes and turtles into a node of others;
those turtles are *stuck*: no protected taz can have them as guests. The nodes without a protected
taz hold all other T − p tazes and all s stuck turtles, and all nodes hold c containers, so

    N >= p + ⌈(T − p + s)/k⌉   and   N >= ⌈c/k⌉,   that is   N >= ⌈max(c, T + w)/k⌉

with the weight w = (k − 1)·p + s, a sum over jobs. A job's choice (protected or not, whole or
split) has a weight and a value (credits lost, cost of a split); a choice that no rack or node can
hold is not offered. A job of t turtles and d exposed tazes that stays whole in a rack of n nodes
has stuck turtles too: with x of them among others, (t − x)/(k − 1) nodes have a host of its own
and (x + d)/k have none, which is at most n when x >= k·t + (k − 1)·d − k·(k − 1)·n.

The least value for each total weight is a knapsack; the least of F over all weights is a lower
bound on F, because every placement makes such a choice for each job.
"""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from apps.inventory.core.snapshot import Floats, Ints
from apps.placement.core.costs import Costs
from apps.placement.core.instance import Communication, Instance

Bytes = NDArray[np.int8]

_MOST_CELLS: Final = 100_000_000  # of the table: a byte each, and a few seconds


class Choice(NamedTuple):
    """One way to treat a job: what it weighs, what it adds to F."""

    weight: int
    value: float
    is_protected: bool
    is_whole: bool


class Bound(NamedTuple):
    """The least F can be, and choices by job that would reach it if racks allow.

    Attributes
    ----------
    value : lower bound on F
    choices : one by job
    nodes : how many nodes those choices need
    """

    value: float
    choices: list[Choice]
    nodes: int


class Profile(NamedTuple):
    """An instance to which the knapsack applies.

    Attributes
    ----------
    slots : k, the same on every node
    tazes : (j,) of each job
    level : intensity of every taz, > 0; turtles have none
    """

    slots: int
    tazes: Ints
    level: float


def profile(instance: Instance, costs: Costs) -> Profile | None:
    """Say whether the knapsack applies: identical nodes, all tazes alike, turtles without load."""
    if not _is_uniform(instance.slots, costs.open, costs.slot) or costs.move > 0.0:
        return None
    levels = instance.intensity[instance.is_taz]
    is_plain = levels.size == 0 or (levels[0] > 0.0 and bool((levels == levels[0]).all()))
    if not is_plain or instance.intensity[~instance.is_taz].any():
        return None
    tazes: Ints = np.bincount(instance.job[instance.is_taz], minlength=len(instance.job_ids))
    slots = int(instance.slots[0]) if instance.slots.size else 1
    if slots * instance.job.size * instance.size.size > _MOST_CELLS:
        return None
    return Profile(slots, tazes, float(levels[0]) if levels.size else 0.0)


def choices(instance: Instance, costs: Costs, known: Profile) -> list[list[Choice]]:
    """Offer the choices of each job that some placement could make."""
    widest = int(np.bincount(instance.rack).max(initial=0))
    worth = costs.credit * known.level
    offered = []
    each = zip(
        instance.size.tolist(),
        known.tazes.tolist(),
        instance.counts_as.tolist(),
        costs.split.tolist(),
        strict=True,
    )
    for size, tazes, wish, split in each:
        if wish == Communication.NODE and size > 1:
            offered.append(_node_choices(size, tazes, split, worth, known.slots))
        elif wish == Communication.RACK and size > 1:
            offered.append(_rack_choices(size, tazes, split, worth, (known.slots, widest)))
        else:
            offered.append(_choices(tazes, worth, known.slots))
    return offered


def _choices(tazes: int, worth: float, slots: int) -> list[Choice]:
    """Offer the choices of a job that may be anywhere."""
    spread = Choice((slots - 1) * tazes, -worth * tazes, True, True)
    return [Choice(0, 0.0, False, True), spread] if tazes else [spread]


def _rack_choices(
    size: int, tazes: int, split: float, worth: float, rack: tuple[int, int]
) -> list[Choice]:
    """Offer the choices of a job that wishes to stay in one rack, and fits one."""
    slots, nodes = rack
    turtles, closed = size - tazes, slots * (slots - 1) * nodes
    outside = [
        choice._replace(value=choice.value + split, is_whole=False)
        for choice in _choices(tazes, worth, slots)
    ]
    stuck = min(max(0, slots * turtles - closed), turtles)
    spread = Choice((slots - 1) * tazes + stuck, -worth * tazes, True, True)
    inside = [spread] if tazes <= nodes else []
    if tazes:
        stuck = min(max(0, slots * turtles + (slots - 1) * tazes - closed), turtles)
        inside.insert(0, Choice(stuck, 0.0, False, True))
    # a split that weighs as much as staying whole is never better
    same = {(choice.weight, choice.is_protected) for choice in inside}
    return [*inside, *(c for c in outside if (c.weight, c.is_protected) not in same)]


def _node_choices(size: int, tazes: int, split: float, worth: float, slots: int) -> list[Choice]:
    """Offer the choices of a job that wishes to stay on one node, and fits one."""
    apart = Choice((slots - 1) * tazes, split - worth * tazes, True, False)
    if tazes == 0:
        # a whole node of turtles has no room for a taz; a smaller group may be guests together
        together = Choice(size if size == slots else 0, 0.0, True, True)
        return [together, apart] if together.weight else [together]
    if tazes == 1:
        alone = Choice(slots - 1, -worth, True, True)
        crowd = [Choice(size - 1, 0.0, False, True)] if size < slots else []
        return [Choice(0, split, False, False), *crowd, alone]
    return [Choice(size - tazes, 0.0, False, True), Choice(0, split, False, False), apart]


def bound(instance: Instance, costs: Costs, known: Profile) -> Bound:
    """Return the least F over all total weights that the nodes can carry. O(j·k·n) time."""
    offered = choices(instance, costs, known)
    tazes, count = int(known.tazes.sum()), int(instance.job.size)
    heaviest = sum(max(choice.weight for choice in options) for options in offered)
    room = min(known.slots * len(instance.node_ids) - tazes, heaviest)
    least, taken = _knapsack(offered, room)
    needed = -(-np.maximum(count, tazes + np.arange(room + 1)) // known.slots)
    opened, used = (float(each[0]) if each.size else 0.0 for each in (costs.open, costs.slot))
    values = least + opened * needed
    weight = int(values.argmin())
    chosen = _chosen(offered, taken, weight)
    value = float(values[weight]) + used * count + costs.least
    return Bound(value, chosen, int(needed[weight]))


def _knapsack(offered: list[list[Choice]], room: int) -> tuple[Floats, list[Bytes | None]]:
    """(room + 1,) least value by total weight, and the choice of each job at each weight."""
    least: Floats = np.full(room + 1, np.inf)
    least[0] = 0.0
    taken: list[Bytes | None] = []
    for options in offered:
        if len(options) == 1:
            least = _shifted(least, options[0])
            taken.append(None)
            continue
        best = _shifted(least, options[0])
        choice = np.zeros(best.size, dtype=np.int8)
        for number, option in enumerate(options[1:], start=1):
            other = _shifted(least, option)
            choice[other < best] = number
            best = np.minimum(best, other)
        least = best
        taken.append(choice)
    return least, taken


def _shifted(least: Floats, option: Choice) -> Floats:
    if option.weight == 0:
        return least + option.value
    moved: Floats = np.full(least.size, np.inf)
    if option.weight < least.size:
        moved[option.weight :] = least[: -option.weight] + option.value
    return moved


def _chosen(offered: list[list[Choice]], taken: list[Bytes | None], weight: int) -> list[Choice]:
    """Walk back from the total weight to the choice of each job."""
    chosen = []
    for options, best in zip(reversed(offered), reversed(taken), strict=True):
        choice = options[0] if best is None else options[int(best[weight])]
        chosen.append(choice)
        weight -= choice.weight
    chosen.reverse()
    return chosen


def _is_uniform(*columns: "Floats | Ints") -> bool:
    return all(column.size == 0 or bool((column == column[0]).all()) for column in columns)
