"""From racks by job to nodes by container.

Hosts take nodes of their own, tazes that share fill nodes together, guests join hosts; what has no
rack of its own goes where it is needed, and whatever still has no place goes wherever there is
room. Nothing is proven here: a placement is judged by `objectives.evaluate`, and is optimal when
it meets a bound.
"""

from typing import NamedTuple

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


class Group(NamedTuple):
    """Containers that go to one node together, or one alone."""

    containers: list[int]
    rack: int


def groups(instance: Instance, plan: Plan, racks: list[int]) -> list[list[Group]]:
    """Group the containers by role; those of a job that stays on one node go together."""
    by_role: list[list[Group]] = [[] for _ in Role]
    together = (instance.counts_as == Communication.NODE) & plan.is_whole & (instance.size > 1)
    order = np.lexsort((instance.intensity, instance.job))
    roles, job = plan.roles.tolist(), instance.job.tolist()
    for container in order[~together[instance.job[order]]].tolist():
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
        self.assignment: Ints = np.full(instance.job.size, NOWHERE, dtype=np.int64)
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
        bound = [[g for g in kind if g.rack != ANYWHERE] for kind in kinds]
        free = [
            sorted((g for g in kind if g.rack == ANYWHERE), key=_size, reverse=True)
            for kind in kinds
        ]
        for kind in (Role.HOST, Role.BESIDE):
            large = [group for group in free[kind] if len(group.containers) > 1]
            for group in [*bound[kind], *large]:
                self._place(group, kind)
            self._place_singles(free[kind][len(large) :], kind)
        large = [group for group in free[2] if len(group.containers) > 1]
        for group in [*large, *bound[2]]:
            self._seat(group)
        self._seat_singles(free[2][len(large) :])
        self._place_rest()

    def _place_singles(self, groups: list[Group], kind: Role) -> None:
        """Place single tazes: a rack that is best stays so until it is full or another is."""
        todo = groups[::-1]
        while todo:
            rack = self._rack_for(1, kind)
            if rack == ANYWHERE:
                return
            least = self._lonely[rack] - 8 if kind is Role.HOST else self._lonely[rack]
            begun = bool(self._pools[kind][rack])
            while todo and self._lonely[rack] >= least and self._fits(rack, _as_load(1, kind)):
                self._place(todo.pop()._replace(rack=rack), kind, is_new=True)
                if kind is Role.BESIDE and begun and not self._pools[kind][rack]:
                    break

    def _seat_singles(self, groups: list[Group]) -> None:
        """Seat single turtles that may be anywhere, rack by rack."""
        todo = groups[::-1]
        for pools in self._pools.values():
            for rack, pool in enumerate(pools):
                for _ in range(
                    min(self._spare(rack), sum(self._left[n] for n in pool), len(todo))
                ):
                    self._sit(todo.pop(), pool[-1], rack, pool)
        while todo:
            self._seat(todo.pop())

    def _place(self, group: Group, kind: Role, *, is_new: bool = False) -> None:
        """Place tazes: a protected one on a node of its own, others together."""
        size = len(group.containers)
        is_free = is_new or group.rack == ANYWHERE
        rack = self._rack_for(size, kind) if group.rack == ANYWHERE else group.rack
        if rack == ANYWHERE:
            return
        pool = self._pools[kind][rack]
        is_protected = kind is Role.HOST
        node = NOWHERE if is_protected else self._with_room(pool, size)
        if is_free:
            self._loads[rack] = self._loads[rack].plus(_as_load(size, kind))
            self._lonely[rack] -= (self.slots - size) if is_protected else 0
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
        """Place turtles: as guests of protected tazes first, then beside others, then alone."""
        size = len(group.containers)
        racks = range(len(self._loads)) if group.rack == ANYWHERE else [group.rack]
        if group.rack == ANYWHERE:
            racks = [r for r in racks if self._spare(r) >= size]
        for pools in self._pools.values():
            for rack in racks:
                node = self._with_room(pools[rack], size)
                if node != NOWHERE:
                    self._sit(group, node, rack, pools[rack])
                    return
        rack = max(racks, key=lambda r: len(self._closed[r]), default=ANYWHERE)
        if rack != ANYWHERE and self._closed[rack]:
            self._sit(group, NOWHERE, rack, self._pools[Role.GUEST][rack])

    def _sit(self, group: Group, node: int, rack: int, pool: list[int]) -> None:
        if group.rack == ANYWHERE:
            more = _as_load(len(group.containers), Role.GUEST)
            self._loads[rack] = self._loads[rack].plus(more)
        self._put(group, node, rack, pool)

    def _spare(self, rack: int) -> int:
        """Return the slots that no job of the rack will need."""
        return self.slots * self._width[rack] - sum(self._loads[rack])

    def _with_room(self, pool: list[int], size: int) -> int:
        """Find a node of the pool with room for a group."""
        if size == 1:
            return pool[-1] if pool else NOWHERE
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
        rest = np.flatnonzero(self.assignment == NOWHERE).tolist()
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
    return bins.assignment
