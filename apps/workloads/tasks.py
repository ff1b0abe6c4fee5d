"""Periodic tasks of workloads, started by beat."""

from celery import shared_task

from apps.workloads.services.arrays import release_unreleased
from apps.workloads.services.counts import fold_job_counts


@shared_task(name="workloads.fold_counts")
def fold_counts() -> int:
    """Fold the recorded changes of job counts."""
    return fold_job_counts()


@shared_task(name="workloads.release_members")
def release_members() -> int:
    """Release members of arrays whose release was lost with a process."""
    return release_unreleased()
