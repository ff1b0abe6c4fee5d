"""Agents with concurrent changes by other agents, users and servers."""

from datetime import timedelta
from threading import Barrier
from typing import Any

import numpy as np
import pytest
from django.conf import settings
from django.db import connection
from django.utils import timezone

from apps.inventory.core.cluster_file import parse_cluster
from apps.inventory.models import Server
from apps.inventory.services import import_cluster
from apps.profiling.models import ProfilingRun
from apps.scheduling.core import registry
from apps.scheduling.core.types import Placed
from apps.scheduling.models import Allocation, Decision
from apps.scheduling.services import commit
from apps.scheduling.services.agent import SchedulingAgent
from apps.workloads import services as workloads
from apps.workloads.models import Job
from tests import factories
from tests.scheduling.world import (
    LARGE,
    ME,
    SIZES,
    FirstFree,
    agent,
    at_once,
    build,
    claimed,
    cluster_of,
    decide_again,
    known,
    proposal,
    state_and_reason,
    waiting,
    work,
)

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def clock(db: None) -> None:
    factories.cluster(seen_cluster_s=3000.0)


def test_an_agent_that_loses_a_conflict_reads_the_log_and_chooses_other_units() -> None:
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
    """Another agent takes a unit between each decision and its commit."""

    def place(self, *args: Any) -> Any:
        outcomes = super().place(*args)
        units = [outcome.units[0] for outcome in outcomes if isinstance(outcome, Placed)]
        commit([proposal(claimed(ME), args[0].topology, units)], agent=ME)
        return outcomes


def test_a_job_that_lost_every_commit_waits_with_its_last_candidates() -> None:
    build("a", "b", "c")
    job = waiting()
    work(agent("agent-2", Unlucky()))
    assert state_and_reason(job) == ("queued", "CommitConflict")
    decision = Decision.objects.get(job=job)
    assert (decision.outcome, decision.commit_retries) == ("conflict", settings.AGENT_RETRIES + 1)
    assert (decision.seed, decision.units_won) == (11, 0)


def interrupted(job: Job, act: Any) -> tuple[str, str]:
    """Return a job's state after an action between decision and commit."""
    agent("agent-1", FirstFree(meanwhile=act)).work(for_s=0.2)
    assert not Allocation.objects.exists()
    assert not Decision.objects.exists()
    return state_and_reason(job)


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


def test_an_agent_does_not_fail_a_job_it_no_longer_claims() -> None:
    build("a")
    job = waiting(target={"kind": "completion_time", "seconds": 1.0})
    (mine,) = workloads.claim_waiting(agent="agent-1", limit=1)
    Job.objects.filter(id=mine).update(claimed_by="agent-2")
    agent("agent-1")._decide([mine])
    assert state_and_reason(job)[0] == "submitted"


def test_jobs_of_a_dead_agent_are_claimed_after_the_claim_expires() -> None:
    build("a")
    job = waiting()
    workloads.claim_waiting(agent="agent-1", limit=1)
    other = agent("agent-2")
    assert other.work(for_s=0.1) == 0
    Job.objects.update(claimed_until=timezone.now() - timedelta(seconds=0.01))
    assert other.work(for_s=60.0) == 1
    assert state_and_reason(job)[0] == "starting"


def test_servers_imported_between_sizing_and_choice_are_used() -> None:
    build("a", cores=2)
    jobs = [waiting(), waiting()]
    racing_agent = agent(
        "agent-1", FirstFree(meanwhile=lambda: import_cluster(cluster_of("b", cores=2)))
    )
    racing_agent.work(for_s=0.2)
    decide_again(racing_agent)
    assert [state_and_reason(job)[0] for job in jobs] == ["starting", "starting"]


class ThenTarcil(FirstFree):
    """Takes the first free units once, then decides like the default policy."""

    chosen = 0

    def place(self, *args: Any) -> Any:
        self.chosen += 1
        return super().place(*args) if self.chosen == 1 else registry.make("tarcil").place(*args)


def test_a_platform_imported_between_two_attempts_is_handled() -> None:
    copy = build("a", cores=2)
    job = waiting(**LARGE)

    def meanwhile() -> None:
        commit([proposal(claimed(ME), copy.topology, [0])], agent=ME)
        k = {**SIZES, "name": "K", "cores": 8, "idle_watts": 50, "peak_watts": 200}
        servers = [{"name": name, "platform": "K", "rack": "r9"} for name in "xyz"]
        import_cluster(parse_cluster({"platforms": [k], "servers": servers}))
        import_cluster(cluster_of("b"))

    agent("agent-1", ThenTarcil(meanwhile)).work(for_s=0.2)
    assert state_and_reason(job)[0] == "starting"
    held = Allocation.objects.filter(job=job).values_list("server_id", flat=True)
    names = set(Server.objects.filter(id__in=held).values_list("name", flat=True))
    assert names <= {"a", "b"}  # K has no measurements


@pytest.mark.django_db(transaction=True)
def test_two_concurrent_agents_place_each_job_once_and_request_one_profiling_run() -> None:
    build(*"abcd")
    application, unknown = known(), factories.application()
    user, barrier = factories.user(), Barrier(2)
    jobs = [waiting(application, created_by=user, units_requested=1) for _ in range(14)]
    others = [waiting(unknown, created_by=user) for _ in range(6)]

    def decide(name: str) -> None:
        racing_agent = SchedulingAgent(name, policy=FirstFree(), rng=np.random.default_rng(1))
        barrier.wait(timeout=10)
        mine = workloads.claim_waiting(agent=name, limit=10)
        barrier.wait(timeout=10)
        racing_agent._decide(mine)

    Job.objects.filter(id__in=[job.id for job in others[:3]]).update(priority=5)
    assert at_once(lambda: decide("agent-1"), lambda: decide("agent-2")) == []
    assert [state_and_reason(job)[0] for job in jobs] == ["starting"] * 14
    assert [state_and_reason(job)[0] for job in others] == ["profiling"] * 6
    assert ProfilingRun.objects.count() == 1
    held = [unit for a in Allocation.objects.all() for unit in a.unit_ids]
    assert len(held) == len(set(held)) == 14


@pytest.mark.parametrize("size", [1, 3])
def test_the_claim_limit_holds_for_every_query_plan(size: int) -> None:
    application, user = factories.application(), factories.user()
    jobs = [waiting(application, created_by=user) for _ in range(6)]
    with connection.cursor() as cursor:  # a nested loop would ask its inner side again and again
        for method in ("hashjoin", "mergejoin", "hashagg", "material", "sort"):
            cursor.execute(f"SET LOCAL enable_{method} = off")
    mine = workloads.claim_waiting(agent="agent-1", limit=size)
    assert sorted(mine) == sorted(job.id for job in jobs[:size])
