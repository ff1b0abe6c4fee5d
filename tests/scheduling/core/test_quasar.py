"""Quasar's joint allocation and assignment, by hand (Q4), and its baselines (Q13)."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.inventory.core.snapshot import Snapshot
from apps.scheduling.core.growth import missing_request
from apps.scheduling.core.registry import make
from apps.scheduling.core.sizing.goals import Goal
from apps.scheduling.core.sizing.response_time import late_share
from apps.scheduling.core.types import Placed, RefusalReason, Refused, Request, Verdict, Within
from apps.workloads.core.targets import CompletionTime, InstructionRate, ThroughputLatency
from tests.classification.core.profiles import exact, profile
from tests.scheduling.core.clusters import idle, loaded, request, topology

# a fast server of 4 units (platform J) and two slow ones of 8 (platform A)
CLUSTER = topology((4, 8, 8), platforms=("J", "A", "A"))
SPEEDS = np.array([1.0, 0.5, 0.5])
IPS = profile(kind="batch", base_rate=100.0, speeds=(1.0, 0.5))


def rate(ips: float) -> Goal:
    return Goal(IPS, InstructionRate(ips))


def asked(goal: Goal | None, units: int = 1, **more: Any) -> Request:
    return request(units, goal=goal, platform_speed=SPEEDS, **more)


def decided(name: str, spec: Request, snapshot: Snapshot | None = None) -> Placed | Refused:
    (outcome,) = make(name).place(snapshot or idle(CLUSTER), [spec], np.random.default_rng(3))
    return outcome


def servers(outcome: Placed | Refused) -> list[int]:
    assert isinstance(outcome, Placed)
    return sorted(CLUSTER.unit_server[outcome.units].tolist())


@pytest.mark.parametrize(
    ("ips", "chosen"),
    [
        (100.0, [0]),  # one fast unit
        (250.0, [0, 0, 0]),  # scale up before scaling out
        (400.0, [0] * 4),
        (450.0, [0] * 4 + [1]),  # the best server is full: one unit of half the speed more
        (550.0, [0] * 4 + [1] * 3),
    ],
)
def test_the_fewest_units_of_the_best_servers_are_allocated(ips: float, chosen: list[int]) -> None:
    snapshot = replace(idle(CLUSTER), server_open=np.array([True, True, False]))
    outcome = decided("quasar", asked(rate(ips), 12), snapshot)
    assert servers(outcome) == chosen
    assert isinstance(outcome, Placed)
    assert outcome.wanted == len(chosen)


def test_the_papers_example_needs_five_servers() -> None:
    # Quasar §3.3: 100K queries/s on servers of at most 20K each
    cluster = topology((1,) * 8, platforms=("J",))
    goal = Goal(profile(kind="batch", base_rate=20e3, speeds=(1.0,)), InstructionRate(100e3))
    outcome = decided("quasar", request(8, goal=goal, platform_speed=np.ones(1)), idle(cluster))
    assert isinstance(outcome, Placed)
    assert len(set(cluster.unit_server[outcome.units].tolist())) == outcome.wanted == 5


def test_units_beyond_the_peak_of_a_server_are_not_used() -> None:
    # two units of a server are the fastest, so the third comes from another one
    saturating = replace(IPS, scale_up=exact([1.0, 2.0, 1.5, 1.0, 0.9, 0.8]))
    goal = Goal(saturating, InstructionRate(240.0))
    snapshot = replace(idle(CLUSTER), server_open=np.array([True, True, False]))
    assert servers(decided("quasar", asked(goal), snapshot)) == [0, 0, 1]


def test_interference_lowers_the_rank_of_a_server() -> None:
    caused = np.zeros((3, 10), dtype=np.float32)
    caused[0] = 3 * 90.0
    loud = replace(idle(CLUSTER), server_caused=caused)
    chosen = servers(decided("quasar", asked(rate(100.0)), loud))
    assert chosen in ([1, 1], [2, 2])


def test_units_of_one_server_meet_a_target_with_locality() -> None:
    # 3 fast or 6 slow units; the fast server has only two free
    free = np.ones(20, dtype=np.bool_)
    free[:2] = False
    snapshot = replace(idle(CLUSTER), unit_free=free)
    outcome = decided("quasar", asked(rate(300.0), 6, locality=Within.SERVER), snapshot)
    assert servers(outcome) in ([1] * 6, [2] * 6)


def quality(outcome: Placed | Refused) -> int:
    """Return the quality of the server that meets the target; 0 if none does."""
    if isinstance(outcome, Refused) or outcome.wanted is None:
        return 0
    return next(each.key[0] for each in outcome.candidates if each.verdict == Verdict.CHOSEN)


@given(seed=st.integers(0, 2**31), ips=st.floats(20.0, 900.0))
def test_a_target_with_locality_is_met_on_the_best_server_that_can(seed: int, ips: float) -> None:
    rng = np.random.default_rng(seed)
    cluster = topology(tuple(rng.integers(1, 17, 12).tolist()))
    snapshot, goal = loaded(cluster, rng.uniform(0.0, 0.9), rng), rate(ips)
    spec = request(1, goal=goal, platform_speed=np.array([1.0, 0.5]), locality=Within.SERVER)
    others = [frozenset(range(12)) - {server} for server in range(12)]
    alone = [decided("quasar", replace(spec, excluded=each), snapshot) for each in others]
    assert quality(decided("quasar", spec, snapshot)) == max(map(quality, alone))


def test_spread_takes_one_unit_of_each_server() -> None:
    outcome = decided("quasar", asked(rate(200.0), 3, spread=Within.SERVER))
    assert servers(outcome) == [0, 1, 2]


def test_a_target_that_needs_more_units_than_its_size_keeps_the_spread() -> None:
    outcome = decided("quasar", asked(rate(150.0), 1, spread=Within.SERVER))
    assert servers(outcome) in ([0, 1], [0, 2])


def test_a_target_that_needs_more_units_than_its_size_keeps_the_locality() -> None:
    outcome = decided("quasar", asked(rate(450.0), 1, locality=Within.SERVER))
    assert servers(outcome) == [0]  # no server alone meets it


def test_units_of_a_target_are_apart_below_one_switch() -> None:
    racks = topology((2,) * 6, platforms=("J",), racks=3, switches=("agg-1", "agg-1", "agg-2"))
    goal = Goal(profile(kind="analytics", base_rate=100.0, speeds=(1.0,)), InstructionRate(150.0))
    spec = request(
        *(1,), goal=goal, platform_speed=np.ones(1), locality=Within.SWITCH, spread=Within.RACK
    )
    outcome = decided("quasar", spec, idle(racks))
    assert isinstance(outcome, Placed)
    assert set(racks.server_rack[racks.unit_server[outcome.units]].tolist()) == {0, 1}
    assert outcome.wanted == outcome.units.size == 2


def test_an_unreachable_target_gets_the_size_that_sizing_found() -> None:
    outcome = decided("quasar", asked(rate(1e6), 3))
    assert servers(outcome) == [0, 0, 0]
    assert isinstance(outcome, Placed)
    assert outcome.wanted is None


def test_a_gang_waits_if_nothing_meets_the_target_and_too_few_units_are_free() -> None:
    outcome = decided("quasar", asked(rate(1e6), 21, gang=True))
    assert isinstance(outcome, Refused)
    assert outcome.reason is RefusalReason.NO_MATCHING_SERVER


def test_a_completion_time_counts_the_time_since_the_submission() -> None:
    goal = Goal(profile(bytes_rate=10.0), CompletionTime(100.0), input_bytes=1000.0)
    assert [goal.is_met(10.0, 1), goal.is_met(9.9, 1)] == [True, False]
    late = replace(goal, elapsed_s=50.0)
    assert [late.is_met(20.0, 1), late.is_met(19.9, 1)] == [True, False]
    assert not replace(goal, elapsed_s=100.0).is_met(1e9, 1)


def test_tasks_run_in_waves() -> None:
    goal = Goal(profile(), CompletionTime(100.0), input_bytes=1000.0, tasks=4)
    # 3 units need two waves for 4 tasks: they are busy 4 / 6 of the time
    assert [goal.is_met(15.0, 3), goal.is_met(14.9, 3)] == [True, False]
    assert goal.max_units == 4


def test_a_latency_is_met_if_the_queue_meets_it() -> None:
    target = ThroughputLatency(qps=90.0, latency_seconds=0.1, percentile=99.0)
    goal = Goal(profile(kind="latency_critical"), target)
    rates = np.linspace(95.0, 200.0, 40)
    late = late_share(np.array([[2]]), rates[None, :], 90.0, 0.1)[0]
    assert [goal.is_met(float(r), 2) for r in rates] == (late <= 0.01).tolist()


def test_rates_are_pessimistic_and_follow_the_platforms_of_the_cluster() -> None:
    known = profile(bytes_rate=10.0, speeds=(1.0, 0.5))
    curves = Goal(known, CompletionTime(100.0)).curves(("A", "X", "J"))
    assert curves.base.tolist() == pytest.approx([5.0, 0.0, 10.0])
    assert curves.up[:4].tolist() == pytest.approx([1.0, 2.0, 3.0, 4.0])
    unsure = Goal(profile(bytes_rate=10.0, error=0.1), CompletionTime(100.0)).curves(("J",))
    assert unsure.base[0] == pytest.approx(10.0 * np.exp(-1.6449 * 0.1), rel=1e-4)


def test_units_that_a_running_job_lacks_are_requested_by_number() -> None:
    again = missing_request(asked(rate(100.0), 2, reserved=9), CLUSTER, [])
    assert (again.goal, again.reserved, again.units) == (None, None, 2)


@given(
    ips=st.floats(10.0, 900.0),
    busy=st.lists(st.booleans(), min_size=20, max_size=20),
)
def test_an_allocation_that_meets_the_target_has_no_unit_too_many(
    ips: float, busy: list[bool]
) -> None:
    snapshot = replace(idle(CLUSTER), unit_free=~np.array(busy))
    outcome = decided("quasar", asked(rate(ips)), snapshot)
    if isinstance(outcome, Refused) or outcome.wanted is None:
        return
    speeds = sorted(100.0 * SPEEDS[CLUSTER.unit_server[outcome.units]], reverse=True)
    assert sum(speeds) >= ips * (1 - 1e-9)
    assert sum(speeds[:-1]) < ips
    assert snapshot.unit_free[outcome.units].all()


@pytest.mark.parametrize("name", ["reservation_least_loaded", "reservation_paragon"])
def test_a_reservation_is_allocated_whatever_the_size(name: str) -> None:
    outcome = decided(name, asked(rate(100.0), 2, reserved=7))
    assert isinstance(outcome, Placed)
    assert (outcome.units.size, outcome.wanted) == (7, 7)
    plain = decided(name, asked(rate(100.0), 2))
    assert isinstance(plain, Placed)
    assert (plain.units.size, plain.wanted) == (2, None)


def test_an_autoscaler_keeps_units_below_its_load() -> None:
    service = profile(kind="latency_critical", base_rate=100.0)
    goal = Goal(service, ThroughputLatency(qps=500.0, latency_seconds=0.1))
    outcome = decided("autoscale", asked(goal, 2))
    assert isinstance(outcome, Placed)
    assert outcome.units.size == 8  # 500 / (0.7 * 100) = 7.1
    batch = decided("autoscale", asked(rate(100.0), 2, reserved=3))
    assert isinstance(batch, Placed)
    assert batch.units.size == 3


def test_what_the_neighbours_lose_does_not_slow_the_job_down() -> None:
    """One unit of 100 instructions/s meets 100, though it halves the speed of the others."""
    spec = asked(rate(100.0), 12)
    free, exposure = np.ones(20, dtype=np.bool_), np.zeros((3, 10), dtype=np.float32)
    free[0] = False
    exposure[0] = np.log(0.5) * 3.0 / spec.caused.sum()  # of the neighbour, for 3 other units
    only = np.array([True, False, False])
    snapshot = replace(idle(CLUSTER), server_open=only, unit_free=free, server_exposure=exposure)
    outcome = decided("quasar", spec, snapshot)
    assert isinstance(outcome, Placed)
    assert (outcome.units.size, outcome.wanted) == (1, 1)
    assert outcome.candidates[0].closeness == pytest.approx(0.5)  # speed 1, own 1, neighbours 0.5
