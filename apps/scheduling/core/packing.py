"""Scorers that pack containers on nodes: the baselines of ClavisMO's evaluation (C9).

S servers, n candidates. Every scorer takes (state, request, units, seed); ``units`` must be
ascending. The order of servers decides ties, as the papers' rules are deterministic.
"""

from typing import NamedTuple

import numpy as np

from apps.inventory.core.snapshot import Floats, Ints
from apps.scheduling.core import chance
from apps.scheduling.core.batch_state import BatchState
from apps.scheduling.core.cluster.capacity import unit_vectors
from apps.scheduling.core.scorers import LOAD_STEPS, Scores, plain_scores
from apps.scheduling.core.tarcil.encoding import BASE
from apps.scheduling.core.types import Request


def first_slot(state: BatchState, request: Request, units: Ints, seed: int) -> Scores:
    """Score units by their position: all units of a server, then those of the next (SlotRR).

    Source: ClavisMO §1, C9.
    """
    zero = np.zeros(units.size, dtype=np.int64)
    key = np.stack((-units, zero, zero, chance.coins(seed, units)), axis=1)
    return plain_scores(state, request, units, key, 1.0 - units / state.unit_free.size)


def fewest_held(state: BatchState, request: Request, units: Ints, seed: int) -> Scores:
    """Score units by the units held on their server, the fewest first (NodeRR).

    The j-th free unit of a server with b busy units has b + j - 1. Source: ClavisMO §1, C9.
    """
    topology = state.snapshot.topology
    servers = topology.unit_server[units].astype(np.int64)
    size = topology.server_units[servers]
    held = size - state.free_count[servers] + _nth(servers)
    zero = np.zeros(units.size, dtype=np.int64)
    key = np.stack((-held, -servers, zero, chance.coins(seed, units)), axis=1)
    return plain_scores(state, request, units, key, 1.0 - held / size)


def dot_product(state: BatchState, request: Request, units: Ints, seed: int) -> Scores:
    """Score units by the dot product of the free capacity of their server and the demand.

    Servers with a busy unit come first. An idle server is filled before the next one is used: it
    is in use after its first unit. Dimensions are cores, memory, network and storage as shares of
    the server, each weighted by its mean demand. Taking a unit lowers the free capacity, so the
    j-th unit of a server scores less than the one before. The first two words of a key are one
    number in base 10^10, as `pickers.together` sums them. Source: Panigrahy et al., "Heuristics
    for Vector Bin Packing" (2011), dot product with weights of FFDAvgSum; C9.
    """
    servers = state.snapshot.topology.unit_server[units].astype(np.int64)
    demand = _Demand.of(state, request)
    weighted = demand.need * demand.weight
    best = (demand.free * weighted).sum(axis=1)[servers]
    value = best - _nth(servers) * (demand.need * weighted).sum(axis=1)[servers]
    in_use = demand.free[servers, 0] < 1.0
    high, low = np.divmod(_steps(np.where(in_use, value, best)), BASE)
    key = np.stack((high + BASE * in_use, low, -servers, chance.coins(seed, units)), axis=1)
    return plain_scores(state, request, units, key, value)


class _Demand(NamedTuple):
    """Capacity as shares of servers: cores, memory, network, storage.

    Attributes
    ----------
    free : (S, 4) free shares
    need : (S, 4) share that one unit of the request takes
    weight : (4,) mean share that a unit takes, over busy units and those requested
    """

    free: Floats
    need: Floats
    weight: Floats

    @classmethod
    def of(cls, state: BatchState, request: Request) -> "_Demand":
        """Summarise a state for one request. O(S)."""
        topology = state.snapshot.topology
        size = topology.server_units
        every = np.arange(size.size, dtype=np.int32)
        free = np.column_stack(
            (state.free_count / size, state.server_free / topology.server_capacity)
        )
        need = np.column_stack(
            (1.0 / size, unit_vectors(topology, every, request) / topology.server_capacity)
        )
        total = (1.0 - free).sum(axis=0) + request.units * need.mean(axis=0)
        return cls(free, need, total / (state.busy + request.units))


def _nth(servers: Ints) -> Ints:
    """(n,) number of earlier candidates on the same server."""
    return np.arange(servers.size) - np.searchsorted(servers, servers)


def _steps(values: Floats) -> Ints:
    steps: Ints = np.round(values * LOAD_STEPS).astype(np.int64)
    return steps
