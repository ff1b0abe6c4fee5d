"""Assignment of jobs to racks.

A rack is treated as a row of nodes that differ in slots only. Jobs that stay in one rack are
assigned largest first, to the rack where they leave the fewest guests without a host and open the
fewest nodes. This pairs jobs of turtles with jobs of protected tazes: there they open no node.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np

from apps.inventory.core.snapshot import Bools, Floats, Ints
from apps.placement.core.problem.costs import Costs
from apps.placement.core.problem.instance import NOWHERE, Communication, Instance
from apps.placement.core.solver.knapsack import JobOption

ANYWHERE: Final = NOWHERE
_SHUFFLE: Final = 0.3  # standard deviation of the logarithm of the factor on a job's size


class ContainerRole(IntEnum):
    """How a container shares its node."""

    HOST = 0  # the only host: protected tazes, and turtles more intense than the others
    EXPOSED = 1  # with other exposed tazes
    GUEST = 2  # with any, preferably with a host


@dataclass(frozen=True, slots=True, eq=False)
class RolePlan:
    """The decisions made before containers are assigned to nodes.

    Attributes
    ----------
    roles : (c,) `ContainerRole` of each container
    is_whole : (j,) a ``node`` or ``rack`` job stays on one node, or in one rack
    racks : (j,) of each job that stays in one rack, `ANYWHERE` for the others; None if undecided
    """

    roles: Ints
    is_whole: Bools
    racks: Ints | None = None


def role_plan(instance: Instance, options: Sequence[JobOption]) -> RolePlan:
    """Return a plan: protected tazes are hosts, other tazes share nodes, turtles are guests."""
    is_protected: Bools = np.array([option.is_protected for option in options], dtype=np.bool_)
    is_whole: Bools = np.array([option.is_whole for option in options], dtype=np.bool_)
    of_taz = np.where(is_protected[instance.job], ContainerRole.HOST, ContainerRole.EXPOSED)
    return RolePlan(np.where(instance.is_taz, of_taz, ContainerRole.GUEST), is_whole)


class RackSlots(NamedTuple):
    """The slots of the nodes of a rack, or of several.

    Attributes
    ----------
    nodes : number of nodes
    total : number of slots
    mean : slots of a node on average; exact if all are equal
    of_largest : slots of the k largest nodes together, k = 0 to all nodes
    needed : minimum number of nodes that hold n containers, n = 0 to `total`
    """

    nodes: int
    total: int
    mean: float
    of_largest: tuple[int, ...]
    needed: tuple[int, ...]

    def nodes_for(self, containers: int) -> int:
        """Return the minimum number of nodes that hold these containers; one more if none do."""
        return self.needed[containers] if containers <= self.total else self.nodes + 1


def rack_slots(instance: Instance) -> list[RackSlots]:
    """Return the slots of each rack; racks with equal nodes share one object."""
    order = np.lexsort((-instance.slots, instance.rack))
    ends = np.cumsum(np.bincount(instance.rack))[:-1]
    racks = np.split(instance.slots[order], ends)
    return [_slots_of_rack(tuple(slots.tolist())) for slots in racks]


def slots_of(slots: Sequence[int]) -> RackSlots:
    """Return the slots of some nodes, the largest first."""
    sums = np.append(0, np.cumsum(slots, dtype=np.int64))
    total = int(sums[-1])
    needed = np.searchsorted(sums, np.arange(total + 1))
    mean = total / max(len(slots), 1)
    return RackSlots(len(slots), total, mean, tuple(sums.tolist()), tuple(needed.tolist()))


_slots_of_rack: Final = lru_cache(maxsize=256)(slots_of)  # most racks are alike


class RoleCounts(NamedTuple):
    """Number of containers of each role, in a rack or of a job."""

    hosts: int
    exposed: int
    guests: int

    def nodes(self, slots: RackSlots) -> int:
        """Return the minimum number of nodes that hold these containers.

        More than the nodes of the rack if they do not fit there.
        """
        hosts, exposed, guests = self
        all_containers = hosts + exposed + guests
        if all_containers > slots.total:
            return slots.nodes + 1
        return max(hosts + slots.needed[exposed], slots.needed[all_containers])

    def hosted(self, slots: RackSlots) -> float:
        """Return the number of nodes if every turtle is the guest of a protected taz.

        If there are too few hosts, ``cluster`` jobs are assumed to supply the others.
        """
        hosts, exposed, guests = self
        per_host = slots.mean - 1.0
        needed = -(-guests // per_host) if per_host > 0.0 else guests
        return (hosts if hosts > needed else needed) - (-exposed // slots.mean)

    def stuck(self, slots: RackSlots) -> float:
        """Return the number of turtles that cannot be guests of protected tazes in the rack."""
        _, exposed, guests = self
        minimum = slots.mean * guests + (slots.mean - 1.0) * (exposed - slots.total)
        if minimum <= 0.0:
            return 0.0
        return minimum if minimum < guests else guests

    def plus(self, other: "RoleCounts") -> "RoleCounts":
        """Add the counts role by role."""
        hosts, exposed, guests = self
        more_hosts, more_exposed, more_guests = other
        return RoleCounts(hosts + more_hosts, exposed + more_exposed, guests + more_guests)


_NOTHING: Final = RoleCounts(0, 0, 0)


class RackAssignment(NamedTuple):
    """The racks of jobs that stay in one.

    Attributes
    ----------
    racks : by job, `ANYWHERE` if the job has none
    loads : containers of these jobs by rack
    unassigned : jobs that no rack had room for
    slots : by rack
    """

    racks: list[int]
    loads: list[RoleCounts]
    unassigned: list[int]
    slots: list[RackSlots]


@dataclass(frozen=True, slots=True)
class PackingStyle:
    """Options for filling racks.

    Attributes
    ----------
    is_strict : split a job rather than leave guests without a host
    is_thrifty : break ties by the cost of the rack
    """

    is_strict: bool = False
    is_thrifty: bool = True


PLAIN_STYLE: Final = PackingStyle()


def fill_racks(
    instance: Instance,
    costs: Costs,
    plan: RolePlan,
    style: PackingStyle = PLAIN_STYLE,
    rng: np.random.Generator | None = None,
) -> RackAssignment:
    """Assign a rack to every job that stays in one; in shuffled order if there is a generator.

    O(rack jobs · racks) time.
    """
    slots = rack_slots(instance)
    if plan.racks is not None:
        racks, loads = plan.racks.tolist(), _planned_loads(instance, plan, plan.racks)
        return RackAssignment(racks, loads, [], slots)
    dear = rack_node_cost(instance, costs) if style.is_thrifty else [0.0] * len(slots)
    racks = [ANYWHERE] * len(instance.job_ids)
    loads = [_NOTHING] * len(slots)
    state = [(0.0, 0.0)] * len(slots)
    unassigned = []
    kinds = _kinds(slots, dear)
    for job, counts in _in_order(instance, rack_loads(instance, plan), rng):
        best, least, now = ANYWHERE, (0.0, 0.0, 0.0, 0.0), (0.0, 0.0)
        empty = set()
        for rack, held in enumerate(loads):
            if held == _NOTHING:  # try one of several identical empty racks
                if kinds[rack] in empty:
                    continue
                empty.add(kinds[rack])
            both, in_rack = held.plus(counts), slots[rack]
            if both.nodes(in_rack) > in_rack.nodes:
                continue
            stuck, wants = both.stuck(in_rack), both.hosted(in_rack)
            before = state[rack]
            rise = stuck - before[0]
            if style.is_strict and rise > counts.stuck(in_rack):
                continue
            rank = (rise, wants - before[1], dear[rack], in_rack.nodes - wants)
            if best == ANYWHERE or rank < least:
                best, least, now = rack, rank, (stuck, wants)
        if best == ANYWHERE:
            unassigned.append(job)
            continue
        racks[job] = best
        loads[best] = loads[best].plus(counts)
        state[best] = now
    return RackAssignment(racks, loads, unassigned, slots)


def _kinds(slots: list[RackSlots], dear: list[float]) -> list[int]:
    """Return a number for each rack; racks of equal slots and cost have the same number."""
    numbers: dict[tuple[RackSlots, float], int] = {}
    return [numbers.setdefault(kind, len(numbers)) for kind in zip(slots, dear, strict=True)]


def _planned_loads(instance: Instance, plan: RolePlan, racks: Ints) -> list[RoleCounts]:
    loads = [_NOTHING] * len(instance.rack_ids)
    for job, counts in rack_loads(instance, plan).items():
        if racks[job] != ANYWHERE:
            loads[racks[job]] = loads[racks[job]].plus(counts)
    return loads


def rack_node_cost(instance: Instance, costs: Costs) -> list[float]:
    """Mean cost of a full node, by rack."""
    full = costs.open + costs.slot * instance.slots
    mean: Floats = np.bincount(instance.rack, full) / np.bincount(instance.rack)
    return np.round(mean, 12).tolist()


def rack_loads(instance: Instance, plan: RolePlan) -> dict[int, RoleCounts]:
    """Return the containers by role of each job that stays in one rack."""
    is_bound = (
        (instance.effective_communication == Communication.RACK)
        & (instance.size > 1)
        & plan.is_whole
    )
    counts = np.zeros((instance.size.size, len(ContainerRole)), dtype=np.int64)
    np.add.at(counts, (instance.job, plan.roles), 1)
    return {job: RoleCounts(*counts[job].tolist()) for job in np.flatnonzero(is_bound).tolist()}


def _in_order(
    instance: Instance, counts: dict[int, RoleCounts], rng: np.random.Generator | None
) -> list[tuple[int, RoleCounts]]:
    """Jobs that stay in one rack, in descending order of the nodes they need."""
    slots = slots_of((-np.sort(-instance.slots)).tolist())
    each = list(counts.items())
    shake = np.ones(len(each)) if rng is None else np.exp(_SHUFFLE * rng.normal(size=len(each)))
    rank = [-held.nodes(slots) * by for (_, held), by in zip(each, shake.tolist(), strict=True)]
    return [each[i] for i in np.argsort(rank, kind="stable").tolist()]
