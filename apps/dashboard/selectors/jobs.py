"""What the Jobs list and a job's page show."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import numpy as np
from django.core.cache import cache
from django.db.models import Count, Q, QuerySet
from django.http import Http404

from apps.common.paging import Order, Page, keyset_page
from apps.dashboard.core.job_query import STATES, JobQuery, with_part
from apps.dashboard.core.words import TARGET_KINDS, reason_text
from apps.dashboard.figures.performance import Moment, Performance
from apps.execution.models import JobSample, Launch
from apps.operations.models import Event
from apps.scheduling.models import Allocation
from apps.workloads.core.lifecycle import WAITING_STATES, JobState
from apps.workloads.models import Job

ORDER = Order(columns=("created_at", "id"), descending=True)
PAGE_ROWS = 50
FACETS_KEPT_S = 3
EVENTS_SHOWN = 200
SAMPLES_SHOWN = 2_000


def jobs_page(
    seen: QuerySet[Job], query: JobQuery, *, cursor: str | None, limit: int = PAGE_ROWS
) -> Page[Job]:
    """Return one page of the jobs that match among those the caller may see, newest first."""
    rows = matching(seen, query).select_related("application", "project", "created_by")
    return keyset_page(rows, ORDER, limit=limit, cursor=cursor or None)


def matching(seen: QuerySet[Job], query: JobQuery) -> QuerySet[Job]:
    """Return the jobs that match a query among those the caller may see."""
    exact = {
        "state__in": query.states,
        "application__name": query.app,
        "target_kind": query.target,
        "reason_code": query.reason,
        "project__name": query.project,
    }
    jobs = seen.filter(**{column: value for column, value in exact.items() if value})
    if query.priority is not None:
        jobs = jobs.filter(priority=query.priority)
    for flag in query.flags:
        jobs = jobs.filter(FLAGS[flag])
    for name, value in query.labels:
        jobs = jobs.filter(labels__contains={name: value})
    for word in query.words:
        jobs = jobs.filter(name__icontains=word)
    return jobs


FLAGS = {"held": Q(held=True), "below": Q(attainment__lt=1.0), "met": Q(attainment__gte=1.0)}


@dataclass(frozen=True, slots=True)
class Choice:
    """One value of a facet: how many jobs have it and the query that lists them."""

    name: str
    count: int
    text: str
    current: bool


@dataclass(frozen=True, slots=True)
class Facet:
    """One column to filter by."""

    name: str
    choices: tuple[Choice, ...]


def facets(seen: QuerySet[Job], text: str, query: JobQuery, *, viewer: str) -> tuple[Facet, ...]:
    """Return counts over all jobs.

    Each choice is a link that sets or clears it in the query text.
    """
    counts = _facet_counts(seen, viewer)
    return (
        Facet(
            "State",
            tuple(
                _choice(text, "state", state, state, counts["state"][state], state in query.states)
                for state in STATES
                if counts["state"].get(state)
            ),
        ),
        Facet(
            "Target",
            tuple(
                _choice(
                    text, "target", kind, TARGET_KINDS.get(kind, kind), n, kind == query.target
                )
                for kind, n in counts["target"].items()
            ),
        ),
        Facet(
            "Waits for",
            tuple(
                _choice(text, "reason", code, reason_text(code), n, code == query.reason)
                for code, n in counts["reason"].items()
            ),
        ),
        Facet(
            "Application",
            tuple(
                _choice(text, "app", name, name, n, name == query.app)
                for name, n in counts["app"].items()
            ),
        ),
    )


def _choice(text: str, key: str, value: str, name: str, count: int, current: bool) -> Choice:
    return Choice(name, count, with_part(text, key, "" if current else value), current)


def _facet_counts(seen: QuerySet[Job], viewer: str) -> dict[str, dict[str, int]]:
    key = f"dashboard.facets.{viewer}"
    counts: dict[str, dict[str, int]] | None = cache.get(key)
    if counts is None:
        waiting = seen.filter(state__in=WAITING_STATES).exclude(reason_code="")
        counts = {
            "state": _counted(seen, "state"),
            "target": _counted(seen, "target_kind"),
            "reason": _counted(waiting, "reason_code", most=5),
            "app": _counted(seen, "application__name", most=6),
        }
        cache.set(key, counts, FACETS_KEPT_S)
    return counts


def _counted(jobs: QuerySet[Job], column: str, *, most: int = 10) -> dict[str, int]:
    rows = jobs.order_by().values_list(column).annotate(n=Count("id")).order_by("-n", column)
    return dict(rows[:most])


def job(seen: QuerySet[Job], job_id: str | UUID) -> Job:
    """Return one job among those the caller may see, with what its page names beside it.

    Raises
    ------
    Http404 : there is no such job.
    """
    found = None
    with suppress(ValueError):
        rows = seen.select_related("application", "project", "created_by")
        found = rows.filter(id=UUID(str(job_id))).first()
    if found is None:
        raise Http404(f"there is no job {job_id}")
    return found


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage of a job's way."""

    name: str
    icon: str
    mark: str  # "", "now" or "todo"
    took_s: float | None
    at_s: float | None


ENDED_ICONS = {"succeeded": "st-done", "failed": "st-failed", "cancelled": "st-cancelled"}


def way(found: Job, *, now_s: float) -> tuple[Stage, ...]:
    """Return the stages of a job's way with the time each took, up to running or how it ended."""
    end_s = found.finished_s
    queued_s = found.submitted_s if found.profiled_s is None else found.profiled_s
    is_profiling = found.state == JobState.PROFILING
    stages = [Stage("Submitted", "st-done", "", None, found.submitted_s)]
    if found.profiled_s is not None or is_profiling:
        span = (found.submitted_s, found.profiled_s)
        stages.append(_stage("Profiled", span, end_s=end_s, now_s=now_s, icon="st-profiling"))
    reached = None if is_profiling or found.state == JobState.SUBMITTED else queued_s
    for name, start, end, icon in (
        ("Queued", reached, found.placed_s, "st-queued"),
        ("Started", found.placed_s, found.started_s, "st-starting"),
        ("Running", found.started_s, end_s, "st-running"),
    ):
        stages.append(_stage(name, (start, end), end_s=end_s, now_s=now_s, icon=icon))
    if end_s is not None:
        stages = [stage for stage in stages if stage.mark != "todo"]
        last = str(found.state)
        stages.append(Stage(last.capitalize(), ENDED_ICONS[last], "", None, end_s))
    return tuple(stages)


def _stage(
    name: str,
    span: tuple[float | None, float | None],
    *,
    end_s: float | None,
    now_s: float,
    icon: str,
) -> Stage:
    """Return one stage from when it began and when the next did; a job's end cuts it short."""
    start, end = span
    if start is None:
        return Stage(name, "st-submitted", "todo", None, None)
    until = end if end is not None else end_s
    if until is None:
        return Stage(name, icon, "now", max(0.0, now_s - start), start)
    return Stage(name, "st-done", "", max(0.0, until - start), start)


def allocations(found: Job) -> Sequence[Allocation]:
    """Every allocation of a job, the live ones first, newest first."""
    rows = found.allocations.order_by("-acquired_seq").select_related("decision")[:100]
    return sorted(rows, key=lambda row: row.released_seq is not None)


def events(found: Job) -> Sequence[Event]:
    """Return the job's events, newest first."""
    return list(Event.objects.filter(subject=str(found.id)).order_by("-seq")[:EVENTS_SHOWN])


def launches(found: Job) -> Sequence[Launch]:
    """Every launch of a job, newest first."""
    return list(found.launches.order_by("-attempt"))


def performance(found: Job) -> Performance:
    """Return the reports of one job against its target."""
    rows = list(
        JobSample.objects.filter(job=found)
        .order_by("-cluster_s")
        .values_list("cluster_s", "attainment", "progress", "cpu_share", "performance")[
            :SAMPLES_SHOWN
        ]
    )[::-1]
    table = np.array(
        [[np.nan if value is None else value for value in row] for row in rows], dtype=float
    ).reshape(-1, 5)
    predicted, low, high = predicted_attainment(found)
    return Performance(
        times_s=table[:, 0],
        attainment=table[:, 1],
        progress=table[:, 2],
        cpu=table[:, 3],
        performance=table[:, 4],
        target_kind=found.target_kind,
        predicted=predicted,
        predicted_low=low,
        predicted_high=high,
        moments=tuple(
            Moment(
                launch.started_s, "started" if launch.attempt <= 1 else f"start {launch.attempt}"
            )
            for launch in reversed(launches(found))
            if launch.started_s is not None
        ),
    )


def predicted_attainment(found: Job) -> tuple[float, float, float]:
    """Return the prediction as performance over target: value, low, high.

    NaN where there is none.
    """
    values = [_number(found.predicted, name) for name in ("value", "low", "high")]
    if found.target_kind in {"completion_time", "throughput_latency"}:
        field = "seconds" if found.target_kind == "completion_time" else "latency_seconds"
        wanted = _number(found.target, field)
        most = 1.0 if found.target_kind == "throughput_latency" else np.inf  # as attainment is
        value, high, low = (min(most, wanted / v) if v > 0 else float("nan") for v in values)
        return value, low, high
    if found.target_kind == "ips":
        wanted = _number(found.target, "ips")
        value, low, high = (v / wanted if wanted > 0 else float("nan") for v in values)
        return value, low, high
    return float("nan"), float("nan"), float("nan")


def search(seen: QuerySet[Job], text: str, *, most: int = 6) -> Sequence[Job]:
    """Return jobs whose id is or whose name holds the text, newest first."""
    wanted = Q(name__icontains=text)
    with suppress(ValueError):
        wanted |= Q(id=UUID(text))
    return list(seen.filter(wanted).order_by("-created_at", "-id")[:most])


def _number(values: dict[str, Any], name: str) -> float:
    value = values.get(name)
    return float(value) if isinstance(value, int | float) else float("nan")
