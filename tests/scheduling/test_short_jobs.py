"""Jobs shorter than profiling are placed at once with a typical profile (P9)."""

from typing import Any

import pytest

from apps.classification.models import Profile
from apps.classification.services import store_library
from apps.dashboard.selectors.explanation import explanation
from apps.inventory.services import import_cluster
from apps.profiling.models import ProfilingRun
from apps.scheduling.core import registry
from apps.scheduling.core.records.replay_verdict import ReplayVerdict
from apps.scheduling.models import Allocation, Decision
from apps.scheduling.services.agent import make_agent
from apps.scheduling.services.replay import replay
from apps.workloads.core.reasons import Reason
from apps.workloads.models import Job
from tests import factories
from tests.scheduling.world import cluster_of, state_and_reason, waiting, work

pytestmark = pytest.mark.django_db

SHORT: dict[str, Any] = {
    "target": {"kind": "best_effort"},
    "target_kind": "best_effort",
    "input_bytes": 10**7,
}


@pytest.fixture(autouse=True)
def cluster(db: None) -> None:
    """Four servers of one platform, and a library that covers it."""
    factories.cluster(seen_cluster_s=3000.0)
    import_cluster(cluster_of(*"abcd"))
    factories.library(("J",))


def short(**values: Any) -> Job:
    """A short job of a new application."""
    return waiting(**{"of": factories.application(), **SHORT, **values})


def test_a_short_job_of_an_unknown_application_starts_at_once() -> None:
    job = short()
    work(make_agent("agent-1"))
    assert state_and_reason(job) == ("starting", Reason.PLACED_AT_RANDOM)
    assert Allocation.objects.get(job=job).cores == 1
    assert not ProfilingRun.objects.exists()


def test_its_decision_names_the_policy_and_no_profile() -> None:
    job = short()
    work(make_agent("agent-1"))
    decision = Decision.objects.get(job=job)
    assert (decision.policy, decision.profile_id, decision.rank) == (registry.SHORT, None, None)
    assert decision.agent == "agent-1"


def test_its_rank_is_not_measured() -> None:
    for _ in range(10):  # one in ten decisions about one unit is measured
        short()
    work(make_agent("agent-1"))
    assert set(Decision.objects.values_list("policy", "rank")) == {(registry.SHORT, None)}
    assert Decision.objects.count() == 10


def test_its_decision_can_be_explained() -> None:
    job = short()
    work(make_agent("agent-1"))
    explanation_text = " ".join(explanation(Decision.objects.get(job=job)).paragraph)
    assert "The job was placed on **1 unit**" in explanation_text
    assert "chosen at random" in explanation_text


def test_its_application_stays_unprofiled_so_that_a_longer_job_is_profiled() -> None:
    job = short()
    long = waiting(of=job.application)
    work(make_agent("agent-1"))
    assert state_and_reason(job)[0] == "starting"
    assert state_and_reason(long) == ("profiling", Reason.WAITING_FOR_PROFILE)
    assert not Profile.objects.exists()


def test_a_short_job_of_a_profiled_application_is_decided_normally() -> None:
    job = short()
    factories.profile(job.application)
    work(make_agent("agent-1"))
    assert Decision.objects.get(job=job).policy == registry.DEFAULT


def test_a_target_that_the_typical_profile_misses_requires_profiling() -> None:
    job = short(
        target={"kind": "completion_time", "seconds": 30.0},
        target_kind="completion_time",
        input_bytes=10**12,
    )
    work(make_agent("agent-1"))
    assert state_and_reason(job)[0] == "profiling"


def test_a_target_is_sized_with_the_typical_profile() -> None:
    job = short(
        target={"kind": "completion_time", "seconds": 60.0},
        target_kind="completion_time",
        input_bytes=10**8,
    )
    work(make_agent("agent-1"))
    job.refresh_from_db()
    assert job.state == "starting"
    assert job.units is not None
    assert job.units > 1
    assert 0.0 < job.predicted["low"] < job.predicted["value"] < job.predicted["high"]


def test_a_size_fixed_by_its_submitter_is_used() -> None:
    job = short(units_requested=3)
    work(make_agent("agent-1"))
    job.refresh_from_db()
    assert (job.state, job.units) == ("starting", 3)


def test_it_waits_with_a_reason_if_no_unit_is_free() -> None:
    short(units_requested=12, gang=True)
    job = short(units_requested=12, gang=True)
    work(make_agent("agent-1"))
    assert state_and_reason(job) == ("queued", Reason.NOT_ENOUGH_FREE_UNITS)
    decision = Decision.objects.get(job=job)
    assert (decision.policy, decision.profile_id) == (registry.SHORT, None)


def test_without_a_library_it_is_profiled() -> None:
    store_library({}, platforms=("J",))
    job = short()
    work(make_agent("agent-1"))
    assert state_and_reason(job)[0] == "profiling"


@pytest.mark.parametrize("policy", ["", "quasar", "autoscale"])
def test_its_decision_is_repeated_with_its_target(policy: str) -> None:
    """Two of the policies choose the units by the target and the typical profile."""
    target = {"kind": "throughput_latency", "qps": 1e3, "latency_seconds": 0.1, "percentile": 99.0}
    service = factories.application(kind="latency_critical")
    job = short(
        of=service, target=target, target_kind=target["kind"], duration_s=60.0, policy=policy
    )
    work(make_agent("agent-1"))
    decision = Decision.objects.get(job=job)
    assert (decision.policy, decision.profile_id) == (policy or registry.SHORT, None)
    found = replay(decision.pk)
    assert (found.detail, found.differences[:8]) == ("", ())
    assert found.verdict == ReplayVerdict.IDENTICAL
