"""Create and end allocations: shared by commits, migrations and releases.

All functions run in the caller's transaction, in the order of `common.infrastructure.locks`.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple
from uuid import UUID

from django.db import connection

from apps.common.infrastructure.database import copy_rows, fetch_prepared, number_array
from apps.inventory import services as inventory
from apps.inventory.models import ChangeKind
from apps.inventory.services import NewChange, Usage, append_changes
from apps.scheduling.core.cluster.conflicts import Claim, Vector
from apps.scheduling.models import Allocation


class Grant(NamedTuple):
    """The units that a claim has won.

    Attributes
    ----------
    positions : of these units in the claim
    caused, tolerated : (N,) interference that each unit causes, and that the job tolerates, 0-100
    moved_from : allocation that a migration replaces by these units
    core_choice : why these cores (`core.chips`), as JSON; None if the server has one L3 group
    """

    job: UUID
    decision: UUID
    claim: Claim
    positions: tuple[int, ...]
    caused: Sequence[float]
    tolerated: Sequence[float]
    moved_from: int | None = None
    core_choice: dict[str, Any] | None = None


class NewAllocation(NamedTuple):
    """The units of one grant on one server; ``vector`` is per unit, in whole bytes and bits/s."""

    allocation: int
    grant: Grant
    server: int
    units: list[int]
    vector: tuple[int, int, int]


class LiveAllocation(NamedTuple):
    """A live allocation and what it uses of its server."""

    allocation: int
    units: list[int]
    usage: Usage


def remaining(free: Vector, vector: Vector, units: int) -> Vector:
    """Subtract the vectors of a number of units from free capacity."""
    memory, network, storage = (a - units * b for a, b in zip(free, vector, strict=True))
    return memory, network, storage


def allocate(grants: Iterable[Grant], free: Mapping[int, Vector]) -> list[NewAllocation]:
    """Allocate units and capacity, which the caller has locked.

    Parameters
    ----------
    free : server id -> free capacity (`inventory.services.lock_servers`)

    Raises
    ------
    RuntimeError : a unit was not free.
    """
    new = _new_allocations(grants, free)
    owners = {unit: row.allocation for row in new for unit in row.units}
    inventory.allocate_units(owners, [_usage(row) for row in new])
    return new


def record_allocations(
    new: Sequence[NewAllocation], *, at: datetime, cluster_s: float
) -> list[int]:
    """Record allocations in the change log and their table; returns the change-log numbers."""
    numbers = append_changes([_change(row) for row in new], at=at, cluster_s=cluster_s)
    copy_rows(
        Allocation._meta.db_table,
        _ALLOCATION_COLUMNS,
        (
            (
                *(row.allocation, row.grant.job, row.grant.decision, row.server),
                *(number_array(row.units), len(row.units), *(_total(row, i) for i in range(3))),
                *(number_array(row.grant.caused), number_array(row.grant.tolerated)),
                *(number, at, cluster_s, row.grant.moved_from),
                json.dumps(row.grant.core_choice) if row.grant.core_choice else None,
            )
            for row, number in zip(new, numbers, strict=True)
        ),
    )
    return numbers


_ALLOCATION_COLUMNS: Final = (
    *("id", "job_id", "decision_id", "server_id", "unit_ids", "cores"),
    *("memory_bytes", "network_bps", "storage_bytes", "caused", "tolerated"),
    *("acquired_seq", "acquired_at", "acquired_s", "moved_from", "core_choice"),
)


def _new_allocations(grants: Iterable[Grant], free: Mapping[int, Vector]) -> list[NewAllocation]:
    groups: dict[tuple[int, int], tuple[Grant, list[int], Vector]] = {}
    for number, grant in enumerate(grants):
        for position in grant.positions:
            key = (number, grant.claim.servers[position])
            _, units, _ = groups.setdefault(key, (grant, [], grant.claim.vectors[position]))
            units.append(grant.claim.units[position])
    ids = fetch_prepared(
        "SELECT nextval('common_allocations_seq') FROM generate_series(1, %s::int)", [len(groups)]
    )
    left = dict(free)
    new = []
    for (allocation,), ((_, server), (grant, units, requested)) in zip(
        ids, groups.items(), strict=True
    ):
        vector = _clamped(requested, left[server], len(units))
        left[server] = remaining(left[server], vector, len(units))
        new.append(NewAllocation(allocation, grant, server, units, vector))
    return new


def _clamped(requested: Vector, left: Vector, units: int) -> tuple[int, int, int]:
    """Limit the vector of each unit to the capacity left, which `SLACK` allows to exceed."""
    memory, network, storage = (
        min(int(a), int(b // units)) for a, b in zip(requested, left, strict=True)
    )
    return memory, network, storage


def _usage(new: NewAllocation) -> Usage:
    return Usage(new.server, len(new.units), *(_total(new, i) for i in range(3)))


def _total(new: NewAllocation, resource: int) -> int:
    return new.vector[resource] * len(new.units)


def _change(new: NewAllocation) -> NewChange:
    return NewChange(
        kind=ChangeKind.CLAIM,
        server_id=new.server,
        allocation_id=new.allocation,
        unit_ids=new.units,
        vector=[float(value) for value in new.vector],
        caused=new.grant.caused,
        tolerated=new.grant.tolerated,
    )


def end_allocations(live: Sequence[LiveAllocation], *, at: datetime, cluster_s: float) -> None:
    """End allocations, which the caller has locked; only events may be written after it."""
    allocations = [row.allocation for row in live]
    inventory.release_units(
        (unit for row in live for unit in row.units),
        allocation_ids=allocations,
        usages=[row.usage for row in live],
    )
    changes = [
        NewChange(ChangeKind.RELEASE, row.usage.server_id, row.allocation, row.units)
        for row in live
    ]
    numbers = append_changes(changes, at=at, cluster_s=cluster_s)
    with connection.cursor() as cursor:
        cursor.execute(
            """UPDATE scheduling_allocation AS a
               SET released_seq = d.seq, released_at = %s, released_s = %s
               FROM unnest(%s::bigint[], %s::bigint[]) AS d(id, seq) WHERE a.id = d.id""",
            [at, cluster_s, number_array(allocations), number_array(numbers)],
        )
