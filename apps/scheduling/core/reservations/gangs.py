"""Reservations: units kept for a gang that has waited long, and backfill around them.

A reservation names units and the time at which the last of them is free at the pessimistic end of
the predicted run times. Until then, another job may use them only if it ends before that time
(EASY backfill; Lifka 1995), and the same holds for the memory, network and storage that those of
them that are free will take. So the units drain, and the gang starts by then if the predictions
hold: a flood of small jobs cannot hold it back.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple
from uuid import UUID

import numpy as np

from apps.inventory.core.snapshot import Bools, Floats, Ints, Snapshot, Topology
from apps.scheduling.core.batch_state import TopologyFacts
from apps.scheduling.core.cluster.capacity import SLACK, equal_share, unit_vectors
from apps.scheduling.core.cluster.conflicts import Vector
from apps.scheduling.core.cluster.places import place_of
from apps.scheduling.core.types import RefusalReason, Refused, Request

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
    free : those of them that are free
    per_unit : memory bytes, network bits/s and storage bytes of each; 0 = an equal share
    is_awaiting : jobs that are being stopped for it still hold units
    """

    job: UUID
    start_s: float
    units: frozenset[int]
    free: frozenset[int] = frozenset()
    per_unit: Vector = (0.0, 0.0, 0.0)
    is_awaiting: bool = False

    def binds(self, job: UUID, ends_s: float) -> bool:
        """Whether a job that ends by ``ends_s`` may not use the units."""
        return job != self.job and ends_s > self.start_s


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
        *(request.platforms, request.labels, request.excluded),
        *(request.unit_memory_bytes, request.unit_network_bps, request.unit_storage_bytes),
    )


def usable_servers(request: Request, snapshot: Snapshot, facts: TopologyFacts) -> Bools:
    """(S,) True for the open servers that a request may use."""
    topology = snapshot.topology
    allowed = facts.allowed(request.platforms)[topology.server_platform]
    usable: Bools = allowed & facts.labelled(request.labels) & snapshot.server_open
    return usable & ~facts.named(request.excluded)


def fits_when_empty(request: Request, snapshot: Snapshot, facts: TopologyFacts) -> bool:
    """Whether the open servers could start a request if all of their units were free.

    They may lack the memory, network or storage of its units even then.
    """
    topology = snapshot.topology
    servers = np.flatnonzero(usable_servers(request, snapshot, facts))
    units = topology.server_units[servers].astype(np.int64)
    if request.spread is not None:
        _, first = np.unique(place_of(topology, request.spread)[servers], return_index=True)
        servers, units = servers[first], np.minimum(units[first], 1)
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


def without_room(snapshot: Snapshot, room: Mapping[int, Vector]) -> Snapshot:
    """Return a snapshot in which servers lack the room that reservations keep.

    Parameters
    ----------
    room : as `kept_room`
    """
    if not room:
        return snapshot
    free = snapshot.server_free.copy()
    servers = np.searchsorted(snapshot.topology.server_id, list(room))
    kept = np.array(list(room.values()))
    free[servers] = np.minimum(free[servers], np.maximum(free[servers] - kept, 0.0))
    return replace(snapshot, server_free=free)


def kept_room(known: Sequence[Reservation], topology: Topology) -> dict[int, Vector]:
    """Return what the free units of reservations will take from their servers, by server id.

    Units that are busy keep nothing: their jobs hold a part of the server themselves.
    """
    room = np.zeros((topology.server_id.size, 3))
    share = equal_share(topology)
    for each in known:
        servers = topology.unit_server[np.isin(topology.unit_id, sorted(each.free))]
        per_unit = np.array(each.per_unit)
        np.add.at(room, servers, np.where(per_unit > 0.0, per_unit, share[servers]))
    kept = np.flatnonzero(room.any(axis=1))
    vectors = room[kept].tolist()
    return {
        server: (memory, network, storage)
        for server, (memory, network, storage) in zip(
            topology.server_id[kept].tolist(), vectors, strict=True
        )
    }


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
    """Return a refusal that says how many units are free but reserved, if any."""
    hidden = (
        held
        & snapshot.unit_free
        & usable_servers(request, snapshot, facts)[snapshot.topology.unit_server]
    )
    count = int(hidden.sum())
    if not count or outcome.reason not in SHORT_OF_UNITS:
        return outcome
    busy = max(0, outcome.dropped.get("busy", 0) - int((held & snapshot.unit_free).sum()))
    units = "1 free unit is" if count == 1 else f"{count} free units are"
    return replace(
        outcome,
        reason=RefusalReason.UNITS_RESERVED,
        dropped={**outcome.dropped, "busy": busy, "reserved": count},
        detail=f"{units} reserved for another job",
        also=(outcome.reason,),
    )
