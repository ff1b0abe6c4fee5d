"""The log of decisions."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from uuid import UUID

from django.db.models import QuerySet
from django.http import Http404

from apps.common.paging import Order, Page, keyset_page
from apps.scheduling.models import Decision
from apps.workloads.models import Job

ORDER = Order(columns=("at", "id"), descending=True)
PAGE_ROWS = 50


def decisions_page(
    seen: QuerySet[Job], *, cursor: str | None, outcome: str = "", limit: int = PAGE_ROWS
) -> Page[Decision]:
    """One page of the log, newest first, without the candidates."""
    rows = Decision.objects.select_related("job").defer("candidates", "dropped")
    if seen.query.where:  # operators see all; no need to look each job up
        rows = rows.filter(job__in=seen.values("id"))
    if outcome:
        rows = rows.filter(outcome=outcome)
    return keyset_page(rows, ORDER, limit=limit, cursor=cursor or None)


def decision(seen: QuerySet[Job], decision_id: str | UUID) -> Decision:
    """One decision with its job.

    Raises
    ------
    Http404 : there is no such decision.
    """
    found = None
    with suppress(ValueError):
        rows = Decision.objects.select_related("job", "job__application")
        found = rows.filter(id=UUID(str(decision_id)), job__in=seen.values("id")).first()
    if found is None:
        raise Http404(f"there is no decision {decision_id}")
    return found


def decisions_of(job: Job, *, most: int = 50) -> Sequence[Decision]:
    """Return a job's decisions, newest first."""
    return list(job.decisions.order_by("-at", "-id")[:most])


@dataclass(frozen=True, slots=True)
class LogSummary:
    """The latest decisions in one sentence."""

    latest: int
    placed: int
    conflicts: int


def log_summary() -> LogSummary:
    """Outcomes of the last thousand decisions."""
    outcomes = list(
        Decision.objects.order_by("-at", "-id").values_list("outcome", "commit_retries")[:1000]
    )
    return LogSummary(
        latest=len(outcomes),
        placed=sum(1 for outcome, _ in outcomes if outcome == "placed"),
        conflicts=sum(retries for _, retries in outcomes),
    )
