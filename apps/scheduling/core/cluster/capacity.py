"""Memory, network and storage that one unit takes from its server, besides the core.

A request of 0 means an equal share, capacity / M (Tarcil §3.2), which is subtracted from the
server like an explicit request. Otherwise one job requesting all the memory and fifteen requesting
none could overcommit it.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from apps.inventory.core.snapshot import Bools, Floats, Shorts, Topology
from apps.scheduling.core.types import Request

SLACK: Final = 1e-6  # tolerance for rounding: M shares of capacity / M may exceed the capacity


def requested_per_unit(request: Request) -> Floats:
    """(3,) requested memory bytes, network bits/s and storage bytes per unit; 0 = equal share."""
    vector: Floats = requested_vectors((request,))[0]
    return vector


def requested_vectors(requests: Sequence[Request]) -> Floats:
    """(n, 3) the same of many requests."""
    return np.array(
        [(r.unit_memory_bytes, r.unit_network_bps, r.unit_storage_bytes) for r in requests],
        dtype=np.float64,  # always float: another type would compile another kernel
    )


def equal_share(topology: Topology) -> Floats:
    """(S, 3) capacity of each server divided by its units."""
    return topology.server_capacity / topology.server_units[:, None]


def unit_vectors(topology: Topology, servers: Shorts, request: Request) -> Floats:
    """(k, 3) resources that one unit of the request takes on each of (k,) servers."""
    share = topology.server_capacity[servers] / topology.server_units[servers, None]
    requested = requested_per_unit(request)
    return np.where(requested > 0, requested, share)


def fits(vectors: Floats, free: Floats) -> Bools:
    """Return whether each vector (..., 3) fits into the free capacity (..., 3)."""
    inside: Bools = np.all(vectors * (1.0 - SLACK) <= free, axis=-1)
    return inside


def max_that_fit(vectors: Floats, free: Floats, limit: int) -> Shorts:
    """(S,) int32 how often each vector (S, 3) fits into a free capacity (S, 3), up to a limit."""
    fitting = np.full(len(free), float(limit))
    for least, left in zip((vectors * (1.0 - SLACK)).T, free.T, strict=True):  # faster than rows
        with np.errstate(divide="ignore", invalid="ignore"):
            # a vector of 0 is no limit: infinity, or NaN
            np.fmin(fitting, np.maximum(left, 0.0) / least, out=fitting)
    return fitting.astype(np.int32)


def units_when_idle(topology: Topology, request: Request) -> Shorts:
    """(S,) int32 number of units of the request that fit on each server if it is idle."""
    servers = np.arange(topology.server_id.size, dtype=np.int32)
    vectors = unit_vectors(topology, servers, request)
    by_capacity = max_that_fit(vectors, topology.server_capacity, request.units)
    return np.minimum(topology.server_units, by_capacity)
