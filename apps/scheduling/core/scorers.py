"""Scorers: rate the candidates of a job.

Every scorer takes (state, request, units, seed) and returns ``Scores``. The exact keys decide:
four integers compared in turn, the last of them random. The floats are for display.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from apps.inventory.core.snapshot import Floats, Ints, Shorts
from apps.scheduling.core import chance
from apps.scheduling.core.batch_state import BatchState
from apps.scheduling.core.tarcil import encoding
from apps.scheduling.core.tarcil.encoding import Form
from apps.scheduling.core.types import MAX_CANDIDATES, Request, stored_candidates

SPEED_STEPS: Final = 1000  # platforms within 0.1 % of each other count as equally fast
LOAD_STEPS: Final = 1 << 40  # resolution sufficient for b / M with any M below a million


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """n scored units, in any order unless stated otherwise.

    Attributes
    ----------
    units : (n,) indices of units
    servers : (n,) indices of their servers
    key : (n, 4) int64 exact order, higher is better, compared from the left; the last is the coin
    quality : (n,) U_H, NaN if the policy does not compute it
    target : T_W, NaN if the policy does not compute it
    closeness : (n,) Q, or the policy's own score
    headroom : (n, N) tolerated - pressure, negative = too much pressure
    examined : units rated, if only the best of them are listed
    expectations : (n, 4) columns of `Expectation`
    listed : number of the best units that are stored with the decision
    """

    units: Ints
    servers: Shorts
    key: Ints
    quality: Floats
    target: float
    closeness: Floats
    headroom: Floats
    examined: int | None = None
    expectations: Floats | None = None
    listed: int = MAX_CANDIDATES


def tarcil(
    state: BatchState, request: Request, units: Ints, seed: int, *, form: Form = Form.GUARDED
) -> Scores:
    """Score units by Tarcil's exact quality, with ties broken by platform speed. O(n·N).

    Source: Tarcil Eq. 1-5 (T1, T2). Eq. 5 ignores platforms; §5.1 says the choice weighs "the
    resource quality and platform preferences", which we interpret as a tie-break.
    """
    topology = state.snapshot.topology
    servers = topology.unit_server[units]
    pressures = encoding.pressure(state.server_caused[servers], topology.server_units[servers])
    demand = encoding.demand(request.caused)
    quality = encoding.quality(pressures, demand.order)
    headroom = request.tolerated - pressures
    margin_ok = encoding.has_margin(headroom)
    close = encoding.closeness(quality, demand.target, form, margin_ok)
    # with GUARDED, U of a miss may exceed Q of a hit; hits rank first nevertheless
    hit = margin_ok & encoding.is_at_least(quality, demand.target) & (form is Form.GUARDED)
    speed = speed_steps(request, len(topology.platform_name))[topology.server_platform[servers]]
    key = np.stack(
        (close.high + encoding.BASE * hit, close.low, speed, chance.coins(seed, units)), axis=1
    )
    return Scores(
        units=units,
        servers=servers,
        key=key,
        quality=quality.shares(),
        target=float(demand.target.shares()[0]),
        closeness=close.shares(),
        headroom=headroom,
    )


def load(
    state: BatchState, request: Request, units: Ints, seed: int, *, is_sample: bool = False
) -> Scores:
    """Score units by the share of cores left on the server, then of memory.

    ``units`` must be ascending: the j-th free unit of a server with b of M busy scores 1 - (b + j)
    / M, so that a job of many units fills the cluster evenly. Source: Paragon §5 "least-loaded"
    (P13).

    Parameters
    ----------
    is_sample : all units of a server score as its first for a job of one unit, so that the rank of
        a unit does not depend on which others were drawn
    """
    topology = state.snapshot.topology
    servers = topology.unit_server[units]
    first = np.searchsorted(servers, servers)
    nth = np.arange(units.size) - first + 1
    if is_sample and request.units == 1:
        nth[:] = 1
    size = topology.server_units[servers]
    left = 1.0 - (size - state.free_count[servers] + nth) / size
    memory = state.server_free[servers, 0] / topology.server_capacity[servers, 0]
    steps = [np.round(share * LOAD_STEPS).astype(np.int64) for share in (left, memory)]
    zero = np.zeros(units.size, dtype=np.int64)
    key = np.stack((*steps, zero, chance.coins(seed, units)), axis=1)
    return plain_scores(state, request, units, key, left)


def coin(state: BatchState, request: Request, units: Ints, seed: int) -> Scores:
    """Score all units equally; the coin decides."""
    key = np.zeros((units.size, 4), dtype=np.int64)
    key[:, 3] = chance.coins(seed, units)
    return plain_scores(state, request, units, key, np.zeros(units.size))


def speed_steps(request: Request, platforms: int) -> Ints:
    """(P,) speed of each platform in thousandths of the highest-end one; zeros if unknown."""
    if request.platform_speed is None:
        return np.zeros(platforms, dtype=np.int64)
    return np.round(request.platform_speed * SPEED_STEPS).astype(np.int64)


def ranked(scores: Scores, limit: int | None = None) -> Scores:
    """Sort scores, best first; keep only the best ``limit`` if given."""
    order = np.lexsort(-scores.key.T[::-1])[:limit]
    return Scores(
        units=scores.units[order],
        servers=scores.servers[order],
        key=scores.key[order],
        quality=scores.quality[order],
        target=scores.target,
        closeness=scores.closeness[order],
        headroom=scores.headroom[order],
        expectations=None if scores.expectations is None else scores.expectations[order],
        listed=scores.listed,
    )


def plain_scores(
    state: BatchState, request: Request, units: Ints, key: Ints, shown: Floats
) -> Scores:
    """Return scores by keys of a rule that computes no quality; ``shown`` is for display."""
    topology = state.snapshot.topology
    servers = topology.unit_server[units]
    pressures = encoding.pressure(state.server_caused[servers], topology.server_units[servers])
    unknown = np.full(units.size, np.nan)
    headroom = request.tolerated - pressures
    return Scores(
        *(units, servers, key, unknown, float("nan"), shown, headroom),
        listed=stored_candidates(request.units),
    )


def beyond_tolerance(headroom: Sequence[Sequence[float] | Floats]) -> float:
    """Return the pressure beyond tolerance in points: the worst source of each unit, averaged.

    Parameters
    ----------
    headroom : (k, N) of the chosen units, as in `Scores`
    """
    if not len(headroom):
        return 0.0
    minimum: Floats = np.asarray(headroom, dtype=np.float64).min(axis=1)
    return float(np.maximum(-minimum, 0.0).mean())
