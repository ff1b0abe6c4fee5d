"""Retraining of the matrices: when it is due, and the operation that runs it."""

import logging
from datetime import timedelta
from typing import Final
from uuid import UUID

from django.conf import settings
from django.db import transaction

from apps.accounts.services import Act, record_act
from apps.classification import selectors
from apps.classification.core.known_cells import TELEMETRY
from apps.classification.core.matrix import MatrixName
from apps.classification.models import MatrixRevision, Revision, RevisionReason
from apps.classification.services.profiles import request_all_folds
from apps.classification.services.revisions import (
    STEPS,
    StaleRevisionError,
    complete_revision,
    retrain,
)
from apps.common.core.errors import ConflictError
from apps.common.infrastructure.database import database_now
from apps.common.infrastructure.notifications import notify
from apps.operations.core.states import TERMINAL, OperationStatus
from apps.operations.models import Operation
from apps.operations.services import (
    OperationLostError,
    advance_operation,
    begin_operation,
    claim_operation,
    finish_owned,
    why_given_up,
)
from apps.profiling.models import Measurement

KIND: Final = "classification.reclassify"
TASK: Final = "classification.reclassify"
QUEUE: Final = "default"
_TRIES: Final = 3  # a library may be loaded during training
PAUSE_S: Final = 300  # wall seconds without another one after a retraining that failed


_logger = logging.getLogger(__name__)


class _StoppedError(Exception):
    """The operation was cancelled."""


def begin_reclassification(*, reason: RevisionReason, by: UUID | None) -> Operation:
    """Request a new revision; a worker starts immediately.

    Raises
    ------
    ConflictError : another retraining is open; the message names it.
    NoLibraryError : there is no revision yet.
    """
    selectors.current_library()
    with transaction.atomic():
        # one at a time: lock the current revision
        list(Revision.objects.select_for_update().filter(is_current=True))
        if (other := open_reclassification()) is not None:
            raise ConflictError(f"Operation {other.pk} is already retraining the matrices.")
        operation = begin_operation(
            kind=KIND, created_by=by, total=STEPS, arguments={"reason": str(reason)}
        )
        if by is not None:
            record_act(Act("revision.requested", str(operation.pk)), by=by)
        notify(TASK, queue=QUEUE)
    return operation


def open_reclassification() -> Operation | None:
    """Return the open retraining operation, if any."""
    rows = Operation.objects.filter(kind=KIND).exclude(status__in=TERMINAL)
    return rows.order_by("created_at").first()


def reclassify_if_due() -> int | None:
    """Run the open retraining operation, or begin one if due; return the new revision's number.

    Otherwise evaluates a library that was stored without evaluation.
    """
    operation = open_reclassification()
    if operation is None and (reason := _due()) is not None:
        operation = begin_reclassification(reason=reason, by=None)
    if operation is not None:
        return _work(operation.pk)
    _complete()
    return None


def _due() -> RevisionReason | None:
    revision = Revision.objects.filter(is_current=True).first()
    if revision is None or _failed_lately():
        return None
    new = Measurement.objects.filter(id__gt=revision.last_measurement)
    applications = new.values("application_id").distinct().count()
    # telemetry refines existing rows; only profiling adds rows
    profiled = new.exclude(source=TELEMETRY).values("application_id").distinct().count()
    if profiled >= settings.BERTH_RECLASSIFY_ROWS:
        return RevisionReason.ROWS
    age = database_now() - revision.created_at
    if applications and age >= timedelta(seconds=settings.BERTH_RECLASSIFY_SECONDS):
        return RevisionReason.SCHEDULE
    return None


def _failed_lately() -> bool:
    since = database_now() - timedelta(seconds=PAUSE_S)
    failed = Operation.objects.filter(kind=KIND, status=OperationStatus.FAILED)
    return failed.filter(finished_at__gt=since).exists()


def _work(operation_id: UUID) -> int | None:
    operation = claim_operation(operation_id)
    if operation is None:
        return None
    try:
        if why := why_given_up(operation):
            _fail(operation, why)
        else:
            return _work_on(operation)
    except OperationLostError as error:
        _logger.warning("%s", error)
    except Exception:
        _logger.exception("operation %s failed to retrain the matrices", operation_id)
        _fail(operation, "Retraining failed with an internal error; see the log.")
    return None


def _work_on(operation: Operation) -> int | None:
    try:
        number = _retrained(operation)
    except _StoppedError:
        finish_owned(operation, status=OperationStatus.CANCELLED)
        return None
    except (selectors.NoLibraryError, StaleRevisionError) as error:
        _fail(operation, str(error))
        return None
    result = {"revision": number, "profiles": request_all_folds()}
    finish_owned(operation, status=OperationStatus.SUCCEEDED, result=result)
    return number


def _fail(operation: Operation, detail: str) -> None:
    problem = {"title": "Retraining failed", "detail": detail}
    finish_owned(operation, status=OperationStatus.FAILED, problem=problem)


def _retrained(operation: Operation) -> int:
    reason = RevisionReason(operation.arguments["reason"])
    for attempt in range(_TRIES):
        done = 0

        def report(message: str) -> None:
            nonlocal done
            if not advance_operation(operation, progress=done, message=message):
                raise _StoppedError
            done += 1

        try:
            return retrain(reason=reason, report=report, operation=operation)
        except StaleRevisionError:
            if attempt == _TRIES - 1:
                raise
    raise AssertionError("the loop returns or raises")


def _complete() -> None:
    """Infer and evaluate the current revision if it is a library that was just stored."""
    rows = MatrixRevision.objects.filter(revision__is_current=True, evaluation={})
    for number, matrix in rows.order_by("id").values_list("revision_id", "matrix"):
        complete_revision(number, MatrixName(matrix))
