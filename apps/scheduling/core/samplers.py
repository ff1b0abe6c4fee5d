"""Which eligible units a policy looks at.

Every sampler takes (board, request, eligibility, count, seed) and returns indices of units, (n,)
int64.
"""

import math

import numpy as np

from apps.inventory.core.snapshot import Bools, Floats, Ints
from apps.scheduling.core import chance, encoding
from apps.scheduling.core.board import Board
from apps.scheduling.core.filters import Eligibility
from apps.scheduling.core.types import MAX_CANDIDATES, Request, Within

DENSE = 32  # below one eligible unit in 32, listing them is cheaper than missing 31 draws
CROWDED = 4  # drawing more than a quarter of them, too
ROOMY = 0.2  # of the eligible servers: those a short job is thrown among


def uniform(
    board: Board, request: Request, eligibility: Eligibility, count: int, seed: int
) -> Ints:
    """``count`` eligible units (all, when there are fewer), uniformly and without replacement.

    In the order drawn. Draws units of the whole cluster and throws back what is not eligible or
    was drawn before; lists the eligible ones first where that is cheaper. O(count · U / eligible)
    or O(U).
    """
    topology = board.snapshot.topology
    size = topology.unit_id.size
    if eligibility.units * DENSE < size or count * CROWDED > eligibility.units:
        return _shuffled(everything(board, request, eligibility, count, seed), count, seed)
    chosen: dict[int, None] = {}
    draw = 0
    while len(chosen) < count:
        unit = chance.below(chance.word(seed, draw), size)
        draw += 1
        if board.unit_free[unit] and eligibility.servers[topology.unit_server[unit]]:
            chosen.setdefault(unit)
    return np.fromiter(chosen, dtype=np.int64, count=count)


def everything(
    board: Board, request: Request, eligibility: Eligibility, count: int, seed: int
) -> Ints:
    """All eligible units, in the order of the snapshot."""
    return np.flatnonzero(_mask(board, eligibility))


def uniform_once(
    board: Board, request: Request, eligibility: Eligibility, count: int, seed: int
) -> Ints:
    """As many units as the job wants, uniformly: for a policy that does not compare."""
    return uniform(board, request, eligibility, min(request.units, eligibility.units), seed)


def emptiest(
    board: Board, request: Request, eligibility: Eligibility, count: int, seed: int
) -> Ints:
    """Free units of the servers with the largest share of cores free, then of memory.

    As many servers as the job wants units (32 at least, to show): each of the m least loaded units
    is on one of the m servers whose first free unit is least loaded, so nothing better is missed.
    """
    topology = board.snapshot.topology
    servers = np.flatnonzero(eligibility.servers)
    left = board.free_count[servers] / topology.server_units[servers]
    memory = board.server_free[servers, 0] / topology.server_capacity[servers, 0]
    coins = chance.coins(seed, servers)
    order = np.lexsort((coins, -memory, -left + 1.0 / topology.server_units[servers]))
    near = np.zeros(topology.server_id.size, dtype=np.bool_)
    near[servers[order[: max(request.units, MAX_CANDIDATES)]]] = True
    return np.flatnonzero(_mask(board, eligibility) & near[topology.unit_server])


def roomiest(
    board: Board, request: Request, eligibility: Eligibility, count: int, seed: int
) -> Ints:
    """Free units of servers drawn from those with the most free resources and least interference.

    Ranked first are servers where the job, or a typical one where nobody knows it, tolerates the
    pressure with a margin in every source; then those where a free unit is fast and much is free
    beside it. Drawn from is the first fifth, and as many more as hold the job's units: uniformly
    as many servers as units are wanted, more where these have too few. O(S log S).

    Source: Paragon §3.5 (P9), which names both criteria but no weights. Counting free resources
    alone sends jobs to idle servers of slow platforms: twice as far behind the default policy as
    units drawn blindly (docs/classification.md, "Short jobs").
    """
    topology = board.snapshot.topology
    servers = np.flatnonzero(eligibility.servers)
    quiet, room = _roominess(board, request, servers)
    order = servers[np.lexsort((chance.coins(seed, servers), -room, ~quiet))]
    pool = order[: max(_enough(eligibility, order, request), math.ceil(ROOMY * order.size))]
    drawn = _shuffled(pool, pool.size, seed)
    taken = drawn[: max(_enough(eligibility, drawn, request), request.units)]
    near = np.zeros(topology.server_id.size, dtype=np.bool_)
    near[taken] = True
    return np.flatnonzero(_mask(board, eligibility) & near[topology.unit_server])


def _enough(eligibility: Eligibility, servers: Ints, request: Request) -> int:
    """How many of the first of these servers hold the job's units, or all."""
    holds = np.cumsum(eligibility.room[servers])
    return 1 + int(np.searchsorted(holds, min(request.units, holds[-1])))


def _roominess(board: Board, request: Request, servers: Ints) -> tuple[Bools, Floats]:
    """(n,) whether servers are quiet enough, (n,) speed of a unit there x (1 + free share)."""
    topology = board.snapshot.topology
    size = topology.server_units[servers]
    pressures = encoding.pressure(board.server_caused[servers], size)
    shares = board.server_free[servers] / topology.server_capacity[servers]
    free = np.minimum(board.free_count[servers] / size, shares.min(axis=1))
    speed = np.ones(servers.size)
    if request.platform_speed is not None:
        speed = request.platform_speed[topology.server_platform[servers]]
    return encoding.keeps(request.tolerated - pressures), speed * (1.0 + free)


def neighbourhoods(
    board: Board, request: Request, eligibility: Eligibility, count: int, seed: int
) -> Ints:
    """Eligible units on the servers (or in the racks) of R units drawn uniformly.

    Source: Tarcil §3.3 and Fig. 5b: for each sampled unit its neighbouring resources are examined
    (T5). The filters left only places with room for the whole job.
    """
    topology = board.snapshot.topology
    place = topology.server_rack if request.locality == Within.RACK else None
    drawn = topology.unit_server[uniform(board, request, eligibility, count, seed)]
    near = np.zeros(topology.server_id.size, dtype=np.bool_)
    if place is None:
        near[drawn] = True
    else:
        near = np.isin(place, place[drawn])
    return np.flatnonzero(_mask(board, eligibility) & near[topology.unit_server])


def _mask(board: Board, eligibility: Eligibility) -> Bools:
    mask: Bools = board.unit_free & eligibility.servers[board.snapshot.topology.unit_server]
    return mask


def _shuffled(units: Ints, count: int, seed: int) -> Ints:
    """Shuffle and take the first ``count`` (Fisher and Yates)."""
    order = units.copy()
    count = min(count, order.size)
    for i in range(count):
        j = i + chance.below(chance.word(seed, i), order.size - i)
        order[i], order[j] = order[j], order[i]
    return order[:count]
