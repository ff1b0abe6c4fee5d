"""Requests to measure the quality of sampling; without the engine, which only workers import."""

from typing import Final
from uuid import UUID

from django.db import transaction

from apps.common.core.errors import ConflictError
from apps.common.infrastructure.database import fetch_rows
from apps.common.infrastructure.notifications import notify
from apps.operations.models import Operation
from apps.operations.services import begin_operation
from apps.testbed.core.sampling_sizes import DECISIONS
from apps.testbed.selectors.sampling_checks import KIND, SAMPLE_SIZES, open_sampling_check

TASK: Final = "testbed.sampling"
QUEUE: Final = "placement"
_LOCK: Final = 0x73616D706C65  # "sample"


def begin_sampling_check(*, by: UUID | None) -> Operation:
    """Request a measurement at all sample sizes; a worker starts immediately.

    Raises
    ------
    ConflictError : a measurement is open; the message names it.
    """
    with transaction.atomic():
        # one at a time: concurrent requests wait for each other
        fetch_rows("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
        if (other := open_sampling_check()) is not None:
            raise ConflictError(f"Operation {other.pk} is already measuring the sampling.")
        total = len(SAMPLE_SIZES) * DECISIONS
        operation = begin_operation(kind=KIND, created_by=by, total=total)
        notify(TASK, queue=QUEUE)
    return operation
