"""Fitted busy times, and the chance that units are free in time."""

import numpy as np
import pytest
from scipy import stats

from apps.scheduling.core.admission.busy_time import BusyTime, Family, chance_free, fit


@pytest.mark.parametrize("family", list(Family))
def test_the_family_that_the_times_were_drawn_from_is_found(family: Family) -> None:
    rng = np.random.default_rng(3)
    drawn = {
        Family.EXPONENTIAL: rng.exponential(60.0, 2000),
        Family.NORMAL: rng.normal(2000.0, 300.0, 2000),
        Family.LOGNORMAL: rng.lognormal(4.0, 1.0, 2000),
    }
    found = fit(drawn[family].tolist())
    assert found is not None
    assert found.family is family
    points = np.quantile(drawn[family], [0.1, 0.5, 0.9])
    assert found.cdf(points) == pytest.approx([0.1, 0.5, 0.9], abs=0.03)


def test_too_few_times_give_no_distribution_and_equal_ones_a_step() -> None:
    assert fit([5.0] * 19) is None
    found = fit([5.0] * 20)
    assert found is not None
    assert found.cdf(np.array([4.9, 5.1])).tolist() == pytest.approx([0.0, 1.0])


def test_a_normal_busy_time_is_never_negative() -> None:
    """Mean and deviation of 1: P[X <= 1 | X > 0] = 0.5 - 0.1587 over 1 - 0.1587."""
    busy = BusyTime(Family.NORMAL, 1.0, 1.0)
    below = float(stats.norm.cdf(-1.0))
    assert busy.cdf(np.array([-1.0, 0.0, 1.0])) == pytest.approx(
        [0.0, 0.0, (0.5 - below) / (1.0 - below)]
    )


def test_one_of_several_exponential_units_is_free_at_their_common_rate() -> None:
    """Memoryless: 1 - exp(-n t / mean), whatever the ages."""
    busy = BusyTime(Family.EXPONENTIAL, 100.0, 100.0)
    ages = np.array([0.0, 50.0, 400.0])
    chance = chance_free(busy, ages, np.array([10.0, 20.0]), 1)
    assert chance == pytest.approx(1.0 - np.exp([-0.3, -0.6]))


def test_an_old_unit_is_freed_sooner_than_a_new_one_if_times_are_alike() -> None:
    busy = BusyTime(Family.NORMAL, 100.0, 10.0)
    within = np.array([15.0])
    old, new = (chance_free(busy, np.array([age]), within, 1)[0] for age in (90.0, 10.0))
    p = (stats.norm.cdf(0.5) - stats.norm.cdf(-1.0)) / (1.0 - stats.norm.cdf(-1.0))
    assert old == pytest.approx(p, rel=1e-6)
    assert new < 1e-6


def test_several_units_take_longer_than_one() -> None:
    """Λ = 5: Pr[at least 1] = 1 - e^-5, Pr[at least 3] = 1 - 18.5 e^-5."""
    busy = BusyTime(Family.EXPONENTIAL, 100.0, 100.0)
    ages, within = np.zeros(50), np.array([10.0])
    assert chance_free(busy, ages, within, 1)[0] == pytest.approx(1.0 - np.exp(-5.0))
    assert chance_free(busy, ages, within, 3)[0] == pytest.approx(1.0 - 18.5 * np.exp(-5.0))


def test_nothing_is_freed_where_nothing_is_busy() -> None:
    busy = BusyTime(Family.EXPONENTIAL, 1.0, 1.0)
    assert chance_free(busy, np.zeros(0), np.array([9.0]), 1).tolist() == [0.0]
    assert chance_free(busy, np.zeros(0), np.array([9.0]), 0).tolist() == [1.0]
