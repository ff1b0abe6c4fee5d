"""Reads of the measurements of sampling quality and of the operation that makes them."""

from typing import Final

from apps.operations.core.states import TERMINAL
from apps.operations.models import Operation

KIND: Final = "sampling.check"
SAMPLE_SIZES: Final = (8, 16, 32)


def open_sampling_check() -> Operation | None:
    """Return the open operation, if any."""
    rows = Operation.objects.filter(kind=KIND).exclude(status__in=TERMINAL)
    return rows.order_by("-created_at").first()


def last_sampling_check() -> Operation | None:
    """Return the operation that was requested last, if any."""
    return Operation.objects.filter(kind=KIND).order_by("-created_at", "-id").first()
