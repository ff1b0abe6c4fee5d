"""When the matrices are learnt anew, and the long operation that does it."""

import logging
from datetime import timedelta
from typing import Final
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from apps.classification import selectors
from apps.classification.core.known import TELEMETRY
from apps.classification.core.matrix import MatrixName
from apps.classification.models import MatrixRevision, Revision, RevisionReason
from apps.classification.services.folding import classify_again
from apps.classification.services.revisions import (
    STEPS,
    StaleRevisionError,
    complete_revision,
    retrain,
)
from apps.common.core.errors import ConflictError
from apps.common.poke import poke
from apps.operations.core.states import TERMINAL, OperationStatus
from apps.operations.models import Operation
from apps.operations.services import (
    LostError,
    advance_operation,
    begin_operation,
    claim_operation,
    finish_owned,
)
from apps.profiling.models import Measurement

KIND: Final = "classification.reclassify"
TASK: Final = "classification.reclassify"
QUEUE: Final = "default"
_TRIES: Final = 3  # a library may be loaded while we learn


_logger = logging.getLogger(__name__)


class _StoppedError(Exception):
    """Somebody cancelled the operation."""


def begin_reclassification(*, reason: RevisionReason, by: UUID | None) -> Operation:
    """Ask for a new revision; a worker starts on it at once.

    Raises
    ------
    ConflictError : names the operation that is open already.
    NoLibraryError : there is nothing to start from.
    """
    selectors.current_library()
    with transaction.atomic():
        # one at a time: the revision's row stands for the right to replace it
        list(Revision.objects.select_for_update().filter(is_current=True))
        if (other := open_reclassification()) is not None:
            raise ConflictError(f"Operation {other.pk} is classifying anew already.")
        operation = begin_operation(
            kind=KIND, created_by=by, total=STEPS, arguments={"reason": str(reason)}
        )
        poke(TASK, queue=QUEUE)
    return operation


def open_reclassification() -> Operation | None:
    """Find the operation that is making, or about to make, the next revision."""
    rows = Operation.objects.filter(kind=KIND).exclude(status__in=TERMINAL)
    return rows.order_by("created_at").first()


def reclassify_if_due() -> int | None:
    """Do what is wanted: an operation that waits, or one that it is time for.

    Also completes a revision that came into force as it was measured. Returns the number of a new
    one.
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
    if revision is None:
        return None
    new = Measurement.objects.filter(id__gt=revision.last_measurement)
    applications = new.values("application_id").distinct().count()
    # telemetry tells more of rows that are there; new ones come from profiling
    profiled = new.exclude(source=TELEMETRY).values("application_id").distinct().count()
    if profiled >= settings.BERTH_RECLASSIFY_ROWS:
        return RevisionReason.ROWS
    age = timezone.now() - revision.created_at
    if applications and age >= timedelta(seconds=settings.BERTH_RECLASSIFY_SECONDS):
        return RevisionReason.SCHEDULE
    return None


def _work(operation_id: UUID) -> int | None:
    operation = claim_operation(operation_id)
    if operation is None:
        return None
    try:
        return _work_on(operation)
    except LostError as error:
        _logger.warning("%s", error)
        return None


def _work_on(operation: Operation) -> int | None:
    try:
        number = _retrained(operation)
    except _StoppedError:
        finish_owned(operation, status=OperationStatus.CANCELLED)
        return None
    except (selectors.NoLibraryError, StaleRevisionError) as error:
        problem = {"title": "Not classified anew", "detail": str(error)}
        finish_owned(operation, status=OperationStatus.FAILED, problem=problem)
        return None
    result = {"revision": number, "profiles": classify_again()}
    finish_owned(operation, status=OperationStatus.SUCCEEDED, result=result)
    return number


def _retrained(operation: Operation) -> int:
    reason = RevisionReason(operation.arguments["reason"])
    for attempt in range(_TRIES):
        done = 0

        def step(message: str) -> None:
            nonlocal done
            if not advance_operation(operation, progress=done, message=message):
                raise _StoppedError
            done += 1

        try:
            return retrain(reason=reason, step=step, operation=operation)
        except StaleRevisionError:
            if attempt == _TRIES - 1:
                raise
    raise AssertionError("the loop returns or raises")


def _complete() -> None:
    """Complete a revision that came into force as it was measured: a library just stored."""
    rows = MatrixRevision.objects.filter(revision__is_current=True, evaluation={})
    for number, matrix in rows.order_by("id").values_list("revision_id", "matrix"):
        complete_revision(number, MatrixName(matrix))
