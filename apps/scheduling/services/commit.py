"""The optimistic commit: what agents decided becomes true, or is lost to a faster one.

One transaction for a batch; its rows are locked in the order of `holding`. The rule of who wins is
`core.settle`, the same as in memory; PostgreSQL's constraints hold whatever anybody believes.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

import numpy as np
from django.db import connection, transaction
from django.utils import timezone

from apps.common.core.ids import uuid7
from apps.inventory.selectors import cluster_clock
from apps.scheduling.core.capacity import unit_vectors
from apps.scheduling.core.settle import Claim, Vector, settle
from apps.scheduling.services.decisions import (
    insert_decisions,
    placed_reason,
    placed_row,
    predicted_json,
)
from apps.scheduling.services.holding import Grant, lock_servers, record, take
from apps.scheduling.services.proposals import Agent, Lost, Proposal, Won
from apps.workloads import services as workloads


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
        free = lock_servers(server for claim in claims for server in claim.servers)
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
    parts = take((_grant(w, claims[w.proposal.job.id]) for w in won), free)
    moved = workloads.place_jobs(
        [_sized(w, agent) for w in won], agent=agent.name, cluster_s=cluster_s
    )
    if len(moved) != len(won):
        raise RuntimeError(f"{len(won) - len(moved)} locked jobs could not be moved to starting")
    waited = dict(_rows(_WAITED, [now, sorted(moved)]))
    insert_decisions(
        [placed_row(w, agent, now, cluster_s, waited[w.proposal.job.id]) for w in won]
    )
    numbers = record(parts, at=now, cluster_s=cluster_s)
    workloads.record_placed(
        (w.proposal.job.id, w.proposal.job.name, w.proposal.job.project_id, w.decision)
        for w in won
    )
    return {part.grant.job: number for part, number in zip(parts, numbers, strict=True)}


_WAITED: Final = """
SELECT id, extract(epoch FROM %s - created_at)::float8 FROM workloads_job WHERE id = ANY(%s)
"""


def _grant(w: Won, claim: Claim) -> Grant:
    caused = w.proposal.request.caused.tolist()
    return Grant(w.proposal.job.id, w.decision, claim, w.positions, caused)


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
