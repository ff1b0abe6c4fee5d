"""Results of profiling runs, and the ways in which they end: done, failed or cancelled.

Rows are locked in the order that `requests` states.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Q
from django.db.models.functions import Now

from apps.common.infrastructure.database import copy_rows
from apps.inventory.selectors import cluster_now
from apps.operations.core.states import OperationStatus
from apps.operations.services import NewEvent, OperationChange, mirror_operations, record_events
from apps.profiling import selectors
from apps.profiling.core.measurements import MeasuredCell, MissingCell
from apps.profiling.models import OPEN_STATES, Measurement, ProfilingRun, RunState
from apps.profiling.services.claims import MAX_ATTEMPTS
from apps.profiling.services.requests import lock_applications
from apps.workloads import services as workloads
from apps.workloads.core.lifecycle import JobState
from apps.workloads.core.reasons import Reason
from apps.workloads.models import Application, Job


def record_measurements(
    run_id: UUID, *, at_s: float, cells: Sequence[MeasuredCell]
) -> Application | None:
    """Store the measurements of a run and mark it done; returns None if it had already ended.

    A run that was given up too early may still report, a cancelled one may not. Runs in the
    caller's transaction, which then holds the lock of the application. Records no event: the
    caller does so last (`record_done`, `record_profiled`).
    """
    unlocked = ProfilingRun.objects.filter(id=run_id).first()
    if unlocked is None:
        return None
    (application,) = lock_applications([unlocked.application_id])
    run = ProfilingRun.objects.select_for_update(no_key=True).get(id=run_id)
    if run.state in {RunState.DONE, RunState.CANCELLED}:
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


def record_done(run_id: UUID, *, seconds: float, missing: Iterable[MissingCell] = ()) -> None:
    """Record the result of a completed run; last in the transaction that stored its cells.

    Parameters
    ----------
    seconds : duration in cluster time
    missing : cells without a measurement
    """
    run = selectors.runs().filter(id=run_id, state=RunState.DONE, result__isnull=True).first()
    if run is None:
        return  # already recorded, or it failed or was cancelled
    gaps = [{"matrix": g.matrix, "column": g.column, "reason": g.reason} for g in missing]
    cells = Measurement.objects.filter(run_id=run_id).count()
    run.result = {"cells": cells, "seconds": round(seconds, 1), "missing": gaps}
    run.message = f"{cells} cells measured in {seconds:.0f} s" + (
        f", {len(gaps)} missing" if gaps else ""
    )
    run.save(update_fields=["result", "message"])
    record_events(_update_operation(run, OperationStatus.SUCCEEDED, result=run.result))


def record_profiled(application: Application) -> None:
    """Announce that an application has a new profile; last in the caller's transaction."""
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


def record_failure(run_id: UUID, *, at_s: float, reason: str) -> None:
    """Record a failed attempt; the run is queued again until ``MAX_ATTEMPTS`` have failed."""
    unlocked = ProfilingRun.objects.filter(id=run_id).first()
    if unlocked is None:
        return
    with transaction.atomic():
        lock_applications([unlocked.application_id])
        run = selectors.runs().select_for_update(no_key=True, of=("self",)).get(id=run_id)
        if run.state != RunState.RUNNING:
            return
        if run.attempts >= MAX_ATTEMPTS:
            _fail(run, at_s, f"all {run.attempts} attempts failed; the last one: {reason}")
            return
        run.state, run.claimed_until = RunState.QUEUED, None
        run.message = f"attempt {run.attempts} of {MAX_ATTEMPTS} failed: {reason}"[:500]
        run.save(update_fields=["state", "claimed_until", "message"])
        record_events(_update_operation(run, OperationStatus.PENDING))


def give_up_runs() -> int:
    """Fail runs whose last permitted lease has expired, and the jobs that wait for them.

    Returns their number. A run is claimed again when its lease expires; it fails after
    ``MAX_ATTEMPTS`` leases.
    """
    expired = ProfilingRun.objects.filter(
        state=RunState.RUNNING, claimed_until__lt=Now(), attempts__gte=MAX_ATTEMPTS
    )
    given_up = 0
    for unlocked in expired.order_by("application_id"):
        with transaction.atomic():
            lock_applications([unlocked.application_id])
            # check again under the lock: the backend may have renewed its lease
            rows = selectors.runs().select_for_update(no_key=True, of=("self",))
            run = rows.filter(id__in=expired.filter(id=unlocked.id).values("id")).first()
            if run is not None:
                given_up += 1
                message = f"no backend finished the run in {run.attempts} attempts"
                _fail(run, cluster_now(), message)
    return given_up


def _fail(run: ProfilingRun, at_s: float, message: str) -> None:
    _end(run, RunState.FAILED, at_s, message)
    problem = {"title": "The application could not be profiled", "detail": message}
    events = _update_operation(run, OperationStatus.FAILED, problem=problem)
    fail_jobs(run.application_id, reason=Reason.PROFILING_FAILED, message=message)
    record_events(events)


def stop_runs(run_ids: Sequence[UUID]) -> int:
    """End cancelled runs whose backend has stopped the copies; returns their number."""
    return sum(_cancel(run_id, Q()) for run_id in run_ids)


def end_cancelled_runs() -> int:
    """End cancelled runs that no backend has claimed; returns their number."""
    unclaimed = Q(state=RunState.QUEUED) | Q(claimed_until__lt=Now())
    rows = ProfilingRun.objects.filter(selectors.CANCELLED, unclaimed, state__in=OPEN_STATES)
    rows = rows.exclude(application__runs_commands=True)  # their jobs go on without a profile
    return sum(_cancel(run_id, unclaimed) for run_id in list(rows.values_list("id", flat=True)))


def _cancel(run_id: UUID, condition: Q) -> bool:
    """End one cancelled run.

    Jobs that wait for the first profile of an application fail. An application that was measured
    before keeps its measurements, and its jobs continue with them
    (`classification.requeue_waiting_jobs`).
    """
    with transaction.atomic():
        rows = ProfilingRun.objects.filter(id=run_id)
        lock_applications(rows.values_list("application_id", flat=True))
        locked = selectors.runs().select_for_update(no_key=True, of=("self",))
        run = locked.filter(
            condition, selectors.CANCELLED, id=run_id, state__in=OPEN_STATES
        ).first()
        if run is None:
            return False
        message = f"the profiling of {run.application.name} was cancelled"
        _end(run, RunState.CANCELLED, cluster_now(), message)
        events = _update_operation(run, OperationStatus.CANCELLED)
        if not Measurement.objects.filter(application_id=run.application_id).exists():
            fail_jobs(run.application_id, reason=Reason.PROFILING_FAILED, message=message)
        record_events(events)
    return True


def record_ended(
    run: ProfilingRun, state: RunState, message: str, *, result: Mapping[str, Any] | None = None
) -> list[NewEvent]:
    """End a run of a command; returns the events, to be recorded last.

    Runs in the caller's transaction, which holds the locks of the application and of the run. No
    job fails with the run: they are placed without a profile.
    """
    if result is not None:
        run.result = dict(result)
        run.save(update_fields=["result"])
    _end(run, state, cluster_now(), message)
    problem = None
    if state == RunState.FAILED:
        problem = {"title": "The command could not be profiled", "detail": message}
    status = {
        RunState.DONE: OperationStatus.SUCCEEDED,
        RunState.FAILED: OperationStatus.FAILED,
        RunState.CANCELLED: OperationStatus.CANCELLED,
    }[state]
    return _update_operation(run, status, result=run.result, problem=problem)


def _end(run: ProfilingRun, state: RunState, at_s: float, message: str) -> None:
    run.state, run.finished_s, run.claimed_until = state, at_s, None
    run.message = message[:500]
    run.save(update_fields=["state", "finished_s", "claimed_until", "message"])


def _update_operation(run: ProfilingRun, status: OperationStatus, **more: Any) -> list[NewEvent]:
    """Copy the state of a run to its operation; returns the events to record last."""
    if run.operation is None:
        return []
    return mirror_operations([OperationChange(run.operation.pk, status, run.message, **more)])


def fail_jobs(application_id: UUID, *, reason: Reason, message: str) -> int:
    """Fail the jobs that wait for an application's profile; returns their number."""
    waiting = Job.objects.filter(application_id=application_id, state=JobState.PROFILING)
    job_ids = list(waiting.values_list("id", flat=True))
    return workloads.fail_waiting(job_ids, reason=reason, message=message)
