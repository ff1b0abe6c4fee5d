"""The schedulers of YARN: order of applications, shares of queues, heartbeats."""

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.testbed.core.replay.model import Failures, ReplayCluster
from apps.testbed.core.replay.queueing.yarn import Heartbeats
from apps.testbed.core.replay.run import run
from apps.testbed.core.replay.workloads import Workload
from tests.testbed.core.replay.cases import cluster, jobs, options
from tests.testbed.core.replay.queueing.replays import Watched, most_used, random_jobs

YARN = ("yarn_fifo", "yarn_capacity", "yarn_fair")
LONG = 1e5


def watched(
    servers: ReplayCluster, load: Workload, name: str, *, until_s: float = np.inf, **values: float
) -> Watched:
    found = Watched(servers, load, name, parameters=values, until_s=until_s)
    assert list(found.steps())
    return found


def granted(found: Watched) -> list[int]:
    """Job of each container, in order."""
    return [job for _, job, _ in found.grants]


def test_fifo_serves_applications_by_submission_and_fills_a_node_at_its_heartbeat() -> None:
    load = jobs([0.0, 0.0], [LONG, LONG], units=[3, 3])
    found = watched(cluster(4), load, "yarn_fifo", until_s=5.0, heartbeat_s=1.0)
    assert granted(found) == [0, 0, 0, 1]
    assert len({at for at, _, _ in found.grants}) == 1
    assert 0.0 <= found.grants[0][0] < 1.0


def test_capacity_gives_one_container_at_a_heartbeat() -> None:
    load = jobs([0.0, 0.0], [LONG, LONG], units=[3, 3])
    found = watched(
        cluster(4), load, "yarn_capacity", until_s=50.0, heartbeat_s=10.0, am_share=1.0
    )
    assert granted(found) == [0, 0, 0, 1]
    gaps = np.diff([at for at, _, _ in found.grants])
    assert gaps == pytest.approx([10.0, 10.0, 10.0])


def test_fair_serves_the_application_with_the_fewest_units() -> None:
    load = jobs([0.0, 0.0, 0.0], [LONG] * 3, units=[4, 4, 4])
    found = watched(cluster(6), load, "yarn_fair", until_s=50.0, am_share=1.0)
    assert granted(found) == [0, 1, 2, 0, 1, 2]


@pytest.mark.parametrize("name", ["yarn_capacity", "yarn_fair"])
def test_two_queues_share_the_units_by_their_weights(name: str) -> None:
    load = jobs([0.0] * 16, [LONG] * 16, queue=[0] * 8 + [1] * 8)
    found = watched(cluster(8), load, name, until_s=50.0, am_share=1.0, weight_0=3.0)
    # used over weight: 0-0, 1/3-0, 1/3-1, 2/3-1, 1-1 (the first queue), 4/3-1, 4/3-2, 5/3-2
    assert [0 if job < 8 else 1 for job in granted(found)] == [0, 1, 0, 0, 0, 1, 0, 0]
    assert [queue.used for queue in found.scheduler.queues] == [6, 2]


def test_fifo_ignores_queues() -> None:
    load = jobs([0.0] * 8, [LONG] * 8, queue=[0] * 6 + [1] * 2)
    found = watched(cluster(4), load, "yarn_fifo", until_s=50.0)
    assert granted(found) == [0, 1, 2, 3]


def test_a_queue_uses_units_that_the_other_does_not_need() -> None:
    load = jobs([0.0] * 5, [LONG] * 5, units=[1, 2, 2, 2, 2], queue=[0, 1, 1, 1, 1])
    found = watched(cluster(8), load, "yarn_capacity", until_s=50.0, am_share=1.0)
    assert [queue.used for queue in found.scheduler.queues] == [1, 7]


def test_a_queue_stays_below_its_maximum_share() -> None:
    load = jobs([0.0] * 8, [LONG] * 8)
    found = watched(cluster(8), load, "yarn_capacity", until_s=50.0, am_share=1.0, max_share=0.5)
    assert [queue.used for queue in found.scheduler.queues] == [4]


@pytest.mark.parametrize(
    ("name", "queues", "limits"),
    [
        ("yarn_capacity", [0, 1], [2, 1]),  # ceil(20 x 0.1 x 3/4) and ceil(20 x 0.1 x 1/4)
        ("yarn_capacity", [1, 1], [2]),  # ceil(20 x 0.1): the workload has one queue
        ("yarn_fair", [0, 1], [8, 3]),  # ceil(20 x 0.5 x 3/4) and ceil(20 x 0.5 x 1/4)
    ],
)
def test_the_limit_of_active_applications(name: str, queues: list[int], limits: list[int]) -> None:
    load = jobs([0.0, 0.0], [LONG, LONG], queue=queues)
    found = watched(cluster(12, 8), load, name, until_s=50.0, weight_0=3.0)
    assert [found.scheduler.limit(queue) for queue in found.scheduler.queues] == limits


def test_the_limit_of_fair_follows_the_queues_that_have_applications() -> None:
    load = jobs([0.0, 100.0], [10.0, LONG], queue=[0, 1])
    found = watched(cluster(12, 8), load, "yarn_fair", until_s=200.0, weight_0=3.0)
    first, second = found.scheduler.queues
    assert not first.is_needed
    assert found.scheduler.limit(second) == 10  # ceil(20 x 0.5)


def test_an_application_waits_until_another_of_its_queue_has_ended() -> None:
    load = jobs([0.0, 0.0, 0.0], [100.0, 100.0, 100.0], queue=[0, 0, 1])
    result = run(cluster(10), load, options(policy="yarn_capacity"))  # one active in each queue
    assert result.started_s[1] >= result.ended_s[0]
    assert result.started_s[1] - result.ended_s[0] <= 1.0 + 1e-9  # the next heartbeat
    assert result.started_s[2] <= 2.0
    fifo = run(cluster(10), load, options(policy="yarn_fifo"))
    assert fifo.started_s.max() <= 1.0


def test_fifo_fills_one_node_where_capacity_balances() -> None:
    load = jobs([0.0] * 4, [LONG] * 4)
    spread = {
        name: sorted(
            Counter(
                server
                for _, _, server in watched(cluster(4, 4), load, name, until_s=1.9, **more).grants
            ).values()
        )
        for name, more in (("yarn_fifo", {}), ("yarn_capacity", {"am_share": 1.0}))
    }
    assert spread == {"yarn_fifo": [4], "yarn_capacity": [2, 2]}


def test_containers_are_granted_at_heartbeats_only() -> None:
    rng = np.random.default_rng(4)
    load = jobs(np.sort(rng.uniform(0, 500, 30)), rng.uniform(5, 80, 30))
    found = watched(cluster(2, 3), load, "yarn_fair", heartbeat_s=7.0)
    times = np.array([at for at, _, _ in found.grants])
    server = np.array([server for _, _, server in found.grants])
    for node in (0, 1):
        phases = times[server == node] % 7.0
        assert np.ptp(phases) < 1e-6 or np.ptp((phases + 3.5) % 7.0) < 1e-6


def test_a_heartbeat_is_processed_once_and_late_ones_are_left_out() -> None:
    beats = Heartbeats(10.0, 3, np.random.default_rng(1))
    every = np.ones(3, dtype=np.bool_)
    first = beats.next_s(every, 0.0)
    node = int(np.argmin(beats.due_s))
    assert beats.due(every, first) == [node]
    assert beats.due(every, first) == []
    assert beats.due_s[node] == first + 10.0
    assert beats.next_s(every, 1000.0) >= 1000.0
    assert (beats.due_s < 1010.0).all()
    assert beats.next_s(~every, 0.0) == np.inf


def test_nodes_take_containers_again_after_a_repair() -> None:
    load = jobs([float(i) for i in range(20)], [200.0] * 20)
    failures = Failures(per_day=300.0, repair_s=200.0)
    result = run(cluster(1, 1), load, options(policy="yarn_fair", failures=failures))
    assert result.restarts.sum() > 0
    assert result.reason == ("",) * len(load)


def test_an_application_that_waits_says_so() -> None:
    load = jobs([0.0, 0.0], [LONG, LONG])
    result = run(cluster(4), load, options(policy="yarn_capacity", until_s=50.0))
    assert result.reason[1] == "NoFreeUnit: its application waits for a container of its queue"


@settings(max_examples=60, deadline=None)
@given(
    load=random_jobs(),
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=4),
    name=st.sampled_from(YARN),
    seed=st.integers(0, 1000),
    share=st.sampled_from([0.05, 0.3, 1.0]),
)
def test_no_core_is_taken_twice_no_application_is_lost_and_queues_keep_their_limits(
    load: Workload, sizes: list[int], name: str, seed: int, share: float
) -> None:
    values: dict[str, Any] = {} if name == "yarn_fifo" else {"am_share": share, "weight_1": 2.0}
    found = Watched(cluster(*sizes), load, name, seed=seed, parameters=values)
    for _ in found.steps():
        free, scheduler = found.free(), found.scheduler
        used = Counter[int]()
        for job in found.loop.running:
            used[int(load.queue[job])] += found.loop.records[job].units
        assert {queue.number: queue.used for queue in scheduler.queues if queue.used} == used
        assert sum(used.values()) + sum(free) == sum(sizes)
        for queue in scheduler.queues:
            assert queue.lacking.keys() <= queue.active
            # the first of the line is active unless the limit is reached
            assert not queue.pending or len(queue.active) >= scheduler.limit(queue)
            if name == "yarn_capacity":
                assert len(queue.active) <= scheduler.limit(queue)
    assert all(np.isfinite(record.ended_s) for record in found.loop.records)
    assert len(found.loop.records) == len(load)
    assert not found.scheduler.has_waiting
    assert all(used <= size for used, size in zip(most_used(found), sizes, strict=True))


@settings(max_examples=30, deadline=None)
@given(load=random_jobs(), seed=st.integers(0, 1000))
def test_fifo_starts_no_application_before_one_submitted_earlier(
    load: Workload, seed: int
) -> None:
    found = Watched(cluster(2, 1), load, "yarn_fifo", seed=seed)
    assert list(found.steps())
    starts = [record.started_s for record in found.loop.records]
    assert starts == sorted(starts)
