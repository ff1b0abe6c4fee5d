"""Start estimates of waiting jobs: made by a periodic task, kept, and scored when jobs start.

The task reads without locks and holds an advisory lock that only it uses, so that agents never
wait for it. It simulates outside transactions: PostgreSQL ends sessions that idle in one.
"""

import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID

import numpy as np
from django.conf import settings
from django.db import connection, transaction

from apps.common.infrastructure.advisory_locks import AdvisoryLock, held_if_free
from apps.common.infrastructure.database import fetch_rows
from apps.inventory.core.snapshot import Floats, Snapshot
from apps.inventory.selectors import cluster_now
from apps.scheduling.core.start_of_check import NewStart
from apps.scheduling.core.starts.calibration import Scored, calibrate
from apps.scheduling.core.starts.classes import class_of
from apps.scheduling.core.starts.estimates import Queue, Starts, estimate_starts
from apps.scheduling.core.starts.queue import QueueFacts, ShapeFacts, queue_facts
from apps.scheduling.selectors import ClusterFollower
from apps.scheduling.selectors.queue import (
    holdings,
    recent_submissions,
    run_time_history,
    scored_estimates,
    waiting_queue,
)
from apps.scheduling.services.reservations import reservations

CHANGE: Final = 0.2  # of the predicted wait that is left: a smaller change adds no row
MIN_CHANGE_S: Final = 10.0  # cluster seconds
# Of the time since the first estimate of the job: if its start is postponed for ever, the number
# of its rows grows with the logarithm of this time.
MIN_CHANGE_OF_AGE: Final = 0.02
MIN_CHANGE_AHEAD: Final = 0.1  # of the jobs ahead: a smaller change of their number is not stored
NEW_DRAWS: Final = 40  # simulations for a job that is not submitted yet
SCORED: Final = 10_000  # estimates that are scored at once

_LATEST: Final = """
SELECT e.*, first.made_s FROM unnest(%s::uuid[]) AS d(id), LATERAL (
    SELECT job_id, id, ahead, p50_s, p90_s FROM scheduling_startestimate
    WHERE job_id = d.id AND is_open ORDER BY id DESC LIMIT 1) e, LATERAL (
    SELECT made_s FROM scheduling_startestimate
    WHERE job_id = d.id AND is_open ORDER BY id LIMIT 1) first
"""
_COUNT_AHEAD: Final = """
UPDATE scheduling_startestimate e SET ahead = d.ahead
FROM unnest(%s::bigint[], %s::int[]) AS d(id, ahead) WHERE e.id = d.id AND e.is_open
"""
# without the jobs that were placed, or ended, since their starts were simulated
_STORE: Final = """
INSERT INTO scheduling_startestimate
    (job_id, kind, made_s, ahead, p5_s, p50_s, p90_s, p95_s, simulated_s)
SELECT d.job, d.kind, %(now)s, d.ahead, d.p5, d.p50, d.p90, d.p95,
       CASE WHEN d.s95 IS NOT NULL THEN ARRAY[d.s5, d.s50, d.s90, d.s95] END
FROM unnest(%(jobs)s::uuid[], %(kinds)s::text[], %(ahead)s::int[], %(p5)s::float8[],
            %(p50)s::float8[], %(p90)s::float8[], %(p95)s::float8[], %(s5)s::float8[],
            %(s50)s::float8[], %(s90)s::float8[], %(s95)s::float8[])
    AS d(job, kind, ahead, p5, p50, p90, p95, s5, s50, s90, s95)
WHERE EXISTS (SELECT FROM workloads_job j WHERE j.id = d.job AND j.shape_id IS NOT NULL)
"""
# A job that was requeued after a placement is not waiting for the old estimate, also if it is in a
# shape again.
_SCORE: Final = """
UPDATE scheduling_startestimate e
SET is_open = false, placed_s = CASE WHEN d.placed_s >= e.made_s THEN d.placed_s END
FROM (
    SELECT o.id, j.placed_s FROM scheduling_startestimate o
    LEFT JOIN workloads_job j ON j.id = o.job_id
    WHERE o.is_open AND (j.id IS NULL OR j.shape_id IS NULL OR j.placed_s > o.made_s)
    ORDER BY o.id LIMIT %s FOR UPDATE OF o SKIP LOCKED) d
WHERE e.id = d.id
"""


class _Latest(NamedTuple):
    """The newest open row of a job; ``first_s`` = when the first open one was made."""

    id: int
    ahead: int
    p50_s: float | None
    p90_s: float | None
    first_s: float


class _Estimate(NamedTuple):
    """A new row."""

    job: UUID
    kind: str
    ahead: int
    quantiles: Sequence[float | None]  # absolute: p5, p50, p90, p95
    simulated: Sequence[float | None]  # seconds from now


def update_start_estimates(cluster: ClusterFollower, rng: np.random.Generator) -> int:
    """Score the estimates of jobs that started, and estimate again; the number of new rows.

    Costs at most `core.start_estimates.BUDGET` events. Returns 0 if another process estimates.
    """
    with held_if_free(AdvisoryLock.START_ESTIMATES) as is_ours:
        return _update(cluster, rng) if is_ours else 0


def _update(cluster: ClusterFollower, rng: np.random.Generator) -> int:
    _score()
    now_s = cluster_now()
    waiting = waiting_queue(now_s)
    if not waiting:
        return 0  # before the change log is read: it is long while nothing waits
    facts, queue = _queue(waiting, cluster.follow().snapshot(), now_s)
    if not facts.jobs:
        return 0
    starts = estimate_starts(queue, rng)
    return _store(_estimates(facts, starts, scored_estimates(now_s), now_s), now_s)


def _score() -> None:
    with connection.cursor() as cursor:
        cursor.execute(_SCORE, [SCORED])


def start_of_new(shape: ShapeFacts, snapshot: Snapshot, rng: np.random.Generator) -> NewStart:
    """Estimate the start of a job that would be submitted now. Costs `NEW_DRAWS` simulations."""
    now_s = cluster_now()
    facts, queue = _queue(waiting_queue(now_s, new=shape), snapshot, now_s)
    starts = estimate_starts(queue, rng, draws=NEW_DRAWS)
    own = _waits(starts)[[facts.jobs.index(shape.jobs[0])]]
    ((_, p50_s, p90_s, _),) = calibrate(own, scored_estimates(now_s)).tolist()
    return NewStart(_finite(p50_s), _finite(p90_s))


def _queue(
    waiting: Sequence[ShapeFacts], snapshot: Snapshot, now_s: float
) -> tuple[QueueFacts, Queue]:
    """Read what the starts of the waiting shapes depend on."""
    known = {shape.key: shape for shape in waiting}
    recent = recent_submissions(known, now_s)
    facts = queue_facts(
        snapshot,
        [*waiting, *recent.shapes],
        holdings(now_s),
        reservations(),
        now_s=now_s,
    )
    return facts, Queue(
        pools=facts.pools,
        groups=facts.groups,
        running=facts.running,
        arriving=[facts.group_of[key] for key in recent.keys],
        gap_s=recent.gap_s,
        history=run_time_history(now_s),
        max_reservations=settings.MAX_RESERVATIONS,
    )


def _waits(starts: Starts) -> Floats:
    """(n, 4) simulated quantiles of the waits."""
    return np.column_stack(starts[:4])


def _estimates(facts: QueueFacts, starts: Starts, scored: Scored, now_s: float) -> list[_Estimate]:
    kinds = [
        class_of(group.kind, group.units) for group in facts.groups for _ in range(group.jobs)
    ]
    simulated = _waits(starts)
    waits = calibrate(simulated, scored)
    # the errors of other jobs delay no start that is reserved
    is_known = np.isfinite(simulated[:, :1])
    waits = np.where(is_known, np.minimum(waits, facts.reserved_s[:, None]), waits)
    corrected = now_s + waits
    order = np.argsort(corrected[:, 1], kind="stable")  # by p50, as it is shown
    ahead = np.empty(order.size, dtype=np.int64)
    ahead[order] = np.arange(order.size)
    return [
        _Estimate(job, kind, count, _all_finite(quantiles), _all_finite(waits))
        for job, kind, count, quantiles, waits in zip(
            facts.jobs,
            kinds,
            ahead.tolist(),
            corrected.tolist(),
            simulated.tolist(),
            strict=True,
        )
    ]


def _all_finite(values: Sequence[float]) -> list[float | None]:
    return [_finite(value) for value in values]


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


@transaction.atomic
def _store(estimates: Sequence[_Estimate], now_s: float) -> int:
    """Add the estimates that differ from the open ones of their jobs; update the jobs ahead."""
    rows = fetch_rows(_LATEST, [[e.job for e in estimates]])
    latest = {job: _Latest(*row) for job, *row in rows}
    new, same = [], []
    for each in estimates:
        old = latest.get(each.job)
        if old is None or _differs(each, old, now_s):
            new.append(each)
        elif abs(each.ahead - old.ahead) > MIN_CHANGE_AHEAD * each.ahead:
            same.append((old.id, each.ahead))
    if same:
        ids, ahead = zip(*sorted(same), strict=True)
        with connection.cursor() as cursor:
            cursor.execute(_COUNT_AHEAD, [list(ids), list(ahead)])
    if not new:
        return 0
    values: dict[str, Any] = {
        "now": now_s,
        "jobs": [each.job for each in new],
        "kinds": [each.kind for each in new],
        "ahead": [each.ahead for each in new],
    }
    for i, level in enumerate(("5", "50", "90", "95")):
        values[f"p{level}"] = [each.quantiles[i] for each in new]
        values[f"s{level}"] = [each.simulated[i] for each in new]
    with connection.cursor() as cursor:
        cursor.execute(_STORE, values)
        return cursor.rowcount


def _differs(new: _Estimate, old: _Latest, now_s: float) -> bool:
    min_s = max(MIN_CHANGE_S, MIN_CHANGE_OF_AGE * (now_s - old.first_s))
    for before, after in zip((old.p50_s, old.p90_s), new.quantiles[1:3], strict=True):
        if before is None or after is None:
            if before is not after:
                return True
        elif abs(after - before) > max(min_s, CHANGE * (before - now_s)):
            return True
    return False
