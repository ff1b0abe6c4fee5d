"""The latest jobs of an application that the user may see."""

from typing import Final

from django.db.models import QuerySet

from apps.dashboard.core.usual_job import PastJob
from apps.workloads.models import Application, Job

LATEST: Final = 50


def past_jobs(application: Application, visible: QuerySet[Job]) -> list[PastJob]:
    """Return what the latest jobs of an application requested and achieved, newest first."""
    rows = visible.filter(application=application).order_by("-created_at", "-id")
    return [
        PastJob(
            target=job.target,
            input_bytes=job.input_bytes,
            tasks=job.tasks_total,
            duration_s=job.duration_s,
            units=job.units_requested,
            achieved=_achieved(job),
            attainment=job.attainment,
        )
        for job in rows[:LATEST]
    ]


def _achieved(job: Job) -> float | None:
    """Return the time of a completed job, or the last measured latency or rate."""
    if job.target_kind != "completion_time":
        return job.performance
    is_complete = job.state == "succeeded" and job.finished_s is not None
    return job.finished_s - job.submitted_s if is_complete and job.finished_s is not None else None
