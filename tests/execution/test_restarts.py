"""Migrations by a backend that can only stop a job and start it on another server."""

from typing import Any

import pytest
from django.db import transaction

from apps.execution.core.migration import STOP_S, MigrationOutcome, lost_s, restart_s
from apps.execution.core.port import EndReport
from apps.execution.core.slurm.reconcile import Known
from apps.execution.models import Launch, Migration, SlurmJob
from apps.execution.selectors.slurm import known_jobs
from apps.execution.services.agents import orders_of
from apps.execution.services.launch_reports import record_ended
from apps.execution.services.launches import release_jobs
from apps.execution.services.migrations import MigrationRefusal, cancel_migrations
from apps.execution.services.recovery import requeue_launch
from apps.execution.services.restarts import give_up_restarts, record_restarts
from apps.inventory.core.backends import (
    AGENT,
    CAPABILITIES,
    KUBERNETES,
    SLURM,
    Capability,
    Move,
    move_of,
)
from apps.inventory.models import Cluster, Server
from apps.operations.models import Event
from apps.workloads.core.lifecycle import JobState
from apps.workloads.models import Job
from apps.workloads.services import cancel_jobs
from tests.execution.migration_world import ask, cluster, holds, move, running, server

pytestmark = pytest.mark.django_db

NOW_S = 7260.0  # jobs run since 7,200 s
PROGRAM: dict[str, Any] = {
    "command": ["sleep", "60"],
    "environment": {},
    "working_directory": None,
}


@pytest.fixture(autouse=True)
def world() -> None:
    """Three servers of four units, which agents run."""
    cluster("a", "b", "c")


def program(*units: int, **values: Any) -> Job:
    """A command that agents run on these units since a minute."""
    job = running(units, target={"kind": "best_effort"}, **values)
    Server.objects.update(backend=AGENT)
    Launch.objects.update(backend=AGENT)
    Job.objects.filter(pk=job.pk).update(program=PROGRAM)
    Cluster.objects.update(seen_cluster_s=NOW_S)
    return job


def stopped(
    job: Job, outcome: str = "cancelled", *, at_s: float = NOW_S + 2.0, message: str = ""
) -> None:
    """Report as an agent does that the running launch of a job has ended."""
    launch = job.launches.get(state="running")
    reports = [EndReport(launch.pk, at_s, outcome, message)]
    with transaction.atomic():
        record_restarts(reports)
    with transaction.atomic():
        record_ended(reports, release_jobs=release_jobs)
    job.refresh_from_db()


def test_the_job_starts_on_the_new_server_when_it_has_stopped() -> None:
    job = program(0, 1)
    (number,) = ask(move(job, "a", "b"))
    assert orders_of(server("a"))[0].stop
    assert orders_of(server("b")) == []  # it still runs on the other server
    assert holds(job.pk) == [("a", 2), ("b", 2)]

    stopped(job)
    assert (job.state, job.attempts, job.progress) == ("starting", 2, 0.0)
    assert holds(job.pk) == [("b", 2)]
    assert Migration.objects.get(pk=number).state == "done"
    assert orders_of(server("a")) == []
    (order,) = orders_of(server("b"))
    assert (order.job, order.is_running, order.stop) == (str(job.pk), False, False)
    assert [launch.outcome for launch in job.launches.order_by("id")] == ["moved", ""]
    assert list(
        Event.objects.filter(kind__startswith="job.mov").order_by("seq").values_list(
            "kind", flat=True
        )
    ) == ["job.moving", "job.moved"]  # fmt: skip


def test_a_job_that_restarts_elsewhere_is_moving() -> None:
    job = program(0)
    wish = move(job, "a", "c")
    ask(move(job, "a", "b"))
    assert ask(wish) == [MigrationRefusal.JOB_IS_MOVING]


def test_a_repeated_report_changes_nothing() -> None:
    job = program(0)
    ask(move(job, "a", "b"))
    launch = job.launches.get()
    stopped(job)
    with transaction.atomic():
        record_restarts([EndReport(launch.pk, NOW_S + 9.0, "cancelled")])
    launch.refresh_from_db()
    job.refresh_from_db()
    assert (launch.ended_s, job.state, job.attempts) == (NOW_S + 2.0, "starting", 2)


def test_the_prediction_has_the_work_to_repeat() -> None:
    job = program(0)
    Job.objects.filter(pk=job.pk).update(suspended_for_s=20.0)
    (number,) = ask(move(job, "a", "b"))
    assert Migration.objects.get(pk=number).predicted_s == pytest.approx(STOP_S + 40.0, abs=0.5)


def test_a_suspended_job_repeats_no_work_for_the_time_since_it_was_suspended() -> None:
    job, since_s = program(0), NOW_S - 50.0
    Job.objects.filter(pk=job.pk).update(suspension="suspended", suspended_s=since_s)
    (number,) = ask(move(job, "a", "b"))
    assert Migration.objects.get(pk=number).predicted_s == pytest.approx(STOP_S + 10.0, abs=0.5)


@pytest.mark.parametrize(
    ("started_s", "suspended_for_s", "suspended_s", "expected"),
    [
        (10.0, 0.0, None, 90.0),
        (10.0, 30.0, None, 60.0),
        (100.0, 0.0, None, 0.0),
        (120.0, 0.0, None, 0.0),
        (10.0, 0.0, 40.0, 30.0),
        (10.0, 20.0, 40.0, 10.0),
        (10.0, 0.0, 110.0, 90.0),
    ],
)
def test_the_work_lost_is_the_time_that_the_launch_worked(
    started_s: float, suspended_for_s: float, suspended_s: float | None, expected: float
) -> None:
    assert lost_s(100.0, started_s, suspended_for_s, suspended_s) == expected
    assert restart_s(expected) == expected + STOP_S


def test_a_job_that_ends_before_it_is_stopped_has_ended() -> None:
    job = program(0)
    (number,) = ask(move(job, "a", "b"))
    stopped(job, "finished")
    assert (job.state, holds(job.pk)) == ("succeeded", [])
    assert Migration.objects.get(pk=number).state == "cancelled"


def test_a_launch_does_not_end_before_it_started() -> None:
    job = program(0)
    launch = job.launches.get()
    assert launch.started_s is not None
    stopped(job, "finished", at_s=launch.started_s - 0.01)
    launch.refresh_from_db()
    assert launch.ended_s == job.finished_s == launch.started_s


def test_a_job_that_is_cancelled_while_it_stops_is_cancelled() -> None:
    job = program(0)
    ask(move(job, "a", "b"))
    cancel_jobs([job.pk])
    stopped(job)
    assert (job.state, holds(job.pk)) == ("cancelled", [])


def test_a_job_whose_new_server_went_down_is_queued_again() -> None:
    job = program(0)
    ask(move(job, "a", "b"))
    Server.objects.filter(name="b").update(state="down")
    stopped(job, message="killed by SIGTERM")
    assert (job.state, job.reason_code) == ("queued", "BackendLost")
    assert job.reason_message == "the server on which it was to restart went down"
    assert holds(job.pk) == []
    launch = job.launches.get()  # no preemption, of which a job has few
    assert (launch.outcome, launch.message) == ("moved", "killed by SIGTERM")


def test_a_launch_that_its_agent_lost_meanwhile_is_queued_again() -> None:
    job = program(0)
    (number,) = ask(move(job, "a", "b"))
    with transaction.atomic():
        requeue_launch(job.launches.get().pk, "the machine was restarted")
    job.refresh_from_db()
    assert (job.state, holds(job.pk)) == ("queued", [])
    assert Migration.objects.get(pk=number).state == "failed"


def test_a_plan_cannot_withdraw_a_restart_that_has_begun() -> None:
    job = program(0)
    (number,) = ask(move(job, "a", "b"))
    assert isinstance(number, int)
    assert cancel_migrations([number]) == set()
    stopped(job)
    assert holds(job.pk) == [("b", 1)]


def give_up(job: Job, why: str = "Slurm did not stop it") -> None:
    """Report that the running launch of a job could not be stopped."""
    with transaction.atomic():
        give_up_restarts({job.launches.get().pk: why}, MigrationOutcome.FAILED)
    job.refresh_from_db()


def test_a_job_that_its_backend_cannot_stop_stays_and_its_reservation_is_freed() -> None:
    job = program(0, 1)
    (number,) = ask(move(job, "a", "b"))
    give_up(job)
    found = Migration.objects.get(pk=number)
    assert (found.state, found.message) == ("failed", "Slurm did not stop it")
    launch = job.launches.get()
    assert (launch.state, launch.cancel_requested, launch.message) == ("running", False, "")
    assert (job.state, job.attempts, holds(job.pk)) == ("running", 1, [("a", 2)])
    assert not orders_of(server("a"))[0].stop
    assert isinstance(ask(move(job, "a", "b"))[0], int)  # it may be tried again


def test_a_restart_that_is_given_up_twice_changes_once() -> None:
    job = program(0)
    ask(move(job, "a", "b"))
    give_up(job)
    give_up(job)
    assert Event.objects.filter(kind="job.move_failed").count() == 1


def test_a_launch_that_is_stopped_for_another_reason_stays_stopped() -> None:
    job = program(0)
    Launch.objects.update(cancel_requested=True, message="its units are needed")
    give_up(job)
    launch = job.launches.get()
    assert (launch.cancel_requested, launch.message) == (True, "its units are needed")


def test_a_job_of_slurm_is_stopped_to_restart_or_cancelled() -> None:
    job = program(0)
    SlurmJob.objects.create(slurm_id=7, job=job)
    assert known_jobs()[7].known == Known(JobState.RUNNING, node="a", is_running=True)
    ask(move(job, "a", "b"))
    known = known_jobs()[7].known
    assert (known.stop, known.restarts) == (False, True)
    cancel_jobs([job.pk])
    assert known_jobs()[7].known.stop


def test_restarts_elsewhere_do_not_count_as_failed_launches() -> None:
    job = program(0)
    for source, target in (("a", "b"), ("b", "c"), ("c", "a"), ("a", "b")):
        ask(move(job, source, target))
        stopped(job)
        orders_of(server(target))
        job.launches.filter(state="requested").update(state="running", started_s=NOW_S)
        Job.objects.filter(pk=job.pk).update(state="running", started_s=NOW_S)
    with transaction.atomic():
        requeue_launch(job.launches.get(state="running").pk, "lost")
    job.refresh_from_db()
    assert (job.attempts, job.state) == (5, "queued")


def test_a_job_on_several_servers_is_not_restarted_in_parts() -> None:
    job = program(0, 4)
    assert ask(move(job, "a", "c")) == [MigrationRefusal.SEVERAL_SERVERS]
    assert not job.launches.get().cancel_requested


def test_a_server_of_another_backend_is_refused() -> None:
    job = program(0)
    Server.objects.filter(name="b").update(backend="emulated")
    assert ask(move(job, "a", "b")) == [MigrationRefusal.OTHER_BACKEND]


def test_a_backend_has_at_most_one_kind_of_move() -> None:
    kinds = {Capability.MOVE_LIVE, Capability.MOVE_RESTART}
    assert all(len(known & kinds) <= 1 for known in CAPABILITIES.values())
    assert move_of("emulated") is Move.LIVE
    assert {move_of(AGENT), move_of(SLURM)} == {Move.RESTART}
    assert move_of(KUBERNETES) is Move.NONE
    assert move_of("unknown") is Move.NONE
