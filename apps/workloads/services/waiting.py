"""Claims of jobs that no agent has refused, and refusals.

A refused job joins the shape of its request (`WaitingShape`); `services.shapes` claims it again.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from django.db import transaction

from apps.common.infrastructure.database import (
    begin_claim,
    fetch_prepared,
    fetch_rows,
    without_index,
)
from apps.operations.services import record_events
from apps.workloads.core.reasons import PERMANENT
from apps.workloads.core.shapes import Needs
from apps.workloads.models import Job
from apps.workloads.services.rows import as_json, lock_jobs, row_event
from apps.workloads.services.turns import (
    EQUAL_SHARE,
    FLOWS_OF_NEW_JOBS,
    JOB_IS_NEW,
    JOB_IS_NEW_IN_FLOW,
    JOB_IS_UNCLAIMED,
    NO_SHARES,
    SHARE,
    SHARES,
    shares_as_values,
)

CLAIM_S: Final = 10.0  # wall seconds until another agent may claim the job
FIRST_FLOW: Final = UUID(int=0)
RETRY_S: Final = 0.25  # wall seconds until a shape is tried again whose jobs are claimed

# Jobs that are read for each that is claimed: other agents lock some, and some join a shape.
_READ: Final = 2
# A job that was launched before waits for a reason with which an equal new one fails.
IS_JOINED: Final = f"s.reason_code <> ALL('{{{','.join(sorted(PERMANENT))}}}')"
_HAS_NO_SHAPE: Final = (
    "NOT EXISTS (SELECT FROM workloads_waitingshape s"
    f" WHERE s.key = next.shape_key AND {IS_JOINED})"
)
_MOST_URGENT: Final = f"""
SELECT p.id AS project_id, next.id, next.priority, next.created_at, row_number() OVER (
    PARTITION BY p.id ORDER BY next.priority DESC, next.created_at, next.id) AS place
FROM projects p, LATERAL (
    SELECT j.id, j.priority, j.created_at, j.shape_key FROM workloads_job j
    WHERE j.project_id = p.id AND {JOB_IS_NEW} AND {JOB_IS_UNCLAIMED}
    ORDER BY j.priority DESC, j.created_at, j.id LIMIT {_READ} * {EQUAL_SHARE}) next
WHERE {_HAS_NO_SHAPE}
"""  # noqa: S608 - constants
# the first job of each flow, then the second of each, and so on
_IN_TURN: Final = f"""
SELECT t.project_id, t.id, t.priority, t.created_at,
       row_number() OVER (PARTITION BY t.project_id ORDER BY t.turn, t.created_at, t.id) AS place
FROM (
    SELECT f.project_id, next.*, row_number() OVER (
        PARTITION BY f.project_id, f.user_id ORDER BY next.number, f.place) AS turn
    FROM (
        SELECT *, count(*) OVER (PARTITION BY project_id, user_id) AS count FROM flows) f,
    LATERAL (
        SELECT next.*, row_number() OVER (
            ORDER BY next.priority DESC, next.created_at, next.id) AS number
        FROM (
            SELECT j.id, j.priority, j.created_at, j.shape_key FROM workloads_job j
            WHERE j.project_id = f.project_id AND j.created_by_id = f.user_id
              AND j.flow_key = f.key AND {JOB_IS_NEW_IN_FLOW} AND {JOB_IS_UNCLAIMED}
            ORDER BY j.priority DESC, j.created_at, j.id
            LIMIT {_READ} * greatest(1, f.share / f.count)) next
        WHERE {_HAS_NO_SHAPE}) next) t
"""  # noqa: S608 - constants
# the first job of each flow of the newest jobs
_NEWEST: Final = f"""
SELECT p.id AS project_id, next.id, next.priority, next.created_at, row_number() OVER (
    PARTITION BY p.id ORDER BY flow.place) AS place
FROM projects p, LATERAL (
    SELECT created_by_id, flow_key, min(place) AS place FROM (
        SELECT j.created_by_id, j.flow_key, row_number() OVER (
            ORDER BY j.created_at DESC, j.id DESC) AS place
        FROM workloads_job j
        WHERE j.project_id = p.id AND {JOB_IS_NEW} AND {JOB_IS_UNCLAIMED}
        ORDER BY j.created_at DESC, j.id DESC LIMIT greatest(1, {EQUAL_SHARE} / 4)) newest
    GROUP BY created_by_id, flow_key) flow, LATERAL (
    SELECT j.id, j.priority, j.created_at, j.shape_key FROM workloads_job j
    WHERE j.project_id = p.id AND j.created_by_id = flow.created_by_id
      AND j.flow_key = flow.flow_key AND {JOB_IS_NEW_IN_FLOW} AND {JOB_IS_UNCLAIMED}
    ORDER BY j.priority DESC, j.created_at, j.id LIMIT 1) next
WHERE {_HAS_NO_SHAPE}
"""  # noqa: S608 - constants
# Of four jobs of a project, two are the most urgent, one has its turn and one is the newest.
# OFFSET 0: a nested loop in the order of the ranks, which stops when it has locked enough jobs.
_CLAIM: Final = f"""
WITH RECURSIVE {FLOWS_OF_NEW_JOBS}, candidates AS (
    SELECT id, project_id, priority, created_at, min(place) AS place FROM (
        SELECT project_id, id, priority, created_at, 2 * place AS place
        FROM ({_MOST_URGENT}) most_urgent
        UNION ALL
        SELECT project_id, id, priority, created_at, 4 * place - 1 FROM ({_IN_TURN}) in_turn
        UNION ALL
        SELECT project_id, id, priority, created_at, 4 * place + 1 FROM ({_NEWEST}) newest) each
    GROUP BY id, project_id, priority, created_at),
ranked AS (
    SELECT id, row_number() OVER (
        ORDER BY rank, priority DESC, {SHARE}, created_at, id) AS rank FROM (
        SELECT *, row_number() OVER (
            PARTITION BY project_id ORDER BY place, created_at, id) AS rank
        FROM candidates) of_project LEFT JOIN {SHARES} ON shares.project = project_id)
UPDATE workloads_job SET claimed_by = %(agent)s, claimed_until = %(until)s
WHERE id = ANY(ARRAY(
    SELECT job.id FROM (SELECT * FROM ranked ORDER BY rank LIMIT {_READ} * %(limit)s) r, LATERAL (
        SELECT j.id FROM workloads_job j
        WHERE j.id = r.id AND {without_index(JOB_IS_NEW)} AND {JOB_IS_UNCLAIMED}
        OFFSET 0 FOR NO KEY UPDATE SKIP LOCKED) job
    ORDER BY r.rank LIMIT %(limit)s))
RETURNING id
"""  # noqa: S608 - constants


def claim_waiting(
    *,
    agent: str,
    limit: int,
    start: UUID = FIRST_FLOW,
    shares: Mapping[UUID, float] = NO_SHARES,
) -> list[UUID]:
    """Claim jobs that no agent has refused yet and return their ids.

    Every project gets an equal share of ``limit``. Half of it is for the jobs of the highest
    priority and age; a quarter for all users and flows in turn (`services.turns`); a quarter for
    the newest flows, so that no number of flows holds back a job that is submitted later. Inside
    a flow, jobs of higher priority and older jobs come first. Jobs whose shape waits are left to
    `join_shapes`. Claims expire after ``CLAIM_S`` wall seconds, so that other agents take over
    the jobs of an agent that died.

    Parameters
    ----------
    start : the flow after which the turns begin; a random one serves all flows alike
    shares : of the cluster, by project; the smaller one of equal jobs comes first
    """
    values = {"agent": agent, "limit": limit, "start": start, **shares_as_values(shares)}
    with transaction.atomic():
        now = begin_claim()  # a job whose claim is lost can be claimed by any agent
        values |= {"now": now, "until": now + timedelta(seconds=CLAIM_S)}
        rows = fetch_prepared(_CLAIM, values)
    return [row[0] for row in rows]


def release_claims(job_ids: Sequence[UUID], *, agent: str) -> None:
    """Release claims without a decision; the jobs can be claimed again at once."""
    with transaction.atomic():
        lock_jobs(job_ids)
        ours = Job.objects.filter(id__in=job_ids, claimed_by=agent)
        ours.update(claimed_by="", claimed_until=None)


@dataclass(frozen=True, slots=True)
class WaitingJob:
    """A job that could not be placed, and its reason.

    Attributes
    ----------
    decision_id : of the decision that refused it
    needs : None if the refusal does not depend on the request; the job then joins no shape
    units : size of the job
    run_s, run_high_s : predicted run time and its pessimistic end, cluster seconds; None = unknown
    waits_for_better : units are free, but not good enough until its patience ends
    keeps_place : in the queue, as only free units were missing
    """

    job_id: UUID
    reason: str
    message: str
    decision_id: UUID
    needs: Needs | None
    also: Sequence[str] = ()
    units: int = 1
    run_s: float | None = None
    run_high_s: float | None = None
    waits_for_better: bool = False
    keeps_place: bool = False


@dataclass(frozen=True, slots=True)
class EvaluationTime:
    """When jobs were evaluated, and when they are evaluated again.

    Attributes
    ----------
    cluster_s : cluster seconds
    sequence : change-log number up to which the agent had read before
    delay_s : wall seconds until their shapes are due
    """

    cluster_s: float
    sequence: int
    delay_s: float


def keep_waiting(jobs: Sequence[WaitingJob], *, agent: str, at: EvaluationTime) -> set[UUID]:
    """Queue jobs that could not be placed, in the shapes of their requests.

    A new shape takes the place of its job's submission in the queue. One that could use no free
    unit for another reason than that none was free goes to the end, so that it holds up no other.

    An event is recorded for each job whose reason changed.

    Returns
    -------
    ids of the jobs whose decisions are new: one of each shape whose reason changed, and the
    jobs without a shape whose reason changed
    """
    if not jobs:
        return set()
    by_id = {job.job_id: job for job in jobs}
    with transaction.atomic():
        lock_jobs(by_id)
        shaped = fetch_rows(_REFUSED, [sorted(by_id), agent])
        refused = [(by_id[job], key) for job, key in shaped]
        decided = {job.decision_id for job, _ in refused if job.needs is None}
        decided |= _refuse_shapes({key: job for job, key in reversed(refused) if job.needs}, at)
        rows = _queue([job for job, _ in refused], at)
        changed = {row[0]: row for row in rows if row[4]}
        record_events([row_event("job.waiting", row, reason=row[5]) for row in changed.values()])
    return {
        job.job_id
        for job, _ in refused
        if job.decision_id in decided and (job.needs is not None or job.job_id in changed)
    }


# the most urgent first, whose reason becomes that of the shape
_REFUSED: Final = f"""
SELECT id, shape_key FROM workloads_job
WHERE id = ANY(%s) AND {without_index("state IN ('submitted', 'queued') AND NOT held")}
  AND claimed_by = %s
ORDER BY priority DESC, created_at, id
"""  # noqa: S608 - a constant

# shapes become due together, so that one turn of an agent evaluates many of them
_DUE_AT: Final = (
    "to_timestamp(ceil((extract(epoch FROM clock_timestamp()) + %(delay_s)s) / 0.5) * 0.5)"
)
_REFUSE_SHAPES: Final = f"""
INSERT INTO workloads_waitingshape AS s
    (key, project_id, priority, reason_code, reason_message, reason_also, is_reason_copied,
     decision_id, evaluated_seq, queued_at, due_at, allowance, waits_for, min_units,
     on_one_server, platforms, labels, unit_memory_bytes, unit_network_bps, unit_storage_bytes,
     units, run_s, run_high_s, waits_for_better)
SELECT d.key, j.project_id, j.priority, d.reason, left(d.message, 500), d.also, true, d.decision,
       %(sequence)s, CASE WHEN o.id IS NULL THEN j.created_at
                          WHEN d.keeps_place THEN o.queued_at ELSE clock_timestamp() END,
       {_DUE_AT}, 1,
       d.waits_for, d.units, d.on_one_server, d.platforms, d.labels, d.unit_memory_bytes,
       d.unit_network_bps, d.unit_storage_bytes, d.size, d.run_s, d.run_high_s, d.better
FROM jsonb_to_recordset(%(rows)s::jsonb) AS d(
    job uuid, key uuid, reason text, message text, also jsonb, decision uuid, waits_for text,
    units int, on_one_server bool, platforms jsonb, labels jsonb, unit_memory_bytes bigint,
    unit_network_bps bigint, unit_storage_bytes bigint, size int, run_s float8,
    run_high_s float8, better bool, keeps_place bool)
JOIN workloads_job j ON j.id = d.job LEFT JOIN workloads_waitingshape o ON o.key = d.key
ORDER BY d.key
ON CONFLICT (key) DO UPDATE
SET is_reason_copied = s.is_reason_copied AND s.reason_code = excluded.reason_code
              AND s.reason_message = excluded.reason_message,
    decision_id = CASE WHEN s.reason_code = excluded.reason_code AND s.decision_id IS NOT NULL
                       THEN s.decision_id ELSE excluded.decision_id END,
    reason_code = excluded.reason_code, reason_message = excluded.reason_message,
    reason_also = excluded.reason_also, evaluated_seq = excluded.evaluated_seq,
    queued_at = excluded.queued_at, due_at = excluded.due_at, claimed_until = NULL,
    allowance = 1, waits_for = excluded.waits_for, min_units = excluded.min_units,
    on_one_server = excluded.on_one_server, platforms = excluded.platforms,
    labels = excluded.labels, unit_memory_bytes = excluded.unit_memory_bytes,
    unit_network_bps = excluded.unit_network_bps,
    unit_storage_bytes = excluded.unit_storage_bytes, units = excluded.units,
    run_s = excluded.run_s, run_high_s = excluded.run_high_s,
    waits_for_better = excluded.waits_for_better
WHERE s.evaluated_seq <= excluded.evaluated_seq
RETURNING s.decision_id
"""  # noqa: S608 - constants


def _refuse_shapes(refused: dict[UUID, WaitingJob], at: EvaluationTime) -> set[UUID]:
    """Store the refusals of shapes by key; returns the ids of their decisions."""
    if not refused:
        return set()
    rows = [
        {
            **asdict(job.needs),
            "job": str(job.job_id),
            "key": str(key),
            "reason": job.reason,
            "message": job.message,
            "also": list(job.also),
            "decision": str(job.decision_id),
            "size": job.units,
            "run_s": job.run_s,
            "run_high_s": job.run_high_s,
            "better": job.waits_for_better,
            "keeps_place": job.keeps_place,
        }
        for key, job in refused.items()
        if job.needs is not None
    ]
    values = {"sequence": at.sequence, "delay_s": at.delay_s, "rows": json.dumps(rows)}
    return {row[0] for row in fetch_rows(_REFUSE_SHAPES, values)}


# a shape that another agent evaluated on a newer copy keeps its reason, and its jobs have it
_QUEUE: Final = """
UPDATE workloads_job AS j
SET state = 'queued', queued_s = coalesce(j.queued_s, %(cluster_s)s), tries = j.tries + 1,
    reason_code = r.reason, reason_message = left(r.message, 500),
    reason_also = r.also, claimed_by = '', updated_at = now(),
    claimed_until = CASE WHEN d.shaped THEN NULL
                         ELSE clock_timestamp() + make_interval(secs => %(retry_s)s) END,
    shape_id = CASE WHEN d.shaped THEN s.id ELSE j.shape_id END,
    generation = j.generation + (o.reason_code <> r.reason OR o.state <> 'queued')::int
FROM unnest(%(ids)s::uuid[], %(reasons)s::text[], %(messages)s::text[], %(also)s::text[],
            %(shaped)s::bool[]) AS d(id, reason, message, also, shaped)
JOIN workloads_job AS o ON o.id = d.id
LEFT JOIN workloads_waitingshape AS s ON s.key = o.shape_key
CROSS JOIN LATERAL (
    SELECT CASE WHEN is_newer THEN s.reason_code ELSE d.reason END AS reason,
           CASE WHEN is_newer THEN s.reason_message ELSE d.message END AS message,
           CASE WHEN is_newer THEN s.reason_also ELSE d.also::jsonb END AS also
    FROM (SELECT d.shaped AND s.evaluated_seq > %(sequence)s AS is_newer) AS n) AS r
WHERE j.id = d.id
RETURNING j.id, j.name, j.project_id, j.state,
          o.reason_code <> r.reason OR o.state <> 'queued', r.reason
"""


def _queue(refused: Sequence[WaitingJob], at: EvaluationTime) -> list[tuple[Any, ...]]:
    """Queue locked jobs; returns event rows with whether the reason changed, and the reason."""
    return fetch_rows(
        _QUEUE,
        {
            "cluster_s": at.cluster_s,
            "sequence": at.sequence,
            "retry_s": RETRY_S,
            "ids": [job.job_id for job in refused],
            "reasons": [job.reason for job in refused],
            "messages": [job.message for job in refused],
            "also": [as_json(list(job.also)) for job in refused],
            "shaped": [job.needs is not None for job in refused],
        },
    )
