"""Compiled decisions of Tarcil on many jobs of one unit in one call.

Imported by processes that decide, never by the web process. A call does for each job in turn what
``kernels.filter_servers`` and ``kernels.score_sample`` do for one, and takes its unit; the filters
are evaluated once for each distinct filter, then again for the server of each unit taken.

Notation as in ``kernels``: s a server, u a unit; n jobs, R candidates at most, F distinct filters.
"""

from typing import Any, Final

import numpy as np

from apps.common.core.compiled import jit
from apps.common.core.interference import N_SOURCES
from apps.inventory.core.snapshot import Floats, Ints
from apps.scheduling.core import chance, encoding, samplers
from apps.scheduling.core.kernels import below, closeness, fitting_units, word
from apps.scheduling.core.tarcil_batch_arrays import (
    AHEAD,
    BLOCK,
    Constraints,
    Demand,
    Filters,
    Found,
    Jobs,
    Rule,
    Scratch,
    Servers,
)

N: Final = N_SOURCES
HALF: Final = encoding.HALF
B: Final = encoding.BASE
GUARDED: Final = int(encoding.Form.GUARDED)
DENSE, CROWDED = samplers.DENSE, samplers.CROWDED
ELIGIBLE: Final = 7  # behind the filters of `filters.FILTERS`
CAPACITY: Final = 5
LINE: Final = 64  # bytes of a line of the processor's cache
# No divisor is zero; a test of each would keep the compiler from vectors.
KERNEL: Final[dict[str, Any]] = {"makes_arrays": False, "error_model": "numpy"}
_COIN = np.uint64(chance.COIN)
_1 = np.uint64(1)
RANK_BITS: Final = 4
RANK_MASK: Final = (1 << RANK_BITS) - 1
_PLACES = 100.0 ** np.arange(HALF - 1, -1, -1)
_HIGH = np.concatenate((_PLACES, np.zeros(HALF)))  # by rank of the source
_LOW = np.concatenate((np.zeros(HALF), _PLACES))


@jit(**KERNEL)
def evaluate_filter(servers: Servers, filters: Filters, f: int, tested: Constraints) -> None:
    """Evaluate a filter on all servers: the tests of ``kernels.filter_servers``. O(S)."""
    for s in range(servers.free_count.size):
        verdict = ELIGIBLE
        if not tested.is_open[s]:
            verdict = 1
        elif not tested.allowed[servers.platform[s]]:
            verdict = 2
        elif not tested.labelled[s]:
            verdict = 3
        elif tested.excluded[s]:
            verdict = 4
        elif not _has_room(servers, filters, f, s):
            verdict = CAPACITY
        filters.verdict[f, s] = verdict
        filters.counts[f, verdict] += servers.free_count[s]


@jit(**KERNEL, forceinline=True)
def _has_room(servers: Servers, filters: Filters, f: int, s: int) -> bool:
    return fitting_units(filters.requested[f], servers.share[s], servers.server_free[s], 1) > 0


@jit(**KERNEL)
def decide(  # noqa: PLR0913, PLR0917 - numba takes arrays, not objects
    servers: Servers,
    filters: Filters,
    jobs: Jobs,
    rule: Rule,
    found: Found,
    scratch: Scratch,
    start: int,
) -> int:
    """Decide on jobs from ``start`` on, take their units, and return how far it came.

    That is the first job without an eligible unit, or n. O(R·(N + R)) for each job, and O(F) for
    its unit.
    """
    if (jobs.seed.size - start) * AHEAD * LINE >= servers.unit_free.size:
        _read_through(servers, scratch)
    for j in range(start, jobs.seed.size):
        if (j - start) % BLOCK == 0:
            _read_ahead(servers, jobs, j, scratch)
        f = jobs.filter_row[j]
        for i in range(filters.counts.shape[1]):
            found.counts[j, i] = filters.counts[f, i]
        size = min(jobs.sample[j], filters.counts[f, ELIGIBLE])
        found.size[j] = size
        if size == 0:
            return j
        _draw(servers, filters, f, scratch, size, np.uint64(jobs.seed[j]), (j - start) % BLOCK)
        target_h, target_l = _read_demand(jobs, j, scratch)
        demand = Demand(size, target_h, target_l)
        _rate(servers, jobs, j, rule, scratch, demand)
        _write(found, j, scratch, demand)
        _take(servers, filters, f, jobs.caused[j], found.unit[j, 0])
    return jobs.seed.size


@jit(**KERNEL, forceinline=True)
def _read_through(servers: Servers, scratch: Scratch) -> None:
    """Bring arrays into the cache of which the draws of a batch read most lines.

    In order, as the processor then reads ahead by itself.
    """
    touched = 0
    for u in range(0, servers.unit_free.size, LINE):
        touched += servers.unit_free[u]
    for s in range(0, servers.platform.size, LINE // 4):  # both have four bytes
        touched += servers.platform[s] + servers.server_units[s]
    scratch.touched[0] = touched


@jit(**KERNEL, forceinline=True)
def _read_ahead(servers: Servers, jobs: Jobs, j: int, scratch: Scratch) -> None:
    """List the free units among the first draws of the next `BLOCK` jobs, and read their servers.

    These reads do not wait for each other, so that the memory answers many at once.
    """
    units = servers.unit_free.size
    last = min(j + BLOCK, jobs.seed.size)
    for b in range(last - j):
        seed, free = np.uint64(jobs.seed[j + b]), 0
        for i in range(AHEAD):
            u = below(word(seed, np.uint64(i)), units)
            scratch.ahead[b, free] = u
            free += servers.unit_free[u]
        scratch.n_ahead[b] = free
    touched = np.float32(0.0)
    for b in range(last - j):
        for i in range(min(jobs.sample[j + b], scratch.n_ahead[b])):
            s = servers.unit_server[scratch.ahead[b, i]]
            touched += servers.server_caused[s, 0] + servers.server_caused[s, N - 1]
    scratch.touched[0] = touched


@jit(**KERNEL, forceinline=True)
def _draw(  # noqa: PLR0913, PLR0917 - numba takes arrays, not objects
    servers: Servers,
    filters: Filters,
    f: int,
    scratch: Scratch,
    size: int,
    seed: np.uint64,
    b: int,
) -> None:
    """Draw units: ``samplers.uniform``. The first draws of the job are row b of those ahead."""
    units, eligible = servers.unit_free.size, filters.counts[f, ELIGIBLE]
    if eligible * DENSE < units or size * CROWDED > eligible:
        _draw_from_list(servers, filters, f, scratch, size, seed)
        return
    drawn, draw = 0, np.uint64(AHEAD)
    for i in range(scratch.n_ahead[b]):
        u = scratch.ahead[b, i]  # a job of the same block may have taken it
        if drawn < size and servers.unit_free[u]:
            drawn = _drawn(servers, filters, f, scratch, u, drawn)
    while drawn < size:
        # several at once and without branches, so that the memory is read in parallel
        free = 0
        for i in range(AHEAD):
            u = below(word(seed, draw + np.uint64(i)), units)
            scratch.tried[free] = u
            free += servers.unit_free[u]
        draw += np.uint64(AHEAD)
        for i in range(free):
            if drawn < size:
                drawn = _drawn(servers, filters, f, scratch, scratch.tried[i], drawn)


@jit(**KERNEL, forceinline=True)
def _drawn(
    servers: Servers, filters: Filters, f: int, scratch: Scratch, u: int, drawn: int
) -> int:
    """Add a free unit to those drawn if it is eligible and new; return their number."""
    if filters.verdict[f, servers.unit_server[u]] != ELIGIBLE:
        return drawn
    is_new = True
    for k in range(drawn):
        is_new &= scratch.drawn[k] != u
    scratch.drawn[drawn] = u
    return drawn + is_new


@jit(**KERNEL)
def _draw_from_list(
    servers: Servers, filters: Filters, f: int, scratch: Scratch, size: int, seed: np.uint64
) -> None:
    listed = 0
    for u in range(servers.unit_free.size):
        if servers.unit_free[u] and filters.verdict[f, servers.unit_server[u]] == ELIGIBLE:
            scratch.listed[listed] = u
            listed += 1
    for i in range(size):
        j = i + below(word(seed, np.uint64(i)), listed - i)
        scratch.listed[i], scratch.listed[j] = scratch.listed[j], scratch.listed[i]
        scratch.drawn[i] = scratch.listed[i]


@jit(**KERNEL, forceinline=True)
def _read_demand(jobs: Jobs, j: int, scratch: Scratch) -> tuple[np.int64, np.int64]:
    """Return the two words of T_W, and fill the places: ``encoding.demand``."""
    ranks = np.int64(0)  # of all sources, four bits each: they stay in a register
    for k in range(1, N):
        for i in range(k):  # of two equal sources the first comes first
            after = i if jobs.caused[j, k] > jobs.caused[j, i] else k
            ranks += np.int64(1) << np.int64(RANK_BITS * after)
    high = low = 0.0
    for i in range(N):
        rank = (ranks >> (RANK_BITS * i)) & RANK_MASK
        scratch.places[0, i] = place_h = _HIGH[rank]
        scratch.places[1, i] = place_l = _LOW[rank]
        pair = _digits(jobs.caused[j, i])
        high += pair * place_h
        low += pair * place_l
    return np.int64(high), np.int64(low)


@jit(**KERNEL, forceinline=True)
def _digits(score: float) -> float:
    """``kernels.digit_pair`` as a float: words of codes are exact, as they are below 2^53."""
    return min(99.0, max(0.0, np.floor(score + 0.5)))


@jit(**KERNEL, forceinline=True)
def _rate(
    servers: Servers, jobs: Jobs, j: int, rule: Rule, scratch: Scratch, demand: Demand
) -> None:
    """Compute the keys of the units drawn, and the place of each, from 0 = best."""
    for at in range(demand.size):
        s = scratch.server[at] = servers.unit_server[scratch.drawn[at]]
        size = servers.server_units[s]
        others = np.float64(size - 1) if size > 1 else np.inf  # alone: no pressure
        for i in range(N):
            scratch.pressure[at * N + i] = servers.server_caused[s, i]
            scratch.others[at * N + i] = others
            scratch.headroom[at * N + i] = jobs.tolerated[j, i]
    _press(scratch.pressure, scratch.others, scratch.headroom, scratch.digits, demand.size * N)
    salt, speed = np.uint64(jobs.seed[j]) ^ _COIN, jobs.speed[jobs.speed_row[j]]
    for at in range(demand.size):
        high, low, noisy = _quality(rule, scratch, at)
        margin_ok = rule.form != GUARDED or noisy == 0
        key = scratch.key[at]
        key[0], key[1] = closeness(
            high, low, demand.target_h, demand.target_l, rule.form, margin_ok
        )
        key[2] = speed[servers.platform[scratch.server[at]]]
        key[3] = np.int64(word(salt, np.uint64(scratch.drawn[at])) >> _1)
        scratch.quality[at, 0], scratch.quality[at, 1] = high, low
        place = np.int64(0)
        for other in range(at):  # compares without branches, as their outcome is random
            above = _is_above(scratch.key, at, other)
            scratch.place[other] += above
            place += 1 - above
        scratch.place[at] = place


@jit(**KERNEL, forceinline=True)
def _press(pressure: Floats, others: Floats, headroom: Floats, digits: Floats, size: int) -> None:
    """Divide the sums of the scores by the other units; headroom and digits of U_H follow.

    Flat arrays of all candidates and sources, so that the compiler uses vectors.
    """
    for i in range(size):
        score = pressure[i] / others[i]
        headroom[i] -= score
        digits[i] = 99.0 - _digits(score)


@jit(**KERNEL, forceinline=True)
def _quality(rule: Rule, scratch: Scratch, at: int) -> tuple[np.int64, np.int64, int]:
    """Return the words of U_H and the sources without a margin.

    Source: Tarcil Eq. 3 and 4.
    """
    high = low = 0.0
    noisy = 0
    for i in range(N):
        noisy += scratch.headroom[at * N + i] < rule.margin
        high += scratch.digits[at * N + i] * scratch.places[0, i]
        low += scratch.digits[at * N + i] * scratch.places[1, i]
    return np.int64(high), np.int64(low), noisy


@jit(**KERNEL, forceinline=True)
def _is_above(key: Ints, a: int, b: int) -> np.int64:
    """``kernels.is_above`` without branches."""
    last = (key[a, 2] > key[b, 2]) | ((key[a, 2] == key[b, 2]) & (key[a, 3] > key[b, 3]))
    low = (key[a, 1] > key[b, 1]) | ((key[a, 1] == key[b, 1]) & last)
    return np.int64((key[a, 0] > key[b, 0]) | ((key[a, 0] == key[b, 0]) & low))


@jit(**KERNEL, forceinline=True)
def _write(found: Found, j: int, scratch: Scratch, demand: Demand) -> None:
    """Write the candidates of a job, best first."""
    found.target[j] = (demand.target_h + demand.target_l / B) / B
    for at in range(demand.size):
        i = scratch.place[at]
        found.unit[j, i], found.server[j, i] = scratch.drawn[at], scratch.server[at]
        for k in range(4):
            found.key[j, i, k] = scratch.key[at, k]
        for k in range(N):
            found.headroom[j, i, k] = scratch.headroom[at * N + k]
        found.quality[j, i] = (scratch.quality[at, 0] + scratch.quality[at, 1] / B) / B
        close_h = scratch.key[at, 0] - B * (scratch.key[at, 0] >= B)  # without the bit of a hit
        found.close[j, i] = (close_h + scratch.key[at, 1] / B) / B


@jit(**KERNEL, forceinline=True)
def _take(servers: Servers, filters: Filters, f: int, caused: Floats, u: int) -> None:
    """Allocate a unit, as `BatchState.allocate`, and evaluate the filters of its server again."""
    s = servers.unit_server[u]
    was = servers.free_count[s]
    servers.unit_free[u] = False
    servers.free_count[s] = was - 1
    for i in range(N):
        servers.server_caused[s, i] += np.float32(caused[i])
    for i in range(3):
        wanted = filters.requested[f, i]
        servers.server_free[s, i] -= wanted if wanted > 0 else servers.share[s, i]
    for other in range(filters.verdict.shape[0]):
        verdict = filters.verdict[other, s]
        filters.counts[other, verdict] -= was
        if verdict == ELIGIBLE and not _has_room(servers, filters, other, s):
            filters.verdict[other, s] = verdict = CAPACITY
        filters.counts[other, verdict] += was - 1
