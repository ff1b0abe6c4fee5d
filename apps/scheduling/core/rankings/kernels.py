"""Compiled rankings of servers by expected performance, updated server by server.

Imported by processes that decide, never by the web process. The assembled policy `expected` is the
oracle: the same request, state and seed give the same units and keys.
"""

from typing import Final, NamedTuple

import numpy as np

from apps.common.core.compiled import jit
from apps.common.core.interference import N_SOURCES
from apps.inventory.core.snapshot import Bools, Floats, Ints, Shorts, Singles
from apps.scheduling.core.cluster.copy_kernels import log_performance
from apps.scheduling.core.loss import IDLE, NEIGHBOUR
from apps.scheduling.core.tarcil.kernels import fitting_units

ELIGIBLE: Final = 7  # behind the filters of `filters.FILTERS`


class Cluster(NamedTuple):
    """Arrays of a `BatchState`, by unit and by server.

    share : (S, 3) equal share of one unit
    idle : (1,) square of the share of all units that is free
    elsewhere : (S,) what units lose in the share of another agent
    busy : (S,) share of the units of each server that is not free
    """

    unit_free: Bools
    first_unit: Shorts
    server_units: Shorts
    platform: Shorts
    share: Floats
    server_open: Bools
    free_count: Shorts
    server_caused: Singles
    server_exposure: Singles
    server_tolerance: Singles
    server_free: Floats
    idle: Floats
    elsewhere: Floats
    busy: Floats


class Demand(NamedTuple):
    """Demand of a signature.

    caused, tolerated (N,), log_speed, allowed (P,), labelled, excluded (S,), requested (3,)
    per_tolerated : (N,) inverse of ``tolerated``
    usual : (1,) as `performance.attainable_speed`
    """

    caused: Floats
    tolerated: Floats
    log_speed: Floats
    allowed: Bools
    labelled: Bools
    excluded: Bools
    requested: Floats
    per_tolerated: Floats
    usual: Floats
    units: int


@jit()
def changed_servers(changed: Ints, since: int) -> Shorts:
    """Return the servers changed after a change. O(S)."""
    found = np.empty(changed.size, dtype=np.int32)
    count = 0
    for s in range(changed.size):
        if changed[s] > since:
            found[count] = s
            count += 1
    return found[:count].copy()


@jit(makes_arrays=False)
def copy_servers(cluster: Cluster, source: Cluster, servers: Shorts) -> int:
    """Copy the state of servers; return by how much the number of free units grew."""
    grown = 0
    for s in servers:
        first, count = cluster.first_unit[s], 0
        for u in range(first, first + cluster.server_units[s]):
            cluster.unit_free[u] = source.unit_free[u]
            count += source.unit_free[u]
        grown += count - cluster.free_count[s]
        cluster.free_count[s] = count
        count_busy(cluster, s)
        cluster.server_open[s] = source.server_open[s]
        for i in range(N_SOURCES):
            cluster.server_caused[s, i] = source.server_caused[s, i]
            cluster.server_exposure[s, i] = source.server_exposure[s, i]
            cluster.server_tolerance[s, i] = source.server_tolerance[s, i]
        for i in range(3):
            cluster.server_free[s, i] = source.server_free[s, i]
    return grown


@jit(makes_arrays=False)
def take_units(cluster: Cluster, demand: Demand, units: Shorts | Ints, servers: Shorts) -> None:
    """``BatchState.allocate``. O(k·N)."""
    for j in range(units.size):
        cluster.unit_free[units[j]] = False
    for s in servers:
        size = cluster.server_units[s]
        others = size - 1
        is_idle = cluster.free_count[s] == size
        for i in range(N_SOURCES):
            now = pressure(cluster, s, i)
            added = demand.caused[i] / others if others > 0 else 0.0
            jobs = IDLE if is_idle else np.float64(cluster.server_tolerance[s, i]) - added
            cluster.server_tolerance[s, i] = min(jobs, demand.tolerated[i] - now, IDLE)
            if others > 0:
                step, at = NEIGHBOUR / others, min(now, 100.0)
                ahead = log_performance(at + step, demand.tolerated[i])
                slope = (ahead - log_performance(at, demand.tolerated[i])) / step
                cluster.server_exposure[s, i] = np.float64(cluster.server_exposure[s, i]) + slope
            cluster.server_caused[s, i] += np.float32(demand.caused[i])
        for i in range(3):
            wanted = demand.requested[i]
            cluster.server_free[s, i] -= wanted if wanted > 0 else cluster.share[s, i]
        cluster.free_count[s] -= 1
        count_busy(cluster, s)


@jit(makes_arrays=False, forceinline=True)
def count_busy(cluster: Cluster, s: int) -> None:
    """Compute the share of busy units of a server again."""
    size = cluster.server_units[s]
    cluster.busy[s] = (size - cluster.free_count[s]) / size


@jit(makes_arrays=False, forceinline=True)
def filtered(cluster: Cluster, demand: Demand, s: int) -> tuple[int, int]:
    """Return the filter that rejects a server, and its room; the tests of ``filter_servers``."""
    fitting = fitting_units(
        demand.requested, cluster.share[s], cluster.server_free[s], demand.units
    )
    room = min(cluster.free_count[s], fitting)
    return first_filter(cluster.server_open[s], lasting_filter(cluster, demand, s), room), room


@jit(makes_arrays=False, forceinline=True)
def first_filter(is_open: bool, lasting: int, room: int) -> int:
    """Return the first filter that rejects a server of a known `lasting_filter`."""
    if not is_open:
        return 1
    if lasting:
        return lasting
    return 5 if room == 0 else ELIGIBLE


@jit(makes_arrays=False, forceinline=True)
def lasting_filter(cluster: Cluster, demand: Demand, s: int) -> int:
    """Return the filter that rejects a server whatever its state; 0 = none."""
    if not demand.allowed[cluster.platform[s]]:
        return 2
    if not demand.labelled[s]:
        return 3
    return 4 if demand.excluded[s] else 0


@jit(makes_arrays=False, forceinline=True)
def pressure(cluster: Cluster, s: int, i: int) -> float:
    """Return the pressure of one source on a free unit. Source: Tarcil Eq. 3."""
    others = cluster.server_units[s] - 1
    return np.float64(cluster.server_caused[s, i]) / others if others > 0 else 0.0
