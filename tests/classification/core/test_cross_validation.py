"""Held-out errors of sets of columns, against the formula written out."""

import numpy as np
import pytest

from apps.classification.core import cross_validation
from apps.classification.core.cross_validation import CrossValidation
from apps.classification.core.estimators.covariance import group_weights, shrunk_covariance
from apps.classification.core.matrix import Scale
from apps.inventory.core.snapshot import Floats, Ints

SETS = np.array([[0, 3], [2, 1], [4, 0]])


def library(rows: int = 9, columns: int = 5) -> Floats:
    rng = np.random.default_rng(5)
    shape = rng.normal(size=(rows, 2)) @ rng.normal(size=(2, columns)) * 0.4
    return np.exp(shape + rng.normal(0.0, 0.1, shape.shape))


def plain_error(z: Floats, groups: Ints, row: int, columns: list[int]) -> float:
    """Mean absolute error of one row's other cells, one component at a time."""
    rest = z[groups != groups[row]]
    weight = group_weights(groups[groups != groups[row]], 0.5)
    mean = weight @ rest
    away = rest - mean
    covariance = shrunk_covariance(away, weight).covariance
    level = max(
        float(weight @ away.mean(axis=1) ** 2), float(np.trace(covariance)) / covariance.shape[0]
    )
    expected = [plain_mean(z[row] - mean, away, weight, covariance * 0.16 + f * level, columns)
            for f in (0.0, 1.0)]  # fmt: skip
    off = np.abs(np.mean(expected, axis=0) - (z[row] - mean))
    return float(np.delete(off, columns).mean())


def plain_mean(
    z: Floats, away: Floats, weight: Floats, spread: Floats, columns: list[int]
) -> Floats:
    precision = np.linalg.inv(spread[np.ix_(columns, columns)] + 0.0004 * np.eye(len(columns)))
    centres = np.sqrt(1.0 - 0.16) * away
    left = z[columns] - centres[:, columns]
    density = (1.0 + np.einsum("rk,kl,rl->r", left, precision, left) / 4.0) ** (
        -(4.0 + len(columns)) / 2.0
    )
    share = weight * density / (weight * density).sum()
    return np.asarray(share @ (centres + left @ precision @ spread[columns]))


def test_errors_equal_the_formula() -> None:
    values, groups = library(), np.array([0, 0, 1, 1, 2, 3, 4, 5, 6])
    validation = CrossValidation.of(values, Scale.LOG, groups)
    z, of_row = validation.rows.z, validation.rows.groups
    share = group_weights(of_row, 0.5)
    expected = [
        sum(share[i] * plain_error(z, of_row, i, list(columns)) for i in range(len(z)))
        for columns in SETS
    ]
    assert np.allclose(validation.errors(SETS).sum(axis=1), expected)


def test_errors_are_split_by_application() -> None:
    values, groups = library(), np.array([0, 0, 1, 1, 2, 3, 4, 5, 6])
    by_application = CrossValidation.of(values, Scale.LOG, groups).errors(SETS)
    assert by_application.shape == (3, 7)
    assert (by_application > 0).all()


def test_the_answer_does_not_depend_on_how_many_sets_are_asked_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    validation = CrossValidation.of(library(), Scale.LOG, np.arange(9))
    together = validation.errors(SETS)
    monkeypatch.setattr(cross_validation, "WORKING_CELLS", 1)
    assert np.allclose(validation.errors(SETS), together)


def test_deviations_are_those_of_a_conditional_gaussian() -> None:
    validation = CrossValidation.of(library(), Scale.LOG, np.arange(9))
    covariance = validation.covariance
    known, left = [0, 3], [1, 2, 4]
    known_covariance = covariance[np.ix_(known, known)] + 0.0004 * np.eye(2)
    across = covariance[np.ix_(left, known)]
    rest = covariance[np.ix_(left, left)] - across @ np.linalg.inv(known_covariance) @ across.T
    assert validation.deviations(SETS)[0] == pytest.approx(np.sqrt(np.diag(rest)).mean())


def test_thinned_libraries_keep_a_row_for_every_column() -> None:
    values = np.tile(library(400, 5), (1, 1))
    values[:, 4] = np.nan
    values[17, 4] = 3.0
    validation = CrossValidation.of(values, Scale.LOG, np.arange(400))
    assert len(validation.rows.z) <= cross_validation.MAX_ROWS + 1
    assert validation.rows.known[:, 4].sum() == 1


def test_missing_cells_are_not_counted_as_errors() -> None:
    values = library(30, 5)
    whole = CrossValidation.of(values, Scale.LOG, np.arange(30)).errors(SETS).sum(axis=1)
    values[3:, 4] = np.nan
    gaps = CrossValidation.of(values, Scale.LOG, np.arange(30))
    assert np.isfinite(gaps.errors(SETS)).all()
    assert not np.allclose(gaps.errors(SETS).sum(axis=1), whole)


def test_errors_are_cached_for_any_order_of_the_columns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    validation = CrossValidation.of(library(), Scale.LOG, np.arange(9))
    first = validation.errors(SETS)

    def fail(*_: object) -> Floats:
        raise AssertionError("computed again")

    monkeypatch.setattr(cross_validation, "_predicted", fail)
    assert np.array_equal(validation.errors(SETS[:, ::-1]), first)


def test_the_cache_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cross_validation, "MAX_CACHED_SETS", 2)
    validation = CrossValidation.of(library(), Scale.LOG, np.arange(9))
    first = validation.errors(SETS)
    assert np.allclose(validation.errors(SETS[::-1])[::-1], first)
    assert len(validation._cache) == 3
