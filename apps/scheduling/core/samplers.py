"""Samplers: choose the candidates among the eligible units.

Every sampler takes (state, request, eligibility, count, seed) and returns indices of units, (n,)
int64.
"""

import math

import numpy as np

from apps.inventory.core.snapshot import Bools, Floats, Ints
from apps.scheduling.core import chance
from apps.scheduling.core.batch_state import BatchState
from apps.scheduling.core.cluster.places import place_of
from apps.scheduling.core.filters import Eligibility
from apps.scheduling.core.tarcil import encoding
from apps.scheduling.core.types import MAX_CANDIDATES, Request, Within

DENSE = 32  # with fewer than one eligible unit in 32, listing them is cheaper than rejecting draws
CROWDED = 4  # the same if more than a quarter of them are drawn
ROOMY = 0.2  # share of the eligible servers that short jobs are drawn among


def uniform(
    state: BatchState, request: Request, eligibility: Eligibility, count: int, seed: int
) -> Ints:
    """Draw ``count`` eligible units, or all if there are fewer, uniformly without replacement.

    In the order drawn. Draws units of the whole cluster and rejects ineligible and repeated ones,
    or lists the eligible ones first if that is cheaper. O(count · U / eligible) or O(U).
    """
    topology = state.snapshot.topology
    size = topology.unit_id.size
    if eligibility.units * DENSE < size or count * CROWDED > eligibility.units:
        return _shuffled(everything(state, request, eligibility, count, seed), count, seed)
    chosen: dict[int, None] = {}
    draw = 0
    while len(chosen) < count:
        unit = chance.below(chance.word(seed, draw), size)
        draw += 1
        if state.unit_free[unit] and eligibility.servers[topology.unit_server[unit]]:
            chosen.setdefault(unit)
    return np.fromiter(chosen, dtype=np.int64, count=count)


def everything(
    state: BatchState, request: Request, eligibility: Eligibility, count: int, seed: int
) -> Ints:
    """Return all eligible units, in the order of the snapshot."""
    return np.flatnonzero(_mask(state, eligibility))


def in_order(
    state: BatchState, request: Request, eligibility: Eligibility, count: int, seed: int
) -> Ints:
    """Draw as `uniform`; ascending, for scorers that count the units of a server."""
    return np.sort(uniform(state, request, eligibility, count, seed))


def leading(
    state: BatchState, request: Request, eligibility: Eligibility, count: int, seed: int
) -> Ints:
    """Return the first m free units of every eligible server: the others cannot be better."""
    units = everything(state, request, eligibility, count, seed)
    servers = state.snapshot.topology.unit_server[units]
    nth = np.arange(units.size) - np.searchsorted(servers, servers)
    return units[nth < request.units]


def uniform_once(
    state: BatchState, request: Request, eligibility: Eligibility, count: int, seed: int
) -> Ints:
    """Draw only as many units as requested, for a policy that does not compare."""
    return uniform(state, request, eligibility, min(request.units, eligibility.units), seed)


def emptiest(
    state: BatchState, request: Request, eligibility: Eligibility, count: int, seed: int
) -> Ints:
    """Return free units of the servers with the largest free share of cores, then of memory.

    Uses one server per requested unit (at least 32, for display). This is exact: each of the m
    least loaded units is on one of the m servers whose first free unit is least loaded.
    """
    topology = state.snapshot.topology
    servers = np.flatnonzero(eligibility.servers)
    left = state.free_count[servers] / topology.server_units[servers]
    memory = state.server_free[servers, 0] / topology.server_capacity[servers, 0]
    coins = chance.coins(seed, servers)
    order = np.lexsort((coins, -memory, -left + 1.0 / topology.server_units[servers]))
    near = np.zeros(topology.server_id.size, dtype=np.bool_)
    near[servers[order[: max(request.units, MAX_CANDIDATES)]]] = True
    return np.flatnonzero(_mask(state, eligibility) & near[topology.unit_server])


def roomiest(
    state: BatchState, request: Request, eligibility: Eligibility, count: int, seed: int
) -> Ints:
    """Draw servers among those with the most free resources and least interference.

    Servers whose pressure the job (or a typical one, without a profile) tolerates with a margin in
    every source rank first; then servers rank by speed and free share. Servers are drawn uniformly
    from the first fifth, or more if needed to hold the job: one per requested unit, or more if
    these have too few free units. O(S log S).

    Source: Paragon §3.5 (P9), which names both criteria without weights. Free resources alone send
    jobs to idle servers of slow platforms: they take 39 to 57 % longer than with `tarcil`, and 12
    to 15 % longer on random units (docs/classification.md, "Short jobs").
    """
    topology = state.snapshot.topology
    servers = np.flatnonzero(eligibility.servers)
    quiet, room = _roominess(state, request, servers)
    order = servers[np.lexsort((chance.coins(seed, servers), -room, ~quiet))]
    pool = order[: max(_enough(eligibility, order, request), math.ceil(ROOMY * order.size))]
    drawn = _shuffled(pool, pool.size, seed)
    chosen = drawn[: max(_enough(eligibility, drawn, request), request.units)]
    near = np.zeros(topology.server_id.size, dtype=np.bool_)
    near[chosen] = True
    return np.flatnonzero(_mask(state, eligibility) & near[topology.unit_server])


def _enough(eligibility: Eligibility, servers: Ints, request: Request) -> int:
    """Return the number of leading servers needed to hold the job's units, at most all."""
    holds = np.cumsum(eligibility.room[servers])
    return 1 + int(np.searchsorted(holds, min(request.units, holds[-1])))


def _roominess(state: BatchState, request: Request, servers: Ints) -> tuple[Bools, Floats]:
    """(n,) whether servers are quiet enough, and (n,) speed of a unit x (1 + free share)."""
    topology = state.snapshot.topology
    size = topology.server_units[servers]
    pressures = encoding.pressure(state.server_caused[servers], size)
    shares = state.server_free[servers] / topology.server_capacity[servers]
    free = np.minimum(state.free_count[servers] / size, shares.min(axis=1))
    speed = np.ones(servers.size)
    if request.platform_speed is not None:
        speed = request.platform_speed[topology.server_platform[servers]]
    return encoding.has_margin(request.tolerated - pressures), speed * (1.0 + free)


def neighbourhoods(
    state: BatchState, request: Request, eligibility: Eligibility, count: int, seed: int
) -> Ints:
    """Return the eligible units on the servers (or racks, or switches) of R units drawn uniformly.

    Source: Tarcil §3.3 and Fig. 5b: the neighbourhood of each sampled unit is examined (T5). The
    filters leave only places with room for the whole job.
    """
    topology = state.snapshot.topology
    drawn = topology.unit_server[uniform(state, request, eligibility, count, seed)]
    place = place_of(topology, request.locality or Within.SERVER)
    near = np.isin(place, place[drawn])
    return np.flatnonzero(_mask(state, eligibility) & near[topology.unit_server])


def _mask(state: BatchState, eligibility: Eligibility) -> Bools:
    mask: Bools = state.unit_free & eligibility.servers[state.snapshot.topology.unit_server]
    return mask


def _shuffled(units: Ints, count: int, seed: int) -> Ints:
    """Shuffle and take the first ``count`` (Fisher and Yates)."""
    order = units.copy()
    count = min(count, order.size)
    for i in range(count):
        j = i + chance.below(chance.word(seed, i), order.size - i)
        order[i], order[j] = order[j], order[i]
    return order[:count]
