"""Reservations keep memory too, and are kept, served and given up whatever else waits."""

from typing import Any
from uuid import uuid4

import pytest

from apps.inventory.models import Server
from apps.scheduling.models import Allocation, Reservation
from apps.scheduling.selectors import read_copy
from apps.scheduling.services import (
    ReservationFailure,
    ReservationRequest,
    commit,
    reserve_units,
)
from apps.scheduling.services.agent import make_agent
from apps.scheduling.services.reservations import reservations
from apps.workloads.models import Application, Job
from tests import factories
from tests.scheduling import policies_that_fail
from tests.scheduling.gangs import NOW_S, decide, end, job
from tests.scheduling.world import ME, build, claimed, known, proposal, state_and_reason

pytestmark = pytest.mark.django_db

GB = 10**9


@pytest.fixture(autouse=True)
def clock(db: None) -> None:
    factories.cluster(seen_cluster_s=NOW_S)


def reserve(of: Job, units: list[int], start_s: float, **values: Any) -> None:
    """Store a reservation, as a preemption does."""
    Reservation.objects.create(
        job_id=of.id, unit_ids=units, made_s=NOW_S, promised_s=start_s, start_s=start_s, **values
    )


def lacking_memory(of: Application, **values: Any) -> tuple[Job, Job]:
    """Eight units and 16 GB, of which a job holds one unit and 10 GB, and one that waits."""
    build("a", cores=8)
    by = make_agent("agent-1")
    holder = job(of, 1, 100, unit_memory_bytes=10 * GB)
    decide(by)
    wide = job(of, submitted_s=NOW_S - 700.0, gigabytes=10, **values)
    decide(by)
    assert state_and_reason(wide) == ("queued", "CapacityShort")
    (kept,) = reservations()
    holder.refresh_from_db()
    assert holder.run_high_s is not None
    assert kept.job == wide.id
    assert kept.start_s == pytest.approx(NOW_S + holder.run_high_s)
    return holder, wide


@pytest.mark.parametrize(("units", "each"), [(4, 4 * GB), (1, 16 * GB)])
def test_jobs_that_end_too_late_get_no_memory_that_reserved_units_need(
    units: int, each: int
) -> None:
    """Else such jobs would take whatever memory is given back, though no reserved unit."""
    of, by = known(), make_agent("agent-1")
    holder, wide = lacking_memory(of, units=units, unit_memory_bytes=each)
    short = job(of, 1, 50, unit_memory_bytes=2 * GB)
    long = job(of, 1, 300, unit_memory_bytes=2 * GB)
    decide(by)
    assert state_and_reason(short)[0] == "starting"
    assert state_and_reason(long) == ("queued", "UnitsReserved")
    end([holder.id, short.id], NOW_S + 10.0)
    decide(by)
    assert [state_and_reason(one)[0] for one in (wide, long)] == ["starting", "queued"]


def test_a_commit_takes_no_memory_that_reserved_units_need() -> None:
    lacking_memory(known(), units=4, unit_memory_bytes=4 * GB)
    last = proposal(claimed(), read_copy().topology, [7], unit_memory_bytes=2 * GB)
    won, (lost,) = commit([last], agent=ME)
    assert not won
    assert not lost.is_gone
    Reservation.objects.all().delete()
    assert commit([last], agent=ME)[0]


def test_of_two_jobs_that_need_the_memory_of_one_server_the_first_gets_it() -> None:
    """Each has reserved a unit, and needs the 10 GB that a third job gives back early."""
    build("a", cores=8)
    of, by = known(), make_agent("agent-1")
    holder = job(of, 1, 100, unit_memory_bytes=12 * GB)
    decide(by)
    wide = [
        job(of, 1, 300, unit_memory_bytes=memory * GB, submitted_s=NOW_S - 700.0)
        for memory in (10, 9)
    ]
    units = read_copy().topology.unit_id.tolist()
    (used,) = Allocation.objects.get(job=holder).unit_ids
    free = [unit for unit in units if unit != used]
    reserve(wide[0], [used], NOW_S + 1000.0)
    reserve(wide[1], free[:1], NOW_S + 1000.0)
    decide(by)
    assert [state_and_reason(one)[0] for one in wide] == ["queued", "queued"]
    end([holder.id], NOW_S + 10.0)
    decide(by)
    assert [state_and_reason(one)[0] for one in wide] == ["starting", "queued"]


def test_jobs_after_the_holder_in_its_turn_see_its_memory_once() -> None:
    build("a", cores=8)
    of, by = known(), make_agent("agent-1")
    wide = job(of, 2, 300, unit_memory_bytes=4 * GB, priority=1)
    units = read_copy().topology.unit_id.tolist()
    reserve(wide, units[:2], NOW_S + 1000.0)
    other = job(of, 1, 300, unit_memory_bytes=6 * GB)
    decide(by)
    assert [state_and_reason(one)[0] for one in (wide, other)] == ["starting", "starting"]


def test_a_migration_takes_no_memory_that_reserved_units_need() -> None:
    build("a", "b")
    of, by = known(), make_agent("agent-1")
    mover = job(of, 1, 100, unit_memory_bytes=6 * GB)
    decide(by)
    held = Allocation.objects.get(job=mover)
    to = Server.objects.exclude(id=held.server_id).get()
    wide = job(of, 2, 300, unit_memory_bytes=6 * GB)
    target = ReservationRequest(held.id, to.id)
    units = sorted(to.units.values_list("id", flat=True))
    reserve(wide, units[:2], NOW_S + 1000.0)
    assert reserve_units([target]) == [ReservationFailure.CAPACITY_SHORT]
    Reservation.objects.all().delete()
    assert isinstance(reserve_units([target])[0], int)


def test_older_jobs_of_its_shape_do_not_keep_the_holder_of_a_reservation_out() -> None:
    """A gang that was stopped, or on hold, joins the shape of a younger one that has units."""
    build("a", "b")
    of, by = known(), make_agent("agent-1")
    running = job(of, 1, 100)
    decide(by)
    gang = job(of, 8, 2000, submitted_s=NOW_S - 700.0)
    decide(by)
    older = job(of, 8, 2000, submitted_s=NOW_S - 800.0)
    Job.objects.filter(id=older.id).update(
        created_at=factories.job().created_at.replace(year=2020)
    )
    decide(by)
    older.refresh_from_db()
    gang.refresh_from_db()
    assert older.shape_id == gang.shape_id
    assert [each.job for each in reservations()] == [gang.id]
    end([running.id], NOW_S + 10.0)
    decide(by)
    assert [state_and_reason(one)[0] for one in (gang, older)] == ["starting", "queued"]
    assert [each.job for each in reservations()] == [older.id]


def test_a_job_beyond_its_quota_keeps_its_reservation_until_its_victims_have_stopped() -> None:
    """The units of those that have stopped already count for their projects, which wait again."""
    build("a")
    owner = factories.project("web")
    owner.max_units = 1
    owner.save()
    of, by = known(), make_agent("agent-1")
    victim = job(of, 2, 100)
    decide(by)
    gang = job(of, 2, 10, project=owner)
    units = Allocation.objects.get(job=victim).unit_ids
    factories.launch(victim, cancel_requested=True)
    reserve(gang, units, NOW_S, for_preemption=True)
    decide(by)
    assert state_and_reason(gang) == ("queued", "QuotaExceeded")
    assert [each.job for each in reservations()] == [gang.id]
    end([victim.id], NOW_S)
    decide(by)
    assert reservations() == []


def test_a_job_whose_policy_fails_gives_its_reservation_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    policies_that_fail.install(monkeypatch, "theirs", "raises")
    build("a")
    of, by = known(), make_agent("agent-1")
    gang = job(of, 4, 10, policy="theirs")
    reserve(gang, [1, 2], NOW_S)
    decide(by)
    assert state_and_reason(gang) == ("queued", "PolicyFailed")
    assert reservations() == []


def test_a_reservation_whose_server_was_removed_is_not_kept_for_victims() -> None:
    gang = job(known(), 2, 10)
    reserve(gang, [10**6], NOW_S - 1.0, for_preemption=True)
    reserve(job(known(), 2, 10), [], NOW_S - 1.0)
    assert [each.is_awaiting for each in reservations()] == [False, False]


def test_a_reservation_of_an_unknown_job_is_not_read() -> None:
    Reservation.objects.create(job_id=uuid4(), unit_ids=[1], made_s=0, promised_s=0, start_s=0)
    assert reservations() == []
