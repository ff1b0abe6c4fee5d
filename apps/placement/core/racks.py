"""From choices by job to racks by job.

A rack is a row of equal nodes here. Jobs that stay in one rack are placed largest first where they
leave the fewest guests without a host and open the fewest nodes; that a job of turtles opens none
beside a job of protected tazes is what pairs them.
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
    racks : (j,) of each job that stays in one rack, `ANYWHERE` of the others; None if undecided
    """

    roles: Ints
    is_whole: Bools
    racks: Ints | None = None


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


_NOTHING: Final = Load(0, 0, 0)


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
    if plan.racks is not None:
        return _as_planned(instance, plan, plan.racks)
    slots = int(instance.slots.max())
    width = np.bincount(instance.rack).tolist()
    dear = dearness(instance, costs) if style.is_thrifty else [0.0] * len(width)
    racks = [ANYWHERE] * len(instance.job_ids)
    loads = [_NOTHING] * len(width)
    state = [(0, 0)] * len(width)
    homeless = []
    for job, asked in _in_order(rack_loads(instance, plan), slots, rng):
        best, least, now = ANYWHERE, (0, 0, 0.0, 0), (0, 0)
        empty = set()
        for rack, held in enumerate(loads):
            if held == _NOTHING:  # empty racks that are alike are tried once
                alike = (width[rack], dear[rack])
                if alike in empty:
                    continue
                empty.add(alike)
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


def _as_planned(instance: Instance, plan: Plan, racks: Ints) -> Packed:
    loads = [_NOTHING] * len(instance.rack_ids)
    for job, asked in rack_loads(instance, plan).items():
        if racks[job] != ANYWHERE:
            loads[racks[job]] = loads[racks[job]].plus(asked)
    return Packed(racks.tolist(), loads, [])


def dearness(instance: Instance, costs: Costs) -> list[float]:
    """Cost of a full node, on the average of each rack."""
    full = costs.open + costs.slot * instance.slots
    mean: Floats = np.bincount(instance.rack, full) / np.bincount(instance.rack)
    return np.round(mean, 12).tolist()


def rack_loads(instance: Instance, plan: Plan) -> dict[int, Load]:
    """Return the load of each job that is to stay in one rack."""
    is_bound = (instance.counts_as == Communication.RACK) & (instance.size > 1) & plan.is_whole
    counts = np.zeros((instance.size.size, len(Role)), dtype=np.int64)
    np.add.at(counts, (instance.job, plan.roles), 1)
    return {job: Load(*counts[job].tolist()) for job in np.flatnonzero(is_bound).tolist()}


def _in_order(
    asked: dict[int, Load], slots: int, rng: np.random.Generator | None
) -> list[tuple[int, Load]]:
    """Jobs that stay in one rack, those that need most nodes first."""
    each = list(asked.items())
    shake = np.ones(len(each)) if rng is None else np.exp(_SPREAD * rng.normal(size=len(each)))
    rank = [-held.nodes(slots) * by for (_, held), by in zip(each, shake.tolist(), strict=True)]
    return [each[i] for i in np.argsort(rank, kind="stable").tolist()]
