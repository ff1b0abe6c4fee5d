"""The optimistic commit: what agents decided becomes true, or is lost to a faster one.

One transaction for a batch. Rows are locked in one order everywhere (jobs, units, servers, each by
id; then the change log; then the events), so commits and releases cannot deadlock. The rule of who
wins is `core.settle`, the same as in memory; PostgreSQL's constraints hold whatever anybody
believes.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple
from uuid import UUID

import numpy as np
from django.db import connection, transaction
from django.utils import timezone

from apps.common.core.ids import uuid7
from apps.common.db import copy_rows
from apps.inventory.models import ChangeKind, ServerState
from apps.inventory.selectors import cluster_clock
from apps.inventory.services import NewChange, append_changes
from apps.scheduling.core.capacity import unit_vectors
from apps.scheduling.core.settle import Claim, Vector, settle
from apps.scheduling.models import Allocation
from apps.scheduling.services.decisions import (
    insert_decisions,
    placed_reason,
    placed_row,
    predicted_json,
)
from apps.scheduling.services.proposals import Agent, Lost, Proposal, Won
from apps.workloads import services as workloads


class _Part(NamedTuple):
    """One allocation: what a job gets of one server."""

    allocation: int
    won: Won
    server: int
    units: list[int]
    vector: tuple[int, int, int]  # per unit, whole bytes and bits


def commit(proposals: Sequence[Proposal], *, agent: Agent) -> tuple[dict[UUID, int], list[Lost]]:
    """Take the units of many proposals; earlier ones win.

    Returns
    -------
    (change-log number by job for those that won, and those that did not)
    """
    with transaction.atomic():
        ours = _lock_jobs([p.job.id for p in proposals], agent.name)
        alive = [p for p in proposals if p.job.id in ours]
        claims = [_claim(p) for p in alive]
        owners = _lock_units(unit for claim in claims for unit in claim.units)
        free = _lock_servers(server for claim in claims for server in claim.servers)
        settled = settle(claims, owners, free)
        won = [
            Won(p, uuid7(), positions)
            for p, positions in zip(alive, settled, strict=True)
            if positions
        ]
        sequences = _write(
            won, claims=dict(zip(map(_job, alive), claims, strict=True)), free=free, agent=agent
        )
    winners = {w.proposal.job.id for w in won}
    lost = [Lost(p, is_gone=p.job.id not in ours) for p in proposals if p.job.id not in winners]
    return sequences, lost


def _job(proposal: Proposal) -> UUID:
    return proposal.job.id


def _lock_jobs(job_ids: Iterable[UUID], agent: str) -> set[UUID]:
    rows = _rows(
        """SELECT id FROM workloads_job
           WHERE id = ANY(%s) AND state IN ('submitted', 'queued') AND NOT held
             AND NOT cancel_requested AND claimed_by = %s
           ORDER BY id FOR NO KEY UPDATE""",
        [sorted(job_ids), agent],
    )
    return {row[0] for row in rows}


def _lock_units(unit_ids: Iterable[int]) -> dict[int, int | None]:
    rows = _rows(
        """SELECT id, allocation_id FROM inventory_resourceunit
           WHERE id = ANY(%s) ORDER BY id FOR UPDATE""",
        [sorted(set(unit_ids))],
    )
    return dict(rows)


def _lock_servers(server_ids: Iterable[int]) -> dict[int, Vector]:
    rows = _rows(
        """SELECT id, memory_bytes * oversubscription - used_memory_bytes,
                  network_bps * oversubscription - used_network_bps,
                  storage_bytes * oversubscription - used_storage_bytes
           FROM inventory_server WHERE id = ANY(%s) AND state = %s ORDER BY id FOR UPDATE""",
        [sorted(set(server_ids)), ServerState.ACTIVE],
    )
    return {server: (memory, network, storage) for server, memory, network, storage in rows}


def _claim(proposal: Proposal) -> Claim:
    topology, units = proposal.topology, proposal.placed.units
    servers = topology.unit_server[units]
    # whole numbers, rounded down, so that M shares never exceed their server
    vectors = np.floor(unit_vectors(topology, servers, proposal.request)).tolist()
    return Claim(
        job=proposal.request.job,
        units=topology.unit_id[units].tolist(),
        servers=topology.server_id[servers].tolist(),
        vectors=[(v[0], v[1], v[2]) for v in vectors],
        whole=proposal.request.gang or proposal.request.locality is not None,
    )


def _write(
    won: Sequence[Won],
    *,
    claims: Mapping[UUID, Claim],
    free: Mapping[int, Vector],
    agent: Agent,
) -> dict[UUID, int]:
    if not won:
        return {}
    now = timezone.now()
    cluster_s = cluster_clock().at(now.timestamp())
    parts = _parts(won, claims, free)
    _take_units(parts)
    _take_capacity(parts)
    moved = workloads.place_jobs(
        [_sized(w, agent) for w in won], agent=agent.name, cluster_s=cluster_s
    )
    if len(moved) != len(won):
        raise RuntimeError(f"{len(won) - len(moved)} locked jobs could not be moved to starting")
    waited = dict(_rows(_WAITED, [now, sorted(moved)]))
    insert_decisions(
        [placed_row(w, agent, now, cluster_s, waited[w.proposal.job.id]) for w in won]
    )
    numbers = append_changes([_change(part) for part in parts], at=now, cluster_s=cluster_s)
    _insert_allocations(parts, numbers, now, cluster_s)
    workloads.record_placed(
        (w.proposal.job.id, w.proposal.job.name, w.proposal.job.project_id, w.decision)
        for w in won
    )
    return {part.won.proposal.job.id: number for part, number in zip(parts, numbers, strict=True)}


_WAITED: Final = """
SELECT id, extract(epoch FROM %s - created_at)::float8 FROM workloads_job WHERE id = ANY(%s)
"""


def _parts(
    won: Sequence[Won], claims: Mapping[UUID, Claim], free: Mapping[int, Vector]
) -> list[_Part]:
    groups: dict[tuple[UUID, int], tuple[Won, list[int], Vector]] = {}
    for w in won:
        claim = claims[w.proposal.job.id]
        for position in w.positions:
            key = (w.proposal.job.id, claim.servers[position])
            _, units, _ = groups.setdefault(key, (w, [], claim.vectors[position]))
            units.append(claim.units[position])
    ids = _rows(
        "SELECT nextval('common_allocations_seq') FROM generate_series(1, %s)", [len(groups)]
    )
    left = dict(free)
    parts = []
    for (allocation,), ((_, server), (w, units, asked)) in zip(ids, groups.items(), strict=True):
        vector = _at_most(asked, left[server], len(units))
        left[server] = _less(left[server], vector, len(units))
        parts.append(_Part(allocation, w, server, units, vector))
    return parts


def _at_most(asked: Vector, left: Vector, units: int) -> tuple[int, int, int]:
    """Return what each unit gets: as asked, less the hair by which `settle` lets it exceed."""
    memory, network, storage = (
        min(int(a), int(b // units)) for a, b in zip(asked, left, strict=True)
    )
    return memory, network, storage


def _less(left: Vector, vector: Vector, units: int) -> Vector:
    memory, network, storage = (a - units * b for a, b in zip(left, vector, strict=True))
    return memory, network, storage


def _take_units(parts: Sequence[_Part]) -> None:
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


def _take_capacity(parts: Sequence[_Part]) -> None:
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


def _total(part: _Part, resource: int) -> int:
    return part.vector[resource] * len(part.units)


def _change(part: _Part) -> NewChange:
    return NewChange(
        kind=ChangeKind.CLAIM,
        server_id=part.server,
        allocation_id=part.allocation,
        unit_ids=part.units,
        vector=[float(value) for value in part.vector],
        caused=part.won.proposal.request.caused.tolist(),
    )


_ALLOCATION_COLUMNS: Final = (
    *("id", "job_id", "decision_id", "server_id", "unit_ids", "cores"),
    *("memory_bytes", "network_bps", "storage_bytes", "caused"),
    *("acquired_seq", "acquired_at", "acquired_s"),
)


def _insert_allocations(
    parts: Sequence[_Part], numbers: Iterable[int], now: datetime, cluster_s: float
) -> None:
    copy_rows(
        Allocation._meta.db_table,
        _ALLOCATION_COLUMNS,
        (
            (
                *(part.allocation, part.won.proposal.job.id, part.won.decision, part.server),
                *(part.units, len(part.units), _total(part, 0), _total(part, 1), _total(part, 2)),
                *(part.won.proposal.request.caused.tolist(), number, now, cluster_s),
            )
            for part, number in zip(parts, numbers, strict=True)
        ),
    )


def _sized(w: Won, agent: Agent) -> workloads.Sized:
    return workloads.Sized(
        job_id=w.proposal.job.id,
        units=len(w.positions),
        reason=placed_reason(agent),
        message="",
        predicted=predicted_json(w.proposal.sized),
    )


def _rows(sql: str, parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return cursor.fetchall()
