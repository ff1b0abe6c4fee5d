"""Jobs that wait for one busy unit, and estimates of their starts."""

from typing import Any

import numpy as np
from django.utils import timezone

from apps.inventory.models import Cluster
from apps.scheduling.models import StartEstimate
from apps.scheduling.selectors import ClusterFollower
from apps.scheduling.services import release
from apps.scheduling.services.agent import make_agent
from apps.scheduling.services.start_estimates import update_start_estimates
from apps.workloads.models import Application, Job, WaitingShape
from tests.scheduling.world import build, known, waiting

NOW_S = 9000.0


def at(cluster_s: float) -> None:
    Cluster.objects.update(seen_cluster_s=cluster_s)


def job(of: Application, gigabytes: int, **values: Any) -> Job:
    """One unit of work of 10 s per gigabyte, apart from interference."""
    fields = {"target": {"kind": "best_effort"}, "target_kind": "best_effort"}
    size = {"units_requested": 1, "input_bytes": gigabytes * 10**9, "submitted_s": NOW_S}
    return waiting(of, **{**fields, **size, **values})


def decide() -> None:
    WaitingShape.objects.update(due_at=timezone.now())
    Job.objects.filter(state__in=["submitted", "queued"]).update(claimed_until=None)
    make_agent("agent-1").work(for_s=0.3)


def estimate(seed: int = 1) -> int:
    return update_start_estimates(ClusterFollower(), np.random.default_rng(seed))


def estimates(of: Job) -> list[StartEstimate]:
    return list(StartEstimate.objects.filter(job_id=of.id).order_by("id"))


def busy_server() -> tuple[Job, Job, Job]:
    """One unit, a job on it, and two that wait."""
    build("a", cores=1)
    application = known()
    first = job(application, 100)
    decide()
    later = [job(application, 10), job(application, 10)]
    decide()
    first.refresh_from_db()
    return first, later[0], later[1]


def end(of: Job, at_s: float) -> None:
    Job.objects.filter(id=of.id).update(
        state="succeeded", finished_s=at_s, finished_at=timezone.now()
    )
    release([of.id])


def runs_for(of: Job, elapsed_s: float, rest_s: float) -> None:
    """Let a job have run for some seconds, with a progress that predicts the rest."""
    done, now_s = elapsed_s / (elapsed_s + rest_s), Cluster.objects.get().seen_cluster_s
    Job.objects.filter(id=of.id).update(
        state="running", started_s=now_s - elapsed_s, progress=done
    )
