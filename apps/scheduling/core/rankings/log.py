"""Compiled log of changed servers, with what their scores need.

Imported by processes that decide, never by the web process. Each signature scores the servers that
have changed since its last decision. What does not depend on the signature is computed once, when
a server changes, and stored by source: so a signature scores all entries since its last one in
loops over adjacent numbers, four to eight at once.

Notation: s a server, c an entry; C entries at most, N sources.
"""

from typing import Final, NamedTuple

import numpy as np

from apps.common.core.compiled import jit
from apps.common.core.interference import N_SOURCES
from apps.inventory.core.snapshot import Bools, Floats, Ints, Shorts
from apps.scheduling.core.rankings.kernels import Cluster, pressure

ENTRIES: Final = 8200  # not a power of two, as rows would then compete for the same cache lines
FIRST, COUNT = 0, 1  # of `ChangeLog.bounds`
NEVER: Final = -1


class Terms(NamedTuple):
    """Servers, and what their filters and scores need, as in `kernels.Cluster`.

    server, platform, free, is_open, elsewhere, busy : (C,)
    left, share : (C, 3) free memory, network and storage, and the equal share of one unit
    pressure : (N, C) on a free unit, at most 100
    exposure : (N, C) what the jobs there lose by each point that one more unit causes
    """

    server: Shorts
    platform: Shorts
    free: Shorts
    is_open: Bools
    elsewhere: Floats
    busy: Floats
    left: Floats
    share: Floats
    pressure: Floats
    exposure: Floats


class ChangeLog(NamedTuple):
    """Servers in the order in which they changed, as they were after it.

    is_last : (C,) whether the server has not changed again
    place : (S,) number of the last entry of each server, `NEVER` without one
    bounds : (2,) number of the first entry that is kept, and how many there are
    """

    terms: Terms
    is_last: Bools
    place: Ints
    bounds: Ints


def new_terms(entries: int) -> Terms:
    """Return terms without values."""
    return Terms(
        server=np.empty(entries, dtype=np.int32),
        platform=np.empty(entries, dtype=np.int32),
        free=np.empty(entries, dtype=np.int32),
        is_open=np.empty(entries, dtype=np.bool_),
        elsewhere=np.empty(entries),
        busy=np.empty(entries),
        left=np.empty((entries, 3)),
        share=np.empty((entries, 3)),
        pressure=np.empty((N_SOURCES, entries)),
        exposure=np.empty((N_SOURCES, entries)),
    )


def new_log(servers: int, entries: int = ENTRIES) -> ChangeLog:
    """Return an empty log."""
    return ChangeLog(
        new_terms(entries),
        np.empty(entries, dtype=np.bool_),
        np.full(servers, NEVER, dtype=np.int64),
        np.zeros(2, dtype=np.int64),
    )


@jit(makes_arrays=False)
def append(log: ChangeLog, cluster: Cluster, servers: Shorts) -> None:
    """Append changed servers; the older half makes room for them. O(c·N)."""
    if servers.size > log.is_last.size:
        log.bounds[FIRST] += log.bounds[COUNT] + servers.size  # nobody knows what has changed
        log.bounds[COUNT] = 0
        return
    if log.bounds[COUNT] + servers.size > log.is_last.size:
        _drop(
            log, max(log.bounds[COUNT] // 2, log.bounds[COUNT] + servers.size - log.is_last.size)
        )
    for s in servers:
        before = log.place[s] - log.bounds[FIRST]
        if before >= 0:
            log.is_last[before] = False
        at = log.bounds[COUNT]
        write_terms(log.terms, cluster, at, s)
        log.is_last[at], log.place[s] = True, log.bounds[FIRST] + at
        log.bounds[COUNT] += 1


@jit(makes_arrays=False)
def _drop(log: ChangeLog, dropped: int) -> None:
    """Drop the first entries."""
    terms, left = log.terms, log.bounds[COUNT] - dropped
    for c in range(left):
        log.is_last[c] = log.is_last[c + dropped]
        terms.server[c], terms.platform[c] = terms.server[c + dropped], terms.platform[c + dropped]
        terms.free[c], terms.is_open[c] = terms.free[c + dropped], terms.is_open[c + dropped]
        terms.elsewhere[c], terms.busy[c] = terms.elsewhere[c + dropped], terms.busy[c + dropped]
        for i in range(3):
            terms.left[c, i], terms.share[c, i] = (
                terms.left[c + dropped, i],
                terms.share[c + dropped, i],
            )
    for i in range(N_SOURCES):
        for c in range(left):
            terms.pressure[i, c] = terms.pressure[i, c + dropped]
            terms.exposure[i, c] = terms.exposure[i, c + dropped]
    log.bounds[FIRST] += dropped
    log.bounds[COUNT] = left


@jit(makes_arrays=False, forceinline=True)
def write_terms(terms: Terms, cluster: Cluster, at: int, s: int) -> None:
    """Write the terms of a server. O(N)."""
    terms.server[at], terms.platform[at] = s, cluster.platform[s]
    terms.free[at], terms.is_open[at] = cluster.free_count[s], cluster.server_open[s]
    terms.elsewhere[at], terms.busy[at] = cluster.elsewhere[s], cluster.busy[s]
    for i in range(3):
        terms.left[at, i], terms.share[at, i] = cluster.server_free[s, i], cluster.share[s, i]
    others = np.float64(max(cluster.server_units[s] - 1, 1))
    for i in range(N_SOURCES):
        terms.pressure[i, at] = min(pressure(cluster, s, i), 100.0)
        terms.exposure[i, at] = np.float64(cluster.server_exposure[s, i]) / others


@jit(makes_arrays=False, forceinline=True)
def knows(log: ChangeLog, seen: int) -> bool:
    """Return whether the log keeps all changes from number ``seen`` on, at most one per server.

    With more changes, ranking all servers is cheaper.
    """
    first, count = log.bounds[FIRST], log.bounds[COUNT]
    return seen >= first and first + count - seen <= log.place.size


@jit()
def changed_since(log: ChangeLog, seen: int) -> Shorts:
    """Return the servers of the entries from a number on, each once. O(c)."""
    begin, count = seen - log.bounds[FIRST], log.bounds[COUNT]
    found = np.empty(max(count - begin, 0), dtype=np.int32)
    size = 0
    for c in range(begin, count):
        if log.is_last[c]:
            found[size] = log.terms.server[c]
            size += 1
    return found[:size]
