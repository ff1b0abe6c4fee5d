import numpy as np
import pytest

from apps.classification.core.estimators import (
    DEFAULT,
    ESTIMATORS,
    Degraded,
    EmptyLibraryError,
    applications,
    complete,
    completion,
)
from apps.classification.core.matrix import Scale

RNG = np.random.default_rng(11)
DEMAND = RNG.dirichlet(np.full(4, 0.7), size=40)
TRUE = 1.0 / (DEMAND @ (1.0 / RNG.lognormal(0.0, 0.4, (4, 8))))
BLEND = ESTIMATORS[DEFAULT]


def holes(share: float, seed: int = 1) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    return np.where(np.random.default_rng(seed).random(TRUE.shape) < share, np.nan, TRUE)


@pytest.mark.parametrize("share", [0.1, 0.4, 0.7])
def test_every_empty_cell_is_filled_and_every_known_one_kept(share: float) -> None:
    sparse = holes(share)
    fold = complete(sparse, BLEND, scale=Scale.LOG)
    known = ~np.isnan(sparse)
    assert np.isfinite(fold.ends).all()
    assert np.array_equal(fold.value[known], TRUE[known])


def test_gaps_of_the_library_are_estimated_well() -> None:
    sparse = holes(0.2)
    fold = complete(sparse, BLEND, scale=Scale.LOG)
    error = np.abs(fold.value / TRUE - 1.0)[np.isnan(sparse)]
    assert error.mean() < 0.12


def test_intervals_of_gaps_hold_about_nine_tenths() -> None:
    sparse = holes(0.3)
    fold = complete(sparse, BLEND, scale=Scale.LOG)
    inside = ((fold.low <= TRUE) & (fold.high >= TRUE))[np.isnan(sparse)]
    # some 96 cells: the deviation of the share is 0.03
    assert abs(inside.mean() - 0.9) < 0.1


def test_a_row_without_a_cell_gets_the_library_average() -> None:
    sparse = TRUE.copy()
    sparse[7] = np.nan
    fold = complete(sparse, BLEND, scale=Scale.LOG)
    assert (fold.low[7] < fold.value[7]).all()
    assert np.log(fold.value[7]) == pytest.approx(np.log(np.delete(TRUE, 7, 0)).mean(0), abs=0.4)


def test_a_column_known_in_one_sparse_row_only_is_still_estimated() -> None:
    sparse = TRUE.copy()
    sparse[:, 3] = np.nan
    sparse[5, 3] = TRUE[5, 3]
    assert np.isfinite(complete(sparse, BLEND, scale=Scale.LOG).ends).all()


def test_a_full_matrix_is_returned_unchanged() -> None:
    assert np.array_equal(complete(TRUE, BLEND, scale=Scale.LOG).value, TRUE)


def test_a_column_without_a_cell_is_an_error() -> None:
    sparse = TRUE.copy()
    sparse[:, 3] = np.nan
    with pytest.raises(ValueError, match="column 3 has none"):
        complete(sparse, BLEND, scale=Scale.LOG)


def test_an_empty_matrix_is_an_error() -> None:
    with pytest.raises(EmptyLibraryError, match="no known cell"):
        complete(np.full((3, 4), np.nan), BLEND, scale=Scale.LOG)


def test_huge_and_tiny_values_give_finite_answers() -> None:
    sparse = holes(0.2)
    sparse[0, np.isnan(sparse[0])] = np.nan
    sparse[0] = sparse[0] * 1e305
    assert np.isfinite(complete(sparse, BLEND, scale=Scale.LOG).ends).all()


def test_rows_that_start_with_the_same_word_are_one_application() -> None:
    names = ["kmeans/10GB", "sort_huge", "kmeans/50GB", "LM (batch 5)", "LM (batch 10)", "grep"]
    groups = applications(names).tolist()
    assert [groups.index(number) for number in groups] == [0, 1, 0, 3, 3, 5]


def test_a_word_that_all_names_share_names_no_application() -> None:
    assert applications(["job-1", "job-2", "job-3", "job-4"]).tolist() == [0, 1, 2, 3]


def test_rows_with_few_known_cells_are_flagged() -> None:
    sparse = TRUE.copy()
    sparse[3, 2] = np.nan
    sparse[5, 1:] = np.nan
    sparse[7] = np.nan
    sparse[9, 4:] = np.nan
    sparse[9, 0] *= 1e6
    flags = completion(sparse, BLEND, scale=Scale.LOG).flags
    assert flags[3] == frozenset()
    assert flags[5] == {Degraded.ONE_CELL}
    assert flags[7] == {Degraded.NO_CELL}
    assert flags[9] == {Degraded.FAR, Degraded.UNFAMILIAR}
    assert flags[0] == frozenset()
