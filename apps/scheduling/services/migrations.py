"""Reservations for migrations: units on other servers that replace live allocations.

All functions run in the caller's transaction, which has locked the jobs.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Any, NamedTuple
from uuid import UUID

from apps.common.infrastructure.database import fetch_rows
from apps.inventory.selectors import cluster_time
from apps.inventory.services import lock_free_units, lock_servers, owners_of, unit_chips
from apps.scheduling.core.cluster.chips import CoreChoice
from apps.scheduling.core.cluster.conflicts import Claim, KeptUnit, Vector, resolve_conflicts
from apps.scheduling.core.reservations.gangs import NOTHING, units_of
from apps.scheduling.services.allocation_store import (
    Grant,
    allocate,
    record_allocations,
    remaining,
)
from apps.scheduling.services.core_choices import Wanted, choose_cores
from apps.scheduling.services.release import release_allocations
from apps.scheduling.services.reservations import reservations


class ReservationRequest(NamedTuple):
    """A live allocation, and the server on which to reserve the same number of units."""

    allocation: int
    server: int


class ReservationFailure(StrEnum):
    """Why units could not be reserved."""

    SERVER_CLOSED = "server_closed"
    UNITS_SHORT = "units_short"
    CAPACITY_SHORT = "capacity_short"


class _AllocationSpec(NamedTuple):
    """What a reservation copies from the allocation that migrates."""

    job: UUID
    decision: UUID
    cores: int
    caused: list[float]
    tolerated: list[float]
    requested: Sequence[int]  # resources per unit; 0 = an equal share


def reserve_units(requests: Sequence[ReservationRequest]) -> list[int | ReservationFailure]:
    """Reserve units for migrations, in addition to the live allocations; earlier requests win.

    Reservations are allocations that name the allocation they replace. They use the same resources
    as a commit on that server would. The caller checks the constraints of the job (platforms,
    labels, locality).

    Returns
    -------
    The id of the new allocation or the failure of each request. Afterwards, only events and rows
    without contention may be written.
    """
    sources = _sources(request.allocation for request in requests)
    servers = sorted({request.server for request in requests})
    unused, free = lock_free_units(servers), lock_servers(servers)
    left, (shares, grouped) = dict(free), _shares(servers)
    if kept := _kept(shares):
        taken = {unit for units in kept.values() for unit, _ in units}
        unused = {key: [u for u in unused[key] if u not in taken] for key in servers}
    choices = _choices(requests, sources, unused, grouped) if grouped else {}
    grants: dict[int, Grant] = {}
    failures: dict[int, ReservationFailure] = {}
    for place, (allocation, server) in enumerate(requests):
        source, units = sources[allocation], unused[server]
        vector = _vector(source, shares[server]) if server in shares else (0.0, 0.0, 0.0)
        choice = choices.get(place)
        chosen = units[: source.cores] if choice is None else choice.units
        claim = replace(_claim(source, chosen, server, vector), kept=kept)
        if server not in left:
            failures[place] = ReservationFailure.SERVER_CLOSED
        elif len(units) < source.cores:
            failures[place] = ReservationFailure.UNITS_SHORT
        elif positions := resolve_conflicts([claim], dict.fromkeys(units), left)[0]:
            unused[server] = [unit for unit in units if unit not in chosen]
            left[server] = remaining(left[server], vector, source.cores)
            named = units[: source.cores]
            why = None if choice is None else choice.as_json(named)
            grants[place] = _grant(source, allocation, claim, positions, why)
        else:
            failures[place] = ReservationFailure.CAPACITY_SHORT
    written = dict(zip(grants, _write(list(grants.values()), free), strict=True))
    return [
        failures[place] if place in failures else written[place] for place in range(len(requests))
    ]


def _kept(shares: Mapping[int, Vector]) -> dict[int, list[KeptUnit]]:
    """Return the reserved units of servers and what these units will take, by server."""
    known, kept = reservations(), defaultdict[int, list[KeptUnit]](list)
    if not known:
        return kept
    ids = sorted(units_of(known))
    sql = "SELECT id, server_id FROM inventory_resourceunit WHERE id = ANY(%s)"
    server_of = {unit: server for unit, server in fetch_rows(sql, [ids]) if server in shares}
    for each in known:
        for unit in each.units & server_of.keys():
            server, held = server_of[unit], each.held.get(unit, NOTHING)
            m, n, s = (
                max(0.0, (one or equal) - has)
                for one, equal, has in zip(each.per_unit, shares[server], held, strict=True)
            )
            kept[server].append((unit, (m, n, s)))
    return kept


def _choices(
    requests: Sequence[ReservationRequest],
    sources: Mapping[int, _AllocationSpec],
    unused: Mapping[int, Sequence[int]],
    grouped: Sequence[int],
) -> dict[int, CoreChoice]:
    """Choose the cores of migrations to servers with several L3 groups, by place in the requests.

    All containers that a plan moves to one server get their cores together, tazes first.

    Parameters
    ----------
    grouped : these servers
    """
    chips = unit_chips(grouped)
    owners = owners_of(unit for units in chips.values() for unit in units)
    by_server: dict[int, list[int]] = defaultdict(list)
    for place, request in enumerate(requests):
        if request.server in chips:
            by_server[request.server].append(place)
    found: dict[int, CoreChoice] = {}
    for server, places in by_server.items():
        of = [sources[requests[place].allocation] for place in places]
        wanted = [Wanted(source.cores, source.caused, source.tolerated) for source in of]
        barred = set(chips[server]) - set(unused[server])
        choices = choose_cores(chips[server], owners, wanted, barred=barred)
        found.update(zip(places, choices, strict=False))  # the last may have no room
    return found


def finish_migrations(arrived: Mapping[int, float], *, given_up: Sequence[int] = ()) -> int:
    """Finish migrations: release the replaced allocations, and abandoned reservations.

    Parameters
    ----------
    arrived : id of a reserved allocation -> cluster second at which it replaced the other
    given_up : ids of abandoned reservations

    Returns
    -------
    The number of allocations released. Afterwards, only events may be written.
    """
    ids = sorted(arrived)
    rows = fetch_rows(
        """UPDATE scheduling_allocation AS a SET moved_s = d.at
           FROM unnest(%s::bigint[], %s::float8[]) AS d(id, at)
           WHERE a.id = d.id AND a.moved_s IS NULL RETURNING a.moved_from""",
        [ids, [arrived[key] for key in ids]],
    )
    return release_allocations([*(source for (source,) in rows), *given_up])


def _sources(allocation_ids: Iterable[int]) -> dict[int, _AllocationSpec]:
    rows = fetch_rows(
        """SELECT a.id, a.job_id, a.decision_id, a.cores, a.caused, a.tolerated,
                  j.unit_memory_bytes, j.unit_network_bps, j.unit_storage_bytes
           FROM scheduling_allocation a JOIN workloads_job j ON j.id = a.job_id
           WHERE a.id = ANY(%s)""",
        [sorted(set(allocation_ids))],
    )
    return {
        key: _AllocationSpec(job, decision, cores, caused, tolerated, requested)
        for key, job, decision, cores, caused, tolerated, *requested in rows
    }


def _shares(servers: Sequence[int]) -> tuple[dict[int, Vector], list[int]]:
    """Return the equal share of one unit, rounded down, and the servers with several L3 groups."""
    rows = fetch_rows(
        """SELECT id, memory_bytes / cores, network_bps / cores, storage_bytes / cores,
                  cardinality(l3_groups) > 0
           FROM inventory_server WHERE id = ANY(%s)""",
        [servers],
    )
    shares = {server: (memory, network, storage) for server, memory, network, storage, _ in rows}
    return shares, [server for server, *_, is_grouped in rows if is_grouped]


def _vector(source: _AllocationSpec, share: Vector) -> Vector:
    memory, network, storage = (
        requested or equal for requested, equal in zip(source.requested, share, strict=True)
    )
    return memory, network, storage


def _claim(source: _AllocationSpec, units: Sequence[int], server: int, vector: Vector) -> Claim:
    return Claim(
        job=str(source.job),
        units=units,
        servers=[server] * len(units),
        vectors=[vector] * len(units),
        whole=True,
    )


def _grant(
    source: _AllocationSpec,
    allocation: int,
    claim: Claim,
    positions: tuple[int, ...],
    core_choice: dict[str, Any] | None,
) -> Grant:
    return Grant(
        *(source.job, source.decision, claim, positions),
        caused=source.caused,
        tolerated=source.tolerated,
        moved_from=allocation,
        core_choice=core_choice,
    )


def _write(grants: Sequence[Grant], free: Mapping[int, Vector]) -> list[int]:
    if not grants:
        return []
    now = cluster_time()
    new = allocate(grants, free)
    record_allocations(new, at=now.at, cluster_s=now.cluster_s)
    return [row.allocation for row in new]
