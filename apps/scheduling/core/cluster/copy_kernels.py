"""Compiled updates of a cluster copy; ``copy_updates`` has the same in numpy, as the oracle.

Imported by processes that decide, never by the web process.
"""

import numpy as np

from apps.common.core.compiled import jit
from apps.inventory.core.snapshot import Floats, Ints
from apps.scheduling.core.cluster.copy_updates import Claims, CopyArrays
from apps.scheduling.core.loss import DECAY, IDLE, LOG_KEPT, NEIGHBOUR, UNKNOWN


@jit()
def claim_units(
    state: CopyArrays, units: Ints, scores: Floats, vectors: Floats, sequence: int
) -> None:
    """``copy_updates.claim_units``. O(units of the touched servers)."""
    for i in range(units.size):
        u = units[i]
        if state.unit_sequence[u] > sequence:
            continue
        state.unit_free[u] = False
        state.unit_caused[u], state.unit_tolerated[u] = scores[0], scores[1]
        state.unit_vector[u] = vectors[i]
        state.unit_sequence[u] = sequence
    sum_servers(state, units)


@jit()
def claim_all(state: CopyArrays, claims: Claims) -> None:
    """``copy_updates.claim_all``."""
    for c in range(claims.sequence.size):
        begin, end = claims.first[c], claims.first[c + 1]
        units, vectors = claims.unit[begin:end], claims.vectors[begin:end]
        claim_units(state, units, claims.scores[c], vectors, claims.sequence[c])


@jit()
def release_units(state: CopyArrays, units: Ints, sequence: int) -> None:
    """``copy_updates.release_units``. O(units of the touched servers)."""
    for u in units:
        if state.unit_sequence[u] > sequence:
            continue
        state.unit_free[u] = True
        state.unit_caused[u] = 0.0
        state.unit_tolerated[u] = UNKNOWN
        state.unit_vector[u] = 0.0
        state.unit_sequence[u] = sequence
    sum_servers(state, units)


@jit()
def sum_servers(state: CopyArrays, units: Ints) -> None:
    """``copy_updates.sum_servers``; the units of a server must be adjacent."""
    last = -1
    for u in units:
        if state.unit_server[u] != last:
            last = state.unit_server[u]
            _sum_server(state, last)


@jit(makes_arrays=False)
def _sum_server(state: CopyArrays, s: int) -> None:
    """Add up the units of a server in their order: the sums are those of numpy, to the bit."""
    state.changes[0] += 1
    state.changed[s] = state.changes[0]
    state.server_caused[s] = 0.0
    state.server_free[s] = 0.0
    first = state.first_unit[s]
    for u in range(first, first + state.server_units[s]):
        if not state.unit_free[u]:
            for i in range(state.server_caused.shape[1]):
                state.server_caused[s, i] += state.unit_caused[u, i]
            for i in range(3):
                state.server_free[s, i] += state.unit_vector[u, i]
    for i in range(3):
        state.server_free[s, i] = state.limit[s, i] - state.server_free[s, i]
    for i in range(state.server_caused.shape[1]):
        state.server_exposure[s, i] = _exposure(state, s, i)
        state.server_tolerance[s, i] = _tolerance(state, s, i)


@jit(makes_arrays=False)
def _exposure(state: CopyArrays, s: int, i: int) -> float:
    """``loss.exposure`` of one source."""
    first, others = state.first_unit[s], state.server_units[s] - 1
    if others < 1:
        return 0.0
    step, total = NEIGHBOUR / others, 0.0
    for u in range(first, first + others + 1):
        if not state.unit_free[u]:
            own, limit = (
                np.float64(state.unit_caused[u, i]),
                np.float64(state.unit_tolerated[u, i]),
            )
            now = min(100.0, max(0.0, (state.server_caused[s, i] - own) / others))
            total += (log_performance(now + step, limit) - log_performance(now, limit)) / step
    return total


@jit(makes_arrays=False)
def _tolerance(state: CopyArrays, s: int, i: int) -> float:
    """``loss.tolerance`` of one source."""
    first, least = state.first_unit[s], IDLE
    others = max(state.server_units[s] - 1, 1)
    for u in range(first, first + state.server_units[s]):
        if not state.unit_free[u]:
            own = np.float64(state.unit_caused[u, i])
            now = (np.float64(state.server_caused[s, i]) - own) / others
            least = min(least, np.float64(state.unit_tolerated[u, i]) - now)
    return least


@jit(makes_arrays=False)
def log_performance(pressure: float, tolerated: float) -> float:
    """``loss.log_performance`` of one source."""
    share = min(pressure / max(tolerated, 1e-9), 1.0)
    squared = share * share
    return LOG_KEPT * (squared * squared) - max(pressure - tolerated, 0.0) / DECAY
