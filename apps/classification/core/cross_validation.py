"""Held-out error of sets of measured columns: how well they predict the other columns.

P sets of k columns each, n rows, m columns, G applications; z in comparison space (`protocol`).
Every row is predicted from the rows of other applications as a mixture of Gaussian components
around them (the family of `estimators.local`, two members of it):

weight_r ∝ w_r · (1 + d_r² / nu)^(-(nu + k) / 2), d_r the Mahalanobis distance of the set's cells;
prediction = Σ_r weight_r · x_r + S_·o (S_oo + noise)⁻¹ (z_o - Σ_r weight_r · x_r,o).

All sets are predicted at once, so that the work is a few matrix products.
"""

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, NamedTuple, Self

import numpy as np

from apps.classification.core.estimators.covariance import group_weights, shrunk_covariance
from apps.classification.core.estimators.imputation import is_sparse
from apps.classification.core.estimators.protocol import Rows, forward
from apps.classification.core.estimators.tuning import rows_of
from apps.classification.core.matrix import Scale
from apps.inventory.core.snapshot import Bools, Floats, Ints

# With 64, 128 or 256 errors of the chosen columns on the real sets are within 3 %.
MAX_ROWS: Final = 128
WIDTH: Final = 0.4  # of a component, in deviations of the rows
TAIL: Final = 4  # degrees of freedom nu of the weights
FREEDOM: Final = (0.0, 1.0)  # of the level of a component, in variances of the rows' levels
NOISE: Final = 0.02  # deviation of a measured cell
MAX_ERROR: Final = 1.5  # limits the effect of one impossible cell
BY_APPLICATION: Final = 0.5  # a row of an application of c rows counts c^-0.5
WORKING_CELLS: Final = 4_000_000  # of the largest temporary array
MAX_CACHED_SETS: Final = 10_000  # column sets with cached errors, per library


class _Components(NamedTuple):
    """Components (n, m), their covariance (m, m) and weights (n,)."""

    centre: Floats
    covariance: Floats
    weight: Floats


class _Split(NamedTuple):
    """Indices of held-out rows, their z (q, m) relative to the others' mean, and the mixtures."""

    rows: Ints
    z: Floats
    mixtures: tuple[_Components, ...]


@dataclass(frozen=True, slots=True, eq=False)
class CrossValidation:
    """A library prepared for evaluating sets of columns; results are cached.

    Attributes
    ----------
    rows : at most `MAX_ROWS`, gaps filled, in an order that depends on their cells only
    share : (n,) weight of each row, sum 1
    covariance : (m, m) of the rows, level included
    """

    rows: Rows
    share: Floats
    covariance: Floats
    parts: tuple[_Split, ...]
    _cache: dict[tuple[int, ...], Floats] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, library: Floats, scale: Scale, groups: Ints) -> Self:
        """Prepare a library of n >= 1 rows; every row and column must have a known cell.

        O(n log n · m), and O(n·m² + m³) for at most `MAX_ROWS` rows, times m if there are gaps.
        """
        full = ~is_sparse(~np.isnan(library))
        z, groups = forward(library[full], scale), groups[full]
        at = _thinned(z)
        z, of_row = z[at], groups[at].tolist()
        numbers = {name: i for i, name in enumerate(dict.fromkeys(of_row))}
        of_row = np.array([numbers[name] for name in of_row], dtype=np.int64)
        if len(numbers) < 2:
            of_row = np.arange(len(z))  # one application only: hold out its rows instead
        rows = rows_of(z, ~np.isnan(z), of_row)
        share = group_weights(of_row, BY_APPLICATION)
        centred = rows.z - share @ rows.z
        parts = tuple(_split(rows, out, kept) for out, kept in rows.splits)
        return cls(rows, share, shrunk_covariance(centred, share).covariance, parts)

    def errors(self, sets: Ints) -> Floats:
        """(P, G) contribution of each application to the mean error of the cells outside each set.

        The sum over the applications is the average absolute error in comparison space. An
        application that cannot be held out contributes 0. O(P·n²·m) for sets not in the cache.
        """
        keys = [tuple(sorted(chosen)) for chosen in sets.tolist()]
        if len(self._cache) > MAX_CACHED_SETS:
            self._cache.clear()
        new = [key for key in dict.fromkeys(keys) if key not in self._cache]
        if new:
            self._cache.update(zip(new, self._errors(np.array(new, dtype=np.int64)), strict=True))
        return np.array([self._cache[key] for key in keys])

    def _errors(self, sets: Ints) -> Floats:
        off = np.zeros((len(sets), len(self.rows.z)))
        for part in self.parts:
            count = part.rows.size * max(self.rows.z.shape)
            step = max(1, WORKING_CELLS // count)
            for first in range(0, len(sets), step):
                some = sets[first : first + step]
                off[first : first + step, part.rows] = self._part_errors(part, some)
        weighted = off * self.share
        groups = int(self.rows.groups.max()) + 1
        return np.array([np.bincount(self.rows.groups, row, groups) for row in weighted])

    def deviations(self, sets: Ints) -> Floats:
        """(P,) mean residual deviation of the cells outside each set, if rows were Gaussian.

        The A-criterion with deviations in place of variances, since errors are judged by their
        size. O(P·k²·m). Source: Pukelsheim, "Optimal design of experiments" (1993), §6.
        """
        across = self.covariance[sets]
        observed = np.take_along_axis(across, sets[:, None, :], axis=2) + _ridge(sets)
        explained = (across * np.linalg.solve(observed, across)).sum(axis=1)
        left = np.sqrt(np.maximum(np.diag(self.covariance) - explained, 0.0))
        outside = _outside(sets, left.shape[1])
        return np.where(outside, left, 0.0).sum(axis=1) / np.maximum(outside.sum(axis=1), 1)

    def _part_errors(self, part: _Split, sets: Ints) -> Floats:
        """(P, q) mean absolute errors of the known cells outside each set."""
        guesses = [_predicted(mixture, part.z, sets) for mixture in part.mixtures]
        off = np.minimum(np.abs(sum(guesses) / len(guesses) - part.z), MAX_ERROR)
        cells = _outside(sets, part.z.shape[1])[:, None, :] & self.rows.known[part.rows]
        return np.where(cells, off, 0.0).sum(axis=2) / np.maximum(cells.sum(axis=2), 1)


def cross_validation(library: Floats, scale: Scale, groups: Ints) -> CrossValidation:
    """Prepare a library; cached, because each new application uses the same revision."""
    cells, of_row = np.ascontiguousarray(library), np.ascontiguousarray(groups)
    return _cached(scale, cells.shape, cells.tobytes(), of_row.dtype.str, of_row.tobytes())


@lru_cache(maxsize=16)
def _cached(
    scale: Scale, shape: tuple[int, ...], cells: bytes, kind: str, groups: bytes
) -> CrossValidation:
    library = np.frombuffer(cells, dtype=np.float64).reshape(shape)
    return CrossValidation.of(library, scale, np.frombuffer(groups, dtype=kind))


def _thinned(z: Floats) -> Ints:
    """Select at most `MAX_ROWS` rows, plus one for each column they leave empty."""
    keys = np.where(np.isnan(z), np.inf, z)
    order = np.lexsort(keys.T[::-1])
    if order.size <= MAX_ROWS:
        return order
    picked = np.linspace(0, order.size - 1, MAX_ROWS).round().astype(np.int64)
    known = ~np.isnan(z[order])
    empty = np.flatnonzero(~known[picked].any(axis=0))
    return order[np.unique(np.concatenate([picked, known[:, empty].argmax(axis=0)]))]


def _split(rows: Rows, out: Bools, kept: Rows) -> _Split:
    weight = group_weights(kept.groups, BY_APPLICATION)
    mean = weight @ kept.z
    rest = kept.z - mean
    covariance = shrunk_covariance(rest, weight).covariance
    height = max(float(weight @ rest.mean(axis=1) ** 2), float(np.trace(covariance)) / mean.size)
    # West (1993): moved towards the mean, the components together keep the rows' covariance
    centre = np.sqrt(1.0 - WIDTH**2) * rest
    mixtures = tuple(
        _Components(centre, WIDTH**2 * covariance + freedom * height, weight)
        for freedom in FREEDOM
    )
    return _Split(np.flatnonzero(out), rows.z[out] - mean, mixtures)


def _predicted(mixture: _Components, z: Floats, sets: Ints) -> Floats:
    """(P, q, m) rows given their cells of each set."""
    (p, k), q = sets.shape, len(z)
    across = mixture.covariance[sets]
    observed = np.take_along_axis(across, sets[:, None, :], axis=2) + _ridge(sets)
    white = np.linalg.inv(np.linalg.cholesky(observed))
    cells = z[:, sets].transpose(1, 0, 2)
    weight = _weights(
        np.einsum("pqk,pjk->pqj", cells, white),
        np.einsum("npk,pjk->pnj", mixture.centre[:, sets], white),
    )
    weight *= mixture.weight
    weight /= weight.sum(axis=2, keepdims=True)
    mean = (weight.reshape(p * q, -1) @ mixture.centre).reshape(p, q, -1)
    offset = cells - np.take_along_axis(mean, np.broadcast_to(sets[:, None, :], (p, q, k)), axis=2)
    # einsum, because BLAS threads cost more than they save for small products
    return mean + np.einsum("pqk,pkm->pqm", offset, np.linalg.solve(observed, across))


def _weights(rows: Floats, components: Floats) -> Floats:
    """(P, q, n) Student weights of components by their distance, 1 for the nearest."""
    (p, q, k), n = rows.shape, components.shape[1]
    squared = np.zeros((p, q, n))
    for a in range(k):
        squared += (rows[:, :, None, a] - components[:, None, :, a]) ** 2
    ratio = (TAIL + squared.min(axis=2, keepdims=True)) / (TAIL + squared)
    power = TAIL + k
    whole = ratio ** (power // 2)
    return whole * np.sqrt(ratio) if power % 2 else whole


def _ridge(sets: Ints) -> Floats:
    return NOISE**2 * np.eye(sets.shape[1])


def _outside(sets: Ints, columns: int) -> Bools:
    """(P, m) True for the columns that are not in each set."""
    outside = np.ones((len(sets), columns), dtype=np.bool_)
    np.put_along_axis(outside, sets, False, axis=1)
    return outside
