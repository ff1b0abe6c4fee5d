"""Places of servers: the server itself, its rack, or the switch above its rack (T5)."""

import numpy as np

from apps.inventory.core.snapshot import Ints, Shorts, Topology
from apps.scheduling.core.types import Within


def place_of(topology: Topology, within: Within | None) -> Shorts:
    """(S,) int32 number of the place of each server; None = all servers are one place. O(S)."""
    match within:
        case None:
            return np.zeros(topology.server_id.size, dtype=np.int32)
        case Within.SERVER:
            return np.arange(topology.server_id.size, dtype=np.int32)
        case Within.RACK:
            return topology.server_rack
        case Within.SWITCH:
            return topology.server_switch()


def first_of_each(places: Shorts) -> Ints:
    """Return the first position of each place, ascending. O(n log n)."""
    return np.sort(np.unique(places, return_index=True)[1])
