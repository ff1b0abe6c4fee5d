"""Ten classes of jobs by the quality they need, and a pool of servers for each.

Source: Paragon §4.1 (P10).
"""

from typing import Final

import numpy as np

from apps.inventory.core.snapshot import Bools, Floats, Ints, Snapshot
from apps.scheduling.core.tarcil import encoding

CLASSES: Final = 10


def class_of(caused: Floats) -> int:
    """Return the class of a job by its resource quality, the mean of c in points: 0 to 9."""
    return min(CLASSES - 1, int(np.mean(caused) * CLASSES / 100.0))


def quality_of_class(number: int) -> float:
    """Return the middle of the qualities of a class, 0-1."""
    return (number + 0.5) / CLASSES


def pool_of_servers(snapshot: Snapshot, demand: Floats) -> Ints:
    """(S,) pool of each server; -1 if it is closed. O(S·N + S log S).

    The quality of a server is 100 minus the mean contention that a unit there receives. The best
    servers are the pool of the most demanding class, and the pools have units in proportion to the
    demand of their classes.

    Parameters
    ----------
    demand : (CLASSES,) units, or any share of them
    """
    topology = snapshot.topology
    contention = encoding.pressure(snapshot.server_caused, topology.server_units).mean(axis=1)
    pools: Ints = np.full(topology.server_id.size, -1, dtype=np.int64)
    opened = np.flatnonzero(snapshot.server_open)
    if not opened.size:
        return pools
    best_last = opened[np.lexsort((opened, -contention[opened]))]
    units = topology.server_units[best_last].astype(np.float64)
    middle = (np.cumsum(units) - units / 2.0) / units.sum()
    ends = np.cumsum(demand) / demand.sum()
    pools[best_last] = np.minimum(np.searchsorted(ends, middle, side="right"), CLASSES - 1)
    return pools


def in_pool(pools: Ints, number: int) -> Bools:
    """(S,) True for the servers of a pool."""
    inside: Bools = pools == number
    return inside
