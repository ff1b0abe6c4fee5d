"""Previews of preemptions: which jobs would be stopped, what they lose, and why."""

from typing import Any

import pytest

from apps.accounts.models import Project
from apps.execution.models import Launch
from apps.execution.services.migrations import request_migrations
from apps.execution.services.preemption import Outcome, preview_preemption
from apps.inventory.models import Cluster, ResourceUnit, Server
from apps.scheduling.models import Allocation, Reservation
from apps.scheduling.services.agent import make_agent
from apps.workloads.models import Job, WaitingShape
from tests import factories
from tests.execution.migration_world import (
    end,
    holds,
    move,
    plane,
)
from tests.execution.preemption_world import (
    BEST_EFFORT,
    NOW_S,
    apply,
    counts,
    deadline,
    low,
    names,
    report_of,
    rows,
    urgent,
    world,
)
from tests.scheduling.world import known

__all__ = ["world"]  # a fixture of all tests
pytestmark = pytest.mark.django_db


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
    message = "Running jobs are already being stopped for this job."
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


def test_the_deadline_of_a_resumed_job_counts_only_the_work_that_was_left() -> None:
    """It has run for 60 s, for a quarter of the half that was left."""
    victim = low([0, 1, 2, 3], target=deadline(2000.0))
    low([4, 5, 6, 7], priority=5)
    Job.objects.filter(id=victim.id).update(
        submitted_s=7200.0, run_high_s=100.0, progress_before=0.5, progress=0.625,
        reported_s=NOW_S,
    )  # fmt: skip
    (one,) = preview_preemption(urgent(2).id).victims
    spare_s = 2000.0 - 60.0 - 100.0 - 1.25 * 60.0 * 0.75 / 0.25
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


@pytest.mark.parametrize(
    ("of_a", "of_b", "outcome"),
    [
        (0, 5, Outcome.POSSIBLE),  # stops the job on a, where no claim counts
        (5, 0, Outcome.IMPOSSIBLE),  # only the job on b may be stopped
    ],
)
def test_a_claim_concerns_only_preemptions_on_its_servers(
    of_a: int, of_b: int, outcome: Outcome
) -> None:
    claim_of_b()
    low([0, 1, 2, 3], priority=of_a)
    low([4, 5, 6, 7], priority=of_b)
    found = preview_preemption(urgent(4).id)
    assert found.outcome is outcome
    if outcome is Outcome.IMPOSSIBLE:
        assert found.message == (
            "Its quota would still refuse the job: project default uses 4 units and 0 are "
            "guaranteed; other projects claim 4 of the 4 free units on the servers that the job "
            "may use."
        )


def test_free_units_on_other_servers_do_not_let_a_job_preempt_on_claimed_ones() -> None:
    """The units of a are reserved: the job would take those of b, which web claims."""
    claim_of_b()
    low([4, 5, 6, 7])
    free = ResourceUnit.objects.filter(server__name="a").values_list("id", flat=True)
    Reservation.objects.create(
        job_id=urgent(4).id, unit_ids=[*free], made_s=NOW_S, start_s=NOW_S, promised_s=NOW_S
    )
    found = preview_preemption(urgent(4).id)
    assert (found.outcome, "Its quota" in found.message) == (Outcome.IMPOSSIBLE, True)


def claim_of_b() -> None:
    """Let web claim four units of b."""
    web = factories.project("web")
    web.guaranteed_units = 4
    web.save()
    Server.objects.filter(name="b").update(labels={"disk": "fast"})
    urgent(
        4, project=web, constraints={"labels": {"disk": "fast"}}, shape={"labels": ["disk=fast"]}
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
        ({"reason_code": "QuotaExceeded"}, "of running jobs. The project has used its quota"),
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


def test_a_job_larger_than_the_maximum_of_its_project_is_refused_for_that_reason() -> None:
    low([0, 1, 2, 3])
    low([4, 5, 6, 7], priority=5)
    Project.objects.filter(name="default").update(max_units=2)
    found = preview_preemption(urgent(4).id)
    assert (found.outcome, found.message) == (
        Outcome.IMPOSSIBLE,
        "Its quota would still refuse the job: the job needs 4 units at once, and project default"
        " may use at most 2.",
    )
