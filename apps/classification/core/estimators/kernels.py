"""The hot loops, compiled. Imported by processes that estimate, when they do; never by the web's.

Numba costs a second and 100 MB: `mixture` and `factors` import this module when they are first
asked. `tests/classification/core/test_mixture.py` holds the mixture to the plain formula.

n components, m columns, k known cells, q rows, M members. Centres are 32-bit: they lie near 0,
and a weight needs no more digits; what depends on the new row alone is 64-bit.
"""

from typing import Any, Final

import numpy as np

from apps.common.core.compiled import jit

# Degrees of freedom by which a row far from the components is less certain: it was less expected.
SURPRISE: Final = 4.0
NEGLIGIBLE: Final = 1e-3  # of all weight: as much may be left out, in components far away
FLOOR: Final = 1e-8  # of a variance
FUSED: Final = 2  # known cells
CROWDED: Final = 3  # with more than a third of the components it is faster to take all
REGULARISATION: Final = 0.02
EPOCHS: Final = 100
MARGINAL: Final = 1e-4  # ‖e‖₂ has converged when an epoch improves it by less than this share

_ONE: Final = np.float32(1.0)
_HALF: Final = np.float32(0.5)
_SIXTH: Final = np.float32(1.0 / 6.0)
_FOURTH: Final = np.float32(1.0 / 24.0)
_STEP: Final = np.float32(-0.5 / 1024.0)
_LEAST: Final = np.float32(-0.03)  # times 1024: no weight is below e^-30 of the largest

_exact: Any = jit()
# Sums in any order. What is not finite still has to show: no nnan, no ninf.
_loose: Any = jit(fastmath={"reassoc", "contract", "nsz", "arcp"})


@_exact
def each(layout, members, at, z, noise, mean, deviation):  # type: ignore[no-untyped-def]  # noqa: PLR0913, PLR0917 - numba
    """Fill (M, q, m) ``mean`` and ``deviation``, one member at a time; see `mixture.condition`."""
    room = _room(layout, at.shape[1])
    for i in range(members.shape[0]):
        for row in range(at.shape[0]):
            _one(
                layout,
                members[i],
                at[row],
                z[row],
                noise[row],
                room,
                mean[i, row],
                deviation[i, row],
            )
            deviation[i, row] = np.sqrt(deviation[i, row])


@_exact
def blend(layout, members, share, at, z, noise, mean, deviation):  # type: ignore[no-untyped-def]  # noqa: PLR0913, PLR0917 - numba
    """Fill (q, m) ``mean`` and ``deviation`` of all members, mixed by ``share`` (M,) > 0."""
    room = _room(layout, at.shape[1])
    m = mean.shape[1]
    one, variance = np.empty(m), np.empty(m)
    for row in range(at.shape[0]):
        centre, wide = mean[row], deviation[row]
        before = 0.0
        for i in range(members.shape[0]):
            _one(layout, members[i], at[row], z[row], noise[row], room, one, variance)
            # a running mean and variance: nothing cancels, however far from 0 the row lies
            after = before + share[i]
            part = share[i] / after
            for j in range(m):
                away = one[j] - centre[j] if i else 0.0
                spread = share[i] * variance[j] + before * part * away * away
                centre[j] = centre[j] + part * away if i else one[j]
                wide[j] = wide[j] + spread if i else spread
            before = after
        for j in range(m):
            wide[j] = np.sqrt(wide[j] / before)


@_exact
def _room(layout, k):  # type: ignore[no-untyped-def]
    """Scratch for `_one`, made once for all rows."""
    _, n, m = layout.rows.shape
    components = np.empty((3, n), np.float32)
    columns = np.empty((3 + k, m), np.float32)
    return components, columns, np.empty(n + 1, np.int64), np.empty((k, m)), np.empty((2, k, k))


@_exact
def _one(layout, member, at, z, noise, room, mean, variance):  # type: ignore[no-untyped-def]  # noqa: PLR0913, PLR0917 - numba
    """Mean and variance of one row by one member."""
    components, in_columns, picked, gain, factors = room
    squared, share, scratch = components[0], components[1], components[2]
    where, bent, squeeze = int(member[0]), layout.covariance[int(member[1])], member[2]
    scale, lift, tail = member[3], member[4], member[5]
    origin, centre = layout.origin[where], layout.rows[where]
    k, m = gain.shape
    white = factors[1]
    _whiten(bent, scale, lift, at, noise, factors[0], white)
    _distances(layout.columns[where], origin, squeeze, at, z, white, squared, scratch)
    # a copy, because the shares are made in place
    scratch[:] = squared
    if np.isinf(tail):
        total = gaussian_shares(squared, layout.weight[where], share)
    else:
        total = student_shares(squared, layout.weight[where], tail, k, share)
    count = _weighty(share, np.float32(NEGLIGIBLE * total / share.size), picked)
    _gain(bent, scale, lift, at, white, gain, variance)
    widened = (SURPRISE + _dot(share, scratch) / total) / (SURPRISE + k)
    for j in range(m):
        mean[j] = origin[j]
        variance[j] *= widened
    for a in range(k):
        away = z[a] - origin[at[a]]
        for j in range(m):
            mean[j] += gain[a, j] * away
    first, second = in_columns[0], in_columns[1]
    if count * CROWDED > share.size:
        _all_moments(layout.columns[where], share, at, gain, scratch, in_columns)
        kept = total
    else:
        kept = _moments(centre, share, picked[:count], at, gain, in_columns)
    for j in range(m):
        mid = first[j] / kept
        mean[j] += squeeze * mid
        variance[j] += squeeze * squeeze * max(second[j] / kept - mid * mid, 0.0)


@_exact
def _whiten(bent, scale, lift, at, noise, lower, white):  # type: ignore[no-untyped-def]  # noqa: PLR0913, PLR0917 - numba
    """Cholesky factor of the known cells' covariance, and its inverse: whitened distances."""
    for a in range(at.size):
        for b in range(a + 1):
            total = scale * bent[at[a], at[b]] + lift
            for c in range(b):
                total -= lower[a, c] * lower[b, c]
            if a == b:
                # rounding, when columns repeat each other: the noise alone is always left
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
def _gain(bent, scale, lift, at, white, gain, rest):  # type: ignore[no-untyped-def]  # noqa: PLR0913, PLR0917 - numba
    """(k, m) what a unit of each known cell moves each column; (m,) the variance it leaves."""
    k, m = gain.shape
    for j in range(m):
        rest[j] = scale * bent[j, j] + lift
    gain[:] = 0.0
    part = np.empty(m)
    for c in range(k):
        part[:] = 0.0
        for b in range(c + 1):
            row, factor = bent[at[b]], white[c, b]
            for j in range(m):
                part[j] += factor * (scale * row[j] + lift)
        for j in range(m):
            rest[j] -= part[j] * part[j]
        for a in range(c + 1):
            factor = white[c, a]
            for j in range(m):
                gain[a, j] += factor * part[j]
    for j in range(m):
        rest[j] = max(rest[j], FLOOR)


@_loose
def _distances(columns, origin, squeeze, at, z, white, squared, scratch):  # type: ignore[no-untyped-def]  # noqa: PLR0913, PLR0917 - numba
    """Squared whitened distance of the row from every component."""
    n = squared.size
    if at.size == FUSED:
        first, second = z[0] - origin[at[0]], z[1] - origin[at[1]]
        one, other = columns[at[0]], columns[at[1]]
        start = np.float32(white[0, 0] * first)
        start_other = np.float32(white[1, 0] * first + white[1, 1] * second)
        by, cross = np.float32(squeeze * white[0, 0]), np.float32(squeeze * white[1, 0])
        by_other = np.float32(squeeze * white[1, 1])
        for r in range(n):
            away = start - by * one[r]
            turned = start_other - cross * one[r] - by_other * other[r]
            squared[r] = away * away + turned * turned
        return
    for r in range(n):
        squared[r] = 0.0
    for a in range(at.size):
        target = 0.0
        for b in range(a + 1):
            target += white[a, b] * (z[b] - origin[at[b]])
        wanted = np.float32(target)
        for r in range(n):
            scratch[r] = wanted
        for b in range(a):
            factor, column = np.float32(squeeze * white[a, b]), columns[at[b]]
            for r in range(n):
                scratch[r] -= factor * column[r]
        factor, column = np.float32(squeeze * white[a, a]), columns[at[a]]
        for r in range(n):
            away = scratch[r] - factor * column[r]
            squared[r] += away * away


@_loose
def gaussian_shares(squared, weight, share):  # type: ignore[no-untyped-def]
    """Weights of the components and their sum; the nearest is the unit: nothing underflows."""
    nearest = squared[0]
    for r in range(squared.size):
        nearest = min(nearest, squared[r])
    total = np.float32(0.0)
    for r in range(squared.size):
        # e^y = (e^(y / 1024))^1024: four digits, and the compiler can take sixteen at a time
        y = max((squared[r] - nearest) * _STEP, _LEAST)
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
    """As `gaussian_shares`; whole powers of a square root: a general power costs five times."""
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
def _weighty(share, least, picked):  # type: ignore[no-untyped-def]
    """How many components count; their numbers are in ``picked``."""
    count = 0
    for r in range(share.size):
        picked[count] = r
        count += share[r] >= least
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
            one, other = x[at[0]], x[at[1]]
            for j in range(m):
                y = x[j] - factor[0, j] * one - factor[1, j] * other
                first[j] += w * y
                second[j] += w * y * y
            continue
        for j in range(m):
            rest[j] = x[j]
        for a in range(k):
            one = x[at[a]]
            for j in range(m):
                rest[j] -= factor[a, j] * one
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
            one, other = columns[at[0]], columns[at[1]]
            by_one, by_other = np.float32(gain[0, j]), np.float32(gain[1, j])
            for r in range(share.size):
                y = column[r] - by_one * one[r] - by_other * other[r]
                first += share[r] * y
                second += share[r] * y * y
        else:
            for r in range(share.size):
                scratch[r] = column[r]
            for a in range(at.size):
                by_one, one = np.float32(gain[a, j]), columns[at[a]]
                for r in range(share.size):
                    scratch[r] -= by_one * one[r]
            for r in range(share.size):
                first += share[r] * scratch[r]
                second += share[r] * scratch[r] * scratch[r]
        sums[0, j] = first
        sums[1, j] = second


@_exact
def descend(target, known, q, p, rate):  # type: ignore[no-untyped-def]
    """Change factors q (n, r) and p (m, r) in place, one known cell after the other."""
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
