"""Compiled search for the best units in a ranking (`ranking_kernels`).

Imported by processes that decide, never by the web process. A decision reads one bound for each
block of servers, and the servers of the few blocks that may hold one of the best units.
"""

import math
from typing import NamedTuple

import numpy as np

from apps.common.core.compiled import jit
from apps.common.core.interference import N_SOURCES
from apps.inventory.core.snapshot import Bools, Floats, Ints, Shorts
from apps.scheduling.core import chance
from apps.scheduling.core.copy_kernels import log_performance
from apps.scheduling.core.expected import BLOCK, STEPS, TIED, Weights
from apps.scheduling.core.kernels import word
from apps.scheduling.core.ranking_kernels import (
    ELIGIBLE,
    ROUNDING,
    Cluster,
    Demand,
    Ranking,
    bound,
    pressure,
    rank_changed,
    reach,
)

_COIN = np.uint64(chance.COIN)
_0, _1, _32 = np.uint64(0), np.uint64(1), np.uint64(32)


class Draw(NamedTuple):
    """Number of units that a decision lists, and its seed."""

    units: int
    seed: int


class Listing(NamedTuple):
    """The best units found so far: key (k, 4), unit, score (k,), and filled (1,), their number."""

    key: Ints
    unit: Ints
    score: Floats
    filled: Ints


class Search(NamedTuple):
    """Blocks that are listed, seen (B,); the highest first word of a key; the seed."""

    seen: Bools
    cap: int
    seed: int


class Entry(NamedTuple):
    """A server, its score without the crowd, the weight of the crowd, and parts of the keys."""

    server: int
    base: float
    spread: float
    cap: int
    turn: int


class Best(NamedTuple):
    """The best units, with the columns of `Scores`; expectations (k, 4) are of `Expectation`."""

    units: Ints
    servers: Shorts
    key: Ints
    score: Floats
    headroom: Floats
    expectations: Floats


@jit()
def best_units(
    cluster: Cluster,
    ranking: Ranking,
    demand: Demand,
    weights: Weights,
    changed: Shorts,
    draw: Draw,
) -> Best:
    """Rank the changed servers, then return the best units, best first.

    O(c·(N + BLOCK) + S / BLOCK) for c changed servers, as few blocks can hold one of the best.
    """
    rank_changed(cluster, ranking, demand, weights, changed)
    count = min(draw.units, ranking.counts[ELIGIBLE])
    listing = Listing(
        np.zeros((count, 4), dtype=np.int64),
        np.empty(count, np.int64),
        np.empty(count),
        np.zeros(1, dtype=np.int64),
    )
    if count:
        cap = _steps(_top(cluster, ranking, weights)) - TIED
        seen = np.zeros(ranking.bound.shape[0], dtype=np.bool_)
        search = Search(seen, cap, draw.seed)
        _list_tied(cluster, ranking, weights, listing, search)
        if not _is_full_of_ties(listing, search):  # else all other units come later
            _list_others(cluster, ranking, weights, listing, search)
    return _described(cluster, demand, listing)


@jit(makes_arrays=False)
def _list_tied(
    cluster: Cluster, ranking: Ranking, weights: Weights, listing: Listing, search: Search
) -> None:
    """List the blocks that may hold a tied unit, from a random one on, until all listed tie."""
    start = _start(search.seed, ranking.bound.shape[0])
    for turn in range(ranking.bound.shape[0]):
        if _is_full_of_ties(listing, search):
            return  # the next blocks come later
        b = (start + turn) % ranking.bound.shape[0]
        if reach(cluster, ranking, weights, b) * STEPS >= search.cap - 1:
            bound(cluster, ranking, weights, b)
            if reach(cluster, ranking, weights, b) * STEPS >= search.cap - 1:
                _list_block(cluster, ranking, weights, listing, search, b)


@jit(makes_arrays=False, forceinline=True)
def _is_full_of_ties(listing: Listing, search: Search) -> bool:
    """Return whether all units that a decision lists are tied with the best."""
    count = listing.unit.size
    return bool(listing.filled[0] == count and listing.key[count - 1, 0] == search.cap)


@jit(makes_arrays=False)
def _list_others(
    cluster: Cluster, ranking: Ranking, weights: Weights, listing: Listing, search: Search
) -> None:
    """List the other blocks, the one with the highest bound first, until no unit can be added."""
    count = listing.unit.size
    while True:
        b, high = -1, -np.inf
        for other in range(ranking.bound.shape[0]):
            if not search.seen[other] and reach(cluster, ranking, weights, other) > high:
                b, high = other, reach(cluster, ranking, weights, other)
        if b < 0 or (listing.filled[0] == count and high * STEPS < listing.key[count - 1, 0]):
            return
        bound(cluster, ranking, weights, b)
        high = reach(cluster, ranking, weights, b)
        if listing.filled[0] == count and high * STEPS < listing.key[count - 1, 0]:
            search.seen[b] = True
        else:
            _list_block(cluster, ranking, weights, listing, search, b)


@jit(makes_arrays=False)
def _start(seed: int, blocks: int) -> int:
    """Return the block with which the choice among tied units starts."""
    return _signed(((word(np.uint64(seed), _0) >> _32) * np.uint64(blocks)) >> _32)


@jit(makes_arrays=False)
def _list_block(
    cluster: Cluster,
    ranking: Ranking,
    weights: Weights,
    listing: Listing,
    search: Search,
    b: int,
) -> None:
    """Add the units of a block to the listing."""
    search.seen[b] = True
    blocks, spread = ranking.bound.shape[0], weights.spread * cluster.idle[0]
    turn = (b - _start(search.seed, blocks)) % blocks
    salt = np.uint64(search.seed) ^ _COIN
    for s in range(b * BLOCK, min(b * BLOCK + BLOCK, ranking.base.shape[0])):
        if ranking.base[s, 0] > -np.inf:
            entry = Entry(s, ranking.base[s, 0], spread, search.cap, turn)
            _list_units(cluster, listing, entry, salt)


@jit(makes_arrays=False)
def _top(cluster: Cluster, ranking: Ranking, weights: Weights) -> float:
    """Return the highest score of an eligible unit."""
    best = -np.inf
    first = int(np.argmax(ranking.bound[:, 1]))
    for turn in range(-1, ranking.bound.shape[0]):
        b = first if turn < 0 else turn
        if reach(cluster, ranking, weights, b) <= best + 2 * ROUNDING:
            continue
        bound(cluster, ranking, weights, b)
        for s in range(b * BLOCK, min(b * BLOCK + BLOCK, ranking.base.shape[0])):
            if ranking.base[s, 0] > -np.inf:
                size = cluster.server_units[s]
                busy = size - cluster.free_count[s]
                total = ranking.base[s, 0] - weights.spread * cluster.idle[0] * (busy / size)
                best = max(best, total)
    return best


@jit(makes_arrays=False)
def _list_units(cluster: Cluster, listing: Listing, entry: Entry, salt: np.uint64) -> None:
    """Add the free units of a server to the listing, if they are among the best."""
    size, count = int(cluster.server_units[entry.server]), listing.unit.size
    busy = size - cluster.free_count[entry.server]
    first, key, filled = int(cluster.first_unit[entry.server]), listing.key, listing.filled
    for u in range(first, first + size):
        if not cluster.unit_free[u]:
            continue
        total = entry.base - entry.spread * (busy / size)
        busy += 1
        steps = min(_steps(total), entry.cap)
        if filled[0] == count and steps < key[count - 1, 0]:
            break  # the next units of this server have lower scores
        coin = _signed(word(salt, np.uint64(u)) >> _1)
        at = int(filled[0])
        while at > 0 and _is_above(steps, -entry.turn, coin, key, at - 1):
            at -= 1
        if at == count:
            continue
        filled[0] = min(count, filled[0] + 1)
        for j in range(filled[0] - 1, at, -1):
            for i in range(4):
                key[j, i] = key[j - 1, i]
            listing.unit[j], listing.score[j] = listing.unit[j - 1], listing.score[j - 1]
        key[at, 0], key[at, 1], key[at, 3] = steps, -entry.turn, coin
        listing.unit[at], listing.score[at] = u, total


@jit(makes_arrays=False)
def _is_above(steps: int, turn: int, coin: int, key: Ints, at: int) -> bool:
    """Return whether a new key is higher than one of the listing."""
    if steps != key[at, 0]:
        return steps > key[at, 0]
    return turn > key[at, 1] if turn != key[at, 1] else coin > key[at, 3]


@jit()
def _described(cluster: Cluster, demand: Demand, listing: Listing) -> Best:
    """Add the servers, the headroom and the expectations of units; scores are those shown."""
    unit = listing.unit
    server = np.empty(unit.size, dtype=np.int32)
    headroom, expected = np.empty((unit.size, N_SOURCES)), np.empty((unit.size, 4))
    for j in range(unit.size):
        s = np.searchsorted(cluster.first_unit, unit[j], side="right") - 1
        server[j] = s
        listing.score[j] += cluster.elsewhere[s]
        others, lost, neighbours = max(cluster.server_units[s] - 1, 1), 0.0, 0.0
        for i in range(N_SOURCES):
            felt = pressure(cluster, s, i)
            headroom[j, i] = demand.tolerated[i] - felt
            lost += log_performance(min(felt, 100.0), demand.tolerated[i])
            neighbours += np.float64(cluster.server_exposure[s, i]) * demand.caused[i]
        expected[j, 0] = math.exp(demand.log_speed[cluster.platform[s]])
        expected[j, 1], expected[j, 2] = math.exp(lost), math.exp(neighbours / others)
        expected[j, 3] = 1.0 - cluster.free_count[s] / cluster.server_units[s]
    return Best(unit, server, listing.key, listing.score, headroom, expected)


@jit(makes_arrays=False, forceinline=True)
def _steps(score: float) -> int:
    """Return a score as the first word of a key."""
    return np.int64(np.round(score * STEPS))  # type: ignore[return-value]  # an int to numba


@jit(makes_arrays=False, forceinline=True)
def _signed(number: np.uint64) -> int:
    return np.int64(number)  # type: ignore[return-value]  # an int to numba
