"""Data of the Overview."""

from dataclasses import dataclass

import numpy as np
from django.db import connection
from django.db.models import Count, Q, Sum
from numpy.typing import NDArray

from apps.common.infrastructure.database import fetch_rows
from apps.dashboard.core import formats, labels
from apps.dashboard.core.intervals import wilson
from apps.dashboard.core.ranges import TimeRange
from apps.dashboard.figures.attainment import NAMES, Attainment, KindAttainment
from apps.dashboard.figures.decision_latency import DecisionLatency
from apps.dashboard.figures.power import Power
from apps.dashboard.figures.queue import QueueByReason, ReasonQueue
from apps.dashboard.selectors.frames import History, fact_series, history
from apps.inventory.models import Server, ServerState
from apps.inventory.selectors import cluster_now
from apps.workloads.core.lifecycle import WAITING_STATES, JobState
from apps.workloads.models import Job
from apps.workloads.selectors import job_counts

Floats = NDArray[np.float64]
LATEST_ENDED = 5_000  # ended jobs read; bounds the cost of the page
LATEST_DECISIONS = 50_000
LATENCY_COLUMNS = 72
REASONS_SHOWN = 5


@dataclass(frozen=True, slots=True)
class HeadlineFigure:
    """One cell of the strip: a number with its unit, a note and its recent values."""

    key: str
    name: str
    value: str
    unit: str
    note: str
    spark: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class TargetCounts:
    """Counts for the sentence under the title."""

    met: int
    jobs: int
    waiting: int
    running: int


@dataclass(frozen=True, slots=True)
class Summary:
    """Headline figures and the counts of targets met."""

    verdict: TargetCounts
    strip: tuple[HeadlineFigure, ...]
    servers: int


def summary(span: TimeRange) -> Summary:
    """Return the headline figures over the range."""
    past = history(span, limit=60)
    measured = attainment(span)
    counts = job_counts(None)
    waiting, running = counts.of(WAITING_STATES), counts.of([JobState.RUNNING])
    met = measured.jobs - measured.missed
    servers = Server.objects.count()
    return Summary(
        verdict=TargetCounts(met=met, jobs=measured.jobs, waiting=waiting, running=running),
        strip=(
            _targets(measured, past),
            _processors(past),
            _running(running, past),
            _waiting(waiting, past),
            _decisions(decision_latency(span), past),
            _power(servers, past),
        ),
        servers=servers,
    )


def _targets(measured: Attainment, past: History) -> HeadlineFigure:
    met = measured.jobs - measured.missed
    low, high = wilson(met, measured.jobs)
    share = 100 * met / measured.jobs if measured.jobs else float("nan")
    note = (
        f"{100 * low:.1f}–{100 * high:.1f} (95 %), n = {formats.thousands(measured.jobs)}"
        if measured.jobs
        else "no job with a target measured yet"
    )
    series = fact_series(past.facts, "targets", "met") / np.maximum(
        fact_series(past.facts, "targets", "measured"), 1
    )
    return HeadlineFigure(
        "targets", "Targets met", formats.thousands(share, 1), "%", note, _spark(series)
    )


def _processors(past: History) -> HeadlineFigure:
    units = Server.objects.aggregate(total=Sum("cores"), used=Sum("used_cores"))
    total, taken = units["total"] or 0, units["used"] or 0
    used = float(past.used[-1]) if past.used.size else float("nan")
    allocated = formats.percent(taken / total) if total else "–"
    return HeadlineFigure(
        "cpu",
        "CPU used",
        formats.thousands(100 * used, 1),
        "%",
        f"of {formats.thousands(total)} units; {allocated} allocated",
        _spark(past.used),
    )


def _running(running: int, past: History) -> HeadlineFigure:
    best_effort = Job.objects.filter(state=JobState.RUNNING, target_kind="best_effort").count()
    return HeadlineFigure(
        "running",
        "Jobs running",
        formats.thousands(running),
        "",
        f"{formats.thousands(best_effort)} of them best effort",
        _spark(fact_series(past.facts, "jobs", "running")),
    )


def _waiting(waiting: int, past: History) -> HeadlineFigure:
    median, p95 = _waits()
    note = (
        f"median {formats.duration(median)}, p95 {formats.duration(p95)}"
        if waiting
        else "all jobs have been placed"
    )
    series = sum(
        (fact_series(past.facts, "jobs", str(state)) for state in WAITING_STATES),
        np.zeros(len(past.facts)),
    )
    return HeadlineFigure(
        "waiting", "Waiting", formats.thousands(waiting), "jobs", note, _spark(series)
    )


def _decisions(latency: DecisionLatency, past: History) -> HeadlineFigure:
    value = latency.now_p99_s
    small = not np.isnan(value) and value < 0.001
    shown = formats.significant(value * (1e6 if small else 1e3))
    return HeadlineFigure(
        "decision",
        "Decision time, p99",
        shown,
        "µs" if small else "ms",
        f"in the agent, n = {formats.thousands(latency.decisions)}",
        _spark(latency.p99_s),
    )


def _power(servers: int, past: History) -> HeadlineFigure:
    now = float(past.watts[-1]) if past.watts.size else float("nan")
    on = int(past.servers_on[-1]) if past.servers_on.size else 0
    return HeadlineFigure(
        "power",
        "Power",
        formats.significant(now / 1000),
        "kW",
        f"{formats.thousands(on)} of {formats.thousands(servers)} servers on",
        _spark(past.watts),
    )


def _spark(series: Floats) -> tuple[float, ...]:
    """Return at most thirty values, evenly spaced."""
    if series.size <= 30:
        return tuple(float(v) for v in series)
    picked = np.linspace(0, series.size - 1, 30).round().astype(int)
    return tuple(float(v) for v in series[picked])


def _waits() -> tuple[float, float]:
    """Return p50 and p95 of the time waited by waiting jobs, in cluster seconds."""
    now_s = cluster_now()
    with connection.cursor() as cursor:
        cursor.execute(_WAITS, [now_s, list(WAITING_STATES)])
        row = cursor.fetchone()
    median, p95 = row[0] or (float("nan"), float("nan"))
    return median, p95


_WAITS = """
SELECT percentile_cont(ARRAY[0.5, 0.95]) WITHIN GROUP (ORDER BY greatest(0, %s - submitted_s))
FROM workloads_job WHERE state = ANY(%s)
"""


def attainment(span: TimeRange) -> Attainment:
    """Return performance over target of running jobs and of jobs that ended in the range."""
    running = list(
        Job.objects.filter(state=JobState.RUNNING, attainment__isnull=False).values_list(
            "target_kind", "attainment"
        )
    )
    ended = list(
        Job.objects.filter(state=JobState.SUCCEEDED)
        .order_by("-created_at", "-id")
        .values_list("target_kind", "attainment", "finished_s")[:LATEST_ENDED]
    )
    rows = running + [
        (kind, value)
        for kind, value, end in ended
        if value is not None and end is not None and end >= span.first_s
    ]
    kinds = tuple(
        KindAttainment(kind, np.sort(np.array([v for k, v in rows if k == kind], dtype=float)))
        for kind in NAMES
    )
    return Attainment(
        kinds=tuple(kind for kind in kinds if kind.ratios.size),
        scope=f"in the last {span.label}",
    )


def queue_by_reason(span: TimeRange) -> QueueByReason:
    """Return waiting jobs by reason, now and as recorded over the range."""
    queue = fetch_rows(_BY_REASON, [span.last_s, list(WAITING_STATES)])
    now = {code: (count, waits) for code, count, waits in queue}
    past = history(span, limit=96)
    recorded = {code for fact in past.facts for code in (fact.get("waiting") or {})}
    codes = sorted(now.keys() | recorded, key=lambda code: -now.get(code, (0, None))[0])
    rows = []
    for code in codes[:REASONS_SHOWN]:
        count, waits = now.get(code, (0, None))
        median, p95 = waits or (float("nan"), float("nan"))
        series = np.nan_to_num(fact_series(past.facts, "waiting", code))
        rows.append(
            ReasonQueue(
                code, labels.reason_text(code), np.append(series, count), count, median, p95
            )
        )
    return QueueByReason(times_s=np.append(past.times_s, span.last_s), reasons=tuple(rows))


_BY_REASON = """
SELECT CASE WHEN held THEN 'Held' WHEN reason_code <> '' THEN reason_code
            WHEN state = 'profiling' THEN 'WaitingForProfile' ELSE 'WaitingForAgent' END AS code,
       count(*),
       percentile_cont(ARRAY[0.5, 0.95]) WITHIN GROUP (ORDER BY greatest(0, %s - submitted_s))
FROM workloads_job WHERE state = ANY(%s) GROUP BY 1 ORDER BY 2 DESC
"""


def decision_latency(span: TimeRange) -> DecisionLatency:
    """Return percentiles of the decision time by interval, for the latest decisions."""
    width = max(1e-9, (span.last_s - span.first_s) / LATENCY_COLUMNS)
    rows = fetch_rows(_LATENCY, [span.first_s, width, LATEST_DECISIONS, span.first_s])
    whole = next((row for row in rows if row[0] is None), None)
    columns = [row for row in rows if row[0] is not None]
    table = np.full((LATENCY_COLUMNS, 5), np.nan)
    table[:, 3:] = 0
    for at, percentiles, conflicts, count, _agents in columns:
        table[min(max(int(at), 0), LATENCY_COLUMNS - 1)] = (*percentiles, conflicts, count)
    first = min((int(row[0]) for row in columns), default=0)
    table = table[max(0, min(first, LATENCY_COLUMNS - 2)) :]
    times = span.first_s + (np.arange(LATENCY_COLUMNS, dtype=np.float64) + 0.5) * width
    now = whole[1] if whole is not None and whole[1] is not None else (float("nan"),) * 3
    return DecisionLatency(
        times_s=times[-table.shape[0] :],
        p50_s=table[:, 0],
        p95_s=table[:, 1],
        p99_s=table[:, 2],
        conflicts=table[:, 3],
        counts=table[:, 4],
        now_p50_s=now[0],
        now_p95_s=now[1],
        now_p99_s=now[2],
        agents=whole[4] if whole is not None else 0,
    )


_LATENCY = """
SELECT at,
       percentile_cont(ARRAY[0.5, 0.95, 0.99]) WITHIN GROUP (ORDER BY elapsed_s),
       coalesce(sum(commit_retries), 0), count(*), count(DISTINCT agent)
FROM (SELECT floor((cluster_s - %s) / %s)::int AS at, cluster_s, elapsed_s, commit_retries, agent
      FROM (SELECT cluster_s, elapsed_s, commit_retries, agent FROM scheduling_decision
            ORDER BY at DESC, id DESC LIMIT %s) newest) latest
WHERE cluster_s >= %s
GROUP BY GROUPING SETS ((at), ())
"""


def power(span: TimeRange) -> Power:
    """Return power over the range, and the idle and peak power of all servers."""
    past = history(span)
    bounds = Server.objects.aggregate(
        idle=Sum("idle_watts"),
        peak=Sum("peak_watts"),
        servers=Count("id"),
        on=Count("id", filter=~Q(state=ServerState.DOWN)),
    )
    return Power(
        times_s=past.times_s,
        watts=past.watts,
        idle_watts=bounds["idle"] or 0.0,
        peak_watts=bounds["peak"] or 0.0,
        servers_on=bounds["on"],
        servers=bounds["servers"],
    )
