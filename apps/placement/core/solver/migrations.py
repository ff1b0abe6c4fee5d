"""Few migrations from one placement to another, in an order in which each fits.

Solutions are symmetric: identical nodes of a rack, identical racks, and identical containers of a
job can be swapped without changing F. `relabel` swaps them so that most containers keep their
nodes; `ordered_migrations` lists the migrations that are left. n nodes, R racks, c
containers, j jobs. Source: C7; the swaps are an assignment problem (Kuhn 1955).
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
import scipy

from apps.inventory.core.snapshot import Floats, Ints
from apps.placement.core.problem.instance import NOWHERE, Instance


class ContainerMigration(NamedTuple):
    """One container from one node to another; indices into the arrays of the instance."""

    container: int
    source: int
    target: int


def relabel(instance: Instance, assignment: Ints) -> Ints:
    """(c,) an assignment with the same P, D and C that needs fewer migrations.

    O(R³ + n³/R² + c); containers that do not run yet keep their node of the assignment.
    """
    kinds = _node_kinds(instance)
    groups = _groups(zip(instance.job, instance.intensity, instance.is_taz, strict=True))
    rack_of = _pair(
        _rack_kinds(instance, kinds),
        _held(instance, groups, instance.rack[assignment], len(instance.rack_ids)),
        _held(instance, groups, instance.rack[instance.current], len(instance.rack_ids)),
    )
    present = _held(instance, groups, instance.current, instance.slots.size)
    intended = _held(instance, groups, assignment, instance.slots.size)
    node_of: Ints = np.empty(instance.slots.size, dtype=np.int64)
    for rack, other in enumerate(rack_of.tolist()):
        for kind in np.unique(kinds[instance.rack == rack]).tolist():
            nodes = np.flatnonzero((instance.rack == rack) & (kinds == kind))
            targets = np.flatnonzero((instance.rack == other) & (kinds == kind))
            alike: list[Hashable] = [0] * nodes.size
            pairs = _pair(alike, intended[nodes], present[targets])
            node_of[nodes] = targets[pairs]
    return _keep_current(instance, groups, node_of[assignment])


def ordered_migrations(instance: Instance, assignment: Ints) -> list[ContainerMigration]:
    """Return the migrations to an assignment; each fits once those before it are done.

    To break a cycle, one container goes through a free slot; without a free slot the cycle is left
    out. O(migrations²) at worst.
    """
    at = instance.current.copy()
    used = np.bincount(at[at != NOWHERE], minlength=instance.slots.size)
    free = instance.slots - used
    migrations: list[ContainerMigration] = []

    def move(container: int, target: int) -> None:
        migrations.append(ContainerMigration(container, int(at[container]), target))
        free[at[container]] += 1
        free[target] -= 1
        at[container] = target

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
    return migrations


def _node_kinds(instance: Instance) -> Ints:
    """(n,) the same number for nodes that differ only in their rack."""
    facts = np.stack([instance.slots, instance.idle_watts, instance.peak_watts], axis=1)
    _, kinds = np.unique(facts, axis=0, return_inverse=True)
    numbers: Ints = kinds.reshape(-1).astype(np.int64)
    return numbers


def _rack_kinds(instance: Instance, kinds: Ints) -> list[Hashable]:
    """(R,) the same value for racks with equally many nodes of each kind."""
    return [
        tuple(np.bincount(kinds[instance.rack == rack], minlength=int(kinds.max()) + 1).tolist())
        for rack in range(len(instance.rack_ids))
    ]


def _held(instance: Instance, alike: Sequence[list[int]], place: Ints, places: int) -> Floats:
    """(places, groups) running containers of each group in each place."""
    group: Ints = np.empty(place.size, dtype=np.int64)
    for number, members in enumerate(alike):
        group[members] = number
    runs = instance.current != NOWHERE
    held: Floats = np.zeros((places, len(alike)))
    np.add.at(held, (place[runs], group[runs]), 1.0)
    return held


def _pair(kinds: Sequence[Hashable], intended: Floats, present: Floats) -> Ints:
    """(m,) for each place the target of its kind that already holds most of its containers."""
    pairs: Ints = np.arange(len(kinds))
    by_kind: defaultdict[Hashable, list[int]] = defaultdict(list)
    for place, kind in enumerate(kinds):
        by_kind[kind].append(place)
    for places in by_kind.values():
        shared = np.array(
            [np.minimum(intended[place], present[places]).sum(axis=1) for place in places]
        )
        rows, columns = scipy.optimize.linear_sum_assignment(shared, maximize=True)
        pairs[np.array(places)[rows]] = np.array(places)[columns]
    return pairs


def _keep_current(instance: Instance, groups: Sequence[list[int]], assignment: Ints) -> Ints:
    """(c,) with identical containers of a job swapped, so that most keep their nodes."""
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
    positions: defaultdict[Hashable, list[int]] = defaultdict(list)
    for position, value in enumerate(values):
        positions[value].append(position)
    return list(positions.values())
