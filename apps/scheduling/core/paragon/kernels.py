"""Compiled search of Paragon over all servers, updated server by server.

Imported by processes that decide, never by the web process. `paragon.greedy` is the oracle: for a
request of one unit the same state and seed give the same units and keys. All free units of a
server are alike for one unit, so a row of the search is a server.

Notation: s a server, b a block of servers, c a constraint, 0..2N - 1 in the order of examination.
"""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from apps.common.core.compiled import jit
from apps.common.core.interference import N_SOURCES
from apps.inventory.core.snapshot import Bools, Floats, Ints, Shorts
from apps.scheduling.core import chance
from apps.scheduling.core.expected.performance import BLOCK
from apps.scheduling.core.paragon.selection import STEPS
from apps.scheduling.core.rankings.kernels import (
    ELIGIBLE,
    Cluster,
    Demand,
    filtered,
    pressure,
)
from apps.scheduling.core.tarcil.kernels import word

N: Final = N_SOURCES
CONSTRAINTS: Final = 2 * N  # D1 of every source, then D2
NOT_ELIGIBLE: Final = -1
SPEED: Final = 1 << 40  # more than any norm, in steps
NOTHING: Final = -(1 << 62)  # below every value
_COIN = np.uint64(chance.COIN)
_1 = np.uint64(1)


class Fits(NamedTuple):
    """The servers as one signature sees them.

    order : (2N,) source of each constraint
    speed : (P,) steps of the platforms
    passed : (S,) constraints that a server meets before the first that it violates; -1 if no unit
        is eligible
    value : (S,) what orders servers that remain: speed, then the tightest fit
    free : (S,) free units
    test : (S,) the filter that rejects them; `ELIGIBLE` if none
    counts : (8,) free units by the first filter that rejects them; the last are the eligible
    reached : (2N + 1,) servers by ``passed``
    bound : (2, B) a value that no server of a block exceeds that meets all constraints, or that
        does not; corrected when the block is read
    """

    order: Ints
    speed: Ints
    passed: NDArray[np.int8]
    value: Ints
    free: Shorts
    test: NDArray[np.int8]
    counts: Ints
    reached: Ints
    bound: Ints


class Found(NamedTuple):
    """Servers, best first: unit (k,), server (k,), key (k, 4), norm (k,), headroom (k, N)."""

    unit: Ints
    server: Shorts
    key: Ints
    norm: Floats
    headroom: Floats


@jit(makes_arrays=False)
def fit_all(cluster: Cluster, fits: Fits, demand: Demand) -> None:
    """Examine all servers. O(S·N)."""
    fits.bound[:] = NOTHING
    for s in range(fits.passed.size):
        _fit(cluster, fits, demand, s)


@jit(makes_arrays=False)
def fit_changed(cluster: Cluster, fits: Fits, demand: Demand, changed: Shorts) -> None:
    """Examine changed servers. O(c·N)."""
    for s in changed:
        _fit(cluster, fits, demand, s)


@jit(makes_arrays=False)
def _fit(cluster: Cluster, fits: Fits, demand: Demand, s: int) -> None:
    """Filter one server, and find the first constraint that it violates."""
    fits.counts[fits.test[s]] -= fits.free[s]
    if fits.passed[s] != NOT_ELIGIBLE:
        fits.reached[fits.passed[s]] -= 1
    test, _ = filtered(cluster, demand, s)
    fits.test[s], fits.free[s] = test, cluster.free_count[s]
    fits.counts[test] += fits.free[s]
    if test != ELIGIBLE or fits.free[s] == 0:
        fits.passed[s] = NOT_ELIGIBLE
        return
    passed = 0
    while passed < CONSTRAINTS and _margin(cluster, fits, demand, s, passed) >= 0.0:
        passed += 1
    fits.passed[s] = passed
    fits.reached[passed] += 1
    steps = np.int64(np.round(_norm(cluster, demand, s) * STEPS))
    value = fits.speed[cluster.platform[s]] * SPEED - steps
    fits.value[s] = value
    b, violates = s // BLOCK, 0 if passed == CONSTRAINTS else 1
    fits.bound[violates, b] = max(fits.bound[violates, b], value)


@jit(makes_arrays=False)
def _margin(cluster: Cluster, fits: Fits, demand: Demand, s: int, c: int) -> float:
    """Return D1 or D2 of the first unit of a server, negative = violated."""
    i = fits.order[c]
    return _neighbours(cluster, demand, s, i) if c < N else _own(cluster, demand, s, i)


@jit(makes_arrays=False, forceinline=True)
def _neighbours(cluster: Cluster, demand: Demand, s: int, i: int) -> float:
    others = cluster.server_units[s] - 1
    added = demand.caused[i] / others if others > 0 else 0.0
    return np.float64(cluster.server_tolerance[s, i]) - added


@jit(makes_arrays=False, forceinline=True)
def _own(cluster: Cluster, demand: Demand, s: int, i: int) -> float:
    return demand.tolerated[i] - pressure(cluster, s, i)


@jit(makes_arrays=False, forceinline=True)
def _fit_of(cluster: Cluster, demand: Demand, s: int, i: int) -> float:
    return abs(_neighbours(cluster, demand, s, i) + _own(cluster, demand, s, i))


@jit(makes_arrays=False)
def _norm(cluster: Cluster, demand: Demand, s: int) -> float:
    """Return the norm of D1 + D2, added in the order of `numpy.sum`: eight partial sums first."""
    total = 0.0
    for i in range(0, 8, 4):
        left = _fit_of(cluster, demand, s, i) + _fit_of(cluster, demand, s, i + 1)
        total += left + (_fit_of(cluster, demand, s, i + 2) + _fit_of(cluster, demand, s, i + 3))
    for i in range(8, N):
        total += _fit_of(cluster, demand, s, i)
    return total


@jit()
def search(
    cluster: Cluster, fits: Fits, demand: Demand, count: int, limit: int, seed: int
) -> Found:
    """Return the best servers, those that the search keeps first.

    Parameters
    ----------
    count : servers listed, at most those that are eligible
    limit : comparisons after which the remaining constraints are ignored

    O(S / BLOCK · count) if some server meets all constraints within the limit, else O(S·N).
    """
    server, turn = np.empty(count, dtype=np.int32), np.zeros(count, dtype=np.int64)
    if fits.reached[CONSTRAINTS] > 0 and _comparisons(fits, CONSTRAINTS) <= limit:
        filled = _list(cluster, fits, server, 0, (0, seed))
        turn[filled:] = 1
        _list(cluster, fits, server, filled, (1, seed))
    else:
        kept = _backtracking(cluster, fits, demand, limit)
        filled = _list_all(cluster, fits, server, 0, (True, seed), kept)
        turn[filled:] = 1
        _list_all(cluster, fits, server, filled, (False, seed), kept)
    return _described(cluster, fits, demand, server, turn, seed)


@jit(makes_arrays=False)
def _comparisons(fits: Fits, end: int) -> int:
    """Return the comparisons with the first constraints, without backtracking."""
    total = left = 0
    for passed in range(CONSTRAINTS, -1, -1):
        left += fits.reached[passed]
        if passed < end:
            total += left
    return total


@jit()
def _list(
    cluster: Cluster, fits: Fits, server: Shorts, filled: int, which: tuple[int, int]
) -> int:
    """List the best servers that meet all constraints (0), or of the others (1), by blocks.

    The blocks with the highest bounds come first, so that few of the others can hold one of the
    best.
    """
    bound, start = fits.bound[which[0]], filled
    if start == server.size:
        return start
    seen, first = np.zeros(bound.size, dtype=np.bool_), _high(bound, server.size - start)
    for b in range(bound.size):
        if bound[b] >= first and bound[b] > NOTHING:
            seen[b] = True
            filled = _list_block(cluster, fits, server, (start, filled), which, b)
    for b in range(bound.size):
        if seen[b] or bound[b] == NOTHING:
            continue
        if filled < server.size or bound[b] >= fits.value[server[filled - 1]]:
            filled = _list_block(cluster, fits, server, (start, filled), which, b)
    return filled


@jit()
def _high(bound: Ints, count: int) -> int:
    """Return the n-th highest bound, or the lowest if there are fewer."""
    high, filled = np.empty(min(count, bound.size), dtype=np.int64), 0
    for value in bound:
        if filled == high.size and value <= high[filled - 1]:
            continue
        at = filled
        while at > 0 and high[at - 1] < value:
            at -= 1
        filled = min(high.size, filled + 1)
        for j in range(filled - 1, at, -1):
            high[j] = high[j - 1]
        high[at] = value
    return high[filled - 1]


@jit(makes_arrays=False)
def _list_block(
    cluster: Cluster,
    fits: Fits,
    server: Shorts,
    places: tuple[int, int],
    which: tuple[int, int],
    b: int,
) -> int:
    """List the servers of a block that are among the best, and correct its bound."""
    (start, filled), (violates, seed) = places, which
    high = np.int64(NOTHING)
    for s in range(b * BLOCK, min(b * BLOCK + BLOCK, fits.passed.size)):
        if fits.passed[s] != NOT_ELIGIBLE and (fits.passed[s] != CONSTRAINTS) == violates:
            high = max(high, fits.value[s])
            if filled < server.size or fits.value[s] >= fits.value[server[filled - 1]]:
                filled = _insert(cluster, fits, server, (start, filled), s, seed)
    fits.bound[violates, b] = high
    return filled


@jit(makes_arrays=False)
def _list_all(
    cluster: Cluster,
    fits: Fits,
    server: Shorts,
    filled: int,
    which: tuple[bool, int],
    kept: Bools,
) -> int:
    """List the best of the servers that the search kept, or of the others."""
    is_kept, seed = which
    start = filled
    for s in range(kept.size):
        if fits.passed[s] != NOT_ELIGIBLE and kept[s] == is_kept:
            filled = _insert(cluster, fits, server, (start, filled), s, seed)
    return filled


@jit(makes_arrays=False)
def _insert(
    cluster: Cluster, fits: Fits, server: Shorts, places: tuple[int, int], s: int, seed: int
) -> int:
    """Insert a server into a sorted part of the list, if it is among the best."""
    start, filled = places
    at = filled
    while at > start and _is_above(cluster, fits, s, server[at - 1], seed):
        at -= 1
    if at == server.size:
        return filled
    filled = min(server.size, filled + 1)
    for j in range(filled - 1, at, -1):
        server[j] = server[j - 1]
    server[at] = s
    return filled


@jit(makes_arrays=False)
def _is_above(cluster: Cluster, fits: Fits, s: int, other: int, seed: int) -> bool:
    if fits.value[s] != fits.value[other]:
        return fits.value[s] > fits.value[other]
    return _coin(_unit(cluster, s), seed) > _coin(_unit(cluster, other), seed)


@jit(makes_arrays=False)
def _unit(cluster: Cluster, s: int) -> int:
    """Return the first free unit of a server."""
    u = int(cluster.first_unit[s])
    while not cluster.unit_free[u]:
        u += 1
    return u


@jit(makes_arrays=False, forceinline=True)
def _coin(u: int, seed: int) -> int:
    coin = word(np.uint64(seed) ^ _COIN, np.uint64(u)) >> _1
    return np.int64(coin)  # type: ignore[return-value]  # an int to numba


@jit()
def _backtracking(cluster: Cluster, fits: Fits, demand: Demand, limit: int) -> Bools:
    """``paragon.search`` over the eligible servers: (S,) whether it kept each.

    ``level`` is the number of constraints that a server has passed: those of at least c are the
    rows before constraint c.
    """
    level = np.where(fits.passed >= 0, 0, NOT_ELIGIBLE)
    compared = 0
    for c in range(CONSTRAINTS):
        left, kept = 0, 0
        for s in range(level.size):
            if level[s] == c:
                left += 1
                kept += _margin(cluster, fits, demand, s, c) >= 0.0
        compared += left
        if compared > limit:
            return level >= c
        if kept:
            for s in range(level.size):
                if level[s] == c and _margin(cluster, fits, demand, s, c) >= 0.0:
                    level[s] = c + 1
        else:
            compared += _relax(cluster, fits, demand, level, c)
    return level == CONSTRAINTS


@jit()
def _relax(cluster: Cluster, fits: Fits, demand: Demand, level: Ints, c: int) -> int:
    """``paragon._backtrack``: change the levels, and return the further comparisons."""
    compared = 0
    for back in range(1, c + 1):
        rows = level >= c - back
        compared += int(rows.sum())
        if not _keep(cluster, fits, demand, rows, c, 0.0):
            continue
        for earlier in range(c - back, c):
            best = _largest(cluster, fits, demand, rows, earlier)
            _keep(cluster, fits, demand, rows, earlier, min(best, 0.0))
        for s in range(level.size):
            if rows[s]:
                level[s] = c + 1
            elif level[s] > c - back:
                level[s] = c - back
        return compared
    rows = level >= c
    best = _largest(cluster, fits, demand, rows, c)
    _keep(cluster, fits, demand, rows, c, best)
    for s in range(level.size):
        if rows[s]:
            level[s] = c + 1
    return 0


@jit(makes_arrays=False)
def _keep(cluster: Cluster, fits: Fits, demand: Demand, rows: Bools, c: int, least: float) -> bool:
    """Keep the rows with a margin of at least ``least``; return whether any is left."""
    is_any = False
    for s in range(rows.size):
        if rows[s]:
            rows[s] = _margin(cluster, fits, demand, s, c) >= least
            is_any = is_any or rows[s]
    return is_any


@jit(makes_arrays=False)
def _largest(cluster: Cluster, fits: Fits, demand: Demand, rows: Bools, c: int) -> float:
    largest = -np.inf
    for s in range(rows.size):
        if rows[s]:
            largest = max(largest, _margin(cluster, fits, demand, s, c))
    return largest


@jit()
def _described(
    cluster: Cluster, fits: Fits, demand: Demand, server: Shorts, turn: Ints, seed: int
) -> Found:
    """Add the units, keys, norms and headroom of listed servers."""
    count = server.size
    unit, key = np.empty(count, dtype=np.int64), np.empty((count, 4), dtype=np.int64)
    norm, headroom = np.empty(count), np.empty((count, N))
    for j in range(count):
        s = server[j]
        unit[j] = _unit(cluster, s)
        norm[j] = _norm(cluster, demand, s)
        key[j, 0], key[j, 1] = -turn[j], fits.speed[cluster.platform[s]]
        key[j, 2] = -np.int64(np.round(norm[j] * STEPS))
        key[j, 3] = _coin(unit[j], seed)
        for i in range(N):
            headroom[j, i] = _own(cluster, demand, s, i)
    return Found(unit, server, key, norm, headroom)
