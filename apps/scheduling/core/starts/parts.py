"""Free units by part of a server, ordered by their number; compiled.

A part is the units of one server that are in one pool. The parts of a pool are sorted by their
free units (bucket sort), so that a change by one unit moves a part by one exchange.
"""

from typing import Any, NamedTuple

import numpy as np

from apps.common.core.compiled import jit
from apps.inventory.core.snapshot import Ints


class Parts(NamedTuple):
    """N parts of servers, in P pools, with at most M free units each.

    Attributes
    ----------
    pool, free : (N,) of each part
    order, place : (N,) parts by pool, then by free units; and where each part is
    first : (P, M + 2) where in `order` the parts with at least so many free units begin; the last
        column is where the pool ends
    """

    pool: Ints
    free: Ints
    order: Ints
    place: Ints
    first: Ints

    def copy(self) -> "Parts":
        """Return arrays that the caller may change."""
        return Parts(self.pool, *(array.copy() for array in self[1:]))


def sorted_parts(pool: Ints, free: Ints, pools: int, most: int) -> Parts:
    """Sort parts. O(n log n + P M).

    Parameters
    ----------
    most : units that are ever free on one part
    """
    order = np.lexsort((free, pool)).astype(np.int64)
    place = np.empty_like(order)
    place[order] = np.arange(order.size)
    keys = (pool * (most + 2) + free)[order]
    wanted = np.arange(pools)[:, None] * (most + 2) + np.arange(most + 2)
    first = np.searchsorted(keys, wanted).astype(np.int64)
    return Parts(pool.astype(np.int64), free.astype(np.int64), order, place, first)


@jit(makes_arrays=False)
def add_units(parts: Parts, part: int, units: int) -> None:
    """Free units of a part; a negative number takes them. O(units)."""
    for _ in range(units):
        _exchange(parts, part, parts.first[parts.pool[part], parts.free[part] + 1] - 1)
        parts.free[part] += 1
        parts.first[parts.pool[part], parts.free[part]] -= 1
    for _ in range(-units):
        _exchange(parts, part, parts.first[parts.pool[part], parts.free[part]])
        parts.first[parts.pool[part], parts.free[part]] += 1
        parts.free[part] -= 1


@jit(makes_arrays=False)
def _exchange(parts: Parts, part: int, place: int) -> None:
    """Exchange a part with the one at a place."""
    other, own = parts.order[place], parts.place[part]
    parts.order[own], parts.place[other] = other, own
    parts.order[place], parts.place[part] = part, place


@jit(makes_arrays=False)
def count_with(parts: Parts, pool: int, units: int) -> Any:
    """Return the number of parts with at least so many free units."""
    width = parts.first.shape[1]
    if units >= width - 1:
        return 0
    return parts.first[pool, width - 1] - parts.first[pool, units]


@jit(makes_arrays=False)
def units_with(parts: Parts, pool: int, units: int) -> Any:
    """Return the free units of the parts with at least so many. O(M)."""
    total, width = 0, parts.first.shape[1]
    for number in range(units, width - 1):
        total += number * (parts.first[pool, number + 1] - parts.first[pool, number])
    return total


@jit(makes_arrays=False)
def nth_with(parts: Parts, pool: int, units: int, n: int) -> Any:
    """Return the n-th of the parts with at least so many free units."""
    return parts.order[parts.first[pool, units] + n]


@jit(makes_arrays=False)
def part_of_unit(parts: Parts, pool: int, n: int) -> Any:
    """Return the part of the n-th free unit of a pool. O(M)."""
    for number in range(1, parts.first.shape[1] - 1):
        begin, end = parts.first[pool, number], parts.first[pool, number + 1]
        if n < number * (end - begin):
            return parts.order[begin + n // number]
        n -= number * (end - begin)
    return parts.order[parts.first[pool, parts.first.shape[1] - 1] - 1]
