"""Reads of the sizing allowances."""

import time
from collections.abc import Sequence
from typing import Final

from apps.scheduling.core.sizing.allowances import KINDS, Allowances
from apps.scheduling.models import SizingAllowance

FRESH_S: Final = 15.0  # wall seconds; allowances change slowly
HISTORY: Final = 200  # rows of a kind that are kept


def allowance_rows() -> dict[str, SizingAllowance]:
    """Return the allowances in force by kind of target, of kinds that jobs have changed."""
    rows = SizingAllowance.objects.filter(kind__in=KINDS).order_by("kind", "-id")
    return {row.kind: row for row in rows.distinct("kind")}


def current_allowances() -> Allowances:
    """Return the allowances in force."""
    return Allowances(**{kind: row.value for kind, row in allowance_rows().items()})


def allowance_history() -> Sequence[SizingAllowance]:
    """Return the allowances of all kinds, newest first."""
    return list(SizingAllowance.objects.order_by("-id"))


class RecentAllowances:
    """The allowances in force, read again after `FRESH_S`."""

    def __init__(self) -> None:
        self._read_at = -FRESH_S
        self._allowances = Allowances()

    def __call__(self) -> Allowances:
        """Return the allowances."""
        now = time.monotonic()
        if now - self._read_at >= FRESH_S:
            self._allowances, self._read_at = current_allowances(), now
        return self._allowances
