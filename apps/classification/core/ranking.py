"""Rank the columns of the profiled matrices by the value of measuring them."""

from typing import Final

import numpy as np

from apps.classification.core.design import INFORMATIVE, choose
from apps.classification.core.inference import Library
from apps.classification.core.matrix import Matrix, MatrixName, columns_of
from apps.inventory.core.snapshot import Floats, Ints

# The first run of a plan measures the first column of these: one unit of the highest-end platform
# with default settings.
REFERENCED: Final = (
    MatrixName.HETEROGENEITY,
    MatrixName.SCALE_UP,
    MatrixName.SCALE_OUT,
    MatrixName.FRAMEWORK,
)
INTERFERENCE: Final = (MatrixName.TOLERATED, MatrixName.CAUSED)
# Live applications are measured at the columns of the last ranking. Judged by such rows, all other
# columns would look better, because errors are only counted at known cells.
MIN_KNOWN: Final = 0.9  # of the columns that any row knows
MIN_ROWS: Final = 5


def ranking(
    library: Library, platforms: tuple[str, ...], *, method: str = INFORMATIVE, seed: int = 0
) -> dict[str, tuple[str, ...]]:
    """Columns of `REFERENCED` and of "tolerated", the best first.

    The reference column of the former is always measured, so it is not ranked. A source is
    measured for both interference matrices, so both determine its rank. If at least five rows are
    nearly complete, only those are used. Matrices without rows or without a choice are omitted.

    Parameters
    ----------
    platforms : of the cluster, the highest-end one first
    method : of `DESIGNS`
    seed : of random methods
    """
    ranked = {}
    for name in (name for name in REFERENCED if name in library.matrices):
        columns = columns_of(name, platforms)
        order = _order(_cells(library, (name,), columns), name, 1, method, seed)
        ranked[name.value] = tuple(columns[i] for i in order)
    sources = columns_of(MatrixName.TOLERATED, platforms)
    cells = _cells(library, INTERFERENCE, sources)
    order = _order(cells, MatrixName.TOLERATED, 0, method, seed)
    ranked[MatrixName.TOLERATED.value] = tuple(sources[i] for i in order)
    return {name: columns for name, columns in ranked.items() if columns}


def _order(cells: Floats, name: MatrixName, measured: int, method: str, seed: int) -> list[int]:
    """Rank all columns after the first ``measured``, best first; empty without rows."""
    columns: Ints = np.arange(cells.shape[2])
    left = columns.size - measured
    if left < 1 or np.isnan(cells).all():
        return []
    rng = np.random.default_rng(seed)
    already = columns < measured
    return choose(cells, left, scale=name.scale, method=method, already=already, rng=rng).tolist()


def _cells(library: Library, names: tuple[MatrixName, ...], columns: tuple[str, ...]) -> Floats:
    """(b, n, m) cells of these matrices; one row for each application in any of them."""
    matrices = [library.matrices[name] for name in names]
    rows = list(dict.fromkeys(row for matrix in matrices for row in matrix.rows))
    cells = np.stack([_aligned(matrix, rows, columns) for matrix in matrices])
    known = ~np.isnan(cells)
    reachable = known.any(axis=1).sum()
    full = known.sum(axis=(0, 2)) >= MIN_KNOWN * reachable
    return cells[:, full] if full.sum() >= MIN_ROWS and reachable else cells


def _aligned(matrix: Matrix, rows: list[str], columns: tuple[str, ...]) -> Floats:
    """(n, m) cells at these rows and columns; NaN if the matrix lacks them."""
    values = np.full((len(rows), len(columns)), np.nan)
    at = {row: i for i, row in enumerate(rows)}
    shown = [column for column in columns if column in matrix.columns]
    cells = np.ix_([at[row] for row in matrix.rows], [columns.index(c) for c in shown])
    values[cells] = matrix.values[:, [matrix.columns.index(column) for column in shown]]
    return values
