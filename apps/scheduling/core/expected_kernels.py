"""Compiled `expected.score` of all eligible units, and the best of them.

Imported by processes that decide, never by the web process. The assembled policy is the oracle.
"""

import math
from typing import NamedTuple

import numpy as np

from apps.common.core.compiled import jit
from apps.common.core.interference import N_SOURCES
from apps.inventory.core.snapshot import Bools, Floats, Ints, Shorts, Singles
from apps.scheduling.core import chance
from apps.scheduling.core.copy_kernels import log_performance
from apps.scheduling.core.expected import MAX_EXPONENT, STEPS, Weights
from apps.scheduling.core.kernels import is_above, word
from apps.scheduling.core.loss import LOG_KEPT

_COIN = np.uint64(chance.COIN)
_1 = np.uint64(1)


class Cluster(NamedTuple):
    """Arrays of a `BatchState`, by unit and by server.

    idle : share of all units that is free
    """

    unit_free: Bools
    first_unit: Shorts
    server_units: Shorts
    platform: Shorts
    free_count: Shorts
    server_caused: Singles
    server_exposure: Singles
    idle: float


class Demand(NamedTuple):
    """Arrays of a `Request`: (N,) scores 0-100, and the (P,) logarithm of the platform speeds."""

    caused: Floats
    tolerated: Floats
    log_speed: Floats


@jit()
def best_units(
    cluster: Cluster, mask: Bools, demand: Demand, weights: Weights, count: int, seed: int
) -> tuple[Ints, Shorts, Ints, Floats, Floats]:
    """Return the best ``count`` eligible units, best first; fewer if there are no more.

    Returns units (k,), servers (k,), key (k, 4), score (k,), headroom (k, N).
    O(S·N + U + k²).
    """
    salt = np.uint64(seed) ^ _COIN
    key = np.zeros((count, 4), dtype=np.int64)
    unit, server = np.empty(count, np.int64), np.empty(count, np.int32)
    shown = np.empty(count)
    filled, new = 0, np.zeros((1, 4), dtype=np.int64)
    for s in range(mask.size):
        if not mask[s]:
            continue
        base = _score(cluster, s, demand, weights)
        size = cluster.server_units[s]
        busy = size - cluster.free_count[s]
        for u in range(cluster.first_unit[s], cluster.first_unit[s] + size):
            if not cluster.unit_free[u]:
                continue
            total = base - weights.spread * cluster.idle * cluster.idle * (busy / size)
            busy += 1
            new[0, 0] = np.int64(np.round(total * STEPS))
            if filled == count and new[0, 0] < key[filled - 1, 0]:
                break  # the next units of this server have lower scores
            new[0, 3] = np.int64(word(salt, np.uint64(u)) >> _1)
            at = _place(key, filled, new)
            if at == count:
                continue
            filled = min(count, filled + 1)
            for j in range(filled - 1, at, -1):
                key[j], shown[j] = key[j - 1], shown[j - 1]
                unit[j], server[j] = unit[j - 1], server[j - 1]
            key[at], unit[at], server[at], shown[at] = new[0], u, s, total
    headroom = np.empty((filled, N_SOURCES))
    for j in range(filled):
        s = server[j]
        for i in range(N_SOURCES):
            headroom[j, i] = demand.tolerated[i] - _pressure(cluster, s, i)
    return unit[:filled], server[:filled], key[:filled], shown[:filled], headroom


@jit()
def _pressure(cluster: Cluster, s: int, i: int) -> float:
    others = cluster.server_units[s] - 1
    return np.float64(cluster.server_caused[s, i]) / others if others > 0 else 0.0


@jit()
def _score(cluster: Cluster, s: int, demand: Demand, weights: Weights) -> float:
    """Return the score of a unit of server s without the term of the crowd."""
    others = max(cluster.server_units[s] - 1, 1)
    lost = neighbours = 0.0
    for i in range(N_SOURCES):
        pressure = min(_pressure(cluster, s, i), 100.0)
        lost += log_performance(pressure, demand.tolerated[i])
        neighbours += np.float64(cluster.server_exposure[s, i]) * demand.caused[i]
    room = lost - LOG_KEPT - weights.width
    kept = weights.kept / (1.0 + math.exp(min(-room / weights.width, MAX_EXPONENT)))
    speed = demand.log_speed[cluster.platform[s]]
    return lost + kept + speed + weights.neighbours * neighbours / others


@jit()
def _place(key: Ints, filled: int, new: Ints) -> int:
    """Return the position of a new key among the sorted ones."""
    at = filled
    pair = np.empty((2, 4), dtype=np.int64)
    pair[0] = new[0]
    while at > 0:
        pair[1] = key[at - 1]
        if not is_above(pair, 0, 1):
            break
        at -= 1
    return at
