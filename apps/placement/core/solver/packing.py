"""Assignment of containers to nodes, given a plan of roles and racks.

Hosts get nodes of their own, exposed tazes fill nodes together, guests join hosts. Containers
without a rack go to the rack that needs them; those that are left go to any free slot. This is a
heuristic: `objectives.evaluate` gives the value, and a placement is optimal if it meets a bound.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

import numpy as np

from apps.inventory.core.snapshot import Ints
from apps.placement.core.problem.costs import Costs
from apps.placement.core.problem.instance import NOWHERE, Communication, Instance
from apps.placement.core.solver.racks import (
    ANYWHERE,
    PLAIN_STYLE,
    ContainerRole,
    PackingStyle,
    RackAssignment,
    RoleCounts,
    RolePlan,
    fill_racks,
    rack_node_cost,
)

_HOSTS_AT_ONCE: Final = 8  # hosts placed in a rack before the racks are compared again


class ContainerGroup(NamedTuple):
    """Containers that go to one node together, or a single container."""

    containers: list[int]
    rack: int


def groups(instance: Instance, plan: RolePlan, racks: list[int]) -> list[list[ContainerGroup]]:
    """Group the containers by role; the containers of a job kept on one node form one group."""
    by_role: list[list[ContainerGroup]] = [[] for _ in ContainerRole]
    together = (
        (instance.effective_communication == Communication.NODE)
        & plan.is_whole
        & (instance.size > 1)
    )
    roles, job = plan.roles.tolist(), instance.job.tolist()
    order = np.lexsort((instance.intensity, instance.job))
    # the last are placed first, and a taz without a node of its own costs its whole job the credit
    hosted = np.where(plan.roles == ContainerRole.HOST, instance.intensity, 0.0)
    credit = np.bincount(instance.job, hosted, together.size)
    singles = order[~together[instance.job[order]]]
    singles = singles[np.argsort(credit[instance.job[singles]], kind="stable")]
    for container in singles.tolist():
        by_role[roles[container]].append(ContainerGroup([container], racks[job[container]]))
    ends = np.cumsum(instance.size)
    for each in np.flatnonzero(together).tolist():
        held: list[int] = order[ends[each] - instance.size[each] : ends[each]].tolist()
        shared = {roles[container] for container in held}
        role = next(
            r
            for r in (ContainerRole.EXPOSED, ContainerRole.HOST, ContainerRole.GUEST)
            if r in shared
        )
        by_role[role].append(ContainerGroup(held, ANYWHERE))
    return by_role


class NodePacker:
    """Fills the nodes of every rack, role by role; see the module."""

    def __init__(self, instance: Instance, costs: Costs, packed: RackAssignment) -> None:
        self._slots = packed.slots
        self._min_slots = int(instance.slots.min())
        self.assignment: list[int] = [NOWHERE] * instance.job.size
        self._empty_nodes = _nodes_by_rack(instance, costs)
        racks = range(len(self._empty_nodes))
        # containers that each rack holds, or will hold of jobs that must stay in it
        self._counts = list(packed.loads)
        # nodes with free slots by the role of their first container; filled from the end
        self._open_nodes: dict[ContainerRole, list[list[int]]] = {
            pool: [[] for _ in racks] for pool in ContainerRole
        }
        self._free_slots: list[int] = instance.slots.tolist()
        self._node_cost = rack_node_cost(instance, costs)
        # guests in each rack for whom no host is placed yet
        self._unhosted = [
            held.guests - (slots.mean - 1.0) * held.hosts
            for held, slots in zip(packed.loads, self._slots, strict=True)
        ]

    def pack(self, kinds: list[list[ContainerGroup]]) -> None:
        """Place every container as planned; those that do not fit go to any free slot."""
        single = [self._by_rack(kind) for kind in kinds]
        # before other containers fill the nodes that can hold them
        self._place_groups(kinds, ContainerRole, self._min_slots + 1, max(self._free_slots))
        for kind in (ContainerRole.HOST, ContainerRole.EXPOSED):
            for rack in range(len(self._slots)):
                self._fill_rack(single[kind][rack], rack, kind, len(single[kind][rack]))
            self._place_groups(kinds, (kind,), 2, self._min_slots)
        for kind in (ContainerRole.HOST, ContainerRole.EXPOSED):
            self._place_single_tazes(single[kind][ANYWHERE], kind)
        self._place_groups(kinds, (ContainerRole.GUEST,), 2, self._min_slots)
        for rack in range(len(self._slots)):
            waiting = single[ContainerRole.GUEST][rack]
            self._fill_rack(waiting, rack, ContainerRole.GUEST, len(waiting))
        self._place_single_turtles(single[ContainerRole.GUEST][ANYWHERE])
        self._place_remaining()

    def _place_groups(
        self,
        kinds: list[list[ContainerGroup]],
        roles: Iterable[ContainerRole],
        low: int,
        high: int,
    ) -> None:
        """Place the groups of low to high containers, the largest first."""
        for role in roles if low <= high else ():
            sized = [group for group in kinds[role] if low <= len(group.containers) <= high]
            for group in sorted(sized, key=_size, reverse=True):
                if role is ContainerRole.GUEST:
                    self._place_turtle_group(group)
                else:
                    self._place_taz_group(group, role)

    def _by_rack(self, groups: list[ContainerGroup]) -> list[list[int]]:
        """Single containers by rack; the last list has those that may go anywhere."""
        found: list[list[int]] = [[] for _ in range(len(self._slots) + 1)]
        for group in groups:
            if len(group.containers) == 1:
                found[group.rack].append(group.containers[0])
        return found

    def _fill_rack(self, containers: list[int], rack: int, kind: ContainerRole, limit: int) -> int:
        """Place up to ``limit`` containers of a role in a rack; return the number placed."""
        left = min(limit, len(containers))
        wanted = left
        if kind is ContainerRole.EXPOSED:
            left -= self._fill_nodes(containers, self._open_nodes[kind][rack], left)
        elif kind is ContainerRole.GUEST:
            for pools in self._open_nodes.values():
                left -= self._fill_nodes(containers, pools[rack], left)
        pool = self._open_nodes[kind][rack]
        while left and self._empty_nodes[rack]:
            pool.append(self._empty_nodes[rack].pop())
            left -= self._fill_nodes(containers, pool, 1 if kind is ContainerRole.HOST else left)
        return wanted - left

    def _fill_nodes(self, containers: list[int], pool: list[int], limit: int) -> int:
        """Fill nodes with free slots, the last first; return the number of containers placed."""
        placed, free, assignment = 0, self._free_slots, self.assignment
        while pool and containers and placed < limit:
            node = pool[-1]
            take = min(free[node], len(containers), limit - placed)
            for _ in range(take):
                assignment[containers.pop()] = node
            free[node] -= take
            placed += take
            if not free[node]:
                pool.pop()
        return placed

    def _place_single_tazes(self, containers: list[int], kind: ContainerRole) -> None:
        """Place single tazes that may go anywhere, a few at a time in the best rack."""
        while containers:
            rack = self._rack_for(1, kind)
            if rack == ANYWHERE:
                return
            held, slots = self._counts[rack], self._slots[rack]
            limit = self._spare_slots(rack)
            if kind is ContainerRole.HOST:
                limit = min(limit, slots.nodes - held.hosts - slots.nodes_for(held.exposed))
                limit = min(limit, _HOSTS_AT_ONCE) if self._unhosted[rack] > 0 else limit
            else:
                begun = sum(self._free_slots[node] for node in self._open_nodes[kind][rack])
                unhosted = slots.of_largest[max(slots.nodes - held.hosts, 0)]
                limit = min(limit, begun or unhosted - held.exposed)
            placed = self._fill_rack(containers, rack, kind, limit)
            if not placed:
                return
            added = (
                RoleCounts(placed, 0, 0)
                if kind is ContainerRole.HOST
                else RoleCounts(0, placed, 0)
            )
            self._counts[rack] = held.plus(added)
            self._unhosted[rack] -= (slots.mean - 1.0) * added.hosts

    def _place_single_turtles(self, containers: list[int]) -> None:
        """Place single turtles that may go anywhere: with hosts, with others, on empty nodes."""
        racks = range(len(self._slots))
        for pools in self._open_nodes.values():
            for rack in racks:
                placed = self._fill_nodes(containers, pools[rack], self._spare_slots(rack))
                self._counts[rack] = self._counts[rack].plus(RoleCounts(0, 0, placed))
        for rack in sorted(racks, key=lambda r: -len(self._empty_nodes[r])):
            placed = self._fill_rack(
                containers, rack, ContainerRole.GUEST, self._spare_slots(rack)
            )
            self._counts[rack] = self._counts[rack].plus(RoleCounts(0, 0, placed))

    def _place_taz_group(self, group: ContainerGroup, kind: ContainerRole) -> None:
        """Place a group with tazes: on a node of its own if protected, else with exposed tazes."""
        size = len(group.containers)
        rack = self._rack_for(size, kind)
        if rack == ANYWHERE:
            return
        pool = self._open_nodes[kind][rack]
        node = NOWHERE if kind is ContainerRole.HOST else self._node_with_room(pool, size)
        self._counts[rack] = self._counts[rack].plus(_as_counts(size, kind))
        self._unhosted[rack] -= (
            (self._slots[rack].mean - size) if kind is ContainerRole.HOST else 0.0
        )
        self._put_on_node(group, node, rack, pool)

    def _fits(self, rack: int, added: RoleCounts) -> bool:
        return self._counts[rack].plus(added).nodes(self._slots[rack]) <= self._slots[rack].nodes

    def _has_node(self, rack: int, size: int) -> bool:
        """Return whether an empty node of the rack holds a group, if nodes differ in slots."""
        return size <= self._min_slots or any(
            self._free_slots[node] >= size for node in self._empty_nodes[rack]
        )

    def _rack_for(self, size: int, kind: ContainerRole) -> int:
        """Return a rack for tazes that may go anywhere: with unhosted turtles, or an open node."""
        added = _as_counts(size, kind)
        fitting = [
            rack
            for rack in range(len(self._counts))
            if self._fits(rack, added) and self._has_node(rack, size)
        ]
        if kind is ContainerRole.EXPOSED:
            pool = self._open_nodes[kind]
            begun = [rack for rack in fitting if self._node_with_room(pool[rack], size) != NOWHERE]
            return min(begun or fitting, key=lambda r: self._unhosted[r], default=ANYWHERE)
        return max(
            fitting,
            key=lambda r: (max(self._unhosted[r], 0), -self._node_cost[r]),
            default=ANYWHERE,
        )

    def _place_turtle_group(self, group: ContainerGroup) -> None:
        """Place a group of turtles: as guests of a host if possible, else with others."""
        size = len(group.containers)
        racks = [r for r in range(len(self._counts)) if self._spare_slots(r) >= size]
        places = [(pools[rack], rack) for pools in self._open_nodes.values() for rack in racks]
        nodes = ((self._node_with_room(pool, size), rack, pool) for pool, rack in places)
        node, rack, pool = next((p for p in nodes if p[0] != NOWHERE), (NOWHERE, ANYWHERE, []))
        if node == NOWHERE:
            rack = max(racks, key=lambda r: len(self._empty_nodes[r]), default=ANYWHERE)
            if rack == ANYWHERE:
                return
            pool = self._open_nodes[ContainerRole.GUEST][rack]
        self._counts[rack] = self._counts[rack].plus(_as_counts(size, ContainerRole.GUEST))
        self._put_on_node(group, node, rack, pool)

    def _spare_slots(self, rack: int) -> int:
        """Return the number of slots that jobs of the rack do not need."""
        return self._slots[rack].total - sum(self._counts[rack])

    def _node_with_room(self, pool: list[int], size: int) -> int:
        """Return a node with enough free slots for a group, or `NOWHERE`."""
        return next((node for node in reversed(pool) if self._free_slots[node] >= size), NOWHERE)

    def _put_on_node(self, group: ContainerGroup, node: int, rack: int, pool: list[int]) -> None:
        """Put a group on a node, or on an empty node of the rack; skip it if none fits."""
        size = len(group.containers)
        if node == NOWHERE:
            closed = self._empty_nodes[rack]
            wide = (
                n for n in range(len(closed) - 1, -1, -1) if self._free_slots[closed[n]] >= size
            )
            at = next(wide, NOWHERE)
            if at == NOWHERE:
                return
            node = closed.pop(at)
            pool.append(node)
        self._free_slots[node] -= len(group.containers)
        for container in group.containers:
            self.assignment[container] = node
        if not self._free_slots[node]:
            pool.remove(node)

    def _place_remaining(self) -> None:
        """Place the remaining containers on free slots, on open nodes first."""
        rest = [i for i, node in enumerate(self.assignment) if node == NOWHERE]
        if not rest:
            return
        nodes = sorted(range(len(self._free_slots)), key=lambda n: self._free_slots[n])
        places = (node for node in nodes for _ in range(self._free_slots[node]))
        for container, node in zip(rest, places, strict=False):
            self.assignment[container] = node


def _as_counts(size: int, kind: ContainerRole) -> RoleCounts:
    if kind is ContainerRole.HOST:
        return RoleCounts(1, 0, size - 1)
    return RoleCounts(0, size, 0) if kind is ContainerRole.EXPOSED else RoleCounts(0, 0, size)


def _size(group: ContainerGroup) -> int:
    return len(group.containers)


def _nodes_by_rack(instance: Instance, costs: Costs) -> list[list[int]]:
    """Nodes of each rack by descending cost: the cheapest is popped first."""
    nodes: list[list[int]] = [[] for _ in instance.rack_ids]
    dear = (costs.open + costs.slot * instance.slots) / instance.slots
    racks = instance.rack.tolist()
    for node in np.argsort(-dear, kind="stable")[::1].tolist():
        nodes[racks[node]].append(node)
    return nodes


def pack(
    instance: Instance,
    costs: Costs,
    plan: RolePlan,
    style: PackingStyle = PLAIN_STYLE,
    rng: np.random.Generator | None = None,
) -> Ints:
    """(c,) node of each container, by a plan; see the module. O(c·racks) time at worst."""
    packed = fill_racks(instance, costs, plan, style, rng)
    packer = NodePacker(instance, costs, packed)
    packer.pack(groups(instance, plan, packed.racks))
    return np.array(packer.assignment, dtype=np.int64)
