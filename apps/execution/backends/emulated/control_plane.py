"""The control plane for the emulator: launches and profiling runs in PostgreSQL.

A report is one transaction of a few statements for any number of jobs, and may arrive twice:
the state of a launch only advances (requested, running, ended), and only a change of state has
effects.

Every claim and report requires that this process still runs the backend (`hold`), and is run again
once if PostgreSQL rolled it back for a deadlock.
"""

import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from apps.common.core.clock import ClusterClock
from apps.common.infrastructure.database import (
    commit_without_flush,
    copy_rows,
    database_now,
    fetch_rows,
    without_index,
)
from apps.common.infrastructure.transactions import retry_once
from apps.emulation.core.events import ServerReadings
from apps.emulation.core.worlds import PAPER, world_named
from apps.execution.backends.emulated.growth import grown_launches, record_grown
from apps.execution.backends.emulated.port import (
    GrownLaunch,
    JobReport,
    LaunchOrder,
    ProfilingOrder,
    ProfilingReport,
    Site,
)
from apps.execution.backends.emulated.rows import (
    SAMPLE_COLUMNS,
    launch_order,
    profiling_order,
    reported_job,
)
from apps.execution.backends.emulated.site import read_site
from apps.execution.core.migration import MigrationOrder, MigrationReport
from apps.execution.core.port import EndReport
from apps.execution.models import JobSample
from apps.execution.selectors import has_open_migrations
from apps.execution.services.backend_holders import (
    HOLD_S,
    acquire_backend,
    as_holder,
    renew_backend,
)
from apps.execution.services.launch_reports import record_launches
from apps.execution.services.migration_reports import (
    cancel_claimed,
    claim_migrations,
    record_migration_reports,
)
from apps.inventory import selectors as inventory
from apps.inventory import services as inventory_services
from apps.inventory.core.backends import EMULATED
from apps.inventory.core.snapshot import Ints
from apps.inventory.models import CLOCK_UNSEEN_S
from apps.profiling import selectors as profiling_selectors
from apps.profiling import services as profiling
from apps.profiling.core.measurements import MeasuredCell, ProfilingStep
from apps.workloads import services as workloads

BACKEND: Final = EMULATED
LAUNCH_LEASE_S: Final = 10.0  # wall seconds from claim to start
PROFILING_LEASE_S: Final = 15.0
RENEW_S: Final = 5.0
_LIVE_LAUNCHES: Final = """
SELECT l.id, a.name, a.kind, l."order", j.target, j.input_bytes, j.tasks_total, j.duration_s,
       j.progress, j.placed_s, l.started_s
FROM execution_launch l
JOIN workloads_job j ON j.id = l.job_id
JOIN workloads_application a ON a.id = j.application_id
WHERE l.backend = %s AND l.state = 'running' ORDER BY l.id
"""
_REPORTED: Final = f"""
SELECT l.id, j.id, j.target, j.submitted_s
FROM execution_launch l JOIN workloads_job j ON j.id = l.job_id
WHERE l.id = ANY(%s) AND {without_index("l.state = 'running'")}
"""  # noqa: S608 - a constant
_CLAIM_LAUNCHES: Final = """
WITH claimed AS (
    UPDATE execution_launch
    SET claimed_by = %s, claimed_until = clock_timestamp() + make_interval(secs => %s)
    WHERE id = ANY(ARRAY(
        SELECT id FROM execution_launch
        WHERE backend = %s AND state = 'requested' AND NOT cancel_requested
          AND (claimed_until IS NULL OR claimed_until < clock_timestamp() OR claimed_by = %s)
        ORDER BY id LIMIT %s FOR UPDATE SKIP LOCKED))
    RETURNING id, "order", job_id, started_s)
SELECT l.id, a.name, a.kind, l."order", j.target, j.input_bytes, j.tasks_total, j.duration_s,
       j.progress, j.placed_s, l.started_s
FROM claimed l
JOIN workloads_job j ON j.id = l.job_id
JOIN workloads_application a ON a.id = j.application_id
ORDER BY l.id
"""


@dataclass(frozen=True, slots=True)
class Hooks:
    """Services outside this backend, called within its transactions.

    Attributes
    ----------
    request_launches : create at most ``limit`` launches of waiting jobs for a backend
    release_jobs : release all units of ended jobs
    record_measurements : store the cells of a profiling run and mark it done
    """

    request_launches: Callable[[str, int], object]
    release_jobs: Callable[[Sequence[UUID]], None]
    record_measurements: Callable[[UUID, float, Sequence[MeasuredCell]], None]


class DatabaseControlPlane:
    """Implements `port.ControlPlane` on the tables of execution, workloads and inventory."""

    def __init__(self, *, worker: str, hooks: Hooks, world: str = PAPER.name) -> None:
        self._worker, self._hooks, self._world = worker, hooks, world_named(world)
        self._token = 0  # of no holder
        self._renewed_s = time.monotonic()

    @retry_once
    def hold(self) -> None:
        """Become the process that runs this backend, and take over its live launches.

        Raises
        ------
        BackendHeldError : another process runs it.
        """
        self._token = acquire_backend(BACKEND, worker=self._worker)

    @retry_once
    def renew(self, launches: Collection[int]) -> None:
        """Renew the leases of the backend and of the launches that run here."""
        renew_backend(BACKEND, self._token, launches)

    def clock(self) -> ClusterClock:
        """Read the cluster clock as a function of this process's monotonic clock."""
        now, read_s = inventory.cluster_time(), time.monotonic()
        return ClusterClock(
            wall_anchor_s=read_s,
            cluster_anchor_s=now.cluster_s,
            speed=now.speed,
            max_s=now.cluster_s + CLOCK_UNSEEN_S * now.speed,
        )

    def site(self) -> Site:
        """Read the current servers."""
        return read_site(self._world)

    def site_version(self) -> int:
        """Read the version of the servers; cheap."""
        return inventory.topology_version()

    def live_launches(self) -> list[LaunchOrder]:
        """Read the running launches of this backend, with the progress of their jobs."""
        rows = fetch_rows(_LIVE_LAUNCHES, [BACKEND])
        return [launch_order(row) for row in rows]

    @retry_once
    def claim_launches(self, limit: int) -> list[LaunchOrder]:
        """Claim launches to start, including expired claims and those of this process."""
        with self._as_holder():
            self._hooks.request_launches(BACKEND, limit)
            rows = fetch_rows(
                _CLAIM_LAUNCHES, [self._worker, LAUNCH_LEASE_S, BACKEND, self._worker, limit]
            )
        return [launch_order(row) for row in rows]

    def cancelled_launches(self) -> list[int]:
        """Read the live launches of this backend that have been cancelled."""
        rows = fetch_rows(
            """SELECT l.id FROM execution_launch l JOIN workloads_job j ON j.id = l.job_id
               WHERE l.backend = %s AND l.state IN ('requested', 'running')
                 AND (l.cancel_requested OR j.cancel_requested) ORDER BY l.id""",
            [BACKEND],
        )
        return [launch for (launch,) in rows]

    def ended_launches(self, launches: Sequence[int]) -> list[int]:
        """Read which of these launches have ended in the control plane."""
        rows = fetch_rows(
            "SELECT id FROM execution_launch WHERE id = ANY(%s) AND state = 'ended' ORDER BY id",
            [list(launches)],
        )
        return [launch for (launch,) in rows]

    def grown_launches(self) -> list[GrownLaunch]:
        """Read the running launches of this backend whose jobs were given more units."""
        return grown_launches(BACKEND)

    @retry_once
    def report_grown(self, at_s: float, grown: Sequence[GrownLaunch]) -> None:
        """Report that launches run on these parts."""
        with self._as_holder():
            record_grown(at_s, {row.launch: row.parts for row in grown})

    @retry_once
    def claim_migrations(self, limit: int, *, doing: Collection[int] = ()) -> list[MigrationOrder]:
        """Claim migrations to start, and renew the leases of those in progress here."""
        if not has_open_migrations():
            return []
        with self._as_holder():
            orders, cancelled = claim_migrations(
                BACKEND, worker=self._worker, limit=limit, doing=doing
            )
        if cancelled:
            with self._as_holder():
                cancel_claimed(cancelled)
        return orders

    @retry_once
    def report_migrations(self, reports: Sequence[MigrationReport]) -> None:
        """Report started, completed and failed migrations."""
        with self._as_holder():
            record_migration_reports(reports)

    @retry_once
    def claim_profiling(self, limit: int, *, doing: Collection[UUID] = ()) -> list[ProfilingOrder]:
        """Claim profiling runs, including expired claims.

        Renews the leases of `doing`. A claim whose answer was lost is not among them, so its lease
        expires like that of a dead process.
        """
        if not profiling_selectors.has_open_runs():
            return []
        now_s = time.monotonic()
        if doing and now_s - self._renewed_s >= RENEW_S:
            profiling.renew_claims(doing, worker=self._worker, lease_s=PROFILING_LEASE_S)
            self._renewed_s = now_s
        at_s = inventory.cluster_now()
        with self._as_holder():
            runs = profiling.claim_runs(
                self._worker, limit=limit, lease_s=PROFILING_LEASE_S, at_s=at_s
            )
        return [profiling_order(run) for run in runs]

    @retry_once
    def report_launches(self, started: Mapping[int, float], ended: Sequence[EndReport]) -> None:
        """Report the start times of launches, then ends; these release the units of jobs."""
        with self._as_holder():
            record_launches(
                started,
                ended,
                worker=self._worker,
                lease_s=HOLD_S,
                release_jobs=self._hooks.release_jobs,
            )

    @retry_once
    def report_jobs(self, at_s: float, reports: Sequence[JobReport]) -> None:
        """Report the performance of running launches."""
        by_launch = {report.launch: report for report in reports}
        rows = fetch_rows(
            _REPORTED,
            [list(by_launch)],
        )
        reported = [reported_job(by_launch[launch], at_s, *job) for launch, *job in rows]
        known = [row for row in reported if math.isfinite(row.report.performance)]
        with self._as_holder():
            commit_without_flush()  # a lost report is followed by the next one
            workloads.report_progress([row.report for row in known])
            copy_rows(JobSample._meta.db_table, SAMPLE_COLUMNS, (row.sample for row in known))

    @retry_once
    def report_servers(self, at_s: float, server_id: Ints, readings: ServerReadings) -> None:
        """Record the usage of every server, a heartbeat each, and the cluster time."""
        columns = zip(
            server_id.tolist(),
            readings.cpu_share.tolist(),
            readings.memory_share.tolist(),
            readings.network_share.tolist(),
            readings.storage_share.tolist(),
            readings.watts.tolist(),
            strict=True,
        )
        with self._as_holder():
            commit_without_flush()
            inventory_services.record_readings(
                (inventory_services.ServerReport(*row) for row in columns),
                backend=BACKEND,
                at=database_now(),
                cluster_s=at_s,
            )
        inventory_services.record_cluster_time(cluster_s=at_s)

    def profiling_to_stop(self, doing: Collection[UUID]) -> list[UUID]:
        """Read which of these profiling runs have been cancelled or have ended."""
        profiling.end_cancelled_runs()
        return profiling_selectors.runs_to_stop(doing)

    @retry_once
    def report_stopped(self, runs: Sequence[UUID]) -> None:
        """Report that the copies of profiling runs are stopped."""
        with self._as_holder():
            profiling.stop_runs(runs)

    @retry_once
    def report_progress(self, steps: Mapping[UUID, ProfilingStep]) -> None:
        """Report the progress of profiling runs."""
        with self._as_holder():
            profiling.record_progress(steps)

    @retry_once
    def report_measurements(self, report: ProfilingReport) -> None:
        """Report the cells of a completed profiling run."""
        with self._as_holder():
            self._hooks.record_measurements(report.run, report.at_s, report.cells)
            profiling.record_done(report.run, seconds=report.seconds, missing=report.missing)

    @retry_once
    def report_failed(self, run: UUID, at_s: float, reason: str) -> None:
        """Report a failed attempt of a profiling run; it is retried a few times."""
        with self._as_holder():
            profiling.record_failure(run, at_s=at_s, reason=reason)

    def _as_holder(self) -> AbstractContextManager[None]:
        return as_holder(BACKEND, self._token)
