import numpy as np
import pytest

from apps.classification.core.estimators.imputation import imputed

RNG = np.random.default_rng(2)
ROWS = RNG.normal(size=(300, 2)) @ RNG.normal(size=(2, 10))


@pytest.mark.parametrize(("gaps", "off"), [(1, 0.05), (3, 0.05), (6, 0.2)])
def test_missing_cells_are_imputed_by_the_planted_law(gaps: int, off: float) -> None:
    # fewer gaps than known cells, and more: the two forms of one conditional mean; with most
    # cells missing eight rounds do not reach the end
    known = RNG.random(ROWS.shape).argsort(axis=1) >= gaps
    full = imputed(np.where(known, ROWS, 0.0), known)
    assert np.array_equal(full[known], ROWS[known])
    assert np.abs(full - ROWS)[~known].mean() < off * np.abs(ROWS).mean()


def test_rows_with_different_numbers_of_gaps_are_imputed_alike() -> None:
    known = RNG.random(ROWS.shape) < 0.75
    known[np.arange(300), RNG.integers(10, size=300)] = True
    full = imputed(np.where(known, ROWS, 0.0), known)
    enough = known.sum(axis=1) >= 4
    assert np.abs(full - ROWS)[enough].max() < np.abs(ROWS).mean()


def test_a_row_with_one_cell_is_shifted_to_it() -> None:
    flat = np.tile(np.arange(6.0), (40, 1)) + RNG.normal(size=(40, 1))
    known = np.ones(flat.shape, dtype=np.bool_)
    known[3, 1:] = False
    assert imputed(np.where(known, flat, 0.0), known)[3] == pytest.approx(flat[3], abs=0.02)
