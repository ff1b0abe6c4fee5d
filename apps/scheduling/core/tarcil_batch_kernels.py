"""Compiled decisions of Tarcil on many jobs of one unit in one call.

Imported by processes that decide, never by the web process. A call does for each job in turn what
``kernels.filter_servers`` and ``kernels.score_sample`` do for one, and takes its unit; the filters
are evaluated once for each distinct filter, then again for the server of each unit taken.

Notation as in ``kernels``: s a server, u a unit; n jobs, R candidates at most, F distinct filters.
"""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from apps.common.core.compiled import jit
from apps.common.core.interference import N_SOURCES
from apps.inventory.core.snapshot import Bools, Floats, Ints, Shorts, Singles
from apps.scheduling.core import chance, encoding, samplers
from apps.scheduling.core.kernels import (
    below,
    closeness,
    digit_pair,
    fitting_units,
    is_above,
    word,
)

Bytes = NDArray[np.uint8]

N: Final = N_SOURCES
HALF: Final = encoding.HALF
B: Final = encoding.BASE
GUARDED: Final = int(encoding.Form.GUARDED)
DENSE, CROWDED = samplers.DENSE, samplers.CROWDED
ELIGIBLE: Final = 7  # behind the filters of `filters.FILTERS`
CAPACITY: Final = 5
AHEAD: Final = 32  # draws that are tried at once
_COIN = np.uint64(chance.COIN)
_1 = np.uint64(1)
_PLACES = 100 ** np.arange(HALF - 1, -1, -1, dtype=np.int64)
_HIGH = np.concatenate((_PLACES, np.zeros(HALF, dtype=np.int64)))  # by rank of the source
_LOW = np.concatenate((np.zeros(HALF, dtype=np.int64), _PLACES))


class Servers(NamedTuple):
    """Arrays of a writable `BatchState`, by unit and by server; the last four do not change."""

    unit_free: Bools
    free_count: Shorts
    server_caused: Singles
    server_free: Floats
    unit_server: Shorts
    server_units: Shorts
    platform: Shorts
    share: Floats


class Filters(NamedTuple):
    """The distinct filters of a batch.

    verdict : (F, S) uint8 the filter that rejects the free units of a server, or `ELIGIBLE`
    counts : (F, 8) free units by verdict
    requested : (F, 3)
    """

    verdict: Bytes
    counts: Ints
    requested: Floats


class Jobs(NamedTuple):
    """Jobs in the order in which they are decided.

    caused, tolerated : (n, N)
    speed : (K, P) distinct speeds, as `scorers.speed_steps`
    speed_row, filter_row : (n,) rows of ``speed`` and of `Filters`
    sample : (n,) candidates to draw, at most R
    seed : (n,)
    """

    caused: Floats
    tolerated: Floats
    speed: Ints
    speed_row: Ints
    filter_row: Ints
    sample: Ints
    seed: Ints


class Found(NamedTuple):
    """Candidates of each job, best first; the first is taken.

    size : (n,) number of candidates
    counts : (n, 8) free units by verdict, before the job
    unit, server, quality, close : (n, R)
    key : (n, R, 4)
    headroom : (n, R, N)
    target : (n,)
    """

    size: Ints
    counts: Ints
    unit: Ints
    server: Shorts
    key: Ints
    quality: Floats
    close: Floats
    headroom: Floats
    target: Floats


class Scratch(NamedTuple):
    """Of one job.

    drawn, order : (R,) units as drawn, and their positions, best first
    rank : (N,) of the sources
    tried : (`AHEAD` + 1,) free units among the next draws
    key : (R, 4)
    quality : (R, 2) words of U_H
    server : (R,) of each unit
    pressure : (R, N)
    places : (2, N) place values of the sources in the two words of a code
    listed : (U,) int32 eligible units, if all are listed
    """

    drawn: Ints
    order: Ints
    rank: Ints
    tried: Ints
    key: Ints
    quality: Ints
    server: Shorts
    pressure: Floats
    places: Ints
    listed: Shorts


class Constraints(NamedTuple):
    """What a filter tests besides capacity: is_open, labelled, excluded (S,), allowed (P,)."""

    is_open: Bools
    allowed: Bools
    labelled: Bools
    excluded: Bools


class Demand(NamedTuple):
    """Candidates of a job, and the two words of its T_W."""

    size: int
    target_h: np.int64
    target_l: np.int64


class Rule(NamedTuple):
    """``encoding.Form``, and the margin of the form `GUARDED`."""

    form: int
    margin: float


@jit(makes_arrays=False)
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


@jit(makes_arrays=False, forceinline=True)
def _has_room(servers: Servers, filters: Filters, f: int, s: int) -> bool:
    return fitting_units(filters.requested[f], servers.share[s], servers.server_free[s], 1) > 0


@jit(makes_arrays=False)
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
    for j in range(start, jobs.seed.size):
        f = jobs.filter_row[j]
        for i in range(filters.counts.shape[1]):
            found.counts[j, i] = filters.counts[f, i]
        size = min(jobs.sample[j], filters.counts[f, ELIGIBLE])
        found.size[j] = size
        if size == 0:
            return j
        _draw(servers, filters, f, scratch, size, np.uint64(jobs.seed[j]))
        target_h, target_l = _read_demand(jobs, j, scratch)
        demand = Demand(size, target_h, target_l)
        _rate(servers, jobs, j, rule, scratch, demand)
        _write(found, jobs.tolerated, j, scratch, demand)
        _take(servers, filters, f, jobs.caused[j], found.unit[j, 0])
    return jobs.seed.size


@jit(makes_arrays=False, forceinline=True)
def _draw(
    servers: Servers, filters: Filters, f: int, scratch: Scratch, size: int, seed: np.uint64
) -> None:
    """Draw units: ``samplers.uniform``."""
    units, eligible = servers.unit_free.size, filters.counts[f, ELIGIBLE]
    if eligible * DENSE < units or size * CROWDED > eligible:
        _draw_from_list(servers, filters, f, scratch, size, seed)
        return
    drawn, draw = 0, np.uint64(0)
    while drawn < size:
        # several at once and without branches, so that the memory is read in parallel
        free = 0
        for i in range(AHEAD):
            u = below(word(seed, draw + np.uint64(i)), units)
            scratch.tried[free] = u
            free += servers.unit_free[u]
        draw += np.uint64(AHEAD)
        for i in range(free):
            u = scratch.tried[i]
            if drawn < size and filters.verdict[f, servers.unit_server[u]] == ELIGIBLE:
                is_new = True
                for k in range(drawn):
                    is_new &= scratch.drawn[k] != u
                scratch.drawn[drawn] = u
                drawn += is_new


@jit(makes_arrays=False)
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


@jit(makes_arrays=False, forceinline=True)
def _read_demand(jobs: Jobs, j: int, scratch: Scratch) -> tuple[np.int64, np.int64]:
    """Return the two words of T_W, and fill the places: ``encoding.demand``."""
    caused, rank = jobs.caused[j], scratch.rank
    for i in range(N):
        rank[i] = 0
    for k in range(N):
        for i in range(N):  # of two equal sources the first comes first
            rank[i] += (caused[k] > caused[i]) | ((caused[k] == caused[i]) & (k < i))
    high = low = np.int64(0)
    for i in range(N):
        scratch.places[0, i] = place_h = _HIGH[rank[i]]
        scratch.places[1, i] = place_l = _LOW[rank[i]]
        pair = digit_pair(caused[i])
        high += pair * place_h
        low += pair * place_l
    return high, low


@jit(makes_arrays=False, forceinline=True)
def _rate(
    servers: Servers, jobs: Jobs, j: int, rule: Rule, scratch: Scratch, demand: Demand
) -> None:
    """Compute the keys of the units drawn, and their order."""
    salt, speed = np.uint64(jobs.seed[j]) ^ _COIN, jobs.speed[jobs.speed_row[j]]
    for at in range(demand.size):  # all reads come first, as none waits for another
        s = scratch.server[at] = servers.unit_server[scratch.drawn[at]]
        size = servers.server_units[s]
        others, has_others = np.float64(max(size - 1, 1)), np.float64(size > 1)
        for i in range(N):
            scratch.pressure[at, i] = servers.server_caused[s, i] / others * has_others
    for at in range(demand.size):
        high, low, noisy = _quality(jobs.tolerated, j, rule, scratch, at)
        margin_ok = rule.form != GUARDED or noisy == 0
        key = scratch.key[at]
        key[0], key[1] = closeness(
            high, low, demand.target_h, demand.target_l, rule.form, margin_ok
        )
        key[2] = speed[servers.platform[scratch.server[at]]]
        key[3] = np.int64(word(salt, np.uint64(scratch.drawn[at])) >> _1)
        scratch.quality[at, 0], scratch.quality[at, 1] = high, low
        i = at
        while i > 0 and is_above(scratch.key, at, scratch.order[i - 1]):
            scratch.order[i] = scratch.order[i - 1]
            i -= 1
        scratch.order[i] = at


@jit(makes_arrays=False, forceinline=True)
def _quality(
    tolerated: Floats, j: int, rule: Rule, scratch: Scratch, at: int
) -> tuple[np.int64, np.int64, int]:
    """Return the words of U_H and the sources without a margin.

    Source: Tarcil Eq. 3 and 4. Sums of integers, so that the order of the sources is free.
    """
    high = low = np.int64(0)
    noisy = 0
    for i in range(N):
        pressure = scratch.pressure[at, i]
        noisy += tolerated[j, i] - pressure < rule.margin
        pair = 99 - digit_pair(pressure)
        high += pair * scratch.places[0, i]
        low += pair * scratch.places[1, i]
    return high, low, noisy


@jit(makes_arrays=False, forceinline=True)
def _write(found: Found, tolerated: Floats, j: int, scratch: Scratch, demand: Demand) -> None:
    """Write the candidates of a job, best first."""
    found.target[j] = (demand.target_h + demand.target_l / B) / B
    for i in range(demand.size):
        at = scratch.order[i]
        u = scratch.drawn[at]
        found.unit[j, i], found.server[j, i] = u, scratch.server[at]
        for k in range(4):
            found.key[j, i, k] = scratch.key[at, k]
        for k in range(N):
            found.headroom[j, i, k] = tolerated[j, k] - scratch.pressure[at, k]
        found.quality[j, i] = (scratch.quality[at, 0] + scratch.quality[at, 1] / B) / B
        close_h = scratch.key[at, 0] - B * (scratch.key[at, 0] >= B)  # without the bit of a hit
        found.close[j, i] = (close_h + scratch.key[at, 1] / B) / B


@jit(makes_arrays=False, forceinline=True)
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
