"""Compiled inner loops of the estimators. Only workers import this module, never web processes.

Importing numba takes a second and 100 MB, so `mixture` and `factors` import this module on first
use. `tests/classification/core/test_mixture.py` compares the mixture with the plain formula.

n components, m columns, k known cells, q rows, M members. Centres and weights are 32-bit, because
centres lie near 0; values that depend only on the new row are 64-bit.
"""

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from apps.common.core.compiled import jit

if TYPE_CHECKING:
    from apps.classification.core.estimators.mixture import MixtureLayout

# Degrees of freedom of the Student t that widens the interval of a row far from all components.
SURPRISE: Final = 4.0
NEGLIGIBLE: Final = 1e-3  # share of the total weight that distant components may lose
FLOOR: Final = 1e-8  # of a variance
FUSED: Final = 2  # number of known cells with a special-cased loop
CROWDED: Final = (
    3  # if more than a third of the components count, a pass over all of them is faster
)
REGULARISATION: Final = 0.02
EPOCHS: Final = 100
MARGINAL: Final = 1e-4  # ‖e‖₂ has converged when an epoch improves it by less than this share

_ONE: Final = np.float32(1.0)
_HALF: Final = np.float32(0.5)
_SIXTH: Final = np.float32(1.0 / 6.0)
_FOURTH: Final = np.float32(1.0 / 24.0)
_EXPONENT_SCALE: Final = np.float32(-0.5 / 1024.0)
_MIN_EXPONENT: Final = np.float32(-0.03)  # times 1024: limits weights to e^-30 of the largest

_exact: Any = jit()
# Sums may be reordered, but NaN and infinity must propagate: no nnan, no ninf.
_loose: Any = jit(fastmath={"reassoc", "contract", "nsz", "arcp"})


@_exact
def each(layout, members, at, z, noise, mean, deviation):  # type: ignore[no-untyped-def]  # noqa: PLR0913, PLR0917 - numba
    """Fill (M, q, m) ``mean`` and ``deviation``, one member at a time; see `mixture.each`."""
    buffers = _buffers(layout, at.shape[1])
    for i in range(members.shape[0]):
        for row in range(at.shape[0]):
            _row_moments(
                layout,
                members[i],
                at[row],
                z[row],
                noise[row],
                buffers,
                mean[i, row],
                deviation[i, row],
            )
            deviation[i, row] = np.sqrt(deviation[i, row])


@_exact
def blend(layout, members, share, at, z, noise, mean, deviation):  # type: ignore[no-untyped-def]  # noqa: PLR0913, PLR0917 - numba
    """Fill (q, m) ``mean`` and ``deviation`` of all members, mixed by ``share`` (M,) > 0."""
    buffers = _buffers(layout, at.shape[1])
    m = mean.shape[1]
    member_mean, variance = np.empty(m), np.empty(m)
    for row in range(at.shape[0]):
        centre, pooled = mean[row], deviation[row]
        before = 0.0
        for i in range(members.shape[0]):
            _row_moments(
                layout, members[i], at[row], z[row], noise[row], buffers, member_mean, variance
            )
            # running mean and variance: no cancellation for rows far from 0
            after = before + share[i]
            part = share[i] / after
            for j in range(m):
                away = member_mean[j] - centre[j] if i else 0.0
                spread = share[i] * variance[j] + before * part * away * away
                centre[j] = centre[j] + part * away if i else member_mean[j]
                pooled[j] = pooled[j] + spread if i else spread
            before = after
        for j in range(m):
            pooled[j] = np.sqrt(pooled[j] / before)


@_exact  # type: ignore[untyped-decorator]  # numba
def _buffers(layout: "MixtureLayout", k):  # type: ignore[no-untyped-def]
    """Allocate the temporary arrays of `_row_moments` once for all rows."""
    _, n, m = layout.rows.shape
    components = np.empty((3, n), np.float32)
    columns = np.empty((3 + k, m), np.float32)
    return components, columns, np.empty(n + 1, np.int64), np.empty((k, m)), np.empty((2, k, k))


@_exact
def _row_moments(layout, member, at, z, noise, buffers, mean, variance):  # type: ignore[no-untyped-def]  # noqa: PLR0913, PLR0917 - numba
    """Mean and variance of one row by one member."""
    components, sums, picked, gain, factors = buffers
    squared, share, scratch = components[0], components[1], components[2]
    number, covariance, shrink = int(member[0]), layout.covariance[int(member[1])], member[2]
    scale, common, tail = member[3], member[4], member[5]
    origin, centre = layout.origin[number], layout.rows[number]
    k, m = gain.shape
    white = factors[1]
    _whiten(covariance, scale, common, at, noise, factors[0], white)
    _distances(layout.columns[number], origin, shrink, at, z, white, squared, scratch)
    # copied, because computing the shares overwrites it
    scratch[:] = squared
    if np.isinf(tail):
        total = gaussian_shares(squared, layout.weight[number], share)
    else:
        total = student_shares(squared, layout.weight[number], tail, k, share)
    count = _relevant(share, np.float32(NEGLIGIBLE * total / share.size), picked)
    _gain(covariance, scale, common, at, white, gain, variance)
    widened = (SURPRISE + _dot(share, scratch) / total) / (SURPRISE + k)
    for j in range(m):
        mean[j] = origin[j]
        variance[j] *= widened
    for a in range(k):
        away = z[a] - origin[at[a]]
        for j in range(m):
            mean[j] += gain[a, j] * away
    first, second = sums[0], sums[1]
    if count * CROWDED > share.size:
        _all_moments(layout.columns[number], share, at, gain, scratch, sums)
        kept = total
    else:
        kept = _moments(centre, share, picked[:count], at, gain, sums)
    for j in range(m):
        mid = first[j] / kept
        mean[j] += shrink * mid
        variance[j] += shrink * shrink * max(second[j] / kept - mid * mid, 0.0)


@_exact
def _whiten(covariance, scale, common, at, noise, lower, white):  # type: ignore[no-untyped-def]  # noqa: PLR0913, PLR0917 - numba
    """Cholesky factor of the known cells' covariance, and its inverse: whitened distances."""
    for a in range(at.size):
        for b in range(a + 1):
            total = scale * covariance[at[a], at[b]] + common
            for c in range(b):
                total -= lower[a, c] * lower[b, c]
            if a == b:
                # rounding can make the variance of duplicate columns negative; the noise remains
                lower[a, a] = np.sqrt(max(total, 0.0) + noise[a])
            else:
                lower[a, b] = total / lower[b, b]
    for a in range(at.size):
        white[a, a] = 1.0 / lower[a, a]
        for b in range(a):
            total = 0.0
            for c in range(b, a):
                total += lower[a, c] * white[c, b]
            white[a, b] = -total / lower[a, a]


@_exact
def _gain(covariance, scale, common, at, white, gain, rest):  # type: ignore[no-untyped-def]  # noqa: PLR0913, PLR0917 - numba
    """Fill the (k, m) regression coefficients of the columns, and the (m,) residual variance."""
    k, m = gain.shape
    for j in range(m):
        rest[j] = scale * covariance[j, j] + common
    gain[:] = 0.0
    part = np.empty(m)
    for c in range(k):
        part[:] = 0.0
        for b in range(c + 1):
            row, factor = covariance[at[b]], white[c, b]
            for j in range(m):
                part[j] += factor * (scale * row[j] + common)
        for j in range(m):
            rest[j] -= part[j] * part[j]
        for a in range(c + 1):
            factor = white[c, a]
            for j in range(m):
                gain[a, j] += factor * part[j]
    for j in range(m):
        rest[j] = max(rest[j], FLOOR)


@_loose
def _distances(columns, origin, shrink, at, z, white, squared, scratch):  # type: ignore[no-untyped-def]  # noqa: PLR0913, PLR0917 - numba
    """Squared whitened distance of the row from every component."""
    n = squared.size
    if at.size == FUSED:
        first, second = z[0] - origin[at[0]], z[1] - origin[at[1]]
        x_1, x_2 = columns[at[0]], columns[at[1]]
        target_1 = np.float32(white[0, 0] * first)
        target_2 = np.float32(white[1, 0] * first + white[1, 1] * second)
        factor_11, factor_21 = np.float32(shrink * white[0, 0]), np.float32(shrink * white[1, 0])
        factor_22 = np.float32(shrink * white[1, 1])
        for r in range(n):
            offset_1 = target_1 - factor_11 * x_1[r]
            offset_2 = target_2 - factor_21 * x_1[r] - factor_22 * x_2[r]
            squared[r] = offset_1 * offset_1 + offset_2 * offset_2
        return
    for r in range(n):
        squared[r] = 0.0
    for a in range(at.size):
        target = 0.0
        for b in range(a + 1):
            target += white[a, b] * (z[b] - origin[at[b]])
        goal = np.float32(target)
        for r in range(n):
            scratch[r] = goal
        for b in range(a):
            factor, column = np.float32(shrink * white[a, b]), columns[at[b]]
            for r in range(n):
                scratch[r] -= factor * column[r]
        factor, column = np.float32(shrink * white[a, a]), columns[at[a]]
        for r in range(n):
            away = scratch[r] - factor * column[r]
            squared[r] += away * away


@_loose
def gaussian_shares(squared, weight, share):  # type: ignore[no-untyped-def]
    """Weights of the components and their sum, relative to the nearest to avoid underflow."""
    nearest = squared[0]
    for r in range(squared.size):
        nearest = min(nearest, squared[r])
    total = np.float32(0.0)
    for r in range(squared.size):
        # e^y = (e^(y / 1024))^1024: precise to four digits, and vectorised sixteen at a time
        y = max((squared[r] - nearest) * _EXPONENT_SCALE, _MIN_EXPONENT)
        power = _ONE + y * (_ONE + y * (_HALF + y * (_SIXTH + y * _FOURTH)))
        power *= power
        power *= power
        power *= power
        power *= power
        power *= power
        power *= power
        power *= power
        power *= power
        power *= power
        power *= power
        share[r] = weight[r] * power
        total += share[r]
    return total


@_loose
def student_shares(squared, weight, tail, k, share):  # type: ignore[no-untyped-def]
    """As `gaussian_shares`; integer powers of a square root: `pow` takes five times as long."""
    nearest = squared[0]
    for r in range(squared.size):
        nearest = min(nearest, squared[r])
    power = round(tail) + k
    whole = power // 2
    single, double, fourfold = whole & 1 == 1, whole & 2 == 2, whole & 4 == 4
    freedom, unit = np.float32(tail), np.float32(tail + nearest)
    total = np.float32(0.0)
    for r in range(squared.size):
        squared[r] = unit / (freedom + squared[r])
        share[r] = weight[r]
    if power % 2:
        for r in range(squared.size):
            share[r] *= np.sqrt(squared[r])
    for r in range(squared.size):
        x = squared[r]
        raised = share[r] * (x if single else _ONE)
        x *= x
        raised *= x if double else _ONE
        x *= x
        raised *= x if fourfold else _ONE
        share[r] = raised
        squared[r] = x * x
        total += raised
    for _ in range(whole // 8):
        total = np.float32(0.0)
        for r in range(squared.size):
            share[r] *= squared[r]
            total += share[r]
    return total


@_loose
def _dot(first, second):  # type: ignore[no-untyped-def]
    """Sum of products."""
    total = np.float32(0.0)
    for r in range(first.size):
        total += first[r] * second[r]
    return total


@_exact
def _relevant(share, threshold, picked):  # type: ignore[no-untyped-def]
    """Count the components above the threshold; write their indices to ``picked``."""
    count = 0
    for r in range(share.size):
        picked[count] = r
        count += share[r] >= threshold
    return count


@_loose
def _moments(centre, share, picked, at, gain, columns):  # type: ignore[no-untyped-def]
    """Sum w·y and w·y² over components, y = x - G·x_o, into the first two rows of columns."""
    m, k = centre.shape[1], at.size
    first, second, rest, factor = columns[0], columns[1], columns[2], columns[3:]
    for j in range(m):
        first[j] = 0.0
        second[j] = 0.0
        for a in range(k):
            factor[a, j] = gain[a, j]
    kept = np.float32(0.0)
    for i in range(picked.size):
        x, w = centre[picked[i]], share[picked[i]]
        kept += w
        if k == FUSED:
            x_1, x_2 = x[at[0]], x[at[1]]
            for j in range(m):
                y = x[j] - factor[0, j] * x_1 - factor[1, j] * x_2
                first[j] += w * y
                second[j] += w * y * y
            continue
        for j in range(m):
            rest[j] = x[j]
        for a in range(k):
            x_a = x[at[a]]
            for j in range(m):
                rest[j] -= factor[a, j] * x_a
        for j in range(m):
            first[j] += w * rest[j]
            second[j] += w * rest[j] * rest[j]
    return kept


@_loose
def _all_moments(columns, share, at, gain, scratch, sums):  # type: ignore[no-untyped-def]
    """As `_moments` over all components, column by column."""
    for j in range(columns.shape[0]):
        column = columns[j]
        first, second = np.float32(0.0), np.float32(0.0)
        if at.size == FUSED:
            x_1, x_2 = columns[at[0]], columns[at[1]]
            gain_1, gain_2 = np.float32(gain[0, j]), np.float32(gain[1, j])
            for r in range(share.size):
                y = column[r] - gain_1 * x_1[r] - gain_2 * x_2[r]
                first += share[r] * y
                second += share[r] * y * y
        else:
            for r in range(share.size):
                scratch[r] = column[r]
            for a in range(at.size):
                gain_a, x_a = np.float32(gain[a, j]), columns[at[a]]
                for r in range(share.size):
                    scratch[r] -= gain_a * x_a[r]
            for r in range(share.size):
                first += share[r] * scratch[r]
                second += share[r] * scratch[r] * scratch[r]
        sums[0, j] = first
        sums[1, j] = second


@_exact
def descend(target, known, q, p, rate):  # type: ignore[no-untyped-def]
    """Update factors q (n, r) and p (m, r) in place, known cell by known cell."""
    previous = np.inf
    for _ in range(EPOCHS):
        total = 0.0
        for u in range(target.shape[0]):
            for i in range(target.shape[1]):
                if not known[u, i]:
                    continue
                e = target[u, i]
                for f in range(q.shape[1]):
                    e -= q[u, f] * p[i, f]
                total += e * e
                for f in range(q.shape[1]):
                    old = q[u, f]
                    q[u, f] += rate * (e * p[i, f] - REGULARISATION * old)
                    p[i, f] += rate * (e * old - REGULARISATION * p[i, f])
        norm = np.sqrt(total)
        if previous - norm < MARGINAL * norm:
            return
        previous = norm
