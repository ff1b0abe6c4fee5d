"""Covariance estimates from few rows: shrunk, weighted, low-rank."""

from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from apps.classification.core.estimators.protocol import Rows
from apps.inventory.core.snapshot import Floats, Ints

FLOOR: Final = 1e-8  # of a variance: keeps the covariance invertible if a column is constant

ROUNDS: Final = 10
MAX_GAP_ROWS: Final = 1000
LIBRARY_ROWS: Final = 10.0  # prior weight, in rows, of the covariance of the imputed rows
CELL_NOISE: Final = 0.02  # deviation of a cell, relative
FAR: Final = 4.0  # in deviations of the squared distance: rows with gaps beyond it lose weight

UNSPLIT: Final = 200_000  # multiplications that OpenBLAS runs on one thread


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
    # Σ of the fourth moments over all pairs of columns, without a second matrix product
    fourth = float(weight @ np.einsum("nm,nm->n", centred, centred) ** 2)
    noise = (fourth - total) / m / rows
    distance = total / m - level**2
    shrinkage = 1.0 if distance <= 0 else min(1.0, max(0.0, noise / distance))
    diagonal = (shrinkage * level + FLOOR) * np.eye(m)
    return Shrunk((1.0 - shrinkage) * sample + diagonal, rows)


def _gram(x: Floats) -> Floats:
    """(m, m) xᵀx, in blocks small enough for OpenBLAS to run on one thread.

    Split over threads, a small product waits for a busy core: 40 ms instead of 0.4.
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

    With power 0 each row counts the same, with 1 each application.
    """
    if power == 0.0:
        return np.full(groups.size, 1.0 / groups.size)
    _, index, count = np.unique(groups, return_inverse=True, return_counts=True)
    weight = count[index].astype(np.float64) ** -power
    return weight / weight.sum()


class Moments(NamedTuple):
    """(m,) mean of rows, and their spread."""

    mean: Floats
    spread: Shrunk


_CACHE: Final[WeakKeyDictionary[Rows, dict[float, Moments]]] = WeakKeyDictionary()


def moments_with_gaps(rows: Rows, power: float) -> Moments:
    """Mean and covariance of all rows, including sparse rows and rows with gaps; cached.

    Expectation-maximisation for a Gaussian with missing cells. It starts from the imputed rows,
    whose covariance is a prior worth `LIBRARY_ROWS` rows; outlying rows with gaps lose weight. At
    most `MAX_GAP_ROWS` rows with gaps are used. O(rounds·p·k·m²) for p different sets of k known
    cells.

    Parameters
    ----------
    power : see `group_weights`

    Source: Dempster, Laird and Rubin (1977); Little and Rubin, "Statistical analysis with missing
    data", §11.2; Huber, "Robust statistics" (1981), §8 for the weights.
    """
    known = _CACHE.setdefault(rows, {})
    if power not in known:
        known[power] = _maximised(rows, power)
    return known[power]


def _maximised(rows: Rows, power: float) -> Moments:
    weight = group_weights(rows.groups, power)
    mean = weight @ rows.z
    start = shrunk_covariance(rows.z - mean, weight).covariance
    full, full_weight, parts = _split(rows, power)
    covariance = start
    for _ in range(ROUNDS):
        expected = [_expected(part, mean, covariance) for part in parts]
        mass = full_weight.sum() + sum(float(imputed.weight.sum()) for imputed in expected)
        mean = (
            full_weight @ full + sum(imputed.weight @ imputed.x for imputed in expected)
        ) / mass
        scatter = _gram((full - mean) * np.sqrt(full_weight)[:, None])
        for imputed in expected:
            scatter += (
                _gram((imputed.x - mean) * np.sqrt(imputed.weight)[:, None]) + imputed.residual
            )
        covariance = (scatter + LIBRARY_ROWS * start) / (mass + LIBRARY_ROWS)
    gap_rows = sum(float(part.weight.sum()) * part.sets.shape[1] for part in parts) / mean.size
    return Moments(mean, Shrunk(covariance, float(full_weight.sum()) + gap_rows))


def _split(rows: Rows, power: float) -> tuple[Floats, Floats, list["_GapRows"]]:
    """Complete rows, their weights, and the rows with gaps, grouped by number of known cells."""
    z, known, groups = rows.z, rows.known, rows.groups
    if rows.sparse is not None:
        z = np.vstack([z, rows.sparse.z])
        known = np.vstack([known, rows.sparse.known])
        groups = np.concatenate([groups, rows.sparse.groups])
    weight = group_weights(groups, power)
    weight = weight / float((weight**2).sum())
    count = np.count_nonzero(known, axis=1)
    is_full = count == known.shape[1]
    others = np.flatnonzero(~is_full)
    if others.size > MAX_GAP_ROWS:
        picked = others[np.linspace(0, others.size - 1, MAX_GAP_ROWS).round().astype(np.int64)]
        weight[picked] *= float(weight[others].sum()) / float(weight[picked].sum())
        others = picked
    parts = []
    for k in np.unique(count[others]).tolist():
        at = others[count[others] == k]
        columns = np.nonzero(known[at])[1].reshape(at.size, k)
        sets, set_of_row = np.unique(columns, axis=0, return_inverse=True)
        cells = np.take_along_axis(z[at], columns, axis=1)
        parts.append(_GapRows(sets, set_of_row.reshape(-1), cells, weight[at]))
    return z[is_full], weight[is_full], parts


class _GapRows(NamedTuple):
    """Rows with gaps and k known cells each.

    Attributes
    ----------
    sets : (p, k) different sets of columns
    set_of_row : (g,) index of each row's set
    z : (g, k) cells
    weight : (g,) in rows
    """

    sets: Ints
    set_of_row: Ints
    z: Floats
    weight: Floats


class _Expected(NamedTuple):
    """(g, m) expected rows, (g,) weights, and (m, m) weighted sum of conditional covariances."""

    x: Floats
    weight: Floats
    residual: Floats


def _expected(part: _GapRows, mean: Floats, covariance: Floats) -> _Expected:
    sets, k = part.sets, part.sets.shape[1]
    observed = covariance[sets[:, :, None], sets[:, None, :]] + CELL_NOISE**2 * np.eye(k)
    inverse = np.linalg.inv(np.linalg.cholesky(observed))
    white = inverse @ covariance[sets]
    offset = np.einsum(
        "gkl,gl->gk", inverse[part.set_of_row], part.z - mean[sets][part.set_of_row]
    )
    # the squared distance of k cells is k on average, with a deviation of √(2k)
    usual = k + FAR * np.sqrt(2.0 * k)
    weight = part.weight * np.minimum(1.0, usual / np.maximum((offset**2).sum(axis=1), FLOOR))
    x = mean + np.einsum("gk,gkm->gm", offset, white[part.set_of_row])
    root = np.sqrt(np.bincount(part.set_of_row, weight, len(sets)))[:, None, None]
    residual = weight.sum() * covariance - _gram((white * root).reshape(-1, mean.size))
    return _Expected(x, weight, residual)


def levelled(spread: Shrunk) -> Shrunk:
    """Covariance of the rows after subtracting each row's mean."""
    covariance = spread.covariance
    row = covariance.mean(axis=0)
    covariance = covariance - row - row[:, None] + row.mean()
    return Shrunk(covariance + FLOOR * np.eye(row.size), spread.rows)
