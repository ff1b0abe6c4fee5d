"""Jobs that name a policy, R or a guarantee."""

from logging import LogRecord
from typing import Any

import pytest
from django.test import override_settings

from apps.common.core.ids import uuid7
from apps.scheduling.core.policy_errors import PolicyFailedError
from apps.scheduling.models import Decision
from apps.scheduling.services import commit
from apps.scheduling.services.agent import make_agent
from apps.scheduling.services.policy_failures import PolicyFailures
from apps.workloads.core.spec import parse_job
from apps.workloads.models import Job
from apps.workloads.services import submit_jobs
from tests import factories
from tests.scheduling import policies_that_fail
from tests.scheduling.world import ME, build, claimed, known, proposal, waiting, work

pytestmark = pytest.mark.django_db

BEST_EFFORT = {"kind": "best_effort"}
GUARANTEE = {"rank_threshold": 0.5, "probability": 0.01}


@pytest.fixture(autouse=True)
def clock(db: None) -> None:
    factories.cluster(seen_cluster_s=3000.0)


def decided(**fields: Any) -> Decision:
    """The decision about a job of one unit with these fields."""
    job = waiting(known(), units_requested=1, **fields)
    work(make_agent("agent-1"))
    return Decision.objects.get(job=job)


def test_a_job_is_decided_by_the_policy_that_it_names() -> None:
    build(*"abcdefgh")
    other, default = decided(policy="least_loaded"), decided()
    assert (other.policy, other.reason_code) == ("least_loaded", "PlacedLeastLoaded")
    assert other.examined == other.eligible
    assert (default.policy, default.examined) == ("expected", default.eligible)


def test_a_job_that_asks_for_a_sample_is_decided_by_a_policy_that_draws_one() -> None:
    build(*"abcdefgh")
    asked = [decided(sample_size=4), decided(guarantee=GUARANTEE)]
    assert [decision.policy for decision in asked] == ["tarcil", "tarcil"]
    assert decided(sample_size=4, policy="sampling").policy == "sampling"
    with override_settings(DEFAULT_POLICY="quietest"):
        assert decided(sample_size=4).policy == "quietest"
    with override_settings(DEFAULT_POLICY="random"):
        chosen = decided(guarantee=GUARANTEE)
    assert (chosen.policy, chosen.examined) == ("tarcil", chosen.sample_size)


def test_jobs_of_one_batch_are_decided_by_their_policies() -> None:
    build(*"abcdefgh")
    application = known()
    names = ["random", "", "least_loaded", "random"]
    jobs = [waiting(application, units_requested=1, policy=name) for name in names]
    work(make_agent("agent-1"))
    found = [Decision.objects.get(job=job).policy for job in jobs]
    assert found == ["random", "expected", "least_loaded", "random"]


def test_a_job_is_not_decided_after_one_of_a_lower_priority() -> None:
    """Two units are free: those of the highest priorities start, whatever policy they name."""
    build("a", cores=2)
    application = known()
    asked = [(2, ""), (1, "tarcil"), (0, ""), (0, "tarcil")]
    jobs = [
        waiting(application, units_requested=1, policy=policy, priority=priority)
        for priority, policy in asked
    ]
    work(make_agent("agent-1"))
    assert [Job.objects.get(id=job.id).state for job in jobs] == [
        *("starting", "starting"),
        *("queued", "queued"),
    ]


def test_a_short_job_is_decided_before_those_of_a_lower_priority() -> None:
    build("a", cores=1)
    factories.library(("J",))
    fields = {"target_kind": "best_effort", "input_bytes": 10**7, "target": BEST_EFFORT}
    later = waiting(known(), units_requested=1)
    short = waiting(factories.application("new"), units_requested=1, priority=5, **fields)
    work(make_agent("agent-1"))
    assert [Job.objects.get(id=job.id).state for job in (short, later)] == ["starting", "queued"]


def test_jobs_of_one_policy_are_one_batch_whatever_their_priorities() -> None:
    build("a", "b")
    application = known()
    for priority in (3, 1, 2):
        waiting(application, units_requested=1, priority=priority)
    work(make_agent("agent-1"))
    assert len(set(Decision.objects.values_list("batch_id", flat=True))) == 1


def test_a_short_job_without_profile_is_decided_by_the_policy_that_it_names() -> None:
    build(*"abcdefgh")
    factories.library(("J",))
    fields = {"target_kind": "best_effort", "input_bytes": 10**7, "target": BEST_EFFORT}
    job = waiting(factories.application(), policy="least_loaded", **fields)
    work(make_agent("agent-1"))
    assert Decision.objects.get(job=job).policy == "least_loaded"


def test_a_named_r_is_the_sample_of_the_decision() -> None:
    build(*"abcdefgh")
    decision = decided(sample_size=16)
    assert (decision.sample_size, decision.examined, decision.guarantee) == (16, 16, None)


def test_r_of_a_guarantee_follows_the_load() -> None:
    copy = build(*"abcdefgh")
    first = decided(guarantee=GUARANTEE)
    assert (first.sample_size, first.examined) == (7, 7)  # ln 0.01 / ln 0.5 = 6.6
    assert (first.rank_threshold, first.probability) == (0.5, 0.5**7)
    assert first.guarantee == {**GUARANTEE, "top_free_share": 1.0, "needed_size": 7, "size": 7}
    free = [u for u in range(32) if copy.snapshot().unit_free[u]]
    commit([proposal(claimed(), copy.topology, free[:20])], agent=ME)
    second = decided(guarantee=GUARANTEE)
    assert second.guarantee is not None
    assert second.guarantee["top_free_share"] < 1.0
    assert second.sample_size > 7


def test_a_waiting_job_records_what_its_guarantee_needed() -> None:
    copy = build("a")
    commit([proposal(claimed(), copy.topology, range(4))], agent=ME)
    decision = decided(guarantee=GUARANTEE)
    assert (decision.outcome, decision.reason_code) == ("refused", "NoFreeUnit")
    assert decision.guarantee == {
        **GUARANTEE,
        "top_free_share": 0.0,
        "needed_size": None,
        "size": 32,
    }


@override_settings(MAX_SAMPLE=12)
def test_the_limit_of_the_installation_holds_for_jobs_submitted_before_it() -> None:
    build(*"abcdefgh")
    assert decided(sample_size=16).examined == 12


def test_a_job_whose_policy_was_removed_fails_with_its_name() -> None:
    build("a")
    job = waiting(known(), units_requested=1, policy="gone")
    work(make_agent("agent-1"))
    job.refresh_from_db()
    assert (job.state, job.reason_code) == ("failed", "Invalid")
    assert job.reason_message.startswith("the policy gone no longer exists")


@pytest.mark.parametrize(
    "fault", ["raises", "decides-nothing", "no-such-unit", "cannot-be-made", "lacks-a-field"]
)
def test_a_job_on_which_its_policy_fails_waits_with_a_reason(
    monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    policies_that_fail.install(monkeypatch, "theirs", fault)
    build("a")
    application = known()
    theirs = [waiting(application, units_requested=1, policy="theirs") for _ in range(2)]
    other = waiting(application, units_requested=1)
    by = make_agent("agent-1")
    work(by)
    other.refresh_from_db()
    assert other.state == "starting"
    error = policies_that_fail.FAULTS[fault].partition(":")[0]
    for job in theirs:
        job.refresh_from_db()
        decision = Decision.objects.get(job=job)
        assert (job.state, job.reason_code) == ("queued", "PolicyFailed")
        assert job.reason_message == error
        assert (decision.outcome, decision.reason_code) == ("refused", "PolicyFailed")
    policies_that_fail.install(monkeypatch, "theirs", "none")
    Job.objects.update(claimed_until=None)
    is_made_again = fault in {"cannot-be-made", "lacks-a-field"}
    work(by if is_made_again else make_agent("agent-2"))
    assert set(Job.objects.values_list("state", flat=True)) == {"starting"}


@pytest.mark.parametrize(
    ("draws_sample", "reason"), [(False, "PlacedBestOfAll"), (True, "PlacedBestOfSample")]
)
def test_a_placement_by_a_policy_of_another_package_claims_a_sample_only_if_it_draws_one(
    monkeypatch: pytest.MonkeyPatch, *, draws_sample: bool, reason: str
) -> None:
    monkeypatch.setattr(policies_that_fail.Theirs, "draws_sample", draws_sample)
    policies_that_fail.install(monkeypatch, "theirs", "none")
    build("a")
    decision = decided(policy="theirs")
    assert (decision.policy, decision.reason_code) == ("theirs", reason)
    assert decision.job.reason_code == reason


def only_error(
    fault: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> LogRecord:
    """Decide on five jobs with a policy that has a fault; return the only error of the log."""
    policies_that_fail.install(monkeypatch, "theirs", fault)
    build("a")
    application = known()
    for _ in range(5):
        waiting(application, units_requested=1, policy="theirs")
    work(make_agent("agent-1"))
    (record,) = (record for record in caplog.records if record.levelname == "ERROR")
    return record


def test_a_policy_that_fails_on_every_job_writes_one_traceback(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    record = only_error("raises", monkeypatch, caplog)
    assert Job.objects.filter(reason_code="PolicyFailed").count() == 5
    assert record.message.endswith(policies_that_fail.FAULTS["raises"])
    assert record.exc_info


def test_a_policy_that_fails_on_batches_only_is_logged_and_decides_on_each_job(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    record = only_error("fails-on-batches", monkeypatch, caplog)
    assert Job.objects.filter(reason_code="PolicyFailed").count() == 0
    assert Job.objects.filter(state="starting").exists()
    assert record.message.startswith("no decision on 5 jobs, first ")
    assert record.message.endswith("the policy theirs failed with ValueError: 1 outcome at most")


def test_failures_of_one_kind_are_logged_again_after_a_minute(
    caplog: pytest.LogCaptureFixture,
) -> None:
    failures, job, second = PolicyFailures(), uuid7(), uuid7()
    lost, other = (PolicyFailedError("theirs", error("gone")) for error in (KeyError, OSError))
    for now_s in (100.0, 101.0, 159.0, 160.0, 161.0):
        failures.record(lost, [job], now_s=now_s)
    failures.record(other, [job, second], now_s=161.0)
    sentence = f"no decision on job {job}: the policy theirs failed with"
    assert [record.message for record in caplog.records] == [
        f"{sentence} KeyError: 'gone'",
        f"{sentence} KeyError: 'gone'; 2 more failures of this kind since the last log entry",
        f"no decision on 2 jobs, first {job}: the policy theirs failed with OSError: gone",
    ]


def test_jobs_of_a_batch_without_a_guarantee_have_none() -> None:
    spec = parse_job({"application": "sort", "target": {"kind": "best_effort"}})
    asking = parse_job(
        {"application": "sort", "target": {"kind": "best_effort"}, "guarantee": GUARANTEE}
    )
    project, user = factories.project(), factories.user()
    submit_jobs([spec, spec, asking], project=project, user=user, correlation_id="r")
    assert Job.objects.filter(guarantee__isnull=True).count() == 2
    assert Job.objects.get(guarantee__isnull=False).guarantee == GUARANTEE


@override_settings(DEFAULT_POLICY="tarcil")
def test_r_of_any_job_under_tarcil_follows_the_load() -> None:
    """All 40 units are free: R = 8. With 15 of 20 busy on each server, x' = 0.95 needs R = 35."""
    build("a", "b", cores=20)
    assert decided().sample_size == 8
    for _ in range(29):
        decided()
    busy = decided()
    assert (busy.eligible, busy.sample_size, busy.guarantee) == (10, 10, None)
    assert decided(sample_size=3).sample_size == 3
