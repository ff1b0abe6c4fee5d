"""The exhaustive classification and the product of the four parallel ones."""

import numpy as np
import pytest

from apps.classification.core.estimators import ESTIMATORS
from apps.classification.core.exhaustive import (
    Combination,
    Parallel,
    combinations,
    fit_joint,
    fold_joint,
)
from apps.inventory.core.snapshot import Floats

PLATFORMS = ("best", "old")
COLUMNS = combinations(PLATFORMS, units=(1, 4), servers=(1, 2), sources=("cache", "disk"))


def halved(tolerated: Floats) -> Floats:
    return np.where(tolerated < 50.0, 0.5, 1.0)


def parallel(rows: int = 1) -> Parallel:
    return Parallel(
        platforms=PLATFORMS,
        units=(1, 4),
        servers=(1, 2),
        sources=("cache", "disk"),
        speed=np.tile([1.0, 0.4], (rows, 1)),
        up=np.tile([1.0, 3.0], (rows, 1)),
        out=np.tile([1.0, 0.9], (rows, 1)),
        tolerated=np.tile([30.0, 80.0], (rows, 1)),
    )


def test_every_combination_is_one_column_and_the_first_is_the_base() -> None:
    assert len(COLUMNS) == len(set(COLUMNS)) == 2 * 2 * 2 * 3
    assert COLUMNS[0] == Combination("best", 1, 1)
    assert COLUMNS[0].label == "best 1x1"
    assert Combination("old", 4, 2, "disk").label == "old 2x4 next to disk"
    assert Combination("old", 4, 2, "disk") in COLUMNS


@pytest.mark.parametrize(
    ("platforms", "units", "expected"),
    [
        ((), (1, 2), "platforms must be a list of distinct entries"),
        (("a", "a"), (1, 2), "platforms must be a list of distinct entries"),
        (("a",), (2, 4), "must start with 1, got 2"),
    ],
)
def test_an_invalid_grid_is_refused(
    platforms: tuple[str, ...], units: tuple[int, ...], expected: str
) -> None:
    with pytest.raises(ValueError, match=expected):
        combinations(platforms, units=units, servers=(1,))


@pytest.mark.parametrize(
    ("combination", "expected"),
    [
        (Combination("best", 1, 1), 1.0),
        (Combination("old", 1, 1), 0.4),
        (Combination("best", 4, 1), 3.0),
        (Combination("best", 1, 2), 1.8),
        (Combination("old", 4, 2), 0.4 * 3.0 * 1.8),
        (Combination("old", 4, 2, "cache"), 0.2 * 3.0 * 1.8),
        (Combination("best", 1, 1, "disk"), 1.0),
    ],
)
def test_parallel_predictions_are_multiplied(combination: Combination, expected: float) -> None:
    rates = parallel(3).rates(COLUMNS, halved)
    assert rates.shape == (3, len(COLUMNS))
    assert rates[:, COLUMNS.index(combination)] == pytest.approx(expected)


def library(rows: int, seed: int) -> Floats:
    """(n, 24) rates in a metric of each application's own."""
    rng = np.random.default_rng(seed)
    factor = rng.normal(0.0, 0.3, (rows, 2)) @ rng.normal(0.0, 1.0, (2, len(COLUMNS)))
    return np.exp(factor) * rng.lognormal(3.0, 2.0, (rows, 1))


def test_rows_are_completed_relative_to_their_base() -> None:
    rates = library(44, seed=1)
    model = fit_joint(rates[:40], ESTIMATORS["blend"])
    known = np.isin(np.arange(len(COLUMNS)), [0, 3, 9, 17, 21])[None].repeat(4, axis=0)
    fold = fold_joint(model, rates[40:], known)
    expected = rates[40:] / rates[40:, :1]
    assert np.array_equal(fold.value[known], expected[known])
    assert np.abs(fold.value / expected - 1.0)[~known].mean() < 0.1
    scaled = fold_joint(model, 1000.0 * rates[40:], known)
    assert scaled.value == pytest.approx(fold.value)


def test_unknown_cells_have_no_influence() -> None:
    rates = library(24, seed=1)
    model = fit_joint(rates[:20], ESTIMATORS["knn"])
    known = np.isin(np.arange(len(COLUMNS)), [0, 3])[None].repeat(4, axis=0)
    wrong = np.where(known, rates[20:], np.nan)
    expected = fold_joint(model, rates[20:], known).value
    assert np.array_equal(fold_joint(model, wrong, known).value, expected)


def test_a_row_without_its_base_is_refused() -> None:
    rates = library(10, seed=1)
    model = fit_joint(rates, ESTIMATORS["knn"])
    with pytest.raises(ValueError, match="column 0 must be known in every row"):
        fold_joint(model, rates[:1], np.zeros((1, len(COLUMNS)), np.bool_))
    rates[4, 0] = np.nan
    with pytest.raises(ValueError, match="row 4 is not"):
        fit_joint(rates, ESTIMATORS["knn"])
