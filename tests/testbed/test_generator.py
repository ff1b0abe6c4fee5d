"""The generated Facebook-like day."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.testbed.core.arrivals import hourly_arrivals
from apps.testbed.core.fitting import (
    burst_shape,
    compare_traces,
    fit_mixture,
    hourly_counts,
    ks_distance,
)
from apps.testbed.core.generator import (
    FB2009_BURST_SHAPE,
    FB2009_HOURLY,
    FB2009_JOBS,
    FB2009_LARGEST,
    FB2009_MIXTURE,
    FB2009_SEED,
    draw_sizes,
    generate_day,
    proportional,
)
from apps.testbed.core.traces import SwimTrace
from apps.testbed.files import read_submissions

FB2009 = Path(__file__).parents[3] / "shared" / "data" / "swim_facebook" / "fb2009_day0.tsv.gz"


def day(seed: int = FB2009_SEED, jobs: int = FB2009_JOBS) -> SwimTrace:
    return generate_day(jobs, np.random.default_rng(seed))


def test_a_day_has_the_published_counts_of_every_hour() -> None:
    assert hourly_counts(day().submit_s).tolist() == list(FB2009_HOURLY)


def test_the_same_seed_gives_the_same_day_and_another_seed_another() -> None:
    assert np.array_equal(day(3).input_bytes, day(3).input_bytes)
    assert not np.array_equal(day(3).input_bytes, day(4).input_bytes)


def test_sizes_are_whole_bytes_within_the_published_range() -> None:
    sizes = draw_sizes(FB2009_MIXTURE, 20_000, np.random.default_rng(1))
    assert (sizes >= 0).all()
    assert (sizes <= np.array(FB2009_LARGEST)).all()
    assert np.array_equal(sizes, np.floor(sizes))


def test_the_mixture_weights_add_up_to_one() -> None:
    assert sum(component.weight for component in FB2009_MIXTURE) == pytest.approx(1.0, abs=1e-4)


@given(st.integers(1, 400), st.integers(0, 2**32))
def test_any_number_of_jobs_comes_within_the_day_in_order(jobs: int, seed: int) -> None:
    trace = day(seed, jobs)
    assert len(trace) == jobs
    assert (np.diff(trace.submit_s) >= 0).all()
    assert 0 <= trace.submit_s[0] <= trace.submit_s[-1] <= 86_400


def test_refuses_a_day_without_jobs() -> None:
    with pytest.raises(ValueError, match="jobs must be >= 1"):
        day(1, 0)


@given(st.lists(st.floats(0.01, 1e6), min_size=1, max_size=30), st.integers(0, 10_000))
def test_proportional_shares_add_up_and_are_within_one(weights: list[float], total: int) -> None:
    shares = proportional(np.array(weights), total)
    exact = np.array(weights) * total / sum(weights)
    assert shares.sum() == total
    assert (np.abs(shares - exact) < 1 + 1e-6).all()


def test_bursty_minutes_have_the_variance_asked_for() -> None:
    # 200 hours of 300: the estimate of the shape has a standard error of about 6 %.
    counts = np.full(200, 300.0)
    arrivals = hourly_arrivals(counts, burst_shape=3.0, rng=np.random.default_rng(6))
    assert burst_shape(arrivals, hours=200) == pytest.approx(3.0, rel=0.25)


def test_equal_minutes_are_poisson() -> None:
    arrivals = hourly_arrivals(
        np.full(50, 300.0), burst_shape=float("inf"), rng=np.random.default_rng(6)
    )
    assert burst_shape(arrivals, hours=50) > 50


def test_no_arrivals_for_empty_hours() -> None:
    rng = np.random.default_rng(1)
    assert hourly_arrivals(np.zeros(3), burst_shape=2.0, rng=rng).size == 0


def test_fitting_its_own_draw_gives_the_mixture_back() -> None:
    components = fit_mixture(day(11), 10, np.random.default_rng(1))
    sizes = draw_sizes(components, FB2009_JOBS, np.random.default_rng(2))
    # Two samples of 5,894 of one distribution differ by 0.025 at the 5 % level; log-normal
    # pieces of a mixture of log-normals fit less than perfectly.
    assert ks_distance(sizes.sum(axis=1), _all_bytes(day(11))) < 0.08


def _all_bytes(trace: SwimTrace) -> np.ndarray:
    return trace.input_bytes + trace.shuffle_bytes + trace.output_bytes


@pytest.mark.parametrize(
    ("first", "second", "distance"),
    [([1, 2, 3], [1, 2, 3], 0.0), ([1, 2], [3, 4], 1.0), ([1, 2, 3, 4], [3, 4, 5, 6], 0.5)],
)
def test_ks_distance_of_small_samples(
    first: list[float], second: list[float], distance: float
) -> None:
    assert ks_distance(np.array(first), np.array(second)) == pytest.approx(distance)


@pytest.mark.skipif(not FB2009.exists(), reason="the FB-2009 file is not here")
def test_the_day_matches_the_published_file() -> None:
    real = read_submissions(FB2009)
    assert isinstance(real, SwimTrace)
    _, distances = compare_traces(real, day())
    assert max(distances.values()) < 0.1
    assert burst_shape(real.submit_s) == pytest.approx(FB2009_BURST_SHAPE, abs=0.01)
