"""How old an agent's copy is when it commits: in decisions, metrics and on the System page."""

import time
from typing import Any

import pytest
from django.test import override_settings

from apps.dashboard.core.ranges import TimeRange
from apps.dashboard.selectors.decision_times import agent_times
from apps.scheduling.api.serializers import represent_decision
from apps.scheduling.models import Decision
from apps.scheduling.services import commit
from apps.workloads.models import Job
from controlplane.metrics import InstallationCollector, exposition
from tests import factories
from tests.scheduling.world import (
    LARGE,
    ME,
    FirstFree,
    agent,
    build,
    claimed,
    known,
    proposal,
    waiting,
    work,
)

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def clock(db: None) -> None:
    factories.cluster(seen_cluster_s=3000.0)


def decision_on(job: Job) -> Decision:
    return Decision.objects.get(job=job)


def other_commits(cluster: Any, *units: int) -> None:
    """Let another agent commit one job for each of some units."""
    for unit in units:
        commit([proposal(claimed(ME), cluster.topology, [unit])], agent=ME)


def test_a_decision_stores_what_its_copy_lacked_at_the_commit() -> None:
    cluster = build("a", "b")

    def meanwhile() -> None:
        other_commits(cluster, 5, 6, 7)
        time.sleep(0.05)

    worker, application = agent("agent-1", FirstFree(meanwhile)), known()
    first = waiting(application, units_requested=1)
    work(worker)
    second = waiting(application, units_requested=1)
    begun_s = time.monotonic()
    work(worker)
    took_s = time.monotonic() - begun_s
    assert decision_on(first).changes_behind == 3
    assert (decision_on(first).copy_age_s or 0.0) >= 0.05
    assert decision_on(second).changes_behind == 0
    assert 0.0 < (decision_on(second).copy_age_s or 0.0) <= took_s


@override_settings(AGENT_INTERVAL_S=500.0)
def test_between_two_reads_the_copy_lacks_the_changes_of_others_but_not_its_own() -> None:
    cluster, worker, application = build("a", "b"), agent("agent-1"), known()
    jobs = []
    for units in ((), (), (6, 7)):
        other_commits(cluster, *units)
        jobs.append(waiting(application, units_requested=1))
        worker.take_turn()
    assert [decision_on(job).changes_behind for job in jobs] == [0, 0, 2]
    ages_s = [decision_on(job).copy_age_s or 0.0 for job in jobs]
    assert ages_s == sorted(ages_s)


def test_a_refusal_has_no_age_of_a_copy() -> None:
    build("a", cores=1)
    job = waiting(**LARGE)
    work(agent("agent-1"))
    assert (decision_on(job).copy_age_s, decision_on(job).changes_behind) == (None, None)


def test_rest_tells_the_age_of_the_copy_of_a_decision() -> None:
    cluster, worker = build("a", "b"), agent("agent-1")
    job = waiting(known(), units_requested=1)
    other_commits(cluster)
    work(worker)
    found = decision_on(job)
    assert represent_decision(found)["copy_age"] == {
        "seconds": found.copy_age_s,
        "changes_behind": found.changes_behind,
    }
    assert found.copy_age_s is not None


def collide() -> None:
    """Let agent-1 lose one commit to agent-2, and agent-3 refuse a job."""
    build("a")
    application = known()
    for _ in range(2):
        waiting(application, units_requested=1)
    faster = agent("agent-2")
    faster._queue._path_limit = 1
    slower = agent("agent-1", FirstFree(meanwhile=faster.take_turn))
    slower._queue._path_limit = 1
    slower.take_turn()
    waiting(application, units_requested=8, gang=True)
    work(agent("agent-3"))


def test_metrics_tell_by_agent_how_often_agents_collide_and_how_old_copies_are() -> None:
    collide()
    lines = exposition(InstallationCollector("1")).splitlines()
    for name, first, second in (
        ("decisions_recent", 1, 1),
        ("lost_commits_recent", 1, 0),
        ("retried_decisions_recent", 1, 0),
        ("lost_commits_per_decision", 1, 0),
    ):
        assert f'berth_agent_{name}{{agent="agent-1"}} {first:.1f}' in lines
        assert f'berth_agent_{name}{{agent="agent-2"}} {second:.1f}' in lines
    ages = [line for line in lines if line.startswith("berth_agent_copy_age_seconds{")]
    assert [line.rpartition(" ")[0] for line in ages] == [
        f'berth_agent_copy_age_seconds{{agent="agent-{n}",quantile="{q}"}}'
        for n in (1, 2)  # agent-3 has committed nothing
        for q in ("0.5", "0.95", "0.99")
    ]
    assert all(0.0 < float(line.rpartition(" ")[2]) < 60.0 for line in ages)
    assert 'berth_agent_changes_behind{agent="agent-1",quantile="0.99"} 0.0' in lines


def test_the_system_page_shows_the_age_of_copies_by_agent() -> None:
    collide()
    Decision.objects.filter(agent="agent-1").update(copy_age_s=2.5, changes_behind=7)
    Decision.objects.filter(agent="agent-2").update(copy_age_s=0.5, changes_behind=0)
    times = {one.name: one for one in agent_times(TimeRange("24h", 0.0, 1e9))}
    found = {
        name: (one.copy_age_p99_s and round(one.copy_age_p99_s, 3), one.behind_p99)
        for name, one in times.items()
    }
    assert found["agent-1"] == (2.5, 7)
    assert found["agent-2"] == (0.5, 0)
    assert found["agent-3"] == (None, None)
    assert found[""] == (2.48, 7)
