"""Fill a row of a utility matrix from its few known cells.

n dense rows of the library, m columns, k known cells (o), u unknown ones; z are cells in
comparison space: logarithms for rates and speed-ups, points for 0-100 scores. Intervals hold 90 %.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

import numpy as np

from apps.classification.core.matrix import Scale
from apps.classification.core.profile import HALF_WIDTH_90
from apps.inventory.core.snapshot import Bools, Floats

BANDWIDTHS: Final = (0.15, 0.25, 0.4, 0.6, 0.85, 1.2)
MIN_ROWS_TO_CALIBRATE: Final = 5
# what one row alone says nothing of: a factor of e^(1.645 · 0.5) = 2.3, or 41 points, either way
LONE_SPREAD: Final = {Scale.LOG: 0.5, Scale.SCORE: 25.0}
FLOOR: Final = 1e-6  # of a variance, so that a column equal in all rows stays invertible


class EmptyLibraryError(ValueError):
    """There is no dense row to compare with."""


class Fold(NamedTuple):
    """A full row: (m,) values and the ends of their 90 % intervals, in the unit of the matrix."""

    value: Floats
    low: Floats
    high: Floats


class Estimator(Protocol):
    """Completes one row."""

    def __call__(
        self, observed: Floats, known: Bools, library: Floats, *, error: Floats, scale: Scale
    ) -> Fold:
        """Fill the unknown cells of a row.

        Parameters
        ----------
        observed : (m,) values, ignored where not ``known``; > 0 on the log scale
        known : (m,) True where measured; none may be
        library : (n, m) dense rows, n >= 1
        error : (m,) standard errors of the known cells, in the unit of ``observed``
        scale : comparison space

        Returns
        -------
        Known cells keep their measured value, with the interval of their error.

        Raises
        ------
        EmptyLibraryError : the library has no row.
        """
        ...


@dataclass(frozen=True, slots=True, eq=False)
class _Spread:
    """Predictions of unknown cells: (q, u) means and standard deviations."""

    mean: Floats
    deviation: Floats


def kde(observed: Floats, known: Bools, library: Floats, *, error: Floats, scale: Scale) -> Fold:
    """Conditional kernel density: dense rows are Gaussian components, the known cells weigh them.

    p(z) = 1/n Σ_r N(z; z_r, h²C), C the Ledoit-Wolf covariance of the library. Given z_o,
    component r has weight ∝ N(z_o; z_r,o, h²C_oo + E) and mean z_r,u + h²C_uo (h²C_oo + E)⁻¹ (z_o
    - z_r,o), in closed form; E are the known cells' error variances. h is the one of six that
    predicts the library's own rows best, each left out in turn, and the interval is widened or
    narrowed so that it would have held 90 % of them.

    Source: Nadaraya (1964), Watson (1964) with local linear components; Ledoit and Wolf (2004).
    O(n²·m).
    """
    z, e = _to_space(observed, known, error, scale)
    rows = _rows(library, scale)
    if rows.shape[0] == 1:
        return _lone(z, e, known, rows, scale)
    covariance = shrunk_covariance(rows)
    left_out = [_kernel(rows, rows, known, covariance * h**2, e, same=True) for h in BANDWIDTHS]
    truth = rows[:, ~known]
    misses = [float(((p.mean - truth) ** 2).sum()) for p in left_out]
    best = int(np.argmin(misses))
    bent = covariance * BANDWIDTHS[best] ** 2
    spread = _kernel(z[None, :], rows, known, bent, e, same=False)
    return _fold(z, e, known, spread, _calibration(left_out[best], truth), scale)


def column_mean(
    observed: Floats, known: Bools, library: Floats, *, error: Floats, scale: Scale
) -> Fold:
    """Column means, moved by the mean distance of the known cells from theirs.

    On the log scale the move is a factor. The plain baseline: it knows that some columns are high
    and some rows are high, and nothing else.
    """
    z, e = _to_space(observed, known, error, scale)
    rows = _rows(library, scale)
    if rows.shape[0] == 1:
        return _lone(z, e, known, rows, scale)
    others = (rows.sum(axis=0) - rows) / (rows.shape[0] - 1)
    left_out = others[:, ~known] + _shift(rows - others, known)
    truth = rows[:, ~known]
    deviation = np.sqrt(((left_out - truth) ** 2).mean(axis=0) + FLOOR)
    mean = rows.mean(axis=0)
    value = mean[~known] + _shift((z - mean)[None, :], known)[0]
    spread = _Spread(value[None, :], deviation[None, :])
    factor = _calibration(_Spread(left_out, np.broadcast_to(deviation, truth.shape)), truth)
    return _fold(z, e, known, spread, factor, scale)


ESTIMATORS: Final[dict[str, Estimator]] = {"kde": kde, "column_mean": column_mean}
DEFAULT: Final = "kde"


def shrunk_covariance(rows: Floats) -> Floats:
    """(m, m) covariance of (n, m) rows, shrunk towards its mean variance; always invertible.

    Source: Ledoit and Wolf, "A well-conditioned estimator for large-dimensional covariance
    matrices" (2004), lemma 3.2 and 3.3, as in scikit-learn.
    """
    n, m = rows.shape
    centred = rows - rows.mean(axis=0)
    sample = centred.T @ centred / n
    level = float(np.trace(sample)) / m
    squares = centred**2
    noise = float((squares.T @ squares / n - sample**2).sum()) / m / n
    distance = float((sample**2).sum()) / m - level**2
    shrinkage = 1.0 if distance <= 0 else min(1.0, noise / distance)
    return (1.0 - shrinkage) * sample + (shrinkage * level + FLOOR) * np.eye(m)


def _kernel(
    queries: Floats, rows: Floats, known: Bools, bent: Floats, error: Floats, *, same: bool
) -> _Spread:
    """Mixture means and deviations of the unknown cells of (q, m) queries.

    ``same`` : the queries are the rows, and each is left out of its own mixture.
    """
    seen = bent[np.ix_(known, known)] + np.diag(error[known] ** 2)
    across = bent[np.ix_(~known, known)]
    gain = np.linalg.solve(seen, across.T).T
    rest = bent[np.ix_(~known, ~known)] - gain @ across.T
    base = rows[:, ~known] - rows[:, known] @ gain.T
    weight = _weights(queries[:, known], rows[:, known], seen, same=same)
    mean = weight @ base
    scatter = np.maximum(weight @ base**2 - mean**2, 0.0)
    deviation = np.sqrt(scatter + np.maximum(np.diag(rest), FLOOR))
    return _Spread(mean + queries[:, known] @ gain.T, deviation)


def _weights(queries: Floats, rows: Floats, seen: Floats, *, same: bool) -> Floats:
    """(q, n) share of each component, by the density of the known cells."""
    root = np.linalg.cholesky(seen)
    a, b = np.linalg.solve(root, queries.T).T, np.linalg.solve(root, rows.T).T
    logs = -0.5 * ((a[:, None, :] - b[None, :, :]) ** 2).sum(axis=2)
    if same:
        np.fill_diagonal(logs, -np.inf)
    weight = np.exp(logs - logs.max(axis=1, keepdims=True))
    return weight / weight.sum(axis=1, keepdims=True)


def _calibration(left_out: _Spread, truth: Floats) -> float:
    """Half width in deviations that would have held 90 % of the library's own cells."""
    if truth.shape[0] < MIN_ROWS_TO_CALIBRATE or truth.size == 0:
        return 2.0 * HALF_WIDTH_90
    return float(np.quantile(np.abs(left_out.mean - truth) / left_out.deviation, 0.9))


def _shift(offsets: Floats, known: Bools) -> Floats:
    """(q, 1) mean offset of the known cells, 0 when none is known."""
    if not known.any():
        return np.zeros((offsets.shape[0], 1))
    return offsets[:, known].mean(axis=1, keepdims=True)


def _rows(library: Floats, scale: Scale) -> Floats:
    if library.shape[0] == 0:
        raise EmptyLibraryError("the library has no dense row to compare with")
    return _FORWARD[scale](library)


def _to_space(
    observed: Floats, known: Bools, error: Floats, scale: Scale
) -> tuple[Floats, Floats]:
    """Known cells and their errors in comparison space, 0 elsewhere."""
    safe = np.where(known, observed, 1.0)
    if scale is Scale.LOG and (safe <= 0).any():
        raise ValueError(f"cells on the log scale must be positive, got {observed[known]}")
    relative = np.where(known, error, 0.0) / (safe if scale is Scale.LOG else 1.0)
    return np.where(known, _FORWARD[scale](safe), 0.0), relative


def _lone(z: Floats, e: Floats, known: Bools, rows: Floats, scale: Scale) -> Fold:
    mean = rows[0, ~known] + _shift(z[None, :] - rows, known)[0]
    deviation = np.full(mean.size, LONE_SPREAD[scale])
    return _fold(z, e, known, _Spread(mean[None, :], deviation[None, :]), HALF_WIDTH_90, scale)


def _fold(
    z: Floats, e: Floats, known: Bools, spread: _Spread, factor: float, scale: Scale
) -> Fold:
    """Known cells as measured, the others as predicted, back in the unit of the matrix."""
    centre, half = z.copy(), HALF_WIDTH_90 * e
    centre[~known] = spread.mean[0]
    half[~known] = factor * spread.deviation[0]
    back = _BACK[scale]
    return Fold(back(centre), back(centre - half), back(centre + half))


def _clipped(scores: Floats) -> Floats:
    return np.clip(scores, 0.0, 100.0)


_FORWARD: Final[dict[Scale, Callable[[Floats], Floats]]] = {
    Scale.LOG: np.log,
    Scale.SCORE: np.array,
}
_BACK: Final[dict[Scale, Callable[[Floats], Floats]]] = {Scale.LOG: np.exp, Scale.SCORE: _clipped}
