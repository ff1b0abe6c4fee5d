"""Counts of jobs under a query: exact from counters, or bounded where these cannot answer it.

A facet counts the jobs that match all other parts of the query, so its numbers are what a click
on one of its values lists.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final
from uuid import UUID

from django.db.models import Count, QuerySet

from apps.common.infrastructure.database import TookTooLongError
from apps.dashboard.core.job_query import STATES, JobQuery, with_part
from apps.dashboard.core.labels import TARGET_KINDS, reason_text
from apps.dashboard.core.matches import COUNT_LIMIT, Matches
from apps.dashboard.selectors.jobs import matching
from apps.dashboard.selectors.lists import bounded_read
from apps.workloads.core.lifecycle import WAITING_STATES
from apps.workloads.models import Application, Job
from apps.workloads.selectors import CountFilter, JobCounts, count_jobs

APPLICATIONS_SHOWN: Final = 6
REASONS_SHOWN: Final = 5


@dataclass(frozen=True, slots=True)
class FacetChoice:
    """One value of a facet: the number of jobs that have it and the query that lists them."""

    name: str
    count: int
    text: str
    current: bool
    is_exact: bool = True


@dataclass(frozen=True, slots=True)
class Facet:
    """One column to filter by."""

    name: str
    choices: tuple[FacetChoice, ...]


@dataclass(frozen=True, slots=True)
class FacetCounts:
    """Number of jobs by value of one column; at least this many if not exact."""

    by_value: Mapping[str, int]
    is_exact: bool = True


@dataclass(frozen=True, slots=True)
class JobFacets:
    """The jobs that match a query, and the counts beside it.

    Attributes
    ----------
    matches : None if counting took too long
    """

    matches: Matches | None
    facets: tuple[Facet, ...]


def job_facets(
    visible: QuerySet[Job],
    projects: Sequence[UUID] | None,
    text: str,
    query: JobQuery,
    all_jobs: JobCounts,
) -> JobFacets:
    """Return the number of matching jobs and the facets.

    Parameters
    ----------
    projects : those of the visible jobs; None = all
    all_jobs : counts of the visible jobs
    """
    if query.is_counted:
        counts = _exact(projects, query, all_jobs)
        matches: Matches | None = _matches(counts["state"], query)
    else:
        counts, matches = _bounded(visible, query)
    by_state = counts["state"].by_value
    in_order = {state: by_state[state] for state in STATES if by_state.get(state)}
    shown = (
        ("State", "state", replace(counts["state"], by_value=in_order), query.states),
        ("Target", "target", counts["target"], (query.target,)),
        ("Waits for", "reason", _reasons(visible, query), (query.reason,)),
        ("Application", "app", counts["app"], (query.app,)),
    )
    return JobFacets(
        matches=matches,
        facets=tuple(
            Facet(
                title,
                tuple(
                    FacetChoice(
                        _value_name(key, value),
                        count,
                        with_part(text, key, "" if value in current else value),
                        value in current,
                        found.is_exact,
                    )
                    for value, count in found.by_value.items()
                ),
            )
            for title, key, found, current in shown
        ),
    )


def _value_name(key: str, value: str) -> str:
    if key == "target":
        return TARGET_KINDS.get(value, value)
    return reason_text(value) if key == "reason" else value


def _matches(by_state: FacetCounts, query: JobQuery) -> Matches:
    """Return the number of matching jobs; ``by_state`` ignores the states of the query."""
    counts = by_state.by_value
    return Matches(sum(counts.get(state, 0) for state in query.states or counts))


def _where(query: JobQuery) -> CountFilter:
    return CountFilter(query.states, query.target, query.app, query.project)


def _exact(
    projects: Sequence[UUID] | None, query: JobQuery, all_jobs: JobCounts
) -> dict[str, FacetCounts]:
    """Return the counts of three facets, from the counters of jobs."""
    where = _where(query)
    by_state, by_target = replace(where, states=()), replace(where, target_kind="")
    by_app = replace(where, application="")
    kinds = sorted(all_jobs.by_target.items(), key=lambda pair: (-pair[1], pair[0]))
    return {
        "state": FacetCounts(
            count_jobs(projects, by_state, by="state")
            if by_state != CountFilter()
            else all_jobs.by_state
        ),
        "target": FacetCounts(
            count_jobs(projects, by_target, by="target_kind")
            if by_target != CountFilter()
            else dict(kinds)
        ),
        "app": FacetCounts(
            count_jobs(projects, by_app, by="application", limit=APPLICATIONS_SHOWN)
        ),
    }


def _bounded(
    visible: QuerySet[Job], query: JobQuery
) -> tuple[dict[str, FacetCounts], Matches | None]:
    """Return the counts of three facets over the newest matching jobs, and the number of matches.

    Both up to the limit.
    """
    free = {
        "state": replace(query, states=()),
        "target": replace(query, target=""),
        "app": replace(query, app=""),
    }
    found = _samples(visible, (query, *free.values()))
    rows = {key: found.get(asked, []) for key, asked in free.items()}
    is_exact = {key: len(sample) <= COUNT_LIMIT for key, sample in rows.items()}
    counted = {
        key: Counter(row[place] for row in rows[key][:COUNT_LIMIT])
        for place, key in enumerate(("state", "target", "app"))
    }
    top = counted["app"].most_common(APPLICATIONS_SHOWN)
    names = dict(
        Application.objects.filter(id__in=[pk for pk, _ in top]).values_list("id", "name")
    )
    facets = {
        "state": FacetCounts(counted["state"], is_exact["state"]),
        "target": FacetCounts(dict(counted["target"].most_common()), is_exact["target"]),
        "app": FacetCounts({names[pk]: n for pk, n in top if pk in names}, is_exact["app"]),
    }
    if query not in found:
        return facets, None
    count = len(found[query])
    return facets, Matches(min(count, COUNT_LIMIT), is_exact=count <= COUNT_LIMIT)


def _samples(
    visible: QuerySet[Job], queries: Iterable[JobQuery]
) -> dict[JobQuery, list[tuple[Any, ...]]]:
    """Return (state, target kind, application id) of the newest jobs that match each query.

    One row more than the limit says that more match. After a query that took too long the others
    are not tried, so a page waits once.
    """
    found: dict[JobQuery, list[tuple[Any, ...]]] = {}
    with suppress(TookTooLongError):
        for query in dict.fromkeys(queries):
            rows = matching(visible, query).select_related(None).order_by("-created_at", "-id")
            columns = rows.values_list("state", "target_kind", "application_id")
            with bounded_read():
                found[query] = list(columns[: COUNT_LIMIT + 1])
    return found


def _reasons(visible: QuerySet[Job], query: JobQuery) -> FacetCounts:
    """Return the matching jobs that wait, by reason: as many rows as jobs wait."""
    waiting = matching(visible, replace(query, reason="")).filter(state__in=WAITING_STATES)
    rows = waiting.exclude(reason_code="").order_by().values_list("reason_code")
    counted = rows.annotate(n=Count("id")).order_by("-n", "reason_code")
    return FacetCounts(dict(counted[:REASONS_SHOWN]))
