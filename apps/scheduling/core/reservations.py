"""Reservations: units kept for a gang that has waited long, and backfill around them.

A reservation names units and the time at which the last of them is free at the pessimistic end of
the predicted run times. Until then, another job may use them only if it ends before that time
(EASY backfill; Lifka 1995). So the units drain, and the gang starts by then if the predictions
hold: a flood of small jobs cannot hold it back.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple
from uuid import UUID

import numpy as np

from apps.inventory.core.snapshot import Bools, Floats, Ints, Snapshot, Topology
from apps.scheduling.core.batch_state import TopologyFacts
from apps.scheduling.core.capacity import SLACK, unit_vectors
from apps.scheduling.core.places import place_of
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
    """Units kept for a job that starts by ``start_s``, in cluster seconds."""

    job: UUID
    start_s: float
    units: frozenset[int]

    def binds(self, job: UUID, ends_s: float) -> bool:
        """Whether a job that ends by ``ends_s`` may not use the units."""
        return job != self.job and ends_s > self.start_s


class Plan(NamedTuple):
    """Units for a reservation, by index, and when the last one is free."""

    units: Ints
    start_s: float


def plan(
    request: Request, snapshot: Snapshot, facts: TopologyFacts, free_s: Floats, taken: Bools
) -> Plan | None:
    """Choose the units that a refused request can have first. O(U log U).

    Parameters
    ----------
    free_s : (U,) when each unit is free, at the pessimistic end; infinite if unknown
    taken : (U,) units of other reservations

    Returns
    -------
    None if no choice is free at a known time.
    """
    topology = snapshot.topology
    servers = topology.unit_server.astype(np.int64)
    usable = usable_servers(request, snapshot, facts)[servers] & ~taken & np.isfinite(free_s)
    units = np.flatnonzero(usable)
    units = units[
        _first_of(servers[units], free_s[units], _room(request, topology)[servers[units]])
    ]
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


def _room(request: Request, topology: Topology) -> Ints:
    """(S,) units that an idle server can hold with the requested resources."""
    servers = np.arange(topology.server_id.size, dtype=np.int32)
    vectors = unit_vectors(topology, servers, request)
    with np.errstate(divide="ignore", invalid="ignore"):
        by_resource = np.where(vectors > 0.0, topology.server_capacity / vectors, np.inf)
    room = np.minimum(by_resource.min(axis=1) * (1.0 + SLACK), topology.server_units)
    return np.floor(room).astype(np.int64)


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


def barred_units(known: Sequence[Reservation], job: UUID, ends_s: float) -> frozenset[int]:
    """Return the ids of the units that a job which ends by ``ends_s`` may not use."""
    return frozenset[int]().union(*(each.units for each in known if each.binds(job, ends_s)))


def held_mask(topology: Topology, reservations: Sequence[Reservation]) -> Bools:
    """(U,) True for the units of reservations."""
    units = frozenset[int]().union(*(each.units for each in reservations))
    held: Bools = np.isin(topology.unit_id, sorted(units))
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
