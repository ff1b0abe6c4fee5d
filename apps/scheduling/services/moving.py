"""Other units for what a job holds: reserved before a move, its own once it has arrived.

In the caller's transaction, which has locked the jobs.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connection
from django.utils import timezone

from apps.inventory.selectors import cluster_clock
from apps.scheduling.core.settle import Claim, Vector, settle
from apps.scheduling.services.holding import Grant, less, lock_servers, record, take
from apps.scheduling.services.release import release_allocations


class Wish(NamedTuple):
    """A live allocation, and the server that as many units are wanted of in its place."""

    allocation: int
    server: int


class Obstacle(StrEnum):
    """Why units could not be reserved."""

    SERVER_CLOSED = "server_closed"
    UNITS_SHORT = "units_short"
    CAPACITY_SHORT = "capacity_short"


class _Source(NamedTuple):
    job: UUID
    decision: UUID
    cores: int
    caused: list[float]
    asked: Sequence[int]  # per unit; 0 = the unit's equal share of its server


def reserve(wishes: Sequence[Wish]) -> list[int | Obstacle]:
    """Take as many units elsewhere as allocations hold, beside these; earlier wishes win.

    They count as held from now on and name the allocation they are to take over from; what they
    take of their server is what a commit would take there. The constraints of the job (platforms,
    labels, locality) are the caller's to keep.

    Returns
    -------
    The id of the new allocation, or why there is none, of each wish. Only events may be written
    after it, and rows nobody else waits for.
    """
    sources = _sources(wish.allocation for wish in wishes)
    servers = sorted({wish.server for wish in wishes})
    unused, free = _lock_free_units(servers), lock_servers(servers)
    left, shares = dict(free), _shares(servers)
    grants: dict[int, Grant] = {}
    obstacles: dict[int, Obstacle] = {}
    for place, (allocation, server) in enumerate(wishes):
        source, units = sources[allocation], unused[server]
        vector = _vector(source, shares[server]) if server in shares else (0.0, 0.0, 0.0)
        claim = _claim(source, units[: source.cores], server, vector)
        if server not in left:
            obstacles[place] = Obstacle.SERVER_CLOSED
        elif len(units) < source.cores:
            obstacles[place] = Obstacle.UNITS_SHORT
        elif positions := settle([claim], dict.fromkeys(units), left)[0]:
            del units[: source.cores]
            left[server] = less(left[server], vector, source.cores)
            grants[place] = _grant(source, allocation, claim, positions)
        else:
            obstacles[place] = Obstacle.CAPACITY_SHORT
    taken = dict(zip(grants, _write(list(grants.values()), free), strict=True))
    return [
        obstacles[place] if place in obstacles else taken[place] for place in range(len(wishes))
    ]


def settle_moves(arrived: Mapping[int, float], *, given_up: Sequence[int] = ()) -> int:
    """End moves: what arrived replaces what it was reserved for, what was given up is given back.

    Parameters
    ----------
    arrived : id of a reserved allocation -> cluster second at which it took over
    given_up : ids of reserved allocations

    Returns
    -------
    How many allocations were given back. Only events may be written after it.
    """
    ids = sorted(arrived)
    rows = _rows(
        """UPDATE scheduling_allocation AS a SET moved_s = d.at
           FROM unnest(%s::bigint[], %s::float8[]) AS d(id, at)
           WHERE a.id = d.id AND a.moved_s IS NULL RETURNING a.moved_from""",
        [ids, [arrived[key] for key in ids]],
    )
    return release_allocations([*(source for (source,) in rows), *given_up])


def _sources(allocation_ids: Iterable[int]) -> dict[int, _Source]:
    rows = _rows(
        """SELECT a.id, a.job_id, a.decision_id, a.cores, a.caused,
                  j.unit_memory_bytes, j.unit_network_bps, j.unit_storage_bytes
           FROM scheduling_allocation a JOIN workloads_job j ON j.id = a.job_id
           WHERE a.id = ANY(%s)""",
        [sorted(set(allocation_ids))],
    )
    return {
        key: _Source(job, decision, cores, caused, asked)
        for key, job, decision, cores, caused, *asked in rows
    }


def _lock_free_units(servers: Sequence[int]) -> dict[int, list[int]]:
    """Lock the free units of servers; their ids by server, lowest first."""
    found: dict[int, list[int]] = defaultdict(list)
    for unit, server in _rows(
        """SELECT id, server_id FROM inventory_resourceunit
           WHERE server_id = ANY(%s) AND allocation_id IS NULL ORDER BY id FOR UPDATE""",
        [servers],
    ):
        found[server].append(unit)
    return found


def _shares(servers: Sequence[int]) -> dict[int, Vector]:
    """Read what one unit's equal share of each server is, rounded down."""
    rows = _rows(
        """SELECT id, memory_bytes / cores, network_bps / cores, storage_bytes / cores
           FROM inventory_server WHERE id = ANY(%s)""",
        [servers],
    )
    return {server: (memory, network, storage) for server, memory, network, storage in rows}


def _vector(source: _Source, share: Vector) -> Vector:
    memory, network, storage = (
        asked or equal for asked, equal in zip(source.asked, share, strict=True)
    )
    return memory, network, storage


def _claim(source: _Source, units: Sequence[int], server: int, vector: Vector) -> Claim:
    return Claim(
        job=str(source.job),
        units=units,
        servers=[server] * len(units),
        vectors=[vector] * len(units),
        whole=True,
    )


def _grant(source: _Source, allocation: int, claim: Claim, positions: tuple[int, ...]) -> Grant:
    return Grant(source.job, source.decision, claim, positions, source.caused, allocation)


def _write(grants: Sequence[Grant], free: Mapping[int, Vector]) -> list[int]:
    if not grants:
        return []
    now = timezone.now()
    parts = take(grants, free)
    record(parts, at=now, cluster_s=cluster_clock().at(now.timestamp()))
    return [part.allocation for part in parts]


def _rows(sql: str, parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return cursor.fetchall()
