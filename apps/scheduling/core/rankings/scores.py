"""Compiled rankings of servers by expected performance, updated server by server.

Imported by processes that decide, never by the web process. The assembled policy `expected` is the
oracle: the same request, state and seed give the same units and keys, but for one score in a
million that rounds to the next step, as the terms are added in another order. A replay uses the
form of the decision.
"""

import math
from typing import Final, NamedTuple

import numpy as np

from apps.common.core.compiled import jit
from apps.common.core.interference import N_SOURCES
from apps.inventory.core.snapshot import Bools, Floats, Ints, Shorts
from apps.scheduling.core.expected.performance import BLOCK, Weights
from apps.scheduling.core.loss import DECAY, LOG_KEPT
from apps.scheduling.core.rankings.kernels import (
    ELIGIBLE,
    Cluster,
    Demand,
    first_filter,
    lasting_filter,
)
from apps.scheduling.core.rankings.leaders import (
    FLOOR,
    LEADERS,
    PLACE,
    ROOM,
    Leaders,
    are_kept,
    clear,
    join,
    move,
    place_of,
    sampled_floor,
)
from apps.scheduling.core.rankings.log import (
    COUNT,
    FIRST,
    ChangeLog,
    Terms,
    knows,
    write_terms,
)
from apps.scheduling.core.tarcil.kernels import fitting_units

_DRIFT: Final = 0.01  # of the bounds, before they are computed again
_PER_DECAY = 1.0 / DECAY
ROUNDING: Final = 1e-9
# what the filters found, as bits: 0-2 the filter, 3-22 the free units, 23-25 the lasting filter,
# 26-35 the place among the leaders, from 36 on the room
_LASTING: Final = 23
_STATE: Final = (1 << _LASTING) - 1
_CERTAIN: Final = 45.0  # widths below the limit: the chance to keep the speed is 0 to a double


class Ranking(NamedTuple):
    """The servers as one signature sees them.

    base : (S, 2) score without the term of the crowd, less ``elsewhere``, -inf if no unit is
        eligible, and what the filters found: side by side, as most of the time is reading them
    counts : (8,) free units by the first filter that rejects them; the last are the eligible
    bound : (B, 2) scores that no server of a block exceeds, at the lowest and the highest value
        of ``Cluster.idle`` for which they are used
    idle : (1,) the value in the middle
    leaders : the servers with the highest scores
    """

    base: Floats
    counts: Ints
    bound: Floats
    idle: Floats
    leaders: Leaders


class Scratch(NamedTuple):
    """Sums of the entries of a log, what the filters found before, and terms to rank all.

    lost, neighbours, was : (C,)
    """

    lost: Floats
    neighbours: Floats
    was: Ints
    terms: Terms


@jit(makes_arrays=False)
def update(  # noqa: PLR0913, PLR0917 - numba takes arrays, not objects
    cluster: Cluster,
    ranking: Ranking,
    demand: Demand,
    weights: Weights,
    log: ChangeLog,
    seen: int,
    scratch: Scratch,
) -> None:
    """Update a ranking that includes the changes before number ``seen``.

    Ranks the changed servers if the log knows them, otherwise all. Computes all bounds again if
    all servers were ranked, or if ``Cluster.idle`` left the values for which the bounds are used.
    As long as there are leaders, nobody reads the bounds, and they stay as they are.
    O(c·N) for c changes, or O(S·N).
    """
    is_known = knows(log, seen)
    if is_known:
        _rank_changed(ranking, demand, weights, log, seen, scratch)
    else:
        _rank_all(cluster, ranking, demand, weights, scratch)
    has_drifted = abs(cluster.idle[0] - ranking.idle[0]) > _width(weights)
    if not is_known or (has_drifted and not are_kept(ranking.leaders)):
        _bound_all(cluster, ranking, weights)


@jit(makes_arrays=False)
def collect(cluster: Cluster, ranking: Ranking, weights: Weights) -> None:
    """Compute all bounds again, and collect the leaders. O(S).

    A sample tells from which score on the list will be almost full, so that few servers join only
    to leave it.
    """
    leaders, idle = ranking.leaders, cluster.idle[0]
    clear(leaders, ranking.base, -np.inf, idle)
    floor = sampled_floor(leaders, ranking.base, cluster.busy, weights.spread * idle)
    _collect_above(cluster, ranking, weights, floor)
    is_misled = floor > -np.inf and 4 * leaders.numbers[LEADERS] < leaders.server.size
    if is_misled:
        _collect_above(cluster, ranking, weights, -np.inf)


@jit(makes_arrays=False)
def _collect_above(cluster: Cluster, ranking: Ranking, weights: Weights, floor: float) -> None:
    """Compute all bounds again, and collect the leaders of the servers above a floor. O(S)."""
    leaders, spread, idle = ranking.leaders, weights.spread, cluster.idle[0]
    clear(leaders, ranking.base, floor, idle)
    ranking.idle[0] = idle
    for b in range(ranking.bound.shape[0]):
        bound(cluster, ranking, weights, b)
        if max(ranking.bound[b, 0], ranking.bound[b, 1]) > leaders.floor[FLOOR]:
            for s in range(b * BLOCK, min(b * BLOCK + BLOCK, ranking.base.shape[0])):
                if ranking.base[s, 0] - spread * cluster.busy[s] * idle > leaders.floor[FLOOR]:
                    join(leaders, ranking.base, s, cluster.busy[s], spread)


@jit(makes_arrays=False)
def _bound_all(cluster: Cluster, ranking: Ranking, weights: Weights) -> None:
    ranking.idle[0] = cluster.idle[0]
    for b in range(ranking.bound.shape[0]):
        bound(cluster, ranking, weights, b)


@jit(makes_arrays=False)
def _rank_all(
    cluster: Cluster, ranking: Ranking, demand: Demand, weights: Weights, scratch: Scratch
) -> None:
    """Rank all servers, without the bounds and leaders. O(S·N)."""
    clear(ranking.leaders, ranking.base, np.inf, 0.0)
    servers, chunk = cluster.server_units.size, scratch.terms.server.size
    for first in range(0, servers, chunk):
        count = min(chunk, servers - first)
        for c in range(count):
            write_terms(scratch.terms, cluster, c, first + c)
        _sum_terms(scratch.terms, 0, count, demand, scratch)
        for c in range(count):
            s = first + c
            scratch.was[c] = int(ranking.base[s, 1]) & _STATE  # without the filter that lasts
            scratch.was[c] |= lasting_filter(cluster, demand, s) << _LASTING
            _rank(ranking, demand, weights, scratch.terms, c, scratch, c)


@jit(makes_arrays=False)
def _rank_changed(
    ranking: Ranking,
    demand: Demand,
    weights: Weights,
    log: ChangeLog,
    seen: int,
    scratch: Scratch,
) -> None:
    """Rank the servers that changed, and move the leaders or raise bounds of blocks. O(c·N)."""
    begin, end = seen - log.bounds[FIRST], log.bounds[COUNT]
    has_leaders = are_kept(ranking.leaders)
    for c in range(begin, end):  # reads from memory, none of which waits for another
        scratch.was[c - begin] = int(ranking.base[log.terms.server[c], 1])
    _sum_terms(log.terms, begin, end, demand, scratch)
    for c in range(begin, end):
        if log.is_last[c]:
            _rank(ranking, demand, weights, log.terms, c, scratch, c - begin)
            s, busy = log.terms.server[c], log.terms.busy[c]
            if has_leaders:
                move(ranking.leaders, ranking.base, s, busy, weights.spread)
            else:  # a bound that became too high is corrected when it is read
                _raise_bound(ranking, weights, s, busy)


@jit(makes_arrays=False)
def _sum_terms(terms: Terms, begin: int, end: int, demand: Demand, scratch: Scratch) -> None:
    """Add up over the sources what the job and the neighbours of each entry lose.

    Without fast arithmetic: the sums must be the same wherever an entry is.
    """
    lost, neighbours = scratch.lost[: end - begin], scratch.neighbours[: end - begin]
    for c in range(end - begin):
        lost[c] = neighbours[c] = 0.0
    for i in range(N_SOURCES):
        tolerated, per_tolerated = demand.tolerated[i], demand.per_tolerated[i]
        pressure, exposure = terms.pressure[i, begin:end], terms.exposure[i, begin:end]
        caused = demand.caused[i]
        for c in range(end - begin):
            ratio = min(pressure[c] * per_tolerated, 1.0)
            squared = ratio * ratio
            beyond = max(pressure[c] - tolerated, 0.0)
            lost[c] += LOG_KEPT * (squared * squared) - beyond * _PER_DECAY
            neighbours[c] += exposure[c] * caused


@jit(makes_arrays=False, forceinline=True)
def _rank(  # noqa: PLR0913, PLR0917 - numba takes arrays, not objects
    ranking: Ranking,
    demand: Demand,
    weights: Weights,
    terms: Terms,
    c: int,
    scratch: Scratch,
    at: int,
) -> None:
    """Filter the server of entry ``c``, and score it by the sums at ``at``."""
    was, free, s = scratch.was[at], terms.free[c], terms.server[c]
    lasting = (was >> _LASTING) & 7
    ranking.counts[was & 7] -= (was & _STATE) >> 3
    fitting = fitting_units(demand.requested, terms.share[c], terms.left[c], demand.units)
    room = min(free, fitting)
    test = first_filter(terms.is_open[c], lasting, room)
    place = place_of(ranking.base[s, 1]) << PLACE  # it may have changed since ``was``
    ranking.base[s, 1] = test + (free << 3) + (lasting << _LASTING) + place + (room << ROOM)
    ranking.counts[test] += free
    if test != ELIGIBLE or free == 0:
        ranking.base[s, 0] = -np.inf
        return
    lost = scratch.lost[at]
    widths = (lost - LOG_KEPT - weights.width) / weights.width
    kept = weights.kept / (1.0 + math.exp(-widths)) if widths > -_CERTAIN else 0.0
    total = lost + kept + demand.log_speed[terms.platform[c]]
    total += weights.neighbours * scratch.neighbours[at]
    ranking.base[s, 0] = total - terms.elsewhere[c]


@jit()
def rooms(ranking: Ranking) -> tuple[Bools, Shorts]:
    """Return the eligible servers and the room on each server. O(S)."""
    eligible = np.empty(ranking.base.shape[0], dtype=np.bool_)
    room = np.empty(ranking.base.shape[0], dtype=np.int32)
    for s in range(room.size):
        eligible[s] = ranking.base[s, 0] > -np.inf
        room[s] = int(ranking.base[s, 1]) >> ROOM
    return eligible, room


# numbers that are never NaN: without the flags, a maximum takes one server at a time
@jit(makes_arrays=False, fastmath={"nnan", "nsz"})
def bound(cluster: Cluster, ranking: Ranking, weights: Weights, b: int) -> None:
    """Compute the bounds of a block again."""
    low = high = -np.inf
    idle, width, spread = ranking.idle[0], _width(weights), weights.spread
    for s in range(b * BLOCK, min(b * BLOCK + BLOCK, ranking.base.shape[0])):
        slope = spread * cluster.busy[s]
        middle, step = ranking.base[s, 0] - slope * idle, slope * width
        low = middle + step if middle + step > low else low
        high = middle - step if middle - step > high else high
    ranking.bound[b, 0], ranking.bound[b, 1] = low, high


@jit(makes_arrays=False, forceinline=True)
def _raise_bound(ranking: Ranking, weights: Weights, s: int, busy: float) -> None:
    """Raise the bounds of the block of a server to the scores of its next unit."""
    base, b = ranking.base[s, 0], s // BLOCK
    slope = weights.spread * busy
    middle, step = base - slope * ranking.idle[0], slope * _width(weights)
    ranking.bound[b, 0] = max(ranking.bound[b, 0], middle + step)
    ranking.bound[b, 1] = max(ranking.bound[b, 1], middle - step)


@jit(makes_arrays=False, forceinline=True)
def _width(weights: Weights) -> float:
    """Return how far from ``Ranking.idle`` the bounds hold."""
    return _DRIFT / max(weights.spread, _DRIFT)


@jit(makes_arrays=False)
def reach(cluster: Cluster, ranking: Ranking, weights: Weights, b: int) -> float:
    """Return a score that no unit of a block exceeds.

    The highest score of a block is a convex function of ``Cluster.idle``, as that of each server
    is linear. So it is never above the line between its values at two ends.
    """
    return _between(ranking, b, _drifted(cluster, ranking, weights))


@jit(makes_arrays=False)
def reach_all(cluster: Cluster, ranking: Ranking, weights: Weights, into: Floats) -> None:
    """Write `reach` of all blocks. O(B)."""
    at = _drifted(cluster, ranking, weights)
    for b in range(into.size):
        into[b] = _between(ranking, b, at)


@jit(makes_arrays=False, forceinline=True)
def _between(ranking: Ranking, b: int, at: float) -> float:
    """Return the value of the line between the two bounds of a block; -inf without servers."""
    low, high = ranking.bound[b, 0], ranking.bound[b, 1]
    value = low + at * (high - low) + ROUNDING
    return value if low > -np.inf else -np.inf


@jit(makes_arrays=False, forceinline=True)
def _drifted(cluster: Cluster, ranking: Ranking, weights: Weights) -> float:
    """Return where ``Cluster.idle`` is between the two ends of the bounds, 0-1."""
    return 0.5 + 0.5 * (cluster.idle[0] - ranking.idle[0]) / _width(weights)
