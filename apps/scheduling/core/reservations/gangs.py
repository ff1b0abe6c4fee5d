"""Reservations: units kept for a gang that has waited long, and backfill around them.

A reservation names units and the time at which the last of them is free at the pessimistic end of
the predicted run times. Until then, another job may use them only if it ends before that time
(EASY backfill; Lifka 1995), and the same holds for the memory, network and storage that they will
take from their servers. So the units drain, and the gang starts by then if the predictions
hold: a flood of small jobs cannot hold it back.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple
from uuid import UUID

import numpy as np

from apps.inventory.core.snapshot import Bools, Floats, Ints, Snapshot, Topology
from apps.scheduling.core.batch_state import BatchState, TopologyFacts
from apps.scheduling.core.cluster.capacity import SLACK, unit_vectors, units_when_idle
from apps.scheduling.core.cluster.conflicts import Vector
from apps.scheduling.core.cluster.places import place_of
from apps.scheduling.core.filters import by_constraints, eligible
from apps.scheduling.core.types import RefusalReason, Refused, Request

NOTHING: Final[Vector] = (0.0, 0.0, 0.0)
MARGIN: Final = 1.25  # of remaining run times that follow from progress alone
SHORT_OF_UNITS = frozenset(
    {
        RefusalReason.NO_FREE_UNIT,
        RefusalReason.NOT_ENOUGH_FREE_UNITS,
        RefusalReason.LOCALITY_SHORT,
        RefusalReason.SPREAD_SHORT,
        RefusalReason.CAPACITY_SHORT,
        RefusalReason.UNITS_RESERVED,
    }
)


@dataclass(frozen=True, slots=True)
class Reservation:
    """Units kept for a job that starts by ``start_s``, in cluster seconds.

    Attributes
    ----------
    units : ids
    per_unit : memory bytes, network bits/s and storage bytes of each; 0 = an equal share
    held : the same of the job on each busy unit
    is_awaiting : jobs that are being stopped for it still hold units
    """

    job: UUID
    start_s: float
    units: frozenset[int]
    per_unit: Vector = NOTHING
    held: Mapping[int, Vector] = field(default_factory=dict)
    is_awaiting: bool = False

    def binds(self, job: UUID, ends_s: float) -> bool:
        """Whether a job that ends by ``ends_s`` may not use the units."""
        return job != self.job and ends_s > self.start_s


class Bound(NamedTuple):
    """Reservations, by position, that bind a job.

    ``units`` : whose units it may not use
    ``room`` : whose room it leaves, too
    """

    units: tuple[int, ...]
    room: tuple[int, ...]


class Room(NamedTuple):
    """Memory, network and storage kept for units.

    Attributes
    ----------
    units : (n,) ids, all of which exist
    amounts : (n, 3) memory bytes, network bits/s and storage bytes of each
    """

    units: Ints
    amounts: Floats

    def by_server(self, topology: Topology) -> dict[int, list[tuple[int, Vector]]]:
        """Return each unit with its vector, by the id of its server."""
        found: dict[int, list[tuple[int, Vector]]] = defaultdict(list)
        at = np.searchsorted(topology.unit_id, self.units)
        servers = topology.server_id[topology.unit_server[at]].tolist()
        for server, unit, (memory, network, storage) in zip(
            servers, self.units.tolist(), self.amounts.tolist(), strict=True
        ):
            found[server].append((unit, (memory, network, storage)))
        return found


class Plan(NamedTuple):
    """Units for a reservation, by index, and when the last one is free."""

    units: Ints
    start_s: float


class Releases(NamedTuple):
    """Memory, network and storage that running jobs give back, n parts of jobs on one server.

    Attributes
    ----------
    server : (n,) index
    at_s : (n,) the pessimistic end of the job, known
    amounts : (n, 3) as `Snapshot.server_free`
    """

    server: Ints
    at_s: Floats
    amounts: Floats


NO_RELEASES: Final = Releases(np.zeros(0, dtype=np.int64), np.zeros(0), np.zeros((0, 3)))


def plan(
    request: Request,
    snapshot: Snapshot,
    facts: TopologyFacts,
    free_s: Floats,
    taken: Bools,
    releases: Releases = NO_RELEASES,
) -> Plan | None:
    """Choose the units that a refused request can have first. O(U log U + n log n).

    Parameters
    ----------
    free_s : (U,) when each unit is free, at the pessimistic end; infinite if unknown
    taken : (U,) units of other reservations
    releases : of all jobs whose end is known; those of the others are never given back

    Returns
    -------
    None if no choice is free at a known time.
    """
    topology = snapshot.topology
    servers = topology.unit_server.astype(np.int64)
    usable = usable_servers(request, snapshot, facts)[servers] & ~taken & np.isfinite(free_s)
    free_s = _with_room(request, snapshot, np.where(usable, free_s, np.inf), releases)
    units = np.flatnonzero(np.isfinite(free_s))
    if request.spread is not None:
        places = place_of(topology, request.spread)[servers].astype(np.int64)
        once = np.ones(units.size, dtype=np.int64)
        units = units[_first_of(places[units], free_s[units], once)]
    groups = place_of(topology, request.locality)[servers[units]].astype(np.int64)
    order = np.lexsort((units, free_s[units], groups))
    units, groups = units[order], groups[order]
    last = np.flatnonzero(_position(groups) == request.units - 1)
    if not last.size:
        return None
    end = last[np.argmin(free_s[units[last]])]
    return Plan(units[end - request.units + 1 : end + 1], float(free_s[units[end]]))


def demand_of(request: Request) -> tuple[object, ...]:
    """Return all that `plan` reads of a request: equal requests get equal plans."""
    return (
        *(request.units, request.locality, request.spread),
        *(request.platforms, request.labels, request.excluded, request.pool),
        *(request.unit_memory_bytes, request.unit_network_bps, request.unit_storage_bytes),
    )


def usable_servers(request: Request, snapshot: Snapshot, facts: TopologyFacts) -> Bools:
    """(S,) True for the open servers that a request may use."""
    usable: Bools = np.logical_and.reduce([*by_constraints(request, snapshot, facts).values()])
    return usable


def fits_when_empty(request: Request, snapshot: Snapshot, facts: TopologyFacts) -> bool:
    """Whether the open servers could start a request if all of their units were free."""
    topology = snapshot.topology
    held = units_when_idle(topology, request).astype(np.int64)
    servers = np.flatnonzero(usable_servers(request, snapshot, facts) & (held > 0))
    units = held[servers]
    if request.spread is not None:
        _, first = np.unique(place_of(topology, request.spread)[servers], return_index=True)
        servers, units = servers[first], np.ones(first.size, dtype=np.int64)
    groups = place_of(topology, request.locality)[servers].astype(np.int64)
    most = np.bincount(groups, units).max(initial=0.0)
    return bool(most >= request.min_units)


def _with_room(request: Request, snapshot: Snapshot, free_s: Floats, releases: Releases) -> Floats:
    """(U,) when each unit is free, and its server has room for it and those free before it."""
    topology = snapshot.topology
    servers = topology.unit_server.astype(np.int64)
    order = np.lexsort((free_s, servers))
    at_s, first = _room_in_time(request, snapshot, releases)
    slot = first[servers[order]] + _position(servers[order])
    has_room = slot < first[servers[order] + 1]
    ready_s = np.full(free_s.size, np.inf)
    ready_s[order[has_room]] = np.maximum(free_s[order[has_room]], at_s[slot[has_room]])
    return ready_s


def _room_in_time(request: Request, snapshot: Snapshot, releases: Releases) -> tuple[Floats, Ints]:
    """Return from when each server has room for one more unit of a request.

    Returns
    -------
    times of all servers, ascending for each, -inf = now; (S + 1,) the first one of each server
    """
    topology = snapshot.topology
    count = topology.server_id.size
    server = np.concatenate([np.arange(count), releases.server])
    at_s = np.concatenate([np.full(count, -np.inf), releases.at_s])
    order = np.lexsort((at_s, server))
    server, at_s = server[order], at_s[order]
    amounts = np.concatenate([snapshot.server_free, releases.amounts])[order]
    free = amounts.cumsum(axis=0)
    begins = np.flatnonzero(np.isneginf(at_s))
    free -= (free[begins] - amounts[begins])[server]
    vectors = unit_vectors(topology, np.arange(count, dtype=np.int32), request)[server]
    with np.errstate(divide="ignore", invalid="ignore"):
        by_resource = np.where(vectors > 0.0, free / vectors, np.inf)
    room = np.minimum(by_resource.min(axis=1) * (1.0 + SLACK), topology.server_units[server])
    room = np.floor(np.maximum(room, 0.0)).astype(np.int64)
    more = np.diff(room, prepend=0)
    more[begins] = room[begins]
    more = np.maximum(more, 0)
    slots = np.bincount(server, weights=more, minlength=count).astype(np.int64)
    return np.repeat(at_s, more), np.concatenate([[0], np.cumsum(slots)])


def _first_of(places: Ints, free_s: Floats, counts: Ints) -> Ints:
    """Return the positions of the first ``counts`` units of each place to be free."""
    order = np.lexsort((free_s, places))
    return order[_position(places[order]) < counts[order]]


def _position(groups: Ints) -> Ints:
    """(n,) number of earlier entries of the same group; equal groups are adjacent."""
    index = np.arange(groups.size)
    is_first = np.r_[True, groups[1:] != groups[:-1]] if groups.size else np.zeros(0, dtype=bool)
    return index - np.maximum.accumulate(np.where(is_first, index, 0))


def without_units(snapshot: Snapshot, held: Bools) -> Snapshot:
    """Return a snapshot in which held units are not free."""
    return replace(snapshot, unit_free=snapshot.unit_free & ~held)


def kept_room(known: Sequence[Reservation], topology: Topology, *, at_start: bool = False) -> Room:
    """Return what the units of reservations will take from their servers. O(r log U), r units.

    A busy unit will take as much less as the job on it gives back.

    Parameters
    ----------
    at_start : all that they will take, although the jobs on them hold a part of it now
    """
    found, amounts = [np.zeros(0, dtype=np.int64)], [np.zeros((0, 3))]
    for each in known if topology.unit_id.size else ():
        ids = np.array(sorted(each.units), dtype=np.int64)
        at = np.minimum(np.searchsorted(topology.unit_id, ids), topology.unit_id.size - 1)
        exists = topology.unit_id[at] == ids  # not if the server was removed
        servers = topology.unit_server[at[exists]]
        share = topology.server_capacity[servers] / topology.server_units[servers, None]
        per_unit = np.array(each.per_unit)
        needs = np.where(per_unit > 0.0, per_unit, share)
        if not at_start:
            held = [each.held.get(unit, NOTHING) for unit in ids[exists].tolist()]
            needs = np.maximum(needs - np.array(held).reshape(-1, 3), 0.0)
        found.append(ids[exists])
        amounts.append(needs)
    return Room(np.concatenate(found), np.concatenate(amounts))


def without_room(snapshot: Snapshot, room: Room, *, may_lack: bool = False) -> Snapshot:
    """Return a snapshot in which servers lack a room.

    Parameters
    ----------
    may_lack : more than is free, so that capacity may be below 0
    """
    if not room.units.size:
        return snapshot
    topology, free = snapshot.topology, snapshot.server_free.copy()
    servers = topology.unit_server[np.searchsorted(topology.unit_id, room.units)]
    np.subtract.at(free, servers, room.amounts)
    if not may_lack:
        free = np.minimum(snapshot.server_free, np.maximum(free, 0.0))
    return replace(snapshot, server_free=free)


def binding(known: Sequence[Reservation], job: UUID, ends_s: float) -> Bound:
    """Return the reservations that bind a job which ends by ``ends_s``, by position.

    A job with a reservation leaves room only to those before its own: else two of them could keep
    each other out.
    """
    numbers = tuple(i for i, each in enumerate(known) if each.binds(job, ends_s))
    own = next((i for i, each in enumerate(known) if each.job == job), len(known))
    return Bound(numbers, tuple(i for i in numbers if i < own))


def units_of(known: Sequence[Reservation]) -> frozenset[int]:
    """Return the ids of the units of reservations."""
    return frozenset[int]().union(*(each.units for each in known))


def held_mask(topology: Topology, reservations: Sequence[Reservation]) -> Bools:
    """(U,) True for the units of reservations."""
    held: Bools = np.isin(topology.unit_id, sorted(units_of(reservations)))
    return held


def explained(
    outcome: Refused, request: Request, snapshot: Snapshot, facts: TopologyFacts, held: Bools
) -> Refused:
    """Return a refusal that says how many units are free but reserved, if any.

    The policy has counted them as busy. They count for the first filter that rejects them, and as
    reserved if none does. Without any, the job may lack only memory, network or storage that is
    reserved.

    Parameters
    ----------
    snapshot : of the decision, in which the held units may be free
    """
    if outcome.reason not in SHORT_OF_UNITS:
        return outcome
    topology = snapshot.topology
    left = np.bincount(
        topology.unit_server[held & snapshot.unit_free], minlength=topology.server_id.size
    )
    dropped = Counter(outcome.dropped)
    dropped["busy"] -= int(left.sum())
    for name, passes in by_constraints(request, snapshot, facts).items():
        dropped[name] += int(left[~passes].sum())
        left = np.where(passes, left, 0)
    count = dropped["reserved"] = int(left.sum())
    what = "1 free unit is" if count == 1 else f"{count} free units are"
    if not count:
        if not _lacks_only_reserved_room(outcome, request, snapshot, facts):
            return outcome
        what = "free memory, network or storage is"
    return replace(
        outcome,
        reason=RefusalReason.UNITS_RESERVED,
        dropped=dict(+dropped),
        detail=f"{what} reserved for another job",
        also=(outcome.reason,),
    )


def _lacks_only_reserved_room(
    outcome: Refused, request: Request, snapshot: Snapshot, facts: TopologyFacts
) -> bool:
    """Whether a job without capacity could start if nothing were reserved."""
    if outcome.reason is not RefusalReason.CAPACITY_SHORT:
        return False
    found = eligible(BatchState.of(snapshot, facts, writable=False), request)
    return int(found.room[found.servers].sum()) >= request.min_units
