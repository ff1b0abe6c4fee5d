"""Preemptions: victims are previewed, stopped and queued again; the waiting job gets the units."""

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from django.utils import timezone

from apps.accounts.models import AuditEntry
from apps.common.core.errors import ConflictError
from apps.execution.backends.emulated.port import JobReport
from apps.execution.core.port import EndReport
from apps.execution.models import JobSample, Launch
from apps.execution.selectors.preemption import PreemptibleJob, preemptible_jobs
from apps.execution.services import preemption
from apps.execution.services.migrations import request_migrations
from apps.execution.services.preemption import Outcome, Preemption, preempt, preview_preemption
from apps.execution.services.recovery import MAX_ATTEMPTS, requeue_launch
from apps.inventory.models import Cluster, ServerState
from apps.operations.models import Event
from apps.scheduling.models import Allocation, Reservation
from apps.scheduling.selectors import ClusterFollower, read_copy
from apps.scheduling.services import commit
from apps.scheduling.services.agent import make_agent
from apps.workloads.core.attainment import Performance
from apps.workloads.models import Job, WaitingShape
from apps.workloads.services import cancel_jobs, set_held
from tests import factories
from tests.execution.migration_world import (
    broken,
    cluster,
    end,
    holds,
    launch_of,
    move,
    plane,
    running,
)
from tests.scheduling.world import ME, claimed, known, proposal, put

if TYPE_CHECKING:
    from django.db.models import Model

pytestmark = pytest.mark.django_db

NOW_S = 7260.0  # jobs run since 7,200 s
BEST_EFFORT = {"kind": "best_effort"}


@pytest.fixture(autouse=True)
def world(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two servers of four units; the process's copy of the cluster outlives the tests."""
    monkeypatch.setattr("apps.scheduling.services.dry_run._COPY", ClusterFollower())
    cluster("a", "b")


def low(units: Sequence[int], name: str = "", **values: Any) -> Job:
    """A running job of priority 0."""
    fields = {"name": name or f"low-{units[0]}", "target": BEST_EFFORT, **values}
    job = running(units, **fields)
    Cluster.objects.update(seen_cluster_s=NOW_S)
    return job


def deadline(seconds: float) -> dict[str, Any]:
    return {"kind": "completion_time", "seconds": seconds}


def urgent(units: int, *, shape: dict[str, Any] | None = None, **values: Any) -> Job:
    """A waiting job of priority 5 that was refused for lack of units."""
    fields = {"target": BEST_EFFORT, "priority": 5, "units_requested": units, **values}
    job = factories.job("urgent", **{"application": known(), **fields})
    factories.waiting_shape(
        job, **{"units": units, "min_units": units, "run_high_s": 100.0, **(shape or {})}
    )
    job.refresh_from_db()
    return job


def report_of(job: Job) -> JobReport:
    """A report of the only launch of a job."""
    return JobReport(launch_of(job).id, Performance(0.5, 1e-3), 0.8)


def names(found: Preemption) -> list[str]:
    return [victim.job.name for victim in found.victims]


def apply(job: Job) -> Preemption:
    return preempt(job.id, preview_preemption(job.id).basis)


def counts() -> dict[str, int]:
    tables: list[type[Model]] = [Event, Reservation, AuditEntry, Allocation]
    return {table.__name__: table._default_manager.count() for table in tables}


def rows(job: Job) -> tuple[Any, ...]:
    launch = Launch.objects.filter(job=job).values_list("state", "cancel_requested", "message")
    state = Job.objects.filter(id=job.id).values_list("state", "reason_code", "generation")
    return (*state, *launch)


# ---- preview ----


def test_a_preview_names_the_victim_its_loss_and_why_and_writes_nothing() -> None:
    victim = low([0, 1, 2, 3])
    low([4, 5], breaks := "promised", target={"kind": "ips", "ips": 1.0})
    low([6, 7])
    job = urgent(3)
    before = counts(), rows(victim), rows(job)
    found = preview_preemption(job.id)
    assert found.outcome is Outcome.POSSIBLE
    assert names(found) == ["low-0"]
    assert breaks not in names(found)
    (one,) = found.victims
    assert (one.lost, one.servers, one.short) == (4 * 60, {"a": 4}, 3)
    assert one.reason == (
        "Without it, 3 units are missing for the waiting job. 240 unit-seconds are lost, and no "
        "target is missed."
    )
    assert (found.candidates, found.cost, found.bound) == (3, (0, 240, 1), (0, 240, 1))
    assert (counts(), rows(victim), rows(job)) == before


def test_no_other_jobs_are_stopped_while_a_backend_is_slow_to_stop_the_victims() -> None:
    victim = low([0, 1, 2, 3])
    low([4, 5, 6, 7], "dear", target={"kind": "ips", "ips": 1.0})
    job = urgent(2, gang=True)
    apply(job)
    kept = Reservation.objects.get().unit_ids
    Cluster.objects.update(seen_cluster_s=NOW_S + 3000.0)
    make_agent("agent-1").work(for_s=0.3)
    assert Reservation.objects.get().unit_ids == kept
    message = "Running jobs are being stopped for this job already."
    assert preview_preemption(job.id).message == message
    end(victim, "cancelled")
    make_agent("agent-1").work(for_s=0.3)
    job.refresh_from_db()
    assert (job.state, holds(job.id)) == ("starting", [("a", 2)])


@pytest.mark.parametrize(
    ("suspension", "lost"),
    [
        ({"suspension": "suspended", "suspended_s": NOW_S - 50.0}, 40),
        ({"suspended_for_s": 30.0}, 120),
        ({"suspension": "suspended", "suspended_s": NOW_S - 20.0, "suspended_for_s": 30.0}, 40),
    ],
    ids=["suspended", "resumed", "suspended again"],
)
def test_a_job_loses_no_work_for_the_time_of_its_suspension(
    suspension: dict[str, Any], lost: int
) -> None:
    victim = low([0, 1, 2, 3], target=deadline(2000.0))
    low([4, 5, 6, 7], priority=5)
    Job.objects.filter(id=victim.id).update(**suspension, submitted_s=7200.0, run_high_s=1000.0)
    Launch.objects.filter(job=victim).update(backend="agent")  # which starts jobs from 0 %
    job = urgent(2)
    found = preview_preemption(job.id)
    ((one,), ran_s) = found.victims, lost / 4
    assert (one.lost, found.cost.lost) == (lost, lost)
    spare_s = 2000.0 - 60.0 - 100.0 - (1000.0 - ran_s) - ran_s
    assert one.promise.reason == f"it meets its deadline with {spare_s:.0f} s to spare"


@pytest.mark.parametrize(
    ("guaranteed", "outcome"), [(None, Outcome.POSSIBLE), (4, Outcome.IMPOSSIBLE)]
)
def test_nothing_is_preempted_for_a_job_that_its_quota_would_still_refuse(
    guaranteed: int | None, outcome: Outcome
) -> None:
    """The victim waits again, so that its project claims the units that it gave up."""
    web = factories.project("web")
    web.guaranteed_units = guaranteed
    web.save()
    low([0, 1, 2, 3], project=web)
    low([4, 5, 6, 7], priority=5)
    found = preview_preemption(urgent(4).id)
    assert (found.outcome, names(found) == ["low-0"]) == (outcome, outcome is Outcome.POSSIBLE)
    if guaranteed:
        assert found.message == (
            "Its quota would still refuse the job: project default uses 4 units and 0 are "
            "guaranteed; other projects claim 4 of the 4 free units."
        )


def test_work_is_lost_since_the_last_report_if_the_backend_resumes_jobs() -> None:
    victim = low([0, 1, 2, 3])
    plane().report_jobs(NOW_S - 7.0, [report_of(victim)])
    low([4, 5, 6, 7], priority=5)
    (one,) = preview_preemption(urgent(1).id).victims
    assert one.lost == 4 * 7


def test_work_is_lost_since_the_start_if_the_backend_starts_commands_again() -> None:
    victim = low([0, 1, 2, 3])
    plane().report_jobs(NOW_S - 7.0, [report_of(victim)])
    Launch.objects.update(backend="agent")
    low([4, 5, 6, 7], priority=5)
    (one,) = preview_preemption(urgent(1).id).victims
    assert one.lost == 4 * 60


def test_free_units_need_no_victims() -> None:
    low([0, 1, 2, 3])
    found = preview_preemption(urgent(4).id)
    assert (found.outcome, found.victims) == (Outcome.NOT_NEEDED, ())


def test_jobs_of_slurm_moving_jobs_and_jobs_of_equal_priority_are_no_victims() -> None:
    moves, slurm = low([0], "moves"), low([4, 5], "slurm")
    low([1, 6], "equal", priority=5)
    Launch.objects.filter(job=slurm).update(backend="slurm")
    job = urgent(4)  # three units are free
    found = preview_preemption(job.id)
    assert (found.outcome, names(found), found.candidates) == (Outcome.POSSIBLE, ["moves"], 1)
    request_migrations([move(moves, "a", "b")])
    assert preview_preemption(job.id).candidates == 0


def test_the_victims_are_on_servers_that_the_job_may_use() -> None:
    low([0, 1, 2, 3])
    low([4, 5, 6, 7])
    on_one = urgent(3, shape={"on_one_server": True})
    assert len(preview_preemption(on_one.id).victims) == 1
    nowhere = urgent(1, shape={"labels": ["gpu=yes"]})
    found = preview_preemption(nowhere.id)
    assert (found.outcome, found.candidates) == (Outcome.IMPOSSIBLE, 2)
    assert "too few units would be free" in found.message


def test_units_that_another_job_has_reserved_make_no_room() -> None:
    kept = low([0, 1, 2, 3])
    low([4, 5, 6, 7], "other", target={"kind": "ips", "ips": 1.0})
    units = Allocation.objects.get(job=kept).unit_ids
    gang = urgent(4)
    Reservation.objects.create(
        job_id=gang.id, unit_ids=units, made_s=NOW_S, start_s=NOW_S, promised_s=NOW_S
    )
    assert names(preview_preemption(urgent(2).id)) == ["other"]
    assert names(preview_preemption(gang.id)) == ["low-0"]


@pytest.mark.parametrize(
    ("state", "says"),
    [
        ({"state": "running"}, "The job is running. Only queued jobs can preempt others."),
        ({"shape": None}, "No agent has evaluated the job since it was queued."),
        ({"held": True, "shape": None}, "The job is on hold. Release it first."),
        ({"reason_code": "QuotaExceeded"}, "for another reason: QuotaExceeded."),
    ],
    ids=["running", "new", "held", "quota"],
)
def test_a_job_that_does_not_wait_for_units_has_no_victims(
    state: dict[str, Any], says: str
) -> None:
    low([0, 1, 2, 3])
    job = urgent(1)
    if "reason_code" in state:
        WaitingShape.objects.update(**state)
    if state.get("state") == "running":
        state["shape"] = None
    Job.objects.filter(id=job.id).update(**state)
    found = preview_preemption(job.id)
    assert (found.outcome, found.victims) == (Outcome.IMPOSSIBLE, ())
    assert says in found.message


# ---- application ----


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
    # the victim comes first, but its units are reserved
    by = make_agent("agent-1")
    WaitingShape.objects.update(due_at=timezone.now() + timedelta(hours=1))
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
    with pytest.raises(ConflictError, match="Read the preview again"):
        preempt(job.id, basis)
    assert not launch_of(other).cancel_requested
    assert not Reservation.objects.exists()


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
    assert found.message == "Running jobs are being stopped for this job already."
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
    with pytest.raises(ConflictError, match="Read the preview again"):
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
    with pytest.raises(ConflictError, match="Read the preview again"):
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
    with pytest.raises(ConflictError, match="Read the preview again"):
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


def batch(units: int, count: int) -> list[Job]:
    """Waiting jobs of equal requests, oldest first."""
    fields: dict[str, Any] = {
        "application": known(), "target": BEST_EFFORT, "priority": 5, "units_requested": units,
        "project": factories.project(), "created_by": factories.user(),
    }  # fmt: skip
    jobs = [factories.job(f"member-{n}", **fields) for n in range(count)]
    factories.waiting_shape(*jobs, units=units, min_units=units, run_high_s=100.0)
    return jobs


def test_of_a_batch_of_equal_requests_the_oldest_job_preempts_others() -> None:
    low([0, 1, 2, 3])
    low([4, 5, 6, 7])
    first, second = batch(2, 2)
    assert preview_preemption(first.id).outcome is Outcome.POSSIBLE
    found = preview_preemption(second.id)
    assert (found.outcome, found.message) == (
        Outcome.IMPOSSIBLE,
        "member-0 has the same request and is older, so it starts first. Preempt for it.",
    )


def test_the_members_of_a_running_batch_are_victims_one_by_one() -> None:
    members = [low([unit], f"member-{unit}") for unit in range(4)]
    low([4, 5, 6, 7], priority=5)
    assert sorted(names(apply(urgent(2)))) == ["member-0", "member-1"]
    stopped = Launch.objects.filter(cancel_requested=True).count()
    assert (stopped, len(members)) == (2, 4)
