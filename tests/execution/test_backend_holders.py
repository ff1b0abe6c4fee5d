"""One process runs a backend: leases, the takeover of launches, and refused reports."""

import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from threading import Event
from typing import Any
from uuid import uuid4

import numpy as np
import pytest
from django.db import connection

from apps.common.infrastructure.database import database_now
from apps.emulation.core.events import ServerReadings
from apps.execution.backends.emulated.control_plane import BACKEND, DatabaseControlPlane
from apps.execution.backends.emulated.port import (
    GrownLaunch,
    JobReport,
    ProfilingReport,
)
from apps.execution.core.migration import MigrationOutcome, MigrationReport
from apps.execution.core.port import EndReport
from apps.execution.models import BackendHolder, JobSample, Launch, Migration
from apps.execution.services.backend_holders import HOLD_S, BackendHeldError
from apps.execution.services.recovery import (
    MAX_ATTEMPTS,
    requeue_jobs_without_owner,
    sweep,
)
from apps.inventory.models import ServerReading
from apps.profiling.core.measurements import ProfilingStep
from apps.workloads.core.attainment import Performance
from apps.workloads.models import Job
from tests import factories
from tests.execution.migration_world import HOOKS, broken, plane
from tests.races import at_once, in_background

pytestmark = pytest.mark.django_db

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


def process(worker: str) -> DatabaseControlPlane:
    """The control plane of a process that does not run the backend yet."""
    return DatabaseControlPlane(worker=worker, hooks=HOOKS)


def pause() -> None:
    """Let so much time pass that the lease of the backend and of its launches expire."""
    BackendHolder.objects.update(held_until=LONG_AGO)
    Launch.objects.update(claimed_until=LONG_AGO)


def running(**values: Any) -> Launch:
    """The launch of a running job on a server of its own."""
    server = factories.server()
    job = factories.job(state="running", **values)
    by = factories.decision(job, units_won=1)
    factories.allocation(job, server, cores=1, by=by, acquired_seq=0)
    return factories.launch(job, order={"parts": [[server.id, 1]]})


def requested() -> Launch:
    """A requested launch of a starting job."""
    return factories.launch(factories.job(state="starting"), state="requested", started_s=None)


def owner(launch: Launch) -> tuple[str, bool]:
    """The process that runs a launch, and whether its lease is valid."""
    launch.refresh_from_db()
    until = launch.claimed_until
    return launch.claimed_by, until is not None and until > datetime.now(UTC)


# ---- one process ----


def test_only_one_process_runs_a_backend() -> None:
    process("one").hold()
    with pytest.raises(BackendHeldError, match="another process runs the backend emulated"):
        process("two").hold()


def test_another_process_takes_over_when_the_lease_has_expired() -> None:
    process("one").hold()
    pause()
    process("two").hold()
    holder = BackendHolder.objects.get()
    assert holder.worker == "two"
    left = holder.held_until - datetime.now(UTC)
    assert timedelta(seconds=HOLD_S / 2) < left <= timedelta(seconds=HOLD_S + 5)


@pytest.mark.django_db(transaction=True)
def test_another_process_takes_over_at_once_when_the_first_has_died() -> None:
    at_once(1, lambda: process("one").hold())  # its connection ends with its thread
    taken_over = False
    deadline = time.monotonic() + 20.0  # long before the lease expires
    while not taken_over and time.monotonic() < deadline:
        with suppress(BackendHeldError):  # the server may still be ending the first session
            process("two").hold()
            taken_over = True
    assert BackendHolder.objects.get().worker == "two"


@pytest.mark.django_db(transaction=True)
def test_a_living_process_keeps_the_backend() -> None:
    held, may_end = Event(), Event()

    def live() -> None:
        process("one").hold()
        held.set()
        assert may_end.wait(20.0)

    with in_background(live):
        assert held.wait(20.0)
        try:
            with pytest.raises(BackendHeldError):
                process("two").hold()
        finally:
            may_end.set()


@pytest.mark.django_db(transaction=True)
def test_two_processes_that_start_at_once() -> None:
    names = iter(["one", "two"])
    held = Event()

    def start() -> bool:
        try:
            process(next(names)).hold()
        except BackendHeldError:
            held.set()
            return False
        return held.wait(20.0)  # keep the connection until the other has tried

    assert sorted(at_once(2, start)) == [False, True]


# ---- leases ----


def test_the_next_process_takes_over_the_live_launches() -> None:
    launches = [running(), requested()]
    ended = running()
    Launch.objects.filter(id=ended.id).update(state="ended", claimed_until=None)
    pause()
    process("two").hold()
    assert [owner(launch) for launch in launches] == [("two", True)] * 2
    assert owner(ended) == ("emulator-1", False)
    assert [order.launch for order in process("two").live_launches()] == [launches[0].id]


def test_a_renewal_extends_the_backend_and_the_launches_that_run() -> None:
    control_plane, here, elsewhere = plane(), running(), running()
    soon = datetime.now(UTC) + timedelta(seconds=3)
    BackendHolder.objects.update(held_until=soon)
    Launch.objects.update(claimed_until=soon)
    control_plane.renew([here.id])
    later = datetime.now(UTC) + timedelta(seconds=HOLD_S / 2)
    assert BackendHolder.objects.get().held_until > later
    renewed = Launch.objects.filter(claimed_until__gt=later).values_list("id", flat=True)
    assert (list(renewed), elsewhere.id > here.id) == ([here.id], True)


def test_a_start_gives_the_launch_an_owner() -> None:
    launch = requested()
    plane().report_launches({launch.id: 7200.0}, ())
    assert owner(launch) == ("emulator-1", True)


# ---- fencing ----

_READINGS = ServerReadings(*(np.zeros(1) for _ in range(5)))
_PERFORMANCE = Performance(progress=0.5, progress_per_s=0.1, qps=0.0, latency_s=0.0, ips=0.0)
_REPORTS: dict[str, Callable[[DatabaseControlPlane, Launch], object]] = {
    "renew": lambda p, x: p.renew([x.id]),
    "claim launches": lambda p, _: p.claim_launches(10),
    "claim migrations": lambda p, _: p.claim_migrations(10),
    "claim profiling": lambda p, _: p.claim_profiling(10),
    "started": lambda p, x: p.report_launches({x.id: 7200.0}, ()),
    "grown": lambda p, x: p.report_grown(7200.0, [GrownLaunch(x.id, ((1, 2),))]),
    "ended": lambda p, x: p.report_launches({}, [EndReport(x.id, 7200.0, "finished")]),
    "jobs": lambda p, x: p.report_jobs(7200.0, [JobReport(x.id, _PERFORMANCE, 0.5)]),
    "servers": lambda p, _: p.report_servers(7200.0, np.array([1]), _READINGS),
    "migrations": lambda p, _: p.report_migrations(
        [MigrationReport(1, 7200.0, MigrationOutcome.DONE)]
    ),
    "stopped": lambda p, _: p.report_stopped([uuid4()]),
    "progress": lambda p, _: p.report_progress({uuid4(): ProfilingStep(1.0, 1, 2, "")}),
    "measurements": lambda p, _: p.report_measurements(ProfilingReport(uuid4(), 7200.0, 10.0, ())),
    "failed": lambda p, _: p.report_failed(uuid4(), 7200.0, "it died"),
}


def open_work(launch: Launch) -> None:
    """A migration and a profiling run for a backend to claim."""
    Migration.objects.create(
        job=launch.job, launch=launch, source_allocation_id=1, target_allocation_id=2,
        from_server_id=1, to_server_id=2, units=1, predicted_s=1.0, requested_s=7000.0,
    )  # fmt: skip
    factories.profiling_run(launch.job.application)


@pytest.mark.parametrize("report", _REPORTS)
@pytest.mark.parametrize("is_taken_over", [False, True])
def test_a_process_that_was_paused_is_refused(report: str, *, is_taken_over: bool) -> None:
    paused, launch = plane(), running()
    open_work(launch)
    pause()
    if is_taken_over:
        process("two").hold()
    with pytest.raises(BackendHeldError, match="this process no longer runs the backend"):
        _REPORTS[report](paused, launch)
    launch.refresh_from_db()
    assert (launch.state, launch.job.state) == ("running", "running")
    assert not JobSample.objects.exists()
    assert not ServerReading.objects.exists()


def test_the_port_has_no_report_without_this_test() -> None:
    writes = {x for x in dir(DatabaseControlPlane) if x.startswith(("report_", "claim_", "renew"))}
    assert len(writes) == len(_REPORTS) - 1  # starts and ends share one


# ---- recovery ----


def test_a_launch_that_its_backend_does_not_run_is_requeued() -> None:
    plane()
    lost, fine = running(), running()
    Launch.objects.filter(id=lost.id).update(claimed_until=LONG_AGO)
    assert requeue_jobs_without_owner() == 1
    jobs = {job.id: (job.state, job.reason_code) for job in Job.objects.all()}
    assert jobs[lost.job_id] == ("queued", "BackendLost")
    assert jobs[fine.job_id][0] == "running"
    lost.refresh_from_db()
    assert (lost.state, lost.outcome, lost.message) == (
        "ended", "lost", "its backend stopped running it"
    )  # fmt: skip
    assert broken() == []


def test_launches_wait_while_their_backend_has_not_renewed_its_own_lease_either() -> None:
    """A process that was paused or cut off for 25 s holds the backend, and still runs them."""
    control = plane()
    launch = running()
    now = database_now()
    BackendHolder.objects.update(held_until=now + timedelta(seconds=HOLD_S - 25.0))
    Launch.objects.update(claimed_until=now - timedelta(seconds=5.0))
    assert requeue_jobs_without_owner() == 0
    control.renew([])  # the process is back, and does not run it
    assert requeue_jobs_without_owner() == 1
    launch.refresh_from_db()
    assert launch.outcome == "lost"


def test_a_job_without_an_owner_that_was_launched_too_often_fails() -> None:
    plane()
    lost = running(attempts=MAX_ATTEMPTS)
    Launch.objects.update(claimed_until=None)
    sweep()
    lost.job.refresh_from_db()
    assert (lost.job.state, lost.job.reason_code) == ("failed", "TooManyAttempts")


def test_launches_wait_for_the_next_process_while_none_runs_the_backend() -> None:
    launch = running()
    pause()
    assert requeue_jobs_without_owner() == 0
    launch.refresh_from_db()
    assert launch.state == "running"


# ---- the check ----


def test_a_running_launch_without_an_owner_is_a_violation() -> None:
    plane()
    launch = running()
    assert broken() == []
    Launch.objects.update(claimed_until=LONG_AGO)
    (violation,) = broken()
    assert violation.startswith("every running launch has an owner")
    assert f"launch {launch.id} of job {launch.job.name} is running" in violation


def test_a_running_launch_that_never_had_an_owner_is_a_violation() -> None:
    running()
    Launch.objects.update(claimed_until=None)
    (violation,) = broken()
    assert "no process has said so yet" in violation


def test_the_lease_is_of_the_clock_of_the_database() -> None:
    """Whatever the time at the process: all statements use the database's."""
    process("one").hold()
    with connection.cursor() as cursor:
        cursor.execute("SELECT held_until - clock_timestamp() FROM execution_backendholder")
        (left,) = cursor.fetchone()
    assert left.total_seconds() == pytest.approx(HOLD_S, abs=5.0)
    assert BackendHolder.objects.get().backend == BACKEND
