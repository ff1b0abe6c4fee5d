"""The agent: what becomes of waiting jobs, and of two agents that want the same."""

from datetime import timedelta
from threading import Barrier
from typing import Any

import numpy as np
import pytest
from django.utils import timezone

from apps.inventory.models import Server, ServerState
from apps.inventory.services import import_cluster, set_server_state
from apps.operations.models import Event
from apps.profiling.models import ProfilingRun
from apps.scheduling.agent import RETRIES, SchedulingAgent, make_agent
from apps.scheduling.core import registry
from apps.scheduling.core.types import Placed, RefusalReason
from apps.scheduling.models import Allocation, Decision
from apps.scheduling.services import commit, release
from apps.workloads import services as workloads
from apps.workloads.core.reasons import Reason
from apps.workloads.models import Application, Job
from tests import factories
from tests.scheduling.world import (
    ME,
    FirstFree,
    agent,
    at_once,
    build,
    claimed,
    cluster_of,
    proposal,
    used,
)

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def clock(db: None) -> None:
    factories.cluster(seen_cluster_s=3000.0)


def known(**values: Any) -> Application:
    """An application with a profile: 100 MB/s a unit, perfect scaling, on platform J."""
    application = factories.application()
    factories.profile(application, **values)
    return application


def waiting(of: Application | None = None, **values: Any) -> Job:
    """A job just submitted, of 9 GB in 100 s: two units; see `known`."""
    fields: dict[str, Any] = {
        "state": "submitted",
        "target": {"kind": "completion_time", "seconds": 100.0},
        "input_bytes": 9 * 10**9,
        "reason_code": Reason.WAITING_FOR_AGENT.value,
    }
    return factories.job(application=of or known(), **{**fields, **values})


LARGE: dict[str, Any] = {
    "target": {"kind": "best_effort"},
    "units_requested": 2,
}  # for a server of one core


def look_again(by: SchedulingAgent) -> None:
    """Let the agent decide about all waiting jobs, whose turn has come again."""
    Job.objects.update(claimed_until=None)
    by.work(for_s=0.01)


def work(by: SchedulingAgent) -> None:
    by.work(for_s=5.0)


def seen(job: Job) -> tuple[str, str]:
    """State and reason of a job."""
    job.refresh_from_db()
    return job.state, job.reason_code


def test_a_job_of_a_known_application_is_sized_and_placed() -> None:
    build("a")
    job = waiting()
    assert agent("agent-1").work(for_s=5.0) == 1
    job.refresh_from_db()
    assert (job.state, job.units, job.attempts) == ("starting", 2, 1)
    assert job.predicted["value"] == pytest.approx(50.0)  # 9 GB at 2 x 90 MB/s
    assert used("a")[0] == 2


def test_a_decision_of_the_default_policy_repeats_from_its_seed() -> None:
    copy = build(*"abcdefgh")
    profile = factories.profile(factories.application())
    job = waiting(profile.application, units_requested=1)
    work(make_agent("agent-1"))
    kept = Decision.objects.get(job=job)
    assert (kept.policy, kept.policy_version) == ("tarcil", registry.make("tarcil").version)
    assert (kept.snapshot, kept.profile_id) == (copy.sequence, profile.id)
    assert (kept.sample_size, kept.examined, kept.eligible) == (8, 8, 32)
    assert kept.probability == pytest.approx(0.8**8)
    assert [c["verdict"] for c in kept.candidates].count("chosen") == 1
    held = Allocation.objects.get(job=job)
    assert held.server_id == kept.candidates[0]["server_id"]


def test_one_in_ten_decisions_about_one_unit_measures_its_rank() -> None:
    build(*"abcdefgh")
    application = known()
    target = {"kind": "best_effort"}
    jobs = [waiting(application, target=target) for _ in range(20)]
    work(make_agent("agent-1"))
    measured = Decision.objects.filter(rank__isnull=False)
    assert (Decision.objects.count(), measured.count()) == (len(jobs), 2)
    assert all(0.0 <= decision.rank <= 1.0 for decision in measured if decision.rank is not None)


# ---- refusals ----


def test_a_job_without_room_waits_with_its_reason() -> None:
    build("a", cores=1)
    job = waiting(**LARGE)
    work(agent("agent-1"))
    job.refresh_from_db()
    assert (job.state, job.reason_code, job.tries) == ("queued", "NoFreeUnit", 1)
    assert (job.claimed_by, job.queued_s) == ("", 3000.0)
    decision = Decision.objects.get()
    assert (decision.outcome, decision.reason_code) == ("refused", "NoFreeUnit")
    assert (decision.units, decision.units_won, decision.dropped) == (2, 0, {"busy": 1})


def test_the_same_reason_again_is_no_new_decision() -> None:
    build("a", cores=1)
    job = waiting(**LARGE)
    one = agent("agent-1")
    look_again(one)
    look_again(one)
    job.refresh_from_db()
    assert job.tries == 2
    assert Decision.objects.count() == 1
    assert Event.objects.filter(kind="job.waiting").count() == 1


def test_a_new_reason_is_a_new_decision() -> None:
    build("a", cores=1)
    job = waiting(**LARGE)
    look_again(agent("agent-1"))
    look_again(make_agent("agent-2"))  # whose policy sees that no server is large enough
    reasons = Decision.objects.order_by("at").values_list("reason_code", flat=True)
    assert list(reasons) == ["NoFreeUnit", "NoMatchingServer"]
    assert seen(job) == ("queued", "NoMatchingServer")


def test_a_waiting_job_is_placed_once_there_is_room() -> None:
    copy = build("a", cores=2)
    holder = claimed()
    commit([proposal(holder, copy.topology, [0])], agent=ME)
    job = waiting()
    one = agent("agent-1")
    look_again(one)
    assert seen(job) == ("queued", "NoFreeUnit")
    release([holder.id])
    look_again(one)
    assert seen(job)[0] == "starting"


def test_a_waiting_job_is_left_alone_for_a_while() -> None:
    build("a", cores=1)
    waiting(**LARGE)
    one = agent("agent-1")
    assert [one.work(for_s=0.1), one.work(for_s=0.1)] == [1, 0]


def test_a_target_that_nothing_meets_fails_the_job_with_a_suggestion() -> None:
    build("a")
    job = waiting(target={"kind": "completion_time", "seconds": 1.0})
    work(agent("agent-1"))
    job.refresh_from_db()
    assert (job.state, job.reason_code) == ("failed", "InfeasibleTarget")
    assert "ask for at least" in job.reason_message
    assert "4 units of J" in job.reason_message
    assert job.finished_s == 3000.0
    decision = Decision.objects.get()
    assert (decision.outcome, decision.reason_code) == ("refused", "InfeasibleTarget")
    assert Event.objects.filter(kind="job.failed", subject=str(job.id)).count() == 1


def test_a_job_that_only_waited_too_long_is_still_placed() -> None:
    build("a")
    job = waiting(submitted_s=2000.0)
    work(agent("agent-1"))
    job.refresh_from_db()
    assert (job.state, job.units) == ("starting", 2)
    assert job.predicted["value"] == pytest.approx(1050.0)


def test_a_target_that_only_closed_servers_could_meet_lets_the_job_wait() -> None:
    build("a", "b")
    put("a", ServerState.DRAINING)
    job = waiting(target={"kind": "completion_time", "seconds": 20.0})  # five units
    one = agent("agent-1")
    look_again(one)
    assert seen(job) == ("queued", "ServersClosed")
    put("a", ServerState.ACTIVE)
    look_again(one)
    assert seen(job)[0] == "starting"


def test_a_job_waits_while_every_server_is_closed() -> None:
    build("a")
    put("a", ServerState.CORDONED)
    job = waiting()
    work(agent("agent-1"))
    assert seen(job) == ("queued", "ServersClosed")


def put(name: str, to: ServerState) -> None:
    set_server_state(server_id=Server.objects.get(name=name).id, state=to)


def test_a_platform_that_the_cluster_lacks_lets_the_job_wait() -> None:
    build("a")
    job = waiting(constraints={"platforms": ["Z"]})
    work(agent("agent-1"))
    assert seen(job) == ("queued", "NoMatchingServer")


def test_a_cluster_without_servers_lets_all_jobs_wait() -> None:
    jobs = [waiting(), waiting(factories.application())]
    one = agent("agent-1")
    look_again(one)
    assert [seen(job) for job in jobs] == [("queued", "NoMatchingServer")] * 2
    import_cluster(cluster_of("a"))
    look_again(one)
    assert [seen(job)[0] for job in jobs] == ["starting", "profiling"]


@pytest.mark.parametrize("reason", list(RefusalReason))
def test_every_refusal_of_a_policy_has_a_meaning(reason: RefusalReason) -> None:
    assert Reason(reason.value)


# ---- profiling ----


def test_jobs_of_an_unknown_application_share_one_run() -> None:
    build("a")
    application = factories.application()
    jobs = [waiting(application), waiting(application)]
    work(agent("agent-1"))
    assert [seen(job) for job in jobs] == [("profiling", "WaitingForProfile")] * 2
    run = ProfilingRun.objects.get()
    assert (run.application_id, run.state) == (application.id, "queued")
    assert Decision.objects.count() == 0


def test_a_job_taken_over_while_its_application_was_looked_up_is_left_alone() -> None:
    build("a")
    job = waiting(factories.application())
    one = agent("agent-1")
    (mine,) = workloads.claim_waiting(agent="agent-1", limit=1)
    Job.objects.filter(id=mine).update(claimed_by="agent-2")
    one._decide([mine])
    assert seen(job)[0] == "submitted"


# ---- several agents ----


def test_the_slower_of_two_agents_reads_the_log_and_takes_other_units() -> None:
    build("a")
    application = known()
    first, second = waiting(application, priority=1), waiting(application)
    faster = agent("agent-2")
    slower = agent("agent-1", FirstFree(meanwhile=lambda: work(faster)))
    faster._cluster.follow()
    (mine,) = workloads.claim_waiting(agent="agent-1", limit=1)
    assert mine == first.id
    slower._decide([mine])
    held = {a.job_id: set(a.unit_ids) for a in Allocation.objects.all()}
    assert [len(held[first.id]), len(held[second.id])] == [2, 2]
    assert held[first.id].isdisjoint(held[second.id])
    retries = dict(Decision.objects.values_list("job_id", "commit_retries"))
    assert retries == {first.id: 1, second.id: 0}


class Unlucky(FirstFree):
    """Somebody takes a unit between each of its choices and their commits."""

    def place(self, *args: Any) -> Any:
        outcomes = super().place(*args)
        taken = [outcome.units[0] for outcome in outcomes if isinstance(outcome, Placed)]
        commit([proposal(claimed(ME), args[0].topology, taken)], agent=ME)
        return outcomes


def test_a_job_that_lost_every_commit_waits_with_what_it_wanted_last() -> None:
    build("a", "b", "c")
    job = waiting()
    work(agent("agent-2", Unlucky()))
    assert seen(job) == ("queued", "CommitConflict")
    decision = Decision.objects.get(job=job)
    assert (decision.outcome, decision.commit_retries) == ("conflict", RETRIES)
    assert (decision.seed, decision.units_won) == (11, 0)


def interrupted(job: Job, act: Any) -> tuple[str, str]:
    """What becomes of a job when this happens between choice and commit."""
    agent("agent-1", FirstFree(meanwhile=act)).work(for_s=0.01)
    assert not Allocation.objects.exists()
    assert not Decision.objects.exists()
    return seen(job)


def test_a_job_cancelled_between_choice_and_commit_stays_cancelled() -> None:
    build("a")
    job = waiting()
    is_cancelled = interrupted(job, lambda: workloads.cancel_jobs([job.id]))
    assert is_cancelled == ("cancelled", "Cancelled")


def test_a_job_held_between_choice_and_commit_stays_held() -> None:
    build("a")
    job = waiting()
    is_held = interrupted(job, lambda: workloads.set_held(job.id, held=True))
    assert is_held == ("submitted", "Held")


def test_a_job_held_while_it_is_refused_keeps_that_reason() -> None:
    build("a", cores=1)
    job = waiting(**LARGE)
    is_held = interrupted(job, lambda: workloads.set_held(job.id, held=True))
    assert is_held == ("submitted", "Held")


def test_a_job_is_not_failed_by_an_agent_that_lost_it() -> None:
    build("a")
    job = waiting(target={"kind": "completion_time", "seconds": 1.0})
    (mine,) = workloads.claim_waiting(agent="agent-1", limit=1)
    Job.objects.filter(id=mine).update(claimed_by="agent-2")
    agent("agent-1")._decide([mine])
    assert seen(job)[0] == "submitted"


def test_jobs_of_an_agent_that_died_are_taken_over_after_their_time() -> None:
    build("a")
    job = waiting()
    workloads.claim_waiting(agent="agent-1", limit=1)
    other = agent("agent-2")
    assert other.work(for_s=0.1) == 0
    Job.objects.update(claimed_until=timezone.now() - timedelta(seconds=0.01))
    assert other.work(for_s=5.0) == 1
    assert seen(job)[0] == "starting"


def test_servers_imported_between_sizing_and_choice_are_used() -> None:
    build("a", cores=2)
    jobs = [waiting(), waiting()]
    one = agent("agent-1", FirstFree(meanwhile=lambda: import_cluster(cluster_of("b", cores=2))))
    one.work(for_s=0.01)
    look_again(one)
    assert [seen(job)[0] for job in jobs] == ["starting", "starting"]


@pytest.mark.django_db(transaction=True)
def test_two_agents_at_once_place_each_job_once_and_ask_for_one_run() -> None:
    build(*"abcd")
    application, unknown = known(), factories.application()
    user, barrier = factories.user(), Barrier(2)
    jobs = [waiting(application, created_by=user, units_requested=1) for _ in range(14)]
    others = [waiting(unknown, created_by=user) for _ in range(6)]

    def decide(name: str) -> None:
        one = SchedulingAgent(name, policy=FirstFree(), rng=np.random.default_rng(1))
        barrier.wait(timeout=10)
        mine = workloads.claim_waiting(agent=name, limit=10)
        barrier.wait(timeout=10)
        one._decide(mine)

    Job.objects.filter(id__in=[job.id for job in others[:3]]).update(priority=5)
    assert at_once(lambda: decide("agent-1"), lambda: decide("agent-2")) == []
    assert [seen(job)[0] for job in jobs] == ["starting"] * 14
    assert [seen(job)[0] for job in others] == ["profiling"] * 6
    assert ProfilingRun.objects.count() == 1
    held = [unit for a in Allocation.objects.all() for unit in a.unit_ids]
    assert len(held) == len(set(held)) == 14
