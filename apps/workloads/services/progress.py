"""Reports of backends on started jobs: running, progress, ended or lost."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import connection

from apps.common.infrastructure.database import (
    fetch_rows,
    number_array,
    text_array,
    without_index,
)
from apps.operations.services import NewEvent, record_events
from apps.workloads.core.lifecycle import ACTIVE_STATES, WAITING_STATES, JobState
from apps.workloads.core.reasons import Reason
from apps.workloads.models import Job
from apps.workloads.services.arrays import ARRAY_OF_JOB, release_after
from apps.workloads.services.rows import lock_jobs, row_event
from apps.workloads.services.transitions import advance


@dataclass(frozen=True, slots=True)
class JobEnd:
    """End of a job, as reported by its backend."""

    job_id: UUID
    state: JobState
    finished_s: float
    reason: Reason
    message: str = ""
    attainment: float | None = None
    exit_code: int | None = None


def start_running(started: Mapping[UUID, float]) -> list[tuple[Any, ...]]:
    """Change starting jobs to running, with the cluster second each started.

    Returns event rows for `record_transitions`.
    """
    ids = sorted(started)
    lock_jobs(ids)
    return fetch_rows(
        f"""UPDATE workloads_job AS j SET state = 'running', started_s = d.at, updated_at = now(),
                  suspended_for_s = 0.0, generation = j.generation + 1
           FROM unnest(%s::uuid[], %s::float8[]) AS d(id, at)
           WHERE j.id = d.id AND {without_index("j.state = 'starting'")}
           RETURNING j.id, j.name, j.project_id, j.state""",  # noqa: S608 - a constant
        [number_array(ids), number_array(started[key] for key in ids)],
    )


def end_jobs(ended: Sequence[JobEnd]) -> list[tuple[Any, ...]]:
    """End starting and running jobs; returns event rows for `record_transitions`."""
    return _end(ended, ACTIVE_STATES)


def end_unplaced(ended: Sequence[JobEnd]) -> list[tuple[Any, ...]]:
    """End waiting jobs that their backend has run without Berth; returns their event rows."""
    return _end(ended, WAITING_STATES)


def _end(ended: Sequence[JobEnd], only_from: Collection[JobState]) -> list[tuple[Any, ...]]:
    rows = sorted(ended, key=lambda row: row.job_id)
    lock_jobs([row.job_id for row in rows])
    ended_rows = fetch_rows(
        f"""UPDATE workloads_job AS j
           SET state = d.state, finished_s = d.at, finished_at = now(),
               started_s = coalesce(j.started_s, d.at), updated_at = now(),
               reason_code = d.reason, reason_message = left(d.message, 500),
               generation = j.generation + 1,
               progress = CASE WHEN d.state = 'succeeded' THEN 1.0 ELSE j.progress END,
               attainment = coalesce(d.attainment, j.attainment), exit_code = d.exit_code,
               claimed_by = '', claimed_until = NULL, shape_id = NULL,
               suspension = '', suspended_s = NULL,
               suspended_for_s = j.suspended_for_s
                                 + greatest(0.0, coalesce(d.at - j.suspended_s, 0.0))
           FROM unnest(%s::uuid[], %s::text[], %s::float8[], %s::text[], %s::text[], %s::float8[],
                       %s::int[])
                AS d(id, state, at, reason, message, attainment, exit_code)
           WHERE j.id = d.id AND {without_index("j.state = ANY(%s)")}
           RETURNING j.id, j.name, j.project_id, j.state,
                     {ARRAY_OF_JOB.format(job="j.")}""",  # noqa: S608 - constants
        [
            number_array(row.job_id for row in rows), text_array(row.state for row in rows),
            number_array(row.finished_s for row in rows), text_array(row.reason for row in rows),
            text_array(row.message for row in rows), [row.attainment for row in rows],
            [row.exit_code for row in rows], sorted(only_from),
        ],
    )  # fmt: skip
    return release_after(ended_rows)


def requeue_lost(
    job_ids: Sequence[UUID], *, reason: Reason, message: str
) -> list[tuple[Any, ...]]:
    """Requeue started jobs whose launch was lost; returns event rows for `record_transitions`.

    Jobs with a pending cancellation are cancelled instead.
    """
    lock_jobs(job_ids)
    to_cancel = Job.objects.filter(id__in=job_ids, cancel_requested=True)
    cancelled = advance(
        list(to_cancel.values_list("id", flat=True)),
        to=JobState.CANCELLED,
        reason=Reason.CANCELLED,
        only_from=ACTIVE_STATES,
    )
    return cancelled + advance(
        job_ids, to=JobState.QUEUED, reason=reason, message=message, only_from=ACTIVE_STATES
    )


def restart_jobs(job_ids: Sequence[UUID], *, at_s: float, message: str) -> list[UUID]:
    """Let running jobs start again on units that they hold; their progress begins at 0.

    Returns the ids of the jobs changed. Records no event: the migration does.
    """
    lock_jobs(job_ids)
    rows = fetch_rows(
        f"""UPDATE workloads_job SET state = 'starting', placed_s = %s, placed_at = now(),
                  updated_at = now(), attempts = attempts + 1, progress = 0.0,
                  run_s = run_s / (1 - progress_before),
                  run_high_s = run_high_s / (1 - progress_before),
                  progress_before = 0.0, started_s = NULL, suspended_for_s = 0.0,
                  reason_code = %s, reason_message = left(%s, 500), reason_also = '[]',
                  suspension = '', suspended_s = NULL, generation = generation + 1
           WHERE id = ANY(%s) AND {without_index("state = 'running'")} AND NOT cancel_requested
           RETURNING id""",  # noqa: S608 - a constant
        [at_s, Reason.STARTING, message, sorted(job_ids)],
    )
    return sorted(row[0] for row in rows)


def record_transitions(rows: Iterable[tuple[Any, ...]]) -> None:
    """Record one event per transition; call it last in the transaction."""
    record_events([row_event(f"job.{row[3]}", row) for row in rows])


def record_placed(jobs: Iterable[tuple[UUID, str, UUID, UUID]]) -> None:
    """Record (job, name, project, decision id) as placed; call it last in the transaction."""
    record_events(
        [
            NewEvent(
                topic="jobs", kind="job.placed", subject=str(job), project_id=project,
                data={"name": name, "state": "starting", "decision": str(decision)},
            )
            for job, name, project, decision in jobs
        ]
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class ProgressReport:
    """Progress of a running job at ``at_s``, cluster seconds; performance in its target's unit."""

    job_id: UUID
    at_s: float
    progress: float
    performance: float
    attainment: float | None


def report_progress(reports: Sequence[ProgressReport]) -> None:
    """Store the latest reports of running jobs in one statement, without events: pages poll.

    The reason of a running job says whether it meets its target; best-effort jobs keep the reason
    of their placement. Runs in the caller's transaction.
    """
    if not reports:
        return
    rows = sorted(reports, key=lambda row: row.job_id)
    lock_jobs([row.job_id for row in rows])
    with connection.cursor() as cursor:
        cursor.execute(
            f"""UPDATE workloads_job AS j SET progress = d.progress, reported_s = d.at_s,
                      performance = d.performance, attainment = d.attainment,
                      reason_code = CASE WHEN d.attainment >= 1 THEN %s
                                         WHEN d.attainment < 1 THEN %s
                                         ELSE j.reason_code END
               FROM unnest(%s::uuid[], %s::float8[], %s::float8[], %s::float8[], %s::float8[])
                    AS d(id, at_s, progress, performance, attainment)
               WHERE j.id = d.id AND {without_index("j.state = 'running'")}""",  # noqa: S608 - a constant
            [
                Reason.MEETS_TARGET.value, Reason.BELOW_TARGET.value,
                [row.job_id for row in rows], [row.at_s for row in rows],
                [min(1.0, max(0.0, row.progress)) for row in rows],
                [row.performance for row in rows], [row.attainment for row in rows],
            ],
        )  # fmt: skip
