"""Data of the decision log."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from django.db.models import Q, QuerySet
from django.http import Http404

from apps.common.api.paging import Order
from apps.dashboard.core.decision_query import DecisionQuery
from apps.dashboard.selectors.jobs import search
from apps.dashboard.selectors.lists import ListPage, list_page
from apps.inventory.models import Server
from apps.inventory.selectors import recorded_after, recorded_before
from apps.scheduling.models import Decision, Outcome
from apps.scheduling.selectors.decisions import (
    decisions_about,
    decisions_at,
    decisions_retried,
)
from apps.workloads.models import Job

ORDER = Order(columns=("at", "id"), descending=True)
PAGE_ROWS = 50
UNPLACED = 10  # shown before the log
NAMED = 200  # jobs of a search, the newest
SUMMARISED = 1000  # decisions, the newest
ANY = DecisionQuery()


class Span(NamedTuple):
    """Cluster times between which decisions were made; None = any, or until now."""

    from_s: float | None = None
    until_s: float | None = None


EVER = Span()


def decisions_page(
    visible: QuerySet[Job],
    *,
    cursor: str | None,
    outcome: str = "",
    query: DecisionQuery = ANY,
    span: Span = EVER,
    limit: int = PAGE_ROWS,
) -> ListPage[Decision]:
    """Return one page of the log, newest first, without candidates."""
    rows = _matching(visible, query, span)
    if outcome:
        rows = rows.filter(outcome=outcome)
    return list_page(rows, ORDER, limit=limit, cursor=cursor)


def unplaced(
    visible: QuerySet[Job],
    *,
    query: DecisionQuery = ANY,
    span: Span = EVER,
) -> Sequence[Decision]:
    """Return the newest refusals and lost commits, both together."""
    rows = _matching(visible, query, span)
    found: list[Decision] = []
    for outcome in (Outcome.CONFLICT, Outcome.REFUSED):  # a read of an index for each
        found += rows.filter(outcome=outcome).order_by("-at", "-id")[:UNPLACED]
    return sorted(found, key=lambda row: (row.at, row.pk), reverse=True)[:UNPLACED]


def _matching(visible: QuerySet[Job], query: DecisionQuery, span: Span) -> QuerySet[Decision]:
    from_s = span.from_s
    rows = _made_until(span.until_s).select_related("job").defer("candidates", "dropped")
    if from_s is not None:
        since = recorded_before(from_s)
        rows = rows.filter(cluster_s__gte=from_s, **({} if since is None else {"at__gte": since}))
    if visible.query.where:  # operators see all jobs: skip the join
        rows = rows.filter(job__in=visible.values("id"))
    exact = {"policy": query.policy, "agent": query.agent, "reason_code": query.reason}
    rows = rows.filter(**{name: value for name, value in exact.items() if value})
    if query.app:
        rows = rows.filter(decisions_about(query.app))
    if query.server:
        rows = rows.filter(decisions_at(_ids_of(query.server)))
    if query.retries:
        rows = rows.filter(decisions_retried(query.retries))
    return rows.filter(_named(visible, query.words)) if query.words else rows


def _ids_of(server: str) -> Sequence[int]:
    return list(Server.objects.filter(name=server).values_list("id", flat=True))


def _named(visible: QuerySet[Job], text: str) -> Q:
    """Return the condition of decisions with this id, or about the newest jobs with this name."""
    jobs = Q(job_id__in=[job.pk for job in search(visible, text, limit=NAMED)])
    with suppress(ValueError):
        return jobs | Q(id=UUID(text))
    return jobs


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
    """Counts over the latest decisions about visible jobs."""

    latest: int
    placed: int
    conflicts: int


def log_summary(visible: QuerySet[Job], *, at_s: float | None = None) -> LogSummary:
    """Return the visible outcomes among the last thousand decisions, until now or a time."""
    rows = _made_until(at_s).order_by("-at", "-id")[:SUMMARISED]
    if visible.query.where:  # the thousand of all projects bound what is read
        rows = Decision.objects.filter(pk__in=rows.values("pk"), job__in=visible.values("id"))
    outcomes = list(rows.values_list("outcome", "commit_retries"))
    return LogSummary(
        latest=len(outcomes),
        placed=sum(1 for outcome, _ in outcomes if outcome == "placed"),
        conflicts=sum(retries for _, retries in outcomes),
    )
