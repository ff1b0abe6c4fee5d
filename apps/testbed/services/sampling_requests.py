"""Requests to measure the quality of sampling; without the engine, which only workers import."""

from typing import Final
from uuid import UUID

from django.db import transaction

from apps.common.core.errors import ConflictError
from apps.common.infrastructure.advisory_locks import AdvisoryLock, acquire
from apps.common.infrastructure.notifications import notify
from apps.operations.models import Operation
from apps.operations.services import begin_operation
from apps.testbed.core.sampling_sizes import DECISIONS
from apps.testbed.selectors.sampling_checks import KIND, SAMPLE_SIZES, open_sampling_check

TASK: Final = "testbed.sampling"
QUEUE: Final = "placement"


def begin_sampling_check(*, by: UUID | None) -> Operation:
    """Request a measurement at all sample sizes; a worker starts immediately.

    Raises
    ------
    ConflictError : a measurement is open; the message names it.
    """
    with transaction.atomic():
        # one at a time: concurrent requests wait for each other
        acquire(AdvisoryLock.SAMPLING_CHECKS)
        if (other := open_sampling_check()) is not None:
            raise ConflictError(f"Operation {other.pk} is already measuring the sampling.")
        total = len(SAMPLE_SIZES) * DECISIONS
        operation = begin_operation(kind=KIND, created_by=by, total=total)
        notify(TASK, queue=QUEUE)
    return operation
