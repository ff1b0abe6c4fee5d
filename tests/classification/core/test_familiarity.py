"""Rows unlike the library: their scores, their flags and their wider intervals."""

import numpy as np
import pytest

from apps.classification.core.estimators import DEFAULT, ESTIMATORS, Degraded, Model
from apps.classification.core.estimators.familiarity import (
    NOISE,
    NONE,
    HeldOutErrors,
    Neighbourhood,
    Widening,
    calibrate,
    quantile,
    strange_rows,
)
from apps.classification.core.estimators.protocol import Observed, Rows
from apps.classification.core.matrix import Scale
from apps.inventory.core.snapshot import Bools, Floats
from benchmarks._held_out import random_cells
from benchmarks._strange import new_rows

BLEND = ESTIMATORS[DEFAULT]


def measured(*cells: float) -> Observed:
    z = np.array([cells])
    return Observed(np.arange(len(cells))[None], z, np.zeros(z.shape))


def along_a_line(n: int = 40) -> Neighbourhood:
    """Rows that vary by one factor, which acts on both columns alike."""
    rng = np.random.default_rng(1)
    z = rng.normal(size=(n, 1)) * np.ones(2) + 0.02 * rng.normal(size=(n, 2))
    return Neighbourhood.of(Rows(z, np.ones(z.shape, dtype=np.bool_), np.arange(n)))


def test_a_row_without_known_cells_has_the_score_0() -> None:
    empty = Observed(np.zeros((3, 0), dtype=np.int64), np.zeros((3, 0)), np.zeros((3, 0)))
    assert along_a_line().scores(empty).tolist() == [0.0, 0.0, 0.0]


def test_a_residual_counts_more_than_the_same_distance_along_the_factors() -> None:
    near = along_a_line()
    (along,), (across,) = near.scores(measured(0.5, 0.5)), near.scores(measured(0.5, -0.5))
    assert across > 5.0 * along


def test_the_score_grows_with_the_leverage() -> None:
    near = along_a_line()
    scores = [float(near.scores(measured(x, x))[0]) for x in (0.0, 2.0, 4.0, 8.0)]
    assert scores == sorted(scores)
    assert scores[3] > 4.0 * scores[1]


def test_a_cell_with_a_large_error_says_little() -> None:
    near, exact = along_a_line(), measured(0.5, -0.5)
    vague = exact._replace(error=np.full((1, 2), 2.0))
    assert near.scores(vague)[0] < 0.2 * near.scores(exact)[0]


def test_the_score_is_the_plain_formula() -> None:
    rng = np.random.default_rng(2)
    z = rng.normal(size=(9, 5)) @ rng.normal(size=(5, 5))
    near = Neighbourhood.of(Rows(z, np.ones(z.shape, dtype=np.bool_), np.arange(9)))
    at, cells, error = np.array([[4, 0, 2]]), rng.normal(size=(1, 3)), np.array([[0.1, 0.0, 0.3]])
    offset = cells - near.columns[at[0]].T
    across = near.covariance[np.ix_(at[0], at[0])] + np.diag(error[0] ** 2 + NOISE**2)
    squared = np.einsum("na,ab,nb->n", offset, np.linalg.inv(across), offset)
    expected = -np.log(np.exp(-0.5 * squared).mean())
    assert near.scores(Observed(at, cells, error)) == pytest.approx([expected])


def test_strange_rows_are_scaled_shuffled_or_both() -> None:
    z, mean = np.array([[1.0, 2.0, 4.0]] * 3), np.array([1.0, 1.0, 1.0])
    scaled, shuffled, both = strange_rows(z, mean, np.random.default_rng(3), np.arange(3))
    assert scaled.tolist() == [1.0, 3.0, 7.0]
    assert sorted(shuffled - mean) == [0.0, 1.0, 3.0]
    assert sorted(both - mean) == [0.0, 2.0, 6.0]


def all_tested(score: list[float], offset: list[float]) -> HeldOutErrors:
    return HeldOutErrors(
        np.array(score), np.array(offset)[:, None], np.ones((len(score), 1), dtype=np.bool_)
    )


def test_intervals_widen_with_the_score_and_the_highest_scores_are_unfamiliar() -> None:
    # scores 1 to 100 of library rows, all errors 1 deviation; strange rows at 200, errors 5
    usual = all_tested([float(i) for i in range(1, 101)], [1.0] * 100)
    strange = all_tested([200.0] * 100, [5.0] * 100)
    widening = calibrate(usual, strange, np.full(100, 0.01), 100)
    assert widening.limit == 97.0  # 0.955 · 1.01 of the rows
    assert widening.of(np.array([1.0, 60.0, 97.0, 300.0])).tolist() == [1.0, 1.0, 1.0, 5.0]


@pytest.mark.parametrize("groups", [1, 14])
def test_a_small_library_has_no_unfamiliar_rows(groups: int) -> None:
    usual = all_tested([float(i) for i in range(1, 101)], [1.0] * 100)
    assert calibrate(usual, usual, np.full(100, 0.01), groups) == NONE


def test_a_quantile_counts_weights() -> None:
    values = np.array([3.0, 1.0, 2.0])
    assert quantile(values, np.array([0.1, 0.8, 0.1]), 0.8) == 1.0
    assert quantile(values, np.array([0.1, 0.1, 0.8]), 0.8) == 2.0


# --- on the generator


def fitted(seed: int = 0) -> tuple[Model, dict[str, Floats], np.random.Generator]:
    rng = np.random.default_rng([seed, 7])
    library, kinds = new_rows(30, 10, rng)
    return BLEND.fit(library, scale=Scale.LOG), dict(kinds), rng


def flagged(model: Model, rows: Floats, known: Bools) -> float:
    flags = model.flags(np.where(known, rows, 1.0), known)
    return float(np.mean([Degraded.UNFAMILIAR in row for row in flags]))


def covered(model: Model, rows: Floats, known: Bools) -> float:
    fold = model.fold(np.where(known, rows, 1.0), known)
    return float(((fold.low <= rows) & (rows <= fold.high))[~known].mean())


def test_rows_of_other_factors_are_flagged_and_rows_like_the_library_are_not() -> None:
    shares = []
    for seed in range(3):
        model, kinds, rng = fitted(seed)
        shares.append(
            [flagged(model, rows, random_cells(rows, 8, rng)) for rows in kinds.values()]
        )
    usual, other, unrelated, _, squared = np.mean(shares, axis=0)
    assert usual <= 0.08  # 4 % are expected; 3 deviations of 180 rows are 4.4 %
    assert min(other, unrelated, squared) >= 0.9


def test_wider_intervals_hold_more_of_strange_rows_and_change_no_value() -> None:
    model, kinds, rng = fitted()
    rows = kinds["unrelated"]
    known = random_cells(rows, 4, rng)
    plain = BLEND.fit(
        np.exp(model.library.rows.z),
        scale=Scale.LOG,
        tunings={4: model.tuned(4)._replace(widening=NONE)},
    )
    assert covered(model, rows, known) > covered(plain, rows, known) + 0.2
    observed = np.where(known, rows, 1.0)
    values = model.fold(observed, known).value, plain.fold(observed, known).value
    assert values[0] == pytest.approx(values[1])


def test_a_row_is_flagged_alone_as_among_others() -> None:
    model, kinds, rng = fitted()
    rows = kinds["other factors"]
    known = random_cells(rows, 4, rng)
    together = model.flags(np.where(known, rows, 1.0), known)
    alone = [model.flags(np.where(known[i], rows[i], 1.0), known[i])[0] for i in range(len(rows))]
    assert list(together) == alone
    assert {Degraded.UNFAMILIAR in row for row in alone} == {True, False}


def test_a_row_without_hidden_cells_is_not_flagged() -> None:
    model, kinds, _ = fitted()
    rows = kinds["unrelated"]
    assert flagged(model, rows, np.ones(rows.shape, dtype=np.bool_)) == 0.0


def test_rows_of_more_cells_than_any_tuning_are_seldom_flagged() -> None:
    rng = np.random.default_rng(5)
    library, kinds = new_rows(40, 40, rng)
    model = BLEND.fit(library, scale=Scale.LOG)
    usual, other = kinds["like the library"], kinds["other factors"]
    assert flagged(model, usual, random_cells(usual, 32, rng)) <= 0.17  # 5 % + 3 deviations
    assert flagged(model, other, random_cells(other, 32, rng)) >= 0.9


def test_widening_without_bins_changes_nothing() -> None:
    assert Widening().of(np.array([0.0, 1e9])).tolist() == [1.0, 1.0]
