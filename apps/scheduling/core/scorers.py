"""How good each unit is for a job.

Every scorer takes (board, request, units, seed) and returns ``Scores``. The keys decide, exactly:
four integers compared in turn, the last a fair coin. The floats are shown.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from apps.inventory.core.snapshot import Floats, Ints, Shorts
from apps.scheduling.core import chance, encoding
from apps.scheduling.core.board import Board
from apps.scheduling.core.encoding import Form
from apps.scheduling.core.types import Request

SPEED_STEPS: Final = 1000  # platforms within 0.1 % of each other count as equally fast
LOAD_STEPS: Final = 1 << 40  # tells b / M apart for every M below a million


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """n scored units, in any order unless said.

    Attributes
    ----------
    units : (n,) indices of units
    servers : (n,) indices of their servers
    key : (n, 4) int64 exact order, higher is better, compared from the left; the last is the coin
    quality : (n,) U_H, NaN where the policy has none
    target : T_W, NaN where the policy has none
    closeness : (n,) Q, or the policy's own score
    headroom : (n, N) tolerated - pressure, negative = too much
    """

    units: Ints
    servers: Shorts
    key: Ints
    quality: Floats
    target: float
    closeness: Floats
    headroom: Floats


def tarcil(
    board: Board, request: Request, units: Ints, seed: int, *, form: Form = Form.GUARDED
) -> Scores:
    """Tarcil's quality of each unit, exact; among equals the faster platform. O(n·N).

    Source: Tarcil Eq. 1-5 (T1, T2). Eq. 5 knows no platforms; §5.1 lets the choice weigh "the
    resource quality and platform preferences", which we read as a tie-break.
    """
    topology = board.snapshot.topology
    servers = topology.unit_server[units]
    pressures = encoding.pressure(board.server_caused[servers], topology.server_units[servers])
    asked = encoding.demand(request.caused)
    quality = encoding.quality(pressures, asked.order)
    headroom = request.tolerated - pressures
    kept = encoding.keeps(headroom)
    close = encoding.closeness(quality, asked.target, form, kept)
    # a guarded miss may have U above the Q of a hit; every hit still comes first
    hit = kept & encoding.is_at_least(quality, asked.target) & (form is Form.GUARDED)
    speed = speed_steps(request, len(topology.platform_name))[topology.server_platform[servers]]
    key = np.stack(
        (close.high + encoding.BASE * hit, close.low, speed, chance.coins(seed, units)), axis=1
    )
    return Scores(
        units=units,
        servers=servers,
        key=key,
        quality=quality.shares(),
        target=float(asked.target.shares()[0]),
        closeness=close.shares(),
        headroom=headroom,
    )


def load(board: Board, request: Request, units: Ints, seed: int) -> Scores:
    """Share of cores left once the unit and those before it there are taken, then of memory.

    ``units`` must be ascending: the j-th free unit of a server with b of M busy is worth 1 - (b +
    j) / M, so that a job of many units fills the cluster evenly. Source: Paragon §4 "least-loaded"
    (P13).
    """
    topology = board.snapshot.topology
    servers = topology.unit_server[units]
    first = np.searchsorted(servers, servers)
    nth = np.arange(units.size) - first + 1
    size = topology.server_units[servers]
    left = 1.0 - (size - board.free_count[servers] + nth) / size
    memory = board.server_free[servers, 0] / topology.server_capacity[servers, 0]
    steps = [np.round(share * LOAD_STEPS).astype(np.int64) for share in (left, memory)]
    zero = np.zeros(units.size, dtype=np.int64)
    key = np.stack((*steps, zero, chance.coins(seed, units)), axis=1)
    return _plain(board, request, units, key, left)


def coin(board: Board, request: Request, units: Ints, seed: int) -> Scores:
    """All units alike; the coin alone decides."""
    key = np.zeros((units.size, 4), dtype=np.int64)
    key[:, 3] = chance.coins(seed, units)
    return _plain(board, request, units, key, np.zeros(units.size))


def speed_steps(request: Request, platforms: int) -> Ints:
    """(P,) speed of each platform in thousandths of the highest-end one; zeros when unknown."""
    if request.platform_speed is None:
        return np.zeros(platforms, dtype=np.int64)
    return np.round(request.platform_speed * SPEED_STEPS).astype(np.int64)


def ranked(scores: Scores, keep: int | None = None) -> Scores:
    """Order scores, best first; only the best ``keep`` when given."""
    order = np.lexsort(-scores.key.T[::-1])[:keep]
    return Scores(
        units=scores.units[order],
        servers=scores.servers[order],
        key=scores.key[order],
        quality=scores.quality[order],
        target=scores.target,
        closeness=scores.closeness[order],
        headroom=scores.headroom[order],
    )


def _plain(board: Board, request: Request, units: Ints, key: Ints, shown: Floats) -> Scores:
    topology = board.snapshot.topology
    servers = topology.unit_server[units]
    pressures = encoding.pressure(board.server_caused[servers], topology.server_units[servers])
    none = np.full(units.size, np.nan)
    headroom = request.tolerated - pressures
    return Scores(units, servers, key, none, float("nan"), shown, headroom)


def beyond_tolerance(headroom: Sequence[Sequence[float] | Floats]) -> float:
    """Points of pressure beyond what units tolerate: the worst source of each, on average.

    Parameters
    ----------
    headroom : (k, N) of the units chosen, as in `Scores`
    """
    if not len(headroom):
        return 0.0
    least: Floats = np.asarray(headroom, dtype=np.float64).min(axis=1)
    return float(np.maximum(-least, 0.0).mean())
