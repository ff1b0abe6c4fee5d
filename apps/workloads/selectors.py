"""Reads of applications, jobs and batches."""

import json
from collections.abc import Iterable
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.models import Count, Q, QuerySet

from apps.accounts.core.principal import Principal
from apps.accounts.models import Project
from apps.workloads.core.lifecycle import TERMINAL_STATES
from apps.workloads.core.spec import Constraints, JobSpec
from apps.workloads.core.targets import read_target
from apps.workloads.models import Application, Batch, Job

NOT_ENDED = ~Q(state__in=[state.value for state in TERMINAL_STATES])


def visible_jobs(principal: Principal) -> QuerySet[Job]:
    """Return the jobs a caller may see, with what their representation names."""
    jobs = Job.objects.select_related("application", "project", "created_by")
    if principal.sees_everything():
        return jobs
    return jobs.filter(project_id__in=list(principal.projects))


def visible_job(principal: Principal, job_id: UUID) -> Job | None:
    """Return one job, None where there is none the caller may see."""
    return visible_jobs(principal).filter(pk=job_id).first()


def locked_generation(job_id: UUID) -> int | None:
    """Return a job's generation, kept until the transaction ends; None where it is gone."""
    locked = Job.objects.select_for_update().filter(pk=job_id)
    return locked.values_list("generation", flat=True).first()


def jobs_matching(principal: Principal, where: Q, *, limit: int) -> list[tuple[UUID, UUID]]:
    """Return (job, project) of jobs the caller may see that match, at most ``limit``."""
    matching = visible_jobs(principal).filter(where)
    return list(matching.values_list("id", "project_id")[:limit])


def is_key_optional(project_id: UUID) -> bool:
    """Return whether a project takes jobs of service accounts without an Idempotency-Key."""
    return Project.objects.filter(pk=project_id, key_optional=True).exists()


def spec_of(job: Job) -> JobSpec:
    """Return the specification a job was submitted with, as changed since."""
    return JobSpec(
        application=job.application.name,
        target=read_target(job.target),
        input_bytes=job.input_bytes,
        tasks=job.tasks_total,
        units=job.units_requested,
        duration_s=job.duration_s,
        priority=job.priority,
        gang=job.gang,
        constraints=Constraints(
            platforms=tuple(job.constraints.get("platforms", ())),
            labels=job.constraints.get("labels", {}),
            locality=job.constraints.get("locality"),
            spread=job.constraints.get("spread"),
        ),
        labels=job.labels,
        annotations=job.annotations,
        unit_memory_bytes=job.unit_memory_bytes,
        unit_network_bps=job.unit_network_bps,
        unit_storage_bytes=job.unit_storage_bytes,
    )


def visible_batches(principal: Principal) -> QuerySet[Batch]:
    """Return the batches a caller may see, without their items."""
    batches = Batch.objects.select_related("project", "created_by").defer("items")
    if principal.sees_everything():
        return batches
    return batches.filter(project_id__in=list(principal.projects))


def batch_items(batch_id: UUID, *, start: int, limit: int) -> list[dict[str, Any]]:
    """Return some items of a batch in order; the database cuts them out."""
    with connection.cursor() as cursor:
        cursor.execute(_ITEMS, [start, start + limit, batch_id])
        return [json.loads(row[0]) for row in cursor.fetchall()]


_ITEMS = """
SELECT (items -> place)::text
FROM workloads_batch, generate_series(%s, least(%s, jsonb_array_length(items)) - 1) AS place
WHERE id = %s ORDER BY place
"""


def batch_states(batch_id: UUID) -> dict[str, int]:
    """Return the number of jobs of a batch by state."""
    counted = Job.objects.filter(batch_id=batch_id).values("state").annotate(n=Count("id"))
    return {row["state"]: row["n"] for row in counted}


def applications() -> QuerySet[Application]:
    """Return all applications; what is run is no project's secret."""
    return Application.objects.all()


def application_by(key: str) -> Application | None:
    """Return an application by id or by name."""
    try:
        return Application.objects.filter(pk=UUID(key)).first()
    except ValueError:
        return Application.objects.filter(name=key).first()


def application_kinds(names: Iterable[str]) -> dict[str, str]:
    """Kind of each of these applications, by name; names that are none are missing."""
    rows = Application.objects.filter(name__in=set(names))
    return dict(rows.values_list("name", "kind"))
