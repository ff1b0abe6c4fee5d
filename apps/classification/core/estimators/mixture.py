"""The conditional mean and spread of a mixture of Gaussians that share one covariance.

The hot loop of the default estimator: one pass over the components for each row, no temporary
array of components x columns. `tests/classification/core/test_mixture.py` holds it to the plain
formula.
"""

from typing import Final, NamedTuple

import numba
import numpy as np

from apps.inventory.core.snapshot import Floats, Ints

NEGLIGIBLE: Final = 1e-3  # of all weight: as much may be left out, in components far away
FLOOR: Final = 1e-8  # of a variance


class Components(NamedTuple):
    """Centres twice, by component and by column: the loops run along either.

    Attributes
    ----------
    rows : (n, m) contiguous; numbers near 0 keep the variance exact
    columns : (m, n) contiguous
    """

    rows: Floats
    columns: Floats


def components(centre: Floats) -> Components:
    """Lay out (n, m) centres for `condition`."""
    return Components(np.ascontiguousarray(centre), np.ascontiguousarray(centre.T))


def condition(  # noqa: PLR0913, PLR0917 - numba takes arrays, not objects that hold them
    centre: Components,
    bent: Floats,
    weight: Floats,
    tail: float,
    z: Floats,
    at: Ints,
    noise: Floats,
) -> tuple[Floats, Floats]:
    """(q, m) means and (q, m) deviations of rows of which k cells are known.

    Parameters
    ----------
    centre : of the n components
    bent : (m, m) their common covariance
    weight : (n,) of the components, before anything is known
    tail : whole degrees of freedom of the Student t that weighs components; inf is a Gaussian
    z : (q, m) rows, relative to the same origin as ``centre``; used at the known columns only
    at : (q, k) the known columns of each row
    noise : (q, k) variances of the known cells' errors

    O(q·n·(k² + m·k)).
    """
    q, m = z.shape
    mean, deviation = np.empty((q, m)), np.empty((q, m))
    _condition(
        centre.rows,
        centre.columns,
        np.ascontiguousarray(bent),
        weight,
        tail,
        np.ascontiguousarray(z),
        np.ascontiguousarray(at),
        np.ascontiguousarray(noise),
        mean,
        deviation,
    )
    return mean, deviation


@numba.njit(cache=True)
def _condition(  # type: ignore[no-untyped-def]  # noqa: PLR0913, PLR0917 - numba
    centre, columns, bent, weight, tail, z, at, noise, mean, deviation
):
    n, m = centre.shape
    k = at.shape[1]
    squared, share, gain = np.empty(n), np.empty(n), np.empty((m, k))
    for row in range(z.shape[0]):
        inverse = _inverse(bent, at[row], noise[row])
        _gain(bent, at[row], inverse, gain)
        _distances(columns, z[row], at[row], inverse, squared)
        _shares(squared, weight, tail, k, share)
        _moments(centre, share, z[row], at[row], gain, mean[row], deviation[row])
        for j in range(m):
            rest = bent[j, j]
            for a in range(k):
                rest -= gain[j, a] * bent[j, at[row, a]]
            deviation[row, j] = np.sqrt(max(deviation[row, j], 0.0) + max(rest, FLOOR))


@numba.njit(cache=True)
def _inverse(bent, at, noise):  # type: ignore[no-untyped-def]
    k = at.size
    seen = np.empty((k, k))
    for a in range(k):
        for b in range(k):
            seen[a, b] = bent[at[a], at[b]]
        seen[a, a] += noise[a]
    return np.linalg.inv(seen)


@numba.njit(cache=True)
def _gain(bent, at, inverse, gain):  # type: ignore[no-untyped-def]
    for j in range(gain.shape[0]):
        for a in range(at.size):
            total = 0.0
            for b in range(at.size):
                total += bent[j, at[b]] * inverse[b, a]
            gain[j, a] = total


@numba.njit(cache=True, fastmath={"reassoc", "contract"})
def _distances(columns, z, at, inverse, squared):  # type: ignore[no-untyped-def]
    squared[:] = 0.0
    for a in range(at.size):
        first, za = columns[at[a]], z[at[a]]
        for b in range(a + 1):
            second, zb = columns[at[b]], z[at[b]]
            factor = inverse[a, b] * (1.0 if a == b else 2.0)
            for r in range(squared.size):
                squared[r] += factor * (za - first[r]) * (zb - second[r])


@numba.njit(cache=True, fastmath={"reassoc", "contract"})
def _shares(squared, weight, tail, k, share):  # type: ignore[no-untyped-def]
    """Weights of the components, sum 1; the nearest is the unit, so that nothing underflows."""
    for r in range(squared.size):
        # rounding, when the covariance is nearly singular
        squared[r] = max(squared[r], 0.0)
    nearest = squared.min()
    total = 0.0
    if np.isinf(tail):
        for r in range(squared.size):
            share[r] = weight[r] * np.exp(-0.5 * (squared[r] - nearest))
            total += share[r]
    else:
        # whole powers of a square root: a general power costs five times as much
        power = round(tail) + k
        for r in range(squared.size):
            ratio = (tail + nearest) / (tail + squared[r])
            factor = weight[r] * (np.sqrt(ratio) if power % 2 else 1.0)
            for _ in range(power // 2):
                factor *= ratio
            share[r] = factor
            total += factor
    share /= total


@numba.njit(cache=True, fastmath={"reassoc", "contract"})
def _moments(  # type: ignore[no-untyped-def]  # noqa: PLR0913, PLR0917 - numba
    centre, share, z, at, gain, mean, scatter
):
    """Mean of the row, and the scatter of what the components say of it."""
    m, k = gain.shape
    first, second, base = np.zeros(m), np.zeros(m), np.empty(m)
    least = NEGLIGIBLE / share.size
    kept = 0.0
    for r in range(share.size):
        w = share[r]
        if w < least:
            continue
        kept += w
        for j in range(m):
            base[j] = centre[r, j]
        for a in range(k):
            away = z[at[a]] - centre[r, at[a]]
            for j in range(m):
                base[j] += gain[j, a] * away
        for j in range(m):
            first[j] += w * base[j]
            second[j] += w * base[j] * base[j]
    for j in range(m):
        mean[j] = first[j] / kept
        scatter[j] = second[j] / kept - mean[j] * mean[j]
