"""Compiled decisions of Tarcil on many jobs of one unit in one call.

Imported by processes that decide, never by the web process. A call does for each job in turn what
``kernels.filter_servers`` and ``kernels.score_sample`` do for one, and takes its unit; the filters
are evaluated once for each distinct filter, then again for the server of each unit taken.

Notation as in ``kernels``: s a server, u a unit; n jobs, R candidates at most, F distinct filters.
"""

from typing import Any, Final

import numpy as np

from apps.common.core.compiled import jit
from apps.inventory.core.snapshot import Ints, Shorts
from apps.scheduling.core import chance, samplers
from apps.scheduling.core.tarcil import encoding
from apps.scheduling.core.tarcil.batch_arrays import (
    AHEAD,
    BLOCK,
    Constraints,
    Demand,
    Filters,
    Found,
    Jobs,
    N,
    Record,
    Rule,
    Scratch,
    Servers,
)
from apps.scheduling.core.tarcil.kernels import KEEP, below, closeness, is_above, word

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
    """Whether ``kernels.fitting_units`` finds room for a unit; without its divisions."""
    has_room = True
    for i in range(3):
        wanted = filters.requested[f, i]
        vector = (wanted if wanted > 0 else servers.share[s, i]) * KEEP
        has_room &= (vector <= 0) | (servers.server_free[s, i] >= vector)
    return has_room


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
    work: Record = scratch.work[0]
    if (jobs.rows.size - start) * AHEAD * LINE >= servers.unit_free.size:
        _read_through(servers, work)
    for j in range(start, jobs.rows.size):
        if (j - start) % BLOCK == 0:
            _read_ahead(servers, jobs, j, work)
        job: Record = jobs.rows[j]
        f = job.filter_row
        outcome: Record = found.outcomes[j]
        for i in range(filters.counts.shape[1]):
            outcome.counts[i] = filters.counts[f, i]
        size = min(job.sample, filters.counts[f, ELIGIBLE])
        outcome.size = size
        if size == 0:
            return j
        if _is_sparse(servers, filters, f, size):
            _draw_from_list(servers, filters, f, work, scratch.listed, size, job.seed)
        else:
            _draw(servers, filters, f, work, size, job.seed, (j - start) % BLOCK)
        target_h, target_l = _read_demand(job, work)
        outcome.target = (target_h + target_l / B) / B
        demand = Demand(size, target_h, target_l)
        _press(servers, job, work, size)
        _rate(servers, job, jobs.speed[job.speed_row], rule, work, demand)
        _rank(work, size)
        _write(found, j, work, size)
        _take(servers, filters, f, job, found.candidates[j, 0].unit)
    return jobs.rows.size


@jit(**KERNEL, forceinline=True)
def _read_through(servers: Servers, work: Record) -> None:
    """Bring arrays into the cache of which the draws of a batch read most lines.

    In order, as the processor then reads ahead by itself.
    """
    touched = 0
    for u in range(0, servers.unit_free.size, LINE):
        touched += servers.unit_free[u]
    for s in range(0, servers.platform.size, LINE // 4):  # both have four bytes
        touched += servers.platform[s] + servers.server_units[s]
    work.touched = touched


@jit(**KERNEL, forceinline=True)
def _read_ahead(servers: Servers, jobs: Jobs, j: int, work: Record) -> None:
    """List the free units among the first draws of the next `BLOCK` jobs, and read their servers.

    These reads do not wait for each other, so that the memory answers many at once.
    """
    last = min(j + BLOCK, jobs.rows.size)
    for b in range(last - j):
        work.n_free_ahead[b] = _find_free(
            servers, work, jobs.rows[j + b].seed, 0, work.free_ahead[b]
        )
    touched = np.float32(0.0)
    for b in range(last - j):
        for i in range(min(jobs.rows[j + b].sample, work.n_free_ahead[b])):
            s = servers.unit_server[work.free_ahead[b, i]]
            touched += servers.server_caused[s, 0] + servers.server_caused[s, N - 1]
    work.touched = touched


@jit(**KERNEL, forceinline=True)
def _is_sparse(servers: Servers, filters: Filters, f: int, size: int) -> bool:
    """Whether draws from all units would seldom find new eligible ones."""
    eligible = filters.counts[f, ELIGIBLE]
    return (eligible * DENSE < servers.unit_free.size) | (size * CROWDED > eligible)


@jit(**KERNEL, forceinline=True)
def _draw(  # noqa: PLR0913, PLR0917 - numba takes arrays, not objects
    servers: Servers,
    filters: Filters,
    f: int,
    work: Record,
    size: int,
    seed: np.int64,
    b: int,
) -> None:
    """Draw units: ``samplers.uniform``. The first draws of the job are row b of those ahead."""
    drawn, draw = 0, AHEAD
    for i in range(work.n_free_ahead[b]):
        u = work.free_ahead[b, i]  # a job of the same block may have taken it
        if drawn < size and servers.unit_free[u]:
            drawn = _drawn(servers, filters, f, work, u, drawn)
    while drawn < size:
        free = _find_free(servers, work, seed, draw, work.free)
        draw += AHEAD
        for i in range(free):
            if drawn < size:
                drawn = _drawn(servers, filters, f, work, work.free[i], drawn)


@jit(**KERNEL, forceinline=True)
def _find_free(servers: Servers, work: Record, seed: np.int64, first: int, free: Ints) -> int:
    """Fill ``free`` with the free units among the next `AHEAD` draws; return their number.

    First all draws, with vectors, then all reads, without branches, so that the memory answers
    many at once.
    """
    for i in range(AHEAD):
        work.draws[i] = below(word(np.uint64(seed), np.uint64(first + i)), servers.unit_free.size)
    found = 0
    for i in range(AHEAD):
        free[found] = work.draws[i]
        found += servers.unit_free[work.draws[i]]
    return found


@jit(**KERNEL, forceinline=True)
def _drawn(servers: Servers, filters: Filters, f: int, work: Record, u: int, drawn: int) -> int:
    """Add a free unit to those drawn if it is eligible and new; return their number."""
    if filters.verdict[f, servers.unit_server[u]] != ELIGIBLE:
        return drawn
    is_new = True
    for k in range(drawn):
        is_new &= work.drawn[k] != u
    work.drawn[drawn] = u
    return drawn + is_new


@jit(**KERNEL)
def _draw_from_list(  # noqa: PLR0913, PLR0917 - numba takes arrays, not objects
    servers: Servers,
    filters: Filters,
    f: int,
    work: Record,
    listed: Shorts,
    size: int,
    seed: np.int64,
) -> None:
    last = 0
    for u in range(servers.unit_free.size):
        if servers.unit_free[u] and filters.verdict[f, servers.unit_server[u]] == ELIGIBLE:
            listed[last] = u
            last += 1
    for i in range(size):
        j = i + below(word(np.uint64(seed), np.uint64(i)), last - i)
        listed[i], listed[j] = listed[j], listed[i]
        work.drawn[i] = listed[i]


@jit(**KERNEL, forceinline=True)
def _read_demand(job: Record, work: Record) -> tuple[np.int64, np.int64]:
    """Return the two words of T_W, and fill the places: ``encoding.demand``."""
    ranks = np.int64(0)  # of all sources, four bits each: they stay in a register
    for k in range(1, N):
        for i in range(k):  # of two equal sources the first comes first
            after = i if job.caused[k] > job.caused[i] else k
            ranks += np.int64(1) << np.int64(RANK_BITS * after)
    high = low = 0.0
    for i in range(N):
        rank = (ranks >> (RANK_BITS * i)) & RANK_MASK
        work.places[0, i] = place_h = _HIGH[rank]
        work.places[1, i] = place_l = _LOW[rank]
        pair = _digits(job.caused[i])
        high += pair * place_h
        low += pair * place_l
    return np.int64(high), np.int64(low)


@jit(**KERNEL, forceinline=True)
def _digits(score: float) -> float:
    """``kernels.digit_pair`` as a float: words of codes are exact, as they are below 2^53."""
    return min(99.0, max(0.0, np.floor(score + 0.5)))


@jit(**KERNEL, forceinline=True)
def _press(servers: Servers, job: Record, work: Record, size: int) -> None:
    """Fill the headroom of the units drawn, and the digits of their U_H.

    Flat arrays of all candidates and sources, so that the compiler uses vectors.
    """
    for at in range(size):
        s = work.server[at] = servers.unit_server[work.drawn[at]]
        units = servers.server_units[s]
        others = np.float64(units - 1) if units > 1 else np.inf  # alone: no pressure
        for i in range(N):
            work.pressure[at * N + i] = servers.server_caused[s, i]
            work.others[at * N + i] = others
            work.headroom[at * N + i] = job.tolerated[i]
    for i in range(size * N):
        score = work.pressure[i] / work.others[i]
        work.headroom[i] -= score
        work.digits[i] = 99.0 - _digits(score)


@jit(**KERNEL, forceinline=True)
def _rate(
    servers: Servers, job: Record, speed: Ints, rule: Rule, work: Record, demand: Demand
) -> None:
    """Compute the keys of the units drawn.

    U_H in a loop of its own: the branches of Q, which the processor often predicts wrongly, would
    stop the sums of the next candidate.
    """
    for at in range(demand.size):
        work.quality[at, 0], work.quality[at, 1], work.noisy[at] = _quality(rule, work, at)
    salt = np.uint64(job.seed) ^ _COIN
    for at in range(demand.size):
        high, low = work.quality[at, 0], work.quality[at, 1]
        margin_ok = rule.form != GUARDED or work.noisy[at] == 0
        work.key[at, 0], work.key[at, 1] = closeness(
            high, low, demand.target_h, demand.target_l, rule.form, margin_ok
        )
        work.key[at, 2] = speed[servers.platform[work.server[at]]]
        work.key[at, 3] = np.int64(word(salt, np.uint64(work.drawn[at])) >> _1)
        work.first[at] = work.key[at, 0]


@jit(**KERNEL, forceinline=True)
def _quality(rule: Rule, work: Record, at: int) -> tuple[np.int64, np.int64, int]:
    """Return the words of U_H and the sources without a margin.

    Source: Tarcil Eq. 3 and 4.
    """
    high = low = 0.0
    noisy = 0
    for i in range(N):
        noisy += work.headroom[at * N + i] < rule.margin
        high += work.digits[at * N + i] * work.places[0, i]
        low += work.digits[at * N + i] * work.places[1, i]
    return np.int64(high), np.int64(low), noisy


@jit(**KERNEL, forceinline=True)
def _rank(work: Record, size: int) -> None:
    """Find the place of each unit drawn. O(R²).

    By the first word of the keys, without branches, as the outcomes are random; by the whole keys
    if two units have the same word.
    """
    for at in range(size):
        work.place[at] = work.equal[at] = 0
    for other in range(size):
        first = work.first[other]
        for at in range(size):
            work.place[at] += first > work.first[at]
            work.equal[at] += first == work.first[at]
    equal = 0
    for at in range(size):
        equal += work.equal[at]
    if equal == size:  # each only to itself
        return
    for at in range(size):
        work.place[at] = 0
        for other in range(size):
            work.place[at] += is_above(work.key, other, at)


@jit(**KERNEL, forceinline=True)
def _write(found: Found, j: int, work: Record, size: int) -> None:
    """Write the candidates of a job, best first."""
    for at in range(size):
        candidate: Record = found.candidates[j, work.place[at]]
        candidate.unit, candidate.server = work.drawn[at], work.server[at]
        for k in range(4):
            candidate.key[k] = work.key[at, k]
        for k in range(N):
            candidate.headroom[k] = work.headroom[at * N + k]
        candidate.quality = (work.quality[at, 0] + work.quality[at, 1] / B) / B
        close_h = work.key[at, 0] - B * (work.key[at, 0] >= B)  # without the bit of a hit
        candidate.close = (close_h + work.key[at, 1] / B) / B


@jit(**KERNEL, forceinline=True)
def _take(servers: Servers, filters: Filters, f: int, job: Record, u: int) -> None:
    """Allocate a unit, as `BatchState.allocate`, and evaluate the filters of its server again."""
    s = servers.unit_server[u]
    was = servers.free_count[s]
    servers.unit_free[u] = False
    servers.free_count[s] = was - 1
    for i in range(N):
        servers.server_caused[s, i] += np.float32(job.caused[i])
    for i in range(3):
        wanted = filters.requested[f, i]
        servers.server_free[s, i] -= wanted if wanted > 0 else servers.share[s, i]
    for other in range(filters.verdict.shape[0]):
        verdict = filters.verdict[other, s]
        filters.counts[other, verdict] -= was
        if verdict == ELIGIBLE and not _has_room(servers, filters, other, s):
            filters.verdict[other, s] = verdict = CAPACITY
        filters.counts[other, verdict] += was - 1
