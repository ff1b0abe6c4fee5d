"""Quantiles of waits, corrected by earlier errors."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from apps.inventory.core.snapshot import Floats
from apps.scheduling.core.starts.calibration import ENOUGH, NEAREST, Scored, calibrate

FINITE = st.floats(0.0, 1e6)


def simulated(medians: Floats) -> Floats:
    """Quantiles that are far too narrow: within 1 s of the median."""
    return np.maximum(medians[:, None] + np.array([-1.0, 0.0, 0.8, 1.0]), 0.0)


def waits(rng: np.random.Generator, medians: Floats) -> Floats:
    """Jobs that are predicted to start at once start 300 s late; the others are 10 % off."""
    late = np.where(medians < 100.0, rng.gamma(9.0, 300.0 / 9.0, medians.size), 0.0)
    found: Floats = np.maximum(
        0.0, medians * (1.0 + 0.1 * rng.standard_normal(medians.size)) + late
    )
    return found


def drawn(seed: int, count: int) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(seed)
    medians = np.where(
        rng.random(count) < 0.5, rng.uniform(0.0, 50.0, count), rng.uniform(4e3, 5e3, count)
    )
    return simulated(medians), waits(rng, medians)


def test_corrected_quantiles_hold_in_new_jobs_with_short_and_with_long_waits() -> None:
    before, waited = drawn(1, 1000)
    fresh, truth = drawn(2, 4000)
    found = calibrate(fresh, Scored(before, waited))
    for part in (fresh[:, 1] < 100.0, fresh[:, 1] > 100.0):
        held = (truth[part, None] <= found[part]).mean(axis=0)
        np.testing.assert_allclose(held, [0.05, 0.5, 0.9, 0.95], atol=0.05)
        assert (truth[part] <= fresh[part, 3]).mean() < 0.6  # as simulated


def test_with_few_earlier_estimates_nothing_is_corrected() -> None:
    before, waited = drawn(1, ENOUGH - 1)
    fresh, _ = drawn(2, 10)
    assert calibrate(fresh, Scored(before, waited)).tolist() == fresh.tolist()


def test_the_shift_of_each_quantile_is_that_quantile_of_the_errors() -> None:
    errors = np.arange(ENOUGH, dtype=np.float64) * 10.0  # 0, 10, ..., 290
    before = np.tile([100.0, 200.0, 300.0, 400.0], (ENOUGH, 1))
    scored = Scored(before, before[:, 1] + errors)
    found = calibrate(np.array([[1000.0, 2000.0, 3000.0, 4000.0]]), scored)
    # of 31 ranks: the 2nd, 16th, 28th and 30th error; waits differ by 100, 0, -100, -200 s more
    assert found.tolist() == [[1110.0, 2150.0, 3170.0, 4090.0]]


def test_the_earlier_estimates_of_shorter_and_of_longer_waits_correct_one() -> None:
    medians = np.arange(300.0)  # each waited twice as long
    scored = Scored(np.tile(medians[:, None], (1, 4)), 2.0 * medians)
    assert calibrate(np.full((1, 4), 100.0), scored)[0, 1] == 200.0


def test_later_than_simulated_stays_unknown() -> None:
    before, waited = drawn(1, 100)
    fresh = np.array([[5.0, math.inf, math.inf, math.inf]])
    found = calibrate(fresh, Scored(before, waited))
    assert math.isfinite(found[0, 0])
    assert np.isinf(found[0, 1:]).all()


@given(
    arrays.arrays(np.float64, (NEAREST + 5, 4), elements=FINITE),
    arrays.arrays(np.float64, (NEAREST + 5,), elements=FINITE),
    arrays.arrays(np.float64, (7, 4), elements=FINITE),
)
def test_quantiles_stay_ascending_and_not_negative(
    before: Floats, waited: Floats, fresh: Floats
) -> None:
    found = calibrate(np.sort(fresh, axis=1), Scored(np.sort(before, axis=1), waited))
    assert (found >= 0.0).all()
    assert (np.diff(found, axis=1) >= 0.0).all()
