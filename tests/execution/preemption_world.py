"""Running jobs that a preemption may stop, and jobs that wait for their units."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pytest

from apps.accounts.models import AuditEntry
from apps.execution.backends.emulated.port import JobReport
from apps.execution.models import Launch
from apps.execution.services.preemption import Preemption, preempt, preview_preemption
from apps.inventory.models import Cluster
from apps.operations.models import Event
from apps.scheduling.models import Allocation, Reservation
from apps.scheduling.selectors import ClusterFollower
from apps.workloads.core.attainment import Performance
from apps.workloads.models import Job
from tests import factories
from tests.execution.migration_world import (
    cluster,
    launch_of,
    running,
)
from tests.scheduling.world import known

if TYPE_CHECKING:
    from django.db.models import Model


NOW_S = 7260.0  # jobs run since 7,200 s
BEST_EFFORT = {"kind": "best_effort"}


@pytest.fixture(autouse=True)
def world(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two servers of four units; the process's copy of the cluster outlives the tests."""
    monkeypatch.setattr("apps.scheduling.services.dry_run._COPY", ClusterFollower())
    cluster("a", "b")


def low(units: Sequence[int], name: str = "", **values: Any) -> Job:
    """A running job of priority 0."""
    fields = {"name": name or f"low-{units[0]}", "target": BEST_EFFORT, **values}
    job = running(units, **fields)
    Cluster.objects.update(seen_cluster_s=NOW_S)
    return job


def deadline(seconds: float) -> dict[str, Any]:
    return {"kind": "completion_time", "seconds": seconds}


def urgent(units: int, *, shape: dict[str, Any] | None = None, **values: Any) -> Job:
    """A waiting job of priority 5 that was refused for lack of units."""
    fields = {"target": BEST_EFFORT, "priority": 5, "units_requested": units, **values}
    job = factories.job("urgent", **{"application": known(), **fields})
    factories.waiting_shape(
        job, **{"units": units, "min_units": units, "run_high_s": 100.0, **(shape or {})}
    )
    job.refresh_from_db()
    return job


def report_of(job: Job) -> JobReport:
    """A report of the only launch of a job."""
    return JobReport(launch_of(job).id, Performance(0.5, 1e-3), 0.8)


def names(found: Preemption) -> list[str]:
    return [victim.job.name for victim in found.victims]


def apply(job: Job) -> Preemption:
    return preempt(job.id, preview_preemption(job.id).basis)


def counts() -> dict[str, int]:
    tables: list[type[Model]] = [Event, Reservation, AuditEntry, Allocation]
    return {table.__name__: table._default_manager.count() for table in tables}


def rows(job: Job) -> tuple[Any, ...]:
    launch = Launch.objects.filter(job=job).values_list("state", "cancel_requested", "message")
    state = Job.objects.filter(id=job.id).values_list("state", "reason_code", "generation")
    return (*state, *launch)
