"""Freed units and the time until some are freed."""

import numpy as np
import pytest

from apps.inventory.core.snapshot import Bools
from apps.scheduling.core.admission.history import (
    LIMIT,
    MOMENTS,
    FreedUnits,
    time_until_free,
    times_in,
)


def cells(*chosen: int) -> Bools:
    mask = np.zeros(4, dtype=np.bool_)
    mask[list(chosen)] = True
    return mask


def test_units_freed_before_the_window_are_forgotten() -> None:
    freed = FreedUnits(100.0)
    freed.note(np.array([1, 2]), 10.0)
    freed.note(np.array([1]), 60.0)
    assert times_in(freed.table(110.0), cells(1)).tolist() == [10.0, 60.0]
    assert times_in(freed.table(110.5), cells(1)).tolist() == [60.0]
    assert times_in(freed.table(110.5), cells(2)).tolist() == []
    assert freed.table(161.0)[0].size == 0


def test_the_number_of_freed_units_kept_is_limited() -> None:
    freed = FreedUnits(1e9)
    freed.note(np.arange(LIMIT + 5) % 4, 1.0)
    assert freed.table(1.0)[0].size == LIMIT


def test_the_history_is_as_long_as_the_units_that_are_kept() -> None:
    freed = FreedUnits(100.0)
    freed.note(np.zeros(LIMIT - 1, dtype=np.int64), 50.0)
    assert freed.span_s(60.0) is None, "it is too short"
    assert freed.span_s(151.0) == 100.0, "no unit was dropped"
    freed.note(np.zeros(1, dtype=np.int64), 60.0)
    assert freed.span_s(60.0) == 10.0
    freed.note(np.zeros(LIMIT, dtype=np.int64), 60.0)
    assert freed.span_s(60.0) == 1.0


def test_evenly_freed_units_leave_a_uniform_wait() -> None:
    """One unit every 10 s: the wait for one is uniform in 0 to 10, for three in 20 to 30."""
    freed_s = np.linspace(0.0, 290.0, 30)
    one, three = time_until_free(freed_s, 1), time_until_free(freed_s, 3)
    assert one.mean() == pytest.approx(5.0, abs=0.1)
    assert one.std() == pytest.approx(10.0 / np.sqrt(12.0), abs=0.05)
    assert three.mean() == pytest.approx(25.0, abs=0.1)
    assert (three.min() >= 20.0, three.max() <= 30.0) == (True, True)


def test_a_long_gap_counts_by_its_length() -> None:
    """20 units at intervals of 1 s, then one 81 s later: 81 of 100 moments wait in the gap."""
    waits = time_until_free(np.r_[np.arange(20.0), 100.0], 1)
    assert (waits > 1.0).mean() == pytest.approx(0.80, abs=0.01)
    assert waits.mean() == pytest.approx((19 * 0.5 + 81 * 40.5) / 100, rel=0.01)


def test_random_releases_give_the_mean_and_deviation_of_an_exponential() -> None:
    """Poisson releases: 5,000 gaps give the mean within 4 standard errors, 4/sqrt(256) = 25 %."""
    rng = np.random.default_rng(5)
    waits = time_until_free(np.cumsum(rng.exponential(3.0, 5000)), 1)
    assert waits.mean() == pytest.approx(3.0, rel=0.25)
    assert waits.std() == pytest.approx(3.0, rel=0.35)


def test_moments_that_are_rounded_up_to_the_last_freed_unit_wait_for_nothing() -> None:
    freed_s = np.r_[np.full(15, 1e5), np.full(15, np.nextafter(1e5, np.inf))]
    waits = time_until_free(freed_s, 1)
    assert waits.size == MOMENTS
    assert (waits.min(), waits.max()) == (0.0, freed_s[-1] - freed_s[0])


@pytest.mark.parametrize("units", [1, 19, 20, 64])
def test_too_few_freed_units_tell_nothing(units: int) -> None:
    assert time_until_free(np.arange(19.0), units).size == 0
    assert time_until_free(np.full(30, 5.0), units).size == 0
