"""The emulator's reads and reports, on real tables."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from django.utils import timezone

from apps.emulation.core.events import ServerReadings
from apps.emulation.core.probe import Measured, ProbeRun
from apps.execution.backends.emulated.control_plane import DatabaseControlPlane, Hooks
from apps.execution.backends.emulated.port import EndReport, JobReport
from apps.execution.models import JobSample, Launch
from apps.inventory.models import Cluster, ServerReading
from apps.operations.models import Event
from apps.profiling.models import ProfilingRun
from apps.profiling.services import MAX_ATTEMPTS
from apps.workloads.core.attainment import Performance
from apps.workloads.models import Job
from tests import factories

pytestmark = pytest.mark.django_db

IN_TIME = {"kind": "completion_time", "seconds": 600.0}


@dataclass
class Told:
    """What the hooks were called with."""

    released: list[UUID] = field(default_factory=list)
    measured: list[tuple[UUID, float, int]] = field(default_factory=list)

    def hooks(self) -> Hooks:
        return Hooks(
            request=lambda backend, limit: None,
            release=self.released.extend,
            measured=lambda run, at_s, cells: self.measured.append((run, at_s, len(cells))),
        )


def plane(told: Told | None = None, worker: str = "emulator-1") -> DatabaseControlPlane:
    return DatabaseControlPlane(worker=worker, hooks=(told or Told()).hooks())


def requested(**values: Any) -> Launch:
    """A launch asked for, of a job that starts."""
    job = factories.job(state="starting", target=IN_TIME, submitted_s=3000.0, **values)
    order = {"parts": [[4, 2], [9, 1]]}
    return factories.launch(job, state="requested", order=order, started_s=None)


def running(**values: Any) -> Launch:
    job = factories.job(state="running", target=IN_TIME, submitted_s=3000.0, **values)
    return factories.launch(job, order={"parts": [[4, 2]]})


def test_a_launch_is_claimed_with_all_the_engine_needs() -> None:
    launch = requested(input_bytes=10**9, tasks_total=8)
    (order,) = plane().claim_launches(10)
    assert order.launch == launch.id
    assert order.application == launch.job.application.name
    assert order.kind == launch.job.application.kind
    assert order.parts == ((4, 2), (9, 1))
    assert (order.input_bytes, order.tasks, order.done_share) == (10**9, 8, 0.0)


def test_one_task_divides_freely() -> None:
    requested(tasks_total=1)
    assert plane().claim_launches(10)[0].tasks is None


def test_another_process_does_not_get_the_same_launch() -> None:
    requested()
    assert len(plane().claim_launches(10)) == 1
    assert plane(worker="emulator-2").claim_launches(10) == []


def test_a_process_gets_its_own_claims_again() -> None:
    requested()
    plane().claim_launches(10)
    assert len(plane().claim_launches(10)) == 1


def test_claims_are_limited_and_in_order() -> None:
    first, second, _ = requested(), requested(), requested()
    found = plane().claim_launches(2)
    assert [order.launch for order in found] == [first.id, second.id]


def test_a_restart_finds_running_launches_with_their_progress() -> None:
    launch = running(progress=0.4)
    (order,) = plane().live_launches()
    assert (order.launch, order.done_share) == (launch.id, 0.4)


def test_a_start_moves_launch_and_job_once() -> None:
    launch = requested()
    plane().report_started({launch.id: 3050.0})
    plane().report_started({launch.id: 3060.0})
    launch.refresh_from_db()
    assert (launch.state, launch.started_s) == ("running", 3050.0)
    assert (launch.job.state, launch.job.started_s) == ("running", 3050.0)
    assert Event.objects.filter(kind="job.running").count() == 1


def test_an_end_moves_launch_and_job_and_releases_once() -> None:
    told, launch = Told(), running()
    end = EndReport(launch.id, 3400.0, "finished")
    plane(told).report_ended([end])
    plane(told).report_ended([end])
    launch.refresh_from_db()
    assert (launch.state, launch.outcome, launch.ended_s) == ("ended", "finished", 3400.0)
    assert (launch.job.state, launch.job.progress) == ("succeeded", 1.0)
    assert launch.job.attainment == pytest.approx(600.0 / 400.0)
    assert told.released == [launch.job_id]
    assert Event.objects.filter(kind="job.succeeded").count() == 1


@pytest.mark.parametrize(
    ("outcome", "state", "reason"),
    [("cancelled", "cancelled", "Cancelled"), ("failed", "failed", "JobFailed")],
)
def test_other_ends_say_why(outcome: str, state: str, reason: str) -> None:
    launch = running()
    plane().report_ended([EndReport(launch.id, 3400.0, outcome, "because")])
    job = Job.objects.get()
    assert (job.state, job.reason_code, job.reason_message) == (state, reason, "because")


def test_a_cancelled_job_asks_for_its_launch_to_stop() -> None:
    launch = running(cancel_requested=True)
    running()
    assert plane().cancelled_launches() == [launch.id]


def test_progress_is_kept_and_sampled() -> None:
    launch = running()
    seen = Performance(progress=0.5, progress_per_s=0.005)
    plane().report_jobs(3200.0, [JobReport(launch.id, seen, 0.7)])
    job = Job.objects.get()
    # 200 s have passed, 100 s are left
    assert job.progress == 0.5
    assert job.performance == pytest.approx(300.0)
    assert job.attainment == pytest.approx(2.0)
    sample = JobSample.objects.get()
    assert (sample.cluster_s, sample.progress, sample.cpu_share) == (3200.0, 0.5, 0.7)


def test_a_report_of_an_ended_launch_changes_nothing() -> None:
    launch = running()
    plane().report_ended([EndReport(launch.id, 3400.0, "finished")])
    seen = Performance(progress=0.5, progress_per_s=0.005)
    plane().report_jobs(3500.0, [JobReport(launch.id, seen, 0.7)])
    assert Job.objects.get().progress == 1.0
    assert not JobSample.objects.exists()


def test_servers_beat_and_cluster_time_is_remembered() -> None:
    server = factories.server()
    Cluster.objects.update_or_create(id=1, defaults={"seen_cluster_s": 10.0})
    half = np.array([0.5])
    readings = ServerReadings(half, half, half, half, np.array([120.0]))
    plane().report_servers(5000.0, np.array([server.id]), readings)
    reading = ServerReading.objects.get()
    assert (reading.cpu_share, reading.watts, reading.backend) == (0.5, 120.0, "emulated")
    assert Cluster.objects.get().seen_cluster_s == 5000.0


PLAN: dict[str, Sequence[dict[str, Any]]] = {
    "runs": [
        {"platform": "cr1.8xlarge", "servers": 1, "units": 1, "sources": ["core", "tlb"]},
        {"platform": "m1.large", "servers": 1, "units": 1},
    ]
}


def probing() -> ProfilingRun:
    about = factories.application()
    return ProfilingRun.objects.create(application=about, plan=PLAN, seed=5, requested_s=10.0)


def test_a_profiling_run_is_claimed_once() -> None:
    run = probing()
    (order,) = plane().claim_profiling(5)
    assert (order.run, order.seed) == (run.id, 5)
    assert order.runs == (
        ProbeRun("cr1.8xlarge", 1, 1, ("core", "tlb")),
        ProbeRun("m1.large", 1, 1),
    )
    assert plane().claim_profiling(5) == []
    run.refresh_from_db()
    assert (run.state, run.attempts) == ("running", 1)


def lapse(run: ProfilingRun, **values: Any) -> None:
    """Let the claim of a run end a second ago."""
    past = timezone.now() - timedelta(seconds=1)
    ProfilingRun.objects.filter(id=run.id).update(claimed_until=past, **values)


def renewing(worker: str = "emulator-1") -> DatabaseControlPlane:
    """A control plane whose next claim also renews."""
    one = plane(worker=worker)
    one._renewed = timezone.now() - timedelta(seconds=60)
    return one


def test_a_profiling_run_of_a_dead_process_is_claimed_again() -> None:
    run = probing()
    plane(worker="emulator-dead").claim_profiling(5)
    lapse(run)
    (order,) = plane().claim_profiling(5)
    run.refresh_from_db()
    assert (order.run, run.claimed_by, run.attempts) == (run.id, "emulator-1", 2)


def test_a_profiling_run_that_failed_often_is_claimed_no_more() -> None:
    run = probing()
    lapse(run, state="running", attempts=MAX_ATTEMPTS)
    assert plane().claim_profiling(5) == []


def test_a_profiling_run_being_done_keeps_its_claim() -> None:
    run = probing()
    one = renewing()
    one.claim_profiling(5)
    lapse(run)
    one._renewed -= timedelta(seconds=60)
    assert one.claim_profiling(5, doing=[run.id]) == []
    run.refresh_from_db()
    assert run.attempts == 1
    assert run.claimed_until is not None
    assert run.claimed_until > timezone.now()


def test_a_claim_nobody_got_the_answer_of_runs_out() -> None:
    lost = probing()
    renewing().claim_profiling(5)
    lapse(lost)
    (order,) = renewing().claim_profiling(5)
    assert order.run == lost.id


def test_the_claim_of_another_process_is_not_kept() -> None:
    run = probing()
    plane(worker="emulator-other").claim_profiling(5)
    lapse(run)
    renewing().claim_profiling(0, doing=[run.id])
    run.refresh_from_db()
    assert run.claimed_until is not None
    assert run.claimed_until < timezone.now()


def test_launches_over_for_the_control_plane_are_named() -> None:
    ended, live = running(), running()
    Launch.objects.filter(id=ended.id).update(state="ended")
    assert plane().ended_launches([ended.id, live.id, 10**9]) == [ended.id]


def test_launches_are_asked_for_before_they_are_claimed() -> None:
    asked: list[tuple[str, int]] = []
    hooks = replace(Told().hooks(), request=lambda backend, limit: asked.append((backend, limit)))
    DatabaseControlPlane(worker="emulator-1", hooks=hooks).claim_launches(7)
    assert asked == [("emulated", 7)]


def test_measurements_are_handed_on() -> None:
    told, run = Told(), probing()
    cell = Measured("scale_up", "8", 6.5, 0.1, 8)
    plane(told).report_measurements(run.id, 70.0, [cell])
    assert told.measured == [(run.id, 70.0, 1)]
