"""Predictions for all sizes, compared with sizing and closed forms."""

import math
from dataclasses import replace

import numpy as np
import pytest

from apps.scheduling.core.sizing.allowances import INTERFERENCE_ALLOWANCE
from apps.scheduling.core.sizing.feasibility import (
    Feasibility,
    feasibility,
    lighter_load,
    max_load,
)
from apps.scheduling.core.sizing.minimum import size
from apps.scheduling.core.sizing.sizes import ClusterFacts, Sized, Work
from apps.workloads.core.targets import (
    BestEffort,
    CompletionTime,
    InstructionRate,
    Target,
    ThroughputLatency,
)
from tests.classification.core.profiles import profile

FACTS = ClusterFacts(platforms=("J", "A"), units=(1000, 20), server_units=(16, 8))
SLOW_A = profile(speeds=(1.0, 0.5), error=0.1)


def feasibility_of(target: Target, work: Work, *, facts: ClusterFacts = FACTS) -> Feasibility:
    return feasibility(SLOW_A, target, work, facts, size(SLOW_A, target, work, facts))


def test_the_prediction_at_the_chosen_size_equals_that_of_sizing() -> None:
    target, work = CompletionTime(100.0), Work(input_bytes=1e10)
    sized = size(SLOW_A, target, work, FACTS)
    assert isinstance(sized, Sized)
    result = feasibility_of(target, work)
    row, column = sized.units - 1, result.platforms.index(result.basis or "")
    at = (result.value[row, column], result.low[row, column], result.high[row, column])
    assert at == pytest.approx((sized.predicted, sized.low, sized.high))
    assert result.units == sized.units


def test_more_units_take_less_time_in_proportion() -> None:
    result = feasibility_of(CompletionTime(100.0), Work(input_bytes=1e10))
    assert result.sizes.tolist() == list(range(1, 65))
    seconds = 1e10 / (1e8 * INTERFERENCE_ALLOWANCE * result.sizes)
    assert result.value[:, 0] == pytest.approx(seconds)


def test_the_interval_contains_the_prediction_if_lower_is_better() -> None:
    result = feasibility_of(CompletionTime(100.0), Work(input_bytes=1e10))
    held = np.isfinite(result.value)
    assert (result.low[held] < result.value[held]).all()
    assert (result.value[held] < result.high[held]).all()


def test_sizes_too_large_for_a_platform_are_not_predicted() -> None:
    result = feasibility_of(CompletionTime(100.0), Work(input_bytes=1e10))
    assert np.isnan(result.value[20:, 1]).all()
    assert np.isfinite(result.value[:20, 1]).all()


def test_a_platform_without_units_is_omitted() -> None:
    facts = ClusterFacts(platforms=("J", "A"), units=(1000, 0), server_units=(16, 0))
    assert feasibility_of(InstructionRate(1e8), Work(), facts=facts).platforms == ("J",)


def test_an_overloaded_service_has_infinite_latency() -> None:
    result = feasibility_of(ThroughputLatency(5e8, 0.01, 99.0), Work())
    assert math.isinf(result.value[0, 0])
    assert np.isfinite(result.value[9, 0])


def test_a_platform_that_is_overloaded_at_every_size_is_still_shown() -> None:
    result = feasibility_of(ThroughputLatency(1e12, 0.01, 99.0), Work())
    assert result.platforms == ("J", "A")
    assert (result.units, result.basis) == (64, "J")


def test_the_maximum_load_is_feasible_and_slightly_more_is_not() -> None:
    target = ThroughputLatency(1e12, 1e-6, 99.0)
    load = max_load(SLOW_A, target, Work(), FACTS)
    met = [size(SLOW_A, replace(target, qps=load * k), Work(), FACTS) for k in (0.99, 1.02)]
    assert [isinstance(outcome, Sized) for outcome in met] == [True, False]


def test_one_unit_answers_with_the_percentile_of_m_m_1() -> None:
    result = feasibility_of(ThroughputLatency(1e7, 0.01, 99.0), Work())
    rate = 1e8 * INTERFERENCE_ALLOWANCE
    assert result.value[0, 0] == pytest.approx(math.log(100.0) / (rate - 1e7))


def test_best_effort_has_no_target() -> None:
    result = feasibility_of(BestEffort(), Work(input_bytes=1e9))
    assert (result.target, result.is_rate) == (None, True)
    assert result.value[0, 0] == pytest.approx(1e8 * INTERFERENCE_ALLOWANCE / 1e9)


def test_an_infeasible_target_names_the_best_option() -> None:
    result = feasibility_of(CompletionTime(0.1), Work(input_bytes=1e10))
    assert (result.units, result.basis) == (64, "J")


@pytest.mark.parametrize("latency_s", [1e-6, 1e-12])  # the second is less than an idle unit needs
def test_a_lighter_load_can_be_served(latency_s: float) -> None:
    lighter = lighter_load(SLOW_A, ThroughputLatency(1e12, latency_s, 99.0), Work(), FACTS)
    assert lighter is not None
    assert lighter.latency_seconds >= latency_s
    assert isinstance(size(SLOW_A, lighter, Work(), FACTS), Sized)


def test_a_latency_that_an_idle_service_meets_is_not_changed() -> None:
    target = ThroughputLatency(1e12, 1e-6, 99.0)
    lighter = lighter_load(SLOW_A, target, Work(), FACTS)
    assert lighter is not None
    assert lighter.latency_seconds == target.latency_seconds
