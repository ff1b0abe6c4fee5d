"""Fill the gaps of a library, so that learners meet full rows only."""

from typing import Final

import numpy as np

from apps.classification.core.estimators.covariance import shrunk_covariance
from apps.inventory.core.snapshot import Bools, Floats, Ints

ADDITIVE_ROUNDS: Final = 20
ROUNDS: Final = 8
RIDGE: Final = 1e-4


def filled(z: Floats, known: Bools) -> Floats:
    """(n, m) rows with every missing cell at its expectation given the row's known ones.

    Alternates between a shrunk covariance of the rows and the conditional mean of their missing
    cells (EM for a Gaussian, without the second-moment term: the covariance is shrunk anyway). The
    level of a row is free. Every row and every column needs a known cell. O(rounds·n·m³).

    Source: Dempster, Laird and Rubin (1977); Little and Rubin, "Statistical analysis with missing
    data", §11.2.
    """
    if known.all():
        return z.copy()
    x = _additive(z, known)
    rows = np.flatnonzero(~known.all(axis=1))
    for _ in range(ROUNDS):
        x[rows] = _expected(x, known, rows)
    return x


def _additive(z: Floats, known: Bools) -> Floats:
    """Row effect plus column effect where a cell is missing."""
    x = np.where(known, z, 0.0)
    row, column = np.zeros((x.shape[0], 1)), np.zeros(x.shape[1])
    in_row = known.sum(axis=1, keepdims=True)
    in_column = known.sum(axis=0)
    for _ in range(ADDITIVE_ROUNDS):
        row = ((x - column) * known).sum(axis=1, keepdims=True) / in_row
        column = ((x - row) * known).sum(axis=0) / in_column
    return np.where(known, x, row + column)


def _expected(x: Floats, known: Bools, rows: Ints) -> Floats:
    n, m = x.shape
    mean = x.mean(axis=0)
    level = (x - mean).mean(axis=1, keepdims=True)
    weight = np.full(n, 1.0 / n)
    shape = shrunk_covariance(x - mean - level, weight).covariance
    wide = shape + (3.0 * float(level.var()) + RIDGE) * np.ones((m, m))
    result = x[rows].copy()
    for at, i in enumerate(rows):
        seen = known[i]
        ridge = RIDGE * np.eye(int(seen.sum()))
        gain = np.linalg.solve(wide[np.ix_(seen, seen)] + ridge, x[i, seen] - mean[seen])
        result[at, ~seen] = mean[~seen] + wide[np.ix_(~seen, seen)] @ gain
    return result
