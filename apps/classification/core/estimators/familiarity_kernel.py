"""Compiled loop of `familiarity`. Only workers import this module, never web processes.

n components, m columns, k known cells, q rows.
"""

from typing import Any, Final

import numpy as np

from apps.common.core.compiled import jit

FLOOR: Final = 1e-12  # of a variance left by the cells before

# Sums may be reordered, but NaN and infinity must propagate: no nnan, no ninf.
_loose: Any = jit(fastmath={"reassoc", "contract", "nsz", "arcp"})


@_loose
def fill_scores(columns, covariance, at, z, noise, scores):  # type: ignore[no-untyped-def]
    """Fill (q,) ``scores`` of rows with known cells; columns (m, n), noise (q, k) variances."""
    k, n = at.shape[1], columns.shape[1]
    root, white, squared = np.empty((k, k)), np.empty((k, n)), np.empty(n)
    for row in range(at.shape[0]):
        squared[:] = 0.0
        for a in range(k):
            _factor(covariance, at[row], a, noise[row, a], root)
            _distances(columns[at[row, a]], z[row, a], a, root, white)
            for r in range(n):
                squared[r] += white[a, r] * white[a, r]
        least, total = squared.min(), 0.0
        for r in range(n):
            total += np.exp(-0.5 * (squared[r] - least))
        scores[row] = 0.5 * least - np.log(total / n)


@_loose
def _factor(covariance, at, a, noise, root):  # type: ignore[no-untyped-def]
    """Fill row a of the Cholesky factor of the known cells' covariance."""
    left = covariance[at[a], at[a]] + noise
    for b in range(a):
        entry = covariance[at[a], at[b]]
        for c in range(b):
            entry -= root[a, c] * root[b, c]
        root[a, b] = entry / root[b, b]
        left -= root[a, b] * root[a, b]
    root[a, a] = np.sqrt(max(left, FLOOR))


@_loose
def _distances(column, z, a, root, white):  # type: ignore[no-untyped-def]
    """Fill row a of the inverse factor times the distances from the components."""
    inverse = 1.0 / root[a, a]
    for r in range(column.size):
        rest = z - column[r]
        for b in range(a):
            rest -= root[a, b] * white[b, r]
        white[a, r] = rest * inverse
