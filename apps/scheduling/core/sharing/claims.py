"""Units that projects claim on the servers that their waiting jobs can use.

S servers. Servers that one claim concerns are a group; claims that share a server share a group.
A project may borrow the free units outside all groups, and of each group those that other projects
do not claim. If several claims share a group, this holds for the servers of each of them too.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

import numpy as np

from apps.inventory.core.snapshot import Bools, Ints, Snapshot
from apps.scheduling.core.batch_state import TopologyFacts
from apps.scheduling.core.sharing.quotas import Loan, Standing
from apps.scheduling.core.types import Pool, Request
from apps.workloads.core.shapes import Needs


@dataclass(slots=True, eq=False)
class _Group:
    """Servers that the same claims concern.

    Attributes
    ----------
    servers : (S,) True for them
    claims : units that each project claims
    covered : of them, those that its jobs have taken; others count its claim as it was
    free : units that nobody has taken but against a claim
    parts : the claims of the same servers, for each set of them; empty if there is only one
    """

    servers: Bools
    claims: dict[UUID, int]
    parts: list["_Group"] = field(default_factory=list)
    covered: dict[UUID, int] = field(default_factory=dict)
    free: int = 0

    @property
    def singles(self) -> list["_Group"]:
        """The groups of claims of the same servers."""
        return self.parts or [self]

    def claimed(self, project: UUID) -> int:
        """Return the units that other projects claim."""
        return sum(units for key, units in self.claims.items() if key != project)

    def room(self, project: UUID) -> int:
        """Return the units that a project may borrow."""
        return max(0, self.free - self.covered.get(project, 0) - self.claimed(project))

    def take(self, project: UUID, units: int) -> None:
        """Count units that a project may have taken here; first those that it claims."""
        covered = self.covered.get(project, 0)
        claimed = min(units, self.claims.get(project, 0) - covered)
        self.covered[project] = covered + claimed
        self.free = max(0, self.free - units + claimed)


class _Room(NamedTuple):
    """Units of a group that others claim, and those that a project may borrow if they do.

    ``parts`` : those that it may borrow of each part; infinite if it claims the part itself
    """

    claimed: int
    units: int
    parts: tuple[float, ...] = ()

    def holds(self, size: int, usable: "_Usable") -> bool:
        """Return whether a job of some units leaves others what they claim, wherever it runs."""
        return not self.claimed or (
            self.units >= min(size, usable.units)
            and all(
                room >= min(size, units)
                for room, units in zip(self.parts, usable.parts, strict=True)
            )
        )


class _Usable(NamedTuple):
    """Units that a job can use in a group, and in each of its parts."""

    units: int
    parts: tuple[int, ...] = ()


class OpenUnits(NamedTuple):
    """(S,) free units, and all units, of each server; 0 if it accepts no new work."""

    free: Ints
    units: Ints

    @classmethod
    def of(cls, snapshot: Snapshot) -> "OpenUnits":
        """Count the units of a snapshot. O(U)."""
        topology = snapshot.topology
        free = np.bincount(topology.unit_server, snapshot.unit_free, topology.server_id.size)
        return cls(
            np.where(snapshot.server_open, free, 0).astype(np.int64),
            np.where(snapshot.server_open, topology.server_units, 0).astype(np.int64),
        )


class ClaimedServers:
    """The groups of one turn, with the units that its jobs have taken so far.

    A commit does not check the claims again: agents that decide at the same time may borrow the
    same units.
    """

    def __init__(self, groups: Sequence[_Group], servers: OpenUnits, facts: TopologyFacts) -> None:
        self._groups, self._servers, self._facts = groups, servers, facts
        self._group_of = np.full(servers.free.size, len(groups))  # the last: outside all of them
        for i, group in enumerate(groups):
            self._group_of[group.servers] = i
            for each in (group, *group.parts):
                each.free = int(servers.free[each.servers].sum())
        self._units: dict[tuple[object, ...], tuple[list[_Usable], list[_Usable]]] = {}
        self._pools: dict[tuple[int, ...], Pool] = {}

    def loan(self, project: UUID, request: Request) -> Loan:
        """Return the units that a project may borrow for a job, and on which servers.

        Nobody knows which of its servers a job will use, so it may use a group only if it may
        take as many units there as it can. A job that lacks free units whatever others claim is
        not refused for the claims, if servers are left to it: it waits for these.
        """
        usable, held = self._units_for(request)
        rooms = [*(_room(group, project) for group in self._groups), _Room(0, 0)]
        claimed = sum(room.claimed for room, each in zip(rooms, held, strict=True) if each.units)
        free = sum(each.units for each in usable)
        if free < request.min_units:
            units, groups = request.units, _lent(rooms, request.units, held)
            if sum(held[i].units for i in groups) < request.min_units:
                units = 0
        else:
            units, groups = _most_units(request, rooms, usable)
        return Loan(units, claimed, free, self._pool(groups))

    def take(self, project: UUID, request: Request) -> None:
        """Count the units of a job as taken in each group that it may use."""
        for group, usable in zip(self._groups, self._units_for(request)[0], strict=False):
            group.take(project, min(request.units, usable.units))
            for part, units in zip(group.parts, usable.parts, strict=True):
                part.take(project, min(request.units, units))

    def _units_for(self, request: Request) -> tuple[list[_Usable], list[_Usable]]:
        """Return the free units that a job may use in each group and outside, and all units.

        O(S) for the first of equal constraints.
        """
        key = request.platforms, request.labels, request.excluded, request.pool
        if key not in self._units:
            facts = self._facts
            passes = facts.allowed(request.platforms)[facts.server_platform]
            passes = passes & facts.labelled(request.labels) & ~facts.barred(request)
            self._units[key] = (
                self._sums(passes * self._servers.free),
                self._sums(passes * self._servers.units),
            )
        return self._units[key]

    def _sums(self, units: Ints) -> list[_Usable]:
        sums = np.bincount(self._group_of, units, len(self._groups) + 1)
        parts = [tuple(int(units[p.servers].sum()) for p in g.parts) for g in self._groups]
        return [*map(_Usable, sums.astype(np.int64).tolist(), [*parts, ()])]

    def _pool(self, groups: Sequence[int]) -> Pool | None:
        if len(groups) > len(self._groups):
            return None
        key = tuple(groups)
        if key not in self._pools:
            self._pools[key] = Pool.of(np.isin(self._group_of, groups))
        return self._pools[key]


def _room(group: _Group, project: UUID) -> _Room:
    parts = (p.room(project) if p.claimed(project) else math.inf for p in group.parts)
    return _Room(group.claimed(project), group.room(project), tuple(parts))


def _lent(rooms: Sequence[_Room], size: int, most: Sequence[_Usable]) -> list[int]:
    """Return the groups that a job of some units may use: at most ``most`` in each."""
    return [
        i
        for i, (room, usable) in enumerate(zip(rooms, most, strict=True))
        if room.holds(size, usable)
    ]


def _most_units(
    request: Request, rooms: Sequence[_Room], usable: Sequence[_Usable]
) -> tuple[int, list[int]]:
    """Return the most units that a job may borrow, and the groups in which it may."""
    sizes = {request.units}
    if not request.is_whole:
        found = {units for room in rooms for units in (room.units, *room.parts)}
        sizes |= {int(units) for units in found if 0 < units < request.units}
    best, chosen = 0, list[int]()
    for size in sorted(sizes, reverse=True):
        groups = _lent(rooms, size, usable)
        units = min(size, sum(usable[i].units for i in groups))
        if units > best:
            best, chosen = units, groups
    return best, chosen


def claimed_servers(
    standings: Mapping[UUID, Standing],
    needs: Mapping[UUID, Collection[Needs]],
    servers: OpenUnits,
    facts: TopologyFacts,
) -> ClaimedServers | None:
    """Return the servers that claims concern; None if there is no claim, or one of any server.

    Parameters
    ----------
    needs : of further waiting jobs of projects
    """
    claims = {key: each for key, each in standings.items() if each.claimed}
    groups: list[_Group] = []
    for key, each in claims.items():
        if each.needs is None:
            return None
        usable = _usable_by({*each.needs, *needs.get(key, ())}, facts)
        if usable.all():
            return None
        shared = [group for group in groups if (group.servers & usable).any()]
        groups = [group for group in groups if group not in shared]
        own = _Group(usable, {key: each.claimed})
        groups.append(_merged([own, *(one for group in shared for one in group.singles)]))
    return ClaimedServers(groups, servers, facts) if groups else None


def _merged(singles: Sequence[_Group]) -> _Group:
    """Return one group of the servers of all; those with the same servers are one part."""
    parts: dict[bytes, _Group] = {}
    for each in singles:
        part = parts.setdefault(each.servers.tobytes(), _Group(each.servers, {}))
        part.claims.update(each.claims)
    if len(parts) == 1:
        return next(iter(parts.values()))
    claims = {key: units for part in parts.values() for key, units in part.claims.items()}
    servers = np.logical_or.reduce([part.servers for part in parts.values()])
    return _Group(servers, claims, [*parts.values()])


def _usable_by(needs: Collection[Needs], facts: TopologyFacts) -> Bools:
    """(S,) True for the servers that a job of some needs can use, if they are idle."""
    found = facts.nowhere
    units = {
        (n.platforms, n.labels, (n.unit_memory_bytes, n.unit_network_bps, n.unit_storage_bytes))
        for n in needs
    }
    for platforms, labels, unit in units:
        names = None if platforms is None else frozenset(platforms)
        usable = facts.allowed(names)[facts.server_platform] & facts.labelled(frozenset(labels))
        if any(unit):
            usable = usable & (facts.topology.server_capacity >= unit).all(axis=1)
        found = found | usable
    return found
