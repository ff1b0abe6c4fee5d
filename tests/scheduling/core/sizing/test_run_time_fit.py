"""Run times fitted to jobs that have ended and jobs that still run."""

import numpy as np
import pytest

from apps.scheduling.core.sizing.run_time_fit import (
    ENOUGH,
    MIDDLES,
    NORMAL,
    RunTimeFit,
    fit_recent,
    fit_run_times,
)

SPREAD = 0.3


def filling_cluster(
    seed: int, *, jobs: int = 2000, age_s: float = 900.0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Predictions, run times and ages of jobs that started while a cluster filled."""
    rng = np.random.default_rng(seed)
    seconds = rng.lognormal(np.log(600.0), 1.0, jobs)
    predicted = seconds * rng.lognormal(0.0, SPREAD, jobs)
    return predicted, seconds, rng.uniform(0.0, age_s, jobs)


def found(*arguments: object) -> RunTimeFit:
    fit = fit_run_times(*arguments)  # type: ignore[arg-type]  # of one call
    assert fit is not None
    return fit


def test_jobs_that_still_run_count_with_the_time_that_they_have_run() -> None:
    predicted, seconds, age_s = filling_cluster(1)
    ended = seconds < age_s
    running = np.column_stack([predicted[~ended], age_s[~ended]]).tolist()
    blind = found(predicted[ended], seconds[ended])
    fit = found(predicted[ended], seconds[ended], running)
    # by the theory of regression to the mean, 1 / (1 + 0.09); the spread of the rest is 0.287
    slope = 1.0 / (1.0 + SPREAD**2)
    offset = (1.0 - slope) * np.log(600.0)
    assert fit.slope == pytest.approx(slope, abs=0.03)
    at_an_hour = fit.offset + fit.slope * np.log(3600.0)
    assert at_an_hour == pytest.approx(offset + slope * np.log(3600.0), abs=0.08)
    assert blind.offset + blind.slope * np.log(3600.0) < at_an_hour - 0.25
    assert fit.errors == pytest.approx(np.sqrt(slope) * SPREAD * NORMAL, abs=0.15)


def test_without_running_jobs_it_is_least_squares() -> None:
    predicted, seconds, _ = filling_cluster(2, jobs=400)
    fit = found(predicted, seconds)
    slope, offset = np.polyfit(np.log(predicted), np.log(seconds), 1)
    assert (fit.slope, fit.offset) == pytest.approx((slope, offset))
    errors = np.log(seconds) - offset - slope * np.log(predicted)
    assert fit.errors == pytest.approx(np.quantile(errors, MIDDLES))


def test_a_running_job_that_has_just_started_changes_nothing() -> None:
    predicted, seconds, _ = filling_cluster(3, jobs=400)
    alone = found(predicted, seconds)
    fit = found(predicted, seconds, [(600.0, 1e-9)])
    assert (fit.slope, fit.offset) == pytest.approx((alone.slope, alone.offset), abs=1e-3)


def test_a_run_far_beyond_its_prediction_stays_finite() -> None:
    predicted, seconds, _ = filling_cluster(4, jobs=100)
    fit = found(predicted, seconds, [(1.0, 1e9)])
    assert np.isfinite(fit.errors).all()
    assert (np.diff(fit.errors) >= 0.0).all()


def test_quantiles_beyond_the_last_ended_job_lie_beyond_the_running_ones() -> None:
    rng = np.random.default_rng(8)
    seconds = 10.0 * rng.lognormal(0.0, SPREAD, 100)
    fit = found(np.full(100, 10.0), seconds, [(10.0, 30.0)] * 50)
    run_s = np.exp(fit.offset + fit.slope * np.log(10.0) + fit.errors)
    # a third of all jobs have run for 30 s: the normal tail reaches far beyond these
    assert run_s[-1] > 80.0
    assert 0.2 < (run_s > 30.0).mean() < 0.4
    assert run_s[0] == pytest.approx(seconds.min(), rel=0.1)


def test_exact_predictions_stay_exact() -> None:
    seconds = np.linspace(10.0, 100.0, ENOUGH)
    fit = found(seconds, seconds, [(50.0, 20.0)])
    assert (fit.slope, fit.offset) == pytest.approx((1.0, 0.0), abs=1e-9)
    assert np.abs(fit.errors).max() < 1e-9


def test_too_few_ended_jobs_give_no_fit() -> None:
    few = np.full(ENOUGH - 1, 10.0)
    assert fit_run_times(few, few, [(10.0, 5.0)] * 100) is None


def test_only_jobs_that_started_within_the_span_are_fitted() -> None:
    recent = [(10.0, 20.0, 90.0)] * ENOUGH
    old = [(10.0, 80.0, 110.0)] * ENOUGH
    fit = fit_recent([*recent, *old], [(10.0, 101.0)], 100.0)
    assert fit is not None
    assert fit.offset + fit.slope * np.log(10.0) == pytest.approx(np.log(20.0))


def test_all_ended_jobs_are_fitted_if_too_few_started_within_the_span() -> None:
    old = [(10.0, 80.0, 110.0)] * ENOUGH
    fit = fit_recent([(10.0, 80.0, 90.0), *old], [(10.0, 50.0)], 100.0)
    assert fit is not None
    assert fit.offset + fit.slope * np.log(10.0) == pytest.approx(np.log(80.0))


def test_the_uncertainty_of_ended_jobs_is_that_of_least_squares() -> None:
    predicted, seconds, _ = filling_cluster(5, jobs=400)
    fit = found(predicted, seconds)
    x, y = np.log(predicted), np.log(seconds)
    spread = np.std(y - fit.offset - fit.slope * x)
    assert fit.centre == pytest.approx(x.mean())
    assert fit.uncertainty == pytest.approx(spread / np.sqrt([400.0, ((x - x.mean()) ** 2).sum()]))


def test_a_job_that_has_just_started_tells_nothing_and_one_that_runs_tells_less() -> None:
    predicted, seconds, _ = filling_cluster(6, jobs=400)
    alone = found(predicted, seconds).uncertainty
    fresh = found(predicted, seconds, [(600.0, 1e-9)] * 400).uncertainty
    halfway = found(predicted, seconds, [(600.0, 600.0)] * 400).uncertainty
    assert fresh == pytest.approx(alone, rel=1e-3)
    assert alone[0] / np.sqrt(2.0) < halfway[0] < 0.95 * alone[0]


def test_the_drawn_lines_contain_the_true_run_times() -> None:
    """Of lines that are fitted to filling clusters, 90 % hold the true one at two predictions."""
    slope = 1.0 / (1.0 + SPREAD**2)
    offset = (1.0 - slope) * np.log(600.0)
    at_s = np.array([200.0, 2400.0])
    true_s = np.exp(offset + slope * np.log(at_s))
    inside = []
    for seed in range(200):
        predicted, seconds, age_s = filling_cluster(1000 + seed, jobs=200)
        ended = seconds < age_s
        running = np.column_stack([predicted[~ended], age_s[~ended]]).tolist()
        fit = found(predicted[ended], seconds[ended], running)
        lines = fit.drawn(np.random.default_rng(seed), 400)
        fitted_s = np.exp(fit.offset + fit.slope * np.log(at_s))
        low, high = np.quantile(fitted_s * lines.factors(at_s), [0.05, 0.95], axis=0)
        inside.append((low <= true_s) & (true_s <= high))
    assert (np.mean(inside, axis=0) > 0.82).all()  # 3.8 standard errors below 90 %
    assert (np.mean(inside, axis=0) < 0.97).all()


def test_predictions_that_are_equal_leave_the_slope_certain() -> None:
    rng = np.random.default_rng(7)
    fit = found(np.full(100, 10.0), 10.0 * rng.lognormal(0.0, SPREAD, 100))
    assert fit.uncertainty[1] == 0.0
    assert fit.uncertainty[0] == pytest.approx(SPREAD / 10.0, rel=0.25)


def test_exact_predictions_are_certain() -> None:
    seconds = np.linspace(10.0, 100.0, ENOUGH)
    assert found(seconds, seconds).drawn(np.random.default_rng(1), 3).factors(
        np.array([5.0, 50.0])
    ) == pytest.approx(1.0, abs=1e-6)
