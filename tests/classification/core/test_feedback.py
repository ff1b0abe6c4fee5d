import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from apps.classification.core.drift import (
    CLIPPED,
    LIMIT,
    SLACK,
    Sums,
    mean_run_length,
    summed,
)
from apps.classification.core.feedback import (
    BYTES,
    COMMON_DEVIATION,
    METRIC,
    NEIGHBOURS,
    RUN_DEVIATION,
    SERVER_DEVIATION,
    Belief,
    Observation,
    Part,
    Place,
    believed,
    follow,
    predict,
    taught,
)
from apps.classification.core.matrix import Cell, MatrixName
from apps.classification.core.profile import Profile
from tests.classification.core.profiles import POINTS, profile, wide

SPEED_A = Place(MatrixName.HETEROGENEITY, "A")
RATE = Place(MatrixName.BASE_RATE, BYTES)
OWN_RATE = Place(MatrixName.BASE_RATE, METRIC)
ONE_SERVER = math.hypot(SERVER_DEVIATION, COMMON_DEVIATION)


def guessed(error: float = 0.2, **values: Any) -> Profile:
    """Platform A was inferred, at half the speed of J; all else was measured."""
    known = profile(speeds=(1.0, 0.5), **values)
    ends = np.array([1.0, wide(error)])
    return replace(known, platform_low=known.platform_speed / ends,
                   platform_high=known.platform_speed * ends)  # fmt: skip


def ran(rate: float, *parts: Part, run: str = "a", deviation: float = 0.01) -> Observation:
    """A job seen; without parts, one unit on platform A."""
    return Observation(run, parts or (Part("A", 1),), BYTES, rate, deviation)


def at(belief: Belief, place: Place) -> tuple[float, float]:
    """Value and relative deviation of a cell."""
    i = belief.places.index(place)
    return math.exp(belief.mean[i]), float(belief.deviation[i])


def log_rate(belief: Belief, *parts: Part) -> float:
    expected = predict(belief, ran(1.0, *parts))
    assert expected is not None
    return expected.log_rate


def curved() -> Profile:
    """Speed-up m^0.9 on one server, efficiency m^-0.1 over servers."""
    up, out = POINTS**0.9, POINTS**-0.1
    known = profile(speeds=(1.0, 0.5))
    return replace(known, scale_up=up, scale_up_low=up, scale_up_high=up,
                   scale_out=out, scale_out_low=out, scale_out_high=out)  # fmt: skip


# ---- what is expected ----


@pytest.mark.parametrize(("units", "servers"), [(1, 1), (6, 1), (48, 1), (3, 3), (12, 4)])
def test_even_allocations_are_expected_as_profiles_predict_them(units: int, servers: int) -> None:
    known = curved()
    parts = [Part("A", units // servers)] * servers
    predicted = known.rate(units, servers=servers, platform="A", in_bytes=True).value
    expected = log_rate(believed(known), *parts)
    assert expected == pytest.approx(math.log(NEIGHBOURS * predicted))


def test_uneven_allocations_add_up_over_their_servers() -> None:
    expected = log_rate(believed(curved()), Part("J", 4), Part("A", 1), Part("A", 1))
    alone = 4**0.9 + 0.5 + 0.5
    assert expected == pytest.approx(math.log(NEIGHBOURS * 1e8 * alone * 3**-0.1))


def test_the_gradient_is_the_derivative_of_the_expectation() -> None:
    belief = believed(curved())
    parts = (Part("J", 3), Part("A", 5), Part("A", 5))
    expected = predict(belief, ran(1.0, *parts))
    assert expected is not None
    steps = np.eye(belief.mean.size) * 1e-6
    by_steps = [
        (log_rate(replace(belief, mean=belief.mean + step), *parts) - expected.log_rate) / 1e-6
        for step in steps
    ]
    assert expected.gradient == pytest.approx(np.array(by_steps), abs=1e-5)


def test_waves_leave_units_idle() -> None:
    belief = believed(guessed())
    seen = ran(1.0)
    full, half = predict(belief, seen), predict(belief, replace(seen, busy=0.5))
    assert full is not None
    assert half is not None
    assert full.log_rate - half.log_rate == pytest.approx(math.log(2.0))


def test_nothing_is_expected_of_an_unknown_platform() -> None:
    seen = ran(1e8, Part("new", 1))
    assert predict(believed(guessed()), seen) is None
    assert follow(believed(guessed()), [seen]).innovations.size == 0


def test_neighbours_of_many_servers_cancel_out_but_for_what_they_share() -> None:
    exact = believed(profile())
    still = replace(exact, covariance=np.zeros_like(exact.covariance))
    expected = predict(still, ran(1.0, *[Part("A", 1)] * 9, deviation=0.0))
    assert expected is not None
    assert expected.deviation == pytest.approx(
        math.hypot(SERVER_DEVIATION / 3.0, COMMON_DEVIATION)
    )


# ---- what it teaches ----


def test_one_observation_is_the_normal_posterior() -> None:
    before = believed(guessed(error=0.2))
    after = follow(before, [ran(0.4e8)]).belief
    noise = 0.01**2 + ONE_SERVER**2
    total = 0.2**2 + RUN_DEVIATION**2 + noise
    error = math.log(0.4e8 / (NEIGHBOURS * 1e8 * 0.5))
    value, deviation = at(after, SPEED_A)
    assert math.log(value / 0.5) == pytest.approx(error * 0.2**2 / total)
    assert deviation == pytest.approx(0.2 * math.sqrt(1.0 - 0.2**2 / total))


def test_what_many_jobs_ran_at_is_learnt() -> None:
    seen = [ran(NEIGHBOURS * 1e8 * 0.35, run=str(i)) for i in range(40)]
    after = follow(believed(guessed(error=0.2)), seen).belief
    assert log_rate(after, Part("A", 1)) == pytest.approx(math.log(0.35e8 * NEIGHBOURS), abs=0.03)


def test_the_uncertain_cell_moves_and_the_measured_one_hardly() -> None:
    after = follow(believed(guessed(error=0.3)), [ran(0.3e8, run=str(i)) for i in range(9)]).belief
    moved = [abs(math.log(at(after, SPEED_A)[0] / 0.5)), abs(math.log(at(after, RATE)[0] / 1e8))]
    assert moved[0] > 10.0 * moved[1]


def test_cells_set_by_hand_are_never_moved() -> None:
    before = believed(guessed(), fixed={SPEED_A})
    after = follow(before, [ran(0.3e8, run=str(i)) for i in range(9)]).belief
    assert at(after, SPEED_A) == (0.5, 0.0)
    assert SPEED_A not in [Place(c.matrix, c.column) for c in taught(before, after, {})]


def test_ones_by_definition_stay_one() -> None:
    seen = [ran(3e7, Part("A", 3), run=str(i)) for i in range(9)]
    after = follow(believed(guessed()), seen).belief
    one = Place(MatrixName.SCALE_UP, "1")
    assert at(after, one) == (1.0, 0.0)


def test_tied_base_rates_move_together() -> None:
    seen = [ran(0.8e8, Part("J", 1), run=str(i)) for i in range(9)]
    after = follow(believed(guessed(error=0.2, base_rate=7.0)), seen).belief
    assert at(after, OWN_RATE)[0] / 7.0 == pytest.approx(at(after, RATE)[0] / 1e8)
    assert at(after, RATE)[0] < 0.95e8


def test_a_base_rate_set_by_hand_lets_the_other_move_alone() -> None:
    before = believed(guessed(base_rate=7.0), fixed={OWN_RATE})
    after = follow(before, [ran(0.8e8, Part("J", 1), run=str(i)) for i in range(9)]).belief
    assert at(after, OWN_RATE)[0] == pytest.approx(7.0)
    assert at(after, RATE)[0] < 0.95e8


def test_many_observations_of_one_run_weigh_as_one() -> None:
    before = believed(guessed())
    once = follow(before, [ran(0.4e8, deviation=0.0)]).belief
    often = follow(before, [ran(0.4e8, deviation=0.0)] * 8).belief
    apart = follow(before, [ran(0.4e8, run=str(i), deviation=0.0) for i in range(8)]).belief
    assert at(often, SPEED_A)[1] == pytest.approx(at(once, SPEED_A)[1], rel=0.03)
    assert at(apart, SPEED_A)[1] < 0.8 * at(once, SPEED_A)[1]


def test_one_job_far_off_counts_less_than_its_distance() -> None:
    before = believed(guessed(error=0.1))
    near, far = (at(follow(before, [ran(r)]).belief, SPEED_A)[0] for r in (0.3e8, 0.03e8))
    assert abs(math.log(far / 0.5)) < abs(math.log(near / 0.5)) * 1.5


def test_the_belief_before_is_not_changed() -> None:
    before = believed(guessed())
    mean, covariance = before.mean.copy(), before.covariance.copy()
    follow(before, [ran(0.3e8)])
    assert np.array_equal(before.mean, mean)
    assert np.array_equal(before.covariance, covariance)


def test_innovations_are_standard_normal_where_the_belief_is_right() -> None:
    rng = np.random.default_rng(7)
    found = []
    for _ in range(60):
        truth = 0.5e8 * NEIGHBOURS * math.exp(rng.normal(0.0, math.hypot(0.2, RUN_DEVIATION)))
        seen = [ran(truth * math.exp(rng.normal(0.0, ONE_SERVER)), run=str(i)) for i in range(30)]
        found.append(follow(believed(guessed(error=0.2)), seen).innovations)
    z = np.concatenate(found)
    # 1,800 draws: the mean scatters by 0.024, the deviation by 0.017; a scatter that is never
    # taken for less than 1 makes it a little smaller
    assert abs(z.mean()) < 0.1
    assert 0.88 < z.std() < 1.05


# ---- what is told ----


def test_nothing_is_told_before_something_is_learnt() -> None:
    before = believed(guessed())
    assert taught(before, before, {}) == []


def test_what_is_told_is_the_posterior_in_the_unit_of_the_cell() -> None:
    before = believed(guessed(error=0.3))
    after = follow(before, [ran(0.4e8)]).belief
    told = {Place(cell.matrix, cell.column): cell for cell in taught(before, after, {})}
    value, deviation = at(after, SPEED_A)
    assert told[SPEED_A].value == pytest.approx(value)
    assert told[SPEED_A].standard_error == pytest.approx(value * deviation)


def test_profiles_are_drawn_anew_ever_more_rarely() -> None:
    before, drawn = believed(guessed(error=0.3)), list[int]()
    written: dict[Place, Cell] = {}
    rng = np.random.default_rng(3)
    seen = [ran(0.4e8 * math.exp(rng.normal(0.0, ONE_SERVER)), run=str(i)) for i in range(60)]
    for k in range(1, 61):
        told = taught(before, follow(before, seen[:k]).belief, written)
        written |= {Place(cell.matrix, cell.column): cell for cell in told}
        drawn += [k] if told else []
    assert drawn[0] == 1
    assert len(drawn) <= 3


# ---- drift ----


def test_sums_add_up_what_lies_beyond_the_slack() -> None:
    found = summed(np.array([2.0, -0.5, 2.5]), np.array([0.2, -0.1, 0.3]))
    assert found == Sums(3, faster=1.5, slower=0.0, mean_error=found.mean_error)
    assert found.mean_error == pytest.approx(0.4 / 3.0)


@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_a_shift_is_flagged_within_few_observations(side: float) -> None:
    rng = np.random.default_rng(11)
    z = side * 4.0 + rng.normal(0.0, 1.0, (200, 6))
    assert all(summed(row, row).is_flagged for row in z)


def test_no_single_observation_flags_anything() -> None:
    two = np.array([-50.0, -50.0])
    assert 2 * (CLIPPED - SLACK) < LIMIT
    assert not summed(two, two).is_flagged


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
    """Whether the sums of a row ever reach a limit: `summed` stops at none, so read its path."""
    sums = [summed(z[:k], z[:k]) for k in range(1, z.size + 1)]
    return max(max(s.faster, s.slower) for s in sums) >= limit


def test_hundreds_of_observations_that_fit_are_not_flagged() -> None:
    # at one false alarm in 400,000 observations 100 rows of 300 have 0.07 of them
    z = np.random.default_rng(2).normal(0.0, 1.0, (100, 300))
    assert not any(summed(row, row).is_flagged for row in z)
    assert mean_run_length() > 4e5
