"""Effects of stressors from paired windows."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.profiling.core.paired import MIN_DEVIATION, Pair, cpu_share, drift, effect, noise_prior
from apps.profiling.core.ramp import NoisePrior
from apps.profiling.core.windows import Basis, Fault, Window

QUIET = NoisePrior(0.01, weight=4.0)
differences = st.lists(st.floats(-2.0, 2.0), min_size=1, max_size=12)


def off(speed: float) -> Window:
    """A window of one second in which the program ran all the time."""
    return Window(wall_s=1.0, work=speed, cpu_s=1.0, wait_s=0.0)


def test_the_difference_of_a_pair_is_the_log_of_the_ratio_of_speeds() -> None:
    on = Window(wall_s=1.0, work=4.0, cpu_s=0.5, wait_s=0.5, told=0.5, pressed=0.5, shared_s=0.5)
    pair = Pair(on=on, off=off(10.0))
    assert pair.fault(Basis.CPU) is None
    assert pair.difference(Basis.CPU) == pytest.approx(math.log(0.8))
    assert pair.difference(Basis.WALL) == pytest.approx(math.log(0.4))


def test_an_effect_pools_its_variance_with_the_prior() -> None:
    # mean -0.1, squares around it 2 * 0.01^2; variance (4 * 0.01^2 + 2 * 0.01^2) / 5, and t of
    # 5 degrees of freedom is 2.0150 at 95 %
    found = effect([-0.09, -0.11], QUIET)
    half = 2.0150484 * math.sqrt(6e-4 / 5 / 2)
    assert found.pairs == 2
    assert found.ratio == pytest.approx(math.exp(-0.1))
    assert found.low == pytest.approx(math.exp(-0.1 - half))
    assert found.high == pytest.approx(math.exp(-0.1 + half))


def test_one_pair_has_the_interval_of_the_prior() -> None:
    found = effect([0.0], QUIET)
    assert math.log(found.high) == pytest.approx(2.1318468 * 0.01)  # t of 4 degrees of freedom


def test_an_effect_without_pairs_is_an_error() -> None:
    with pytest.raises(ValueError, match="at least one pair"):
        effect([], QUIET)


@given(differences)
def test_an_interval_contains_its_ratio(values: list[float]) -> None:
    found = effect(values, QUIET)
    assert found.low <= found.ratio <= found.high


@given(differences)
def test_exchanging_on_and_off_inverts_the_effect(values: list[float]) -> None:
    found, inverse = effect(values, QUIET), effect([-value for value in values], QUIET)
    assert found.ratio == pytest.approx(1.0 / inverse.ratio)
    assert found.low == pytest.approx(1.0 / inverse.high)


@given(differences, st.floats(0.02, 1.0))
def test_more_noise_without_a_stressor_widens_the_interval(
    values: list[float], deviation: float
) -> None:
    quiet, noisy = effect(values, QUIET), effect(values, NoisePrior(deviation, weight=4.0))
    assert noisy.high >= quiet.high
    assert noisy.low <= quiet.low


@given(st.floats(0.1, 1000.0), st.floats(0.1, 1.0))
def test_the_unit_of_work_does_not_matter(unit: float, ratio: float) -> None:
    pair = Pair(on=off(ratio), off=off(1.0))
    scaled = Pair(on=off(ratio * unit), off=off(unit))
    assert scaled.difference(Basis.CPU) == pytest.approx(pair.difference(Basis.CPU), abs=1e-9)


def test_the_prior_is_the_root_mean_square_of_pairs_of_off_windows() -> None:
    speeds = [1.0, math.exp(0.03), math.exp(0.04), 1.0]  # differences -0.03 and 0.04
    prior = noise_prior([off(speed) for speed in speeds], Basis.CPU)
    assert prior is not None
    assert prior.deviation == pytest.approx(math.sqrt((0.0009 + 0.0016) / 2))
    assert prior.weight == 2.0


def test_a_prior_needs_two_valid_pairs() -> None:
    windows = [off(1.0)] * 4
    assert noise_prior(windows, Basis.CPU) == NoisePrior(MIN_DEVIATION, weight=2)
    assert noise_prior(windows[:3], Basis.CPU) is None
    disturbed = [*windows[:3], replace(windows[3], foreign_s=1.0)]
    assert Pair(disturbed[2], disturbed[3]).fault(Basis.CPU) is Fault.FOREIGN_USE
    assert noise_prior(disturbed, Basis.CPU) is None


def test_drift_compares_the_second_half_with_the_first() -> None:
    assert drift([off(s) for s in (10.0, 12.0, 11.0, 11.0)], Basis.CPU) == 0.0
    assert drift([off(s) for s in (10.0, 10.0, 9.0, 9.0)], Basis.CPU) == pytest.approx(-0.1)
    assert drift([off(s) for s in (10.0, 1.0, 1.0)], Basis.CPU) == 0.0


def test_the_cpu_share_is_that_of_the_time_in_which_the_program_had_the_core() -> None:
    windows = [replace(off(1.0), cpu_s=share) for share in (0.2, 0.3, 0.7)]
    assert cpu_share(windows) == 0.3
    delayed = [replace(off(1.0), cpu_s=0.2, wait_s=0.5, foreign_s=0.5)]
    assert cpu_share(delayed) == 0.4
    ended = Window(0.0, 0.0, 0.0, fault=Fault.ENDED)
    assert cpu_share([*windows, ended]) == 0.3
    assert cpu_share([ended]) is None
