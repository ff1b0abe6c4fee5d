"""Predicted costs, and the sizes and platforms that a ceiling allows."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.scheduling.core.sharing.costs import Cheapest, cheapest, too_expensive, unit_seconds
from apps.scheduling.core.sizing.allowances import INTERFERENCE_ALLOWANCE
from apps.scheduling.core.sizing.minimum import fixed_size, size
from apps.scheduling.core.sizing.sizes import ClusterFacts, Infeasible, Sized, Work
from apps.workloads.core.targets import BestEffort, CompletionTime, InstructionRate
from tests.classification.core.profiles import profile

FACTS = ClusterFacts(platforms=("J", "A"), units=(1000, 1000), server_units=(16, 8))
# On J, a unit processes 100 MB/s less what neighbours take; on A half of it.
TWICE = profile(bytes_rate=1e8, speeds=(1.0, 0.5))
HUNDRED_S = 1e10 * INTERFERENCE_ALLOWANCE  # bytes of one unit of J in 100 s


def test_costs_are_units_times_seconds() -> None:
    units, rate = np.array([[1], [2]]), np.array([[10.0, 5.0], [16.0, np.nan]])
    by_work = unit_seconds(units, rate, input_bytes=80.0, duration_s=None)
    assert by_work.tolist()[0] == [8.0, 16.0]
    assert by_work[1, 0] == 2 * 5.0
    assert math.isnan(by_work[1, 1])
    limited = unit_seconds(units, rate, input_bytes=80.0, duration_s=6.0)
    assert limited[:, 0].tolist() == [6.0, 10.0]
    service = unit_seconds(units, rate, input_bytes=0.0, duration_s=60.0)
    assert service[:, 0].tolist() == [60.0, 120.0]
    assert math.isnan(service[1, 1])
    endless = unit_seconds(units, rate, input_bytes=0.0, duration_s=None)
    assert endless[0].tolist() == [math.inf, math.inf]


def test_the_cheapest_option_is_one_of_those_allowed() -> None:
    cost = np.array([[4.0, 2.0], [np.nan, 3.0]])
    assert cheapest(cost, np.array([[True, False], [False, True]])) == Cheapest(1, 1, 3.0)


def test_a_refusal_names_the_ceiling_and_the_cheapest_cost() -> None:
    assert too_expensive(12.5, 12345.6) == (
        "the highest cost (max_cost) is 12.5 unit-seconds,"
        " and the cheapest placement is predicted to cost 12,346"
    )


def test_a_ceiling_leaves_the_platforms_that_cost_less() -> None:
    """100 unit-seconds on J, 200 on A: both meet a target of 300 s with one unit."""
    work, target = Work(input_bytes=HUNDRED_S), CompletionTime(300.0)
    free = size(TWICE, target, work, FACTS)
    assert isinstance(free, Sized)
    assert (free.platforms, free.units) == (frozenset({"J", "A"}), 1)
    assert math.isnan(free.cost)
    within = size(TWICE, target, replace(work, max_cost=150.0), FACTS)
    assert isinstance(within, Sized)
    assert (within.platforms, within.units) == (frozenset({"J"}), 1)
    assert within.cost == pytest.approx(100.0)
    both = size(TWICE, target, replace(work, max_cost=200.5), FACTS)
    assert isinstance(both, Sized)
    assert both.platforms == frozenset({"J", "A"})
    assert both.cost == pytest.approx(200.0), "on the most expensive of them"


def test_a_ceiling_below_the_cheapest_placement_refuses_the_job() -> None:
    work = Work(input_bytes=HUNDRED_S, max_cost=99.0)
    found = size(TWICE, CompletionTime(300.0), work, FACTS)
    assert isinstance(found, Infeasible)
    assert found.cost == pytest.approx(100.0)
    assert (found.units, found.platform) == (1, "J")
    assert found.suggestion.startswith("the highest cost (max_cost) is 99 unit-seconds")


def test_a_target_that_no_size_meets_is_not_a_matter_of_cost() -> None:
    work = Work(input_bytes=HUNDRED_S, max_cost=1.0)
    found = size(TWICE, CompletionTime(1.0), work, FACTS)
    assert isinstance(found, Infeasible)
    assert found.cost is None


def test_best_effort_gets_fewer_units_if_waves_waste_some() -> None:
    """33 tasks: 3 units run 11 waves; the usual 3 units cost 100, and so does one."""
    work = Work(input_bytes=HUNDRED_S, tasks=33)
    usual = size(TWICE, BestEffort(), work, FACTS)
    assert isinstance(usual, Sized)
    assert usual.units == 3
    within = size(TWICE, BestEffort(), replace(work, tasks=34, max_cost=100.5), FACTS)
    assert isinstance(within, Sized)
    assert (within.units, within.platforms) == (2, frozenset({"J"})), (
        "3 units would run 12 waves for 34"
    )
    assert isinstance(size(TWICE, BestEffort(), replace(work, max_cost=99.0), FACTS), Infeasible)


def test_a_fixed_size_keeps_to_the_platforms_within_the_ceiling() -> None:
    work = Work(input_bytes=HUNDRED_S, max_cost=150.0)
    kept = fixed_size(TWICE, BestEffort(), work, FACTS, 4)
    assert isinstance(kept, Sized)
    assert (kept.units, kept.platforms) == (4, frozenset({"J"}))
    assert kept.cost == pytest.approx(100.0)
    refused = fixed_size(TWICE, BestEffort(), replace(work, max_cost=50.0), FACTS, 4)
    assert isinstance(refused, Infeasible)
    assert (refused.units, refused.platform) == (4, "J")
    assert refused.cost == pytest.approx(100.0)
    free = fixed_size(TWICE, BestEffort(), replace(work, max_cost=None), FACTS, 4)
    assert isinstance(free, Sized)
    assert free.platforms is None


def test_a_service_costs_its_units_for_its_duration() -> None:
    work = Work(duration_s=60.0, max_cost=250.0)
    rate = 4.0 * float(TWICE.base_rate) * INTERFERENCE_ALLOWANCE * 0.99
    fits = size(TWICE, InstructionRate(rate), work, FACTS)
    assert isinstance(fits, Sized)
    assert (fits.units, fits.cost) == (4, 240.0)
    refused = size(TWICE, InstructionRate(rate), replace(work, max_cost=239.0), FACTS)
    assert isinstance(refused, Infeasible)
    assert refused.cost == 240.0


@given(st.floats(1.0, 1e5), st.floats(10.0, 1e4), st.integers(1, 40), st.floats(0.0, 0.3))
def test_no_size_is_chosen_that_costs_more_than_the_ceiling(
    ceiling: float, seconds: float, tasks: int, error: float
) -> None:
    of = profile(bytes_rate=1e8, speeds=(1.0, 0.5), error=error)
    work = Work(input_bytes=HUNDRED_S, tasks=tasks, max_cost=ceiling)
    for target in (CompletionTime(seconds), BestEffort()):
        found = size(of, target, work, FACTS)
        if isinstance(found, Sized):
            assert found.cost <= ceiling
        elif found.cost is not None:
            assert found.cost > ceiling
