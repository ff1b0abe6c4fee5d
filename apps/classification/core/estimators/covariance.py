"""Covariances of few rows: shrunk, weighted, of low rank."""

from typing import Final, NamedTuple

import numpy as np

from apps.inventory.core.snapshot import Floats, Ints

FLOOR: Final = 1e-8  # of a variance, so that a column equal in all rows stays invertible

UNSPLIT: Final = 200_000  # multiplications that OpenBLAS leaves to one thread


class Shrunk(NamedTuple):
    """(m, m) covariance and the effective number of rows it came from."""

    covariance: Floats
    rows: float


def shrunk_covariance(centred: Floats, weight: Floats) -> Shrunk:
    """(m, m) covariance of (n, m) centred rows, shrunk towards its mean variance; invertible.

    Parameters
    ----------
    centred : (n, m) rows minus their weighted mean
    weight : (n,) >= 0, sum 1

    Source: Ledoit and Wolf, "A well-conditioned estimator for large-dimensional covariance
    matrices" (2004), lemmas 3.2 and 3.3, as in scikit-learn; with weights, n is 1 / Σ w².
    O(n·m²).
    """
    m = centred.shape[1]
    rows = 1.0 / float((weight**2).sum())
    sample = _gram(centred * np.sqrt(weight)[:, None])
    level = float(np.trace(sample)) / m
    total = float((sample**2).sum())
    # Σ over all pairs of columns of the fourth moments: no second product of matrices
    fourth = float(weight @ np.einsum("nm,nm->n", centred, centred) ** 2)
    noise = (fourth - total) / m / rows
    distance = total / m - level**2
    shrinkage = 1.0 if distance <= 0 else min(1.0, max(0.0, noise / distance))
    diagonal = (shrinkage * level + FLOOR) * np.eye(m)
    return Shrunk((1.0 - shrinkage) * sample + diagonal, rows)


def _gram(x: Floats) -> Floats:
    """(m, m) xᵀx, in blocks that the library of matrix products does not split over threads.

    Split, the product of a small matrix waits for a core that is busy elsewhere: 40 ms, not 0.4.
    """
    n, m = x.shape
    block = max(1, UNSPLIT // m**2)
    even = n // block * block
    blocks = x[:even].reshape(-1, block, m)
    rest = x[even:]
    return np.asarray((blocks.transpose(0, 2, 1) @ blocks).sum(axis=0) + rest.T @ rest)


def low_rank_covariance(centred: Floats, rank: int) -> Floats:
    """(m, m) covariance of probabilistic PCA: ``rank`` directions and one noise for all.

    Source: Tipping and Bishop, "Probabilistic principal component analysis" (1999), eq. 7 and 8.
    """
    n, m = centred.shape
    values, vectors = np.linalg.eigh(centred.T @ centred / n)
    rank = min(rank, m - 1, n - 1)
    if rank < 1:
        return (float(values.mean()) + FLOOR) * np.eye(m)
    noise = max(float(values[: m - rank].mean()), FLOOR)
    main = vectors[:, m - rank :]
    strength = np.maximum(values[m - rank :] - noise, 0.0)
    return (main * strength) @ main.T + noise * np.eye(m)


def group_weights(groups: Ints, power: float) -> Floats:
    """(n,) weights, sum 1: a row of an application with c rows counts c to the minus ``power``.

    0 counts rows, 1 counts applications.
    """
    if power == 0.0:
        return np.full(groups.size, 1.0 / groups.size)
    _, index, count = np.unique(groups, return_inverse=True, return_counts=True)
    weight = count[index].astype(np.float64) ** -power
    return weight / weight.sum()
