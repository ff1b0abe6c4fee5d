"""Compiled search for the best units in a ranking (`kernels`).

Imported by processes that decide, never by the web process. A decision reads the leaders of the
ranking. If they are not enough, it reads one bound for each block of servers, and the servers of
the few blocks that may hold one of the best units.
"""

import math
from typing import Final, NamedTuple

import numpy as np

from apps.common.core.compiled import jit
from apps.common.core.interference import N_SOURCES
from apps.inventory.core.snapshot import Floats, Ints, Shorts
from apps.scheduling.core import chance
from apps.scheduling.core.cluster.copy_kernels import log_performance
from apps.scheduling.core.expected.performance import BLOCK, LOSS, STEPS, TIED, Weights
from apps.scheduling.core.rankings import leaders as ranking_leaders
from apps.scheduling.core.rankings.kernels import ELIGIBLE, Cluster, Demand, pressure
from apps.scheduling.core.rankings.scores import (
    ROUNDING,
    Ranking,
    bound,
    collect,
    reach,
    reach_all,
)
from apps.scheduling.core.tarcil.kernels import word

MAX_PLACES: Final = chance.MAX_PLACES
GROUP: Final = 32  # blocks of which the highest bound is kept
_ROUNDED: Final = 4.0 * ROUNDING  # more than two steps of the keys
_COIN = np.uint64(chance.COIN)
_0, _1, _32 = np.uint64(0), np.uint64(1), np.uint64(32)


class Draw(NamedTuple):
    """Number of units that a decision lists, whether its job has one unit, and its seed."""

    units: int
    is_one: bool
    seed: int


class Listing(NamedTuple):
    """The best units found so far; filled (1,) is their number.

    key (k, 4) of which the third column is 0, unit, server, score (k,)
    """

    key: Ints
    unit: Ints
    server: Shorts
    score: Floats
    filled: Ints


class Blocks(NamedTuple):
    """Scratch: what `reach` says of each block, and the highest of each group of blocks.

    A block that is listed has reach -inf.
    """

    reach: Floats
    highest: Floats


class Search(NamedTuple):
    """The blocks; the highest first word of a key; whether the job has one unit; the seed."""

    blocks: Blocks
    cap: int
    is_one: bool
    seed: int


class Entry(NamedTuple):
    """A server, its score without the crowd, the weight of the crowd, and parts of the keys.

    is_one : the job has one unit, so each free unit counts those before it as busy
    """

    server: int
    base: float
    spread: float
    cap: int
    turn: int
    is_one: bool


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
    blocks: Blocks,
    draw: Draw,
) -> Best:
    """Return the best units, best first. O(S / BLOCK), as few blocks can hold one of the best."""
    count = min(draw.units, ranking.counts[ELIGIBLE])
    best = Best(
        np.empty(count, np.int64),
        np.empty(count, np.int32),
        np.zeros((count, 4), dtype=np.int64),
        np.empty(count),
        np.empty((count, N_SOURCES)),
        np.empty((count, 4)),
    )
    filled = np.zeros(1, dtype=np.int64)
    listing = Listing(best.key, best.units, best.servers, best.score, filled)
    if count:
        list_best(cluster, ranking, weights, listing, blocks, draw)
        describe(cluster, demand, best)
    return best


@jit(makes_arrays=False)
def list_best(
    cluster: Cluster,
    ranking: Ranking,
    weights: Weights,
    listing: Listing,
    blocks: Blocks,
    draw: Draw,
) -> None:
    """Fill an empty listing, which is not longer than the number of eligible units."""
    if not _list_from_leaders(cluster, ranking, weights, listing, draw):
        listing.filled[0] = 0
        _list_from_blocks(cluster, ranking, weights, listing, blocks, draw)


@jit(makes_arrays=False)
def _list_from_leaders(
    cluster: Cluster, ranking: Ranking, weights: Weights, listing: Listing, draw: Draw
) -> bool:
    """List units of the leaders, collected again if need be; return whether they are enough."""
    leaders = ranking.leaders
    if ranking_leaders.are_kept(leaders):
        if _list_leaders(cluster, ranking, weights, listing, draw):
            return True
    elif not ranking_leaders.are_due(leaders):
        return False
    collect(cluster, ranking, weights)
    listing.filled[0] = 0
    are_enough = _list_leaders(cluster, ranking, weights, listing, draw)
    ranking_leaders.note(leaders, ranking.base, are_enough)
    return are_enough


@jit(makes_arrays=False)
def _list_leaders(
    cluster: Cluster, ranking: Ranking, weights: Weights, listing: Listing, draw: Draw
) -> bool:
    """List units of the leaders; return whether all other units come later."""
    leaders, idle, blocks = ranking.leaders, cluster.idle[0], ranking.bound.shape[0]
    spread, salt = weights.spread * idle, np.uint64(draw.seed) ^ _COIN
    least = ranking_leaders.best_scores(leaders, spread, listing.score) if draw.is_one else -np.inf
    top = ranking_leaders.highest_score(leaders, spread)
    rest = ranking_leaders.others_reach(leaders, idle, weights.spread) + ROUNDING
    if not top - LOSS > rest:
        return False  # others may be as good
    least = min(least, top - LOSS) - _ROUNDED
    cap, start = _steps(top) - TIED, _start(draw.seed, blocks)
    for i in range(leaders.numbers[ranking_leaders.LEADERS]):
        if leaders.base[i] - spread * leaders.busy[i] >= least:
            s = leaders.server[i]
            turn = (s // BLOCK - start) % blocks
            entry = Entry(s, leaders.base[i], spread, cap, turn, draw.is_one)
            _list_units(cluster, listing, entry, salt)
    return _is_below(listing, listing.unit.size, rest)


@jit(makes_arrays=False)
def _list_from_blocks(
    cluster: Cluster,
    ranking: Ranking,
    weights: Weights,
    listing: Listing,
    blocks: Blocks,
    draw: Draw,
) -> None:
    """List units of all servers, block by block. O(S / BLOCK)."""
    reach_all(cluster, ranking, weights, blocks.reach)
    cap = _steps(_top(cluster, ranking, weights, blocks)) - TIED
    search = Search(blocks, cap, draw.is_one, draw.seed)
    _list_tied(cluster, ranking, weights, listing, search)
    if not _is_full_of_ties(listing, search):  # else all other units come later
        _list_others(cluster, ranking, weights, listing, search)


@jit(makes_arrays=False)
def _list_tied(
    cluster: Cluster, ranking: Ranking, weights: Weights, listing: Listing, search: Search
) -> None:
    """List the blocks that may hold a tied unit, from a random one on, until all listed tie."""
    reaches, count = search.blocks.reach, search.blocks.reach.size
    start, enough = _start(search.seed, count), float(search.cap - 1)
    for turn in range(count):
        b = start + turn if start + turn < count else start + turn - count
        if reaches[b] * STEPS >= enough:
            if _is_full_of_ties(listing, search):
                return  # the next blocks come later
            _tighten(cluster, ranking, weights, search.blocks, b)
            if reaches[b] * STEPS >= enough:
                _list_block(cluster, ranking, weights, listing, search, b)


@jit(makes_arrays=False, forceinline=True)
def _is_full_of_ties(listing: Listing, search: Search) -> bool:
    """Return whether all units that a decision lists are tied with the best."""
    count = listing.unit.size
    return bool(listing.filled[0] == count and listing.key[count - 1, 0] == search.cap)


@jit(makes_arrays=False, forceinline=True)
def _tighten(cluster: Cluster, ranking: Ranking, weights: Weights, blocks: Blocks, b: int) -> None:
    """Compute the bounds of a block again."""
    bound(cluster, ranking, weights, b)
    blocks.reach[b] = reach(cluster, ranking, weights, b)


@jit(makes_arrays=False)
def _list_others(
    cluster: Cluster, ranking: Ranking, weights: Weights, listing: Listing, search: Search
) -> None:
    """List the other blocks, the one with the highest bound first, until no unit can be added."""
    blocks, count = search.blocks, listing.unit.size
    for group in range(blocks.highest.size):
        _find_highest(blocks, group)
    while True:
        group = _place_of_max(blocks.highest, 0, blocks.highest.size)
        b = _place_of_max(blocks.reach, group * GROUP, _end(blocks, group))
        if blocks.reach[b] == -np.inf or _is_below(listing, count, blocks.reach[b]):
            return
        _tighten(cluster, ranking, weights, blocks, b)
        if not _is_below(listing, count, blocks.reach[b]):
            _list_block(cluster, ranking, weights, listing, search, b)
        blocks.reach[b] = -np.inf
        _find_highest(blocks, group)


@jit(makes_arrays=False, forceinline=True)
def _is_below(listing: Listing, count: int, score: float) -> bool:
    """Return whether a score is below those of a full listing."""
    return bool(listing.filled[0] == count and score * STEPS < listing.key[count - 1, 0])


@jit(makes_arrays=False, forceinline=True)
def _end(blocks: Blocks, group: int) -> int:
    return min(group * GROUP + GROUP, blocks.reach.size)


@jit(makes_arrays=False, forceinline=True)
def _find_highest(blocks: Blocks, group: int) -> None:
    highest = -np.inf
    for b in range(group * GROUP, _end(blocks, group)):
        highest = max(highest, blocks.reach[b])
    blocks.highest[group] = highest


@jit(makes_arrays=False, forceinline=True)
def _place_of_max(values: Floats, begin: int, end: int) -> int:
    place = begin
    for i in range(begin + 1, end):
        place = i if values[i] > values[place] else place
    return place


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
    search.blocks.reach[b] = -np.inf
    blocks, spread = ranking.bound.shape[0], weights.spread * cluster.idle[0]
    turn = (b - _start(search.seed, blocks)) % blocks
    salt = np.uint64(search.seed) ^ _COIN
    for s in range(b * BLOCK, min(b * BLOCK + BLOCK, ranking.base.shape[0])):
        first = ranking.base[s, 0] - spread * cluster.busy[s]
        if first > -np.inf and not _is_below(listing, listing.unit.size, first + ROUNDING):
            entry = Entry(s, ranking.base[s, 0], spread, search.cap, turn, search.is_one)
            _list_units(cluster, listing, entry, salt)


@jit(makes_arrays=False)
def _top(cluster: Cluster, ranking: Ranking, weights: Weights, blocks: Blocks) -> float:
    """Return the highest score of an eligible unit."""
    best = -np.inf
    first = _place_of_max(blocks.reach, 0, blocks.reach.size)
    for turn in range(-1, blocks.reach.size):
        b = first if turn < 0 else turn
        if blocks.reach[b] <= best + 2 * ROUNDING:
            continue
        _tighten(cluster, ranking, weights, blocks, b)
        for s in range(b * BLOCK, min(b * BLOCK + BLOCK, ranking.base.shape[0])):
            if ranking.base[s, 0] > -np.inf:
                total = ranking.base[s, 0] - weights.spread * cluster.idle[0] * cluster.busy[s]
                best = max(best, total)
    return best


@jit(makes_arrays=False)
def _list_units(cluster: Cluster, listing: Listing, entry: Entry, salt: np.uint64) -> None:
    """Add the free units of a server to the listing, if they are among the best."""
    size, count = int(cluster.server_units[entry.server]), listing.unit.size
    busy = size - cluster.free_count[entry.server]
    first, key, filled = int(cluster.first_unit[entry.server]), listing.key, listing.filled
    together = 0 if entry.is_one else _coin(salt, entry.server) | MAX_PLACES
    for u in range(first, first + size):
        if not cluster.unit_free[u]:
            continue
        total = entry.base - entry.spread * (busy / size)
        busy += 1 if entry.is_one else 0
        steps = min(_steps(total), entry.cap)
        if filled[0] == count and steps < key[count - 1, 0]:
            break  # the next units of this server have lower scores
        coin = _coin(salt, u) if entry.is_one else together - min(u - first, MAX_PLACES)
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
            listing.server[j] = listing.server[j - 1]
        key[at, 0], key[at, 1], key[at, 3] = steps, -entry.turn, coin
        listing.unit[at], listing.score[at], listing.server[at] = u, total, entry.server


@jit(makes_arrays=False, forceinline=True)
def _coin(salt: np.uint64, at: int) -> int:
    """Return `chance.coins` of a unit or server."""
    return _signed(word(salt, np.uint64(at)) >> _1)


@jit(makes_arrays=False)
def _is_above(steps: int, turn: int, coin: int, key: Ints, at: int) -> bool:
    """Return whether a new key is higher than one of the listing."""
    if steps != key[at, 0]:
        return steps > key[at, 0]
    return turn > key[at, 1] if turn != key[at, 1] else coin > key[at, 3]


@jit(makes_arrays=False)
def describe(cluster: Cluster, demand: Demand, best: Best) -> None:
    """Add the headroom and the expectations of units; scores become those shown."""
    _read_servers(cluster, demand, best)
    for j in range(best.units.size):
        lost = 0.0
        for i in range(N_SOURCES):
            felt = best.headroom[j, i]
            best.headroom[j, i] = demand.tolerated[i] - felt
            lost += log_performance(min(felt, 100.0), demand.tolerated[i])
        best.expectations[j, 0] = math.exp(best.expectations[j, 0])
        best.expectations[j, 1] = math.exp(lost)
        best.expectations[j, 2] = math.exp(best.expectations[j, 2])


@jit(makes_arrays=False)
def _read_servers(cluster: Cluster, demand: Demand, best: Best) -> None:
    """Write the pressures as headroom and the logarithms of the expectations.

    These are reads from memory, none of which waits for another.
    """
    for j in range(best.units.size):
        s = best.servers[j]
        others, neighbours = max(cluster.server_units[s] - 1, 1), 0.0
        for i in range(N_SOURCES):
            best.headroom[j, i] = pressure(cluster, s, i)
            neighbours += np.float64(cluster.server_exposure[s, i]) * demand.caused[i]
        best.score[j] += cluster.elsewhere[s]
        best.expectations[j, 0] = demand.log_speed[cluster.platform[s]]
        best.expectations[j, 2] = neighbours / others
        best.expectations[j, 3] = cluster.busy[s]


@jit(makes_arrays=False, forceinline=True)
def _steps(score: float) -> int:
    """Return a score as the first word of a key."""
    return np.int64(np.round(score * STEPS))  # type: ignore[return-value]  # an int to numba


@jit(makes_arrays=False, forceinline=True)
def _signed(number: np.uint64) -> int:
    return np.int64(number)  # type: ignore[return-value]  # an int to numba
