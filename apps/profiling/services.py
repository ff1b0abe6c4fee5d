"""Writes of profiling: runs wanted, what they measured, and those that failed too often.

Whoever changes whether an application has an open run or a profile holds the application's row
first (`lock_applications`), so that a job sent to profiling always finds a run that will end.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

import numpy as np
from django.db import transaction
from django.utils import timezone

from apps.common.db import copy_rows
from apps.inventory.selectors import cluster_now
from apps.operations.services import NewEvent, record_events
from apps.profiling import selectors
from apps.profiling.core.plan import PlatformShape, plan
from apps.profiling.models import Measurement, ProfilingRun, RunState
from apps.workloads import services as workloads
from apps.workloads.core.lifecycle import JobState
from apps.workloads.core.reasons import Reason
from apps.workloads.models import Application, Job

MAX_ATTEMPTS: Final = 5


@dataclass(frozen=True, slots=True)
class NewMeasurement:
    """One measured cell; ``standard_error`` in the unit of ``value``."""

    matrix: str
    column: str
    value: float
    standard_error: float
    samples: int


def lock_applications(application_ids: Iterable[UUID]) -> list[Application]:
    """Lock applications in the order of their ids until the transaction ends."""
    rows = Application.objects.select_for_update(no_key=True).filter(id__in=list(application_ids))
    return list(rows.order_by("id"))


def request_runs(application_ids: Iterable[UUID]) -> int:
    """Ask for a profiling run of each application that has none open; returns how many are new.

    In the caller's transaction.

    Raises
    ------
    ValueError : the cluster has no server to profile on.
    """
    applications = lock_applications(application_ids)
    is_open = set(
        ProfilingRun.objects.filter(
            application__in=applications, state__in=[RunState.QUEUED, RunState.RUNNING]
        ).values_list("application_id", flat=True)
    )
    shapes, now_s = selectors.platform_shapes(), cluster_now()
    runs = [
        _new_run(application, shapes, now_s)
        for application in applications
        if application.id not in is_open
    ]
    ProfilingRun.objects.bulk_create(runs)
    return len(runs)


def _new_run(
    application: Application, shapes: Sequence[PlatformShape], now_s: float
) -> ProfilingRun:
    run = ProfilingRun(application=application, requested_s=now_s)
    # the run's own id is its entropy: another run of the same application draws other columns
    run.seed = run.id.int & (1 << 62) - 1
    run.plan = plan(application.kind, shapes, np.random.default_rng(run.seed))
    return run


def record_measurements(
    run_id: UUID, *, at_s: float, cells: Sequence[NewMeasurement]
) -> Application | None:
    """Store what a run measured and mark it done; None where that was done before.

    In the caller's transaction, which holds the application's row from here on. Records no event:
    the caller does, last (`record_profiled`).
    """
    found = ProfilingRun.objects.filter(id=run_id).first()
    if found is None:
        return None
    (application,) = lock_applications([found.application_id])
    run = ProfilingRun.objects.select_for_update(no_key=True).get(id=run_id)
    if run.state == RunState.DONE:
        return None
    copy_rows(
        Measurement._meta.db_table,
        (
            *("application_id", "run_id", "matrix", "column", "value"),
            *("standard_error", "samples", "cluster_s", "source"),
        ),
        (
            (
                *(application.id, run_id, cell.matrix, cell.column, cell.value),
                *(cell.standard_error, cell.samples, at_s, "profiling"),
            )
            for cell in cells
        ),
    )
    run.state, run.finished_s, run.claimed_until = RunState.DONE, at_s, None
    run.save(update_fields=["state", "finished_s", "claimed_until"])
    return application


def record_profiled(application: Application) -> None:
    """Tell that an application has a new profile; last in the caller's transaction."""
    record_events(
        [
            NewEvent(
                topic="applications",
                kind="application.profiled",
                subject=str(application.id),
                data={"name": application.name},
            )
        ]
    )


def give_up_runs() -> int:
    """Fail the runs whose backend died again and again, and the jobs that wait for them.

    A run is claimed anew when its lease runs out; after ``MAX_ATTEMPTS`` leases it has failed.
    """
    now = timezone.now()
    hopeless = ProfilingRun.objects.filter(
        state=RunState.RUNNING, claimed_until__lt=now, attempts__gte=MAX_ATTEMPTS
    )
    given_up = 0
    for run in hopeless.order_by("application_id"):
        with transaction.atomic():
            lock_applications([run.application_id])
            message = f"no backend finished the run in {run.attempts} attempts"
            end = {"state": RunState.FAILED, "finished_s": cluster_now(), "message": message}
            # still out of time: its backend may have come back since the first look
            if hopeless.filter(id=run.id).update(claimed_until=None, **end):
                given_up += 1
                fail_jobs(run.application_id, reason=Reason.PROFILING_FAILED, message=message)
    return given_up


def fail_jobs(application_id: UUID, *, reason: Reason, message: str) -> int:
    """Fail the jobs that wait for an application's profile; returns how many."""
    waiting = Job.objects.filter(application_id=application_id, state=JobState.PROFILING)
    job_ids = list(waiting.values_list("id", flat=True))
    return workloads.fail_waiting(job_ids, reason=reason, message=message)
