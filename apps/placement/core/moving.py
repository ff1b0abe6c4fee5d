"""From one placement to another with few moves, in an order in which each fits.

A solver's answer names nodes as it pleases: equal nodes of a rack, equal racks, and containers of
one job that are alike can trade places without changing F. `relabelled` trades them so that most
containers stay where they are, `in_order` lists the moves that are left. n nodes, R racks, c
containers, j jobs. Source: C7; the trade is an assignment problem (Kuhn 1955).
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

from apps.inventory.core.snapshot import Floats, Ints
from apps.placement.core.instance import NOWHERE, Instance


class Step(NamedTuple):
    """One container from one node to another; indices into the instance's arrays."""

    container: int
    source: int
    to: int


def relabelled(instance: Instance, assignment: Ints) -> Ints:
    """(c,) an assignment of the same value under P, D and C, near the current one.

    O(R³ + n³/R² + c); containers that run nowhere stay where the assignment puts them.
    """
    kinds = _node_kinds(instance)
    groups = _groups(zip(instance.job, instance.intensity, instance.is_taz, strict=True))
    rack_of = _paired(
        _rack_kinds(instance, kinds),
        _held(instance, groups, instance.rack[assignment], len(instance.rack_ids)),
        _held(instance, groups, instance.rack[instance.current], len(instance.rack_ids)),
    )
    now = _held(instance, groups, instance.current, instance.slots.size)
    wanted = _held(instance, groups, assignment, instance.slots.size)
    node_of: Ints = np.empty(instance.slots.size, dtype=np.int64)
    for rack, other in enumerate(rack_of.tolist()):
        for kind in np.unique(kinds[instance.rack == rack]).tolist():
            nodes = np.flatnonzero((instance.rack == rack) & (kinds == kind))
            targets = np.flatnonzero((instance.rack == other) & (kinds == kind))
            alike: list[Hashable] = [0] * nodes.size
            paired = _paired(alike, wanted[nodes], now[targets])
            node_of[nodes] = targets[paired]
    return _kept(instance, groups, node_of[assignment])


def in_order(instance: Instance, assignment: Ints) -> list[Step]:
    """List the moves to an assignment, each of which fits once those before it are done.

    Where moves wait for each other in a circle, one container goes by way of a free slot. Where
    there is none, they are left out. O(moves²) at worst.
    """
    at = instance.current.copy()
    used = np.bincount(at[at != NOWHERE], minlength=instance.slots.size)
    free = instance.slots - used
    steps: list[Step] = []

    def move(container: int, to: int) -> None:
        steps.append(Step(container, int(at[container]), to))
        free[at[container]] += 1
        free[to] -= 1
        at[container] = to

    left = np.flatnonzero((at != NOWHERE) & (at != assignment)).tolist()
    while left:
        waiting = []
        for container in left:
            to = int(assignment[container])
            if free[to] > 0:
                move(container, to)
            else:
                waiting.append(container)
        if len(waiting) == len(left):
            spare = np.flatnonzero(free > 0)
            if not spare.size:
                break
            move(waiting[0], int(spare[0]))
        left = waiting
    return steps


def _node_kinds(instance: Instance) -> Ints:
    """(n,) equal for nodes that differ in nothing but their rack."""
    facts = np.stack([instance.slots, instance.idle_watts, instance.peak_watts], axis=1)
    _, kinds = np.unique(facts, axis=0, return_inverse=True)
    found: Ints = kinds.reshape(-1).astype(np.int64)
    return found


def _rack_kinds(instance: Instance, kinds: Ints) -> list[Hashable]:
    """(R,) equal for racks with as many nodes of each kind."""
    return [
        tuple(np.bincount(kinds[instance.rack == rack], minlength=int(kinds.max()) + 1).tolist())
        for rack in range(len(instance.rack_ids))
    ]


def _held(instance: Instance, alike: Sequence[list[int]], place: Ints, places: int) -> Floats:
    """(places, groups) containers of each group; those that run nowhere count nowhere."""
    group: Ints = np.empty(place.size, dtype=np.int64)
    for number, members in enumerate(alike):
        group[members] = number
    runs = instance.current != NOWHERE
    held: Floats = np.zeros((places, len(alike)))
    np.add.at(held, (place[runs], group[runs]), 1.0)
    return held


def _paired(kinds: Sequence[Hashable], wanted: Floats, now: Floats) -> Ints:
    """(m,) for each place the one, of its kind, that already holds most of what it is to hold."""
    paired: Ints = np.arange(len(kinds))
    by_kind: defaultdict[Hashable, list[int]] = defaultdict(list)
    for place, kind in enumerate(kinds):
        by_kind[kind].append(place)
    for places in by_kind.values():
        shared = np.array([np.minimum(wanted[place], now[places]).sum(axis=1) for place in places])
        rows, columns = linear_sum_assignment(shared, maximize=True)
        paired[np.array(places)[rows]] = np.array(places)[columns]
    return paired


def _kept(instance: Instance, groups: Sequence[list[int]], assignment: Ints) -> Ints:
    """(c,) with containers of a job that are alike traded, so that most stay where they are."""
    kept = assignment.copy()
    for alike in groups:
        places, free = assignment[alike].tolist(), list[int]()
        for container in alike:
            if int(instance.current[container]) in places:
                places.remove(int(instance.current[container]))
                kept[container] = instance.current[container]
            else:
                free.append(container)
        kept[free] = places
    return kept


def _groups(values: Iterable[Hashable]) -> list[list[int]]:
    """Positions of equal values."""
    found: defaultdict[Hashable, list[int]] = defaultdict(list)
    for position, value in enumerate(values):
        found[value].append(position)
    return list(found.values())
