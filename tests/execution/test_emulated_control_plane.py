"""Reads and reports of the emulator on real tables."""

from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

import numpy as np
import pytest

from apps.emulation.core.events import ServerReadings
from apps.execution.backends.emulated.control_plane import DatabaseControlPlane, Hooks
from apps.execution.backends.emulated.port import JobReport
from apps.execution.core.port import EndReport
from apps.execution.models import JobSample, Launch
from apps.execution.services.backend_holders import BackendHeldError
from apps.inventory.models import Cluster, ServerReading
from apps.operations.models import Event
from apps.workloads.core.attainment import Performance
from apps.workloads.models import Job
from tests import factories
from tests.execution.migration_world import holding

pytestmark = pytest.mark.django_db

IN_TIME = {"kind": "completion_time", "seconds": 600.0}


@dataclass
class Calls:
    """Arguments with which the hooks were called."""

    released: list[UUID] = field(default_factory=list)
    measured: list[tuple[UUID, float, int]] = field(default_factory=list)

    def hooks(self) -> Hooks:
        return Hooks(
            request_launches=lambda backend, limit: None,
            release_jobs=self.released.extend,
            record_measurements=lambda run, at_s, cells: self.measured.append(
                (run, at_s, len(cells))
            ),
        )


def plane(calls: Calls | None = None, worker: str = "emulator-1") -> DatabaseControlPlane:
    return holding(DatabaseControlPlane(worker=worker, hooks=(calls or Calls()).hooks()))


def requested(**values: Any) -> Launch:
    """A requested launch of a starting job."""
    job = factories.job(state="starting", target=IN_TIME, submitted_s=3000.0, **values)
    order = {"parts": [[4, 2], [9, 1]]}
    return factories.launch(job, state="requested", order=order, started_s=None)


def running(**values: Any) -> Launch:
    job = factories.job(state="running", target=IN_TIME, submitted_s=3000.0, **values)
    return factories.launch(job, order={"parts": [[4, 2]]})


def test_a_claimed_launch_has_all_fields_of_its_order() -> None:
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
    control_plane = plane()
    assert len(control_plane.claim_launches(10)) == 1
    other = DatabaseControlPlane(worker="emulator-2", hooks=Calls().hooks())
    with pytest.raises(BackendHeldError):
        other.hold()
    with pytest.raises(BackendHeldError):
        other.claim_launches(10)


def test_a_process_gets_its_own_claims_again() -> None:
    requested()
    plane().claim_launches(10)
    assert len(plane().claim_launches(10)) == 1


def test_claims_are_limited_and_in_order() -> None:
    first, second, _ = requested(), requested(), requested()
    orders = plane().claim_launches(2)
    assert [order.launch for order in orders] == [first.id, second.id]


def test_a_restart_finds_running_launches_with_their_progress() -> None:
    launch = running(progress=0.4)
    (order,) = plane().live_launches()
    assert (order.launch, order.done_share) == (launch.id, 0.4)


def test_a_start_updates_launch_and_job_once() -> None:
    launch = requested()
    plane().report_launches({launch.id: 3050.0}, ())
    plane().report_launches({launch.id: 3060.0}, ())
    launch.refresh_from_db()
    assert (launch.state, launch.started_s) == ("running", 3050.0)
    assert (launch.job.state, launch.job.started_s) == ("running", 3050.0)
    assert Event.objects.filter(kind="job.running").count() == 1


def test_an_end_updates_launch_and_job_and_releases_once() -> None:
    calls, launch = Calls(), running()
    end = EndReport(launch.id, 3400.0, "finished")
    plane(calls).report_launches({}, [end])
    plane(calls).report_launches({}, [end])
    launch.refresh_from_db()
    assert (launch.state, launch.outcome, launch.ended_s) == ("ended", "finished", 3400.0)
    assert (launch.job.state, launch.job.progress) == ("succeeded", 1.0)
    assert launch.job.attainment == pytest.approx(600.0 / 400.0)
    assert calls.released == [launch.job_id]
    assert Event.objects.filter(kind="job.succeeded").count() == 1


@pytest.mark.parametrize(
    ("outcome", "state", "reason"),
    [("cancelled", "cancelled", "Cancelled"), ("failed", "failed", "JobFailed")],
)
def test_other_ends_have_a_reason(outcome: str, state: str, reason: str) -> None:
    launch = running()
    plane().report_launches({}, [EndReport(launch.id, 3400.0, outcome, "because")])
    job = Job.objects.get()
    assert (job.state, job.reason_code, job.reason_message) == (state, reason, "because")


def test_the_launch_of_a_cancelled_job_is_listed_as_cancelled() -> None:
    launch = running(cancel_requested=True)
    running()
    assert plane().cancelled_launches() == [launch.id]


def test_progress_is_stored_and_sampled() -> None:
    launch = running()
    performance = Performance(progress=0.5, progress_per_s=0.005)
    plane().report_jobs(3200.0, [JobReport(launch.id, performance, 0.7)])
    job = Job.objects.get()
    # 200 s have passed, 100 s are left
    assert (job.progress, job.reported_s) == (0.5, 3200.0)
    assert job.performance == pytest.approx(300.0)
    assert job.attainment == pytest.approx(2.0)
    sample = JobSample.objects.get()
    assert (sample.cluster_s, sample.progress, sample.cpu_share) == (3200.0, 0.5, 0.7)


def test_a_report_of_an_ended_launch_changes_nothing() -> None:
    launch = running()
    plane().report_launches({}, [EndReport(launch.id, 3400.0, "finished")])
    performance = Performance(progress=0.5, progress_per_s=0.005)
    plane().report_jobs(3500.0, [JobReport(launch.id, performance, 0.7)])
    assert Job.objects.get().progress == 1.0
    assert not JobSample.objects.exists()


def test_server_reports_are_heartbeats_and_record_cluster_time() -> None:
    server = factories.server()
    Cluster.objects.update_or_create(id=1, defaults={"seen_cluster_s": 10.0})
    half = np.array([0.5])
    readings = ServerReadings(half, half, half, half, np.array([120.0]))
    plane().report_servers(5000.0, np.array([server.id]), readings)
    reading = ServerReading.objects.get()
    assert (reading.cpu_share, reading.watts, reading.backend) == (0.5, 120.0, "emulated")
    assert Cluster.objects.get().seen_cluster_s == 5000.0


def test_launches_ended_in_the_control_plane_are_listed() -> None:
    ended, live = running(), running()
    Launch.objects.filter(id=ended.id).update(state="ended")
    assert plane().ended_launches([ended.id, live.id, 10**9]) == [ended.id]


def test_launches_are_requested_before_they_are_claimed() -> None:
    requested: list[tuple[str, int]] = []
    hooks = replace(
        Calls().hooks(),
        request_launches=lambda backend, limit: requested.append((backend, limit)),
    )
    holding(DatabaseControlPlane(worker="emulator-1", hooks=hooks)).claim_launches(7)
    assert requested == [("emulated", 7)]


def test_claims_take_one_statement_if_nothing_is_open(django_assert_num_queries: Any) -> None:
    backend = plane()
    with django_assert_num_queries(1):
        assert backend.claim_migrations(10) == []
    with django_assert_num_queries(1):
        assert backend.claim_profiling(10) == []
