"""The rank D of chosen units among all eligible units (T3)."""

import numpy as np

from apps.inventory.core.snapshot import Floats, Ints
from apps.scheduling.core.scorers import Scores


def ranks(everything: Scores, units: Ints) -> Floats:
    """(k,) rank D of each unit: i / (N - 1) for the i-th lowest of the N eligible units.

    Ties in quality are broken by the same coins as in the choice, so that D of a random unit is
    uniform in spite of ties. D is 1 if only one unit was eligible.

    Parameters
    ----------
    everything : scores of every eligible unit, in any order
    units : (k,) indices among them

    Source: Tarcil §3.3. O(N log N).
    """
    order = np.lexsort(everything.key.T[::-1])
    if order.size == 1:
        return np.ones(units.size)
    place = np.empty(order.size, dtype=np.float64)
    place[order] = np.arange(order.size) / (order.size - 1)
    at = np.searchsorted(everything.units, units, sorter=np.argsort(everything.units))
    return place[np.argsort(everything.units)[at]]
