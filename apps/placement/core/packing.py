"""From racks by job to nodes by container.

Hosts take nodes of their own, tazes that share fill nodes together, guests join hosts; what has no
rack of its own goes where it is needed, and whatever still has no place goes wherever there is
room. Nothing is proven here: a placement is judged by `objectives.evaluate`, and is optimal when
it meets a bound.
"""

from typing import Final, NamedTuple

import numpy as np

from apps.inventory.core.snapshot import Ints
from apps.placement.core.costs import Costs
from apps.placement.core.instance import NOWHERE, Communication, Instance
from apps.placement.core.racks import (
    ANYWHERE,
    PLAIN,
    Load,
    Packed,
    Plan,
    Role,
    Style,
    dearness,
    fill_racks,
    plan_of,
)

__all__ = ["PLAIN", "Plan", "Role", "Style", "place", "plan_of"]

_SOME: Final = 8  # hosts that go to a rack before another may need them more


class Group(NamedTuple):
    """Containers that go to one node together, or one alone."""

    containers: list[int]
    rack: int


def groups(instance: Instance, plan: Plan, racks: list[int]) -> list[list[Group]]:
    """Group the containers by role; those of a job that stays on one node go together."""
    by_role: list[list[Group]] = [[] for _ in Role]
    together = (instance.counts_as == Communication.NODE) & plan.is_whole & (instance.size > 1)
    roles, job = plan.roles.tolist(), instance.job.tolist()
    order = np.lexsort((instance.intensity, instance.job))
    # the last are placed first: what finds no node of its own costs its whole job the credit
    hosted = np.where(plan.roles == Role.HOST, instance.intensity, 0.0)
    credit = np.bincount(instance.job, hosted, together.size)
    singles = order[~together[instance.job[order]]]
    singles = singles[np.argsort(credit[instance.job[singles]], kind="stable")]
    for container in singles.tolist():
        by_role[roles[container]].append(Group([container], racks[job[container]]))
    ends = np.cumsum(instance.size)
    for each in np.flatnonzero(together).tolist():
        held: list[int] = order[ends[each] - instance.size[each] : ends[each]].tolist()
        shared = {roles[container] for container in held}
        role = next(r for r in (Role.BESIDE, Role.HOST, Role.GUEST) if r in shared)
        by_role[role].append(Group(held, ANYWHERE))
    return by_role


class Bins:
    """Nodes of every rack, filled kind by kind; see the module."""

    def __init__(self, instance: Instance, costs: Costs, packed: Packed) -> None:
        self.slots = int(instance.slots.max())
        self.assignment: list[int] = [NOWHERE] * instance.job.size
        self._closed = _nodes_by_rack(instance, costs)
        racks = range(len(self._closed))
        self._width = [len(nodes) for nodes in self._closed]
        # what each rack holds, and will hold of the jobs that have no other
        self._loads = list(packed.loads)
        # nodes with room: of a protected taz, of other tazes, of turtles only; the last is next
        self._pools: dict[Role, list[list[int]]] = {pool: [[] for _ in racks] for pool in Role}
        self._left: list[int] = instance.slots.tolist()
        self._dear = dearness(instance, costs)
        # turtles that will look for a host in their rack and find none so far
        self._lonely = [held.guests - (self.slots - 1) * held.hosts for held in packed.loads]

    def place(self, kinds: list[list[Group]]) -> None:
        """Place every container; those that find no room as planned go wherever there is any."""
        large = [[g for g in kind if len(g.containers) > 1] for kind in kinds]
        single = [self._by_rack(kind) for kind in kinds]
        for kind in (Role.HOST, Role.BESIDE):
            for rack in range(len(self._width)):
                self._settle(single[kind][rack], rack, kind, len(single[kind][rack]))
            for group in sorted(large[kind], key=_size, reverse=True):
                self._place(group, kind)
        for kind in (Role.HOST, Role.BESIDE):
            self._spread(single[kind][ANYWHERE], kind)
        for group in sorted(large[Role.GUEST], key=_size, reverse=True):
            self._seat(group)
        for rack in range(len(self._width)):
            waiting = single[Role.GUEST][rack]
            self._settle(waiting, rack, Role.GUEST, len(waiting))
        self._seat_singles(single[Role.GUEST][ANYWHERE])
        self._place_rest()

    def _by_rack(self, groups: list[Group]) -> list[list[int]]:
        """Single containers by rack; behind the last rack those that may be anywhere."""
        found: list[list[int]] = [[] for _ in range(len(self._width) + 1)]
        for group in groups:
            if len(group.containers) == 1:
                found[group.rack].append(group.containers[0])
        return found

    def _settle(self, todo: list[int], rack: int, kind: Role, most: int) -> int:
        """Put so many containers of a role into a rack, opening nodes; says how many it took."""
        left = min(most, len(todo))
        wanted = left
        if kind is Role.BESIDE:
            left -= self._pour(todo, self._pools[kind][rack], left)
        elif kind is Role.GUEST:
            for pools in self._pools.values():
                left -= self._pour(todo, pools[rack], left)
        pool = self._pools[kind][rack]
        while left and self._closed[rack]:
            pool.append(self._closed[rack].pop())
            left -= self._pour(todo, pool, 1 if kind is Role.HOST else left)
        return wanted - left

    def _pour(self, todo: list[int], pool: list[int], most: int) -> int:
        """Fill nodes with room, the last first; says how many containers they took."""
        placed = 0
        while pool and todo and placed < most:
            node = pool[-1]
            take = min(self._left[node], len(todo), most - placed)
            for _ in range(take):
                self.assignment[todo.pop()] = node
            self._left[node] -= take
            placed += take
            if not self._left[node]:
                pool.pop()
        return placed

    def _spread(self, todo: list[int], kind: Role) -> None:
        """Place single tazes that may be anywhere, some at a time in the rack that is best."""
        while todo:
            rack = self._rack_for(1, kind)
            if rack == ANYWHERE:
                return
            held, width = self._loads[rack], self._width[rack]
            most = self.slots * width - sum(held)
            if kind is Role.HOST:
                most = min(most, width - held.hosts + (-held.beside // self.slots))
                most = min(most, _SOME) if self._lonely[rack] > 0 else most
            else:
                begun = sum(self._left[node] for node in self._pools[kind][rack])
                most = min(most, begun or self.slots * (width - held.hosts) - held.beside)
            placed = self._settle(todo, rack, kind, most)
            if not placed:
                return
            more = Load(placed, 0, 0) if kind is Role.HOST else Load(0, placed, 0)
            self._loads[rack] = held.plus(more)
            self._lonely[rack] -= (self.slots - 1) * more.hosts

    def _seat_singles(self, todo: list[int]) -> None:
        """Seat single turtles that may be anywhere: beside hosts, beside others, by themselves."""
        racks = range(len(self._width))
        for pools in self._pools.values():
            for rack in racks:
                placed = self._pour(todo, pools[rack], self._spare(rack))
                self._loads[rack] = self._loads[rack].plus(Load(0, 0, placed))
        for rack in sorted(racks, key=lambda r: -len(self._closed[r])):
            placed = self._settle(todo, rack, Role.GUEST, self._spare(rack))
            self._loads[rack] = self._loads[rack].plus(Load(0, 0, placed))

    def _place(self, group: Group, kind: Role) -> None:
        """Place tazes that go together: with one that is protected, or with others."""
        size = len(group.containers)
        rack = self._rack_for(size, kind)
        if rack == ANYWHERE:
            return
        pool = self._pools[kind][rack]
        node = NOWHERE if kind is Role.HOST else self._with_room(pool, size)
        self._loads[rack] = self._loads[rack].plus(_as_load(size, kind))
        self._lonely[rack] -= (self.slots - size) if kind is Role.HOST else 0
        self._put(group, node, rack, pool)

    def _fits(self, rack: int, more: Load) -> bool:
        return self._loads[rack].plus(more).nodes(self.slots) <= self._width[rack]

    def _rack_for(self, size: int, kind: Role) -> int:
        """Find a rack for tazes that may go anywhere: where turtles wait, or a node is begun."""
        more = _as_load(size, kind)
        fitting = [rack for rack in range(len(self._loads)) if self._fits(rack, more)]
        if kind is Role.BESIDE:
            pool = self._pools[kind]
            begun = [rack for rack in fitting if self._with_room(pool[rack], size) != NOWHERE]
            return min(begun or fitting, key=lambda r: self._lonely[r], default=ANYWHERE)
        return max(
            fitting, key=lambda r: (max(self._lonely[r], 0), -self._dear[r]), default=ANYWHERE
        )

    def _seat(self, group: Group) -> None:
        """Place turtles that go together: as guests of a host first, then beside others."""
        size = len(group.containers)
        racks = [r for r in range(len(self._loads)) if self._spare(r) >= size]
        places = [(pools[rack], rack) for pools in self._pools.values() for rack in racks]
        nodes = ((self._with_room(pool, size), rack, pool) for pool, rack in places)
        node, rack, pool = next((p for p in nodes if p[0] != NOWHERE), (NOWHERE, ANYWHERE, []))
        if node == NOWHERE:
            rack = max(racks, key=lambda r: len(self._closed[r]), default=ANYWHERE)
            if rack == ANYWHERE:
                return
            pool = self._pools[Role.GUEST][rack]
        self._loads[rack] = self._loads[rack].plus(_as_load(size, Role.GUEST))
        self._put(group, node, rack, pool)

    def _spare(self, rack: int) -> int:
        """Return the slots that no job of the rack will need."""
        return self.slots * self._width[rack] - sum(self._loads[rack])

    def _with_room(self, pool: list[int], size: int) -> int:
        """Find a node of the pool with room for a group."""
        return next((node for node in reversed(pool) if self._left[node] >= size), NOWHERE)

    def _put(self, group: Group, node: int, rack: int, pool: list[int]) -> None:
        """Put a group on a node of the pool, or on a new one; nowhere if there is none."""
        size = len(group.containers)
        if node == NOWHERE:
            closed = self._closed[rack]
            wide = (n for n in range(len(closed) - 1, -1, -1) if self._left[closed[n]] >= size)
            at = next(wide, NOWHERE)
            if at == NOWHERE:
                return
            node = closed.pop(at)
            pool.append(node)
        self._left[node] -= len(group.containers)
        for container in group.containers:
            self.assignment[container] = node
        if not self._left[node]:
            pool.remove(node)

    def _place_rest(self) -> None:
        """Put whatever has no node yet wherever there is room, on open nodes first."""
        rest = [i for i, node in enumerate(self.assignment) if node == NOWHERE]
        if not rest:
            return
        nodes = sorted(range(len(self._left)), key=lambda n: self._left[n])
        places = (node for node in nodes for _ in range(self._left[node]))
        for container, node in zip(rest, places, strict=False):
            self.assignment[container] = node


def _as_load(size: int, kind: Role) -> Load:
    if kind is Role.HOST:
        return Load(1, 0, size - 1)
    return Load(0, size, 0) if kind is Role.BESIDE else Load(0, 0, size)


def _size(group: Group) -> int:
    return len(group.containers)


def _nodes_by_rack(instance: Instance, costs: Costs) -> list[list[int]]:
    """Nodes of each rack, the cheapest to fill last: they are popped."""
    nodes: list[list[int]] = [[] for _ in instance.rack_ids]
    dear = (costs.open + costs.slot * instance.slots) / instance.slots
    racks = instance.rack.tolist()
    for node in np.argsort(-dear, kind="stable")[::1].tolist():
        nodes[racks[node]].append(node)
    return nodes


def place(
    instance: Instance,
    costs: Costs,
    plan: Plan,
    style: Style = PLAIN,
    rng: np.random.Generator | None = None,
) -> Ints:
    """(c,) a node for each container, by a plan; see the module. O(c·racks) time at worst."""
    packed = fill_racks(instance, costs, plan, style, rng)
    bins = Bins(instance, costs, packed)
    bins.place(groups(instance, plan, packed.racks))
    return np.array(bins.assignment, dtype=np.int64)
