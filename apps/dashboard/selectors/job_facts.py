"""Facts about jobs, formatted for the pages."""

import json
import math
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.db.models import Count, QuerySet

from apps.common.infrastructure.database import fetch_rows
from apps.dashboard.core import formats, labels
from apps.dashboard.core.gauge import Gauge, gauge
from apps.dashboard.core.job_query import JobQuery
from apps.dashboard.selectors.jobs import allocations, matching
from apps.execution.models import Launch, LaunchState
from apps.inventory.core.backends import Capability, backends_with
from apps.inventory.models import Server
from apps.scheduling.models import Allocation, Reservation
from apps.scheduling.selectors import IN_USE, last_allocations, reservation_of
from apps.scheduling.selectors.waits import current_estimate, waits_since
from apps.workloads.core.framework import setting_named
from apps.workloads.core.lifecycle import (
    ACTIVE_STATES,
    TERMINAL_STATES,
    WAITING_STATES,
    JobState,
    Suspension,
)
from apps.workloads.core.reasons import MEANINGS, Meaning, Reason, reason_of_hold
from apps.workloads.models import OPEN_STATES, Job
from apps.workloads.selectors import JobCounts

CANCEL_LIMIT = 500
TREND_POINTS = 40
TREND_S = 7200.0  # cluster seconds shown by a sparkline
Trend = tuple[tuple[float, float], ...]  # (seconds before now, performance over target)
LAUNCH_ENDS = {  # why a job was requeued
    "preempted": "Preempted by a job of higher priority",
    "lost": "Requeued after its launch was lost",
    "moved": "Requeued because the server on which it was to restart failed",
}
FLAG_FILTERS = {
    "held": ("held", "true"),
    "below": ("attainment__lt", "1"),
    "met": ("attainment__gte", "1"),
}


@dataclass(frozen=True, slots=True)
class JobRow:
    """One row of the Jobs list."""

    job: Job
    target: str
    attainment: float | None
    why: str
    time: str
    on: str
    trend: Trend


def trends(jobs: Sequence[Job], *, now_s: float) -> dict[Any, Trend]:
    """Return the recent performance over target of each job; one statement.

    At most `TREND_POINTS` values of each job, however often it reports: the last one of each
    interval.
    """
    if not jobs:
        return {}
    width_s = TREND_S / TREND_POINTS
    rows = fetch_rows(_TRENDS, [[job.id for job in jobs], now_s - TREND_S, width_s, TREND_POINTS])
    by_job: dict[Any, list[tuple[float, float]]] = {}
    for job_id, at_s, value in rows:
        by_job.setdefault(job_id, []).append((at_s - now_s, value))
    return {job_id: tuple(points) for job_id, points in by_job.items()}


_TRENDS = """
SELECT j.id, s.cluster_s, s.attainment
FROM unnest(%s::uuid[]) AS j(id),
     (SELECT %s::float8, %s::float8) AS range(first_s, width_s), generate_series(1, %s) AS n,
     LATERAL (SELECT cluster_s, attainment FROM execution_jobsample
              WHERE job_id = j.id AND cluster_s > first_s + (n - 1) * width_s
                AND cluster_s <= first_s + n * width_s AND attainment IS NOT NULL
              ORDER BY cluster_s DESC LIMIT 1) AS s
ORDER BY s.cluster_s
"""


@dataclass(frozen=True, slots=True)
class JobTotals:
    """Number of jobs by group of states."""

    all: int
    running: int
    waiting: int
    ended: int


@dataclass(frozen=True, slots=True)
class EarlierRun:
    """The last run of a waiting job.

    Attributes
    ----------
    end, ran : why it ended and how long it took, as parts of a sentence
    ended_s : cluster seconds
    """

    end: str
    ended_s: float
    ran: str


@dataclass(frozen=True, slots=True)
class JobHeader:
    """Facts shown under a job's title."""

    target: str
    performance: str
    predicted: str
    predicted_interval: str
    attainment: float | None
    meets: bool | None
    servers: tuple[str, ...]
    platforms: tuple[str, ...]
    units: int
    reservation: Reservation | None  # of a waiting gang
    start: str  # predicted start of a waiting job, in words; empty = no estimate
    missing: int  # that a running job is given as they are freed
    setting: str  # of its framework, in words; empty = the default
    cost: str  # predicted, beside its ceiling; empty = no ceiling
    title: str
    gauge: Gauge | None  # None = best effort
    waited: float | None  # cluster seconds of a waiting job, since it was queued last
    to_start: float | None  # from submission, of a job that does not wait
    earlier: EarlierRun | None  # of a waiting job
    trend: Trend
    parts: tuple[tuple[str, float], ...]  # seconds before the start, by stage

    @property
    def trend_text(self) -> str:
        """Time span of the sparkline, rounded to five minutes."""
        shown = -self.trend[0][0] if self.trend else 0.0
        return formats.duration(max(1.0, round(shown / 300)) * 300)


@dataclass(frozen=True, slots=True)
class AllocationRow:
    """One allocation with its server's name."""

    allocation: Allocation
    server: str
    platform: str
    cores: str


def job_rows(jobs: Sequence[Job], *, now_s: float) -> tuple[JobRow, ...]:
    """Return rows of the list; one statement for all servers and one for all samples."""
    active = [job for job in jobs if job.state in ACTIVE_STATES]
    places, recent = _places(active), trends(active, now_s=now_s)
    since = waits_since([job for job in jobs if job.state in WAITING_STATES])
    return tuple(
        JobRow(
            job=job,
            target=formats.target_text(job.target),
            attainment=job.attainment,
            why=_why(job),
            time=_time(job, since.get(job.id, job.submitted_s), now_s),
            on=places.get(job.id, ""),
            trend=recent.get(job.id, ()),
        )
        for job in jobs
    )


def _why(job: Job) -> str:
    if job.held:
        return labels.reason_text(reason_of_hold(job.reason_code))
    return labels.reason_text(job.reason_code) if job.reason_code else ""


def _time(job: Job, since_s: float, now_s: float) -> str:
    if job.state in TERMINAL_STATES and job.finished_s is not None:
        return f"took {formats.duration(max(0.0, job.finished_s - job.submitted_s))}"
    if job.suspended_s is not None:
        return f"suspended {formats.duration(max(0.0, now_s - job.suspended_s))}"
    if job.state == JobState.RUNNING and job.started_s is not None:
        return f"running {formats.duration(max(0.0, now_s - job.started_s))}"
    return f"waiting {formats.duration(max(0.0, now_s - since_s))}"


def _places(jobs: Sequence[Job]) -> dict[Any, str]:
    """Return where each job runs, e.g. "srv-0212" or "srv-0212 + 3"."""
    live = list(
        Allocation.objects.filter(IN_USE, job__in=jobs, released_seq__isnull=True)
        .order_by("id")
        .values_list("job_id", "server_id")
    )
    names = dict(
        Server.objects.filter(id__in={server for _, server in live}).values_list("id", "name")
    )
    by_job: dict[Any, list[str]] = {}
    for job, server in live:
        by_job.setdefault(job, []).append(names.get(server, str(server)))
    return {
        job: places[0] if len(set(places)) == 1 else f"{places[0]} + {len(set(places)) - 1}"
        for job, places in by_job.items()
    }


def totals(counts: JobCounts) -> JobTotals:
    """Return the number of jobs by group of states."""
    return JobTotals(
        all=counts.all,
        running=counts.of(ACTIVE_STATES),
        waiting=counts.of(WAITING_STATES),
        ended=counts.of(TERMINAL_STATES),
    )


def cancel_preview(visible: QuerySet[Job], query: JobQuery) -> dict[str, Any]:
    """Return the jobs a bulk cancel would cancel: counts by state, and the newest ids."""
    open_jobs = matching(visible, query).filter(state__in=OPEN_STATES)
    by_state = dict(open_jobs.order_by().values_list("state").annotate(n=Count("id")))
    ids = open_jobs.order_by("-created_at", "-id").values_list("id", flat=True)[:CANCEL_LIMIT]
    return {
        "count": sum(by_state.values()),
        "by_state": by_state,
        "ids": [str(pk) for pk in ids],
        "most": CANCEL_LIMIT,
        "filter": api_filter(query),
    }


def api_filter(query: JobQuery) -> str:
    """Return the REST query string that lists the same open jobs; "" if REST cannot."""
    states = [state for state in OPEN_STATES if not query.states or state in query.states]
    if len(query.words) > 1 or query.priority is not None or not states:
        return ""
    pairs = [
        ("state__in", ",".join(states)),
        ("application", query.app),
        ("target_kind", query.target),
        ("reason", query.reason),
        ("project", query.project),
        ("array", str(query.array or "")),
        ("q", "".join(query.words)),
        *(("label", f"{name}:{value}") for name, value in query.labels),
        *(FLAG_FILTERS[flag] for flag in query.flags),
    ]
    return urlencode([(name, value) for name, value in pairs if value])


def job_header(job: Job, *, now_s: float) -> JobHeader:
    """Return the facts under a job's title."""
    rows = _latest_places(job)
    servers = dict(
        Server.objects.filter(id__in=[server for server, _ in rows]).values_list(
            "name", "platform__name"
        )
    )
    kind = job.target_kind
    value, low, high = (_number(job.predicted, name) for name in ("value", "low", "high"))
    ratio, is_waiting = job.attainment, job.state in WAITING_STATES
    return JobHeader(
        target=formats.target_text(job.target),
        performance=""
        if job.performance is None
        else formats.performance_text(kind, job.performance),
        predicted="" if math.isnan(value) else formats.performance_text(kind, value),
        predicted_interval=""
        if math.isnan(low) or math.isnan(high)
        else f"{formats.performance_text(kind, low)}, {formats.performance_text(kind, high)}",
        attainment=ratio,
        meets=None if ratio is None else ratio >= 1,
        servers=tuple(servers),
        platforms=tuple(dict.fromkeys(servers.values())),
        units=sum(cores for _, cores in rows),
        reservation=reservation_of(job),
        start=_predicted_start(job, now_s),
        missing=job.units_missing if job.state in ACTIVE_STATES else 0,
        setting=setting_named(label).description
        if (label := job.predicted.get("setting"))
        else "",
        cost=formats.cost_text(job.constraints.get("max_cost"), _number(job.predicted, "cost")),
        title=_gauge_title(job),
        gauge=gauge(
            job.target,
            performance=job.performance,
            attainment=ratio,
            predicted=(value, low, high),
        ),
        waited=max(0.0, now_s - waits_since([job])[job.id]) if is_waiting else None,
        to_start=None
        if is_waiting or job.started_s is None
        else max(0.0, job.started_s - job.submitted_s),
        earlier=_earlier_run(job) if is_waiting else None,
        trend=trends([job], now_s=now_s).get(job.id, ()) if job.finished_s is None else (),
        parts=() if is_waiting else _parts(job),
    )


def _earlier_run(job: Job) -> EarlierRun | None:
    """Return the last run of a waiting job; None if it has never been launched."""
    last = (
        job.launches.exclude(ended_s=None).order_by("-attempt").first() if job.attempts else None
    )
    if last is None or last.ended_s is None:
        return None
    ran_s = 0.0 if last.started_s is None else max(0.0, last.ended_s - last.started_s)
    return EarlierRun(
        end=LAUNCH_ENDS.get(last.outcome, "Requeued"),
        ended_s=last.ended_s,
        ran=f"after it ran for {formats.duration(ran_s)}" if ran_s else "before it started",
    )


def _predicted_start(job: Job, now_s: float) -> str:
    if job.reason_code == Reason.NO_MATCHING_SERVER:
        return labels.ONLY_IF_CHANGED
    found = current_estimate(job)
    if found is None:
        return ""
    p50_s, p90_s = (
        None if at is None else max(0.0, at - now_s) for at in (found.p50_s, found.p90_s)
    )
    return labels.start_text(p50_s, p90_s, found.ahead)


def _latest_places(job: Job) -> list[tuple[int, int]]:
    """Return (server id, cores) of the job's current or last allocations."""
    rows = list(
        Allocation.objects.filter(IN_USE, job=job, released_seq__isnull=True).values_list(
            "server_id", "cores"
        )
    )
    if not rows and job.state in TERMINAL_STATES:
        rows = list(last_allocations(job).values_list("server_id", "cores"))
    return rows


def _parts(job: Job) -> tuple[tuple[str, float], ...]:
    """Return the time from submission to start by stage; empty before the start."""
    if job.started_s is None:
        return ()
    marks = [
        ("profiling", job.profiled_s),
        ("queue", job.placed_s),
        ("start", job.started_s),
    ]
    parts, before = [], job.submitted_s
    for name, at in marks:
        if at is not None:
            parts.append((name, max(0.0, at - before)))
            before = max(before, at)
    return tuple(parts)


def _gauge_title(job: Job) -> str:
    target = formats.target_text(job.target)
    if job.target_kind == "best_effort":
        return f"Best effort: {formats.percent(job.progress, 0)} of the work done"
    if job.attainment is None or job.performance is None:
        never = "Never measured" if job.state in TERMINAL_STATES else "Not measured yet"
        return f"{never}; target: {target}"
    reached = formats.performance_text(job.target_kind, job.performance)
    if job.target_kind == "completion_time":
        verb = "Took" if job.state in TERMINAL_STATES else "Expected to take"
        return f"{verb} {reached}; target: {target}"
    return f"{reached}; target: {target}"


def suspend_action(job: Job) -> str:
    """Return "suspend" or "resume", whichever a user may do with a job now, or an empty text."""
    if job.state != JobState.RUNNING or job.cancel_requested:
        return ""
    if job.suspension in (Suspension.REQUESTED, Suspension.SUSPENDED):
        return "resume"
    able = Launch.objects.filter(
        job=job, state=LaunchState.RUNNING, backend__in=backends_with(Capability.SUSPEND)
    )
    return "suspend" if able.exists() else ""


def waiting_reason(job: Job) -> Meaning | None:
    """Return the reason why a job is waiting, with its meaning."""
    code = reason_of_hold(job.reason_code) if job.held else job.reason_code
    return MEANINGS[Reason(code)] if code in set(Reason) else None


def allocation_rows(job: Job) -> tuple[AllocationRow, ...]:
    """Return all allocations of a job with server names."""
    rows = allocations(job)
    servers = {
        pk: (name, platform)
        for pk, name, platform in Server.objects.filter(
            id__in={row.server_id for row in rows}
        ).values_list("id", "name", "platform__name")
    }
    return tuple(
        AllocationRow(
            row,
            *servers.get(row.server_id, (f"server {row.server_id}", "–")),
            formats.plural(row.cores, "core"),
        )
        for row in rows
    )


def api_calls(job: Job, spec: dict[str, Any], *, host: str) -> tuple[tuple[str, str], ...]:
    """Return REST, CLI and Python calls for the data on the page."""
    body, token = json.dumps(spec), '-H "Authorization: Bearer $BERTH_TOKEN"'
    return (
        ("This job", f'curl -H "Authorization: Bearer $BERTH_TOKEN" {host}/api/v1/jobs/{job.id}/'),
        (
            "Why it was placed there",
            f"curl {token} {host}/api/v1/jobs/{job.id}/explanation/",
        ),
        (
            "Submit the same job again",
            f'curl -X POST {token} -H "Content-Type: application/json" \\\n'
            f'  -H "Idempotency-Key: $(uuidgen)" {host}/api/v1/jobs/ \\\n  -d {shlex.quote(body)}',
        ),
        ("Command line", f"berth get {job.id}\nberth why {job.id}\nberth watch {job.id}"),
        (
            "Python",
            "import os, httpx\n\n"
            f'client = httpx.Client(base_url="{host}", '
            'headers={"Authorization": f"Bearer {os.environ[\'BERTH_TOKEN\']}"})\n'
            f'job = client.get("/api/v1/jobs/{job.id}/").raise_for_status().json()\n'
            'print(job["status"])',
        ),
    )


def _number(values: dict[str, Any], name: str | None) -> float:
    value = values.get(name) if name else None
    return float(value) if isinstance(value, int | float) else float("nan")
