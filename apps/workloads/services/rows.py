"""Rows and events of jobs, shared by the services of this package."""

import json
from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

from django.db import connection

from apps.common.core.errors import NotFoundError
from apps.common.infrastructure.database import fetch_rows, number_array
from apps.inventory.selectors import cluster_now
from apps.operations.services import NewEvent
from apps.workloads.core.lifecycle import TERMINAL_STATES, JobState, states_before
from apps.workloads.core.reasons import Reason
from apps.workloads.models import Job


def locked(job_id: UUID) -> Job:
    """Return a job, locked until the caller's transaction ends.

    Raises
    ------
    NotFoundError : the job does not exist.
    """
    jobs = Job.objects.select_for_update(of=("self",)).select_related("project", "application")
    job = jobs.filter(id=job_id).first()
    if job is None:
        msg = f"there is no job {job_id}"
        raise NotFoundError(msg)
    return job


def lock_jobs(job_ids: Iterable[UUID]) -> None:
    """Lock jobs in the order of their ids; call it before every change of several jobs.

    An UPDATE locks its rows in any order, so two of them on the same jobs could deadlock
    (`common.infrastructure.locks`).
    """
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT FROM workloads_job WHERE id = ANY(%s) ORDER BY id FOR NO KEY UPDATE",
            [number_array(sorted(job_ids))],
        )


def advance(
    job_ids: Sequence[UUID],
    *,
    to: JobState,
    reason: Reason,
    only_from: Iterable[JobState],
    message: str = "",
    claimed_by: str | None = None,
) -> list[tuple[Any, ...]]:
    """Change the state of jobs whose current state allows it; returns their event rows.

    Parameters
    ----------
    only_from : states to change from, restricted further by the lifecycle
    claimed_by : change only jobs claimed by this agent; None or empty = any agent
    """
    allowed = [state.value for state in set(only_from) & states_before(to)]
    lock_jobs(job_ids)
    return fetch_rows(
        """UPDATE workloads_job
           SET state = %(to)s, reason_code = %(reason)s, reason_message = left(%(message)s, 500),
               reason_also = '[]', updated_at = now(), claimed_by = '', claimed_until = NULL,
               shape_id = NULL, generation = generation + 1, suspension = '', suspended_s = NULL,
               finished_s = coalesce(%(end_s)s::float8, finished_s),
               finished_at = CASE WHEN %(end_s)s::float8 IS NULL THEN finished_at ELSE now() END
           WHERE id = ANY(%(ids)s) AND state = ANY(%(allowed)s)
             AND (%(agent)s::text IS NULL OR claimed_by = %(agent)s)
           RETURNING id, name, project_id, state""",
        {
            "to": to,
            "reason": reason,
            "message": message,
            "end_s": cluster_now() if to in TERMINAL_STATES else None,
            "ids": sorted(job_ids),
            "allowed": allowed,
            "agent": claimed_by or None,
        },
    )


def as_json(value: Any) -> str:
    """Serialise the value of a JSON column."""
    return json.dumps(value)


def job_event(kind: str, job: Job, state: str, request_id: str = "") -> NewEvent:
    """Return the event of a job."""
    return NewEvent(
        topic="jobs", kind=kind, subject=str(job.id), project_id=job.project_id,
        request_id=request_id or job.correlation_id, data={"name": job.name, "state": state},
    )  # fmt: skip


def row_event(kind: str, row: tuple[Any, ...], request_id: str = "", reason: str = "") -> NewEvent:
    """Return the event of an event row: (id, name, project id, state, ...)."""
    job_id, name, project_id, state = row[:4]
    data = {"name": name, "state": state} | ({"reason": reason} if reason else {})
    return NewEvent(
        topic="jobs", kind=kind, subject=str(job_id), project_id=project_id, request_id=request_id,
        data=data,
    )  # fmt: skip
