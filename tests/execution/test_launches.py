"""Launches: created once per start, ended with their server."""

from contextlib import ExitStack
from datetime import datetime, timedelta

import pytest
from django.db import transaction
from django.utils import timezone

from apps.execution.models import Launch
from apps.execution.services.launches import request_launches
from apps.execution.services.recovery import MAX_ATTEMPTS, requeue_lost_jobs, sweep
from apps.inventory.core.usage import SILENT_S
from apps.inventory.models import Change, ResourceUnit, Server, ServerReading, ServerState
from apps.inventory.services import mark_silent_servers
from apps.operations.models import Event
from apps.scheduling.models import Allocation
from apps.workloads.models import Job
from tests import factories
from tests.races import in_background, meanwhile, wait_for_a_waiter

pytestmark = pytest.mark.django_db


def placed(*on: tuple[Server, int], state: str = "starting", attempts: int = 1) -> Job:
    """A job that holds units of these servers."""
    job = factories.job(
        state=state, attempts=attempts, placed_at=factories.MOMENT, reason_code="MeetsTarget"
    )
    by = factories.decision(job)
    for server, cores in on:
        factories.allocation(job, server, cores=cores, by=by, acquired_seq=0)
    return job


def request() -> int:
    return request_launches("emulated", limit=100)


def silent_before() -> datetime:
    return timezone.now() - timedelta(seconds=SILENT_S)


def recover() -> int:
    return requeue_lost_jobs(silent_before=silent_before())


def test_a_starting_job_gets_one_launch_that_names_its_parts_in_order() -> None:
    first, second = factories.server(), factories.server()
    job = placed((second, 1), (first, 3))
    assert request() == 1
    launch = Launch.objects.get()
    assert (launch.job_id, launch.attempt, launch.state) == (job.id, 1, "requested")
    assert launch.order == {"parts": [[first.id, 3], [second.id, 1]]}
    assert (launch.backend, launch.claimed_until, launch.outcome) == ("emulated", None, "")


@pytest.mark.django_db(transaction=True)
def test_machines_that_ask_at_the_same_time_hide_no_job_from_each_other() -> None:
    first, second = factories.server(), factories.server()
    placed((second, 1))
    with transaction.atomic():
        assert request_launches("emulated", limit=10, server=first.id) == 0
        assert meanwhile(lambda: request_launches("emulated", limit=10, server=second.id)) == 1


def test_a_launch_names_the_framework_setting_its_job_was_sized_for() -> None:
    server = factories.server()
    job = placed((server, 1))
    Job.objects.filter(id=job.id).update(predicted={"value": 60.0, "setting": "2x0.5GB"})
    assert request() == 1
    assert Launch.objects.get().order == {"parts": [[server.id, 1]], "setting": "2x0.5GB"}


def test_a_second_request_creates_no_second_launch() -> None:
    placed((factories.server(), 1))
    assert (request(), request()) == (1, 0)
    assert Launch.objects.count() == 1


@pytest.mark.parametrize(
    "state",
    ["submitted", "profiling", "queued", "running", "succeeded", "failed", "cancelled"],
)
def test_only_starting_jobs_are_launched(state: str) -> None:
    placed((factories.server(), 1), state=state)
    assert request() == 0


def test_released_units_are_not_part_of_a_launch() -> None:
    before, now = factories.server(), factories.server()
    job = placed((now, 2))
    factories.allocation(job, before, released_seq=10**9, released_at=factories.MOMENT)
    request()
    assert Launch.objects.get().order == {"parts": [[now.id, 2]]}


def test_a_start_whose_launch_has_ended_is_not_launched_again() -> None:
    job = placed((factories.server(), 1))
    factories.launch(job, attempt=1, state="ended")
    assert request() == 0


def test_a_job_placed_again_is_launched_again() -> None:
    job = placed((factories.server(), 1), attempts=2)
    factories.launch(job, attempt=1, state="ended")
    assert request() == 1
    assert Launch.objects.get(state="requested").attempt == 2


def test_the_longest_placed_are_launched_first() -> None:
    server = factories.server()
    late, early = placed((server, 1)), placed((server, 1))
    earlier = factories.MOMENT - timedelta(seconds=5)
    Job.objects.filter(id=early.id).update(placed_at=earlier)
    assert request_launches("emulated", limit=1) == 1
    assert Launch.objects.get().job_id == early.id
    assert request() == 1
    assert list(Launch.objects.order_by("id").values_list("job_id", flat=True)) == [
        early.id,
        late.id,
    ]


def down(server: Server) -> Server:
    """A server that was marked silent."""
    Server.objects.filter(id=server.id).update(state=ServerState.DOWN)
    return server


def test_jobs_of_a_down_server_are_requeued_without_their_units() -> None:
    lost, fine = factories.server(), factories.server()
    job = placed((lost, 2), (fine, 1), state="running")
    launch = factories.launch(job)
    down(lost)
    assert recover() == 1
    job.refresh_from_db()
    launch.refresh_from_db()
    assert (job.state, job.reason_code) == ("queued", "BackendLost")
    assert (launch.state, launch.outcome) == ("ended", "lost")
    assert launch.ended_s is not None
    assert not Allocation.objects.filter(released_seq=None).exists()
    assert not ResourceUnit.objects.exclude(allocation_id=None).exists()
    assert set(Server.objects.values_list("used_cores", "used_memory_bytes")) == {(0, 0)}
    assert Change.objects.filter(kind="release").count() == 2
    assert Event.objects.get(kind="job.queued").subject == str(job.id)


def test_a_starting_job_of_a_down_server_is_requeued() -> None:
    server = factories.server()
    job = placed((server, 1))
    request()
    down(server)
    assert recover() == 1
    job.refresh_from_db()
    assert (job.state, Launch.objects.get().state) == ("queued", "ended")
    assert request() == 0


def test_jobs_on_other_servers_continue() -> None:
    down(factories.server())
    job = placed((factories.server(), 1), state="running")
    factories.launch(job)
    assert recover() == 0
    job.refresh_from_db()
    assert (job.state, Launch.objects.get().state) == ("running", "running")


def test_ended_jobs_of_a_down_server_are_not_changed() -> None:
    server = factories.server()
    job = placed((server, 1), state="succeeded")
    down(server)
    assert recover() == 0
    job.refresh_from_db()
    assert job.state == "succeeded"


def test_a_job_launched_too_often_fails() -> None:
    factories.cluster(seen_cluster_s=9000.0)
    server = factories.server()
    job = placed((server, 1), state="running", attempts=MAX_ATTEMPTS)
    factories.launch(job, attempt=MAX_ATTEMPTS)
    down(server)
    assert recover() == 1
    job.refresh_from_db()
    assert (job.state, job.reason_code) == ("failed", "TooManyAttempts")
    assert job.finished_s == 9000.0
    assert Launch.objects.get().state == "ended"
    assert not Allocation.objects.filter(released_seq=None).exists()
    assert Event.objects.get(kind="job.failed").subject == str(job.id)


def test_a_job_is_requeued_before_its_last_attempt() -> None:
    server = factories.server()
    job = placed((server, 1), state="running", attempts=MAX_ATTEMPTS - 1)
    factories.launch(job, attempt=MAX_ATTEMPTS - 1)
    down(server)
    recover()
    job.refresh_from_db()
    assert job.state == "queued"


def test_a_sweep_finds_a_silent_server_and_its_jobs() -> None:
    factories.reading(factories.server(), at=timezone.now())
    silent = factories.server()
    factories.reading(silent, at=silent_before())
    job = placed((silent, 1), state="running")
    factories.launch(job)
    sweep()
    silent.refresh_from_db()
    job.refresh_from_db()
    assert (silent.state, job.state) == ("down", "queued")


def test_a_silent_server_that_was_draining_loses_its_jobs_too() -> None:
    factories.reading(factories.server(), at=timezone.now())
    silent = factories.server(state=ServerState.DRAINING)
    factories.reading(silent, at=silent_before())
    job = placed((silent, 1), state="running")
    factories.launch(job)
    sweep()
    silent.refresh_from_db()
    job.refresh_from_db()
    assert (silent.state, job.state) == ("draining", "queued")


def test_a_silent_backend_keeps_its_jobs() -> None:
    silent = factories.server()
    factories.reading(silent, at=silent_before())
    job = placed((silent, 1), state="running")
    factories.launch(job)
    sweep()
    job.refresh_from_db()
    assert job.state == "running"


@pytest.mark.django_db(transaction=True)
def test_a_job_that_is_being_displaced_is_not_launched() -> None:
    job = placed((factories.server(), 1))
    with transaction.atomic():
        Job.objects.filter(id=job.id).update(state="queued")
        # another transaction would still read the job as starting
        assert meanwhile(request) == 0
    assert request() == 0


@pytest.mark.django_db(transaction=True)
def test_a_second_sweep_does_not_requeue_a_job_that_runs_again() -> None:
    """It has read that the job is lost, and then waits for the first sweep."""
    lost, fine = factories.server(), factories.server()
    job = placed((lost, 1), state="running")
    factories.launch(job)
    down(lost)
    second: list[int] = []
    with ExitStack() as under_way, transaction.atomic():
        Launch.objects.select_for_update().get()
        under_way.enter_context(in_background(lambda: second.append(recover())))
        wait_for_a_waiter()
        assert recover() == 1
        factories.allocation(job, fine, acquired_seq=0)
        Job.objects.filter(id=job.id).update(state="running", attempts=2)
        factories.launch(job, attempt=2)
    job.refresh_from_db()
    assert (second, job.state) == ([0], "running")
    assert Launch.objects.get(attempt=2).state == "running"


@pytest.mark.django_db(transaction=True)
def test_a_sweep_keeps_a_server_that_reports_while_it_waits() -> None:
    factories.reading(factories.server(), at=timezone.now())
    server = factories.server()
    factories.reading(server, at=silent_before())
    marking = in_background(lambda: mark_silent_servers(silent_before=silent_before()))
    with ExitStack() as under_way, transaction.atomic():
        Server.objects.select_for_update().get(id=server.id)
        under_way.enter_context(marking)
        wait_for_a_waiter()
        ServerReading.objects.filter(server=server).update(at=timezone.now())
    server.refresh_from_db()
    assert server.state == ServerState.ACTIVE
