"""The control plane as the emulator sees it: launches and profiling runs in PostgreSQL.

Every report is one transaction of a few statements, whatever the number of jobs, and may arrive
twice: a launch moves only forward (requested, running, ended), and only those that moved are told
further.
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from django.db import connection, transaction
from django.utils import timezone

from apps.common.core.clock import ClusterClock
from apps.common.db import copy_rows
from apps.emulation.core.events import ServerReadings
from apps.emulation.core.probe import Measured, Step
from apps.execution.backends.emulated.port import (
    EndReport,
    JobReport,
    LaunchOrder,
    MoveOrder,
    MoveReport,
    ProfilingOrder,
    ProfilingReport,
    Site,
)
from apps.execution.backends.emulated.rows import (
    SAMPLE_COLUMNS,
    ended_job,
    launch_order,
    profiling_order,
    reported_job,
)
from apps.execution.backends.emulated.site import read_site
from apps.execution.locks import lock_launches
from apps.execution.models import JobSample
from apps.execution.move_reports import claim_moves, take_move_reports
from apps.inventory import selectors as inventory
from apps.inventory import services as inventory_services
from apps.inventory.core.snapshot import Ints
from apps.profiling import selectors as profiling_selectors
from apps.profiling import services as profiling
from apps.profiling.services import MAX_ATTEMPTS
from apps.workloads import services as workloads

BACKEND: Final = "emulated"
LAUNCH_LEASE_S: Final = 10.0  # wall seconds from claim to start
PROFILING_LEASE_S: Final = 15.0
RENEW_S: Final = 5.0
_LIVE: Final = """
SELECT l.id, a.name, a.kind, l."order", j.target, j.input_bytes, j.tasks_total, j.duration_s,
       j.progress
FROM execution_launch l
JOIN workloads_job j ON j.id = l.job_id
JOIN workloads_application a ON a.id = j.application_id
WHERE l.backend = %s AND l.state = 'running' ORDER BY l.id
"""
_CLAIM: Final = """
WITH claimed AS (
    UPDATE execution_launch SET claimed_by = %s, claimed_until = %s
    WHERE id = ANY(ARRAY(
        SELECT id FROM execution_launch
        WHERE backend = %s AND state = 'requested' AND NOT cancel_requested
          AND (claimed_until IS NULL OR claimed_until < %s OR claimed_by = %s)
        ORDER BY id LIMIT %s FOR UPDATE SKIP LOCKED))
    RETURNING id, "order", job_id)
SELECT l.id, a.name, a.kind, l."order", j.target, j.input_bytes, j.tasks_total, j.duration_s,
       j.progress
FROM claimed l
JOIN workloads_job j ON j.id = l.job_id
JOIN workloads_application a ON a.id = j.application_id
ORDER BY l.id
"""
_CLAIM_PROFILING: Final = """
WITH claimed AS (
    UPDATE profiling_profilingrun
    SET state = 'running', claimed_by = %s, claimed_until = %s,
        attempts = attempts + 1, started_s = coalesce(started_s, %s)
    WHERE id = ANY(ARRAY(
        SELECT r.id FROM profiling_profilingrun r
        WHERE (r.state = 'queued' OR (r.state = 'running' AND r.claimed_until < %s
                                      AND r.attempts < %s))
          AND NOT EXISTS (
            SELECT FROM operations_operation o
            WHERE o.id = r.operation_id AND (o.cancel_requested OR o.status = 'cancelled'))
        ORDER BY r.created_at LIMIT %s FOR UPDATE OF r SKIP LOCKED))
    RETURNING id, application_id, plan, seed, attempts)
SELECT c.id, a.name, a.kind, c.plan, c.seed, c.attempts FROM claimed c
JOIN workloads_application a ON a.id = c.application_id ORDER BY c.id
"""


@dataclass(frozen=True, slots=True)
class Hooks:
    """What the end of a job or a profiling run means elsewhere; called in the transaction.

    Attributes
    ----------
    request : make launches of at most so many jobs that wait for this backend
    release : give back all units of these jobs
    measured : take in the cells of a profiling run, and mark it done
    """

    request: Callable[[str, int], object]
    release: Callable[[Sequence[UUID]], None]
    measured: Callable[[UUID, float, Sequence[Measured]], None]


class DatabaseControlPlane:
    """Implements `port.ControlPlane` on the tables of execution, workloads and inventory."""

    def __init__(self, *, worker: str, hooks: Hooks) -> None:
        self._worker, self._hooks = worker, hooks
        self._renewed = timezone.now()

    def clock(self) -> ClusterClock:
        """Read how cluster time runs now."""
        return inventory.cluster_clock()

    def site(self) -> Site:
        """Read the servers as they are now."""
        return read_site()

    def site_version(self) -> int:
        """Read the version of the servers, cheaply."""
        return inventory.topology_version()

    def live_launches(self) -> list[LaunchOrder]:
        """Read what this backend had running before a restart, with its progress."""
        rows = _rows(_LIVE, [BACKEND])
        return [launch_order(row) for row in rows]

    def claim_launches(self, limit: int) -> list[LaunchOrder]:
        """Claim launches to start now; claims expired, or of this process, are claimed again."""
        self._hooks.request(BACKEND, limit)
        now = timezone.now()
        until = now + timedelta(seconds=LAUNCH_LEASE_S)
        rows = _rows(_CLAIM, [self._worker, until, BACKEND, now, self._worker, limit])
        return [launch_order(row) for row in rows]

    def cancelled_launches(self) -> list[int]:
        """Read which launches of this backend somebody wants stopped."""
        rows = _rows(
            """SELECT l.id FROM execution_launch l JOIN workloads_job j ON j.id = l.job_id
               WHERE l.backend = %s AND l.state IN ('requested', 'running')
                 AND (l.cancel_requested OR j.cancel_requested) ORDER BY l.id""",
            [BACKEND],
        )
        return [launch for (launch,) in rows]

    def ended_launches(self, launches: Sequence[int]) -> list[int]:
        """Read which of these launches are over for the control plane, whatever runs here."""
        rows = _rows(
            "SELECT id FROM execution_launch WHERE id = ANY(%s) AND state = 'ended' ORDER BY id",
            [list(launches)],
        )
        return [launch for (launch,) in rows]

    def claim_moves(self, limit: int, *, doing: Collection[int] = ()) -> list[MoveOrder]:
        """Claim migrations to begin now, and keep the claims of those this process is doing."""
        orders = claim_moves(BACKEND, worker=self._worker, limit=limit, doing=doing)
        return [MoveOrder(*order) for order in orders]

    def report_moves(self, reports: Sequence[MoveReport]) -> None:
        """Tell which migrations have begun, arrived or failed."""
        take_move_reports(reports)

    def claim_profiling(self, limit: int, *, doing: Collection[UUID] = ()) -> list[ProfilingOrder]:
        """Claim profiling runs to do now; those of a process that died are claimed again.

        The claims of `doing` are kept. A claim whose answer got lost is not among them, so it
        runs out like that of a dead process.
        """
        now = timezone.now()
        self._renew(now, doing)
        lease = [self._worker, now + timedelta(seconds=PROFILING_LEASE_S)]
        begun_s = inventory.cluster_clock().at(now.timestamp())
        with transaction.atomic():
            rows = _rows(_CLAIM_PROFILING, [*lease, begun_s, now, MAX_ATTEMPTS, limit])
            orders = [profiling_order(row) for row in rows]
            profiling.record_begun([order.run for order in orders])
        return orders

    def _renew(self, now: datetime, doing: Collection[UUID]) -> None:
        """Keep the leases of the runs this process is doing."""
        if not doing or (now - self._renewed).total_seconds() < RENEW_S:
            return
        with connection.cursor() as cursor:
            cursor.execute(
                """UPDATE profiling_profilingrun SET claimed_until = %s
                   WHERE state = 'running' AND claimed_by = %s AND id = ANY(%s)""",
                [now + timedelta(seconds=PROFILING_LEASE_S), self._worker, list(doing)],
            )
        self._renewed = now

    def report_started(self, launches: Mapping[int, float]) -> None:
        """Tell which launches run, since when."""
        ids = sorted(launches)
        with transaction.atomic():
            lock_launches(ids)
            moved = _rows(
                """UPDATE execution_launch l SET state = 'running', started_s = d.at,
                          claimed_until = NULL
                   FROM unnest(%s::bigint[], %s::float8[]) AS d(id, at)
                   WHERE l.id = d.id AND l.state = 'requested' RETURNING l.job_id, l.started_s""",
                [ids, [launches[launch] for launch in ids]],
            )
            workloads.record_moves(workloads.start_running(dict(moved)))

    def report_ended(self, reports: Sequence[EndReport]) -> None:
        """Tell which launches run no more; their jobs end and their units are given back."""
        rows = sorted(reports, key=lambda report: report.launch)
        with transaction.atomic():
            lock_launches(row.launch for row in rows)
            moved = _rows(
                """UPDATE execution_launch l SET state = 'ended', ended_s = d.at,
                          outcome = d.outcome, message = left(d.message, 500), claimed_until = NULL
                   FROM unnest(%s::bigint[], %s::float8[], %s::text[], %s::text[])
                        AS d(id, at, outcome, message), workloads_job j
                   WHERE l.id = d.id AND l.state <> 'ended' AND j.id = l.job_id
                   RETURNING l.job_id, l.ended_s, l.outcome, l.message, j.target, j.submitted_s""",
                [
                    [row.launch for row in rows],
                    [row.at_s for row in rows],
                    [row.outcome for row in rows],
                    [row.message for row in rows],
                ],
            )
            ended = workloads.end_jobs([ended_job(row) for row in moved])
            self._hooks.release([row[0] for row in moved])
            workloads.record_moves(ended)

    def report_jobs(self, at_s: float, reports: Sequence[JobReport]) -> None:
        """Tell how running launches are doing."""
        by_launch = {report.launch: report for report in reports}
        rows = _rows(
            """SELECT l.id, j.id, j.target, j.submitted_s FROM execution_launch l
               JOIN workloads_job j ON j.id = l.job_id
               WHERE l.id = ANY(%s) AND l.state = 'running'""",
            [list(by_launch)],
        )
        seen = [reported_job(by_launch[launch], at_s, *job) for launch, *job in rows]
        known = [row for row in seen if math.isfinite(row.report.performance)]
        with transaction.atomic():
            workloads.report_progress([row.report for row in known])
            copy_rows(JobSample._meta.db_table, SAMPLE_COLUMNS, (row.sample for row in known))

    def report_servers(self, at_s: float, server_id: Ints, readings: ServerReadings) -> None:
        """Tell that every server is alive, and its use; and how far cluster time has come."""
        columns = zip(
            server_id.tolist(),
            readings.cpu_share.tolist(),
            readings.memory_share.tolist(),
            readings.network_share.tolist(),
            readings.storage_share.tolist(),
            readings.watts.tolist(),
            strict=True,
        )
        inventory_services.record_readings(
            (inventory_services.Reading(*row) for row in columns),
            backend=BACKEND,
            at=timezone.now(),
            cluster_s=at_s,
        )
        inventory_services.touch_clock(cluster_s=at_s)

    def profiling_to_stop(self, doing: Collection[UUID]) -> list[UUID]:
        """Read which of these profiling runs are cancelled or over, whatever runs here."""
        profiling.end_cancelled_runs()
        return profiling_selectors.runs_to_stop(doing)

    def report_stopped(self, runs: Sequence[UUID]) -> None:
        """Tell that the copies of profiling runs are stopped."""
        profiling.stop_runs(runs)

    def report_steps(self, steps: Mapping[UUID, Step]) -> None:
        """Tell how far profiling runs are that go on."""
        profiling.record_progress(
            {
                run: profiling.Progress(step.done, step.total, step.what)
                for run, step in steps.items()
            }
        )

    def report_measurements(self, report: ProfilingReport) -> None:
        """Hand in what profiling runs measured; they are done."""
        gaps = [profiling.MissingCell(g.matrix, g.column, g.reason) for g in report.missing]
        with transaction.atomic():
            self._hooks.measured(report.run, report.at_s, report.cells)
            profiling.record_done(report.run, seconds=report.seconds, missing=gaps)

    def report_failed(self, run: UUID, at_s: float, reason: str) -> None:
        """Tell that a profiling run could not be done; it is tried again, a few times."""
        profiling.record_failure(run, at_s=at_s, reason=reason)


# Django leaves JSON columns of plain cursors as text
def _rows(sql: str, parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return cursor.fetchall()
