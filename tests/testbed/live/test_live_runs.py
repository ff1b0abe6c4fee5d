"""Live nodes under a live scheduler, in virtual time: the events of the offline engine."""

import asyncio
from dataclasses import replace
from math import inf

import numpy as np
import pytest

from apps.testbed.core.live.cases import at_speed
from apps.testbed.core.reservation.model import Algorithm, Machines, Scheduler, TaskState, Workload
from apps.testbed.core.reservation.run import run_reservation
from apps.testbed.core.reservation.synthetic import synthetic
from apps.testbed.infrastructure.live_nodes import LiveCase, LiveRun, LiveRunError, attribute_names
from tests.execution.nodes.virtual import run_virtual
from tests.testbed.live.worlds import World, ints, jobs, machines, play

STATES = list(TaskState)
EAGER = Scheduler(Algorithm.CHECK_ALL, heartbeat_s=5.0, network_s=0.0, probe_s=0.0)


def case(
    workload: Workload, cluster: Machines, scheduler: Scheduler = EAGER, until_s: float = 1e6
) -> LiveCase:
    return LiveCase(workload, cluster, scheduler, until_s=until_s)


@pytest.mark.parametrize("path_limit", [0, 1, 3])
@pytest.mark.parametrize("algorithm", Algorithm)
def test_a_live_run_has_every_event_of_the_offline_run(
    algorithm: Algorithm, path_limit: int
) -> None:
    """Messages cross a protocol, and real nodes accept and reject: no time differs."""
    workload, cluster = synthetic(1500, 60, 0.95, np.random.default_rng(3))
    workload = at_speed(workload, 50.0)
    scheduler = Scheduler(
        algorithm, attempts=3, heartbeat_s=0.3, path_limit=path_limit, probe_s=0.0
    )
    offline = run_reservation(workload, cluster, scheduler, seed=4)
    live = play(LiveCase(workload, cluster, scheduler, until_s=1e9, seed=4))
    assert offline.attempts.sum() > 0
    assert live.state.tolist() == offline.state.tolist()
    assert live.ran_on.tolist() == offline.ran_on.tolist()
    assert live.attempts.tolist() == offline.attempts.tolist()
    assert (live.probes, live.events) == (offline.probes, offline.events)
    np.testing.assert_allclose(live.started_s, offline.started_s, rtol=0.0, atol=1e-6)
    np.testing.assert_allclose(live.ended_s, offline.ended_s, rtol=0.0, atol=1e-6)
    np.testing.assert_allclose(live.delay_s, offline.delay_s, rtol=0.0, atol=1e-6)


def test_times_of_messages_that_vary_have_the_distribution_of_the_offline_run() -> None:
    """2,000 starts: both empirical distributions are within 0.06 of the uniform one.

    Kolmogorov: 1.63 / sqrt(2,000) = 0.036 at 1 %; both draws are fixed.
    """
    workload = jobs(*((float(n), [(1, 0.1)]) for n in range(2000)))
    scheduler = replace(EAGER, network_s=0.02, network_spread=1.0)
    live = play(case(workload, machines(10, 10), scheduler))
    offline = run_reservation(workload, machines(10, 10), scheduler, seed=1)
    even = np.arange(1, 2001) / 2000
    for run in (live, offline):
        wait = np.sort(run.started_s - workload.submit_s) / 0.04
        assert np.abs(wait - even).max() < 0.06


def test_a_machine_that_filled_since_its_heartbeat_rejects() -> None:
    scheduler = replace(EAGER, algorithm=Algorithm.RANDOM_BLIND, attempts=1)
    workload = jobs((0.0, [(6, 100.0)]), (1.0, [(6, 100.0)]))
    live = play(case(workload, machines(10), scheduler))
    assert [STATES[code].value for code in live.state] == ["ended", "rejected too often"]
    assert live.failed_jobs(workload) == 1


def test_tasks_of_the_start_run_without_a_decision() -> None:
    workload = replace(jobs((0.0, [(6, 50.0)]), (1.0, [(6, 1.0)])), machine=ints(1, -1))
    live = play(case(workload, machines(10, 10)))
    assert live.ran_on.tolist() == [1, 0]
    assert live.started_s[0] == 0.0
    assert np.isnan(live.delay_s[0])
    assert live.ended_s[0] == pytest.approx(50.0, abs=1e-6)


def test_the_scheduler_knows_the_load_of_the_start_before_the_first_heartbeat() -> None:
    """Offline too: nothing is rejected."""
    workload = replace(jobs((0.0, [(6, 50.0)]), (0.001, [(6, 1.0)])), machine=ints(0, -1))
    live = play(case(workload, machines(10, 10), replace(EAGER, heartbeat_s=500.0)))
    offline = run_reservation(
        workload, machines(10, 10), replace(EAGER, heartbeat_s=500.0), seed=1
    )
    assert live.attempts.tolist() == offline.attempts.tolist() == [0, 0]
    assert live.ran_on.tolist() == [0, 1]


def test_tasks_of_a_lost_machine_run_again_elsewhere() -> None:
    async def crash(world: World) -> None:
        await asyncio.sleep(10.0)
        world.cut("m0")

    workload = replace(jobs((0.0, [(10, 30.0)])), machine=ints(0))
    live = play(case(workload, machines(10, 10)), crash)
    assert (live.ran_on.tolist(), live.evictions) == ([1], 1)
    assert live.started_s[0] == pytest.approx(75.0, abs=2.0)  # 10 s, the lease, 5 s of grace
    assert live.ended_s[0] - live.started_s[0] == pytest.approx(30.0, abs=0.01)


def test_a_machine_without_a_connection_gets_no_tasks() -> None:
    async def crash(world: World) -> None:
        await asyncio.sleep(10.0)
        world.cut("m0")

    workload = jobs(*((20.0 + n, [(1, 1.0)]) for n in range(20)))
    assert set(play(case(workload, machines(10, 10)), crash).ran_on.tolist()) == {1}


def test_a_blind_decision_for_a_lost_machine_counts_as_rejected() -> None:
    async def crash(world: World) -> None:
        await asyncio.sleep(1.0)
        world.cut("m0")

    scheduler = replace(EAGER, algorithm=Algorithm.RANDOM_BLIND, attempts=1)
    live = play(case(jobs((5.0, [(1, 1.0)])), machines(10), scheduler), crash)
    assert [STATES[code].value for code in live.state] == ["rejected too often"]


def test_a_task_that_survives_a_reconnection_is_started_once() -> None:
    async def interrupt(world: World) -> None:
        await asyncio.sleep(10.0)
        world.ends["m0"].close()

    live = play(case(jobs((0.0, [(10, 30.0)])), machines(10)), interrupt)
    assert (live.evictions, live.started_s[0]) == (0, 0.0)
    assert live.ended_s[0] == pytest.approx(30.0, abs=0.01)


def test_a_run_stops_at_its_end_with_tasks_still_running() -> None:
    live = play(case(jobs((0.0, [(5, inf)]), (1.0, [(5, 2.0)])), machines(10), until_s=9.0))
    assert [STATES[code].value for code in live.state] == ["running", "ended"]
    assert live.ended_at_s == pytest.approx(3.0, abs=0.01)  # the endless task alone remains
    assert live.busy_cpu.max() == pytest.approx(1.0)


def test_attribute_kinds_travel_as_names() -> None:
    assert attribute_names(0b1001) == ("k0", "k3")
    workload = replace(jobs((0.0, [(1, 1.0)])), needs=ints(4))
    cluster = replace(machines(10, 10), attributes=ints(3, 6))
    assert play(case(workload, cluster)).ran_on.tolist() == [1]


def test_nodes_that_never_connect_are_counted() -> None:
    async def main() -> None:
        await LiveRun(case(jobs((0.0, [(1, 1.0)])), machines(1, 1))).run(connecting_s=3.0)

    with pytest.raises(LiveRunError, match="2 of 2 nodes have not registered in 3 s"):
        run_virtual(main)
