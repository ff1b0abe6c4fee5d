"""Compiled decisions by expected performance on many jobs of one unit in one call.

Imported by processes that decide, never by the web process. A call does for each job in turn what
`rankings.Rankings.best` and `rankings.RankedState.allocate` do for one. The rankings of all
signatures are therefore rows of common arrays.

Notation: n jobs, K candidates that are listed, G signatures, S servers, B blocks, P platforms, N
sources.
"""

import math
from typing import NamedTuple

from apps.common.core.compiled import jit
from apps.inventory.core.snapshot import Bools, Floats, Ints, Shorts
from apps.scheduling.core.expected.performance import MIN_PERFORMANCE, UNCONTENDED, Weights
from apps.scheduling.core.rankings.kernels import ELIGIBLE, Cluster, Demand, take_units
from apps.scheduling.core.rankings.leaders import Leaders
from apps.scheduling.core.rankings.log import COUNT, FIRST, ChangeLog, append
from apps.scheduling.core.rankings.scores import Ranking, Scratch, update
from apps.scheduling.core.rankings.search import Best, Blocks, Draw, Listing, describe, list_best


class Table(NamedTuple):
    """The signatures, by row: what they request, and their rankings.

    seen : (G,) number of the changes that the ranking includes; `log.NEVER` = none
    base (G, S, 2), counts (G, 8), bound (G, B, 2), idle (G, 1) : as in `Ranking`
    leaders : as in `Ranking`, with (G,) in front
    The others are as in `Demand`, with (G,) in front.
    """

    seen: Ints
    base: Floats
    counts: Ints
    bound: Floats
    idle: Floats
    leaders: Leaders
    caused: Floats
    tolerated: Floats
    log_speed: Floats
    allowed: Bools
    labelled: Bools
    excluded: Bools
    requested: Floats
    per_tolerated: Floats
    usual: Floats
    units: Ints


class Jobs(NamedTuple):
    """Jobs in the order in which they are decided.

    row, seed : (n,) of the table; of the decision
    patient : (n,) whether a job may wait for better units
    """

    row: Ints
    seed: Ints
    patient: Bools


class Found(NamedTuple):
    """Candidates of each job, best first; the first is taken.

    size : (n,) number of candidates
    counts : (n, 8) free units by the filter that rejects them, before the job
    The others are as in `Best`, with (n,) in front and K places.
    """

    size: Ints
    counts: Ints
    units: Ints
    servers: Shorts
    key: Ints
    score: Floats
    headroom: Floats
    expectations: Floats


class Places(NamedTuple):
    """Scratch of a decision; filled (1,)."""

    sums: Scratch
    blocks: Blocks
    filled: Ints


@jit(makes_arrays=False)
def decide(  # noqa: PLR0913, PLR0917 - numba takes arrays, not objects
    cluster: Cluster,
    log: ChangeLog,
    table: Table,
    weights: Weights,
    jobs: Jobs,
    found: Found,
    places: Places,
    start: int,
    busy: int,
) -> int:
    """Decide on jobs from ``start`` on, take their units, and return how far it came.

    That is the first job without an eligible unit, or that waits for a better one, or n. ``busy``
    units are not free before.
    """
    for j in range(start, jobs.row.size):
        row = jobs.row[j]
        ranking, demand = ranking_of(table, row), demand_of(table, row)
        update(cluster, ranking, demand, weights, log, table.seen[row], places.sums)
        table.seen[row] = log.bounds[FIRST] + log.bounds[COUNT]
        for i in range(table.counts.shape[1]):
            found.counts[j, i] = table.counts[row, i]
        size = min(found.units.shape[1], table.counts[row, ELIGIBLE])
        found.size[j] = size
        if size == 0:
            return j
        places.filled[0] = 0
        best = _best_of(found, j, size)
        listing = Listing(best.key, best.units, best.servers, best.score, places.filled)
        draw = Draw(size, True, jobs.seed[j])
        list_best(cluster, ranking, weights, listing, places.blocks, draw)
        describe(cluster, demand, best)
        if jobs.patient[j] and not _gains_enough(best.expectations[0], demand.usual[0], weights):
            return j
        take_units(cluster, demand, best.units[:1], best.servers[:1])
        append(log, cluster, best.servers[:1])
        busy += 1
        idle = 1.0 - busy / cluster.unit_free.size
        cluster.idle[0] = idle * idle
    return jobs.row.size


@jit(makes_arrays=False, forceinline=True)
def _gains_enough(expectation: Floats, usual: float, weights: Weights) -> bool:
    """Return `performance.gains_enough`."""
    own, lost = expectation[1], weights.neighbours * math.log(max(expectation[2], MIN_PERFORMANCE))
    speed = expectation[0] * own / usual
    return bool(own + lost >= UNCONTENDED or speed + lost >= weights.gain)


@jit(makes_arrays=False, forceinline=True)
def ranking_of(table: Table, row: int) -> Ranking:
    """Return the ranking of a signature."""
    every = table.leaders
    leaders = Leaders(
        every.server[row],
        every.base[row],
        every.busy[row],
        every.floor[row],
        every.numbers[row],
    )
    return Ranking(table.base[row], table.counts[row], table.bound[row], table.idle[row], leaders)


@jit(makes_arrays=False, forceinline=True)
def demand_of(table: Table, row: int) -> Demand:
    """Return the demand of a signature."""
    return Demand(
        table.caused[row],
        table.tolerated[row],
        table.log_speed[row],
        table.allowed[row],
        table.labelled[row],
        table.excluded[row],
        table.requested[row],
        table.per_tolerated[row],
        table.usual[row],
        table.units[row],
    )


@jit(makes_arrays=False, forceinline=True)
def _best_of(found: Found, j: int, size: int) -> Best:
    return Best(
        found.units[j, :size],
        found.servers[j, :size],
        found.key[j, :size],
        found.score[j, :size],
        found.headroom[j, :size],
        found.expectations[j, :size],
    )
