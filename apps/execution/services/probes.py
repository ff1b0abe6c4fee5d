"""Profiling of commands by agents: a run becomes a job that measures a copy of the command.

The job of a run has the id of the run. It needs all units of a server: stressors press caches,
memory, disk and network, which all cores share, so no other job may run there. Its launch, limits
and loss are those of any command. Its output is the report.
"""

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, OuterRef, Q

from apps.classification.services.reports import record_profile
from apps.common.core.errors import ConflictError, FieldProblem, InvalidInputError
from apps.common.infrastructure.database import database_now
from apps.execution.models import OutputStream, ServerAgent
from apps.execution.selectors.agents import output, output_tail
from apps.inventory.core.backends import AGENT
from apps.inventory.models import Server, ServerState
from apps.inventory.selectors import cluster_now
from apps.operations.core.states import OperationStatus
from apps.operations.services import NewEvent, OperationChange, mirror_operations, record_events
from apps.profiling import selectors as profiling_selectors
from apps.profiling.core.measurements import ProfilingStep
from apps.profiling.core.probe import MIN_UNITS, missing_cells
from apps.profiling.models import OPEN_STATES, ProfilingRun, RunState
from apps.profiling.services import (
    lock_applications,
    record_ended,
    record_profiled,
    record_progress,
)
from apps.scheduling.models import Allocation
from apps.workloads import services as workloads
from apps.workloads.core.archives import Archive
from apps.workloads.core.constraints import Constraints
from apps.workloads.core.lifecycle import TERMINAL_STATES, JobState
from apps.workloads.core.spec import JobSpec
from apps.workloads.core.targets import BestEffort
from apps.workloads.models import Job

APPLICATION: Final = "berth-profile"  # of the jobs that measure
MAX_OUTPUT: Final = 1 << 20
MAX_REASON: Final = 300
logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Shape:
    """Servers of equal size that can profile; ``units`` are all of one."""

    units: int
    platforms: tuple[str, ...]


def advance_probes() -> None:
    """Start the requested runs of commands, and follow those that run."""
    runs = profiling_selectors.runs().filter(
        state__in=OPEN_STATES, application__runs_commands=True
    )
    for run in runs.order_by("created_at", "id"):
        try:
            if run.state == RunState.QUEUED:
                _start(run)
            else:
                _follow(run)
        except Exception:
            # the others go on; this one is tried again by the next sweep
            logger.exception("the profiling run %s of %s", run.pk, run.application.name)


def _start(run: ProfilingRun) -> None:
    waiting = _waiting_job(run)
    if _is_cancelled(run):
        _pause(run)
    elif waiting is None:
        _end(run, RunState.CANCELLED, "no job waits for it")
    elif (shape := _server_shape()) is None:
        _end(run, RunState.FAILED, f"no agent can profile: it needs {MIN_UNITS} cores and numpy")
    else:
        try:
            _submit(run, waiting, shape)
        except (ConflictError, InvalidInputError) as error:
            _end(run, RunState.FAILED, str(error))


def _submit(unlocked: ProfilingRun, waiting: Job, shape: _Shape) -> None:
    with transaction.atomic():
        run = _locked(unlocked)
        if run is None or run.state != RunState.QUEUED:
            return
        run.state, run.started_s, run.attempts = RunState.RUNNING, cluster_now(), 1
        run.claimed_by = AGENT
        run.save(update_fields=["state", "started_s", "attempts", "claimed_by"])
        events = _mirror(run, "waits for a server on which nothing runs")
        workloads.submit_jobs(
            [_spec(run, waiting, shape)],
            project=waiting.project,
            user=waiting.created_by,
            correlation_id=waiting.correlation_id,
        )
        record_events(events)


def _spec(run: ProfilingRun, waiting: Job, shape: _Shape) -> JobSpec:
    program = waiting.program or {}
    return JobSpec(
        id=run.pk,
        application=APPLICATION,
        target=BestEffort(),
        name=f"profile-{run.application.name[:100]}-{run.pk.hex[-8:]}",
        units=shape.units,
        duration_s=settings.PROBE_LIMIT_S,
        priority=waiting.priority,
        constraints=Constraints(platforms=shape.platforms, locality="server"),
        command=tuple(program["command"]),
        environment=program["environment"],
        working_directory=program["working_directory"],
        files=None if waiting.files_id is None else Archive(waiting.files_id),
        user=program.get("user"),
        backend=AGENT,
        probe={key: run.plan[key] for key in ("stressors", "window_s")},
    )


def _follow(run: ProfilingRun) -> None:
    job = Job.objects.filter(pk=run.pk).first()
    if job is None:
        _end(run, RunState.FAILED, "its job was deleted")
    elif job.state == JobState.SUCCEEDED:
        _store(run, job)
    elif _is_cancelled(run):
        workloads.cancel_jobs([job.pk])
        _pause(run)
    elif run.is_awaited and _waiting_job(run) is None:
        workloads.cancel_jobs([job.pk])
        _end(run, RunState.CANCELLED, "no job waits for it")
    elif job.state in TERMINAL_STATES:
        _end(run, RunState.FAILED, _reason(job))
    elif job.launches.count() > settings.PROBE_ATTEMPTS:
        workloads.cancel_jobs([job.pk])
        message = f"no agent finished it in {settings.PROBE_ATTEMPTS} attempts"
        _end(run, RunState.FAILED, message)
    elif job.state == JobState.RUNNING:
        _record_progress(run, job)
    elif job.state == JobState.QUEUED and run.is_awaited and _is_overdue(job):
        _release_jobs(run)


def _is_overdue(job: Job) -> bool:
    return database_now() - job.created_at > timedelta(seconds=settings.PROBE_WAIT_S)


def _release_jobs(unlocked: ProfilingRun) -> None:
    """Place the jobs that wait for a profile without it; the profile still waits for a server."""
    with transaction.atomic():
        run = _locked(unlocked)
        if run is None or run.state != RunState.RUNNING:
            return
        run.is_awaited = False
        run.save(update_fields=["is_awaited"])
        events = _mirror(run, "waits for a server on which nothing runs; jobs go on without it")
        workloads.queue_profiled(run.application_id)
        record_events(events)


def _record_progress(run: ProfilingRun, job: Job) -> None:
    total = len(run.plan["stressors"])
    done = min(total, int(job.progress * total + 0.5))
    if run.operation is not None and run.operation.progress != done:
        message = f"{done} of {total} stressors"
        record_progress({run.pk: ProfilingStep(0.0, done, total, message)})


def _store(unlocked: ProfilingRun, job: Job) -> None:
    try:
        report = _report(job)
        with transaction.atomic():
            run = _locked(unlocked)
            if run is None or run.state != RunState.RUNNING:
                return
            cells = record_profile(report, run=run, key_name=f"agent {_server(job)}")
            result = _result(report, cells, job)
            message = f"{cells} cells measured, {len(result['missing'])} missing"
            events = record_ended(run, RunState.DONE, message, result=result)
            workloads.queue_profiled(run.application_id)
            record_profiled(run.application)
            record_events(events)
    except InvalidInputError as error:
        _end(unlocked, RunState.FAILED, f"the report is not valid: {error}")


def _report(job: Job) -> Mapping[str, Any]:
    text = output(job, OutputStream.STDOUT, start=0, limit=MAX_OUTPUT).text
    try:
        report = json.loads(text)
    except ValueError:
        report = None
    if not isinstance(report, dict):
        problem = FieldProblem("/report", "wrong_type", "must be an object")
        raise InvalidInputError([problem])
    return report


def _result(report: Mapping[str, Any], cells: int, job: Job) -> dict[str, Any]:
    gaps = missing_cells(report)
    return {
        "cells": cells,
        "seconds": round((job.finished_s or 0.0) - (job.started_s or 0.0), 1),
        "missing": [{"matrix": g.matrix, "column": g.column, "reason": g.reason} for g in gaps],
    }


def _server(job: Job) -> str:
    keys = job.allocations.order_by("-acquired_seq").values_list("server_id", flat=True)
    return Server.objects.get(pk=keys[0]).name


def _pause(run: ProfilingRun) -> None:
    """End a run that a user cancelled; for a while, no job requests another."""
    pause_s = settings.PROBE_PAUSE_S
    message = (
        "cancelled by a user: the jobs are placed without a profile. The first job with a copyable"
        f" command {pause_s:,.0f} s later requests another run"
    )
    _end(run, RunState.CANCELLED, message, pause_s=pause_s)


def _end(unlocked: ProfilingRun, state: RunState, message: str, *, pause_s: float = 0.0) -> None:
    """End a run without a profile; the jobs that wait for it are placed as they are."""
    with transaction.atomic():
        run = _locked(unlocked)
        if run is None or run.state not in OPEN_STATES:
            return
        if pause_s > 0.0:
            run.paused_until = database_now() + timedelta(seconds=pause_s)
            run.save(update_fields=["paused_until"])
        events = record_ended(run, state, message)
        workloads.queue_profiled(run.application_id)
        record_events(events)


def _locked(unlocked: ProfilingRun) -> ProfilingRun | None:
    lock_applications([unlocked.application_id])
    rows = profiling_selectors.runs().select_for_update(no_key=True, of=("self",))
    return rows.filter(pk=unlocked.pk).first()


def _mirror(run: ProfilingRun, message: str) -> list[NewEvent]:
    if run.operation is None:
        return []
    change = OperationChange(run.operation.pk, OperationStatus.RUNNING, message, progress=0)
    return mirror_operations([change])


def _waiting_job(run: ProfilingRun) -> Job | None:
    waiting = Job.objects.filter(application=run.application_id, state=JobState.PROFILING)
    return waiting.select_related("project", "created_by").order_by("created_at", "id").first()


def _is_cancelled(run: ProfilingRun) -> bool:
    rows = ProfilingRun.objects.filter(profiling_selectors.CANCELLED, pk=run.pk)
    return rows.exists()


def _server_shape() -> _Shape | None:
    """Return which servers a profile can have for itself: open, idle and small ones first."""
    able = Server.objects.filter(
        pk__in=ServerAgent.objects.filter(revoked_at=None, facts__probe=True).values("server"),
        cores__gte=MIN_UNITS,
    )
    held = Allocation.objects.filter(server_id=OuterRef("pk"), released_seq=None)
    ranked = able.annotate(is_closed=~Q(state=ServerState.ACTIVE), is_used=Exists(held))
    first = ranked.order_by("is_closed", "is_used", "cores", "pk").first()
    if first is None:
        return None
    names = able.filter(cores=first.cores).values_list("platform__name", flat=True)
    return _Shape(first.cores, tuple(sorted(set(names))))


def _reason(job: Job) -> str:
    """Return the last line that the profiler wrote, or why Berth ended the job."""
    said = output_tail(job, OutputStream.STDERR, limit=MAX_REASON).text.strip()
    last = said.rpartition("\n")[2]
    return ": ".join(filter(None, (job.reason_message, last))) or f"its job has {job.state}"
