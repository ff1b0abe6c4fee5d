"""From choices by job to nodes by container: racks first, then nodes.

A rack is a row of equal nodes here. Jobs that stay in one rack are placed largest first where they
open the fewest nodes; that a job of turtles opens none beside a job of protected tazes is what
pairs them. Then every rack opens the nodes it needs, what has no rack fills the holes, and
whatever still has no place opens another node. Nothing is proven here: a placement is judged by
`objectives.evaluate`, and is optimal when it meets the bound.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple

import numpy as np

from apps.inventory.core.snapshot import Bools, Floats, Ints
from apps.placement.core.costs import Costs
from apps.placement.core.instance import NOWHERE, Communication, Instance
from apps.placement.core.knapsack import Choice

ANYWHERE: Final = NOWHERE
_SPREAD: Final = 0.3  # standard deviation of the logarithm by which a job's rank is shaken


class Role(IntEnum):
    """How a container is to share its node."""

    HOST = 0  # with no other host: protected tazes, and turtles that stand out
    BESIDE = 1  # with others of the kind: exposed tazes
    GUEST = 2  # with anyone, with a host if possible


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """What is decided before anything has a place.

    Attributes
    ----------
    roles : (c,) `Role` of each container
    is_whole : (j,) the job stays on one node, or in one rack, if it counts as wishing so
    """

    roles: Ints
    is_whole: Bools


def plan_of(instance: Instance, choices: Sequence[Choice]) -> Plan:
    """Plan that protected tazes are hosts, other tazes share nodes, and turtles are guests."""
    is_protected: Bools = np.array([choice.is_protected for choice in choices], dtype=np.bool_)
    is_whole: Bools = np.array([choice.is_whole for choice in choices], dtype=np.bool_)
    of_taz = np.where(is_protected[instance.job], Role.HOST, Role.BESIDE)
    return Plan(np.where(instance.is_taz, of_taz, Role.GUEST), is_whole)


class Load(NamedTuple):
    """Containers by role, in a rack."""

    hosts: int
    beside: int
    guests: int

    def nodes(self, slots: int) -> int:
        """Return the fewest nodes of so many slots that hold this."""
        return max(self.hosts - (-self.beside // slots), -(-sum(self) // slots))

    def hosted(self, slots: int) -> int:
        """Return the nodes for this when every turtle is the guest of a protected taz.

        Hosts that the load does not bring itself are counted too: jobs that may be anywhere will.
        """
        needed = -(-self.guests // (slots - 1)) if slots > 1 else self.guests
        return max(self.hosts, needed) - (-self.beside // slots)

    def stuck(self, slots: int, nodes: int) -> int:
        """Return how many turtles cannot be guests of protected tazes in a rack of such nodes."""
        least = slots * self.guests + (slots - 1) * (self.beside - slots * nodes)
        return min(max(0, least), self.guests)

    def plus(self, other: "Load") -> "Load":
        """Add, kind by kind."""
        return Load(
            self.hosts + other.hosts,
            self.beside + other.beside,
            self.guests + other.guests,
        )


class Packed(NamedTuple):
    """Racks of the jobs that have one.

    Attributes
    ----------
    racks : by job, `ANYWHERE` where the job has none
    loads : by rack, of these jobs
    homeless : jobs that no rack had room for
    """

    racks: list[int]
    loads: list[Load]
    homeless: list[int]


@dataclass(frozen=True, slots=True)
class Style:
    """How racks are filled.

    Attributes
    ----------
    is_strict : rather split a job than put guests where hosts have no nodes left
    is_thrifty : fill cheap racks first where nothing else decides
    """

    is_strict: bool = False
    is_thrifty: bool = True


PLAIN: Final = Style()


def fill_racks(
    instance: Instance,
    costs: Costs,
    plan: Plan,
    style: Style = PLAIN,
    rng: np.random.Generator | None = None,
) -> Packed:
    """Give every job that stays in one rack a rack; in shaken order when there is a generator.

    O(rack jobs · racks) time.
    """
    slots = int(instance.slots.max())
    width = np.bincount(instance.rack).tolist()
    dear = _dearness(instance, costs) if style.is_thrifty else [0.0] * len(width)
    racks = [ANYWHERE] * len(instance.job_ids)
    loads = [Load(0, 0, 0)] * len(width)
    state = [(0, 0)] * len(width)
    homeless = []
    for job, asked in _in_order(instance, plan, slots, rng):
        best, least, now = ANYWHERE, (0, 0, 0.0, 0), (0, 0)
        for rack, held in enumerate(loads):
            both = held.plus(asked)
            if both.nodes(slots) > width[rack]:
                continue
            stuck, wants = both.stuck(slots, width[rack]), both.hosted(slots)
            before = state[rack]
            rise = stuck - before[0]
            if style.is_strict and rise > asked.stuck(slots, width[rack]):
                continue
            rank = (rise, wants - before[1], dear[rack], width[rack] - wants)
            if best == ANYWHERE or rank < least:
                best, least, now = rack, rank, (stuck, wants)
        if best == ANYWHERE:
            homeless.append(job)
            continue
        racks[job] = best
        loads[best] = loads[best].plus(asked)
        state[best] = now
    return Packed(racks, loads, homeless)


def _dearness(instance: Instance, costs: Costs) -> list[float]:
    """Cost of a full node, on the average of each rack."""
    full = costs.open + costs.slot * instance.slots
    mean: Floats = np.bincount(instance.rack, full) / np.bincount(instance.rack)
    return np.round(mean, 12).tolist()


def _in_order(
    instance: Instance, plan: Plan, slots: int, rng: np.random.Generator | None
) -> list[tuple[int, Load]]:
    """Jobs that stay in one rack, those that need most nodes first."""
    is_bound = (instance.counts_as == Communication.RACK) & (instance.size > 1) & plan.is_whole
    counts = np.zeros((instance.size.size, len(Role)), dtype=np.int64)
    np.add.at(counts, (instance.job, plan.roles), 1)
    each = [(job, Load(*counts[job].tolist())) for job in np.flatnonzero(is_bound).tolist()]
    shake = np.ones(len(each)) if rng is None else np.exp(_SPREAD * rng.normal(size=len(each)))
    rank = [-held.nodes(slots) * by for (_, held), by in zip(each, shake.tolist(), strict=True)]
    return [each[i] for i in np.argsort(rank, kind="stable").tolist()]


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
        self._dear = _dearness(instance, costs)
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
