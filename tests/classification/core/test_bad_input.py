"""Invalid input is refused with field and position; unusual input is flagged."""

import numpy as np
import pytest

from apps.classification.core.estimators import (
    DEFAULT,
    ESTIMATORS,
    Degraded,
    EmptyLibraryError,
    complete,
)
from apps.classification.core.matrix import Scale
from apps.inventory.core.snapshot import Bools, Floats

BLEND = ESTIMATORS[DEFAULT]
RNG = np.random.default_rng(12)
LIBRARY = np.exp(RNG.normal(size=(30, 3)) @ RNG.normal(size=(3, 8)) * 0.3)
MODEL = BLEND.fit(LIBRARY, scale=Scale.LOG)


def mask(*known: int) -> Bools:
    return np.isin(np.arange(8), known)


def row(cells: dict[int, float]) -> tuple[Floats, Bools]:
    values = np.array([cells.get(j, np.nan) for j in range(8)])
    return values, ~np.isnan(values)


# --- errors


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 0.0, -3.0])
def test_an_impossible_rate_is_named_with_its_index(bad: float) -> None:
    rows = np.ones((3, 8))
    rows[1, 5] = bad
    known = np.tile(mask(2, 5), (3, 1))
    message = rf"observed must be positive and finite, got {bad} at \(1, 5\)"
    with pytest.raises(ValueError, match=message):
        MODEL.fold(rows, known)
    with pytest.raises(ValueError, match=message):
        MODEL.flags(rows, known)


@pytest.mark.parametrize("bad", [-0.5, 100.5, np.inf])
def test_a_score_outside_its_range_is_named_with_its_index(bad: float) -> None:
    library = np.full((6, 8), 50.0)
    library[4, 7] = bad
    with pytest.raises(ValueError, match=rf"between 0 and 100, got {bad} at \(4, 7\)"):
        BLEND.fit(library, scale=Scale.SCORE)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -1.0])
def test_an_invalid_standard_error_is_refused(bad: float) -> None:
    error = np.where(mask(2), bad, 0.0)
    with pytest.raises(ValueError, match="error must be finite and >= 0"):
        MODEL.fold(np.ones(8), mask(2), error=error)


@pytest.mark.parametrize("shape", [(0, 8), (5, 0), (0, 0)])
def test_a_library_without_a_cell_is_refused(shape: tuple[int, int]) -> None:
    with pytest.raises(EmptyLibraryError, match="no row"):
        BLEND.fit(np.ones(shape), scale=Scale.LOG)


def test_a_library_of_one_dimension_is_refused() -> None:
    with pytest.raises(ValueError, match="library must have two dimensions"):
        BLEND.fit(np.ones(5), scale=Scale.LOG)


# --- accepted


def test_zero_rows_give_zero_rows() -> None:
    assert MODEL.fold(np.ones((0, 8)), np.ones((0, 8), dtype=np.bool_)).value.shape == (0, 8)


def test_a_library_row_with_one_cell_is_accepted() -> None:
    library = LIBRARY.copy()
    library[3, 1:] = np.nan
    result = BLEND.fit(library, scale=Scale.LOG).fold(*row({0: 1.0, 4: 1.2}))
    assert np.isfinite(result.ends).all()


def test_a_library_of_equal_rows_gives_that_row() -> None:
    library = np.tile(LIBRARY[:1], (40, 1))
    result = BLEND.fit(library, scale=Scale.LOG).fold(*row({0: float(LIBRARY[0, 0])}))
    assert result.value == pytest.approx(LIBRARY[0], rel=0.01)


@pytest.mark.parametrize("size", [1e-308, 5e-324, 1e308])
def test_extreme_floats_give_finite_answers(size: float) -> None:
    result = MODEL.fold(*row({0: size, 4: 1.0}))
    assert np.isfinite(result.ends).all()
    assert (result.low <= result.value).all()
    assert (result.value <= result.high).all()
    assert result.value[0] == size


@pytest.mark.parametrize("name", [DEFAULT, "gaussian"])
def test_a_cell_with_a_huge_error_carries_no_information(name: str) -> None:
    model = ESTIMATORS[name].fit(LIBRARY, scale=Scale.LOG)
    values, known = row({0: 1e-308, 4: 1.0})
    result = model.fold(values, known, error=np.where(mask(0), 1e300, 0.0))
    assert np.isfinite(result.ends).all()
    estimate = model.fold(*row({4: 1.0})).value
    assert result.value[1:] == pytest.approx(estimate[1:], rel=0.5)


def test_a_library_over_the_whole_float_range_gives_finite_answers() -> None:
    library = LIBRARY * np.logspace(-300, 300, 30)[:, None]
    result = BLEND.fit(library, scale=Scale.LOG).fold(*row({0: 1e-290, 4: 2e-290}))
    assert np.isfinite(result.ends).all()


def test_a_hundred_thousand_rows_are_sampled_and_predict_well() -> None:
    rng = np.random.default_rng(3)
    many = np.exp(rng.normal(size=(100_000, 3)) @ RNG.normal(size=(3, 8)) * 0.3)
    model = BLEND.fit(many, scale=Scale.LOG)
    assert model.library.rows.z.shape == (5000, 8)
    known = np.tile(mask(0, 4), (200, 1))
    error = np.abs(model.fold(many[:200], known).value / many[:200] - 1.0)
    assert error.mean() < 0.15


def test_a_sparse_matrix_of_extreme_rows_is_completed() -> None:
    values = LIBRARY.copy()
    values[0] *= 1e300
    values[1] *= 1e-300
    values[:2, 3:] = np.nan
    assert np.isfinite(complete(values, BLEND, scale=Scale.LOG).ends).all()


# --- flagged


def test_a_plain_row_has_no_flag() -> None:
    assert MODEL.flags(LIBRARY[:2], np.tile(mask(0, 3), (2, 1))) == (frozenset(), frozenset())


def test_degraded_rows_are_flagged_with_their_reasons() -> None:
    top = float(LIBRARY[:, 0].max())
    rows = [row({}), row({2: 1.0}), row({0: 100.0 * top, 1: 1.0}), row({0: 1e-9})]
    flags = MODEL.flags(np.array([r for r, _ in rows]), np.array([k for _, k in rows]))
    assert flags == (
        frozenset({Degraded.NO_CELL}),
        frozenset({Degraded.ONE_CELL}),
        frozenset({Degraded.FAR, Degraded.UNFAMILIAR}),
        frozenset({Degraded.ONE_CELL, Degraded.FAR, Degraded.UNFAMILIAR}),
    )


def test_rows_that_repeat_each_other_count_once() -> None:
    library = np.repeat(LIBRARY[:4], 10, axis=0)
    known = np.tile(mask(0, 3), (1, 1))
    model = BLEND.fit(library, scale=Scale.LOG)
    assert model.flags(library[:1], known) == (frozenset({Degraded.FEW_ROWS}),)
    enough = BLEND.fit(LIBRARY[:5], scale=Scale.LOG)
    assert enough.flags(library[:1], known) == (frozenset(),)


def test_a_flat_row_is_flagged_as_one_of_many() -> None:
    values, known = row({})
    assert MODEL.flags(values, known) == (frozenset({Degraded.NO_CELL}),)


def test_a_new_value_of_a_column_that_never_varied_is_far_only_beyond_a_factor_of_two() -> None:
    library = LIBRARY.copy()
    library[:, 0] = 1.0
    model = BLEND.fit(library, scale=Scale.LOG)
    # any other value of this column is unfamiliar
    assert model.flags(*row({0: 1.9, 1: 1.0})) == (frozenset({Degraded.UNFAMILIAR}),)
    assert model.flags(*row({0: 0.6, 1: 1.0})) == (frozenset({Degraded.UNFAMILIAR}),)
    far = frozenset({Degraded.FAR, Degraded.UNFAMILIAR})
    assert model.flags(*row({0: 2.1, 1: 1.0})) == (far,)
    assert model.flags(*row({0: 0.4, 1: 1.0})) == (far,)


def test_every_flag_has_a_sentence() -> None:
    assert len({flag.sentence for flag in Degraded}) == len(Degraded)
