"""Held-out errors of sets of columns, against the formula written out."""

import numpy as np
import pytest

from apps.classification.core import rehearsal
from apps.classification.core.estimators.covariance import group_weights, shrunk_covariance
from apps.classification.core.matrix import Scale
from apps.classification.core.rehearsal import Rehearsal
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
    told = [plain_mean(z[row] - mean, away, weight, covariance * 0.16 + f * level, columns)
            for f in (0.0, 1.0)]  # fmt: skip
    off = np.abs(np.mean(told, axis=0) - (z[row] - mean))
    return float(np.delete(off, columns).mean())


def plain_mean(
    z: Floats, away: Floats, weight: Floats, spread: Floats, columns: list[int]
) -> Floats:
    seen = np.linalg.inv(spread[np.ix_(columns, columns)] + 0.0004 * np.eye(len(columns)))
    centres = np.sqrt(1.0 - 0.16) * away
    left = z[columns] - centres[:, columns]
    density = (1.0 + np.einsum("rk,kl,rl->r", left, seen, left) / 4.0) ** (
        -(4.0 + len(columns)) / 2.0
    )
    share = weight * density / (weight * density).sum()
    return np.asarray(share @ (centres + left @ seen @ spread[columns]))


def test_errors_are_those_of_the_formula_written_out() -> None:
    values, groups = library(), np.array([0, 0, 1, 1, 2, 3, 4, 5, 6])
    asked = Rehearsal.of(values, Scale.LOG, groups)
    z, of_row = asked.rows.z, asked.rows.groups
    share = group_weights(of_row, 0.5)
    expected = [
        sum(share[i] * plain_error(z, of_row, i, list(columns)) for i in range(len(z)))
        for columns in SETS
    ]
    assert np.allclose(asked.errors(SETS).sum(axis=1), expected)


def test_errors_are_told_apart_by_application() -> None:
    values, groups = library(), np.array([0, 0, 1, 1, 2, 3, 4, 5, 6])
    by_application = Rehearsal.of(values, Scale.LOG, groups).errors(SETS)
    assert by_application.shape == (3, 7)
    assert (by_application > 0).all()


def test_the_answer_does_not_depend_on_how_many_sets_are_asked_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = Rehearsal.of(library(), Scale.LOG, np.arange(9))
    together = asked.errors(SETS)
    monkeypatch.setattr(rehearsal, "WORKING_CELLS", 1)
    assert np.allclose(asked.errors(SETS), together)


def test_deviations_are_those_of_a_conditional_gaussian() -> None:
    asked = Rehearsal.of(library(), Scale.LOG, np.arange(9))
    covariance = asked.covariance
    known, left = [0, 3], [1, 2, 4]
    seen = covariance[np.ix_(known, known)] + 0.0004 * np.eye(2)
    across = covariance[np.ix_(left, known)]
    rest = covariance[np.ix_(left, left)] - across @ np.linalg.inv(seen) @ across.T
    assert asked.deviations(SETS)[0] == pytest.approx(np.sqrt(np.diag(rest)).mean())


def test_thinned_libraries_keep_a_row_for_every_column() -> None:
    values = np.tile(library(400, 5), (1, 1))
    values[:, 4] = np.nan
    values[17, 4] = 3.0
    asked = Rehearsal.of(values, Scale.LOG, np.arange(400))
    assert len(asked.rows.z) <= rehearsal.MOST_ROWS + 1
    assert asked.rows.known[:, 4].sum() == 1


def test_missing_cells_are_not_counted_as_errors() -> None:
    values = library(30, 5)
    whole = Rehearsal.of(values, Scale.LOG, np.arange(30)).errors(SETS).sum(axis=1)
    values[3:, 4] = np.nan
    gaps = Rehearsal.of(values, Scale.LOG, np.arange(30))
    assert np.isfinite(gaps.errors(SETS)).all()
    assert not np.allclose(gaps.errors(SETS).sum(axis=1), whole)


def test_what_was_asked_is_remembered_in_whatever_order_the_columns_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = Rehearsal.of(library(), Scale.LOG, np.arange(9))
    first = asked.errors(SETS)

    def fail(*_: object) -> Floats:
        raise AssertionError("computed again")

    monkeypatch.setattr(rehearsal, "_predicted", fail)
    assert np.array_equal(asked.errors(SETS[:, ::-1]), first)


def test_no_more_sets_are_remembered_than_memory_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rehearsal, "REMEMBERED", 2)
    asked = Rehearsal.of(library(), Scale.LOG, np.arange(9))
    first = asked.errors(SETS)
    assert np.allclose(asked.errors(SETS[::-1])[::-1], first)
    assert len(asked._asked) == 3
