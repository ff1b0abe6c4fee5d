"""What agents decide about waiting jobs: claimed, placed, kept waiting, profiled or refused."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db import transaction
from django.utils import timezone

from apps.inventory.selectors import cluster_now
from apps.operations.services import record_events
from apps.workloads.core.lifecycle import WAITING_STATES, JobState
from apps.workloads.core.reasons import Reason
from apps.workloads.models import Job
from apps.workloads.services.rows import advance, as_json, lock_jobs, returning, row_event

CLAIM_S = 10.0  # wall seconds an agent may keep a job before another takes it over


def claim_waiting(*, agent: str, limit: int) -> list[UUID]:
    """Take the most urgent waiting jobs for one agent; each goes to one agent only.

    A claim ends by itself after ``CLAIM_S`` wall seconds, so the jobs of an agent that died are
    taken over.
    """
    # an array is read once; in a nested loop, IN would pick LIMIT other jobs again and again
    now = timezone.now()
    rows = returning(
        """UPDATE workloads_job SET claimed_by = %s, claimed_until = %s
           WHERE id = ANY(ARRAY(
               SELECT id FROM workloads_job
               WHERE state IN ('submitted', 'queued') AND NOT held
                 AND (claimed_until IS NULL OR claimed_until < %s)
               ORDER BY priority DESC, created_at
               LIMIT %s FOR UPDATE SKIP LOCKED))
           RETURNING id""",
        [agent, now + timedelta(seconds=CLAIM_S), now, limit],
    )
    return [row[0] for row in rows]


def release_claims(job_ids: Sequence[UUID], *, agent: str, delay_s: float = 0.0) -> None:
    """Give undecided jobs back; they are looked at again after ``delay_s`` wall seconds."""
    until = timezone.now() + timedelta(seconds=delay_s) if delay_s else None
    with transaction.atomic():
        lock_jobs(job_ids)
        ours = Job.objects.filter(id__in=job_ids, claimed_by=agent)
        ours.update(claimed_by="", claimed_until=until)


@dataclass(frozen=True, slots=True)
class Sized:
    """A job that may be placed, with what was decided about it; `place_jobs` writes it."""

    job_id: UUID
    units: int
    reason: str
    message: str
    predicted: Mapping[str, Any] = field(default_factory=dict)


def place_jobs(placed: Sequence[Sized], *, agent: str, cluster_s: float) -> set[UUID]:
    """Move jobs the agent has claimed to ``starting``; returns those that could.

    A job that was cancelled, held or taken over meanwhile is not moved; the caller drops its
    units.
    Records no event: `record_placed` does, last in the transaction.
    """
    rows = sorted(placed, key=lambda row: row.job_id)
    moved = returning(
        """UPDATE workloads_job AS j
           SET state = 'starting', units = d.units, reason_code = d.reason,
               reason_message = left(d.message, 500), reason_also = '[]',
               predicted = d.predicted::jsonb, queued_s = coalesce(j.queued_s, %s),
               placed_s = %s, placed_at = now(), updated_at = now(), attempts = j.attempts + 1,
               tries = 0, claimed_by = '', claimed_until = NULL, generation = j.generation + 1
           FROM unnest(%s::uuid[], %s::int[], %s::text[], %s::text[], %s::text[])
                AS d(id, units, reason, message, predicted)
           WHERE j.id = d.id AND j.state IN ('submitted', 'queued') AND NOT j.held
             AND j.claimed_by = %s
           RETURNING j.id""",
        [
            cluster_s, cluster_s, [row.job_id for row in rows], [row.units for row in rows],
            [row.reason for row in rows], [row.message for row in rows],
            [as_json(row.predicted) for row in rows], agent,
        ],
    )  # fmt: skip
    return {row[0] for row in moved}


@dataclass(frozen=True, slots=True)
class Waiting:
    """A job that could not be placed now, and why."""

    job_id: UUID
    reason: str
    message: str
    also: Sequence[str] = ()


def keep_waiting(
    jobs: Sequence[Waiting], *, agent: str, cluster_s: float, delay_s: float
) -> set[UUID]:
    """Queue jobs that could not be placed, with the reason; returns those whose reason is new.

    Events tell only a reason that changed, however often it is found again.
    """
    if not jobs:
        return set()
    rows = sorted(jobs, key=lambda row: row.job_id)
    with transaction.atomic():
        lock_jobs([row.job_id for row in rows])
        found = returning(
            """UPDATE workloads_job AS j
               SET state = 'queued', queued_s = coalesce(j.queued_s, %s), tries = j.tries + 1,
                   reason_code = d.reason, reason_message = left(d.message, 500),
                   reason_also = d.also::jsonb, claimed_by = '',
                   claimed_until = clock_timestamp() + make_interval(secs => %s),
                   updated_at = now(),
                   generation = j.generation
                                + (o.reason_code <> d.reason OR o.state <> 'queued')::int
               FROM unnest(%s::uuid[], %s::text[], %s::text[], %s::text[])
                    AS d(id, reason, message, also)
               JOIN workloads_job AS o ON o.id = d.id
               WHERE j.id = d.id AND j.state IN ('submitted', 'queued') AND j.claimed_by = %s
               RETURNING j.id, j.name, j.project_id, j.state,
                         o.reason_code <> d.reason OR o.state <> 'queued', d.reason""",
            [
                cluster_s, delay_s, [row.job_id for row in rows], [row.reason for row in rows],
                [row.message for row in rows], [as_json(list(row.also)) for row in rows], agent,
            ],
        )  # fmt: skip
        changed = [row for row in found if row[4]]
        record_events([row_event("job.waiting", row, reason=row[5]) for row in changed])
    return {row[0] for row in changed}


def send_to_profiling(job_ids: Sequence[UUID], *, agent: str) -> None:
    """Let jobs of an unknown application wait for its profile."""
    with transaction.atomic():
        rows = advance(
            job_ids,
            to=JobState.PROFILING,
            reason=Reason.WAITING_FOR_PROFILE,
            only_from={JobState.SUBMITTED, JobState.QUEUED},
            claimed_by=agent,
        )
        record_events([row_event("job.profiling", row) for row in rows])


def queue_profiled(application_id: UUID) -> int:
    """Queue the jobs that waited for an application's profile; returns how many."""
    with transaction.atomic():
        now_s = cluster_now()
        waiting = Job.objects.filter(application=application_id, state=JobState.PROFILING)
        lock_jobs(waiting.values_list("id", flat=True))
        rows = returning(
            """UPDATE workloads_job
               SET state = 'queued', profiled_s = %s, queued_s = %s, updated_at = now(),
                   reason_code = CASE WHEN held THEN reason_code ELSE %s END,
                   reason_message = '', claimed_by = '', claimed_until = NULL,
                   generation = generation + 1
               WHERE application_id = %s AND state = 'profiling'
               RETURNING id, name, project_id, state""",
            [now_s, now_s, Reason.WAITING_FOR_AGENT, application_id],
        )
        record_events([row_event("job.queued", row) for row in rows])
    return len(rows)


def fail_waiting(job_ids: Sequence[UUID], *, reason: Reason, message: str, agent: str = "") -> int:
    """End waiting jobs that can never start; returns how many.

    An agent ends only what it has claimed.
    """
    with transaction.atomic():
        rows = advance(
            job_ids,
            to=JobState.FAILED,
            reason=reason,
            message=message,
            only_from=WAITING_STATES,
            claimed_by=agent,
        )
        record_events([row_event("job.failed", row, reason=reason) for row in rows])
    return len(rows)
