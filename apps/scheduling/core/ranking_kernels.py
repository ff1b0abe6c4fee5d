"""Compiled rankings of servers by expected performance, updated server by server.

Imported by processes that decide, never by the web process. The assembled policy `expected` is the
oracle: the same request, state and seed give the same units and keys.
"""

import math
from typing import Final, NamedTuple

import numpy as np

from apps.common.core.compiled import jit
from apps.common.core.interference import N_SOURCES
from apps.inventory.core.snapshot import Bools, Floats, Ints, Shorts, Singles
from apps.scheduling.core.capacity import SLACK
from apps.scheduling.core.copy_kernels import log_performance
from apps.scheduling.core.expected import BLOCK, MAX_EXPONENT, Weights
from apps.scheduling.core.loss import DECAY, IDLE, LOG_KEPT, NEIGHBOUR

_KEEP = 1.0 - SLACK
_DRIFT: Final = 0.01  # of the bounds, before they are computed again
_PER_DECAY = 1.0 / DECAY
ROUNDING: Final = 1e-9
_UNITS: Final = 1 << 20  # more than any server has
ELIGIBLE: Final = 7  # behind the filters of `filters.FILTERS`


class Cluster(NamedTuple):
    """Arrays of a `BatchState`, by unit and by server.

    share : (S, 3) equal share of one unit
    idle : (1,) square of the share of all units that is free
    elsewhere : (S,) what units lose in the share of another agent
    """

    unit_free: Bools
    first_unit: Shorts
    server_units: Shorts
    platform: Shorts
    share: Floats
    server_open: Bools
    free_count: Shorts
    server_caused: Singles
    server_exposure: Singles
    server_tolerance: Singles
    server_free: Floats
    idle: Floats
    elsewhere: Floats


class Demand(NamedTuple):
    """Demand of a signature.

    caused, tolerated (N,), log_speed, allowed (P,), labelled, excluded (S,), requested (3,)
    per_tolerated : (N,) inverse of ``tolerated``
    """

    caused: Floats
    tolerated: Floats
    log_speed: Floats
    allowed: Bools
    labelled: Bools
    excluded: Bools
    requested: Floats
    per_tolerated: Floats
    units: int


class Ranking(NamedTuple):
    """The servers as one signature sees them.

    base : (S, 2) score without the term of the crowd, less ``elsewhere``, -inf if no unit is
        eligible, and what the filters found: side by side, as most of the time is reading them
    counts : (8,) free units by the first filter that rejects them; the last are the eligible
    bound : (B, 2) scores that no server of a block exceeds, at the lowest and the highest value
        of ``Cluster.idle`` for which they are used
    idle : (1,) the value in the middle
    """

    base: Floats
    counts: Ints
    bound: Floats
    idle: Floats


@jit()
def changed_servers(changed: Ints, since: int) -> Shorts:
    """Return the servers changed after a change. O(S)."""
    found = np.empty(changed.size, dtype=np.int32)
    count = 0
    for s in range(changed.size):
        if changed[s] > since:
            found[count] = s
            count += 1
    return found[:count].copy()


@jit()
def distinct_servers(servers: Shorts, marks: Ints, call: int) -> Shorts:
    """Return each server once, in the order of their first places. O(c) for c servers.

    ``marks`` (S,) holds numbers of earlier calls, all below ``call``; those of the servers are set
    to it.
    """
    found = np.empty(servers.size, dtype=np.int32)
    count = 0
    for s in servers:
        if marks[s] != call:
            marks[s] = call
            found[count] = s
            count += 1
    return found[:count]


@jit(makes_arrays=False)
def copy_servers(cluster: Cluster, source: Cluster, servers: Shorts) -> int:
    """Copy the state of servers; return by how much the number of free units grew."""
    grown = 0
    for s in servers:
        first, count = cluster.first_unit[s], 0
        for u in range(first, first + cluster.server_units[s]):
            cluster.unit_free[u] = source.unit_free[u]
            count += source.unit_free[u]
        grown += count - cluster.free_count[s]
        cluster.free_count[s] = count
        cluster.server_open[s] = source.server_open[s]
        for i in range(N_SOURCES):
            cluster.server_caused[s, i] = source.server_caused[s, i]
            cluster.server_exposure[s, i] = source.server_exposure[s, i]
            cluster.server_tolerance[s, i] = source.server_tolerance[s, i]
        for i in range(3):
            cluster.server_free[s, i] = source.server_free[s, i]
    return grown


@jit(makes_arrays=False)
def take_units(cluster: Cluster, demand: Demand, units: Shorts, servers: Shorts) -> None:
    """``BatchState.allocate``. O(k·N)."""
    for j in range(units.size):
        cluster.unit_free[units[j]] = False
    for s in servers:
        size = cluster.server_units[s]
        others = size - 1
        is_idle = cluster.free_count[s] == size
        for i in range(N_SOURCES):
            now = pressure(cluster, s, i)
            added = demand.caused[i] / others if others > 0 else 0.0
            jobs = IDLE if is_idle else np.float64(cluster.server_tolerance[s, i]) - added
            cluster.server_tolerance[s, i] = min(jobs, demand.tolerated[i] - now, IDLE)
            if others > 0:
                step, at = NEIGHBOUR / others, min(now, 100.0)
                ahead = log_performance(at + step, demand.tolerated[i])
                slope = (ahead - log_performance(at, demand.tolerated[i])) / step
                cluster.server_exposure[s, i] = np.float64(cluster.server_exposure[s, i]) + slope
            cluster.server_caused[s, i] += np.float32(demand.caused[i])
        for i in range(3):
            wanted = demand.requested[i]
            cluster.server_free[s, i] -= wanted if wanted > 0 else cluster.share[s, i]
        cluster.free_count[s] -= 1


@jit(makes_arrays=False)
def rank_all(cluster: Cluster, ranking: Ranking, demand: Demand, weights: Weights) -> None:
    """Rank all servers. O(S·N)."""
    ranking.idle[0] = cluster.idle[0]
    for s in range(cluster.server_units.size):
        _rank(cluster, ranking, demand, weights, s)
    for b in range(ranking.bound.shape[0]):
        bound(cluster, ranking, weights, b)


@jit(makes_arrays=False)
def rank_changed(
    cluster: Cluster, ranking: Ranking, demand: Demand, weights: Weights, changed: Shorts
) -> None:
    """Rank changed servers, and compute the bounds again if the load has changed too much."""
    for s in changed:
        _rank(cluster, ranking, demand, weights, s)
        # a bound that became too high is corrected when it is read
        _raise_bound(cluster, ranking, weights, s)
    if abs(cluster.idle[0] - ranking.idle[0]) > _width(weights):
        ranking.idle[0] = cluster.idle[0]
        for b in range(ranking.bound.shape[0]):
            bound(cluster, ranking, weights, b)


@jit(makes_arrays=False)
def _rank(cluster: Cluster, ranking: Ranking, demand: Demand, weights: Weights, s: int) -> None:
    """Filter and score one server."""
    was = int(ranking.base[s, 1])
    ranking.counts[was % 8] -= was // 8 % _UNITS
    free = cluster.free_count[s]
    test, room = filtered(cluster, demand, s)
    ranking.base[s, 1] = test + 8 * (free + _UNITS * room)
    ranking.counts[test] += free
    is_eligible = test == ELIGIBLE and free > 0
    ranking.base[s, 0] = _score(cluster, s, demand, weights) if is_eligible else -np.inf


@jit(makes_arrays=False, forceinline=True)
def filtered(cluster: Cluster, demand: Demand, s: int) -> tuple[int, int]:
    """Return the filter that rejects a server, and its room; the tests of ``filter_servers``."""
    free = cluster.free_count[s]
    room = min(free, _fitting(cluster, demand, s)) if free else 0
    if not cluster.server_open[s]:
        return 1, room
    if not demand.allowed[cluster.platform[s]]:
        return 2, room
    if not demand.labelled[s]:
        return 3, room
    if demand.excluded[s]:
        return 4, room
    return (5 if room == 0 else ELIGIBLE), room


@jit()
def rooms(ranking: Ranking) -> tuple[Bools, Shorts]:
    """Return the eligible servers and the room on each server. O(S)."""
    eligible = np.empty(ranking.base.shape[0], dtype=np.bool_)
    room = np.empty(ranking.base.shape[0], dtype=np.int32)
    for s in range(room.size):
        eligible[s] = ranking.base[s, 0] > -np.inf
        room[s] = int(ranking.base[s, 1]) // (8 * _UNITS)
    return eligible, room


@jit(makes_arrays=False)
def _fitting(cluster: Cluster, demand: Demand, s: int) -> int:
    """Return the number of units whose memory, network and storage fit, at most those wanted."""
    fitting = demand.units
    for i in range(3):
        wanted = demand.requested[i]
        vector = (wanted if wanted > 0 else cluster.share[s, i]) * _KEEP
        if vector > 0 and cluster.server_free[s, i] < vector * fitting:
            fitting = max(0, int(np.floor(cluster.server_free[s, i] / vector)))
    return fitting


@jit(makes_arrays=False)
def bound(cluster: Cluster, ranking: Ranking, weights: Weights, b: int) -> None:
    """Compute the bounds of a block again."""
    ranking.bound[b, 0] = ranking.bound[b, 1] = -np.inf
    for s in range(b * BLOCK, min(b * BLOCK + BLOCK, ranking.base.shape[0])):
        _raise_bound(cluster, ranking, weights, s)


@jit(makes_arrays=False, forceinline=True)
def _raise_bound(cluster: Cluster, ranking: Ranking, weights: Weights, s: int) -> None:
    """Raise the bounds of the block of a server to the scores of its next unit."""
    base, b = ranking.base[s, 0], s // BLOCK
    if base > -np.inf:
        slope = weights.spread * (1.0 - cluster.free_count[s] / cluster.server_units[s])
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
    if ranking.bound[b, 0] == -np.inf:
        return -np.inf
    at = 0.5 + 0.5 * (cluster.idle[0] - ranking.idle[0]) / _width(weights)
    low, high = ranking.bound[b, 0], ranking.bound[b, 1]
    return low + at * (high - low) + ROUNDING


@jit(makes_arrays=False, forceinline=True)
def pressure(cluster: Cluster, s: int, i: int) -> float:
    """Return the pressure of one source on a free unit. Source: Tarcil Eq. 3."""
    others = cluster.server_units[s] - 1
    return np.float64(cluster.server_caused[s, i]) / others if others > 0 else 0.0


@jit(makes_arrays=False, fastmath={"reassoc", "contract", "nsz"})
def _score(cluster: Cluster, s: int, demand: Demand, weights: Weights) -> float:
    """Return the score of a unit of server s without the crowd, less ``elsewhere``.

    The sums of vectors differ from those of the oracle by rounding, far below a step of the keys.
    """
    others = max(cluster.server_units[s] - 1, 1)
    share = 1.0 / others if cluster.server_units[s] > 1 else 0.0
    lost = neighbours = 0.0
    for i in range(N_SOURCES):
        pressure = min(np.float64(cluster.server_caused[s, i]) * share, 100.0)
        ratio = min(pressure * demand.per_tolerated[i], 1.0)
        squared = ratio * ratio
        beyond = max(pressure - demand.tolerated[i], 0.0)
        lost += LOG_KEPT * (squared * squared) - beyond * _PER_DECAY
        neighbours += np.float64(cluster.server_exposure[s, i]) * demand.caused[i]
    room = lost - LOG_KEPT - weights.width
    kept = weights.kept / (1.0 + math.exp(min(-room / weights.width, MAX_EXPONENT)))
    speed = demand.log_speed[cluster.platform[s]]
    total = lost + kept + speed + weights.neighbours * neighbours / others
    return total - cluster.elsewhere[s]
