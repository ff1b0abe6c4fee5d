"""Preemptions: victims are stopped and queued again; the waiting job gets the units."""

from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

import pytest
from django.utils import timezone

from apps.accounts.models import AuditEntry
from apps.common.core.errors import ConflictError
from apps.execution.core.port import EndReport
from apps.execution.models import JobSample, Launch
from apps.execution.selectors.preemption import PreemptibleJob, preemptible_jobs
from apps.execution.services import preemption
from apps.execution.services.migrations import MigrationRefusal
from apps.execution.services.preemption import (
    Outcome,
    Preemption,
    preempt,
    preview_preemption,
)
from apps.execution.services.recovery import MAX_ATTEMPTS, requeue_launch
from apps.inventory.core.backends import AGENT
from apps.inventory.models import Cluster, Server, ServerState
from apps.inventory.selectors import newest_change
from apps.operations.models import Event
from apps.scheduling.models import Allocation, Reservation
from apps.scheduling.selectors import read_copy
from apps.scheduling.services import commit
from apps.scheduling.services.agent import make_agent
from apps.scheduling.services.reservations import reservations
from apps.workloads.core.targets import InstructionRate
from apps.workloads.models import Job, WaitingShape
from apps.workloads.services import cancel_jobs, claim_incomplete, set_held, update_job
from tests import factories
from tests.execution.migration_world import (
    ask,
    broken,
    end,
    holds,
    launch_of,
    move,
    plane,
)
from tests.execution.preemption_world import (
    BEST_EFFORT,
    NOW_S,
    apply,
    counts,
    low,
    names,
    urgent,
    world,
)
from tests.scheduling.world import ME, claimed, known, proposal, put

__all__ = ["world"]  # a fixture of all tests
pytestmark = pytest.mark.django_db


def test_the_victim_is_stopped_and_queued_again_and_the_job_gets_its_units() -> None:
    victim = low([0, 1, 2, 3], application=known(), units_requested=4, gang=True)
    low([4, 5, 6, 7], target={"kind": "ips", "ips": 1.0})
    job = urgent(4)
    found = apply(job)
    assert found.outcome is Outcome.POSSIBLE
    assert plane().cancelled_launches() == [launch_of(victim).id]
    assert holds(victim.id) == [("a", 4)]  # until its backend has stopped it
    end(victim, "cancelled")
    victim.refresh_from_db()
    assert (victim.state, victim.reason_code) == ("queued", "Preempted")
    assert victim.reason_message == "its units were given to a job of higher priority"
    assert (launch_of(victim).state, launch_of(victim).outcome) == ("ended", "preempted")
    assert holds(victim.id) == []
    # the victim comes first, as nothing wakes the urgent job, but its units are reserved
    by = make_agent("agent-1")
    later = timezone.now() + timedelta(hours=1)
    WaitingShape.objects.update(due_at=later, evaluated_seq=newest_change())
    by.work(for_s=0.3)
    victim.refresh_from_db()
    assert (victim.state, victim.reason_code) == ("queued", "UnitsReserved")
    WaitingShape.objects.update(due_at=timezone.now())
    by.work(for_s=0.3)
    job.refresh_from_db()
    assert job.state == "starting"
    assert holds(job.id) == [("a", 4)]
    assert not Reservation.objects.exists()
    assert broken() == []


def test_a_victim_that_is_being_stopped_is_given_no_missing_units() -> None:
    victim = low([0, 1], units_requested=4, gang=False)
    Job.objects.filter(id=victim.id).update(units_missing=2)
    low([4, 5, 6, 7], priority=5)
    job = urgent(3)
    assert claim_incomplete(agent=ME.name, limit=4) == [victim.id]
    late = proposal(victim, read_copy().topology, [3], gang=False)
    apply(job)
    assert [lost.is_gone for lost in commit([late], agent=ME)[1]] == [True]
    assert claim_incomplete(agent=ME.name, limit=4) == []
    assert holds(victim.id) == [("a", 2)]
    end(victim, "cancelled")
    victim.refresh_from_db()
    assert (victim.state, victim.claimed_until) == ("queued", None)


def test_the_act_is_audited_and_each_victim_has_an_event() -> None:
    victim = low([0, 1, 2, 3])
    low([4, 5, 6, 7], priority=5)
    job = urgent(2)
    apply(job)
    act = AuditEntry.objects.get(action="job.preempting")
    assert act.object_id == str(job.id)
    assert act.after == {
        "victims": [str(victim.id)], "units": 2, "broken": 0, "lost": 240, "jobs": 1,
    }  # fmt: skip
    event = Event.objects.get(kind="job.preempted")
    assert (event.subject, event.project_id) == (str(victim.id), victim.project_id)
    assert event.data == {
        "name": "low-0", "state": "running", "lost_unit_seconds": 240, "breaks_promise": False,
    }  # fmt: skip


def test_the_units_are_reserved_from_the_time_at_which_the_victims_have_stopped() -> None:
    victim = low([0, 1, 2, 3])
    low([4, 5, 6], priority=5)  # one unit is free
    job = urgent(3)
    apply(job)
    kept = Reservation.objects.get(job_id=job.id)
    units = set(Allocation.objects.get(job=victim).unit_ids)
    assert len(kept.unit_ids) == 3
    assert len(units & set(kept.unit_ids)) >= 2
    assert kept.start_s == NOW_S  # the clock of the test stands


def test_a_changed_priority_gives_a_victim_that_is_being_stopped_no_missing_units() -> None:
    victim = low([0, 1], units_requested=4, gang=False)
    Job.objects.filter(id=victim.id).update(units_missing=2)
    low([4, 5, 6, 7], priority=5)
    apply(urgent(3))
    update_job(victim.id, {"priority": 1})
    assert claim_incomplete(agent=ME.name, limit=4) == []


def test_a_job_that_lacks_units_is_evaluated_again_when_its_target_changes() -> None:
    job = low([0, 1], units_requested=4, gang=False)
    Job.objects.filter(id=job.id).update(units_missing=2)
    assert claim_incomplete(agent="agent-1", limit=4) == [job.id]
    update_job(job.id, {"target": InstructionRate(1.0)})
    assert claim_incomplete(agent="agent-2", limit=4) == [job.id]


@pytest.mark.parametrize("backend", ["emulated", AGENT])
def test_a_victim_that_is_being_stopped_does_not_migrate(backend: str) -> None:
    victim, other = low([0, 1]), low([4, 5, 6, 7], priority=5)
    apply(urgent(4))
    end(other)
    Server.objects.update(backend=backend)
    Launch.objects.update(backend=backend)
    assert ask(move(victim, "a", "b")) == [MigrationRefusal.JOB_NOT_RUNNING]
    assert launch_of(victim).message == "preempted by a job of higher priority"


def test_a_reservation_is_awaiting_while_a_victim_stops_and_not_while_others_hold_its_units() -> (
    None
):
    victim, backfilled = low([0, 1]), low([2])
    units = [Allocation.objects.get(job=each).unit_ids[0] for each in (victim, backfilled)]
    for unit, name in zip(units, ("first", "second"), strict=True):
        Reservation.objects.create(
            job_id=factories.job(name).id, unit_ids=[unit], made_s=0.0, start_s=NOW_S - 60.0,
            promised_s=0.0, for_preemption=True,
        )  # fmt: skip
    Launch.objects.filter(job=victim).update(cancel_requested=True)
    of_victim, of_backfilled = reservations()
    assert (of_victim.is_awaiting, of_victim.start_s) == (True, NOW_S)
    assert (of_backfilled.is_awaiting, of_backfilled.start_s) == (False, NOW_S - 60.0)


def test_a_preview_whose_victims_have_changed_is_not_applied() -> None:
    victim = low([0, 1, 2, 3])
    low([4, 5, 6, 7], "dear", target={"kind": "ips", "ips": 1.0})
    job = urgent(4)
    basis = preview_preemption(job.id).basis
    end(victim)
    before = counts()
    with pytest.raises(ConflictError, match="Enough units are free"):
        preempt(job.id, basis)
    assert counts() == before
    other = low([0, 1, 2, 3], "other")
    with pytest.raises(ConflictError, match="Check the new preview"):
        preempt(job.id, basis)
    assert not launch_of(other).cancel_requested
    assert not Reservation.objects.exists()


def seen_in(found: Preemption) -> dict[UUID, bool]:
    return {victim.job.id: victim.promise.breaks for victim in found.victims}


def test_the_victims_of_a_preview_are_stopped_although_others_would_be_chosen_now() -> None:
    victim = low([0, 1, 2, 3])
    blocker = low([4, 5, 6, 7], priority=5)
    job = urgent(4)
    found = preview_preemption(job.id)
    assert names(found) == [victim.name]
    end(blocker)
    other = low([4, 5], "other")
    assert names(preview_preemption(job.id)) == ["other"]
    with pytest.raises(ConflictError, match="Check the new preview"):
        preempt(job.id, found.basis)
    assert names(preempt(job.id, found.basis, seen_in(found))) == [victim.name]
    assert launch_of(victim).cancel_requested
    assert not launch_of(other).cancel_requested


def test_a_victim_that_would_miss_its_target_only_now_is_not_stopped() -> None:
    victim = low([0, 1, 2, 3])
    low([4, 5, 6, 7], priority=5)
    job = urgent(4)
    found = preview_preemption(job.id)
    Job.objects.filter(id=victim.id).update(target={"kind": "ips", "ips": 1.0})
    with pytest.raises(ConflictError, match="Check the new preview"):
        preempt(job.id, found.basis, seen_in(found))
    assert not launch_of(victim).cancel_requested


def test_time_that_passes_does_not_change_the_basis() -> None:
    low([0, 1, 2, 3])
    low([4, 5, 6, 7], priority=5)
    job = urgent(2)
    basis = preview_preemption(job.id).basis
    Cluster.objects.update(seen_cluster_s=NOW_S + 30.0)
    assert preempt(job.id, basis).victims[0].lost == 4 * 90


def test_a_free_unit_that_is_taken_between_preview_and_lock_stops_the_preemption(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    low([0, 1])  # two units are free
    low([4, 5, 6, 7], priority=5)
    job = urgent(3)
    found = preview_preemption(job.id)
    monkeypatch.setattr(preemption, "preview_preemption", lambda _: found)
    commit([proposal(claimed(target=BEST_EFFORT), read_copy().topology, [2])], agent=ME)
    with pytest.raises(ConflictError, match="Another job has taken a free unit"):
        preempt(job.id, found.basis)
    assert not Launch.objects.filter(cancel_requested=True).exists()


def test_a_second_preemption_waits_until_the_victims_have_stopped() -> None:
    low([0, 1, 2, 3])
    low([4, 5, 6, 7])
    job = urgent(4)
    apply(job)
    found = preview_preemption(job.id)
    assert found.outcome is Outcome.IMPOSSIBLE
    assert found.message == "Running jobs are already being stopped for this job."
    with pytest.raises(ConflictError, match="already"):
        preempt(job.id, "0")


def test_a_victim_that_ends_by_itself_has_succeeded() -> None:
    victim = low([0, 1, 2, 3])
    low([4, 5, 6, 7], priority=5)
    apply(urgent(2))
    end(victim)
    victim.refresh_from_db()
    assert (victim.state, launch_of(victim).outcome) == ("succeeded", "finished")


def test_a_victim_that_a_user_cancels_meanwhile_is_cancelled() -> None:
    victim = low([0, 1, 2, 3])
    low([4, 5, 6, 7], priority=5)
    apply(urgent(2))
    cancel_jobs([victim.id])
    end(victim, "cancelled")
    victim.refresh_from_db()
    assert (victim.state, victim.reason_code) == ("cancelled", "Cancelled")


def test_a_waiting_job_that_is_held_gives_the_units_back() -> None:
    victim = low([0, 1, 2, 3], application=known(), units_requested=4, gang=True)
    low([4, 5, 6, 7], priority=5)
    job = urgent(4)
    apply(job)
    end(victim, "cancelled")
    set_held(job.id, held=True)
    make_agent("agent-1").work(for_s=0.3)
    victim.refresh_from_db()
    assert victim.state == "starting"


def test_preempted_launches_do_not_count_as_failed_ones() -> None:
    job = factories.job(state="running", attempts=MAX_ATTEMPTS)
    for attempt in range(1, MAX_ATTEMPTS):
        outcome = "preempted" if attempt == 1 else "lost"
        factories.launch(job, attempt=attempt, state="ended", outcome=outcome)
    last = factories.launch(job, attempt=MAX_ATTEMPTS)
    requeue_launch(last.id, "gone")
    job.refresh_from_db()
    assert (job.state, job.reason_code) == ("queued", "BackendLost")
    Job.objects.update(state="running", attempts=MAX_ATTEMPTS + 1)
    requeue_launch(factories.launch(job, attempt=MAX_ATTEMPTS + 1).id, "gone")
    job.refresh_from_db()
    assert (job.state, job.reason_code) == ("failed", "TooManyAttempts")


def test_a_report_twice_queues_a_victim_once() -> None:
    victim = low([0, 1, 2, 3])
    low([4, 5, 6, 7], priority=5)
    apply(urgent(2))
    report = EndReport(launch_of(victim).id, NOW_S + 10.0, "cancelled")
    plane().report_launches({}, [report])
    plane().report_launches({}, [report])
    assert Event.objects.filter(kind="job.queued", subject=str(victim.id)).count() == 1
    assert not JobSample.objects.exists()


def test_a_victim_that_ends_after_the_choice_is_not_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    victim = low([0, 1, 2, 3])
    low([4, 5, 6, 7], priority=5)
    job = urgent(2)
    found = preview_preemption(job.id)
    monkeypatch.setattr(preemption, "preview_preemption", lambda _: found)
    end(victim)
    with pytest.raises(ConflictError, match="Check the new preview"):
        preempt(job.id, found.basis)
    assert not Reservation.objects.exists()


def test_units_of_a_server_that_closes_after_the_choice_are_not_reserved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    victim = low([0, 1, 2, 3])
    low([4, 5, 6, 7], priority=5)
    job = urgent(2)
    found = preview_preemption(job.id)
    monkeypatch.setattr(preemption, "preview_preemption", lambda _: found)
    put("a", ServerState.DRAINING)
    with pytest.raises(ConflictError, match="Check the new preview"):
        preempt(job.id, found.basis)
    assert not launch_of(victim).cancel_requested


def test_units_that_are_reserved_after_the_choice_are_not_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    victim = low([0, 1, 2, 3])
    low([4, 5, 6, 7], priority=5)
    job, gang = urgent(2), factories.job("gang")
    found = preview_preemption(job.id)
    monkeypatch.setattr(preemption, "preview_preemption", lambda _: found)
    Reservation.objects.create(
        job_id=gang.id, unit_ids=found.kept, made_s=NOW_S, start_s=NOW_S, promised_s=NOW_S
    )
    with pytest.raises(ConflictError, match="Check the new preview"):
        preempt(job.id, found.basis)
    assert not launch_of(victim).cancel_requested


def test_a_preview_is_read_again_if_a_victim_ended_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    low([0, 1, 2, 3])
    dear = low([4, 5, 6, 7], "dear", target={"kind": "ips", "ips": 1.0})
    job, read = urgent(4), preemptible_jobs
    answers: list[list[PreemptibleJob]] = [[]]  # as if the first victim had ended

    def late(job_ids: Sequence[UUID], priority: int, *, now_s: float) -> list[PreemptibleJob]:
        return answers.pop() if answers else read(job_ids, priority, now_s=now_s)

    monkeypatch.setattr(preemption, "preemptible_jobs", late)
    assert names(preview_preemption(job.id)) == ["low-0"]
    assert (answers, launch_of(dear).cancel_requested) == ([], False)


def test_the_members_of_a_running_batch_are_victims_one_by_one() -> None:
    members = [low([unit], f"member-{unit}") for unit in range(4)]
    low([4, 5, 6, 7], priority=5)
    assert sorted(names(apply(urgent(2)))) == ["member-0", "member-1"]
    stopped = Launch.objects.filter(cancel_requested=True).count()
    assert (stopped, len(members)) == (2, 4)
