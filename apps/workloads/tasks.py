"""Periodic tasks of workloads, started by beat."""

from celery import shared_task

from apps.workloads.services.counts import fold_job_counts


@shared_task(name="workloads.fold_counts")
def fold_counts() -> int:
    """Fold the recorded changes of job counts."""
    return fold_job_counts()
