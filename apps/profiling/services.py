"""Writes of profiling: runs wanted, how far they are, what they measured, and how they end.

Whoever changes whether an application has an open run or a profile holds the application's row
first (`lock_applications`), so that a job sent to profiling always finds a run that will end. Then
come the run's row, its operation's, the jobs', and last the event log.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

import numpy as np
from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from apps.common.core.errors import ConflictError
from apps.common.db import copy_rows
from apps.common.request_id import current_request_id
from apps.inventory.selectors import cluster_now
from apps.operations.core.states import OperationStatus
from apps.operations.models import Operation
from apps.operations.services import (
    NewEvent,
    OperationChange,
    follow_operations,
    operation_created,
    record_events,
)
from apps.profiling import selectors
from apps.profiling.core.plan import PlatformShape, plan
from apps.profiling.core.plan import Ranking as Order
from apps.profiling.models import OPEN_STATES, Measurement, ProfilingRun, Ranking, RunState
from apps.workloads import services as workloads
from apps.workloads.core.lifecycle import JobState
from apps.workloads.core.reasons import Reason
from apps.workloads.models import Application, Job

KIND: Final = "profiling"  # of the operations
MAX_ATTEMPTS: Final = 5
UNKNOWN: Final = "nothing is known of the application"


@dataclass(frozen=True, slots=True)
class NewMeasurement:
    """One measured cell; ``standard_error`` in the unit of ``value``."""

    matrix: str
    column: str
    value: float
    standard_error: float
    samples: int


@dataclass(frozen=True, slots=True)
class MissingCell:
    """One cell that was probed in vain, and why."""

    matrix: str
    column: str
    reason: str


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is: steps over, steps in all, and what the last one brought."""

    done: int
    total: int
    message: str


def lock_applications(application_ids: Iterable[UUID]) -> list[Application]:
    """Lock applications in the order of their ids until the transaction ends."""
    rows = Application.objects.select_for_update(no_key=True).filter(id__in=list(application_ids))
    return list(rows.order_by("id"))


def rank_columns(order: Order) -> None:
    """Say which columns tell most about a new application; plans drawn from now on follow it.

    Parameters
    ----------
    order : columns of "heterogeneity", "scale_up", "scale_out" and "tolerated", best first
    """
    columns = {matrix: list(ranked) for matrix, ranked in order.items()}
    Ranking.objects.update_or_create(id=1, defaults={"order": columns})


# ---- wishes ----


def request_runs(application_ids: Iterable[UUID]) -> int:
    """Ask for a profiling run of each application that has none open; returns how many are new.

    In the caller's transaction. Records no event: the first comes when a backend begins.

    Raises
    ------
    ValueError : the cluster has no server to profile on.
    """
    applications = lock_applications(application_ids)
    is_open = set(
        ProfilingRun.objects.filter(
            application__in=applications, state__in=OPEN_STATES
        ).values_list("application_id", flat=True)
    )
    new = [application for application in applications if application.id not in is_open]
    return len(_ask(new, reason=UNKNOWN, by=None))


def request_run(
    application_id: UUID,
    *,
    requested_by: UUID | None = None,
    reason: str = "",
    thorough: bool = False,
) -> ProfilingRun:
    """Ask for a run of one application, known or not.

    What it measures is added to what is known; the present profile stays in force until then. A
    ``thorough`` one takes the time to measure every source.

    Raises
    ------
    ConflictError : it is being profiled already, or the cluster has no server to profile on.
    """
    with transaction.atomic():
        (application,) = lock_applications([application_id])
        if (other := selectors.open_run(application_id)) is not None:
            raise ConflictError(
                f"{application.name} is being profiled already: run {other.pk} is {other.state}."
            )
        try:
            (run,) = _ask([application], reason=reason, by=requested_by, thorough=thorough)
        except ValueError as error:
            raise ConflictError(f"{application.name} cannot be profiled now: {error}.") from error
        if run.operation is not None:
            record_events([operation_created(run.operation)])
    return run


def _ask(
    applications: Sequence[Application], *, reason: str, by: UUID | None, thorough: bool = False
) -> list[ProfilingRun]:
    if not applications:
        return []
    shapes, order, now_s = selectors.platform_shapes(), selectors.ranking(), cluster_now()
    runs = [
        _new_run(application, shapes, order, now_s, thorough=thorough)
        for application in applications
    ]
    for run in runs:
        run.reason = reason
        run.operation = _new_operation(run, by)
    Operation.objects.bulk_create(run.operation for run in runs if run.operation)
    return ProfilingRun.objects.bulk_create(runs)


def _new_run(
    application: Application,
    shapes: Sequence[PlatformShape],
    order: Order,
    now_s: float,
    *,
    thorough: bool,
) -> ProfilingRun:
    run = ProfilingRun(application=application, requested_s=now_s)
    # the run's own id is its entropy: another run of the same application draws other columns
    run.seed = run.id.int & (1 << 62) - 1
    rng = np.random.default_rng(run.seed)
    run.plan = plan(application.kind, shapes, rng, order=order, thorough=thorough)
    return run


def _new_operation(run: ProfilingRun, by: UUID | None) -> Operation:
    return Operation(
        kind=KIND,
        total=len(run.plan["runs"]) + len(run.plan["runs"][0]["sources"]),
        message=f"{run.application.name} waits for a backend",
        arguments={"application": run.application.name, "run": str(run.pk)},
        created_by_id=by,
        request_id=current_request_id(),
    )


# ---- under way ----


def record_begun(run_ids: Sequence[UUID]) -> None:
    """Tell that a backend has begun runs it claimed; last in the transaction of the claim."""
    changes = [
        OperationChange(
            operation_id,
            OperationStatus.RUNNING,
            f"attempt {attempts}: copies of {name} are set up",
            progress=0,
        )
        for _, operation_id, attempts, name in _running(run_ids)
    ]
    record_events(follow_operations(changes))


def record_progress(steps: Mapping[UUID, Progress]) -> None:
    """Tell how far runs are that go on; a few statements, however many."""
    with transaction.atomic():
        changes = [
            OperationChange(
                operation_id,
                OperationStatus.RUNNING,
                steps[run_id].message,
                progress=steps[run_id].done,
                total=steps[run_id].total,
            )
            for run_id, operation_id, _, _ in _running(list(steps))
        ]
        record_events(follow_operations(changes))


def _running(run_ids: Sequence[UUID]) -> list[tuple[UUID, UUID, int, str]]:
    """Id, operation, attempt and application of those that run and have an operation."""
    rows = ProfilingRun.objects.filter(
        id__in=run_ids, state=RunState.RUNNING, operation__isnull=False
    )
    return list(rows.values_list("id", "operation_id", "attempts", "application__name"))


# ---- ends ----


def record_measurements(
    run_id: UUID, *, at_s: float, cells: Sequence[NewMeasurement]
) -> Application | None:
    """Store what a run measured and mark it done; None where it had ended before.

    A run that was given up too early may still report, one that was cancelled may not. In the
    caller's transaction, which holds the application's row from here on. Records no event: the
    caller does, last (`record_done`, `record_profiled`).
    """
    found = ProfilingRun.objects.filter(id=run_id).first()
    if found is None:
        return None
    (application,) = lock_applications([found.application_id])
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
    """Tell what a run that is done brought; last in the transaction that stored its cells.

    Parameters
    ----------
    seconds : of cluster time it took
    missing : cells that were probed in vain
    """
    run = selectors.runs().filter(id=run_id, state=RunState.DONE, result__isnull=True).first()
    if run is None:
        return  # told before, or it had ended otherwise
    gaps = [{"matrix": g.matrix, "column": g.column, "reason": g.reason} for g in missing]
    cells = Measurement.objects.filter(run_id=run_id).count()
    run.result = {"cells": cells, "seconds": round(seconds, 1), "missing": gaps}
    run.message = f"{cells} cells measured in {seconds:.0f} s" + (
        f", {len(gaps)} missing" if gaps else ""
    )
    run.save(update_fields=["result", "message"])
    record_events(_followed(run, OperationStatus.SUCCEEDED, result=run.result))


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


def record_failure(run_id: UUID, *, at_s: float, reason: str) -> None:
    """Take in that a backend could not do a run: it is tried again, a few times."""
    found = ProfilingRun.objects.filter(id=run_id).first()
    if found is None:
        return
    with transaction.atomic():
        lock_applications([found.application_id])
        run = selectors.runs().select_for_update(no_key=True, of=("self",)).get(id=run_id)
        if run.state != RunState.RUNNING:
            return
        if run.attempts >= MAX_ATTEMPTS:
            _fail(run, at_s, f"it failed {run.attempts} times, the last time so: {reason}")
            return
        run.state, run.claimed_until = RunState.QUEUED, None
        run.message = f"attempt {run.attempts} of {MAX_ATTEMPTS} failed: {reason}"[:500]
        run.save(update_fields=["state", "claimed_until", "message"])
        record_events(_followed(run, OperationStatus.PENDING))


def give_up_runs() -> int:
    """Fail the runs whose backend died again and again, and the jobs that wait for them.

    A run is claimed anew when its lease runs out; after ``MAX_ATTEMPTS`` leases it has failed.
    """
    now = timezone.now()
    hopeless = ProfilingRun.objects.filter(
        state=RunState.RUNNING, claimed_until__lt=now, attempts__gte=MAX_ATTEMPTS
    )
    given_up = 0
    for found in hopeless.order_by("application_id"):
        with transaction.atomic():
            lock_applications([found.application_id])
            # still out of time: its backend may have come back since the first look
            rows = selectors.runs().select_for_update(no_key=True, of=("self",))
            run = rows.filter(id__in=hopeless.filter(id=found.id).values("id")).first()
            if run is not None:
                given_up += 1
                message = f"no backend finished the run in {run.attempts} attempts"
                _fail(run, cluster_now(), message)
    return given_up


def _fail(run: ProfilingRun, at_s: float, message: str) -> None:
    _end(run, RunState.FAILED, at_s, message)
    problem = {"title": "The application could not be profiled", "detail": message}
    events = _followed(run, OperationStatus.FAILED, problem=problem)
    fail_jobs(run.application_id, reason=Reason.PROFILING_FAILED, message=message)
    record_events(events)


def stop_runs(run_ids: Sequence[UUID]) -> int:
    """End cancelled runs whose copies their backend has stopped; returns how many."""
    return sum(_cancel(run_id, Q()) for run_id in run_ids)


def end_cancelled_runs() -> int:
    """End cancelled runs that no backend is doing; returns how many."""
    nobodys = Q(state=RunState.QUEUED) | Q(claimed_until__lt=timezone.now())
    rows = ProfilingRun.objects.filter(selectors.UNWANTED, nobodys, state__in=OPEN_STATES)
    return sum(_cancel(run_id, nobodys) for run_id in list(rows.values_list("id", flat=True)))


def _cancel(run_id: UUID, where: Q) -> bool:
    """End one run that somebody cancelled.

    Jobs that wait for the very first profile of an application fail; one that was measured before
    keeps what is known of it, and its jobs go on by that (`classification.repair_waiting`).
    """
    with transaction.atomic():
        rows = ProfilingRun.objects.filter(id=run_id)
        lock_applications(rows.values_list("application_id", flat=True))
        held = selectors.runs().select_for_update(no_key=True, of=("self",))
        run = held.filter(where, selectors.UNWANTED, id=run_id, state__in=OPEN_STATES).first()
        if run is None:
            return False
        message = f"the profiling of {run.application.name} was cancelled"
        _end(run, RunState.CANCELLED, cluster_now(), message)
        events = _followed(run, OperationStatus.CANCELLED)
        if not Measurement.objects.filter(application_id=run.application_id).exists():
            fail_jobs(run.application_id, reason=Reason.PROFILING_FAILED, message=message)
        record_events(events)
    return True


def _end(run: ProfilingRun, state: RunState, at_s: float, message: str) -> None:
    run.state, run.finished_s, run.claimed_until = state, at_s, None
    run.message = message[:500]
    run.save(update_fields=["state", "finished_s", "claimed_until", "message"])


def _followed(run: ProfilingRun, status: OperationStatus, **more: Any) -> list[NewEvent]:
    """Let the operation of a run say what the run says; returns the events to record last."""
    if run.operation is None:
        return []
    return follow_operations([OperationChange(run.operation.pk, status, run.message, **more)])


def fail_jobs(application_id: UUID, *, reason: Reason, message: str) -> int:
    """Fail the jobs that wait for an application's profile; returns how many."""
    waiting = Job.objects.filter(application_id=application_id, state=JobState.PROFILING)
    job_ids = list(waiting.values_list("id", flat=True))
    return workloads.fail_waiting(job_ids, reason=reason, message=message)
