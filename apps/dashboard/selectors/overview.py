"""What the Overview shows."""

from dataclasses import dataclass

import numpy as np
from django.db import connection
from django.db.models import Count, Q, Sum
from numpy.typing import NDArray

from apps.dashboard.core import words
from apps.dashboard.core.intervals import wilson
from apps.dashboard.core.ranges import TimeRange
from apps.dashboard.figures.attainment import NAMES, Attainment, KindAttainment
from apps.dashboard.figures.decision_latency import DecisionLatency
from apps.dashboard.figures.power import Power
from apps.dashboard.figures.queue import QueueByReason, ReasonQueue
from apps.dashboard.selectors.frames import History, fact_series, history
from apps.inventory.models import Server, ServerState
from apps.inventory.selectors import cluster_now
from apps.workloads.core.lifecycle import TERMINAL_STATES, WAITING_STATES, JobState
from apps.workloads.models import Job

Floats = NDArray[np.float64]
LATEST_ENDED = (
    5_000  # ended jobs looked at; keeps the page's cost independent of the history's length
)
LATEST_DECISIONS = 50_000
LATENCY_COLUMNS = 72
REASONS_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Figure:
    """One cell of the strip.

    A number with its unit, what stands under it, and its recent course.
    """

    key: str
    name: str
    value: str
    unit: str
    note: str
    spark: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The one sentence under the title."""

    met: int
    jobs: int
    waiting: int
    running: int


@dataclass(frozen=True, slots=True)
class Summary:
    """The strip and the verdict."""

    verdict: Verdict
    strip: tuple[Figure, ...]
    servers: int


def summary(span: TimeRange) -> Summary:
    """Return the figures of the strip, over the range."""
    past = history(span, most=60)
    measured = attainment(span)
    states = dict(
        Job.objects.exclude(state__in=TERMINAL_STATES)
        .values_list("state")
        .annotate(count=Count("id"))
    )
    waiting = sum(states.get(state, 0) for state in WAITING_STATES)
    running = states.get(JobState.RUNNING, 0)
    met = measured.jobs - measured.missed
    servers = Server.objects.count()
    return Summary(
        verdict=Verdict(met=met, jobs=measured.jobs, waiting=waiting, running=running),
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


def _targets(measured: Attainment, past: History) -> Figure:
    met = measured.jobs - measured.missed
    low, high = wilson(met, measured.jobs)
    share = 100 * met / measured.jobs if measured.jobs else float("nan")
    note = (
        f"{100 * low:.1f}–{100 * high:.1f} (95 %), n = {words.thousands(measured.jobs)}"
        if measured.jobs
        else "no job with a target measured yet"
    )
    series = fact_series(past.facts, "targets", "met") / np.maximum(
        fact_series(past.facts, "targets", "measured"), 1
    )
    return Figure("targets", "Targets met", words.thousands(share, 1), "%", note, _spark(series))


def _processors(past: History) -> Figure:
    units = Server.objects.aggregate(total=Sum("cores"), used=Sum("used_cores"))
    total, taken = units["total"] or 0, units["used"] or 0
    used = float(past.used[-1]) if past.used.size else float("nan")
    given = words.percent(taken / total) if total else "–"
    return Figure(
        "cpu",
        "CPU used",
        words.thousands(100 * used, 1),
        "%",
        f"of {words.thousands(total)} units; {given} allocated",
        _spark(past.used),
    )


def _running(running: int, past: History) -> Figure:
    best_effort = Job.objects.filter(state=JobState.RUNNING, target_kind="best_effort").count()
    return Figure(
        "running",
        "Jobs running",
        words.thousands(running),
        "",
        f"{words.thousands(best_effort)} best effort, without a target",
        _spark(fact_series(past.facts, "jobs", "running")),
    )


def _waiting(waiting: int, past: History) -> Figure:
    half, most = _waits()
    note = (
        f"median {words.duration(half)}, p95 {words.duration(most)}"
        if waiting
        else "every job has been placed"
    )
    series = sum(
        (fact_series(past.facts, "jobs", str(state)) for state in WAITING_STATES),
        np.zeros(len(past.facts)),
    )
    return Figure("waiting", "Waiting", words.thousands(waiting), "jobs", note, _spark(series))


def _decisions(latency: DecisionLatency, past: History) -> Figure:
    value = latency.now_p99_s
    small = not np.isnan(value) and value < 0.001
    shown = words.significant(value * (1e6 if small else 1e3))
    return Figure(
        "decision",
        "Decision time, p99",
        shown,
        "µs" if small else "ms",
        f"in the agent, n = {words.thousands(latency.decisions)}",
        _spark(latency.p99_s),
    )


def _power(servers: int, past: History) -> Figure:
    now = float(past.watts[-1]) if past.watts.size else float("nan")
    on = int(past.servers_on[-1]) if past.servers_on.size else 0
    return Figure(
        "power",
        "Power",
        words.significant(now / 1000),
        "kW",
        f"{words.thousands(on)} of {words.thousands(servers)} servers on",
        _spark(past.watts),
    )


def _spark(series: Floats) -> tuple[float, ...]:
    """At most thirty values, evenly chosen."""
    if series.size <= 30:
        return tuple(float(v) for v in series)
    picked = np.linspace(0, series.size - 1, 30).round().astype(int)
    return tuple(float(v) for v in series[picked])


def _waits() -> tuple[float, float]:
    """How long the waiting jobs have waited: p50 and p95 in cluster seconds."""
    now_s = cluster_now()
    with connection.cursor() as cursor:
        cursor.execute(_WAITS, [now_s, list(WAITING_STATES)])
        row = cursor.fetchone()
    half, most = row[0] or (float("nan"), float("nan"))
    return half, most


_WAITS = """
SELECT percentile_cont(ARRAY[0.5, 0.95]) WITHIN GROUP (ORDER BY greatest(0, %s - submitted_s))
FROM workloads_job WHERE state = ANY(%s)
"""


def attainment(span: TimeRange) -> Attainment:
    """Return performance over target of the running jobs and of those that ended in the range."""
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
    """Return waiting jobs by reason now, and over the range as far as the frames recorded it."""
    with connection.cursor() as cursor:
        cursor.execute(_BY_REASON, [span.last_s, list(WAITING_STATES)])
        now = {code: (count, waits) for code, count, waits in cursor.fetchall()}
    past = history(span, most=96)
    recorded = {code for fact in past.facts for code in (fact.get("waiting") or {})}
    codes = sorted(now.keys() | recorded, key=lambda code: -now.get(code, (0, None))[0])
    rows = []
    for code in codes[:REASONS_SHOWN]:
        count, waits = now.get(code, (0, None))
        half, most = waits or (float("nan"), float("nan"))
        series = np.nan_to_num(fact_series(past.facts, "waiting", code))
        rows.append(
            ReasonQueue(code, words.reason_text(code), np.append(series, count), count, half, most)
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
    """Percentiles of the decision time by interval, over the latest decisions of the range."""
    width = max(1e-9, (span.last_s - span.first_s) / LATENCY_COLUMNS)
    with connection.cursor() as cursor:
        cursor.execute(_LATENCY, [span.first_s, width, LATEST_DECISIONS, span.first_s])
        rows = cursor.fetchall()
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
    """Watts over the range between the bounds of the servers."""
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
