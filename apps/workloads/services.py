"""Writes of jobs: submission, every change of state, and what running jobs report.

Every function ends by recording events, whose numbers are allotted under a lock held until commit: callers do their other
writes first.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db import connection, transaction
from django.db.models import JSONField
from django.utils import timezone

from apps.accounts.models import Project, User
from apps.common.core.errors import ConflictError, NotFoundError
from apps.common.core.ids import uuid7
from apps.common.core.preconditions import require_generation
from apps.common.db import copy_rows
from apps.inventory.selectors import cluster_now
from apps.operations.services import NewEvent, record_events
from apps.workloads.core.lifecycle import TERMINAL_STATES, WAITING_STATES, JobState, sources
from apps.workloads.core.reasons import Reason
from apps.workloads.core.spec import JobSpec
from apps.workloads.models import Application, Batch, Job

CLAIM_S = 10.0  # wall seconds an agent may keep a job before another takes it over


# ---- submission ----


def submit_jobs(
    specs: Sequence[JobSpec],
    *,
    project: Project,
    user: User,
    correlation_id: str,
    batch: Batch | None = None,
) -> list[Job]:
    """Insert jobs, in order, in the caller's transaction; unknown applications are created."""
    applications = _applications(specs)
    submitted_s = cluster_now()
    jobs = [
        _new_job(
            spec,
            application=applications[spec.application],
            project=project,
            user=user,
            correlation_id=correlation_id if len(specs) == 1 else f"{correlation_id}.{i}",
            batch=batch,
            submitted_s=submitted_s,
        )
        for i, spec in enumerate(specs)
    ]
    if len(jobs) == 1:
        jobs[0].save(force_insert=True)
    else:
        _copy_jobs(jobs)
    record_events([_event("job.submitted", job, JobState.SUBMITTED) for job in jobs])
    return jobs


def _copy_jobs(jobs: Sequence[Job]) -> None:
    """Insert many jobs with COPY, which takes a third of the time of the ORM's bulk insert."""
    now = timezone.now()
    fields = Job._meta.concrete_fields
    is_json = [isinstance(field, JSONField) for field in fields]
    names = [str(field.attname) for field in fields]
    for job in jobs:
        job.created_at = job.updated_at = now
    copy_rows(
        Job._meta.db_table,
        [str(field.column) for field in fields],
        (
            [
                _json(value) if as_json else value
                for value, as_json in zip((getattr(job, n) for n in names), is_json, strict=True)
            ]
            for job in jobs
        ),
    )


def _applications(specs: Sequence[JobSpec]) -> dict[str, Application]:
    wanted = {spec.application: spec.kind for spec in specs}
    found = {row.name: row for row in Application.objects.filter(name__in=wanted)}
    missing = [
        Application(name=name, kind=kind) for name, kind in wanted.items() if name not in found
    ]
    if missing:
        Application.objects.bulk_create(missing, ignore_conflicts=True)
        found = {row.name: row for row in Application.objects.filter(name__in=wanted)}
    return found


def _new_job(
    spec: JobSpec,
    *,
    application: Application,
    project: Project,
    user: User,
    correlation_id: str,
    batch: Batch | None,
    submitted_s: float,
) -> Job:
    job_id = uuid7()
    return Job(
        id=job_id,
        name=spec.name or f"{spec.application[:110]}-{job_id.hex[-8:]}",
        project=project,
        application=application,
        created_by=user,
        batch=batch,
        correlation_id=correlation_id,
        target=spec.target.as_json(),
        target_kind=spec.target.kind,
        input_bytes=spec.input_bytes,
        tasks_total=spec.tasks,
        duration_s=spec.duration_s,
        units_requested=spec.units,
        unit_memory_bytes=spec.unit_memory_bytes,
        unit_network_bps=spec.unit_network_bps,
        unit_storage_bytes=spec.unit_storage_bytes,
        priority=spec.priority,
        gang=spec.gang,
        held=spec.held,
        constraints=spec.constraints.as_json(),
        labels=dict(spec.labels),
        annotations=dict(spec.annotations),
        reason_code=Reason.HELD if spec.held else Reason.WAITING_FOR_AGENT,
        submitted_s=submitted_s,
    )


# ---- what users change ----


def cancel_jobs(job_ids: Sequence[UUID], *, request_id: str = "") -> int:
    """Cancel jobs: waiting ones end at once, running ones as soon as their backend has stopped them.

    Jobs that have ended are left alone. Returns the number of jobs that changed.
    """
    with transaction.atomic():
        waiting = _advance_rows(
            job_ids, to=JobState.CANCELLED, reason=Reason.CANCELLED, only_from=WAITING_STATES
        )
        running = _returning(
            """UPDATE workloads_job SET cancel_requested = true, updated_at = now(),
                      generation = generation + 1
               WHERE id = ANY(%s) AND state IN ('starting', 'running') AND NOT cancel_requested
               RETURNING id, name, project_id, state""",
            [list(job_ids)],
        )
        record_events(
            [_row_event("job.cancelled", row, request_id) for row in waiting]
            + [_row_event("job.cancel_requested", row, request_id) for row in running]
        )
    return len(waiting) + len(running)


def set_held(job_id: UUID, *, held: bool, request_id: str = "") -> Job:
    """Hold a waiting job or release it.

    Raises
    ------
    ConflictError : the job is not waiting any more.
    """
    with transaction.atomic():
        job = _locked(job_id)
        if job.state not in WAITING_STATES:
            msg = f"a {job.state} job cannot be held or released; only a waiting one can"
            raise ConflictError(msg)
        if job.held != held:
            job.held = held
            job.reason_code = Reason.HELD if held else Reason.WAITING_FOR_AGENT
            job.reason_message = ""
            job.generation += 1
            job.claimed_until = None
            job.save()
            record_events([_event("job.held" if held else "job.released", job, job.state, request_id)])
    return job


def update_job(job_id: UUID, changes: Mapping[str, Any], *, request_id: str = "") -> Job:
    """Change a live job's target, priority, labels, name or annotations.

    Parameters
    ----------
    changes : attributes of `JobSpec` with their new values (see `workloads.core.spec.parse_changes`)

    Raises
    ------
    ConflictError : the job has ended, or the attribute cannot change once submitted.
    """
    with transaction.atomic():
        job = _locked(job_id)
        fixed = sorted(changes.keys() - _CHANGEABLE)
        if fixed:
            msg = f"{', '.join(fixed)} cannot change after submission (can: {', '.join(sorted(_CHANGEABLE))})"
            raise ConflictError(msg)
        if job.state in TERMINAL_STATES and changes.keys() - {"labels", "annotations", "name"}:
            msg = f"a {job.state} job has ended; only its name, labels and annotations can change"
            raise ConflictError(msg)
        for name, value in changes.items():
            if name == "target":
                job.target, job.target_kind = value.as_json(), value.kind
            else:
                setattr(job, name, dict(value) if isinstance(value, Mapping) else value)
        job.generation += 1
        job.save()
        record_events([_event("job.updated", job, job.state, request_id)])
    return job


_CHANGEABLE = {"target", "priority", "labels", "annotations", "name"}


def delete_job(job_id: UUID) -> None:
    """Remove a job that has ended, with its history.

    Raises
    ------
    ConflictError : it has not ended.
    """
    with transaction.atomic():
        job = _locked(job_id)
        if job.state not in TERMINAL_STATES:
            msg = f"a {job.state} job cannot be deleted; cancel it first"
            raise ConflictError(msg)
        event = _event("job.deleted", job, job.state)
        job.delete()
        record_events([event])


# ---- what the control plane does with them ----


def claim_waiting(*, agent: str, limit: int) -> list[UUID]:
    """Take the most urgent waiting jobs for one agent; a conditional update, so each goes to one agent only.

    A claim ends by itself after ``CLAIM_S`` wall seconds, so the jobs of an agent that died are taken over.
    """
    now = timezone.now()
    rows = _returning(
        """UPDATE workloads_job SET claimed_by = %s, claimed_until = %s
           WHERE id IN (
               SELECT id FROM workloads_job
               WHERE state IN ('submitted', 'queued') AND NOT held
                 AND (claimed_until IS NULL OR claimed_until < %s)
               ORDER BY priority DESC, created_at
               LIMIT %s FOR UPDATE SKIP LOCKED)
           RETURNING id""",
        [agent, now + timedelta(seconds=CLAIM_S), now, limit],
    )
    return [row[0] for row in rows]


def release_claims(job_ids: Sequence[UUID], *, agent: str, delay_s: float = 0.0) -> None:
    """Give undecided jobs back; they are looked at again after ``delay_s`` wall seconds."""
    until = timezone.now() + timedelta(seconds=delay_s) if delay_s else None
    Job.objects.filter(id__in=job_ids, claimed_by=agent).update(claimed_by="", claimed_until=until)


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

    A job that was cancelled, held or taken over meanwhile is not moved; the caller drops its units.
    Records no event: `record_placed` does, last in the transaction.
    """
    rows = sorted(placed, key=lambda row: row.job_id)
    moved = _returning(
        """UPDATE workloads_job AS j SET state = 'starting', units = d.units, reason_code = d.reason,
                  reason_message = left(d.message, 500), reason_also = '[]', predicted = d.predicted::jsonb,
                  queued_s = coalesce(j.queued_s, %s), placed_s = %s, placed_at = now(), updated_at = now(),
                  attempts = j.attempts + 1, tries = 0, claimed_by = '', claimed_until = NULL,
                  generation = j.generation + 1
           FROM unnest(%s::uuid[], %s::int[], %s::text[], %s::text[], %s::text[])
                AS d(id, units, reason, message, predicted)
           WHERE j.id = d.id AND j.state IN ('submitted', 'queued') AND NOT j.held AND j.claimed_by = %s
           RETURNING j.id""",
        [
            cluster_s, cluster_s, [row.job_id for row in rows], [row.units for row in rows],
            [row.reason for row in rows], [row.message for row in rows],
            [_json(row.predicted) for row in rows], agent,
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


def keep_waiting(jobs: Sequence[Waiting], *, agent: str, cluster_s: float, delay_s: float) -> set[UUID]:
    """Queue jobs that could not be placed, with the reason; returns those whose reason is new.

    Events tell only a reason that changed, however often it is found again.
    """
    if not jobs:
        return set()
    rows = sorted(jobs, key=lambda row: row.job_id)
    with transaction.atomic():
        found = _returning(
            """UPDATE workloads_job AS j SET state = 'queued', queued_s = coalesce(j.queued_s, %s),
                      tries = j.tries + 1, reason_code = d.reason, reason_message = left(d.message, 500),
                      reason_also = d.also::jsonb, claimed_by = '',
                      claimed_until = now() + make_interval(secs => %s), updated_at = now(),
                      generation = j.generation + (o.reason_code <> d.reason OR o.state <> 'queued')::int
               FROM unnest(%s::uuid[], %s::text[], %s::text[], %s::text[]) AS d(id, reason, message, also)
               JOIN workloads_job AS o ON o.id = d.id
               WHERE j.id = d.id AND j.state IN ('submitted', 'queued') AND j.claimed_by = %s
               RETURNING j.id, j.name, j.project_id, j.state, o.reason_code <> d.reason OR o.state <> 'queued',
                         d.reason""",
            [
                cluster_s, delay_s, [row.job_id for row in rows], [row.reason for row in rows],
                [row.message for row in rows], [_json(list(row.also)) for row in rows], agent,
            ],
        )  # fmt: skip
        changed = [row for row in found if row[4]]
        record_events([_row_event("job.waiting", row, reason=row[5]) for row in changed])
    return {row[0] for row in changed}


def send_to_profiling(job_ids: Sequence[UUID], *, agent: str) -> None:
    """Let jobs of an unknown application wait for its profile."""
    with transaction.atomic():
        rows = _advance_rows(
            job_ids,
            to=JobState.PROFILING,
            reason=Reason.WAITING_FOR_PROFILE,
            only_from={JobState.SUBMITTED, JobState.QUEUED},
            claimed_by=agent,
        )
        record_events([_row_event("job.profiling", row) for row in rows])


def queue_profiled(application_id: UUID) -> int:
    """Queue the jobs that waited for an application's profile; returns how many."""
    with transaction.atomic():
        now_s = cluster_now()
        rows = _returning(
            """UPDATE workloads_job SET state = 'queued', profiled_s = %s, queued_s = %s, updated_at = now(),
                      reason_code = %s, reason_message = '', claimed_by = '', claimed_until = NULL,
                      generation = generation + 1
               WHERE application_id = %s AND state = 'profiling' RETURNING id, name, project_id, state""",
            [now_s, now_s, Reason.WAITING_FOR_AGENT, application_id],
        )
        record_events([_row_event("job.queued", row) for row in rows])
    return len(rows)


def fail_waiting(job_ids: Sequence[UUID], *, reason: Reason, message: str) -> int:
    """End waiting jobs that can never start; returns how many."""
    with transaction.atomic():
        rows = _advance_rows(
            job_ids, to=JobState.FAILED, reason=reason, message=message, only_from=WAITING_STATES
        )
        record_events([_row_event("job.failed", row, reason=reason) for row in rows])
    return len(rows)


@dataclass(frozen=True, slots=True)
class Ended:
    """How a job ended, as its backend reports it."""

    job_id: UUID
    state: JobState
    finished_s: float
    reason: Reason
    message: str = ""
    attainment: float | None = None


def start_running(started: Mapping[UUID, float]) -> list[tuple[Any, ...]]:
    """Move starting jobs to running, with the cluster second each began; returns event rows for `record_moves`."""
    ids = sorted(started)
    return _returning(
        """UPDATE workloads_job AS j SET state = 'running', started_s = d.at, updated_at = now(),
                  generation = j.generation + 1
           FROM unnest(%s::uuid[], %s::float8[]) AS d(id, at)
           WHERE j.id = d.id AND j.state = 'starting' RETURNING j.id, j.name, j.project_id, j.state""",
        [ids, [started[key] for key in ids]],
    )


def end_jobs(ended: Sequence[Ended]) -> list[tuple[Any, ...]]:
    """Move starting and running jobs to their end; returns event rows for `record_moves`."""
    rows = sorted(ended, key=lambda row: row.job_id)
    return _returning(
        """UPDATE workloads_job AS j SET state = d.state, finished_s = d.at, finished_at = now(),
                  started_s = coalesce(j.started_s, d.at), updated_at = now(), reason_code = d.reason,
                  reason_message = left(d.message, 500), generation = j.generation + 1,
                  progress = CASE WHEN d.state = 'succeeded' THEN 1.0 ELSE j.progress END,
                  attainment = coalesce(d.attainment, j.attainment)
           FROM unnest(%s::uuid[], %s::text[], %s::float8[], %s::text[], %s::text[], %s::float8[])
                AS d(id, state, at, reason, message, attainment)
           WHERE j.id = d.id AND j.state IN ('starting', 'running')
           RETURNING j.id, j.name, j.project_id, j.state""",
        [
            [row.job_id for row in rows], [row.state for row in rows], [row.finished_s for row in rows],
            [row.reason for row in rows], [row.message for row in rows], [row.attainment for row in rows],
        ],
    )  # fmt: skip


def requeue_lost(job_ids: Sequence[UUID], *, reason: Reason, message: str) -> list[tuple[Any, ...]]:
    """Queue started jobs again whose launch was lost; returns event rows for `record_moves`."""
    return _advance_rows(
        job_ids,
        to=JobState.QUEUED,
        reason=reason,
        message=message,
        only_from={JobState.STARTING, JobState.RUNNING},
    )


def record_moves(rows: Iterable[tuple[Any, ...]]) -> None:
    """Record one event per job moved; last in the caller's transaction."""
    record_events([_row_event(f"job.{row[3]}", row) for row in rows])


def record_placed(jobs: Iterable[tuple[UUID, str, UUID, UUID]]) -> None:
    """Record (job id, name, project id, decision id) as placed; last in the caller's transaction."""
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
class Report:
    """Where a running job is; performance in its target's unit."""

    job_id: UUID
    progress: float
    performance: float
    attainment: float | None


def report_progress(reports: Sequence[Report]) -> None:
    """Store the latest report of running jobs in one statement; no event, pages poll figures."""
    if not reports:
        return
    rows = sorted(reports, key=lambda row: row.job_id)
    with connection.cursor() as cursor:
        cursor.execute(
            """UPDATE workloads_job AS j SET progress = d.progress, performance = d.performance,
                      attainment = d.attainment
               FROM unnest(%s::uuid[], %s::float8[], %s::float8[], %s::float8[])
                    AS d(id, progress, performance, attainment)
               WHERE j.id = d.id AND j.state = 'running'""",
            [
                [row.job_id for row in rows], [min(1.0, max(0.0, row.progress)) for row in rows],
                [row.performance for row in rows], [row.attainment for row in rows],
            ],
        )  # fmt: skip


# ---- applications ----


def create_application(
    *, name: str, kind: str, description: str = "", labels: Mapping[str, str] | None = None
) -> Application:
    """Add an application before its first job.

    Raises
    ------
    ConflictError : the name is taken.
    """
    with transaction.atomic():
        made, is_new = Application.objects.get_or_create(
            name=name,
            defaults={"kind": kind, "description": description, "labels": dict(labels or {})},
        )
        if not is_new:
            msg = f"there is an application {name} already"
            raise ConflictError(msg)
        record_events([_application_event("application.created", made)])
    return made


def update_application(
    application_id: UUID, changes: Mapping[str, Any], *, expected: int | None = None
) -> Application:
    """Change an application's description or labels.

    Raises
    ------
    ChangedMeanwhileError : it is not at the generation ``expected`` any more.
    """
    with transaction.atomic():
        application = Application.objects.select_for_update().get(pk=application_id)
        require_generation(expected, application.generation)
        for name in ("description", "labels"):
            setattr(application, name, changes.get(name, getattr(application, name)))
        application.generation += 1
        application.save()
        record_events([_application_event("application.updated", application)])
    return application


def _application_event(kind: str, application: Application) -> NewEvent:
    return NewEvent(
        topic="applications", kind=kind, subject=str(application.pk), data={"name": application.name}
    )


# ---- parts ----


def _locked(job_id: UUID) -> Job:
    job = Job.objects.select_for_update(of=("self",)).select_related("project", "application").filter(
        id=job_id
    ).first()
    if job is None:
        msg = f"there is no job {job_id}"
        raise NotFoundError(msg)
    return job


def _advance_rows(
    job_ids: Sequence[UUID],
    *,
    to: JobState,
    reason: Reason,
    only_from: Iterable[JobState],
    message: str = "",
    claimed_by: str | None = None,
) -> list[tuple[Any, ...]]:
    allowed = [state.value for state in set(only_from) & sources(to)]
    ends = to in TERMINAL_STATES
    return _returning(
        f"""UPDATE workloads_job SET state = %s, reason_code = %s, reason_message = left(%s, 500),
                   reason_also = '[]', updated_at = now(), claimed_by = '', claimed_until = NULL,
                   generation = generation + 1
                   {", finished_s = %s, finished_at = now()" if ends else ""}
            WHERE id = ANY(%s) AND state = ANY(%s) {"AND claimed_by = %s" if claimed_by else ""}
            RETURNING id, name, project_id, state""",
        [
            to, reason, message, *([cluster_now()] if ends else []), sorted(job_ids), allowed,
            *([claimed_by] if claimed_by else []),
        ],
    )  # fmt: skip


def _returning(sql: str, parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return cursor.fetchall()


def _json(value: Any) -> str:
    return json.dumps(value)


def _event(kind: str, job: Job, state: str, request_id: str = "") -> NewEvent:
    return NewEvent(
        topic="jobs", kind=kind, subject=str(job.id), project_id=job.project_id,
        request_id=request_id or job.correlation_id, data={"name": job.name, "state": state},
    )  # fmt: skip


def _row_event(
    kind: str, row: tuple[Any, ...], request_id: str = "", reason: str = ""
) -> NewEvent:
    job_id, name, project_id, state = row[:4]
    data = {"name": name, "state": state} | ({"reason": reason} if reason else {})
    return NewEvent(
        topic="jobs", kind=kind, subject=str(job_id), project_id=project_id, request_id=request_id,
        data=data,
    )  # fmt: skip
