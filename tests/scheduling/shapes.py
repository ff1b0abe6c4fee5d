"""Floods of jobs, and jobs that wait in the shapes of their requests."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import numpy as np
from django.utils import timezone

from apps.common.core.ids import uuid7
from apps.inventory.core.snapshot import Snapshot
from apps.scheduling.core import registry
from apps.scheduling.core.types import Placed, Refused, Request
from apps.scheduling.services.agent import SchedulingAgent
from apps.scheduling.services.queue import BATCH
from apps.workloads import services as workloads
from apps.workloads.core.shapes import Needs, WaitsFor
from apps.workloads.models import Application, Job, WaitingShape
from tests import factories
from tests.scheduling.world import ME, claimed

FLOOD = BATCH + 40
NOWHERE: dict[str, Any] = {"constraints": {"labels": {"zone": "mars"}}}
ONE_UNIT: dict[str, Any] = {"target": {"kind": "best_effort"}, "units_requested": 1}
ANY_UNIT = Needs(WaitsFor.UNITS)


class Counted:
    """The default policy; notes the jobs that it evaluates."""

    name, version, draws_sample = "tarcil", 1, True

    def __init__(self) -> None:
        self.evaluated: list[str] = []
        self._policy = registry.make("tarcil")

    def place(
        self, snapshot: Snapshot, requests: Sequence[Request], rng: np.random.Generator
    ) -> list[Placed | Refused]:
        """Note the jobs and place them."""
        self.evaluated += [request.job for request in requests]
        return self._policy.place(snapshot, requests, rng)


def counting(name: str = "agent-1") -> tuple[SchedulingAgent, Counted]:
    policy = Counted()
    return SchedulingAgent(name, policy=policy, rng=np.random.default_rng(5)), policy


def flood(application: Application, count: int = FLOOD, **values: Any) -> list[Job]:
    """Waiting jobs of one shape, in the order of their submission."""
    fields: dict[str, Any] = {
        "state": "submitted",
        "target": {"kind": "best_effort"},
        "target_kind": "best_effort",
        "submitted_s": 3000.0,
        "reason_code": "WaitingForAgent",
        "correlation_id": "flood",
        "created_by": factories.user(),
        "project": factories.project(),
        "application": application,
    }
    jobs = [Job(name=f"flood-{n}", **{**fields, **values}) for n in range(count)]
    return Job.objects.bulk_create(jobs)


def due() -> None:
    """Make every shape due."""
    WaitingShape.objects.update(due_at=timezone.now())


def not_due() -> None:
    """Let every shape wait for freed capacity."""
    WaitingShape.objects.update(due_at=timezone.now() + timedelta(hours=1))


def refuse(jobs: Sequence[Job], needs: Needs = ANY_UNIT, sequence: int = 7, **values: Any) -> None:
    """Refuse claimed jobs."""
    workloads.keep_waiting(
        [workloads.WaitingJob(job.id, "NoFreeUnit", "", uuid7(), needs, **values) for job in jobs],
        agent="agent-1",
        at=workloads.EvaluationTime(cluster_s=3000.0, sequence=sequence, delay_s=3600.0),
    )


def shaped(**values: Any) -> Job:
    """A job that waits in a shape."""
    job = claimed(ME, **values)
    refuse([job])
    job.refresh_from_db()
    assert job.shape is not None
    return job
