import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from apps.classification.core.drift import (
    CLIPPED,
    LIMIT,
    SLACK,
    Cusum,
    cusum,
    mean_run_length,
)
from apps.classification.core.feedback import (
    BYTES,
    COMMON_DEVIATION,
    METRIC,
    NEIGHBOURS,
    POINT_COST,
    POINT_DEVIATION,
    RUN_DEVIATION,
    SERVER_DEVIATION,
    Belief,
    CellKey,
    Observation,
    ServerUnits,
    cells_to_record,
    predict,
    prior_belief,
    update_belief,
)
from apps.classification.core.matrix import Cell, MatrixName
from apps.classification.core.profile import Profile
from tests.classification.core.profiles import POINTS, exact, profile, wide

SPEED_A = CellKey(MatrixName.HETEROGENEITY, "A")
RATE = CellKey(MatrixName.BASE_RATE, BYTES)
OWN_RATE = CellKey(MatrixName.BASE_RATE, METRIC)
ONE_SERVER = math.hypot(SERVER_DEVIATION, COMMON_DEVIATION)


def guessed(error: float = 0.2, **values: Any) -> Profile:
    """Platform A was inferred, at half the speed of J; all else was measured."""
    known = profile(speeds=(1.0, 0.5), **values)
    ends = np.array([1.0, wide(error)])
    speed = known.platform_speed
    guess = replace(speed, low=speed.value / ends, high=speed.value * ends)
    return replace(known, platform_speed=guess)


def ran(rate: float, *parts: ServerUnits, run: str = "a", deviation: float = 0.01) -> Observation:
    """An observation of a job; by default one unit on platform A."""
    return Observation(run, parts or (ServerUnits("A", 1),), BYTES, rate, deviation)


def at(belief: Belief, place: CellKey) -> tuple[float, float]:
    """Value and relative deviation of a cell."""
    i = belief.keys.index(place)
    return math.exp(belief.mean[i]), float(belief.deviation[i])


def log_rate(belief: Belief, *parts: ServerUnits) -> float:
    expected = predict(belief, ran(1.0, *parts))
    assert expected is not None
    return expected.log_rate


def curved() -> Profile:
    """Speed-up m^0.9 on one server, efficiency m^-0.1 over servers."""
    known = profile(speeds=(1.0, 0.5))
    return replace(known, scale_up=exact(POINTS**0.9), scale_out=exact(POINTS**-0.1))


# ---- predictions ----


@pytest.mark.parametrize(("units", "servers"), [(1, 1), (6, 1), (48, 1), (3, 3), (12, 4)])
def test_even_allocations_are_predicted_as_by_the_profile(units: int, servers: int) -> None:
    known = curved()
    parts = [ServerUnits("A", units // servers)] * servers
    predicted = known.rate(units, servers=servers, platform="A", in_bytes=True).value
    expected = log_rate(prior_belief(known), *parts)
    assert expected == pytest.approx(math.log(NEIGHBOURS * predicted))


def test_uneven_allocations_add_up_over_their_servers() -> None:
    expected = log_rate(
        prior_belief(curved()), ServerUnits("J", 4), ServerUnits("A", 1), ServerUnits("A", 1)
    )
    alone = 4**0.9 + 0.5 + 0.5
    assert expected == pytest.approx(math.log(NEIGHBOURS * 1e8 * alone * 3**-0.1))


def test_the_gradient_is_the_derivative_of_the_expectation() -> None:
    belief = prior_belief(curved())
    parts = (ServerUnits("J", 3), ServerUnits("A", 5), ServerUnits("A", 5))
    expected = predict(belief, ran(1.0, *parts))
    assert expected is not None
    steps = np.eye(belief.mean.size) * 1e-6
    by_steps = [
        (log_rate(replace(belief, mean=belief.mean + step), *parts) - expected.log_rate) / 1e-6
        for step in steps
    ]
    assert expected.gradient == pytest.approx(np.array(by_steps), abs=1e-5)


def test_waves_leave_units_idle() -> None:
    belief = prior_belief(guessed())
    observation = ran(1.0)
    full, half = predict(belief, observation), predict(belief, replace(observation, busy=0.5))
    assert full is not None
    assert half is not None
    assert full.log_rate - half.log_rate == pytest.approx(math.log(2.0))


def test_each_point_beyond_tolerance_costs_rate_and_certainty() -> None:
    exact = prior_belief(profile())
    certain = replace(exact, covariance=np.zeros_like(exact.covariance))
    within = predict(certain, ran(1.0, deviation=0.0))
    beyond = predict(certain, replace(ran(1.0, deviation=0.0), beyond=20.0))
    assert within is not None
    assert beyond is not None
    assert within.deviation == pytest.approx(ONE_SERVER)
    assert within.log_rate - beyond.log_rate == pytest.approx(20.0 * POINT_COST)
    assert beyond.deviation == pytest.approx(math.hypot(ONE_SERVER, 20.0 * POINT_DEVIATION))


def test_jobs_on_unknown_platforms_are_not_predicted() -> None:
    observation = ran(1e8, ServerUnits("new", 1))
    assert predict(prior_belief(guessed()), observation) is None
    assert update_belief(prior_belief(guessed()), [observation]).innovations.size == 0


def test_noise_of_neighbours_averages_out_over_servers_except_its_common_part() -> None:
    exact = prior_belief(profile())
    still = replace(exact, covariance=np.zeros_like(exact.covariance))
    expected = predict(still, ran(1.0, *[ServerUnits("A", 1)] * 9, deviation=0.0))
    assert expected is not None
    assert expected.deviation == pytest.approx(
        math.hypot(SERVER_DEVIATION / 3.0, COMMON_DEVIATION)
    )


# ---- updates ----


def test_one_observation_is_the_normal_posterior() -> None:
    before = prior_belief(guessed(error=0.2))
    after = update_belief(before, [ran(0.4e8)]).belief
    noise = 0.01**2 + ONE_SERVER**2
    total = 0.2**2 + RUN_DEVIATION**2 + noise
    error = math.log(0.4e8 / (NEIGHBOURS * 1e8 * 0.5))
    value, deviation = at(after, SPEED_A)
    assert math.log(value / 0.5) == pytest.approx(error * 0.2**2 / total)
    assert deviation == pytest.approx(0.2 * math.sqrt(1.0 - 0.2**2 / total))


def test_the_rate_of_many_jobs_becomes_the_belief() -> None:
    observations = [ran(NEIGHBOURS * 1e8 * 0.35, run=str(i)) for i in range(40)]
    after = update_belief(prior_belief(guessed(error=0.2)), observations).belief
    assert log_rate(after, ServerUnits("A", 1)) == pytest.approx(
        math.log(0.35e8 * NEIGHBOURS), abs=0.03
    )


def test_an_uncertain_cell_changes_more_than_a_measured_one() -> None:
    after = update_belief(
        prior_belief(guessed(error=0.3)), [ran(0.3e8, run=str(i)) for i in range(9)]
    ).belief
    moved = [abs(math.log(at(after, SPEED_A)[0] / 0.5)), abs(math.log(at(after, RATE)[0] / 1e8))]
    assert moved[0] > 10.0 * moved[1]


def test_overridden_cells_never_change() -> None:
    before = prior_belief(guessed(), fixed={SPEED_A})
    after = update_belief(before, [ran(0.3e8, run=str(i)) for i in range(9)]).belief
    assert at(after, SPEED_A) == (0.5, 0.0)
    assert SPEED_A not in [CellKey(c.matrix, c.column) for c in cells_to_record(before, after, {})]


def test_cells_that_are_one_by_definition_stay_one() -> None:
    observations = [ran(3e7, ServerUnits("A", 3), run=str(i)) for i in range(9)]
    after = update_belief(prior_belief(guessed()), observations).belief
    key = CellKey(MatrixName.SCALE_UP, "1")
    assert at(after, key) == (1.0, 0.0)


def test_tied_base_rates_change_together() -> None:
    observations = [ran(0.8e8, ServerUnits("J", 1), run=str(i)) for i in range(9)]
    after = update_belief(prior_belief(guessed(error=0.2, base_rate=7.0)), observations).belief
    assert at(after, OWN_RATE)[0] / 7.0 == pytest.approx(at(after, RATE)[0] / 1e8)
    assert at(after, RATE)[0] < 0.95e8


def test_an_overridden_base_rate_does_not_fix_the_other() -> None:
    before = prior_belief(guessed(base_rate=7.0), fixed={OWN_RATE})
    after = update_belief(
        before, [ran(0.8e8, ServerUnits("J", 1), run=str(i)) for i in range(9)]
    ).belief
    assert at(after, OWN_RATE)[0] == pytest.approx(7.0)
    assert at(after, RATE)[0] < 0.95e8


def test_many_observations_of_one_run_weigh_as_one() -> None:
    before = prior_belief(guessed())
    once = update_belief(before, [ran(0.4e8, deviation=0.0)]).belief
    often = update_belief(before, [ran(0.4e8, deviation=0.0)] * 8).belief
    apart = update_belief(before, [ran(0.4e8, run=str(i), deviation=0.0) for i in range(8)]).belief
    assert at(often, SPEED_A)[1] == pytest.approx(at(once, SPEED_A)[1], rel=0.03)
    assert at(apart, SPEED_A)[1] < 0.8 * at(once, SPEED_A)[1]


def test_an_outlier_has_limited_weight() -> None:
    before = prior_belief(guessed(error=0.1))
    near, far = (at(update_belief(before, [ran(r)]).belief, SPEED_A)[0] for r in (0.3e8, 0.03e8))
    assert abs(math.log(far / 0.5)) < abs(math.log(near / 0.5)) * 1.5


def test_the_prior_belief_is_not_modified() -> None:
    before = prior_belief(guessed())
    mean, covariance = before.mean.copy(), before.covariance.copy()
    update_belief(before, [ran(0.3e8)])
    assert np.array_equal(before.mean, mean)
    assert np.array_equal(before.covariance, covariance)


def test_innovations_are_standard_normal_if_the_belief_is_correct() -> None:
    rng = np.random.default_rng(7)
    deviations = []
    for _ in range(60):
        truth = 0.5e8 * NEIGHBOURS * math.exp(rng.normal(0.0, math.hypot(0.2, RUN_DEVIATION)))
        observations = [
            ran(truth * math.exp(rng.normal(0.0, ONE_SERVER)), run=str(i)) for i in range(30)
        ]
        deviations.append(
            update_belief(prior_belief(guessed(error=0.2)), observations).innovations
        )
    z = np.concatenate(deviations)
    # 1,800 draws: the mean scatters by 0.024, the deviation by 0.017; a scatter that is never
    # taken for less than 1 makes it a little smaller
    assert abs(z.mean()) < 0.1
    assert 0.88 < z.std() < 1.05


# ---- recorded cells ----


def test_no_cell_is_recorded_without_information() -> None:
    before = prior_belief(guessed())
    assert cells_to_record(before, before, {}) == []


def test_recorded_cells_are_the_posterior_in_the_unit_of_the_matrix() -> None:
    before = prior_belief(guessed(error=0.3))
    after = update_belief(before, [ran(0.4e8)]).belief
    cells = {
        CellKey(cell.matrix, cell.column): cell for cell in cells_to_record(before, after, {})
    }
    value, deviation = at(after, SPEED_A)
    assert cells[SPEED_A].value == pytest.approx(value)
    assert cells[SPEED_A].standard_error == pytest.approx(value * deviation)


def test_profiles_are_updated_less_and_less_often() -> None:
    before, drawn = prior_belief(guessed(error=0.3)), list[int]()
    written: dict[CellKey, Cell] = {}
    rng = np.random.default_rng(3)
    observations = [
        ran(0.4e8 * math.exp(rng.normal(0.0, ONE_SERVER)), run=str(i)) for i in range(60)
    ]
    for k in range(1, 61):
        cells = cells_to_record(before, update_belief(before, observations[:k]).belief, written)
        written |= {CellKey(cell.matrix, cell.column): cell for cell in cells}
        drawn += [k] if cells else []
    assert drawn[0] == 1
    assert len(drawn) <= 3


# ---- drift ----


def test_sums_accumulate_deviations_beyond_the_slack() -> None:
    sums = cusum(np.array([2.0, -0.5, 2.5]), np.array([0.2, -0.1, 0.3]))
    assert sums == Cusum(3, faster=1.5, slower=0.0, mean_error=sums.mean_error)
    assert sums.mean_error == pytest.approx(0.4 / 3.0)


@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_a_shift_is_flagged_within_few_observations(side: float) -> None:
    rng = np.random.default_rng(11)
    z = side * 4.0 + rng.normal(0.0, 1.0, (200, 6))
    assert all(cusum(row, row).is_flagged for row in z)


def test_no_single_observation_flags_anything() -> None:
    two = np.array([-50.0, -50.0])
    assert 2 * (CLIPPED - SLACK) < LIMIT
    assert not cusum(two, two).is_flagged


def test_false_alarms_are_as_rare_as_theory_says() -> None:
    # with k = 1 and h = 2.5 the theory gives one in about 380 observations; 400 rows of 60 are
    # 24,000 observations, but a row counts one alarm at most: P(alarm) = 1 - exp(-60/380) = 0.146,
    # 58 rows, deviation 7; clipping makes alarms rarer, never more frequent
    length = mean_run_length(limit=2.5)
    rng = np.random.default_rng(5)
    z = np.clip(rng.normal(0.0, 1.0, (400, 60)), -CLIPPED, CLIPPED)
    alarms = sum(_reaches(row, 2.5) for row in z)
    expected = 400 * (1.0 - math.exp(-60.0 / length))
    assert alarms <= expected + 3.0 * math.sqrt(expected)
    assert alarms >= expected / 2.0


def _reaches(z: Any, limit: float) -> bool:
    """Whether the sums of a row ever reach a limit: `cusum` stops at none, so read its path."""
    sums = [cusum(z[:k], z[:k]) for k in range(1, z.size + 1)]
    return max(max(s.faster, s.slower) for s in sums) >= limit


def test_hundreds_of_consistent_observations_are_not_flagged() -> None:
    # at one false alarm in 400,000 observations 100 rows of 300 have 0.07 of them
    z = np.random.default_rng(2).normal(0.0, 1.0, (100, 300))
    assert not any(cusum(row, row).is_flagged for row in z)
    assert mean_run_length() > 4e5
