"""Data of the Jobs list and of a job's page."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import numpy as np
from django.conf import settings
from django.db.models import Q, QuerySet
from django.http import Http404

from apps.common.api.paging import Order
from apps.dashboard.core.job_query import JobQuery
from apps.dashboard.core.matches import Matches
from apps.dashboard.figures.performance import Moment, PerformanceHistory
from apps.dashboard.selectors.lists import ListPage, page_of
from apps.execution.models import JobSample, Launch
from apps.operations.models import Event
from apps.operations.services.retention import cutoff
from apps.scheduling.models import Allocation
from apps.scheduling.selectors.waits import waits_since
from apps.workloads.core.lifecycle import JobState
from apps.workloads.models import Job
from apps.workloads.selectors import (
    in_project,
    members_of,
    missing_job,
    name_search,
    of_application,
)

ORDER = Order(columns=("created_at", "id"), descending=True)
MEMBER_ORDER = Order(columns=("array_index", "id"))
PAGE_ROWS = 50
EVENTS_SHOWN = 200
SAMPLES_SHOWN = 2_000


def jobs_page(
    visible: QuerySet[Job],
    query: JobQuery,
    *,
    cursor: str | None,
    limit: int = PAGE_ROWS,
    matches: Matches | None = None,
) -> ListPage[Job]:
    """Return one page of the visible jobs that match, newest first; of an array, by index."""
    rows = matching(visible, query).select_related("application", "project", "created_by")
    order = ORDER if query.array is None else MEMBER_ORDER
    return page_of(rows, order, limit=limit, cursor=cursor, matches=matches)


def matching(visible: QuerySet[Job], query: JobQuery) -> QuerySet[Job]:
    """Return the visible jobs that match a query."""
    exact = {
        "state__in": query.states,
        "target_kind": query.target,
        "reason_code": query.reason,
    }
    jobs = visible.filter(**{column: value for column, value in exact.items() if value})
    if query.app:
        jobs = jobs.filter(of_application(query.app))
    if query.project:
        jobs = jobs.filter(in_project(query.project))
    if query.priority is not None:
        jobs = jobs.filter(priority=query.priority)
    if query.array is not None:
        jobs = jobs.filter(members_of(query.array))
    for flag in query.flags:
        jobs = jobs.filter(FLAGS[flag])
    for name, value in query.labels:
        jobs = jobs.filter(terms__labels__contains={name: value})
    return jobs.filter(name_search(" ".join(query.words))) if query.words else jobs


FLAGS = {"held": Q(held=True), "below": Q(attainment__lt=1.0), "met": Q(attainment__gte=1.0)}


def job_by_id(visible: QuerySet[Job], job_id: str | UUID) -> Job:
    """Return one visible job with its application, project and creator.

    Raises
    ------
    Http404 : there is no such job.
    """
    try:
        key = UUID(str(job_id))
    except ValueError as error:
        raise Http404(f"There is no job {job_id}") from error
    job = visible.select_related("application", "project", "created_by").filter(id=key).first()
    if job is None:
        raise Http404(missing_job(key).removesuffix("."))
    return job


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage in the life of a job."""

    name: str
    icon: str
    mark: str  # "", "now" or "todo"
    took_s: float | None
    at_s: float | None


ENDED_ICONS = {"succeeded": "st-done", "failed": "st-failed", "cancelled": "st-cancelled"}


def stages(job: Job, *, now_s: float) -> tuple[Stage, ...]:
    """Return the stages of a job with the time spent in each."""
    end_s = job.finished_s
    queued_s = job.submitted_s if job.profiled_s is None else job.profiled_s
    is_profiling = job.state == JobState.PROFILING
    stages = [Stage("Submitted", "st-done", "", None, job.submitted_s)]
    if job.profiled_s is not None or is_profiling:
        span = (job.submitted_s, job.profiled_s)
        stages.append(_stage("Profiled", span, end_s=end_s, now_s=now_s, icon="st-profiling"))
    reached = None if is_profiling or job.state == JobState.SUBMITTED else queued_s
    placed_s, started_s = job.placed_s, job.started_s
    if job.state == JobState.QUEUED and job.attempts:
        reached = waits_since([job])[job.id]
        if started_s is not None:
            stages.append(Stage("Ran", "st-done", "", max(0.0, reached - started_s), started_s))
        placed_s = started_s = None
    for name, start, end, icon in (
        ("Queued", reached, placed_s, "st-queued"),
        ("Started", placed_s, started_s, "st-starting"),
        ("Running", started_s, end_s, "st-running"),
    ):
        stages.append(_stage(name, (start, end), end_s=end_s, now_s=now_s, icon=icon))
    if end_s is not None:
        stages = [stage for stage in stages if stage.mark != "todo"]
        last = str(job.state)
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
    """Return one stage; ``span`` is when it and the next stage began, if they did."""
    start, end = span
    if start is None:
        return Stage(name, "st-submitted", "todo", None, None)
    until = end if end is not None else end_s
    if until is None:
        return Stage(name, icon, "now", max(0.0, now_s - start), start)
    return Stage(name, "st-done", "", max(0.0, until - start), start)


def allocations(job: Job) -> Sequence[Allocation]:
    """Return all allocations of a job, live ones first, then newest first."""
    rows = job.allocations.order_by("-acquired_seq").select_related("decision")[:100]
    return sorted(rows, key=lambda row: row.released_seq is not None)


def events(job: Job) -> Sequence[Event]:
    """Return the job's events, newest first."""
    return list(Event.objects.filter(subject=str(job.id)).order_by("-seq")[:EVENTS_SHOWN])


def events_kept(job: Job) -> float:
    """Return the days for which events are kept, if the job may have had older ones; else 0."""
    before = cutoff(settings.BERTH_EVENT_DAYS)
    is_older = before is not None and job.created_at < before
    return settings.BERTH_EVENT_DAYS if is_older else 0


def launches(job: Job) -> Sequence[Launch]:
    """Return all launches of a job, newest first."""
    return list(job.launches.order_by("-attempt"))


def performance(job: Job) -> PerformanceHistory:
    """Return the measurements of one job relative to its target."""
    rows = list(
        JobSample.objects.filter(job=job)
        .order_by("-cluster_s")
        .values_list(
            *("cluster_s", "attainment", "progress", "cpu_share", "performance", "readings"),
            *("run_wait", "blocked", "memory_bytes"),
        )[:SAMPLES_SHOWN]
    )[::-1]
    table = np.array(
        [[np.nan if value is None else value for value in row] for row in rows], dtype=float
    ).reshape(-1, 9)
    predicted, low, high = predicted_attainment(job)
    return PerformanceHistory(
        times_s=table[:, 0],
        attainment=table[:, 1],
        progress=table[:, 2],
        cpu=table[:, 3],
        performance=table[:, 4],
        is_averaged=bool((table[:, 5] > 1).any()),
        run_wait=table[:, 6],
        blocked=table[:, 7],
        memory_bytes=table[:, 8],
        target_kind=job.target_kind,
        predicted=predicted,
        predicted_low=low,
        predicted_high=high,
        moments=tuple(
            Moment(
                launch.started_s, "started" if launch.attempt <= 1 else f"start {launch.attempt}"
            )
            for launch in reversed(launches(job))
            if launch.started_s is not None
        ),
    )


def predicted_attainment(job: Job) -> tuple[float, float, float]:
    """Return the prediction as performance over target: value, low, high; NaN if none."""
    values = [_number(job.predicted, name) for name in ("value", "low", "high")]
    if job.target_kind in {"completion_time", "throughput_latency"}:
        field = "seconds" if job.target_kind == "completion_time" else "latency_seconds"
        wanted = _number(job.target, field)
        limit = 1.0 if job.target_kind == "throughput_latency" else np.inf  # as attainment is
        value, high, low = (min(limit, wanted / v) if v > 0 else float("nan") for v in values)
        return value, low, high
    if job.target_kind == "ips":
        wanted = _number(job.target, "ips")
        value, low, high = (v / wanted if wanted > 0 else float("nan") for v in values)
        return value, low, high
    return float("nan"), float("nan"), float("nan")


def search(visible: QuerySet[Job], text: str, *, limit: int = 6) -> Sequence[Job]:
    """Return jobs whose id equals the text or whose name has its words, newest first."""
    wanted = name_search(text)
    with suppress(ValueError):
        wanted |= Q(id=UUID(text))
    return list(visible.filter(wanted).order_by("-created_at", "-id")[:limit])


def _number(values: dict[str, Any], name: str) -> float:
    value = values.get(name)
    return float(value) if isinstance(value, int | float) else float("nan")
