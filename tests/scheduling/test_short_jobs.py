"""Jobs that are over before profiling would be: placed at once, on what is typical (P9)."""

from typing import Any

import pytest

from apps.classification.models import Profile
from apps.classification.services import store_library
from apps.dashboard.selectors.explanation import explanation
from apps.inventory.services import import_cluster
from apps.profiling.models import ProfilingRun
from apps.scheduling.agent import make_agent
from apps.scheduling.core import registry
from apps.scheduling.models import Allocation, Decision
from apps.workloads.core.reasons import Reason
from apps.workloads.models import Job
from tests import factories
from tests.scheduling.world import cluster_of, seen, waiting, work

pytestmark = pytest.mark.django_db

SHORT: dict[str, Any] = {
    "target": {"kind": "best_effort"},
    "target_kind": "best_effort",
    "input_bytes": 10**7,
}


@pytest.fixture(autouse=True)
def cluster(db: None) -> None:
    """Four servers of the only platform, and a library that knows it."""
    factories.cluster(seen_cluster_s=3000.0)
    import_cluster(cluster_of(*"abcd"))
    factories.library(("J",))


def short(**values: Any) -> Job:
    """A short job of an application nobody knows."""
    return waiting(**{"of": factories.application(), **SHORT, **values})


def test_a_short_job_of_an_unknown_application_starts_at_once() -> None:
    job = short()
    work(make_agent("agent-1"))
    assert seen(job) == ("starting", Reason.PLACED_AT_RANDOM)
    assert Allocation.objects.get(job=job).cores == 1
    assert not ProfilingRun.objects.exists()


def test_its_decision_names_the_policy_and_no_profile() -> None:
    job = short()
    work(make_agent("agent-1"))
    kept = Decision.objects.get(job=job)
    assert (kept.policy, kept.profile_id, kept.rank) == (registry.SHORT, None, None)
    assert kept.agent == "agent-1"


def test_ranks_check_the_default_policy_and_are_not_measured_of_it() -> None:
    for _ in range(10):  # one in ten decisions about one unit is measured
        short()
    work(make_agent("agent-1"))
    assert set(Decision.objects.values_list("policy", "rank")) == {(registry.SHORT, None)}
    assert Decision.objects.count() == 10


def test_its_decision_can_be_explained() -> None:
    job = short()
    work(make_agent("agent-1"))
    told = " ".join(explanation(Decision.objects.get(job=job)).paragraph)
    assert "It got **1 unit**" in told
    assert "drawn at random" in told


def test_its_application_stays_unknown_so_that_a_longer_job_is_profiled() -> None:
    job = short()
    long = waiting(of=job.application)
    work(make_agent("agent-1"))
    assert seen(job)[0] == "starting"
    assert seen(long) == ("profiling", Reason.WAITING_FOR_PROFILE)
    assert not Profile.objects.exists()


def test_a_short_job_of_a_known_application_is_decided_as_any_other() -> None:
    job = short()
    factories.profile(job.application)
    work(make_agent("agent-1"))
    assert Decision.objects.get(job=job).policy == "tarcil"


def test_a_promise_it_cannot_be_trusted_to_keep_is_profiled_for() -> None:
    job = short(
        target={"kind": "completion_time", "seconds": 30.0},
        target_kind="completion_time",
        input_bytes=10**12,
    )
    work(make_agent("agent-1"))
    assert seen(job)[0] == "profiling"


def test_a_promise_is_sized_for_by_what_is_typical() -> None:
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


def test_a_size_fixed_by_its_submitter_stands() -> None:
    job = short(units_requested=3)
    work(make_agent("agent-1"))
    job.refresh_from_db()
    assert (job.state, job.units) == ("starting", 3)


def test_without_room_it_waits_with_its_reason() -> None:
    short(units_requested=12, gang=True)
    job = short(units_requested=12, gang=True)
    work(make_agent("agent-1"))
    assert seen(job) == ("queued", Reason.NOT_ENOUGH_FREE_UNITS)
    kept = Decision.objects.get(job=job)
    assert (kept.policy, kept.profile_id) == (registry.SHORT, None)


def test_without_a_library_it_is_profiled() -> None:
    store_library({}, platforms=("J",))
    job = short()
    work(make_agent("agent-1"))
    assert seen(job)[0] == "profiling"
