"""Data of the decision log."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from uuid import UUID

from django.db.models import QuerySet
from django.http import Http404

from apps.common.api.paging import Order
from apps.dashboard.selectors.lists import ListPage, list_page
from apps.dashboard.selectors.moments import recorded_after
from apps.scheduling.models import Decision
from apps.workloads.models import Job

ORDER = Order(columns=("at", "id"), descending=True)
PAGE_ROWS = 50


def decisions_page(
    visible: QuerySet[Job],
    *,
    cursor: str | None,
    outcome: str = "",
    at_s: float | None = None,
    limit: int = PAGE_ROWS,
) -> ListPage[Decision]:
    """Return one page of the log, newest first, without candidates.

    Parameters
    ----------
    at_s : only decisions made until this cluster time; None = until now
    """
    rows = _made_until(at_s).select_related("job").defer("candidates", "dropped")
    if visible.query.where:  # operators see all jobs: skip the join
        rows = rows.filter(job__in=visible.values("id"))
    if outcome:
        rows = rows.filter(outcome=outcome)
    return list_page(rows, ORDER, limit=limit, cursor=cursor)


def _made_until(at_s: float | None) -> QuerySet[Decision]:
    """Return the decisions made until a cluster time; None = all.

    Decisions are immutable: the log then is the log now without those made since. The wall time
    of a frame bounds the part of the index that is read.
    """
    rows = Decision.objects.all()
    if at_s is None:
        return rows
    until = recorded_after(at_s)
    made = rows.filter(cluster_s__lte=at_s)
    return made if until is None else made.filter(at__lte=until)


def decision_by_id(visible: QuerySet[Job], decision_id: str | UUID) -> Decision:
    """Return one decision with its job.

    Raises
    ------
    Http404 : there is no such decision.
    """
    decision = None
    with suppress(ValueError):
        rows = Decision.objects.select_related("job", "job__application")
        decision = rows.filter(id=UUID(str(decision_id)), job__in=visible.values("id")).first()
    if decision is None:
        raise Http404(f"there is no decision {decision_id}")
    return decision


def decisions_of(job: Job, *, limit: int = 50) -> Sequence[Decision]:
    """Return a job's decisions, newest first."""
    return list(job.decisions.order_by("-at", "-id")[:limit])


@dataclass(frozen=True, slots=True)
class LogSummary:
    """Counts over the latest decisions."""

    latest: int
    placed: int
    conflicts: int


def log_summary(*, at_s: float | None = None) -> LogSummary:
    """Return the outcomes of the last thousand decisions, until now or a cluster time."""
    latest = _made_until(at_s).order_by("-at", "-id")
    outcomes = list(latest.values_list("outcome", "commit_retries")[:1000])
    return LogSummary(
        latest=len(outcomes),
        placed=sum(1 for outcome, _ in outcomes if outcome == "placed"),
        conflicts=sum(retries for _, retries in outcomes),
    )
