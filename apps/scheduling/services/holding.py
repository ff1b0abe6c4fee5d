"""Units and capacity of servers, taken and given back: what commits, moves and releases share.

Everything happens in the caller's transaction. Rows are locked in one order everywhere (jobs,
allocations, units, servers, each by id; then the change log; then the events), so that none of
them can deadlock.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple
from uuid import UUID

from django.db import connection

from apps.common.db import copy_rows
from apps.inventory.models import ChangeKind, ServerState
from apps.inventory.services import NewChange, append_changes
from apps.scheduling.core.settle import Claim, Vector
from apps.scheduling.models import Allocation


class Grant(NamedTuple):
    """What a claim has won: the units at some positions in it.

    Attributes
    ----------
    caused : (N,) score per source that each of the units adds
    moved_from : the allocation that these units are to take over from
    """

    job: UUID
    decision: UUID
    claim: Claim
    positions: tuple[int, ...]
    caused: Sequence[float]
    moved_from: int | None = None


class Part(NamedTuple):
    """One allocation: what a job gets of one server; ``vector`` per unit, whole bytes and bits."""

    allocation: int
    grant: Grant
    server: int
    units: list[int]
    vector: tuple[int, int, int]


class Held(NamedTuple):
    """A live allocation."""

    allocation: int
    server: int
    units: list[int]


def lock_servers(server_ids: Iterable[int]) -> dict[int, Vector]:
    """Lock those servers that take new work; what is free there, oversubscription included."""
    rows = _rows(
        """SELECT id, memory_bytes * oversubscription - used_memory_bytes,
                  network_bps * oversubscription - used_network_bps,
                  storage_bytes * oversubscription - used_storage_bytes
           FROM inventory_server WHERE id = ANY(%s) AND state = %s ORDER BY id FOR UPDATE""",
        [sorted(set(server_ids)), ServerState.ACTIVE],
    )
    return {server: (memory, network, storage) for server, memory, network, storage in rows}


def less(left: Vector, vector: Vector, units: int) -> Vector:
    """Return what is left when so many units have taken so much each."""
    memory, network, storage = (a - units * b for a, b in zip(left, vector, strict=True))
    return memory, network, storage


# ---- taking ----


def take(grants: Iterable[Grant], free: Mapping[int, Vector]) -> list[Part]:
    """Take units and capacity, which the caller has locked.

    Parameters
    ----------
    free : server id -> what is free there (`lock_servers`)

    Raises
    ------
    RuntimeError : a unit was not free.
    """
    parts = _parts(grants, free)
    _take_units(parts)
    _take_capacity(parts)
    return parts


def record(parts: Sequence[Part], *, at: datetime, cluster_s: float) -> range:
    """Tell of what was taken: the change log, whose numbers are returned, and allocations."""
    numbers = append_changes([_change(part) for part in parts], at=at, cluster_s=cluster_s)
    copy_rows(
        Allocation._meta.db_table,
        _ALLOCATION_COLUMNS,
        (
            (
                *(part.allocation, part.grant.job, part.grant.decision, part.server),
                *(part.units, len(part.units), _total(part, 0), _total(part, 1), _total(part, 2)),
                *(list(part.grant.caused), number, at, cluster_s, part.grant.moved_from),
            )
            for part, number in zip(parts, numbers, strict=True)
        ),
    )
    return numbers


_ALLOCATION_COLUMNS: Final = (
    *("id", "job_id", "decision_id", "server_id", "unit_ids", "cores"),
    *("memory_bytes", "network_bps", "storage_bytes", "caused"),
    *("acquired_seq", "acquired_at", "acquired_s", "moved_from"),
)


def _parts(grants: Iterable[Grant], free: Mapping[int, Vector]) -> list[Part]:
    groups: dict[tuple[int, int], tuple[Grant, list[int], Vector]] = {}
    for number, grant in enumerate(grants):
        for position in grant.positions:
            key = (number, grant.claim.servers[position])
            _, units, _ = groups.setdefault(key, (grant, [], grant.claim.vectors[position]))
            units.append(grant.claim.units[position])
    ids = _rows(
        "SELECT nextval('common_allocations_seq') FROM generate_series(1, %s)", [len(groups)]
    )
    left = dict(free)
    parts = []
    for (allocation,), ((_, server), (grant, units, asked)) in zip(
        ids, groups.items(), strict=True
    ):
        vector = _at_most(asked, left[server], len(units))
        left[server] = less(left[server], vector, len(units))
        parts.append(Part(allocation, grant, server, units, vector))
    return parts


def _at_most(asked: Vector, left: Vector, units: int) -> tuple[int, int, int]:
    """Return what each unit gets: as asked, less the hair by which `settle` lets it exceed."""
    memory, network, storage = (
        min(int(a), int(b // units)) for a, b in zip(asked, left, strict=True)
    )
    return memory, network, storage


def _take_units(parts: Sequence[Part]) -> None:
    units = [unit for part in parts for unit in part.units]
    owners = [part.allocation for part in parts for _ in part.units]
    taken = _rows(
        """UPDATE inventory_resourceunit AS u SET allocation_id = d.owner, version = u.version + 1
           FROM unnest(%s::bigint[], %s::bigint[]) AS d(unit, owner)
           WHERE u.id = d.unit AND u.allocation_id IS NULL RETURNING u.id""",
        [units, owners],
    )
    if len(taken) != len(units):
        raise RuntimeError(f"{len(units) - len(taken)} locked units were not free")


def _take_capacity(parts: Sequence[Part]) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            """UPDATE inventory_server AS s SET used_cores = used_cores + d.cores,
                      used_memory_bytes = used_memory_bytes + d.memory,
                      used_network_bps = used_network_bps + d.network,
                      used_storage_bytes = used_storage_bytes + d.storage
               FROM (SELECT server, sum(cores) AS cores, sum(memory) AS memory,
                            sum(network) AS network, sum(storage) AS storage
                     FROM unnest(%s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[],
                                 %s::bigint[]) AS t(server, cores, memory, network, storage)
                     GROUP BY server) AS d
               WHERE s.id = d.server""",
            [
                [part.server for part in parts],
                [len(part.units) for part in parts],
                *([_total(part, i) for part in parts] for i in range(3)),
            ],
        )


def _total(part: Part, resource: int) -> int:
    return part.vector[resource] * len(part.units)


def _change(part: Part) -> NewChange:
    return NewChange(
        kind=ChangeKind.CLAIM,
        server_id=part.server,
        allocation_id=part.allocation,
        unit_ids=part.units,
        vector=[float(value) for value in part.vector],
        caused=part.grant.caused,
    )


# ---- giving back ----

_GIVE_BACK: Final = """
UPDATE inventory_server AS s SET used_cores = used_cores - d.cores,
       used_memory_bytes = used_memory_bytes - d.memory,
       used_network_bps = used_network_bps - d.network,
       used_storage_bytes = used_storage_bytes - d.storage
FROM (SELECT server_id, sum(cores) AS cores, sum(memory_bytes) AS memory,
             sum(network_bps) AS network, sum(storage_bytes) AS storage
      FROM scheduling_allocation WHERE id = ANY(%s) GROUP BY server_id) AS d
WHERE s.id = d.server_id
"""


def give_back(held: Sequence[Held], *, at: datetime, cluster_s: float) -> None:
    """End allocations, which the caller has locked; only the events may be written after it."""
    allocations = [one.allocation for one in held]
    units = sorted(unit for one in held for unit in one.units)
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT FROM inventory_resourceunit WHERE id = ANY(%s) ORDER BY id FOR UPDATE",
            [units],
        )
        cursor.execute(
            "SELECT FROM inventory_server WHERE id = ANY(%s) ORDER BY id FOR UPDATE",
            [sorted({one.server for one in held})],
        )
        cursor.execute(
            """UPDATE inventory_resourceunit SET allocation_id = NULL, version = version + 1
               WHERE id = ANY(%s) AND allocation_id = ANY(%s)""",
            [units, allocations],
        )
        cursor.execute(_GIVE_BACK, [allocations])
        changes = [
            NewChange(ChangeKind.RELEASE, one.server, one.allocation, one.units) for one in held
        ]
        numbers = append_changes(changes, at=at, cluster_s=cluster_s)
        cursor.execute(
            """UPDATE scheduling_allocation AS a
               SET released_seq = d.seq, released_at = %s, released_s = %s
               FROM unnest(%s::bigint[], %s::bigint[]) AS d(id, seq) WHERE a.id = d.id""",
            [at, cluster_s, allocations, list(numbers)],
        )


def _rows(sql: str, parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return cursor.fetchall()
