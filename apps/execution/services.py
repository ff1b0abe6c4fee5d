"""Writes of execution: launches, what their ends mean, and repairs of what was lost.

A backend claims launches and reports on them; the emulated one does so in SQL of its own
(`backends.emulated.control_plane`).
"""

import json
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, Protocol
from uuid import UUID

import numpy as np
from django.db import connection, transaction
from django.utils import timezone

from apps.classification import services as classification
from apps.common.poke import poke
from apps.execution.core.migration import MoveOutcome
from apps.execution.locks import lock_launches_of
from apps.execution.move_reports import end_moves, end_stranded_moves
from apps.inventory import services as inventory
from apps.inventory.models import ClusterFrame
from apps.inventory.selectors import cluster_clock, cluster_now, silent_servers
from apps.profiling import services as profiling
from apps.scheduling import services as scheduling
from apps.scheduling.services.release import AGENT_QUEUE, AGENT_TASK
from apps.workloads import services as workloads
from apps.workloads.core.lifecycle import JobState
from apps.workloads.core.reasons import Reason

CLASSIFY_TASK: Final = "execution.classify"
CLASSIFY_QUEUE: Final = "default"
MAX_ATTEMPTS: Final = 5  # launches of one job
SILENT_S: Final = 30.0  # wall seconds without a heartbeat
FRAME_S: Final = 60.0  # cluster seconds


class MeasuredCell(Protocol):
    """One cell a backend measured (`profiling.services.NewMeasurement`)."""

    @property
    def matrix(self) -> str:
        """Name of the utility matrix."""

    @property
    def column(self) -> str:
        """Label of the column."""

    @property
    def value(self) -> float:
        """What was measured, in the matrix' unit."""

    @property
    def standard_error(self) -> float:
        """Of the value, in its unit."""

    @property
    def samples(self) -> int:
        """Number of values averaged."""


# ---- launches ----

_REQUEST: Final = """
WITH ready AS MATERIALIZED (
    SELECT j.id, j.attempts, j.placed_at, j.predicted->>'setting' AS setting
    FROM workloads_job j
    WHERE j.state = 'starting' AND NOT EXISTS (
        SELECT FROM execution_launch l
        WHERE l.job_id = j.id AND (l.state <> 'ended' OR l.attempt = j.attempts))
    -- locked: a job that loses its place meanwhile must not be launched by what we saw before
    ORDER BY j.placed_at, j.id LIMIT %s FOR NO KEY UPDATE SKIP LOCKED)
INSERT INTO execution_launch (job_id, attempt, backend, state, "order", cancel_requested,
                              claimed_by, created_at, outcome, message)
SELECT r.id, r.attempts, %s, 'requested',
       jsonb_strip_nulls(jsonb_build_object(
           'parts',
           jsonb_agg(jsonb_build_array(a.server_id, a.cores) ORDER BY a.server_id),
           'setting', r.setting)),
       false, '', now(), '', ''
FROM ready r
JOIN scheduling_allocation a ON a.job_id = r.id AND a.released_seq IS NULL
GROUP BY r.id, r.attempts, r.placed_at, r.setting ORDER BY r.placed_at, r.id
ON CONFLICT DO NOTHING
"""


def request_launches(backend: str, *, limit: int) -> int:
    """Make a launch of each job that has its units and none yet; returns how many.

    Called by the backend when it asks for work, so a committed job never waits for a message.
    """
    with connection.cursor() as cursor:
        cursor.execute(_REQUEST, [limit, backend])
        return cursor.rowcount


def release_jobs(job_ids: Sequence[UUID]) -> None:
    """Give back the units of jobs that have just ended, in the transaction that ended them."""
    end_moves(job_ids, outcome=MoveOutcome.CANCELLED, message="the job ended before it arrived")
    scheduling.release(job_ids)


def take_measurements(run: UUID, at_s: float, cells: Iterable[MeasuredCell]) -> None:
    """Take in what a profiling run measured; a worker draws the profile from it.

    In the caller's transaction. The same report twice changes nothing.
    """
    new = [
        profiling.NewMeasurement(c.matrix, c.column, c.value, c.standard_error, c.samples)
        for c in cells
    ]
    application = profiling.record_measurements(run, at_s=at_s, cells=new)
    if application is not None:
        classification.request_folds([application.id])
        poke(CLASSIFY_TASK, queue=CLASSIFY_QUEUE)


def draw_profiles() -> int:
    """Draw all profiles that are wanted; their jobs go on. Returns how many were drawn."""
    drawn = 0
    while new := classification.fold_pending():
        drawn += new
        poke(AGENT_TASK, queue=AGENT_QUEUE)
    return drawn


# ---- repairs ----

# not where units are only reserved: the job works elsewhere until it has moved there
_LOST: Final = """
SELECT DISTINCT j.id, j.attempts FROM workloads_job j
JOIN scheduling_allocation a ON a.job_id = j.id AND a.released_seq IS NULL
     AND (a.moved_from IS NULL OR a.moved_s IS NOT NULL)
JOIN inventory_server s ON s.id = a.server_id
WHERE j.state IN ('starting', 'running') AND (s.state = 'down' OR s.id = ANY(%s))
"""


def recover_lost(*, silent_before: datetime) -> int:
    """Queue the jobs anew whose servers are down or silent; those launched too often fail.

    Returns how many jobs lost their place.
    """
    silent = silent_servers(silent_before=silent_before).values_list("id", flat=True)
    with connection.cursor() as cursor:
        cursor.execute(_LOST, [list(silent)])
        lost = cursor.fetchall()
    again = [job for job, attempts in lost if attempts < MAX_ATTEMPTS]
    ended = [job for job, attempts in lost if attempts >= MAX_ATTEMPTS]
    message = "a server of the job went silent"
    if again:
        _take_away(
            again,
            lambda: workloads.requeue_lost(again, reason=Reason.BACKEND_LOST, message=message),
        )
    if ended:
        now_s = cluster_now()
        failed = [
            workloads.Ended(
                job, JobState.FAILED, now_s, Reason.TOO_MANY_ATTEMPTS,
                f"{message}, as before: {MAX_ATTEMPTS} launches",
            )
            for job in ended
        ]  # fmt: skip
        _take_away(ended, lambda: workloads.end_jobs(failed))
    return len(lost)


def _take_away(job_ids: Sequence[UUID], move: Any) -> None:
    """End the launches of jobs and release their units, with the move of the jobs."""
    with transaction.atomic(), connection.cursor() as cursor:
        lock_launches_of(job_ids)
        moved = move()
        ids = [row[0] for row in moved]
        cursor.execute(
            """UPDATE execution_launch SET state = 'ended', outcome = 'lost', ended_s = %s,
                      message = 'its server went silent', claimed_until = NULL
               WHERE job_id = ANY(%s) AND state <> 'ended'""",
            [cluster_now(), ids],
        )
        end_moves(ids, outcome=MoveOutcome.FAILED, message="a server of the job went silent")
        scheduling.release(ids)
        workloads.record_moves(moved)


def sweep() -> None:
    """Find what stopped without saying so: servers, launches, migrations, profiling runs."""
    silent_before = timezone.now() - timedelta(seconds=SILENT_S)
    inventory.keep_clock()
    inventory.revive_and_bury(silent_before=silent_before)
    recover_lost(silent_before=silent_before)
    end_stranded_moves()
    profiling.end_cancelled_runs()
    profiling.give_up_runs()
    classification.repair_waiting()


# ---- frames ----

# what a server said last is not how it is once it has gone silent
_SERVERS: Final = """
SELECT s.cores, s.used_cores, r.cpu_share, r.memory_share, r.watts
FROM inventory_server s
LEFT JOIN inventory_serverreading r ON r.server_id = s.id AND r.at >= %s AND s.state <> 'down'
ORDER BY s.id
"""
_STATES: Final = "SELECT state, count(*) FROM workloads_job GROUP BY state"
_TARGETS: Final = """
SELECT count(*) FILTER (WHERE attainment >= 1), count(*) FROM workloads_job
WHERE state = 'running' AND attainment IS NOT NULL
"""
_WAITING: Final = """
SELECT reason_code, count(*) FROM workloads_job
WHERE state IN ('submitted', 'profiling', 'queued') GROUP BY reason_code
"""


def keep_frame() -> bool:
    """Keep how the cluster looks, once each cluster minute; False where that was done before.

    ``facts`` of a frame: ``jobs`` by state, ``targets`` (met and measured, of running jobs),
    ``waiting`` jobs by reason.
    """
    now = timezone.now()
    minute_s = FRAME_S * (cluster_clock().at(now.timestamp()) // FRAME_S)
    if ClusterFrame.objects.filter(cluster_s=minute_s).exists():
        return False
    servers = _rows(_SERVERS, now - timedelta(seconds=SILENT_S))
    if not servers:
        return False
    columns = [np.array([row[i] for row in servers], dtype=np.float64) for i in range(5)]
    cores, used, cpu, memory, watts = columns
    known = ~np.isnan(cpu)
    ((met, measured),) = _rows(_TARGETS)
    facts = {
        "jobs": dict(_rows(_STATES)),
        "targets": {"met": met, "measured": measured},
        "waiting": {reason or "None": count for reason, count in _rows(_WAITING)},
    }
    heard = float(cores[known].sum())
    with connection.cursor() as cursor:
        cursor.execute(
            """INSERT INTO inventory_clusterframe (at, cluster_s, server_cpu, server_allocated,
                   servers, units, units_allocated, cpu_share, memory_share, watts, servers_on,
                   facts)
               VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
               ON CONFLICT (cluster_s) DO NOTHING""",
            [
                *(now, minute_s, _bytes(cpu), _bytes(used / cores), len(servers)),
                *(int(cores.sum()), int(used.sum())),
                float((cpu * cores)[known].sum() / heard) if heard else 0.0,
                float((memory * cores)[known].sum() / heard) if heard else 0.0,
                float(np.nansum(watts)),
                int(known.sum()),
                json.dumps(facts),
            ],
        )
    return True


def _bytes(shares: "np.ndarray[Any, np.dtype[np.float64]]") -> bytes:
    """One byte per server: half percents, 255 = not known."""
    steps = np.where(np.isnan(shares), 255.0, np.clip(np.rint(200.0 * shares), 0.0, 200.0))
    return steps.astype(np.uint8).tobytes()


def _rows(sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return cursor.fetchall()
