"""What any size would achieve, against sizing itself and closed forms."""

import math
from dataclasses import replace

import numpy as np
import pytest

from apps.scheduling.core.feasibility import (
    Feasibility,
    feasibility,
    lighter_load,
    most_load,
)
from apps.scheduling.core.sizing import (
    INTERFERENCE_ALLOWANCE,
    ClusterFacts,
    Sized,
    Work,
    size,
)
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


def seen(target: Target, work: Work, *, facts: ClusterFacts = FACTS) -> Feasibility:
    return feasibility(SLOW_A, target, work, facts, size(SLOW_A, target, work, facts))


def test_the_prediction_at_the_size_taken_is_the_one_that_sizing_gives() -> None:
    target, work = CompletionTime(100.0), Work(input_bytes=1e10)
    sized = size(SLOW_A, target, work, FACTS)
    assert isinstance(sized, Sized)
    found = seen(target, work)
    row, column = sized.units - 1, found.platforms.index(found.basis or "")
    at = (found.value[row, column], found.low[row, column], found.high[row, column])
    assert at == pytest.approx((sized.predicted, sized.low, sized.high))
    assert found.units == sized.units


def test_more_units_take_less_time_in_proportion() -> None:
    found = seen(CompletionTime(100.0), Work(input_bytes=1e10))
    assert found.sizes.tolist() == list(range(1, 65))
    seconds = 1e10 / (1e8 * INTERFERENCE_ALLOWANCE * found.sizes)
    assert found.value[:, 0] == pytest.approx(seconds)


def test_the_interval_surrounds_the_prediction_where_less_is_better() -> None:
    found = seen(CompletionTime(100.0), Work(input_bytes=1e10))
    held = np.isfinite(found.value)
    assert (found.low[held] < found.value[held]).all()
    assert (found.value[held] < found.high[held]).all()


def test_sizes_a_platform_cannot_hold_are_not_predicted() -> None:
    found = seen(CompletionTime(100.0), Work(input_bytes=1e10))
    assert np.isnan(found.value[20:, 1]).all()
    assert np.isfinite(found.value[:20, 1]).all()


def test_a_platform_without_units_is_left_out() -> None:
    facts = ClusterFacts(platforms=("J", "A"), units=(1000, 0), server_units=(16, 0))
    assert seen(InstructionRate(1e8), Work(), facts=facts).platforms == ("J",)


def test_an_overloaded_service_never_answers_in_time() -> None:
    found = seen(ThroughputLatency(5e8, 0.01, 99.0), Work())
    assert math.isinf(found.value[0, 0])
    assert np.isfinite(found.value[9, 0])


def test_a_platform_that_is_overloaded_at_every_size_is_still_shown() -> None:
    found = seen(ThroughputLatency(1e12, 0.01, 99.0), Work())
    assert found.platforms == ("J", "A")
    assert (found.units, found.basis) == (64, "J")


def test_the_most_load_is_feasible_and_a_little_more_is_not() -> None:
    wanted = ThroughputLatency(1e12, 1e-6, 99.0)
    load = most_load(SLOW_A, wanted, Work(), FACTS)
    met = [size(SLOW_A, replace(wanted, qps=load * k), Work(), FACTS) for k in (0.99, 1.02)]
    assert [isinstance(found, Sized) for found in met] == [True, False]


def test_one_unit_answers_with_the_percentile_of_m_m_1() -> None:
    found = seen(ThroughputLatency(1e7, 0.01, 99.0), Work())
    rate = 1e8 * INTERFERENCE_ALLOWANCE
    assert found.value[0, 0] == pytest.approx(math.log(100.0) / (rate - 1e7))


def test_best_effort_has_no_target() -> None:
    found = seen(BestEffort(), Work(input_bytes=1e9))
    assert (found.wanted, found.is_rate) == (None, True)


def test_where_nothing_is_enough_the_best_there_is_is_named() -> None:
    found = seen(CompletionTime(0.1), Work(input_bytes=1e10))
    assert (found.units, found.basis) == (64, "J")


@pytest.mark.parametrize("latency_s", [1e-6, 1e-12])  # the second is less than an idle unit needs
def test_a_lighter_load_can_be_served(latency_s: float) -> None:
    lighter = lighter_load(SLOW_A, ThroughputLatency(1e12, latency_s, 99.0), Work(), FACTS)
    assert lighter is not None
    assert lighter.latency_seconds >= latency_s
    assert isinstance(size(SLOW_A, lighter, Work(), FACTS), Sized)


def test_a_latency_that_an_idle_service_keeps_is_kept() -> None:
    wanted = ThroughputLatency(1e12, 1e-6, 99.0)
    lighter = lighter_load(SLOW_A, wanted, Work(), FACTS)
    assert lighter is not None
    assert lighter.latency_seconds == wanted.latency_seconds
