import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from apps.scheduling.core.tarcil.guarantee import default_sample, miss_probability, sample_size
from apps.scheduling.core.types import MAX_SAMPLE, MAX_UNITS


@pytest.mark.parametrize(
    ("x", "p", "share", "expected"),
    [
        (0.8, 1e-3, 1.0, 31),  # the paper prints 32
        (0.8, 1e-3, 0.4, 83),  # 8 of the top 20 free: x moves to 0.92; the paper prints 82
        (0.9, 0.9**4, 1.0, 4),  # an exact power takes no sample more
        (0.9, 0.95, 1.0, 1),
        (0.5, 1.0 - 1e-12, 1.0, 1),  # below the rounding tolerance: never fewer than one
    ],
)
def test_sample_size_follows_the_formula(x: float, p: float, share: float, expected: int) -> None:
    assert sample_size(x, p, top_free_share=share, cap=1000) == expected


def test_by_default_the_whole_top_is_free() -> None:
    assert sample_size(0.8, 1e-3) == 31


def test_sample_size_is_capped_at_32() -> None:
    assert sample_size(0.8, 1e-3, top_free_share=0.4) == 32


def test_without_free_units_at_the_top_the_size_is_the_cap() -> None:
    assert sample_size(0.8, 1e-3, top_free_share=0.0) == 32


@pytest.mark.parametrize(
    ("x", "p", "share"),
    [
        (0.0, 0.1, 1.0),
        (1.0, 0.1, 1.0),
        (0.5, -0.1, 1.0),
        (0.5, 0.0, 1.0),
        (0.5, 1.0, 1.0),
        (0.5, 1.5, 1.0),
        (0.5, 0.1, -0.5),
        (0.5, 0.1, 1.5),
    ],
)
def test_invalid_arguments_are_named(x: float, p: float, share: float) -> None:
    with pytest.raises(ValueError, match="must lie"):
        sample_size(x, p, top_free_share=share)


@given(st.floats(0.01, 0.99), st.floats(1e-6, 0.99), st.floats(0.01, 1.0))
def test_the_size_is_the_minimum_that_meets_the_guarantee(
    x: float, p: float, share: float
) -> None:
    r = sample_size(x, p, top_free_share=share, cap=10**9)
    moved = 1.0 - (1.0 - x) * share
    assert moved**r <= p * (1 + 1e-6)
    assert r == 1 or moved ** (r - 1) > p


def test_one_unit_of_eight_misses_the_top_fifth_with_probability_x_to_the_r() -> None:
    assert miss_probability(0.8, 8) == pytest.approx(0.8**8)


@pytest.mark.parametrize(("r", "printed"), [(32, 1e-3), (64, 1e-6)])
def test_the_papers_sample_sizes_miss_the_top_fifth_as_rarely_as_printed(
    r: int, printed: float
) -> None:
    assert printed / 2 < miss_probability(0.8, r) <= printed


@given(st.floats(0.05, 0.95), st.integers(1, 40), st.integers(1, 8))
def test_many_units_miss_when_too_few_candidates_are_good(x: float, n: int, m: int) -> None:
    assert miss_probability(x, n, m) == pytest.approx(binom.cdf(min(m, n) - 1, n, 1 - x))


def test_batch_sampling_takes_r_candidates_per_unit() -> None:
    assert (default_sample(3), default_sample(3, 32)) == (24, 96)


@pytest.mark.parametrize("units", [1, 2, MAX_UNITS])
def test_only_a_choice_among_all_units_has_no_chance_to_miss(units: int) -> None:
    """The largest sample still has one, which tells a sample from a full comparison."""
    assert 0.0 < miss_probability(0.8, MAX_SAMPLE * MAX_UNITS, units) < 1e-50
