"""Reads of the queue: waiting shapes, running jobs, recent submissions and their history."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple
from uuid import UUID

import numpy as np
from django.conf import settings

from apps.common.infrastructure.database import fetch_rows
from apps.inventory.selectors import recorded_before
from apps.scheduling.core.patience import patience_s
from apps.scheduling.core.sizing.rate_grid import locality_of
from apps.scheduling.core.sizing.run_time import RunTime
from apps.scheduling.core.sizing.run_time_fit import fit_recent
from apps.scheduling.core.starts.calibration import LEVELS, Scored
from apps.scheduling.core.starts.estimates import KNOWN_PROGRESS, History
from apps.scheduling.core.starts.queue import Holding, ShapeFacts, in_turn, joined
from apps.scheduling.core.types import Within
from apps.scheduling.selectors.backfill import waits_before_reservation_s
from apps.scheduling.selectors.fair_share import dominant_shares
from apps.workloads.core.reasons import Reason
from apps.workloads.core.shapes import WaitsFor
from apps.workloads.selectors import LAUNCH_PROGRESS

MAX_JOBS: Final = 10_000  # waiting jobs with an estimate
WINDOW_S: Final = 7200.0  # cluster seconds of history (Tarcil §4)
RECENT: Final = 400  # submissions that stand for the next ones
ENDED: Final = 2000  # ended jobs of the history
SCORED: Final = 1000  # earlier estimates that correct the next ones


class _Waiting(NamedTuple):
    """A waiting job; agents could first evaluate it at ``ready_s``, after profiling."""

    id: UUID
    submitted_s: float
    ready_s: float
    kind: str


_ShapeJobs = dict[int, list[_Waiting]]

_SHAPES: Final = """
SELECT id, key, priority, project_id, units, min_units, run_s, run_high_s, platforms, labels,
       on_one_server, waits_for, reason_code, waits_for_better
FROM workloads_waitingshape ORDER BY queued_at, id
"""
_OLDEST: Final = """
SELECT s.id, j.id, j.submitted_s, coalesce(j.profiled_s, j.submitted_s), j.target_kind
FROM unnest(%s::bigint[]) AS s(id), LATERAL (
    SELECT j.id, j.submitted_s, j.profiled_s, j.target_kind, j.created_at FROM workloads_job j
    WHERE j.shape_id = s.id ORDER BY j.created_at, j.id LIMIT %s) j
ORDER BY s.id, j.created_at, j.id
"""
_HOLDINGS: Final = f"""
SELECT j.id, a.unit_ids, j.target_kind, coalesce(j.started_s, j.placed_s) + j.suspended_for_s,
       j.run_s, j.run_high_s, CASE WHEN j.started_s IS NULL THEN 0.0 ELSE {LAUNCH_PROGRESS} END
FROM scheduling_allocation a JOIN workloads_job j ON j.id = a.job_id
WHERE a.released_seq IS NULL AND j.suspended_s IS NULL ORDER BY j.id
"""  # noqa: S608 - a constant
_RECENT: Final = """
SELECT j.shape_key, j.submitted_s, j.target_kind, coalesce(j.units_requested, j.units), j.gang,
       j.constraints, j.run_s / (1 - j.progress_before), j.run_high_s / (1 - j.progress_before),
       j.priority, j.held, a.kind
FROM workloads_job j JOIN workloads_application a ON a.id = j.application_id
ORDER BY j.created_at DESC, j.id DESC LIMIT %s
"""
# The wall time bounds the part of the index that is read, as the cluster time has no index.
# OFFSET 0: along this index, newest first, never all jobs that succeeded. The run time of a job
# that was resumed is not known: its last launch had only a part of the work.
_ENDED: Final = """
SELECT target_kind, finished_s - started_s - suspended_for_s, run_s, started_s, finished_s
FROM (
    SELECT target_kind, state, run_s, started_s, finished_s, suspended_for_s, progress_before
    FROM workloads_job
    WHERE finished_at >= %s ORDER BY finished_at DESC OFFSET 0) ended
WHERE state = 'succeeded' AND finished_s > %s AND started_s + suspended_for_s < finished_s
  AND progress_before = 0
LIMIT %s
"""
# A job whose progress is known tells its run time before it ends.
_RUNNING: Final = """
SELECT target_kind, %(now)s - started_s - suspended_for_s, run_s, progress, started_s
FROM workloads_job
WHERE state = 'running' AND suspended_s IS NULL AND run_s > 0 AND started_s > %(since)s
  AND started_s + suspended_for_s < %(now)s AND progress_before = 0
ORDER BY id LIMIT %(limit)s
"""
_SCORED: Final = """
SELECT simulated_s, placed_s - made_s FROM scheduling_startestimate
WHERE placed_s > %s AND simulated_s IS NOT NULL ORDER BY placed_s DESC LIMIT %s
"""


def waiting_queue(now_s: float, new: ShapeFacts | None = None) -> list[ShapeFacts]:
    """Return the waiting shapes in the order of their evaluation, with at most 10,000 jobs.

    Each shape has an equal part of these; what some leave is for the others.

    Parameters
    ----------
    new : of a job that is not submitted yet, where it would wait
    """

    def oldest(shapes: Sequence[int], limit: int) -> _ShapeJobs:
        found: _ShapeJobs = {}
        for shape, *job in fetch_rows(_OLDEST, [list(shapes), limit]):
            found.setdefault(shape, []).append(_Waiting(*job))
        return found

    rows = fetch_rows(_SHAPES)
    by_shape = _jobs_of([row[0] for row in rows], oldest)
    shapes = [_shape(row[1:], by_shape[row[0]], now_s) for row in rows if row[0] in by_shape]
    return in_turn(shapes if new is None else joined(shapes, new), dominant_shares())


def _jobs_of(
    shapes: Sequence[int], oldest: Callable[[Sequence[int], int], _ShapeJobs]
) -> _ShapeJobs:
    """Return the oldest jobs of shapes, at most `MAX_JOBS`: no shape keeps the others out.

    Parameters
    ----------
    oldest : reads at most a number of jobs of each of some shapes
    """
    shapes = shapes[:MAX_JOBS]
    part = MAX_JOBS // max(1, len(shapes))
    found = oldest(shapes, part)
    cut = [shape for shape, jobs in found.items() if len(jobs) == part]
    left = MAX_JOBS - sum(map(len, found.values()))
    if cut and left >= len(cut):
        found |= oldest(cut, part + left // len(cut))
    return found


def _shape(row: Sequence[Any], jobs: Sequence[_Waiting], now_s: float) -> ShapeFacts:
    key, priority, project, units, fewest, run_s, high_s, platforms, labels, *rest = row
    on_one_server, waits_for, reason, waits_for_better = rest
    names = None if platforms is None else json.loads(platforms)
    waited_s = now_s - jobs[0].submitted_s
    kind, run = jobs[0].kind, _run(run_s, high_s)
    lacks_room = reason == Reason.CAPACITY_SHORT
    reserve_s = waits_before_reservation_s(fewest, lacks_room=lacks_room) - waited_s
    patience: list[float] = []
    if waits_for_better:
        longest_s = patience_s(units, kind, run, limit_s=settings.PATIENCE_S, priority=priority)
        patience = [job.ready_s + longest_s - now_s for job in jobs]
        reserve_s = max(reserve_s, patience[0])  # before, agents reserve nothing for it
    return ShapeFacts(
        key=key,
        jobs=[job.id for job in jobs],
        kind=kind,
        units=units,
        fewest=fewest,
        on_one_server=on_one_server,
        platforms=None if names is None else frozenset(names),
        labels=frozenset(json.loads(labels)),
        run=run,
        priority=priority,
        project=project,
        reserve_s=max(0.0, reserve_s),
        # freed units alone let no job start that its quota refuses, and quotas are not simulated
        is_satisfiable=waits_for == WaitsFor.UNITS and reason != Reason.QUOTA_EXCEEDED,
        patience_s=patience,
    )


def _run(run_s: float | None, high_s: float | None) -> RunTime | None:
    return None if run_s is None or high_s is None else RunTime(run_s, high_s)


def holdings(now_s: float) -> list[Holding]:
    """Return the jobs that hold units."""
    found: dict[UUID, Holding] = {}
    for job, units, kind, began_s, run_s, high_s, progress in fetch_rows(_HOLDINGS):
        known = found.get(job)
        if known is not None:
            found[job] = replace(known, unit_ids=[*known.unit_ids, *units])
            continue
        elapsed_s = max(0.0, now_s - (now_s if began_s is None else began_s))
        found[job] = Holding(units, kind, elapsed_s, _run(run_s, high_s), progress)
    return list(found.values())


class Submissions(NamedTuple):
    """Recent submissions: the shape of each, in no order; shapes without waiting jobs; the gap."""

    keys: Sequence[UUID]
    shapes: Sequence[ShapeFacts]
    gap_s: float


def recent_submissions(known: Mapping[UUID, ShapeFacts], now_s: float) -> Submissions:
    """Return the last submissions, at most those of two hours of cluster time.

    Parameters
    ----------
    known : waiting shapes by key
    """
    rows = [row for row in fetch_rows(_RECENT, [RECENT]) if row[1] > now_s - WINDOW_S]
    keys: list[UUID] = []
    shapes: dict[UUID, ShapeFacts] = {}
    for key, _, kind, units, gang, constraints, run_s, high_s, priority, held, of in rows:
        if held or (units is None and key not in known):
            continue  # nothing is known about its size
        keys.append(key)
        if key in known or key in shapes:
            continue
        where = json.loads(constraints)
        locality = locality_of(of, where.get("locality"))
        labels = (where.get("labels") or {}).items()
        shapes[key] = ShapeFacts(
            key=key,
            jobs=(),
            kind=kind,
            units=units,
            fewest=units if gang or locality else 1,
            on_one_server=locality == Within.SERVER,
            platforms=frozenset(where.get("platforms") or ()) or None,
            labels=frozenset(f"{name}={value}" for name, value in labels),
            run=_run(run_s, high_s),
            priority=priority,
        )
    span_s = min(WINDOW_S, now_s)
    if len(rows) == RECENT:
        span_s = now_s - min(row[1] for row in rows)
    span_s = max(1.0, span_s)
    return Submissions(keys, list(shapes.values()), span_s / len(keys) if keys else math.inf)


def run_time_history(now_s: float) -> History:
    """Return the run times of the jobs that ended in the last two hours, by target kind.

    They are fitted to predictions together with the jobs that still run. Jobs that were resumed
    are left out.
    """
    seconds: dict[str, list[float]] = {}
    ended: dict[str, list[tuple[float, float, float]]] = {}
    running: dict[str, list[tuple[float, float]]] = {}
    since_s = now_s - WINDOW_S
    rows = fetch_rows(_ENDED, [recorded_before(since_s) or "-infinity", since_s, ENDED])
    span_s = WINDOW_S
    if len(rows) == ENDED:  # of a part of the window
        span_s = now_s - min(finished_s for *_, finished_s in rows)
    for kind, took_s, run_s, started_s, _ in rows:
        seconds.setdefault(kind, []).append(took_s)
        if run_s:
            ended.setdefault(kind, []).append((run_s, took_s, now_s - started_s))
    values = {"now": now_s, "since": now_s - span_s, "limit": ENDED}
    for kind, elapsed_s, run_s, progress, started_s in fetch_rows(_RUNNING, values):
        if progress >= KNOWN_PROGRESS:
            known = (run_s, elapsed_s / progress, now_s - started_s)
            ended.setdefault(kind, []).append(known)
        else:
            running.setdefault(kind, []).append((run_s, elapsed_s))
    fits = {kind: fit_recent(each, running.get(kind, ()), span_s) for kind, each in ended.items()}
    return History(
        fits={kind: fit for kind, fit in fits.items() if fit is not None},
        seconds={kind: np.array(each) for kind, each in seconds.items()},
    )


def scored_estimates(now_s: float) -> Scored:
    """Return the newest estimates of jobs that were placed in the last two hours."""
    rows = fetch_rows(_SCORED, [now_s - WINDOW_S, SCORED])
    simulated = np.array([row[0] for row in rows], dtype=np.float64).reshape(-1, len(LEVELS))
    return Scored(simulated, np.array([row[1] for row in rows], dtype=np.float64))
