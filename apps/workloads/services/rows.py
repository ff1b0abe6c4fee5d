"""Rows and events of jobs, shared by the services of this package."""

import json
from collections.abc import Iterable
from typing import Any
from uuid import UUID

from django.db import connection

from apps.common.core.errors import NotFoundError
from apps.common.infrastructure.database import fetch_rows, number_array
from apps.operations.services import NewEvent
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


def lock_against_deletion(job_ids: Iterable[UUID]) -> set[UUID]:
    """Return those of the jobs that exist; none is deleted until the transaction ends.

    Call it before rows are inserted for jobs that were read in an earlier transaction: users and
    retention delete ended jobs.
    """
    rows = fetch_rows(
        "SELECT id FROM workloads_job WHERE id = ANY(%s) ORDER BY id FOR KEY SHARE",
        [sorted(set(job_ids))],
    )
    return {key for (key,) in rows}


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
