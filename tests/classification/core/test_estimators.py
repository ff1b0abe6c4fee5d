"""The contract of all estimators, and properties of single estimators."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.classification.core.estimates import HALF_WIDTH_90, Estimates
from apps.classification.core.estimators import (
    DEFAULT,
    ESTIMATORS,
    EmptyLibraryError,
    Estimator,
)
from apps.classification.core.estimators.covariance import shrunk_covariance
from apps.classification.core.matrix import Scale
from apps.inventory.core.snapshot import Bools, Floats


def roofline(n: int, capacity: Floats, rng: np.random.Generator) -> Floats:
    """(n, m) performance relative to the row's best: time is the sum of demand over capacity."""
    demand = rng.dirichlet(np.full(capacity.shape[0], 0.7), size=n)
    speed = 1.0 / (demand @ (1.0 / capacity))
    return speed / speed.max(axis=1, keepdims=True)


def capacities(rng: np.random.Generator) -> Floats:
    """Four bottlenecks of ten platforms, as spread as Paragon's."""
    return rng.lognormal(0.0, 0.35, (1, 10)) * rng.lognormal(0.0, 0.18, (4, 10))


CAPACITY = capacities(np.random.default_rng(1))
LIBRARY = roofline(30, CAPACITY, np.random.default_rng(2))
NEW = roofline(200, CAPACITY, np.random.default_rng(3))


@pytest.fixture(params=sorted(ESTIMATORS))
def estimator(request: pytest.FixtureRequest) -> Estimator:
    return ESTIMATORS[request.param]


def masks(rows: int, known: list[int]) -> Bools:
    return np.tile(np.isin(np.arange(10), known), (rows, 1))


def fold(
    estimator: Estimator, rows: Floats, known: list[int], library: Floats = LIBRARY
) -> Estimates:
    return estimator.fit(library, scale=Scale.LOG).fold(rows, masks(len(rows), known))


def mean_error(estimator: Estimator, known: list[int]) -> float:
    unknown = np.setdiff1d(np.arange(10), known)
    value = fold(estimator, NEW, known).value
    return float(np.abs(value / NEW - 1.0)[:, unknown].mean())


# --- the contract


def test_known_cells_keep_their_measured_value(estimator: Estimator) -> None:
    mask = masks(1, [0, 4])
    error = np.where(mask, 0.05 * NEW[:1], np.nan)
    result = estimator.fit(LIBRARY, scale=Scale.LOG).fold(NEW[:1], mask, error=error)
    assert (result.value[mask] == NEW[:1][mask]).all()
    assert result.high[mask] / result.value[mask] == pytest.approx(np.exp(HALF_WIDTH_90 * 0.05))
    assert result.value[mask] / result.low[mask] == pytest.approx(np.exp(HALF_WIDTH_90 * 0.05))


def test_the_same_seed_gives_the_same_answer(estimator: Estimator) -> None:
    once, again = fold(estimator, NEW[:5], [0, 3]), fold(estimator, NEW[:5], [0, 3])
    assert np.array_equal(once.ends, again.ends)


def test_the_order_of_the_library_does_not_matter(estimator: Estimator) -> None:
    shuffled = LIBRARY[np.random.default_rng(9).permutation(30)]
    plain, other = fold(estimator, NEW[:5], [0, 3]), fold(estimator, NEW[:5], [0, 3], shuffled)
    assert np.array_equal(plain.ends, other.ends)


def test_the_order_of_the_columns_does_not_matter(estimator: Estimator) -> None:
    order = np.random.default_rng(9).permutation(10)
    plain = np.array(fold(estimator, NEW[:5], [0, 3]).ends)
    model = estimator.fit(LIBRARY[:, order], scale=Scale.LOG)
    other = np.array(model.fold(NEW[:5][:, order], masks(5, [0, 3])[:, order]).ends)
    # components are kept in seven digits
    assert other == pytest.approx(plain[:, :, order], rel=1e-6)


def test_a_row_has_the_same_estimate_alone_and_in_a_batch(estimator: Estimator) -> None:
    together = np.array(fold(estimator, NEW[:7], [2, 5]).ends)
    alone = np.array(fold(estimator, NEW[3:4], [2, 5]).ends)
    assert alone == pytest.approx(together[:, 3:4], rel=1e-9)


def test_another_unit_of_the_matrix_scales_the_answer(estimator: Estimator) -> None:
    plain = np.array(fold(estimator, NEW[:5], [0, 3]).ends)
    scaled = np.array(fold(estimator, 1000.0 * NEW[:5], [0, 3], 1000.0 * LIBRARY).ends)
    assert scaled == pytest.approx(1000.0 * plain, rel=1e-6)


@pytest.mark.parametrize("known", [[], [3], [0, 3], [0, 2, 4, 6, 8], list(range(10))])
def test_the_interval_holds_the_value(estimator: Estimator, known: list[int]) -> None:
    result = fold(estimator, NEW[:20], known)
    assert np.isfinite(result.ends).all()
    assert (result.low <= result.value).all()
    assert (result.value <= result.high).all()


def test_intervals_hold_about_nine_tenths(estimator: Estimator) -> None:
    mask = np.random.default_rng(5).random(NEW.shape).argsort(axis=1) < 2
    result = estimator.fit(LIBRARY, scale=Scale.LOG).fold(NEW, mask)
    inside = ((result.low <= NEW) & (result.high >= NEW))[~mask]
    # 200 rows of cells that err together: the deviation of the share is near sqrt(.09 / 200) =
    # 0.021; four of them, and as much again because 30 library rows set the width
    assert abs(inside.mean() - 0.9) < 0.13


def test_gaps_in_the_library_are_allowed(estimator: Estimator) -> None:
    holes = np.random.default_rng(8).random(LIBRARY.shape) < 0.3
    result = fold(estimator, NEW[:20], [0, 3], np.where(holes, np.nan, LIBRARY))
    assert np.abs(result.value / NEW[:20] - 1.0).mean() < 0.6
    assert np.isfinite(result.ends).all()


@pytest.mark.parametrize("rows", [1, 2, 3, 4])
def test_few_rows_give_finite_answers_with_wide_intervals(estimator: Estimator, rows: int) -> None:
    result = fold(estimator, NEW[:1], [0, 1], LIBRARY[:rows])
    assert np.isfinite(result.ends).all()
    assert (result.high[:, 2:] > result.value[:, 2:]).all()


def test_a_single_row_is_shifted_to_the_known_cell_with_wide_intervals(
    estimator: Estimator,
) -> None:
    result = fold(estimator, 3.0 * LIBRARY[:1], [1], LIBRARY[:1])
    assert result.value == pytest.approx(3.0 * LIBRARY[:1])
    assert result.high[0, 5] / result.value[0, 5] == pytest.approx(np.exp(0.5 * HALF_WIDTH_90))


def test_equal_columns_and_equal_rows_are_accepted(estimator: Estimator) -> None:
    library = np.tile(np.linspace(1.0, 2.0, 10), (12, 1))
    result = fold(estimator, library[:1], [0, 3], library)
    assert np.isfinite(result.ends).all()
    assert (result.low <= result.high).all()


def test_a_duplicate_row_does_not_predict_its_copy(estimator: Estimator) -> None:
    once, twice = LIBRARY[:4], np.repeat(LIBRARY[:4], 2, axis=0)
    plain, other = (
        fold(estimator, NEW[:20], [0, 3], once),
        fold(estimator, NEW[:20], [0, 3], twice),
    )
    hidden = ~masks(20, [0, 3])
    width = (np.log(fit.high / fit.low)[hidden].mean() for fit in (other, plain))
    assert next(width) > 0.5 * next(width)


def test_many_copies_of_a_row_count_as_one(estimator: Estimator) -> None:
    once = np.array(fold(estimator, NEW[:5], [0, 3], LIBRARY[:1]).ends)
    often = np.array(fold(estimator, NEW[:5], [0, 3], np.repeat(LIBRARY[:1], 6, axis=0)).ends)
    assert often == pytest.approx(once, rel=1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_two_rows_give_intervals_of_a_usable_width(seed: int) -> None:
    library = np.random.default_rng(seed).lognormal(0.0, 0.5, (2, 10))
    _, low, high = fold(ESTIMATORS[DEFAULT], library, [0, 3], library).ends
    assert (high / low).max() < 1e12


def test_scores_stay_between_0_and_100(estimator: Estimator) -> None:
    library = np.clip(np.random.default_rng(4).normal(80.0, 30.0, (20, 10)), 0, 100)
    model = estimator.fit(library, scale=Scale.SCORE)
    result = model.fold(np.full((1, 10), 100.0), masks(1, [0, 1]), error=np.full((1, 10), 5.0))
    assert (np.array(result.ends) >= 0).all()
    assert (np.array(result.ends) <= 100).all()


def test_one_row_may_be_given_flat(estimator: Estimator) -> None:
    model = estimator.fit(LIBRARY, scale=Scale.LOG)
    flat = model.fold(NEW[0], masks(1, [0, 3])[0])
    assert flat.value.shape == (10,)
    assert np.array_equal(flat.value, fold(estimator, NEW[:1], [0, 3]).value[0])


def test_inputs_are_not_modified(estimator: Estimator) -> None:
    rows, library = NEW[:5].copy(), LIBRARY.copy()
    fold(estimator, rows, [0, 3], library)
    assert np.array_equal(rows, NEW[:5])
    assert np.array_equal(library, LIBRARY)


# --- errors that name the field


def test_an_empty_library_is_an_error(estimator: Estimator) -> None:
    with pytest.raises(EmptyLibraryError, match="library"):
        estimator.fit(LIBRARY[:0], scale=Scale.LOG)


@pytest.mark.parametrize("bad", [0.0, -1.0, np.inf])
def test_an_impossible_rate_is_refused(estimator: Estimator, bad: float) -> None:
    library = LIBRARY.copy()
    library[3, 4] = bad
    with pytest.raises(ValueError, match=r"library must be positive and finite, got .* \(3, 4\)"):
        estimator.fit(library, scale=Scale.LOG)


def test_an_impossible_known_cell_is_refused(estimator: Estimator) -> None:
    with pytest.raises(ValueError, match=r"observed must be positive and finite, got 0.0"):
        fold(estimator, np.zeros((1, 10)), [2])


def test_an_unmeasured_column_is_refused(estimator: Estimator) -> None:
    library = LIBRARY.copy()
    library[:, 6] = np.nan
    with pytest.raises(ValueError, match="column 6"):
        estimator.fit(library, scale=Scale.LOG)


def test_a_row_of_another_length_is_refused(estimator: Estimator) -> None:
    with pytest.raises(ValueError, match="observed and known must have 10 columns"):
        estimator.fit(LIBRARY, scale=Scale.LOG).fold(NEW[:, :7], masks(200, [0])[:, :7])


def test_a_negative_error_is_refused(estimator: Estimator) -> None:
    model = estimator.fit(LIBRARY, scale=Scale.LOG)
    with pytest.raises(ValueError, match="error must be"):
        model.fold(NEW[:1], masks(1, [0]), error=np.full((1, 10), -1.0))


def test_groups_of_another_length_are_refused(estimator: Estimator) -> None:
    with pytest.raises(ValueError, match="groups must name 30 applications"):
        estimator.fit(LIBRARY, scale=Scale.LOG, groups=np.arange(7))


@pytest.mark.parametrize("size", [1e-300, 1e300])
def test_extreme_values_give_finite_answers(estimator: Estimator, size: float) -> None:
    assert np.isfinite(fold(estimator, size * NEW[:2], [0, 3], size * LIBRARY).ends).all()


# --- single estimators


def test_the_default_beats_the_plain_baseline_by_a_quarter() -> None:
    plain = mean_error(ESTIMATORS["column_mean"], [0, 3])
    assert mean_error(ESTIMATORS[DEFAULT], [0, 3]) < 0.75 * plain


def test_the_default_repeats_what_all_rows_agree_on() -> None:
    library = np.tile(np.linspace(1.0, 2.0, 10), (12, 1))
    result = fold(ESTIMATORS[DEFAULT], library[:1], [0, 3], library)
    assert result.value == pytest.approx(library[:1], rel=0.02)


def test_two_known_cells_give_the_papers_accuracy() -> None:
    # Paragon §2.2 reports 3.8 % on average; on three draws of this generator 30 rows give 4.0 to
    # 5.5 %
    assert mean_error(ESTIMATORS[DEFAULT], [0, 3]) < 0.06


def test_more_known_cells_err_less() -> None:
    means = [mean_error(ESTIMATORS[DEFAULT], known) for known in ([0], [0, 3], [0, 3, 7])]
    assert means == sorted(means, reverse=True)


def test_a_printed_quasar_row_is_flatter_than_one_with_a_column_bias() -> None:
    flat = fold(ESTIMATORS["pq_quasar"], NEW, [0, 3]).value[:, [1, 2, 4, 5, 6, 7, 8, 9]]
    biased = fold(ESTIMATORS["pq_biased"], NEW, [0, 3]).value[:, [1, 2, 4, 5, 6, 7, 8, 9]]
    assert np.log(flat).std(axis=1).mean() < 0.7 * np.log(biased).std(axis=1).mean()


def test_a_planted_linear_law_is_recovered() -> None:
    latent = np.random.default_rng(7).normal(0.0, 1.0, 2000)
    library = np.exp(np.outer(latent, [1.0, 2.0, -1.0]))
    row = np.exp(0.7 * np.array([1.0, 2.0, -1.0]))
    model = ESTIMATORS["gaussian"].fit(library, scale=Scale.LOG)
    value = model.fold(row, np.array([True, False, False])).value
    assert np.log(value) == pytest.approx([0.7, 1.4, -0.7], abs=0.05)


def test_applications_with_many_rows_widen_the_interval() -> None:
    # ten applications of ten near copies: left out one by one, copies would promise too much
    rng = np.random.default_rng(6)
    apps = roofline(10, CAPACITY, rng)
    library = np.repeat(apps, 10, axis=0) * rng.lognormal(0.0, 0.01, (100, 10))
    groups = np.repeat(np.arange(10), 10)
    mask = masks(200, [0, 3])
    grouped = ESTIMATORS[DEFAULT].fit(library, scale=Scale.LOG, groups=groups).fold(NEW, mask)
    alone = ESTIMATORS[DEFAULT].fit(library, scale=Scale.LOG).fold(NEW, mask)
    inside = (grouped.low <= NEW) & (grouped.high >= NEW)
    careless = (alone.low <= NEW) & (alone.high >= NEW)
    assert inside[~mask].mean() > 0.77
    assert inside[~mask].mean() > careless[~mask].mean() + 0.1


def test_the_covariance_shrinks_as_the_textbook_says() -> None:
    rows = np.random.default_rng(5).normal(size=(12, 4)) @ np.diag([1.0, 2.0, 3.0, 4.0])
    sklearn = pytest.importorskip("sklearn.covariance")
    expected, _ = sklearn.ledoit_wolf(rows)
    ours = shrunk_covariance(rows - rows.mean(axis=0), np.full(12, 1.0 / 12)).covariance
    assert ours == pytest.approx(expected, abs=1e-5)


MODEL = ESTIMATORS[DEFAULT].fit(LIBRARY, scale=Scale.LOG)


@settings(max_examples=40)
@given(st.sets(st.integers(0, 9)), st.integers(0, 199), st.floats(0.0, 0.2))
def test_any_mask_gives_ordered_finite_answers(known: set[int], row: int, error: float) -> None:
    mask = masks(1, sorted(known))
    result = MODEL.fold(NEW[row : row + 1], mask, error=error * NEW[row : row + 1])
    assert np.isfinite(result.ends).all()
    assert (result.low <= result.value).all()
    assert (result.value <= result.high).all()
