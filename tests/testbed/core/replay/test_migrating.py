"""Migrations during a replay: what they cost, hold and change; production's loop in a replay."""

from collections.abc import Sequence
from dataclasses import fields

import numpy as np
import pytest

from apps.placement.models import RebalancingLoop
from apps.testbed.core.demo_cluster import cluster_of
from apps.testbed.core.replay.demand import Demand
from apps.testbed.core.replay.errors import ReplayError
from apps.testbed.core.replay.loop import ReplayLoop
from apps.testbed.core.replay.migrating import ClusterView, Migration
from apps.testbed.core.replay.model import Failures, ReplayCluster, ReplayOptions, ReplayResult
from apps.testbed.core.replay.rebalancing import LoopLimits
from apps.testbed.core.replay.results import result_of
from apps.testbed.core.replay.run import policy_named, run
from apps.testbed.core.replay.workloads import Application, Workload, workload
from tests.testbed.core.replay.cases import cluster, jobs, options

STALL_S = 5.0


class Scripted:
    """Plans the migrations given for a time, in seconds."""

    def __init__(self, **plans: Sequence[Migration]) -> None:
        self.interval_s, self.decision_s, self.per_minute = 10.0, 0.0, 20
        self.plans = {float(at.removeprefix("at")): list(plan) for at, plan in plans.items()}
        self.read_s: list[float] = []
        self.held: list[dict[int, int]] = []
        self.started_jobs: list[int] = []

    def plan(self, view: ClusterView, now: float) -> Sequence[Migration] | None:
        self.read_s.append(now)
        self.held.append({s: p.units for s, p in next(iter(view.running.values())).parts.items()})
        return self.plans.get(now)

    def started(self, migration: Migration) -> None:
        self.started_jobs.append(migration.job)


def replayed(
    servers: ReplayCluster, load: Workload, planner: Scripted, **values: object
) -> tuple[ReplayResult, ReplayLoop]:
    chosen = options(policy="slot_rr", **values)
    emulated = cluster_of(servers.platforms, servers.platform, servers.rack, chosen.seed)
    demand = Demand(load, servers, emulated, chosen)
    loop = ReplayLoop(emulated, demand, policy_named("slot_rr"), chosen, planner=planner)
    for _ in loop.turns():
        pass
    return result_of(loop, demand, emulated.machines, 0.0), loop


def moved(job: int, source: int, target: int, units: int = 1) -> Migration:
    return Migration(job, source, target, units, STALL_S)


def alone_s(units: int = 1, work_s: float = 100.0) -> float:
    found = run(cluster(4, 4), jobs([0.0], [work_s], units=[units]), options(policy="slot_rr"))
    return float(found.ended_s[0])


def test_a_migration_costs_its_stall_and_holds_units_on_both_servers() -> None:
    planner = Scripted(at20=[moved(0, 0, 1)])
    result, loop = replayed(cluster(4, 4), jobs([0.0], [100.0]), planner)
    assert result.ended_s[0] == pytest.approx(alone_s() + STALL_S)
    assert result.migrations.tolist() == [1]
    assert result.run.migrations == 1
    server, units, from_s, to_s, job = (list(column) for column in loop.holds)
    assert (server, units, from_s, job) == ([0, 1], [1, 1], [0.0, 20.0], [0, 0])
    assert to_s == pytest.approx([20.0 + STALL_S, result.ended_s[0]])
    assert planner.held[:3] == [{0: 1}, {0: 1}, {1: 1}]
    assert (loop.used, loop.running) == (0, {})


def test_part_of_the_units_of_a_server_migrates_and_the_rest_stays() -> None:
    planner = Scripted(at20=[moved(0, 0, 1, units=2)])
    result, _ = replayed(cluster(4, 4), jobs([0.0], [400.0], units=[3]), planner)
    assert planner.held[2:4] == [{0: 1, 1: 2}] * 2
    assert result.run.migrations == 1
    assert result.performance[0] <= 1.0


def test_units_that_a_container_leaves_start_a_waiting_job() -> None:
    load = jobs([0.0, 21.0], [200.0, 50.0], units=[2, 4])  # six units in all
    planner = Scripted(at20=[moved(0, 0, 1, units=2)])
    result, _ = replayed(cluster(4, 2), load, planner)
    assert result.started_s[1] == 20.0 + STALL_S


def test_a_server_with_too_few_free_units_refuses_a_migration() -> None:
    load = jobs([0.0, 0.0], [200.0, 200.0], units=[4, 1])
    planner = Scripted(at20=[moved(0, 0, 1, units=4)])
    result, _ = replayed(cluster(4, 4), load, planner)
    assert result.run.migrations == 0
    assert result.run.jobs_finished == 2


def test_containers_of_a_job_migrate_one_after_the_other() -> None:
    load = jobs([0.0], [400.0], units=[2])
    planner = Scripted(at20=[moved(0, 0, 1), moved(0, 0, 1)])
    result, loop = replayed(cluster(4, 4), load, planner)
    assert result.run.migrations == 2
    starts = [
        at for server, at in zip(loop.holds.server, loop.holds.from_s, strict=True) if server
    ]
    assert starts == [20.0, 20.0 + STALL_S]


def test_migrations_start_after_the_plan_and_at_most_so_many_a_minute() -> None:
    planner = Scripted(at20=[moved(0, 0, 1), moved(1, 0, 1), moved(2, 0, 1)])
    planner.decision_s, planner.per_minute = 2.0, 2
    load = jobs([0.0] * 3, [900.0] * 3)
    result, loop = replayed(cluster(4, 4), load, planner)
    assert result.run.migrations == 3
    starts = [
        at for server, at in zip(loop.holds.server, loop.holds.from_s, strict=True) if server
    ]
    assert starts == [22.0, 22.0, 82.0]


def test_a_job_that_ends_while_it_migrates_frees_both_servers() -> None:
    end_s = alone_s()
    planner = Scripted(**{f"at{10 * int(end_s // 10)}": [moved(0, 0, 1)]})
    load = jobs([0.0, 0.0], [100.0, 1000.0], duration_s=[end_s + 1.0, np.inf], units=[1, 1])
    result, loop = replayed(cluster(4, 4), load, planner)
    assert result.run.jobs_finished == 2
    assert loop.used == 0


def test_a_migrated_job_is_lost_with_its_new_server() -> None:
    planner = Scripted(at20=[moved(0, 0, 1)])
    failing = {"failures": Failures(2_000.0, 1e4)}
    load = jobs([0.0], [3_000.0])
    result, loop = replayed(cluster(4, 4), load, planner, **failing)
    assert result.restarts[0] > 0
    assert loop.used == 0


def test_nothing_is_read_without_running_jobs_or_when_none_will_end() -> None:
    planner = Scripted()
    load = jobs([100.0, 100.0], [30.0, np.inf], units=[1, 1])
    replayed(cluster(4, 4), load, planner)
    assert planner.read_s[0] == 110.0
    assert planner.read_s == [10.0 * i for i in range(11, 11 + len(planner.read_s))]


def test_without_a_planner_nothing_changes() -> None:
    load = jobs([0.0, 3.0, 5.0], [100.0, 50.0, 20.0], units=[2, 1, 3])
    without = run(cluster(4, 4), load, options(policy="slot_rr"))
    idle, _ = replayed(cluster(4, 4), load, Scripted())
    assert idle.ended_s.tolist() == without.ended_s.tolist()
    assert idle.run.energy_kwh == without.run.energy_kwh


# ---- production's loop ----


def busy_day(n: int = 120) -> Workload:
    """Jobs of one to four units that load four racks of servers to about a half."""
    rng = np.random.default_rng(7)
    kinds = ("analytics", "single_node", "batch")
    programs = [Application(f"p{i}", kinds[i % 3]) for i in range(9)]
    return workload(
        "day",
        programs,
        np.sort(rng.uniform(0.0, 7_200.0, n)),
        rng.integers(0, 9, n),
        rng.uniform(1_000.0, 12_000.0, n),
        units=rng.integers(1, 5, n),
    )


def weighted(weights: dict[str, float] | None, **values: object) -> ReplayResult:
    servers = cluster(*[4] * 24)
    chosen = options(policy="node_rr", weights=weights, **values)
    return run(servers, busy_day(), chosen)


def test_the_weight_of_power_empties_servers_and_saves_energy() -> None:
    still, packed = weighted(None), weighted({"P": 1.0})
    assert still.run.migrations == 0
    assert packed.run.migrations > 5
    assert packed.run.energy_kwh < 0.97 * still.run.energy_kwh
    assert packed.run.jobs_finished == still.run.jobs_finished == 120


def test_the_same_weights_and_seed_migrate_the_same_containers() -> None:
    first, second = (weighted({"P": 0.5, "D": 1.0, "C": 0.4}) for _ in range(2))
    assert first.migrations.tolist() == second.migrations.tolist()
    assert first.ended_s.tolist() == second.ended_s.tolist()


def test_no_job_migrates_often_or_while_it_is_young() -> None:
    result = weighted({"P": 1.0}, rebalance_s=60.0)
    ran_s = (result.ended_s - result.started_s)[result.migrations > 0]
    assert (ran_s > 2.0 * LoopLimits().youngest_s).all()
    hours = np.ceil((result.ended_s - result.started_s) / 3_600.0)
    assert (result.migrations <= 4 * 2 * hours).all()  # at most four parts in each of two plans


def test_the_limits_are_the_defaults_of_the_loop() -> None:
    row = RebalancingLoop()
    assert {each.name: getattr(row, each.name) for each in fields(LoopLimits)} == {
        each.name: each.default for each in fields(LoopLimits)
    }


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({"money": 1.0}, "must be of P, D, C, which a replay has, not of 'money'"),
        ({"P": -1.0}, "of P must be a number of at least 0, not -1.0"),
        ({"P": True}, "of P must be a number of at least 0, not True"),
        ({"P": float("inf")}, "of P must be a number of at least 0, not inf"),
        ({"P": 0.0, "D": 0}, "must have one above 0"),
        ({}, "must have one above 0"),
    ],
)
def test_weights_that_a_replay_cannot_follow_are_refused(
    weights: dict[str, float], message: str
) -> None:
    with pytest.raises(ReplayError, match=message):
        ReplayOptions(weights=weights)


def test_plans_are_at_least_a_minute_apart() -> None:
    with pytest.raises(ReplayError, match="rebalance_s at least 60"):
        ReplayOptions(weights={"P": 1.0}, rebalance_s=59.0)
