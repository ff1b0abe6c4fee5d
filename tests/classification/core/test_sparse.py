"""Sparse rows of profiled applications together with the full rows of a library."""

from dataclasses import replace

import numpy as np
import pytest

from apps.classification.core.estimators import DEFAULT, ESTIMATORS, Estimator
from apps.classification.core.estimators.covariance import (
    levelled,
    moments_with_gaps,
    shrunk_covariance,
)
from apps.classification.core.estimators.imputation import is_sparse
from apps.classification.core.estimators.protocol import Rows, Sparse
from apps.classification.core.estimators.tuning import rows_of
from apps.classification.core.matrix import Scale
from apps.inventory.core.snapshot import Bools, Floats
from tests.classification.core.test_estimators import capacities, roofline

SEEDS = range(4)
FULL = 20
SPARSE = 300


def two_cells(rows: int, columns: int, rng: np.random.Generator) -> Bools:
    known = np.zeros((rows, columns), dtype=np.bool_)
    np.put_along_axis(known, rng.random(known.shape).argsort(axis=1)[:, :2], True, axis=1)
    return known


def drawn(seed: int) -> tuple[Floats, Floats, Floats, Bools]:
    """A library of full rows, sparse rows, and new rows with the mask of their known cells."""
    rng = np.random.default_rng([7, seed])
    capacity = capacities(rng)
    full, rest, new = (roofline(n, capacity, rng) for n in (FULL, SPARSE, 100))
    return full, np.where(two_cells(SPARSE, 10, rng), rest, np.nan), new, two_cells(100, 10, rng)


def mean_error(estimator: Estimator, seed: int, *, with_rest: bool) -> float:
    full, rest, new, known = drawn(seed)
    library = np.vstack([full, rest]) if with_rest else full
    value = estimator.fit(library, scale=Scale.LOG).fold(new, known).value
    return float(np.abs(value / new - 1.0)[~known].mean())


@pytest.mark.parametrize("name", sorted(set(ESTIMATORS) - {"pq_paragon", "pq_quasar"}))
def test_hundreds_of_sparse_rows_do_not_outweigh_twenty_full_ones(name: str) -> None:
    estimator = ESTIMATORS[name]
    without = mean_error(estimator, 0, with_rest=False)
    assert mean_error(estimator, 0, with_rest=True) < 1.05 * without


def test_the_default_learns_from_rows_of_two_cells() -> None:
    estimator = ESTIMATORS[DEFAULT]
    without = np.mean([mean_error(estimator, seed, with_rest=False) for seed in SEEDS])
    with_rest = np.mean([mean_error(estimator, seed, with_rest=True) for seed in SEEDS])
    assert with_rest < 0.99 * without


def covered(seed: int) -> float:
    full, rest, new, known = drawn(seed)
    model = ESTIMATORS[DEFAULT].fit(np.vstack([full, rest]), scale=Scale.LOG)
    _, low, high = model.fold(new, known).ends
    return float(((low <= new) & (new <= high))[~known].mean())


def test_intervals_still_hold_about_nine_tenths() -> None:
    assert 0.85 < np.mean([covered(seed) for seed in SEEDS]) < 0.96


def test_the_order_of_full_and_sparse_rows_does_not_matter() -> None:
    full, rest, new, known = drawn(2)
    library = np.vstack([full, rest])
    shuffled = library[np.random.default_rng(1).permutation(len(library))]
    alone, other = (
        np.array(ESTIMATORS[DEFAULT].fit(rows, scale=Scale.LOG).fold(new, known).ends)
        for rows in (library, shuffled)
    )
    assert np.array_equal(alone, other)


def test_a_row_with_less_than_half_of_its_cells_known_is_sparse() -> None:
    known = np.ones((6, 5), dtype=np.bool_)
    known[1, :2] = False
    known[4, :3] = False
    assert is_sparse(known).tolist() == [False, False, False, False, True, False]


@pytest.mark.parametrize("full", [0, 2])
def test_without_enough_full_rows_none_is_sparse(full: int) -> None:
    known = two_cells(30, 10, np.random.default_rng(1))
    known[:full] = True
    assert not is_sparse(known).any()


def test_none_is_sparse_when_the_full_rows_lack_a_column() -> None:
    known = np.ones((8, 5), dtype=np.bool_)
    known[:7, 2] = False
    known[7, 3:] = False
    known[7, :2] = False
    assert not is_sparse(known).any()


def planted(seed: int) -> tuple[Floats, Rows]:
    """A covariance, and rows of it: 15 full, 2,000 of two cells each."""
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(6, 6)) * [[2.0], [1.0], [0.5], [0.3], [0.2], [0.1]]
    z = 3.0 + rng.normal(size=(2015, 6)) @ root
    known = two_cells(2000, 6, rng)
    sparse = Sparse(np.where(known, z[15:], 0.0), known, np.arange(15, 2015))
    return root.T @ root, Rows(z[:15], np.ones((15, 6), dtype=np.bool_), np.arange(15), sparse)


def off(estimated: Floats, true: Floats) -> float:
    return float(np.linalg.norm(estimated - true) / np.linalg.norm(true))


def test_the_spread_of_all_rows_is_found_from_two_cells_of_each() -> None:
    true, rows = planted(3)
    full = shrunk_covariance(rows.z - rows.z.mean(axis=0), np.full(15, 1 / 15))
    mean, spread = moments_with_gaps(rows, 0.0)
    assert off(spread.covariance, true) < 0.5 * off(full.covariance, true)
    assert np.abs(mean - 3.0).max() < 0.5 * np.abs(rows.z.mean(axis=0) - 3.0).max()
    assert np.linalg.eigvalsh(spread.covariance).min() > 0


def test_one_wild_sparse_row_hardly_widens_the_spread() -> None:
    _, rows = planted(4)
    assert rows.sparse is not None
    z = rows.sparse.z.copy()
    z[7] = np.where(rows.sparse.known[7], 500.0, 0.0)
    wild = replace(rows, sparse=rows.sparse._replace(z=z))
    spread, usual = (moments_with_gaps(sample, 0.0).spread.covariance for sample in (wild, rows))
    assert off(spread, usual) < 0.1


def test_levelled_rows_have_the_levelled_covariance() -> None:
    rng = np.random.default_rng(5)
    z = rng.normal(size=(5000, 4)) @ rng.normal(size=(4, 4))
    spread = shrunk_covariance(z - z.mean(axis=0), np.full(5000, 1 / 5000))
    bare = z - z.mean(axis=1, keepdims=True)
    expected = np.cov(bare.T, bias=True)
    assert levelled(spread).covariance == pytest.approx(expected, abs=0.02)


def test_sparse_rows_of_an_application_are_left_out_with_it() -> None:
    _, rows = planted(6)
    assert rows.sparse is not None
    sparse = Sparse(rows.sparse.z, rows.sparse.known, np.arange(2000) % 15)
    both = Rows(rows.z, rows.known, rows.groups, sparse)
    remaining = both.without(np.arange(15) == 3, np.array([3]))
    assert remaining.sparse is not None
    assert remaining.groups.tolist() == [0, 1, 2, *range(4, 15)]
    assert 3 not in remaining.sparse.groups
    assert len(remaining.sparse.groups) == np.count_nonzero(np.arange(2000) % 15 != 3)


def test_without_sparse_rows_left_there_are_none() -> None:
    _, rows = planted(6)
    assert rows.sparse is not None
    sparse = Sparse(rows.sparse.z, rows.sparse.known, np.full(2000, 3))
    remaining = Rows(rows.z, rows.known, rows.groups, sparse).without(
        np.arange(15) == 3, np.array([3])
    )
    assert remaining.sparse is None


def test_a_column_that_most_rows_lack_keeps_its_spread() -> None:
    rng = np.random.default_rng(8)
    z = rng.normal(size=(300, 5)) @ np.diag([1.0, 1.0, 1.0, 1.0, 2.0])
    known = np.ones(z.shape, dtype=np.bool_)
    known[40:, 4] = False
    rows = rows_of(np.where(known, z, 0.0), known, np.arange(300))
    spread = moments_with_gaps(rows, 0.0).spread.covariance
    assert rows.z[:, 4].var() < 1.5
    assert spread[4, 4] == pytest.approx(4.0, rel=0.3)
    assert spread[0, 0] == pytest.approx(1.0, rel=0.2)


def test_sampled_rows_with_gaps_keep_their_total_weight() -> None:
    _, rows = planted(9)
    few = moments_with_gaps(rows, 0.0).spread
    assert few.rows == pytest.approx(15 + 2000 / 3, rel=0.05)
