"""Matrix factors: the papers' SVD + PQ-reconstruction, and alternating least squares.

A is the matrix of performance relative to the row's best, with the new row as its last one; Q are
row factors, P column factors, r the rank, η the learning rate, λ the regularisation.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np

from apps.classification.core.estimators.protocol import (
    Learner,
    Observed,
    Predictor,
    Rows,
    Spread,
)
from apps.inventory.core.snapshot import Bools, Floats, Ints

RANK: Final = 4
RATE: Final = 0.02  # η
STEADY: Final = 1.0  # largest η‖p‖²
MIN_PERFORMANCE: Final = (
    1e-3  # of the row's best: lower limit of a reconstruction, which may be negative
)
ALS_ROUNDS: Final = 10
ALS_RIDGE: Final = 0.1


class Bias(StrEnum):
    """Biases subtracted before factoring."""

    NONE = "none"  # Paragon: r ≈ q·p
    ROW = "row"  # Quasar: r ≈ μ + b_u + q·p
    ROW_AND_COLUMN = "row_and_column"  # r ≈ μ + b_u + b_i + q·p


@dataclass(frozen=True, slots=True, eq=False)
class _Reconstruction:
    library: Floats  # (n, m) in (0, 1], columns in the order of ``order``
    order: Ints
    bias: Bias
    aligned: bool

    def predict(self, observed: Observed) -> Spread:
        position = np.argsort(self.order)
        mean = np.empty((len(observed.at), self.order.size))
        for i in range(len(mean)):
            mean[i, self.order] = self._row(observed.z[i], position[observed.at[i]])
        return Spread(mean, np.ones(mean.shape))

    def _row(self, z: Floats, at: Ints) -> Floats:
        """Retrain with the new row, as in the papers."""
        reference = np.log(self.library.mean(axis=0))[at] if self.aligned else np.zeros(at.size)
        offset = z - reference
        scale = float(offset.mean() if self.aligned else offset.max()) if at.size else 0.0
        matrix = np.vstack([self.library, np.zeros(self.library.shape[1])])
        mask = np.ones(matrix.shape, dtype=np.bool_)
        mask[-1] = False
        mask[-1, at] = True
        # limits the exponent to plausible performance
        matrix[-1, at] = np.exp(np.clip(z - scale, -30.0, 30.0))
        full = _reconstructed(matrix, mask, self.bias)[-1]
        return np.log(np.maximum(full, MIN_PERFORMANCE)) + scale


def reconstruction(bias: Bias, *, aligned: bool) -> Learner:
    """SVD, then PQ-reconstruction by stochastic gradient descent, retrained for every new row.

    As printed, over the known cells in order: e = r - q·p (Quasar: r - μ - b_u - q·p),
    q ← q + η(e·p - λ·q), p ← p + η(e·q - λ·p), until ‖e‖₂ stops shrinking. The start is the SVD
    of rank 4 of the matrix whose missing cells hold the column mean (without a bias) or 0 (after
    the biases). With full rank and gaps at 0, the start would already fit every known cell,
    and gradient descent would not change it. Quasar's model has no column bias, so a new row
    shrinks to a flat one. O(epochs·n·m·r) for each row.

    Performance is relative to the best configuration of the row. For a new row this is the best
    known cell; if ``aligned``, the scale is instead chosen so that the known cells match the
    column means. This is not in the papers, and has lower errors.

    Source: Paragon §2.1 and §2.2; Quasar §3.2; P2. η, λ and r are not printed.
    """

    def learn(rows: Rows, rng: np.random.Generator) -> Predictor:
        best = rows.z.max(axis=1, keepdims=True)
        relative = np.maximum(np.exp(rows.z - best), MIN_PERFORMANCE)
        # gradient descent visits cells in order: make it independent of the column order
        order = np.lexsort((rows.z.std(axis=0), rows.z.mean(axis=0)))
        return _Reconstruction(relative[:, order], order, bias, aligned)

    return learn


def _reconstructed(matrix: Floats, known: Bools, bias: Bias) -> Floats:
    """(n + 1, m) model of all cells."""
    count = known.sum()
    base = np.zeros(matrix.shape)
    if bias is not Bias.NONE:
        base += np.where(known, matrix, 0.0).sum() / count
        if bias is Bias.ROW_AND_COLUMN:
            # before the row bias: known cells in two fast columns must not make the row look fast
            base += _means(matrix - base, known, axis=0)
        base += _means(matrix - base, known, axis=1)
    gaps = _means(matrix, known, axis=0) if bias is Bias.NONE else np.zeros((1, matrix.shape[1]))
    start = np.where(known, matrix - base, gaps)
    u, s, vt = np.linalg.svd(start, full_matrices=False)
    rank = min(RANK, s.size)
    q, p = u[:, :rank].copy(), (s[:rank, None] * vt[:rank]).T.copy()
    # imported on first use, see `mixture`
    from apps.classification.core.estimators import kernels  # noqa: PLC0415

    # gradient descent diverges if η‖p‖² exceeds 2
    longest = max(float((p**2).sum(axis=1).max()), float((q**2).sum(axis=1).max()))
    kernels.descend(matrix - base, known, q, p, min(RATE, STEADY / longest))
    return base + q @ p.T


def _means(values: Floats, known: Bools, axis: int) -> Floats:
    count = np.maximum(known.sum(axis=axis, keepdims=True), 1)
    return np.where(known, values, 0.0).sum(axis=axis, keepdims=True) / count


@dataclass(frozen=True, slots=True, eq=False)
class _Factors:
    mean: Floats
    columns: Floats  # (m, r)
    deviation: Floats

    def predict(self, observed: Observed) -> Spread:
        loadings = self.columns[observed.at]
        square = loadings.transpose(0, 2, 1) @ loadings + ALS_RIDGE * np.eye(self.columns.shape[1])
        offset = observed.z - self.mean[observed.at]
        level = offset.sum(axis=1, keepdims=True) / max(observed.at.shape[1], 1)
        right = np.einsum("qkr,qk->qr", loadings, offset - level)
        row = np.linalg.solve(square, right[:, :, None])[:, :, 0]
        mean = self.mean + level + row @ self.columns.T
        return Spread(mean, np.broadcast_to(self.deviation, mean.shape))


def alternating(rows: Rows, rng: np.random.Generator) -> Predictor:
    """Biases and rank-4 factors by alternating least squares; a new row is folded in.

    z ≈ b_i + b_u + q·p, where b_i is the column mean and b_u the mean distance from it of the
    row's known cells.

    Source: Zhou et al., "Large-scale parallel collaborative filtering for the Netflix prize"
    (2008), started at the SVD. O(rounds·n·m·r).
    """
    mean = rows.z.mean(axis=0)
    rest = rows.z - mean
    rest = rest - rest.mean(axis=1, keepdims=True)
    vt = np.linalg.svd(rest, full_matrices=False)[2]
    columns = vt[: min(RANK, vt.shape[0])].T.copy()
    ridge = ALS_RIDGE * np.eye(columns.shape[1])
    row = np.zeros((len(rest), columns.shape[1]))
    for _ in range(ALS_ROUNDS):
        row = np.linalg.solve(columns.T @ columns + ridge, columns.T @ rest.T).T
        columns = np.linalg.solve(row.T @ row + ridge, row.T @ rest).T
    residual = rest - row @ columns.T
    return _Factors(mean, columns, np.sqrt((residual**2).mean(axis=0)) + 0.05)
