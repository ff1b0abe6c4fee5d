"""What one unit takes from its server besides the core: memory, network, storage.

A request of 0 means the unit's equal share, capacity / M (Tarcil §3.2). The equal share is taken
from the server like any other amount: otherwise one job asking for all the memory and fifteen
asking for nothing would overfill it.
"""

from typing import Final

import numpy as np

from apps.inventory.core.snapshot import Bools, Floats, Shorts, Topology
from apps.scheduling.core.types import Request

SLACK: Final = 1e-6  # M shares of capacity / M may exceed the capacity by rounding


def wanted(request: Request) -> Floats:
    """(3,) memory bytes, network bits/s and storage bytes per unit; 0 = equal share."""
    return np.array(
        (request.unit_memory_bytes, request.unit_network_bps, request.unit_storage_bytes),
        dtype=np.float64,  # of whole numbers too: another type would be another kernel
    )


def equal_share(topology: Topology) -> Floats:
    """(S, 3) capacity of each server divided by its units."""
    return topology.server_capacity / topology.server_units[:, None]


def unit_vectors(topology: Topology, servers: Shorts, request: Request) -> Floats:
    """(k, 3) what one unit of the request takes on each of (k,) servers."""
    share = topology.server_capacity[servers] / topology.server_units[servers, None]
    asked = wanted(request)
    return np.where(asked > 0, asked, share)


def fits(vectors: Floats, free: Floats) -> Bools:
    """Whether each vector (..., 3) fits into what is free (..., 3)."""
    inside: Bools = np.all(vectors * (1.0 - SLACK) <= free, axis=-1)
    return inside
