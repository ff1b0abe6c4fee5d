"""Data of the Overview."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from django.db import connection
from django.db.models import Sum
from numpy.typing import NDArray

from apps.common.core.intervals import wilson
from apps.common.infrastructure.database import fetch_rows
from apps.dashboard.core import formats, labels
from apps.dashboard.core.ranges import TimeRange
from apps.dashboard.figures.attainment import NAMES, Attainment, KindAttainment
from apps.dashboard.figures.decision_latency import DecisionLatency
from apps.dashboard.figures.power import Power
from apps.dashboard.figures.queue import QueueByReason, ReasonQueue
from apps.dashboard.selectors.decision_times import decision_latency
from apps.dashboard.selectors.frames import History, fact_series, history
from apps.dashboard.selectors.moments import cluster_moment, frame_at
from apps.inventory.core.usage import UsageTotals
from apps.inventory.models import Server
from apps.inventory.selectors import cluster_now
from apps.scheduling.selectors.waits import WAITS_SINCE
from apps.workloads.core.lifecycle import WAITING_STATES, JobState
from apps.workloads.models import Job

Floats = NDArray[np.float64]
LATEST_ENDED = 5_000  # ended jobs read; bounds the cost of the page
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
    """Counts for the sentence under the title: of targets, those of the attainment chart."""

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
    moment = cluster_moment(span)
    verdict = TargetCounts(
        met=measured.jobs - measured.missed,
        jobs=measured.jobs,
        waiting=moment.jobs_in(WAITING_STATES),
        running=moment.jobs_in([JobState.RUNNING]),
    )
    return Summary(
        verdict=verdict,
        strip=(
            _targets(verdict, past),
            _processors(moment.usage, past),
            _running(verdict.running, past, is_past=span.is_past),
            _waiting(verdict.waiting, past, is_past=span.is_past),
            _decisions(decision_latency(span), past),
            _power(moment.usage, past),
        ),
        servers=moment.usage.servers,
    )


def _targets(counts: TargetCounts, past: History) -> HeadlineFigure:
    low, high = wilson(counts.met, counts.jobs)
    share = 100 * counts.met / counts.jobs if counts.jobs else float("nan")
    note = (
        f"{100 * low:.1f}–{100 * high:.1f} (95 %), n = {formats.thousands(counts.jobs)}; "
        "without failed and waiting jobs"
        if counts.jobs
        else "no job with a target measured yet"
    )
    series = fact_series(past.facts, "targets", "met") / np.maximum(
        fact_series(past.facts, "targets", "measured"), 1
    )
    return HeadlineFigure(
        "targets", "Targets met", formats.thousands(share, 1), "%", note, _spark(series)
    )


def _processors(now: UsageTotals, past: History) -> HeadlineFigure:
    return HeadlineFigure(
        "cpu",
        "CPU used",
        formats.thousands(100 * now.cpu_share, 1),
        "%",
        f"of {formats.thousands(now.units)} units; "
        f"{formats.percent(now.allocated_share)} allocated",
        _spark(past.used),
    )


def _running(running: int, past: History, *, is_past: bool) -> HeadlineFigure:
    best_effort = Job.objects.filter(state=JobState.RUNNING, target_kind="best_effort")
    note = "" if is_past else f"{formats.thousands(best_effort.count())} of them best effort"
    return HeadlineFigure(
        "running",
        "Jobs running",
        formats.thousands(running),
        "",
        note,
        _spark(fact_series(past.facts, "jobs", "running")),
    )


def _waiting(waiting: int, past: History, *, is_past: bool) -> HeadlineFigure:
    note = "all jobs had been placed" if is_past else "all jobs have been placed"
    if waiting:
        note = "" if is_past else _waits()
    series = sum(
        (fact_series(past.facts, "jobs", str(state)) for state in WAITING_STATES),
        np.zeros(len(past.facts)),
    )
    return HeadlineFigure(
        "waiting", "Waiting", formats.thousands(waiting), "jobs", note, _spark(series)
    )


def _decisions(latency: DecisionLatency, past: History) -> HeadlineFigure:
    value, _, unit = formats.duration(latency.now_p99_s).partition(" ")
    return HeadlineFigure(
        "decision",
        "Decision time, p99",
        value,
        unit,
        f"in the agent, n = {formats.thousands(latency.decisions)}",
        _spark(latency.p99_s),
    )


def _power(now: UsageTotals, past: History) -> HeadlineFigure:
    return HeadlineFigure(
        "power",
        "Power",
        formats.significant(now.watts / 1000 if now.reporting else float("nan")),
        "kW",
        f"{formats.thousands(now.reporting)} of {formats.thousands(now.servers)} servers report",
        _spark(past.watts),
    )


def _spark(series: Floats) -> tuple[float, ...]:
    """Return at most thirty values, evenly spaced."""
    if series.size <= 30:
        return tuple(float(v) for v in series)
    picked = np.linspace(0, series.size - 1, 30).round().astype(int)
    return tuple(float(v) for v in series[picked])


def _waits() -> str:
    """Return p50 and p95 of the time waited by waiting jobs, in words."""
    now_s = cluster_now()
    with connection.cursor() as cursor:
        cursor.execute(_WAITS, [now_s, list(WAITING_STATES)])
        row = cursor.fetchone()
    median, p95 = row[0] or (float("nan"), float("nan"))
    return f"median {formats.duration(median)}, p95 {formats.duration(p95)}"


_WAITED = f"""
percentile_cont(ARRAY[0.5, 0.95]) WITHIN GROUP (ORDER BY greatest(0, %s - {WAITS_SINCE}))
"""
_WAITS = f"SELECT {_WAITED} FROM workloads_job j WHERE state = ANY(%s)"  # noqa: S608 - constants


def attainment(span: TimeRange) -> Attainment:
    """Return performance over target of running jobs and of jobs that ended in the range.

    For an earlier moment, of the jobs that ended before it: what ran then is not recorded by job.
    """
    if span.is_past:
        return _attainment(_ended_before(span), f"that succeeded in the {span.label} before")
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
    rows = [(kind, value) for kind, value in running if value is not None] + [
        (kind, value)
        for kind, value, end in ended
        if value is not None and end is not None and end >= span.first_s
    ]
    return _attainment(rows, f"that run or succeeded in the last {span.label}")


def _ended_before(span: TimeRange) -> list[tuple[str, float]]:
    """Return target kind and attainment of the latest jobs that ended in an earlier range."""
    frame = frame_at(span.last_s)
    if frame is None:
        return []
    ended = Job.objects.filter(finished_at__lte=frame.at, state=JobState.SUCCEEDED)
    rows = ended.order_by("-finished_at").values_list("target_kind", "attainment", "finished_s")
    return [
        (kind, value)
        for kind, value, end in rows[:LATEST_ENDED]
        if value is not None and end is not None and span.first_s <= end <= span.last_s
    ]


def _attainment(rows: Sequence[tuple[str, float]], scope: str) -> Attainment:
    kinds = tuple(
        KindAttainment(kind, np.sort(np.array([v for k, v in rows if k == kind], dtype=float)))
        for kind in NAMES
    )
    return Attainment(
        kinds=tuple(kind for kind in kinds if kind.ratios.size),
        scope=scope,
    )


def queue_by_reason(span: TimeRange) -> QueueByReason:
    """Return waiting jobs by reason, now and as recorded over the range."""
    now: dict[str, tuple[int, Sequence[float] | None]]
    if span.is_past:
        now = {code: (count, None) for code, count in cluster_moment(span).waiting.items()}
    else:
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


_BY_REASON = f"""
SELECT CASE WHEN held AND reason_code <> 'WaitingForArray' THEN 'Held'
            WHEN reason_code <> '' THEN reason_code
            WHEN state = 'profiling' THEN 'WaitingForProfile' ELSE 'WaitingForAgent' END AS code,
       count(*), {_WAITED}
FROM workloads_job j WHERE state = ANY(%s) GROUP BY 1 ORDER BY 2 DESC
"""  # noqa: S608 - constants


def power(span: TimeRange) -> Power:
    """Return power over the range and now, and the idle and peak power of all servers."""
    past = history(span)
    now = cluster_moment(span).usage
    is_known = now.reporting > 0
    bounds = Server.objects.aggregate(idle=Sum("idle_watts"), peak=Sum("peak_watts"))
    return Power(
        times_s=np.append(past.times_s, span.last_s) if is_known else past.times_s,
        watts=np.append(past.watts, now.watts) if is_known else past.watts,
        idle_watts=bounds["idle"] or 0.0,
        peak_watts=bounds["peak"] or 0.0,
        servers_on=now.reporting,
        servers=now.servers,
    )
