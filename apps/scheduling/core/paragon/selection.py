"""Paragon's server selection: which units neither harm the job nor its neighbours (P5, P6, P13).

n units, N = 10 sources, M units of a server. Scores are on the scale of pressures (Tarcil Eq. 3):
a unit of the job causes c / (M - 1) on each other unit of its server.

    D1 = t_server - c_new       further pressure that the server's jobs tolerate, less the job's
    D2 = t_new - c_server       what the job tolerates, less the pressure there

The paper's t_server is the minimum over the jobs of what they tolerate. Its servers hold few
applications; with one unit per core, the pressure that they receive already must be subtracted
(`loss.tolerance`). The j-th unit of the job on a server counts the j - 1 before it in both.
"""

from typing import Final, NamedTuple

import numpy as np

from apps.inventory.core.snapshot import Bools, Floats, Ints, Shorts
from apps.scheduling.core import chance
from apps.scheduling.core.batch_state import BatchState
from apps.scheduling.core.scorers import Scores, speed_steps
from apps.scheduling.core.tarcil import encoding
from apps.scheduling.core.types import MAX_UNITS, Request, stored_candidates

LIMIT: Final = 4_000_000  # comparisons of one search: about 20 ms
STEPS: Final = 1 << 20  # of a score of 1, in the integer keys


class Margins(NamedTuple):
    """D1 and D2 of each unit, both (n, N), negative = violated."""

    neighbours: Floats
    own: Floats


class Search(NamedTuple):
    """Result of one search.

    Attributes
    ----------
    rows : units that remain, ascending; at least one
    relaxed : constraints that backtracking relaxed
    is_complete : False if the limit ended the search
    """

    rows: Ints
    relaxed: int
    is_complete: bool


def margins(state: BatchState, request: Request, units: Ints, *, most: int = MAX_UNITS) -> Margins:
    """D1 and D2 of units, which must be ascending. O(n·N). Source: Paragon §3.2 (P5).

    Parameters
    ----------
    most : earlier units of the job on a server that count, at most
    """
    topology = state.snapshot.topology
    servers = topology.unit_server[units]
    size = topology.server_units[servers]
    nth = np.arange(units.size) - np.searchsorted(servers, servers)
    nth = np.minimum(nth, most)[:, None]
    added = encoding.pressure(np.broadcast_to(request.caused, (units.size, request.caused.size)),
                              size)  # fmt: skip
    pressures = encoding.pressure(state.server_caused[servers], size)
    return Margins(
        state.server_tolerance[servers].astype(np.float64) - (nth + 1) * added,
        request.tolerated - pressures - nth * added,
    )


def search(constraints: Floats, *, limit: int = LIMIT) -> Search:
    """Filter rows by one constraint after the other: those with a value of at least 0 remain.

    If none remains, the search goes back to the constraint before and relaxes it as far as needed
    for a row to pass, or further back. If no row at all passes, it relaxes the constraint itself.

    Parameters
    ----------
    constraints : (n, k) values in the order of examination, n >= 1
    limit : comparisons after which the remaining constraints are ignored; the paper's time limit,
        counted instead of timed, so that a decision can be repeated

    Source: Paragon §3.2 (P5). O(n·k), with backtracking O(n·k²).
    """
    n, k = constraints.shape
    passed = [np.arange(n)]  # by the number of constraints applied
    relaxed: set[int] = set()
    compared = 0
    for column in range(k):
        rows = passed[-1]
        compared += rows.size
        if compared > limit:
            return Search(rows, len(relaxed), is_complete=False)
        kept = rows[constraints[rows, column] >= 0.0]
        if not kept.size:
            back, kept, loosened = _backtrack(constraints, passed, column)
            compared += sum(passed[column - i].size for i in range(1, back + 1))
            passed[column - back + 1 :] = [kept] * back
            relaxed.update(loosened)
        passed.append(kept)
    return Search(passed[-1], len(relaxed), is_complete=True)


def _backtrack(
    constraints: Floats, passed: list[Ints], column: int
) -> tuple[int, Ints, list[int]]:
    """Return how many constraints to go back, the rows that remain then, and those relaxed."""
    for back in range(1, column + 1):
        rows = passed[column - back]
        rows, loosened = rows[constraints[rows, column] >= 0.0], []
        if not rows.size:
            continue
        for earlier in range(column - back, column):
            values = constraints[rows, earlier]
            best = float(values.max())
            loosened += [earlier] if best < 0.0 else []
            rows = rows[values >= min(best, 0.0)]
        return back, rows, loosened
    values = constraints[passed[-1], column]
    return 0, passed[-1][values == values.max()], [column]


def greedy(
    state: BatchState,
    request: Request,
    units: Ints,
    seed: int,
    *,
    sees_platforms: bool = True,
    limit: int = LIMIT,
) -> Scores:
    """Score units by Paragon's greedy search; ``units`` must be ascending.

    The sources of D1 come first, from the one that the job causes most, then those of D2, from the
    one that it tolerates least. Of the units that remain, the fastest platform wins, then the
    smallest norm of D1 + D2. If fewer units remain than requested, the search continues among the
    others.

    Parameters
    ----------
    sees_platforms : False = heterogeneity-oblivious (P13)
    """
    found = margins(state, request, units)
    order = np.argsort(-request.caused, kind="stable")
    ordered = np.hstack(
        (found.neighbours[:, order], found.own[:, np.argsort(request.tolerated, kind="stable")])
    )
    turn = _turns(ordered, request.units, limit)
    topology = state.snapshot.topology
    servers = topology.unit_server[units]
    speed = np.zeros(units.size, dtype=np.int64)
    if sees_platforms:
        steps = speed_steps(request, len(topology.platform_name))
        speed = steps[topology.server_platform[servers]]
    norm = np.abs(found.neighbours + found.own).sum(axis=1)
    key = np.stack((-turn, speed, -_steps(norm), chance.coins(seed, units)), axis=1)
    return _scores(state, request, (units, servers), key, -norm)


def _turns(ordered: Floats, wanted: int, limit: int) -> Ints:
    """(n,) number of the search that found each row, until enough are found."""
    turn = np.full(ordered.shape[0], -1, dtype=np.int64)
    left, number = np.arange(ordered.shape[0]), 0
    while left.size and ordered.shape[0] - left.size < wanted:
        turn[left[search(ordered[left], limit=limit).rows]] = number
        left, number = np.flatnonzero(turn < 0), number + 1
    turn[left] = number
    return turn


def colocation(state: BatchState, request: Request, units: Ints, seed: int) -> Scores:
    """Score units by Paragon's colocation quality; shown normalised over the units rated.

    At most m - 1 other units of the job count on a server, however many units are rated: for a
    job of one unit, all units of a server are equal.
    """
    servers = state.snapshot.topology.unit_server[units]
    found = margins(state, request, units, most=request.units - 1)
    quality = colocation_quality(found.neighbours)
    zero = np.zeros(units.size, dtype=np.int64)
    key = np.stack((_steps(quality), zero, zero, chance.coins(seed, units)), axis=1)
    shown = normalised(quality, float(quality.min()), float(quality.max()))
    return _scores(state, request, (units, servers), key, shown)


def colocation_quality(margin: Floats) -> Floats:
    """(n,) Q for t - c (n, N) in percent: 1 - norm / 10 if the sum is at least 0, else -norm / 10.

    Both scores lie in [0, 1] in the formula. An exact fit has Q = 1. The printed formula, with
    -(1 - norm / 10) for a negative sum, would prefer the largest violation. Source: Paragon §3.3
    (P6).
    """
    share = np.clip(margin / 100.0, -1.0, 1.0)
    norm = np.abs(share).sum(axis=1) / 10.0
    quality: Floats = np.where(share.sum(axis=1) >= 0.0, 1.0 - norm, -norm)
    return quality


def normalised(quality: Floats, low: float, high: float) -> Floats:
    """(n,) quality within the range seen, in [0, 1]; 1 if all are equal. Source: Paragon §3.3."""
    if high <= low:
        return np.ones(quality.shape)
    return (quality - low) / (high - low)


def fastest(state: BatchState, request: Request, units: Ints, seed: int) -> Scores:
    """Score units by the speed of their platform: interference-oblivious (P13)."""
    topology = state.snapshot.topology
    servers = topology.unit_server[units]
    speed = speed_steps(request, len(topology.platform_name))[topology.server_platform[servers]]
    zero = np.zeros(units.size, dtype=np.int64)
    key = np.stack((speed, zero, zero, chance.coins(seed, units)), axis=1)
    return _scores(state, request, (units, servers), key, speed / 1000.0)


def violates(found: Margins) -> Bools:
    """(n,) whether a unit violates D1 or D2 in any source."""
    any_violated: Bools = np.minimum(found.neighbours, found.own).min(axis=1) < 0.0
    return any_violated


def _steps(value: Floats) -> Ints:
    return np.round(value * STEPS).astype(np.int64)


def _scores(
    state: BatchState, request: Request, at: tuple[Ints, Shorts], key: Ints, shown: Floats
) -> Scores:
    units, servers = at
    sizes = state.snapshot.topology.server_units[servers]
    pressures = encoding.pressure(state.server_caused[servers], sizes)
    unknown, headroom = np.full(units.size, np.nan), request.tolerated - pressures
    return Scores(
        *(units, servers, key, unknown, float("nan"), shown, headroom),
        listed=stored_candidates(request.units),
    )
