"""Running jobs that lack units, in replays."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from apps.scheduling.core.sizing.sizes import Infeasible
from apps.scheduling.core.types import Within
from apps.testbed.core.demo_cluster import cluster_of
from apps.testbed.core.replay.demand import Demand, SizedRequest
from apps.testbed.core.replay.growing import missing_units
from apps.testbed.core.replay.loop import ReplayLoop
from apps.testbed.core.replay.migrating import HeldPart, RunningJob
from apps.testbed.core.replay.model import Admission, Failures, ReplayCluster
from apps.testbed.core.replay.run import policy_named, run
from apps.testbed.core.replay.workloads import Workload
from tests.scheduling.core.clusters import request, topology
from tests.testbed.core.replay.cases import cluster, jobs, options
from tests.testbed.core.replay.test_migrating import STALL_S, Scripted, moved, replayed
from tests.testbed.core.replay.test_replay_run import heard

ADMISSIONS = [Admission.SHAPES, Admission.FIFO, Admission.COUNT, Admission.ARQ]


def divisible(arrival_s: list[float], work_s: list[float], units: list[int]) -> Workload:
    return jobs(arrival_s, work_s, units=units, gang=[False] * len(units))


def loop_of(servers: ReplayCluster, load: Workload, **values: Any) -> ReplayLoop:
    chosen = options(**values)
    emulated = cluster_of(servers.platforms, servers.platform, servers.rack, chosen.seed)
    demand = Demand(load, servers, emulated, chosen)
    return ReplayLoop(emulated, demand, policy_named(chosen.policy), chosen)


@pytest.mark.parametrize("admission", ADMISSIONS)
def test_a_job_gets_the_units_that_it_lacks_when_they_are_freed(admission: Admission) -> None:
    load = divisible([0.0, 1.0], [60.0, 8000.0], [6, 8])
    result = run(cluster(8), load, options(admission=admission))
    assert result.units.tolist() == [6, 8]
    assert result.started_s.tolist() == [0.0, 1.0]
    assert result.whole_s.tolist() == [0.0, result.ended_s[0]]
    assert result.refusals.tolist() == [0, 0]


def test_a_job_may_grow_several_times() -> None:
    load = divisible([0.0, 1.0, 2.0], [40.0, 400.0, 8000.0], [2, 2, 6])
    result = run(cluster(6), load, options())
    assert result.units.tolist() == [2, 2, 6]
    assert result.ended_s[0] < result.ended_s[1] == result.whole_s[2]


def test_a_job_that_ends_before_it_has_all_units_was_never_whole() -> None:
    load = divisible([0.0, 1.0], [6000.0, 20.0], [6, 8])
    result = run(cluster(8), load, options())
    assert result.units.tolist() == [6, 2]
    assert np.isnan(result.whole_s[1])


def test_running_jobs_that_lack_units_come_before_waiting_ones() -> None:
    load = jobs([0.0, 1.0, 2.0], [60.0, 800.0, 60.0], units=[3, 4, 2], gang=[True, False, True])
    batches, loop = heard(load)
    first, lacking, waiting = loop.records
    assert first.ended_s == lacking.whole_s < lacking.ended_s == waiting.started_s
    assert batches == [["0"], ["1"], ["2"], ["1", "2"], ["2"]]


def test_those_that_were_placed_first_get_units_first() -> None:
    load = divisible([0.0, 1.0, 2.0], [60.0, 8000.0, 8000.0], [2, 4, 4])
    result = run(cluster(4), load, options())
    # the third starts on what the first leaves after the second has its two
    assert result.whole_s[1] == result.ended_s[0]
    assert result.started_s[2] == result.ended_s[1]


@pytest.mark.parametrize(("batch", "waiting_is_first"), [(1, True), (128, False)])
def test_with_a_single_path_running_and_other_jobs_take_turns(
    batch: int, *, waiting_is_first: bool
) -> None:
    load = jobs(
        [0.0, 0.0, 1.0, 2.0], [30.0, 60.0, 8000.0, 900.0],
        units=[1, 1, 4, 1], gang=[True, True, False, True],
    )  # fmt: skip
    _, loop = heard(load, batch=batch)
    short, long, lacking, waiting = loop.records
    assert short.ended_s < long.ended_s
    assert (waiting.started_s == long.ended_s) is waiting_is_first
    assert (lacking.whole_s == long.ended_s) is not waiting_is_first


@pytest.mark.parametrize("batch", [1, 128])
@pytest.mark.parametrize(("agents", "decision_s", "sync_s"), [(1, 0.0, 0.0), (3, 0.5, 4.0)])
def test_no_unit_is_idle_or_given_twice_while_running_jobs_lack_units(
    batch: int, agents: int, decision_s: float, sync_s: float
) -> None:
    rng, n = np.random.default_rng(5), 200
    load = jobs(
        np.cumsum(rng.exponential(6.0, n)), rng.exponential(400.0, n) + 1.0,
        units=rng.integers(1, 20, n), gang=rng.random(n) < 0.3,
    )  # fmt: skip
    loop = loop_of(
        cluster(*(4,) * 8), load, batch=batch, agents=agents, decision_s=decision_s,
        sync_s=sync_s, failures=Failures(per_day=200.0, repair_s=60.0) if agents > 1 else None,
    )  # fmt: skip
    idle = []
    for _ in loop.turns():
        held = sum(record.units for i, record in enumerate(loop.records) if i in loop.running)
        assert held == loop.used <= loop.units
        idle.append(bool(loop.incomplete) and loop.used < loop.units)
    assert loop.incomplete == {}
    assert loop.ended == n
    assert all(record.units <= record.asked for record in loop.records)
    assert agents > 1 or not any(idle)


def test_a_decision_for_a_job_that_ended_meanwhile_is_dropped() -> None:
    load = divisible([0.0, 1.0], [12.0, 8.0], [2, 4])
    result = run(cluster(4), load, options(decision_s=5.0))
    assert result.ended_s[0] < result.ended_s[1] < result.ended_s[0] + 5.0
    assert result.units.tolist() == [2, 2]
    assert result.reason == ("", "")


def test_a_migrating_job_grows_after_its_arrival() -> None:
    load = divisible([0.0, 1.0], [100.0, 8000.0], [2, 8])
    planner = Scripted(at60=[moved(1, 1, 0, units=2)])
    result, _ = replayed(cluster(4, 4), load, planner, decision_s=6.0)
    assert 54.0 < result.ended_s[0] < 60.0  # so its units are decided on as it migrates
    assert result.migrations.tolist() == [0, 1]
    assert result.units.tolist() == [2, 8]
    assert result.whole_s[1] == 60.0 + STALL_S + 6.0


def test_the_missing_units_are_requested_as_production_does() -> None:
    servers = topology((4, 4, 4))
    whole = request(8, gang=False, locality=Within.SERVER, spread=Within.SERVER, reserved=9)
    held = {1: HeldPart(0, 3)}
    running = RunningJob(whole, [1], held, 0.0, lacking=5)
    missing = missing_units(running, SizedRequest(whole, 1.0, patience_s=60.0), servers)
    assert (missing.request.units, missing.patience_s) == (5, 0.0)
    assert (missing.request.locality, missing.request.reserved) == (None, None)
    assert missing.request.excluded == frozenset({1})


def test_missing_units_come_from_any_platform_if_none_meets_the_target() -> None:
    whole = replace(request(8), platforms=frozenset({"A"}))
    running = RunningJob(whole, [1], {}, 0.0, lacking=5)
    late = missing_units(running, Infeasible(8, "A", 90.0, "later"), topology((4, 4)))
    assert (late.request.units, late.request.platforms) == (5, None)
