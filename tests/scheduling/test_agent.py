"""The agent: decisions on waiting jobs."""

from typing import Any

import pytest

from apps.inventory.models import ServerState
from apps.inventory.services import import_cluster
from apps.operations.models import Event
from apps.profiling.models import ProfilingRun
from apps.scheduling.core import registry
from apps.scheduling.core.types import RefusalReason
from apps.scheduling.models import Allocation, Decision
from apps.scheduling.services import commit, release
from apps.scheduling.services.agent import PAUSE_S, SMALL_TURN, make_agent
from apps.workloads import services as workloads
from apps.workloads.core.reasons import Reason
from apps.workloads.models import Job
from tests import factories
from tests.scheduling.world import (
    LARGE,
    ME,
    agent,
    build,
    claimed,
    cluster_of,
    decide_again,
    known,
    proposal,
    put,
    state_and_reason,
    used,
    waiting,
    work,
)

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def clock(db: None) -> None:
    factories.cluster(seen_cluster_s=3000.0)


def test_a_job_of_a_known_application_is_sized_and_placed() -> None:
    build("a")
    job = waiting()
    assert agent("agent-1").work(for_s=60.0) == 1
    job.refresh_from_db()
    assert (job.state, job.units, job.attempts) == ("starting", 2, 1)
    assert job.predicted["value"] == pytest.approx(50.0)  # 9 GB at 2 x 90 MB/s
    assert used("a")[0] == 2


@pytest.mark.parametrize(
    ("asked", "policy", "examined", "probability"),
    [({}, "expected", 32, 0.0), ({"sample_size": 8}, "tarcil", 8, 0.8**8)],
    ids=["default", "sample"],
)
def test_a_decision_is_stored_with_what_repeats_it(
    asked: dict[str, Any], policy: str, examined: int, probability: float
) -> None:
    copy = build(*"abcdefgh")
    profile = factories.profile(factories.application())
    job = waiting(profile.application, units_requested=1, **asked)
    work(make_agent("agent-1"))
    decision = Decision.objects.get(job=job)
    assert (decision.policy, decision.policy_version) == (policy, registry.make(policy).version)
    assert (decision.snapshot, decision.profile_id) == (copy.sequence, profile.id)
    assert (decision.examined, decision.eligible) == (examined, 32)
    assert decision.probability == pytest.approx(probability)
    assert [c["verdict"] for c in decision.candidates].count("chosen") == 1
    held = Allocation.objects.get(job=job)
    assert held.server_id == decision.candidates[0]["server_id"]


def test_one_in_ten_decisions_by_sampling_about_one_unit_measures_its_rank() -> None:
    build(*"abcdefgh")
    application = known()
    target = {"kind": "best_effort"}
    jobs = [waiting(application, target=target, sample_size=2) for _ in range(20)]
    work(make_agent("agent-1"))
    measured = Decision.objects.filter(rank__isnull=False)
    assert (Decision.objects.count(), measured.count()) == (len(jobs), 2)
    assert all(0.0 <= decision.rank <= 1.0 for decision in measured if decision.rank is not None)


# ---- refusals ----


def test_a_job_without_free_units_waits_with_a_reason() -> None:
    build("a", cores=1)
    job = waiting(**LARGE)
    work(agent("agent-1"))
    job.refresh_from_db()
    assert (job.state, job.reason_code, job.tries) == ("queued", "NoFreeUnit", 1)
    assert (job.claimed_by, job.queued_s) == ("", 3000.0)
    decision = Decision.objects.get()
    assert (decision.outcome, decision.reason_code) == ("refused", "NoFreeUnit")
    assert (decision.units, decision.units_won, decision.dropped) == (2, 0, {"busy": 1})


def test_an_unchanged_reason_makes_no_new_decision() -> None:
    build("a", cores=1)
    job = waiting(**LARGE)
    first_agent = agent("agent-1")
    decide_again(first_agent)
    decide_again(first_agent)
    job.refresh_from_db()
    assert job.tries == 2
    assert Decision.objects.count() == 1
    assert Event.objects.filter(kind="job.waiting").count() == 1


def test_a_new_reason_is_a_new_decision() -> None:
    build("a", cores=1)
    job = waiting(**LARGE)
    decide_again(agent("agent-1"))
    decide_again(make_agent("agent-2"))  # whose policy sees that no server is large enough
    reasons = Decision.objects.order_by("at").values_list("reason_code", flat=True)
    assert list(reasons) == ["NoFreeUnit", "NoMatchingServer"]
    assert state_and_reason(job) == ("queued", "NoMatchingServer")


def test_units_limited_to_one_server_are_refused_if_they_must_be_apart() -> None:
    build("a", "b", "c", "d")
    batch = factories.application(kind="batch")
    factories.profile(batch)
    fields = {"target": {"kind": "best_effort"}, "constraints": {"spread": "server"}}
    job = waiting(batch, units_requested=4, **fields)
    work(make_agent("agent-1"))
    assert state_and_reason(job) == ("queued", "NoMatchingServer")
    job.refresh_from_db()
    assert job.reason_message == (
        "the 4 units cannot be spread, because those of a batch application share one server;"
        " remove the spread, or request one unit"
    )


def test_a_waiting_job_is_placed_once_there_is_room() -> None:
    copy = build("a", cores=2)
    holder = claimed()
    commit([proposal(holder, copy.topology, [0])], agent=ME)
    job = waiting()
    first_agent = agent("agent-1")
    decide_again(first_agent)
    assert state_and_reason(job) == ("queued", "NoFreeUnit")
    release([holder.id])
    decide_again(first_agent)
    assert state_and_reason(job)[0] == "starting"


def test_a_waiting_job_is_retried_only_after_a_delay() -> None:
    build("a", cores=1)
    waiting(**LARGE)
    first_agent = agent("agent-1")
    assert [first_agent.work(for_s=0.1), first_agent.work(for_s=0.1)] == [1, 0]


def test_an_infeasible_target_fails_the_job_with_a_suggestion() -> None:
    build("a")
    job = waiting(target={"kind": "completion_time", "seconds": 1.0})
    work(agent("agent-1"))
    job.refresh_from_db()
    assert (job.state, job.reason_code) == ("failed", "InfeasibleTarget")
    assert "request at least" in job.reason_message
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


def test_a_job_waits_if_only_closed_servers_could_meet_its_target() -> None:
    build("a", "b")
    put("a", ServerState.DRAINING)
    job = waiting(target={"kind": "completion_time", "seconds": 20.0})  # five units
    first_agent = agent("agent-1")
    decide_again(first_agent)
    assert state_and_reason(job) == ("queued", "ServersClosed")
    put("a", ServerState.ACTIVE)
    decide_again(first_agent)
    assert state_and_reason(job)[0] == "starting"


def test_a_job_waits_while_every_server_is_closed() -> None:
    build("a")
    put("a", ServerState.CORDONED)
    job = waiting()
    work(agent("agent-1"))
    assert state_and_reason(job) == ("queued", "ServersClosed")


def test_a_job_waits_for_a_platform_missing_from_the_cluster() -> None:
    build("a")
    job = waiting(constraints={"platforms": ["Z"]})
    work(agent("agent-1"))
    assert state_and_reason(job) == ("queued", "NoMatchingServer")


def test_all_jobs_wait_if_the_cluster_has_no_servers() -> None:
    jobs = [waiting(), waiting(factories.application())]
    first_agent = agent("agent-1")
    decide_again(first_agent)
    assert [state_and_reason(job) for job in jobs] == [("queued", "NoMatchingServer")] * 2
    import_cluster(cluster_of("a"))
    decide_again(first_agent)
    assert [state_and_reason(job)[0] for job in jobs] == ["starting", "profiling"]


@pytest.mark.parametrize("reason", list(RefusalReason))
def test_every_refusal_of_a_policy_has_a_meaning(reason: RefusalReason) -> None:
    assert Reason(reason.value)


# ---- turns ----


def test_an_agent_pauses_after_small_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    turns, pauses = iter([3, SMALL_TURN, 5, 0]), list[float]()
    worker = agent("agent-1")
    monkeypatch.setattr(worker, "take_turn", lambda: next(turns))
    monkeypatch.setattr("apps.scheduling.services.agent.time.sleep", pauses.append)
    assert worker.work(for_s=60.0) == 3 + SMALL_TURN + 5
    assert pauses == [PAUSE_S, PAUSE_S]


def test_an_agent_does_not_pause_while_jobs_are_left(
    monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    build("a")
    settings.AGENT_PATH_LIMIT, pauses = 2, list[float]()
    application = known()
    for _ in range(3):
        waiting(application, units_requested=1)
    monkeypatch.setattr("apps.scheduling.services.agent.time.sleep", pauses.append)
    assert agent("agent-1").work(for_s=60.0) == 3
    assert pauses == [PAUSE_S]


# ---- profiling ----


def test_jobs_of_a_new_application_share_one_profiling_run() -> None:
    build("a")
    application = factories.application()
    jobs = [waiting(application), waiting(application)]
    work(agent("agent-1"))
    assert [state_and_reason(job) for job in jobs] == [("profiling", "WaitingForProfile")] * 2
    run = ProfilingRun.objects.get()
    assert (run.application_id, run.state) == (application.id, "queued")
    assert Decision.objects.count() == 0


def test_a_job_claimed_by_another_agent_meanwhile_is_ignored() -> None:
    build("a")
    job = waiting(factories.application())
    first_agent = agent("agent-1")
    (mine,) = workloads.claim_waiting(agent="agent-1", limit=1)
    Job.objects.filter(id=mine).update(claimed_by="agent-2")
    first_agent._decide([mine])
    assert state_and_reason(job)[0] == "submitted"


# ---- errors ----


def test_a_job_that_raises_an_error_does_not_stop_the_others() -> None:
    build("a")
    application = known()
    poison = waiting(application, target={"kind": "no such kind"})
    sound = waiting(application)
    work(agent("agent-1"))
    poison.refresh_from_db()
    sound.refresh_from_db()
    assert (poison.state, sound.state) == ("submitted", "starting")


def test_a_size_fixed_by_the_submitter_is_placed_whatever_its_target() -> None:
    build("a")
    job = waiting(target={"kind": "completion_time", "seconds": 0.001}, units_requested=3)
    work(agent("agent-1"))
    job.refresh_from_db()
    assert (job.state, job.units, job.predicted) == ("starting", 3, {})
