"""Waiting gangs, and an agent that decides on all waiting jobs of a small cluster."""

from typing import Any

from django.utils import timezone

from apps.inventory.models import Cluster
from apps.scheduling.services import release
from apps.scheduling.services.agent import SchedulingAgent
from apps.workloads.models import Application, Job, WaitingShape
from tests.scheduling.world import waiting

BEST_EFFORT = {"kind": "best_effort"}
NOW_S = 3000.0


def at(cluster_s: float) -> None:
    Cluster.objects.update(seen_cluster_s=cluster_s)


def job(of: Application, units: int, gigabytes: int, **values: Any) -> Job:
    """Work of 10 s per gigabyte on one unit, apart from interference."""
    fields = {"target": BEST_EFFORT, "target_kind": "best_effort", "gang": True}
    size = {"units_requested": units, "input_bytes": gigabytes * 10**9}
    return waiting(of, **{**fields, **size, "submitted_s": NOW_S, **values})


def late(of: Application, units: int) -> Job:
    """A gang that has waited longer than the setting."""
    return job(of, units, 10, submitted_s=NOW_S - 700.0)


def decide(by: SchedulingAgent) -> None:
    WaitingShape.objects.update(due_at=timezone.now())
    Job.objects.filter(state__in=["submitted", "queued"]).update(claimed_until=None)
    by.work(for_s=0.3)


def end(job_ids: list[Any], at_s: float) -> None:
    Job.objects.filter(id__in=job_ids).update(
        state="succeeded", finished_s=at_s, finished_at=timezone.now()
    )
    release(job_ids)
