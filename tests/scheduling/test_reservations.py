"""Gangs that have waited long get reservations, around which other jobs are backfilled."""

from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import numpy as np
import pytest
from django.test import override_settings

from apps.dashboard.selectors.job_facts import job_header
from apps.inventory.models import Server
from apps.inventory.selectors import cluster_now
from apps.operations.models import Event
from apps.scheduling.api.serializers import represent_explanation
from apps.scheduling.core.batch_state import TopologyFacts
from apps.scheduling.core.cluster.conflicts import Claim
from apps.scheduling.core.requests import START_DELAY_S
from apps.scheduling.core.reservations.backfill import Binding
from apps.scheduling.core.reservations.gangs import Reservation as CoreReservation
from apps.scheduling.models import Allocation, Decision, Reservation
from apps.scheduling.selectors.queue import holdings
from apps.scheduling.services import (
    ReservationFailure,
    ReservationRequest,
    commit,
    reserve_units,
)
from apps.scheduling.services.agent import make_agent
from apps.scheduling.services.backfill import bindings, start_s
from apps.scheduling.services.commit import bar_reserved
from apps.scheduling.services.reservations import reservations, reserve
from apps.workloads.models import Job
from tests import factories
from tests.scheduling.core.clusters import request
from tests.scheduling.gangs import NOW_S, at, decide, end, job, late
from tests.scheduling.world import (
    ME,
    FirstFree,
    agent,
    build,
    claimed,
    followed_copy,
    known,
    proposal,
    state_and_reason,
    work,
)

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def clock(db: None) -> None:
    factories.cluster(seen_cluster_s=NOW_S)


def flood(seconds: float) -> Job:
    """A gang of all eight units under a flood of small jobs; at most until it starts."""
    build("a", "b")
    application, rng, by = known(), np.random.default_rng(4), make_agent("agent-1")
    for _ in range(8):
        job(application, 1, 10)
    decide(by)
    gang = job(application, 8, 10)
    ends: dict[Any, float] = {}
    for now in np.arange(NOW_S + 20.0, NOW_S + seconds, 20.0).tolist():
        at(now)
        for running in Job.objects.filter(state="starting"):
            assert running.placed_s is not None
            assert running.run_high_s is not None
            took = running.run_high_s * rng.uniform(0.5, 1.0)
            ends.setdefault(running.id, running.placed_s + took)
        over = [key for key, end_s in ends.items() if end_s <= now]
        end(over, now)
        for key in over:
            del ends[key]
        for _ in range(3):
            job(application, 1, 10, submitted_s=now)
        decide(by)
        gang.refresh_from_db()
        if gang.state == "starting":
            break
    return gang


@override_settings(RESERVE_AFTER_S=200.0)
def test_a_wide_gang_under_a_flood_of_small_jobs_starts_within_its_bound() -> None:
    gang = flood(800.0)
    assert (gang.state, gang.units) == ("starting", 8)
    event = Event.objects.get(kind="job.reserved", subject=str(gang.id))
    assert gang.placed_s is not None
    # 20 s are the step of the test
    assert gang.placed_s <= event.data["start_seconds"] + 20.0
    longest = max(small.run_high_s or 0.0 for small in Job.objects.filter(units=1))
    assert gang.placed_s - NOW_S <= 200.0 + longest + 40.0
    assert not Reservation.objects.exists()


@override_settings(RESERVE_AFTER_S=200.0, MAX_RESERVATIONS=0)
def test_without_reservations_the_flood_starves_the_gang() -> None:
    gang = flood(800.0)
    assert state_and_reason(gang)[0] == "queued"


def test_reservations_end_once_the_setting_allows_none() -> None:
    build("a", "b")
    application, by = known(), make_agent("agent-1")
    job(application, 1, 100)
    decide(by)
    gang = late(application, 8)
    decide(by)
    assert [each.job for each in reservations()] == [gang.id]
    Reservation.objects.create(
        job_id=uuid4(), unit_ids=[1], made_s=0.0, promised_s=0.0, start_s=0.0, for_preemption=True
    )
    with override_settings(MAX_RESERVATIONS=0):
        decide(by)
        long = job(application, 1, 150)
        decide(by)
    assert state_and_reason(long)[0] == "starting"
    assert [kept.for_preemption for kept in Reservation.objects.all()] == [True]


def test_jobs_that_end_before_the_gang_starts_are_backfilled_and_others_wait() -> None:
    build("a", "b")
    application, by = known(), make_agent("agent-1")
    job(application, 1, 100)  # one unit is busy for about 1,000 s
    decide(by)
    gang = late(application, 8)
    decide(by)
    assert state_and_reason(gang) == ("queued", "NotEnoughFreeUnits")
    (kept,) = reservations()
    assert (kept.job, len(kept.units)) == (gang.id, 8)
    run_s = Job.objects.get(state="starting").run_high_s
    assert run_s is not None
    assert kept.start_s == pytest.approx(NOW_S + run_s)
    short, long = job(application, 1, 50), job(application, 1, 150)
    service = job(
        application, 1, 0, target={"kind": "ips", "ips": 1.0}, target_kind="ips", priority=9
    )
    decide(by)
    assert state_and_reason(short)[0] == "starting"
    assert state_and_reason(long) == ("queued", "UnitsReserved")
    assert state_and_reason(service)[0] == "queued"
    decision = Decision.objects.get(job=long)
    assert decision.dropped["reserved"] == 6  # of eight: one is busy, the short job has one
    long.refresh_from_db()
    assert long.reason_message == "6 free units are reserved for another job"


def test_only_adjacent_jobs_share_a_binding() -> None:
    """Groups are decided one after the other: a later job must not pass one of higher priority."""
    topology = build("a").topology
    free = topology.unit_id[:2].tolist()
    gang = CoreReservation(uuid4(), NOW_S + 60.0, frozenset(free))
    lengths_s: list[float] = [10.0, 1e6, 10.0, 20.0]  # the second ends after the gang starts
    ready: list[Any] = [
        SimpleNamespace(job=SimpleNamespace(id=uuid4()), longest_s=length_s, topology=topology)
        for length_s in lengths_s
    ]
    found = bindings(ready, [gang], NOW_S)
    room = tuple((unit, 4e9, 0.25e9, 0.25e12) for unit in free)  # equal shares of four
    assert found == (
        Binding((0,), ()), Binding((1,), tuple(free), room), Binding((2, 3), ())
    )  # fmt: skip


def test_the_delay_of_its_start_counts_for_the_end_of_a_job() -> None:
    factories.cluster(seen_cluster_s=NOW_S, speed=60.0)  # the clock is at its limit
    topology, now_s, delay_s = build("a").topology, cluster_now(), 60.0 * START_DELAY_S
    unit, length_s = int(topology.unit_id[0]), 100.0
    one: Any = SimpleNamespace(job=SimpleNamespace(id=uuid4()), longest_s=length_s)
    one.topology, one.sized_job = topology, one
    claim = Claim("a", [unit], [1], [(1.0, 1.0, 1.0)], whole=False)
    begins_s = [now_s + length_s, now_s + length_s + delay_s]
    early, late_enough = ([CoreReservation(uuid4(), s, frozenset({unit}))] for s in begins_s)
    for reserved, barred in ((early, {unit}), (late_enough, set[int]())):
        (binding,) = bindings([one], reserved, start_s())
        (found,) = bar_reserved([one], [claim], reserved)
        assert set(binding.units) == set(found.barred) == barred


def test_a_gang_that_has_not_waited_long_gets_no_reservation() -> None:
    build("a")
    application, by = known(), make_agent("agent-1")
    job(application, 1, 100)
    decide(by)
    job(application, 4, 10)
    decide(by)
    assert reservations() == []


def test_units_without_a_known_end_are_not_waited_for() -> None:
    copy = build("a")
    application, by = known(), make_agent("agent-1")
    commit([proposal(claimed(), copy.topology, [0])], agent=ME)  # no run time is predicted
    late(application, 4)
    decide(by)
    assert reservations() == []


@pytest.mark.parametrize("is_known", [True, False])
def test_units_on_a_server_without_memory_are_reserved_for_when_it_is_given_back(
    is_known: bool,
) -> None:
    """Three units are free, and a job on the fourth holds nine tenths of the memory."""
    build("a")
    application, by = known(), make_agent("agent-1")
    holder = job(application, 1, 100, unit_memory_bytes=14 * 10**9)
    decide(by)
    holder.refresh_from_db()
    assert holder.run_high_s is not None
    if not is_known:
        Job.objects.filter(id=holder.id).update(run_high_s=None)
    gang = job(application, 2, 10, submitted_s=NOW_S - 700.0, unit_memory_bytes=10**9 * 3 // 2)
    decide(by)
    assert state_and_reason(gang) == ("queued", "CapacityShort")
    end_s = pytest.approx(NOW_S + holder.run_high_s)
    assert [each.start_s for each in reservations()] == ([end_s] if is_known else [])


def test_a_suspended_job_has_no_known_end_and_its_suspension_delays_the_predicted_one() -> None:
    build("a")
    application, by = known(), make_agent("agent-1")
    holder = job(application, 1, 10)
    decide(by)
    gang = late(application, 4)
    shown = Job.objects.filter(id=holder.id)
    shown.update(state="running", started_s=NOW_S, suspension="suspended", suspended_s=NOW_S)
    decide(by)
    assert reservations() == []
    assert holdings(NOW_S) == []
    shown.update(suspension="", suspended_s=None, suspended_for_s=90.0)
    decide(by)
    (kept,) = reservations()
    run_high_s = shown.get().run_high_s
    assert run_high_s is not None
    assert kept.job == gang.id
    assert kept.start_s == pytest.approx(NOW_S + 90.0 + run_high_s)
    at(NOW_S + 100.0)
    assert [held.elapsed_s for held in holdings(NOW_S + 100.0)] == [10.0]


@override_settings(MAX_RESERVATIONS=2)
def test_the_number_of_reservations_is_limited_and_they_share_no_unit() -> None:
    build("a", "b", "c")
    application, by = known(), make_agent("agent-1")
    for _ in range(3):
        job(application, 3, 100, constraints={"locality": "server"})
    decide(by)
    gangs = [
        job(
            application, 4, 10 + i, constraints={"locality": "server"}, submitted_s=NOW_S - 900 + i
        )
        for i in range(3)
    ]
    decide(by)
    decide(by)
    kept = reservations()
    assert {each.job for each in kept} == {gangs[0].id, gangs[1].id}
    assert not kept[0].units & kept[1].units


@override_settings(BACKFILL="conservative")
def test_conservative_backfill_reserves_for_each_refused_job_at_once() -> None:
    build("a", "b")
    application, by = known(), make_agent("agent-1")
    job(application, 7, 100)
    decide(by)
    gang, single = job(application, 4, 50), job(application, 1, 300, submitted_s=NOW_S - 1.0)
    at(NOW_S + 1.0)
    decide(by)
    assert state_and_reason(single)[0] == "starting"
    second = job(application, 2, 200)
    decide(by)
    kept = {each.job: each for each in reservations()}
    assert set(kept) == {gang.id, second.id}
    assert not kept[gang.id].units & kept[second.id].units


@override_settings(BACKFILL="conservative")
def test_conservative_backfill_reserves_one_unit_for_a_job_that_may_start_with_it() -> None:
    build("a")
    application, by = known(), make_agent("agent-1")
    job(application, 4, 100)
    decide(by)
    wide = job(application, 3, 200, gang=False)
    decide(by)
    (kept,) = reservations()
    assert (kept.job, len(kept.units)) == (wide.id, 1)


@override_settings(BACKFILL="easy")
def test_easy_backfill_reserves_for_no_job_of_one_unit() -> None:
    build("a")
    application, by = known(), make_agent("agent-1")
    job(application, 4, 100)
    decide(by)
    job(application, 1, 100, submitted_s=NOW_S - 900.0)
    decide(by)
    assert reservations() == []


def test_a_plan_that_fails_is_not_repeated_for_equal_requests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each plan reads all allocations, and a service says of no unit when it is free."""
    build("a")
    application, by = known(), make_agent("agent-1")
    service = {"target": {"kind": "ips", "ips": 1.0}, "target_kind": "ips"}
    job(application, 4, 0, **service)
    decide(by)
    planned: list[int] = []

    def counted(of: Any, *rest: Any) -> None:
        planned.append(of.units)

    monkeypatch.setattr("apps.scheduling.services.reservations.plan", counted)
    for units in (2, 2, 3, 2):
        late(application, units)
    decide(by)
    assert sorted(planned) == [2, 3]


def test_a_late_reservation_is_planned_again_although_no_plan_exists_for_an_equal_job(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its own units count for itself only; else it would keep them for ever."""
    build("a")
    application, by = known(), make_agent("agent-1")
    job(application, 4, 0, target={"kind": "ips", "ips": 1.0}, target_kind="ips")
    decide(by)
    planned: list[int] = []
    monkeypatch.setattr(
        "apps.scheduling.services.reservations.plan", lambda of, *_: planned.append(of.units)
    )
    job(application, 2, 10, submitted_s=NOW_S - 900.0)
    mine, past = late(application, 2), NOW_S - 1.0
    Reservation.objects.create(
        job_id=mine.id, unit_ids=[], made_s=0.0, start_s=past, promised_s=past
    )
    decide(by)
    assert planned == [2, 2]
    assert reservations() == []


def test_an_agent_that_has_not_read_a_new_reservation_cannot_break_it() -> None:
    """The reservation is stored between the choice of an agent and its commit."""
    build("a")
    application = known()
    holder = job(application, 1, 100)
    decide(make_agent("agent-1"))
    gang = job(application, 4, 10)
    decide(make_agent("agent-1"))

    def reserve_now() -> None:
        snapshot = followed_copy().copy.snapshot()
        facts = TopologyFacts(snapshot.topology)
        assert reserve(gang.id, request(4, gang=True), snapshot, facts)

    long = job(application, 1, 150)
    work(agent("agent-1", FirstFree(meanwhile=reserve_now)))
    assert state_and_reason(long) == ("queued", "UnitsReserved")
    assert set(Allocation.objects.values_list("job_id", flat=True)) == {holder.id}


def test_a_commit_leaves_units_that_were_reserved_since_the_decision_although_they_have_room() -> (
    None
):
    """The server has memory, network and storage for the gang and for the other job."""
    topology = build("a").topology
    small: dict[str, Any] = {
        "unit_memory_bytes": 1e6, "unit_network_bps": 1e3, "unit_storage_bytes": 1e6,
    }  # fmt: skip
    application = known()
    holder = job(application, 1, 100, **small)
    decide(make_agent("agent-1"))
    gang, other = job(application, 4, 10, state="queued", **small), claimed()
    decided = proposal(other, topology, [2, 3], gang=False, **small)
    snapshot = followed_copy().copy.snapshot()
    facts = TopologyFacts(snapshot.topology)
    assert reserve(gang.id, request(4, gang=True, **small), snapshot, facts)
    won, lost = commit([decided], agent=ME)
    assert (won, [each.proposal.job.id for each in lost]) == ({}, [other.id])
    assert set(Allocation.objects.values_list("job_id", flat=True)) == {holder.id}


def test_units_that_are_taken_while_a_reservation_is_planned_are_not_reserved() -> None:
    copy = build("a")
    application = known()
    gang = job(application, 4, 10)
    job(application, 1, 100)
    decide(make_agent("agent-1"))
    snapshot, facts = copy.frozen(), TopologyFacts(copy.topology)  # read before the commit
    assert state_and_reason(gang)[0] == "starting"
    other = job(application, 4, 20)
    decide(make_agent("agent-1"))
    assert not reserve(other.id, request(4, gang=True), snapshot, facts)
    assert reservations() == []


def test_a_migration_takes_no_reserved_unit() -> None:
    build("a", "b")
    application, by = known(), make_agent("agent-1")
    job(application, 1, 100)
    decide(by)
    late(application, 8)
    decide(by)
    held = Allocation.objects.get()
    to = Server.objects.exclude(id=held.server_id).get().id
    assert reserve_units([ReservationRequest(held.id, to)]) == [ReservationFailure.UNITS_SHORT]


def test_a_migration_to_a_full_server_is_refused_while_units_are_reserved() -> None:
    build("a", "b")
    application, by = known(), make_agent("agent-1")
    job(application, 8, 100)
    decide(by)
    late(application, 8)
    decide(by)
    held, other = Allocation.objects.order_by("server_id")
    assert reservations()
    to_full = ReservationRequest(held.id, other.server_id)
    assert reserve_units([to_full]) == [ReservationFailure.UNITS_SHORT]


def test_the_explanation_shows_the_reservation_while_the_job_waits() -> None:
    build("a")
    application, by = known(), make_agent("agent-1")
    job(application, 1, 100)
    decide(by)
    gang = late(application, 4)
    assert represent_explanation(gang, None, [], now_s=NOW_S)["reservation"] is None
    decide(by)
    gang.refresh_from_db()
    kept = Reservation.objects.get()
    assert represent_explanation(gang, None, [], now_s=NOW_S)["reservation"] == {
        "units": 4,
        "made_seconds": NOW_S,
        "start_seconds": kept.start_s,
        "promised_seconds": kept.start_s,
    }
    assert job_header(gang, now_s=NOW_S).reservation == kept
    gang.state = "starting"
    assert represent_explanation(gang, None, [], now_s=NOW_S)["reservation"] is None
