"""The settings of scheduling agents: interval, jitter, retries and path limit."""

from datetime import timedelta
from typing import Any
from unittest.mock import Mock
from uuid import uuid4

import numpy as np
import pytest
from django.conf import LazySettings
from django.test import override_settings
from django.utils import timezone

from apps.inventory.models import Server, ServerState
from apps.inventory.services.servers import set_server_state
from apps.scheduling.api.serializers import represent_explanation
from apps.scheduling.core.step_size import StepSize
from apps.scheduling.models import Allocation, Decision
from apps.scheduling.services import commit
from apps.scheduling.services.agent_copy import AgentCopy
from apps.workloads import services as workloads
from apps.workloads.models import Job, WaitingShape
from apps.workloads.selectors import Pending
from tests import factories
from tests.scheduling.shapes import ONE_UNIT, due, flood, shaped
from tests.scheduling.test_concurrent_agents import Unlucky
from tests.scheduling.world import (
    ME,
    FirstFree,
    agent,
    build,
    claimed,
    known,
    proposal,
    state_and_reason,
    waiting,
    work,
)

pytestmark = pytest.mark.django_db

SELDOM = override_settings(AGENT_INTERVAL_S=500.0)


@pytest.fixture(autouse=True)
def clock(db: None) -> None:
    factories.cluster(seen_cluster_s=3000.0)


class Clock:
    """Wall seconds set by a test."""

    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def free_units(copy: AgentCopy) -> int:
    return int(copy.follow().snapshot().unit_free.sum())


def place_one(unit: int, cluster: Any) -> None:
    """Let another agent commit one unit."""
    commit([proposal(claimed(ME), cluster.topology, [unit])], agent=ME)


def test_an_agent_reads_the_log_when_the_interval_has_passed() -> None:
    cluster, clock = build("a"), Clock()
    copy = AgentCopy(np.random.default_rng(1), interval_s=10.0, jitter=0.0, clock=clock)
    assert free_units(copy) == 4
    place_one(0, cluster)
    clock.now_s = 109.9
    assert (free_units(copy), copy.version.read_s) == (4, 100.0)
    clock.now_s = 110.0
    assert (free_units(copy), copy.version.read_s) == (3, 110.0)


def test_without_an_interval_an_agent_reads_the_log_each_time() -> None:
    cluster, copy = build("a"), AgentCopy(np.random.default_rng(1), jitter=0.3, clock=Clock())
    assert free_units(copy) == 4
    place_one(0, cluster)
    assert free_units(copy) == 3


def test_intervals_vary_by_the_jitter() -> None:
    build("a")
    clock = Clock()
    copy = AgentCopy(np.random.default_rng(1), interval_s=10.0, jitter=0.3, clock=clock)
    copy.follow()
    intervals: list[float] = []
    read_s = clock.now_s
    while len(intervals) < 50:
        clock.now_s += 0.05
        copy.follow()
        if copy.version.read_s > read_s:
            intervals.append(clock.now_s - read_s)
            read_s = clock.now_s
    assert 7.0 <= min(intervals) < 8.0
    assert 12.0 < max(intervals) <= 13.1


@SELDOM
def test_an_agent_that_loses_a_commit_reads_the_log_before_the_interval_has_passed() -> None:
    build("a")
    first, second = agent("agent-1"), agent("agent-2")
    first._cluster.follow()
    second._cluster.follow()
    application = known()
    jobs = [waiting(application, units_requested=1) for _ in range(2)]
    for one in (first, second):
        one._queue._path_limit = 1
        assert one.take_turn() == 1
    assert [state_and_reason(job)[0] for job in jobs] == ["starting"] * 2
    assert sorted(Decision.objects.values_list("commit_retries", flat=True)) == [0, 1]


@SELDOM
def test_an_agent_does_not_choose_its_own_units_again_between_two_reads() -> None:
    build("a")
    worker, application = agent("agent-1"), known()
    for _ in range(3):
        waiting(application, units_requested=1)
        assert worker.take_turn() == 1
    held = [unit for allocation in Allocation.objects.all() for unit in allocation.unit_ids]
    assert len(held) == len(set(held)) == 3
    decisions = Decision.objects.order_by("at", "id")
    assert [one.commit_retries for one in decisions] == [0, 0, 0]
    # between two reads the copy is not the cluster at any number of the log
    assert [one.batch_id is None for one in decisions] == [False, True, True]


@pytest.mark.parametrize(("retries", "attempts"), [(0, "1 attempt"), (1, "2 attempts")])
def test_a_job_waits_after_the_retries_of_the_setting(
    settings: LazySettings, retries: int, attempts: str
) -> None:
    settings.AGENT_RETRIES = retries
    build("a", "b", "c")
    job = waiting()
    work(agent("agent-2", Unlucky()))
    assert state_and_reason(job) == ("queued", "CommitConflict")
    decision = Decision.objects.get(job=job)
    assert decision.commit_retries == retries + 1  # all commits were lost
    job.refresh_from_db()
    assert job.reason_message == f"other agents were faster in {attempts}"
    summary = represent_explanation(job, decision, [], now_s=0.0)["summary"]
    assert f"other agents allocated the chosen units first, in {attempts}." in summary


class Counting(FirstFree):
    """Counts the jobs of each batch."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[int] = []

    def place(self, *args: Any) -> Any:
        self.batches.append(len(args[1]))
        return super().place(*args)


def test_an_agent_decides_as_many_jobs_at_once_as_the_path_limit_permits() -> None:
    build(*"abcd")
    policy, application = Counting(), known()
    for _ in range(7):
        waiting(application, units_requested=1)
    with override_settings(AGENT_PATH_LIMIT=3):
        agent("agent-1", policy).work(for_s=60.0)
    assert policy.batches == [3, 3, 1]


def test_waiting_shapes_count_towards_the_path_limit() -> None:
    build("a", cores=2)
    policy, application = Counting(), known()
    with override_settings(AGENT_PATH_LIMIT=2):
        worker = agent("agent-1", policy)
    refused = waiting(application, units_requested=3, gang=True)
    work(worker)
    assert Job.objects.get(id=refused.id).shape is not None
    WaitingShape.objects.update(due_at=timezone.now() - timedelta(seconds=1))
    new = [waiting(application, units_requested=1) for _ in range(2)]
    policy.batches.clear()
    worker._queue._turns = 0
    assert worker.take_turn() == 2
    assert policy.batches == [2]
    assert [state_and_reason(job)[0] for job in new] == ["starting"] * 2


@pytest.mark.parametrize("paths", [1, 2, 3, 8, 512])
def test_new_jobs_leave_paths_to_waiting_shapes(paths: int) -> None:
    build("a")
    with override_settings(AGENT_PATH_LIMIT=paths):
        worker = agent("agent-1")
    worker._queue._batch = StepSize(smallest=1, largest=paths, first=paths)
    urgent = shaped(application=known(), priority=9)
    due()
    flood(urgent.application, paths + 3, **ONE_UNIT)
    turns = [worker._queue.begin() for _ in range(4 if paths < 4 else 1)]
    assert urgent.id in {job for turn in turns for job in turn.job_ids}
    assert max(len(turn.job_ids) for turn in turns) <= paths


def test_the_jobs_of_a_shape_count_towards_the_path_limit() -> None:
    build("a")
    policy, application = Counting(), known()
    with override_settings(AGENT_PATH_LIMIT=2):
        worker = agent("agent-1", policy)
    shape = shaped(application=application).shape
    Job.objects.filter(id__in=[job.id for job in flood(application, 9)]).update(
        state="queued", shape=shape
    )
    due()
    WaitingShape.objects.update(allowance=16)
    worker.take_turn()
    assert policy.batches == [2]


@pytest.mark.parametrize(("paths", "limits"), [(1, [1, 0, 1, 0]), (8, [4, 4, 4, 4])])
def test_incomplete_jobs_leave_paths_to_the_others(
    paths: int, limits: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    build("a")
    with override_settings(AGENT_PATH_LIMIT=paths):
        worker = agent("agent-1")
    some = Pending(has_new=False, has_incomplete=True, shapes=0)
    many = Mock(side_effect=lambda *, limit, **_: [uuid4()] * limit)
    monkeypatch.setattr(workloads, "claim_incomplete", many)
    assert [len(worker._queue._claim_incomplete(some)) for _ in limits] == limits
    set_server_state(server_id=Server.objects.get().id, state=ServerState.CORDONED)
    assert worker._queue._claim_incomplete(some) == ()  # its units are free, but it is closed
