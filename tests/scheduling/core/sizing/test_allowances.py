"""Sizing allowances: the quantile of measured over pessimistic speeds, shrunk to a constant."""

import math

import numpy as np
import pytest

from apps.scheduling.core.sizing.allowances import (
    EVERY,
    INTERFERENCE_ALLOWANCE,
    KINDS,
    LIMITS,
    NEWEST,
    PRIOR_JOBS,
    QUANTILE,
    AllowanceLearner,
    Allowances,
    allowances_of,
    estimated,
)


def drawn(jobs: int, seed: int = 1) -> list[float]:
    """Ratios of jobs: log-normal around 1.15."""
    return np.random.default_rng(seed).lognormal(np.log(1.15), 0.15, jobs).tolist()


TRUE = float(np.exp(np.log(1.15) - 1.645 * 0.15))  # the 5 % quantile of these ratios


@pytest.mark.parametrize("first", [0.55, 0.75, 1.0])
def test_a_wrong_constant_gives_way_to_what_jobs_tell(first: float) -> None:
    learner = AllowanceLearner(Allowances.all(first))
    for ratio in drawn(NEWEST):
        learner.add("completion_time", ratio)
    left = PRIOR_JOBS / (NEWEST + PRIOR_JOBS) * (first - TRUE)  # weight of the constant
    # deviation of the quantile of 400 jobs: sqrt(0.05 x 0.95 / 400) over its density
    deviation = 0.0109 / (0.103 / (0.15 * TRUE))
    assert learner.now.completion_time == pytest.approx(TRUE + left, abs=3.0 * deviation)
    assert abs(learner.now.completion_time - TRUE) < 0.6 * abs(first - TRUE)
    share = np.mean([ratio >= learner.now.completion_time for ratio in drawn(20_000, seed=2)])
    assert share == pytest.approx(1.0 - QUANTILE, abs=0.03)


def test_only_the_newest_jobs_of_a_kind_count() -> None:
    learner = AllowanceLearner()
    for ratio in [0.6] * NEWEST + [0.95] * NEWEST:
        learner.add("ips", ratio)
    weight = NEWEST / (NEWEST + PRIOR_JOBS)
    assert learner.now.ips == pytest.approx(weight * 0.95 + (1.0 - weight) * 0.9)
    assert learner.now.completion_time == learner.now.throughput_latency == INTERFERENCE_ALLOWANCE


def test_few_jobs_move_an_allowance_little() -> None:
    assert estimated([]).value == INTERFERENCE_ALLOWANCE
    one = estimated([0.5])
    assert one.value == pytest.approx((0.5 + PRIOR_JOBS * 0.9) / (1 + PRIOR_JOBS))
    assert (one.jobs, one.quantile) == (1, 0.5)


def test_an_allowance_has_limits() -> None:
    share = PRIOR_JOBS / (NEWEST + PRIOR_JOBS)  # of the constant
    for ratio, limit in zip((0.01, 9.0), LIMITS, strict=True):
        found = estimated([ratio] * NEWEST).value
        assert found == pytest.approx((1.0 - share) * limit + share * INTERFERENCE_ALLOWANCE)


def test_a_few_fast_jobs_leave_most_of_the_margin() -> None:
    few = estimated([2.4] * 13)
    assert few.value == pytest.approx((13 * LIMITS[1] + PRIOR_JOBS * 0.9) / (13 + PRIOR_JOBS))
    assert few.quantile == pytest.approx(2.4)


def test_a_simulation_estimates_as_the_control_plane_does() -> None:
    learner, ratios = AllowanceLearner(), drawn(3 * EVERY)
    for ratio in ratios:
        learner.add("completion_time", ratio)
    assert learner.now == allowances_of({"completion_time": ratios})


@pytest.mark.parametrize("ratio", [math.nan, math.inf, 0.0, -1.0])
def test_speeds_that_are_not_known_do_not_count(ratio: float) -> None:
    learner = AllowanceLearner()
    for _ in range(2 * EVERY):
        learner.add("completion_time", ratio)
        learner.add("best_effort", 0.5)
    assert learner.now == Allowances()


def test_best_effort_is_sized_as_completion_times() -> None:
    allowances = Allowances(0.7, 0.8, 0.9)
    assert [allowances.of(kind) for kind in KINDS] == [0.7, 0.8, 0.9]
    assert allowances.of("best_effort") == 0.7
