"""Follow the jobs that measure pairs: progress, end, result and cancellation.

The job is the master copy. Its operation mirrors it, and a cancelled operation cancels the job.
"""

from datetime import timedelta
from typing import Any, Final

from django.db import transaction

from apps.common.infrastructure.database import database_now
from apps.execution.models import OutputStream
from apps.execution.selectors.agents import output_tail
from apps.operations.core.states import TERMINAL, OperationStatus
from apps.operations.services import OperationChange, mirror_operations, record_events
from apps.testbed.core.pairs.rounds import Report, read_report, summary
from apps.testbed.models import MeasuredPair
from apps.testbed.selectors.pairs import open_pairs, predicted_estimates
from apps.workloads.core.lifecycle import TERMINAL_STATES, JobState
from apps.workloads.models import Job
from apps.workloads.services import cancel_jobs

MAX_OUTPUT: Final = 1 << 20
OUTPUT_WAIT: Final = timedelta(seconds=30)


def follow_pairs() -> int:
    """Store how far the measuring jobs are; returns the number of pairs that ended."""
    return sum(_follow(pair) for pair in open_pairs().filter(is_emulated=False))


def _follow(pair: MeasuredPair) -> bool:
    job, operation = pair.job, pair.operation
    if job is None:
        return _end(pair, OperationStatus.FAILED, problem="The measuring job was deleted.")
    is_cancelled = operation.cancel_requested or operation.status in TERMINAL
    if is_cancelled and job.state not in TERMINAL_STATES:
        cancel_jobs([job.pk])
        return False
    if job.state == JobState.CANCELLED:
        return _end(pair, OperationStatus.CANCELLED)
    try:
        report = read_report(_output(job))
    except ValueError as error:
        return _end(pair, OperationStatus.FAILED, problem=f"The job wrote {error}.")
    if job.state not in TERMINAL_STATES or _may_write(job, report):
        return _advance(pair, job, report)
    return _finish(pair, job, report)


def _may_write(job: Job, report: Report) -> bool:
    """Whether the last output of an ended job may still arrive: agents send it separately."""
    is_recent = job.finished_at is not None and job.finished_at > database_now() - OUTPUT_WAIT
    return is_recent and not report.is_complete


def _output(job: Job) -> str:
    part = output_tail(job, OutputStream.STDOUT, limit=MAX_OUTPUT)
    return part.data.decode(errors="replace")


def _advance(pair: MeasuredPair, job: Job, report: Report) -> bool:
    """Store the progress if it has changed."""
    status, message = OperationStatus.PENDING, "waiting for a free server"
    if job.state in {JobState.STARTING, JobState.RUNNING} | TERMINAL_STATES:
        status, message = OperationStatus.RUNNING, "measuring"
        if report.rejected:
            rounds = "round" if report.rejected == 1 else "rounds"
            message += f", {report.rejected} {rounds} repeated because of other programs"
    done, operation = len(report.rounds), pair.operation
    if (status, message, done) != (operation.status, operation.message, operation.progress):
        change = OperationChange(operation.pk, status, message, progress=done)
        with transaction.atomic():
            record_events(mirror_operations([change]))
    return False


def _finish(pair: MeasuredPair, job: Job, report: Report) -> bool:
    """End a pair whose job has ended."""
    if report.failure or job.state != JobState.SUCCEEDED:
        reason = report.failure or job.reason_message or f"exit code {job.exit_code}"
        return _end(pair, OperationStatus.FAILED, problem=f"The measurement ended: {reason}.")
    try:
        result = summary(report.rounds, predicted_estimates(pair), rejected=report.rejected)
    except ValueError as error:
        return _end(
            pair, OperationStatus.FAILED, problem=f"The measurement is incomplete: {error}."
        )
    return _end(pair, OperationStatus.SUCCEEDED, result=result)


def _end(
    pair: MeasuredPair,
    status: OperationStatus,
    *,
    problem: str = "",
    result: dict[str, Any] | None = None,
) -> bool:
    change = OperationChange(
        pair.operation_id,
        status,
        "",
        result=result and {"pair": str(pair.pk)},
        problem={"title": "The pair was not measured", "detail": problem} if problem else None,
    )
    with transaction.atomic():
        events = mirror_operations([change])
        if events and result is not None:
            MeasuredPair.objects.filter(pk=pair.pk).update(result=result)
        record_events(events)
    return bool(events)
