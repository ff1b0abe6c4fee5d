"""When reservations are renewed, and when they end."""

import pytest
from django.db import transaction
from django.test import override_settings

from apps.execution.services import recovery
from apps.inventory.models import ResourceUnit, Server, ServerState
from apps.inventory.services.servers import set_server_state
from apps.scheduling.models import Allocation, Reservation
from apps.scheduling.services.agent import SchedulingAgent, make_agent
from apps.scheduling.services.reservations import keep_units, lock_reservations, reservations
from apps.workloads.models import Job
from apps.workloads.services import cancel_jobs, set_held
from tests import factories
from tests.scheduling.gangs import NOW_S, at, decide, end, job, late
from tests.scheduling.world import (
    build,
    known,
    state_and_reason,
)

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def clock(db: None) -> None:
    factories.cluster(seen_cluster_s=NOW_S)


def test_the_reservation_ends_when_its_job_is_held_and_when_it_is_placed() -> None:
    build("a")
    application, by = known(), make_agent("agent-1")
    holder = job(application, 1, 100)
    decide(by)
    gang = late(application, 4)
    decide(by)
    set_held(gang.id, held=True)
    assert reservations() == []
    set_held(gang.id, held=False)
    assert len(reservations()) == 1
    end([holder.id], NOW_S)
    decide(by)  # it joins its shape again
    decide(by)
    assert state_and_reason(gang)[0] == "starting"
    assert not Reservation.objects.exists()


def test_a_late_reservation_is_renewed_and_keeps_its_promise_on_record() -> None:
    build("a")
    application, by = known(), make_agent("agent-1")
    holder = job(application, 1, 10)
    decide(by)
    gang = late(application, 4)
    decide(by)
    first = Reservation.objects.get()
    at(first.start_s + 50.0)
    Job.objects.filter(id=holder.id).update(progress=0.5, started_s=NOW_S)
    decide(by)
    again = Reservation.objects.get()
    assert (again.job_id, again.promised_s) == (gang.id, first.start_s)
    run_s = first.start_s + 50.0 - NOW_S  # half of the work took that long
    assert again.start_s == pytest.approx(first.start_s + 50.0 + 1.25 * run_s)


def test_a_late_reservation_without_a_known_start_is_given_up() -> None:
    build("a", "b")
    application, by = known(), make_agent("agent-1")
    holder = job(application, 1, 10)
    decide(by)
    gang = late(application, 8)
    decide(by)
    (kept,) = reservations()
    used = Allocation.objects.get(job=holder).server_id
    other = Server.objects.exclude(id=used).get()
    set_server_state(server_id=other.id, state=ServerState.CORDONED)
    at(kept.start_s + 1.0)
    small = job(application, 1, 10, submitted_s=kept.start_s)
    decide(by)  # gives it up: nobody knows when the server opens again
    assert reservations() == []
    decide(by)
    assert state_and_reason(small)[0] == "starting"
    assert state_and_reason(gang)[0] == "queued"


def keep_for_preemption(waiting: Job, units: list[int]) -> None:
    """Reserve units as a preemption does."""
    with transaction.atomic():
        lock_reservations()
        keep_units(waiting.id, units, start_s=NOW_S + 6.0, for_preemption=True)


@override_settings(MAX_RESERVATIONS=1)
def test_a_late_reservation_is_given_up_while_a_victim_of_another_job_is_being_stopped() -> None:
    """The reservations of preemptions are not limited: with one, there may be too many."""
    build("a", "b", "c")
    application, by = known(), make_agent("agent-1")
    Server.objects.update(labels={"disk": "ssd"})
    Server.objects.filter(name="c").update(labels={"disk": "hdd"})
    ssd, hdd = ({"constraints": {"labels": {"disk": kind}}} for kind in ("ssd", "hdd"))
    victim = job(application, 4, 1000, **hdd)
    holder = job(application, 1, 10, **ssd)
    decide(by)
    gang = job(application, 8, 10, submitted_s=NOW_S - 700.0, **ssd)
    decide(by)
    (kept,) = reservations()
    urgent = job(application, 4, 10, priority=5, **hdd)
    factories.launch(victim, cancel_requested=True)  # its backend is away
    keep_for_preemption(urgent, Allocation.objects.get(job=victim).unit_ids)
    used = Allocation.objects.get(job=holder).server_id
    other = Server.objects.exclude(id=used).get(labels={"disk": "ssd"})
    set_server_state(server_id=other.id, state=ServerState.CORDONED)
    end([holder.id], kept.start_s)
    at(kept.start_s + 1000.0)
    small = job(application, 1, 10, submitted_s=kept.start_s, **ssd)
    decide(by)
    decide(by)
    assert [each.job for each in reservations()] == [urgent.id]
    assert state_and_reason(small)[0] == "starting"
    assert state_and_reason(gang)[0] == "queued"


@override_settings(MAX_RESERVATIONS=0)
def test_a_job_refused_after_its_victims_stopped_gives_its_reservation_up() -> None:
    build("a", "b")
    application, by = known(), make_agent("agent-1")
    gang = late(application, 8)
    keep_for_preemption(gang, list(ResourceUnit.objects.values_list("id", flat=True)))
    set_server_state(server_id=Server.objects.get(name="b").id, state=ServerState.CORDONED)
    small = job(application, 1, 100)
    decide(by)
    assert [each.job for each in reservations()] == [gang.id]  # its victims have 6 s
    assert state_and_reason(small) == ("queued", "UnitsReserved")
    at(NOW_S + 5000.0)
    decide(by)
    assert reservations() == []
    decide(by)
    assert state_and_reason(small)[0] == "starting"


def reserved_on_two_servers(by: SchedulingAgent) -> Job:
    """A gang with a reservation of all units of the two servers that have its label."""
    build("a", "b")
    Server.objects.update(labels={"disk": "ssd"})
    application = known()
    job(application, 1, 100)
    decide(by)
    where = {"constraints": {"labels": {"disk": "ssd"}}}
    gang = job(application, 8, 10, submitted_s=NOW_S - 700.0, **where)
    decide(by)
    assert [len(each.units) for each in reservations()] == [8]
    return gang


def test_a_job_that_no_server_matches_any_more_gives_its_reservation_up() -> None:
    """Else no job could use the units again: the reservation is never planned again."""
    gang = reserved_on_two_servers(make_agent("agent-1"))
    Server.objects.filter(name="b").update(labels={})
    relabelled = make_agent("agent-2")
    small = job(known(), 1, 100)
    decide(relabelled)
    assert state_and_reason(gang) == ("queued", "NoMatchingServer")
    assert reservations() == []
    decide(relabelled)
    assert state_and_reason(small)[0] == "starting"


def test_a_job_whose_servers_are_all_closed_gives_its_reservation_up() -> None:
    by = make_agent("agent-1")
    gang = reserved_on_two_servers(by)
    for server in Server.objects.all():
        set_server_state(server_id=server.id, state=ServerState.CORDONED)
    decide(by)
    assert state_and_reason(gang) == ("queued", "ServersClosed")
    assert reservations() == []


def test_a_launched_job_that_became_too_expensive_gives_its_reservation_up() -> None:
    build("a", "b")
    application, by = known(), make_agent("agent-1")
    holder = job(application, 1, 100)
    decide(by)
    gang = job(
        application, 8, 10, submitted_s=NOW_S - 700.0, attempts=1, constraints={"max_cost": 1e6}
    )
    decide(by)
    assert [each.job for each in reservations()] == [gang.id]
    Job.objects.filter(id=gang.id).update(constraints={"max_cost": 1.0})
    end([holder.id], NOW_S)
    at(NOW_S + 100_000.0)
    small = job(application, 1, 10, submitted_s=NOW_S + 100_000.0)
    decide(by)
    assert state_and_reason(gang) == ("queued", "CostExceeded")
    assert reservations() == []
    decide(by)
    assert state_and_reason(small)[0] == "starting"


def test_the_reservation_of_a_cancelled_job_is_deleted_and_that_of_a_held_job_is_kept() -> None:
    build("a", "b")
    application, by = known(), make_agent("agent-1")
    job(application, 1, 100)
    decide(by)
    gang = late(application, 8)
    decide(by)
    cancel_jobs([gang.id])
    held = late(application, 8)
    decide(by)  # the shape of the cancelled job is deleted
    decide(by)
    set_held(held.id, held=True)
    last = late(application, 8)
    decide(by)
    decide(by)
    assert {kept.job_id for kept in Reservation.objects.all()} == {held.id, last.id}


def test_the_reservation_of_a_cancelled_job_is_deleted_although_no_job_waits() -> None:
    build("a", "b")
    application, by = known(), make_agent("agent-1")
    job(application, 1, 100)
    decide(by)
    gang = late(application, 8)
    decide(by)
    recovery.sweep()
    assert [kept.job_id for kept in Reservation.objects.all()] == [gang.id]
    cancel_jobs([gang.id])
    recovery.sweep()
    assert not Reservation.objects.exists()
