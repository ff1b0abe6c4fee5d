"""Shadows, and the decisions that they have compared."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple
from uuid import UUID

import numpy as np
from django.db.models import Q, QuerySet

from apps.common.core.errors import NotFoundError
from apps.scheduling.core.records.shadow_summary import Compared, Summary, summary
from apps.scheduling.models import Decision, Shadow, ShadowDecision

MAX_COMPARED: Final = 10_000  # decisions of one shadow; then it ends
GROUPS: Final = ("kind", "policy", "platform")  # columns that a summary is broken down by
# seconds: a decision has the time before its commit, so later ones may still become visible
SETTLED: Final = timedelta(seconds=3)


def shadows() -> QuerySet[Shadow]:
    """Return all shadows."""
    return Shadow.objects.select_related("started_by")


def running_shadows() -> Sequence[Shadow]:
    """Return the shadows that run, the oldest first."""
    return list(shadows().filter(ended_at=None).order_by("started_at", "id"))


def shadow_by_id(key: UUID) -> Shadow:
    """Return a shadow.

    Raises
    ------
    NotFoundError : there is none with this id.
    """
    found = shadows().filter(pk=key).first()
    if found is None:
        raise NotFoundError(f"There is no shadow {key}.")
    return found


def decisions_after(shadow: Shadow, until: datetime, *, limit: int) -> list[Decision]:
    """Return decisions by policies after the cursor of a shadow, the oldest first.

    Decisions by sizing, before any server is examined, are none of a policy.
    """
    rows = Decision.objects.filter(batch_id__isnull=False)
    rows = rows.filter(at__gte=shadow.cursor_at, at__lte=until)
    rows = rows.filter(Q(at__gt=shadow.cursor_at) | Q(id__gt=shadow.cursor_id))
    columns = ("id", "at", "batch_id", "position", "seed", "policy", "outcome")
    of_jobs = ("job__sample_size", "job__guarantee")
    rows = rows.select_related("job").only(*columns, *of_jobs)
    return list(rows.order_by("at", "id")[:limit])


_REGRETS: Final = ("job_regret", "neighbour_regret")
_FLAGS: Final = ("live_placed", "shadow_placed", "same_units", "same_servers", "same_platforms")
_WIDTH: Final = len(_REGRETS) + len(_FLAGS) + len(GROUPS) + 1


def compared(shadow: Shadow) -> tuple[Compared, Mapping[str, Any]]:
    """Return the compared decisions by column, and their (n,) values of `GROUPS`.

    Costs a read of at most `MAX_COMPARED` rows.
    """
    rows = list(
        shadow_decisions(shadow)
        .order_by("id")
        .values_list(*_REGRETS, *_FLAGS, *GROUPS, "batch_id")
    )
    *columns, batches = zip(*rows, strict=True) if rows else [()] * _WIDTH
    named = dict(zip((*_REGRETS, *_FLAGS, *GROUPS), columns, strict=True))
    flags = {name: np.array(named[name], dtype=np.bool_) for name in _FLAGS}
    job, neighbours = (np.array(named[name], dtype=np.float64) for name in _REGRETS)
    numbers = {key: number for number, key in enumerate(dict.fromkeys(batches))}
    batch = np.array([numbers[key] for key in batches], dtype=np.int64)
    found = Compared(batch=batch, job=job, neighbours=neighbours, **flags)
    return found, {name: np.array(named[name], dtype=object) for name in GROUPS}


def shadow_decisions(shadow: Shadow) -> QuerySet[ShadowDecision]:
    """Return the compared decisions of a shadow."""
    return ShadowDecision.objects.filter(shadow=shadow)


class ShadowResult(NamedTuple):
    """Agreement and regret of a shadow: of all compared decisions, and by the values of `GROUPS`.

    The groups of one kind are ordered by their number of decisions, the largest first.
    """

    total: Summary
    groups: Mapping[str, Sequence[tuple[str, Summary]]]


def shadow_result(shadow: Shadow) -> ShadowResult:
    """Return what a shadow has found so far. Costs a read of at most `MAX_COMPARED` rows."""
    found, groups = compared(shadow)
    parts = {
        name: [(str(value), summary(found.where(column == value))) for value in sorted({*column})]
        for name, column in groups.items()
    }
    return ShadowResult(
        summary(found),
        {name: sorted(part, key=lambda row: -row[1].decisions) for name, part in parts.items()},
    )
