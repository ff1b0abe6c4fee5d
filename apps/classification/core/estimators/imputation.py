"""Impute missing cells of library rows; rows with many missing cells are kept as sparse."""

from collections.abc import Iterator
from typing import Final

import numpy as np

from apps.classification.core.estimators.covariance import shrunk_covariance
from apps.inventory.core.snapshot import Bools, Floats, Ints

ENOUGH_ROWS: Final = 3
ADDITIVE_ROUNDS: Final = 20
ROUNDS: Final = 8
RIDGE: Final = 1e-4
WORKING_CELLS: Final = 2_000_000  # cells of the largest temporary array


def is_sparse(known: Bools) -> Bools:
    """(n,) True for rows with less than half of their cells known; all False if too few remain.

    If imputed, hundreds of sparse rows would outweigh the few full rows: on the generator, with 10
    columns, 20 full rows and 378 with two cells, the error was 1.8 times that of exact Bayes. It
    is 1.24 times with the 20 full rows alone, and 1.19 with the others as `protocol.Sparse`.
    """
    if known.all():
        return np.zeros(len(known), dtype=np.bool_)
    sparse: Bools = np.asarray(2 * np.count_nonzero(known, axis=1) < known.shape[1])
    full = known[~sparse]
    if len(full) < ENOUGH_ROWS or not full.any(axis=0).all():
        return np.zeros(len(known), dtype=np.bool_)
    return sparse


def imputed(z: Floats, known: Bools) -> Floats:
    """Replace every missing cell by its expectation given the known cells of the row: (n, m).

    Alternates between a shrunk covariance of the rows and the conditional mean of their missing
    cells (EM for a Gaussian, without the second-moment term: the covariance is shrunk anyway). The
    level of a row is free. Every row and every column needs a known cell. O(rounds·n·(m² + u³)),
    u the smaller of a row's numbers of known and missing cells.

    Source: Dempster, Laird and Rubin (1977); Little and Rubin, "Statistical analysis with missing
    data", §11.2.
    """
    if known.all():
        return z.copy()
    x = _additive(z, known)
    groups = list(_by_gap_count(known))
    for _ in range(ROUNDS):
        x = _expected(x, groups)
    return x


def _additive(z: Floats, known: Bools) -> Floats:
    """Fill missing cells with row effect plus column effect."""
    x = np.where(known, z, 0.0)
    row, column = np.zeros((x.shape[0], 1)), np.zeros(x.shape[1])
    in_row = known.sum(axis=1, keepdims=True)
    in_column = known.sum(axis=0)
    for _ in range(ADDITIVE_ROUNDS):
        row = ((x - column) * known).sum(axis=1, keepdims=True) / in_row
        column = ((x - row) * known).sum(axis=0) / in_column
    return np.where(known, x, row + column)


def _by_gap_count(known: Bools) -> Iterator[tuple[Ints, Ints, Ints]]:
    """Rows (r,) with equal numbers of gaps, and the columns of their known and missing cells."""
    m = known.shape[1]
    gaps = m - np.count_nonzero(known, axis=1)
    for count in np.unique(gaps[gaps > 0]).tolist():
        all_rows = np.flatnonzero(gaps == count)
        batches = 1 + all_rows.size * m * min(count, m - count) // WORKING_CELLS
        for rows in np.array_split(all_rows, batches):
            observed = np.nonzero(known[rows])[1].reshape(rows.size, m - count)
            yield rows, observed, np.nonzero(~known[rows])[1].reshape(rows.size, count)


def _expected(x: Floats, groups: list[tuple[Ints, Ints, Ints]]) -> Floats:
    n, m = x.shape
    mean = x.mean(axis=0)
    level = (x - mean).mean(axis=1, keepdims=True)
    shape = shrunk_covariance(x - mean - level, np.full(n, 1.0 / n)).covariance
    covariance = shape + (3.0 * float(level.var()) + RIDGE) * np.ones((m, m)) + RIDGE * np.eye(m)
    precision: Floats = np.asarray(np.linalg.inv(covariance))
    result = x.copy()
    for rows, observed, missing in groups:
        offset = np.zeros((rows.size, m))
        np.put_along_axis(
            offset, observed, np.take_along_axis(x[rows] - mean, observed, axis=1), axis=1
        )
        if missing.shape[1] <= observed.shape[1]:
            # the same conditional mean from the inverse, with smaller blocks
            step = -_solved(precision, missing, np.take_along_axis(offset @ precision, missing, 1))
        else:
            weight = np.zeros(offset.shape)
            known = np.take_along_axis(offset, observed, axis=1)
            np.put_along_axis(weight, observed, _solved(covariance, observed, known), axis=1)
            step = np.take_along_axis(weight @ covariance, missing, axis=1)
        result[rows[:, None], missing] = mean[missing] + step
    return result


def _solved(matrix: Floats, at: Ints, right: Floats) -> Floats:
    """(r, u) solutions of each row's block of the matrix."""
    blocks = matrix[at[:, :, None], at[:, None, :]]
    return np.asarray(np.linalg.solve(blocks, right[:, :, None])[:, :, 0])
