"""Ramps find the threshold and its standard error, or fail."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from apps.emulation.core.microbenchmarks import single_source_performance
from apps.inventory.core.snapshot import Floats
from apps.profiling.core.ramp import (
    FULL,
    HALF_WIDTH_90,
    MAX_SAMPLES,
    NoisePrior,
    Precision,
    ProbeFailedError,
    RampFailure,
    RampResult,
    Sampler,
    find_threshold,
)

Curve = Callable[[float, float], float]


def straight(x: float, threshold: float) -> float:
    """A line that falls by 5 % up to the threshold, and twice as steeply beyond it."""
    return 1.0 - 0.05 * x / threshold - 0.05 * max(x - threshold, 0.0) / threshold


def bent(x: float, threshold: float) -> float:
    """A logistic curve that passes 95 % at the threshold."""
    return 1.0 / (1.0 + math.exp((x - threshold) / 8.0) / 19.0)


def cliff(x: float, threshold: float) -> float:
    """A curve that loses 2 % up to the threshold, where it drops to 80 %."""
    return 1.0 - 0.02 * x / threshold if x < threshold else 0.8


def sampler(curve: Curve, threshold: float, *, noise: float, seed: int) -> Sampler:
    rng = np.random.default_rng(seed)
    return lambda x, n: curve(float(x), threshold) + rng.normal(0.0, noise, n)


def find(threshold: float, *, noise: float = 0.005, seed: int = 1, **options: Any) -> RampResult:
    score = find_threshold(
        sampler(single_source_performance, threshold, noise=noise, seed=seed), **options
    )
    assert isinstance(score, RampResult)
    return score


def errors_of(curve: Curve, noise: float) -> tuple[Floats, Floats]:
    """Errors of random thresholds, absolute and in standard errors."""
    thresholds = np.random.default_rng(5).uniform(5.0, 100.0, 600)
    runs = [
        (find_threshold(sampler(curve, t, noise=noise, seed=seed)), t)
        for seed, t in enumerate(thresholds)
    ]
    errors = [
        (result.value - t, result.standard_error)
        for result, t in runs
        if isinstance(result, RampResult)
    ]
    table = np.array(errors)
    assert len(table) > 0.97 * len(runs)
    return table[:, 0], table[:, 0] / table[:, 1]


@pytest.mark.parametrize("noise", [0.005, 0.007, 0.01])
def test_a_90_percent_interval_contains_the_threshold_in_about_90_percent_of_runs(
    noise: float,
) -> None:
    # 600 runs: 1.2 % standard error of the share; the posterior is slightly conservative
    _, sizes = errors_of(single_source_performance, noise)
    assert 0.87 < np.mean(np.abs(sizes) <= HALF_WIDTH_90) < 0.985


def test_a_threshold_is_found_within_a_point_and_without_bias() -> None:
    errors, _ = errors_of(single_source_performance, 0.005)
    assert np.sqrt(np.mean(errors**2)) < 1.0
    assert abs(np.mean(errors)) < 0.3


@pytest.mark.parametrize(
    ("curve", "points", "share"), [(straight, 2.6, 0.78), (bent, 1.0, 0.83), (cliff, 1.9, 0.5)]
)
def test_errors_are_approximately_right_for_other_shapes(
    curve: Curve, points: float, share: float
) -> None:
    errors, sizes = errors_of(curve, 0.005)
    assert np.sqrt(np.mean(errors**2)) < points
    # 600 runs: 2 % standard error of the share
    assert np.mean(np.abs(sizes) <= HALF_WIDTH_90) > share


def test_it_needs_half_the_21_steps_of_a_plain_ramp() -> None:
    counts = [find(t, seed=int(t)).samples for t in np.linspace(5.0, 95.0, 91)]
    assert np.mean(counts) < 11.0


def test_a_finer_resolution_takes_more_samples() -> None:
    coarse = [
        find(t, seed=int(t), precision=Precision(resolution=3.0)).samples for t in range(10, 90)
    ]
    fine = [
        find(t, seed=int(t), precision=Precision(resolution=0.3)).samples for t in range(10, 90)
    ]
    assert np.mean(fine) > np.mean(coarse)


def test_100_means_above_95_percent_at_full_intensity() -> None:
    intensities: list[int] = []

    def never(x: int, n: int) -> Floats:
        intensities.append(x)
        return np.full(n, 0.99)

    score = find_threshold(never)
    assert isinstance(score, RampResult)
    assert score.value == 100.0
    assert intensities[-1] == FULL
    assert 0.0 < score.standard_error < 3.0


def test_95_percent_at_full_intensity_is_below_100() -> None:
    scores = [find(100.0, seed=seed) for seed in range(40)]
    assert np.mean([score.value == 100.0 for score in scores]) < 0.25
    assert min(score.value for score in scores) > 95.0


def test_a_very_sensitive_application_scores_almost_zero() -> None:
    score = find(0.0)
    assert 0.0 < score.value < 2.0
    assert score.value < 2.0 * HALF_WIDTH_90 * score.standard_error


def test_the_same_samples_give_the_same_score() -> None:
    assert find(42.0, seed=9) == find(42.0, seed=9)


def test_noise_above_5_percent_leaves_the_probe_inconclusive() -> None:
    score = find_threshold(sampler(single_source_performance, 60.0, noise=0.3, seed=1))
    assert score == RampFailure(f"inconclusive after {MAX_SAMPLES} samples", MAX_SAMPLES)


def test_the_max_number_of_samples_is_respected() -> None:
    counts: list[int] = []

    def noisy(x: int, n: int) -> Floats:
        counts.append(n)
        return np.array([0.45, 1.45] * 4)[sum(counts) - n : sum(counts)]

    assert isinstance(find_threshold(noisy, precision=Precision(max_samples=7)), RampFailure)
    assert sum(counts) == 7


def test_a_probe_that_fails_is_missing_with_its_reason_and_cost() -> None:
    def fails_later(x: int, n: int) -> Floats:
        if x != 55:
            raise ProbeFailedError("the microbenchmark died")
        return np.full(n, 0.80)

    assert find_threshold(fails_later) == RampFailure("the microbenchmark died", 2)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_nan_sample_fails_the_probe(value: float) -> None:
    score = find_threshold(lambda x, n: np.full(n, value))
    assert score == RampFailure("a sample at intensity 55 is not a number", 0)


def test_a_prior_of_more_noise_takes_more_samples() -> None:
    # the samples themselves are the same
    quiet = find(60.0, precision=Precision(resolution=4.0), seed=3)
    noisy = find(
        60.0, precision=Precision(resolution=4.0), prior=NoisePrior(0.03, weight=8.0), seed=3
    )
    assert noisy.samples > quiet.samples
    assert noisy.standard_error > quiet.standard_error


def test_a_ramp_begins_at_the_given_intensity() -> None:
    intensities: list[int] = []

    def never(x: int, n: int) -> Floats:
        intensities.append(x)
        return np.full(n, 0.99)

    assert isinstance(find_threshold(never, precision=Precision(first=FULL)), RampResult)
    assert intensities == [FULL]
