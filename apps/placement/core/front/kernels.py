"""Operations on sets of losses, compiled: archive, hypervolume, ranks, crowding, thinning.

Imported by processes that search. Losses are (k, 3), lower is better; see `archive`. A point is
covered by another that is at most as large in every loss.
"""

from typing import Final

import numpy as np

from apps.common.core.compiled import jit
from apps.inventory.core.snapshot import Bools, Floats, Ints

REJECTED: Final = -1


@jit(makes_arrays=False)
def insert(losses: Floats, slots: Ints, size: int, new: Floats) -> tuple[int, int]:
    """Insert a point into an archive unless it is covered; remove the points that it covers.

    Parameters
    ----------
    losses : (capacity, 3) the first ``size`` in use, ascending by the first loss
    slots : (capacity,) a permutation; ``slots[i]`` is the row of the data of point i, and those
        from ``size`` on are free
    new : (3,); there must be room

    Returns
    -------
    size, and the row of the point; `REJECTED` if it was covered. O(size).
    """
    end = _behind(losses, size, new[0])
    begin = end
    for i in range(end - 1, -1, -1):
        if losses[i, 1] <= new[1] and losses[i, 2] <= new[2]:
            return size, REJECTED
        if losses[i, 0] == new[0]:  # points before are smaller, so they are not covered
            begin = i
    kept = _drop(losses, slots, begin, size, new)
    at = begin
    while at < kept and losses[at, 0] == new[0]:
        at += 1
    slot = slots[kept]
    for i in range(kept, at, -1):
        _move(losses, i - 1, i)
        slots[i] = slots[i - 1]
    losses[at, 0], losses[at, 1], losses[at, 2] = new[0], new[1], new[2]
    slots[at] = slot
    return kept + 1, slot


@jit(makes_arrays=False)
def _behind(losses: Floats, size: int, value: float) -> int:
    """Return the first of ``size`` points whose first loss is above a value."""
    low, high = 0, size
    while low < high:
        middle = (low + high) // 2
        if losses[middle, 0] <= value:
            low = middle + 1
        else:
            high = middle
    return low


@jit(makes_arrays=False)
def _drop(losses: Floats, slots: Ints, begin: int, size: int, new: Floats) -> int:
    """Remove the points from ``begin`` on that ``new`` covers; return the number left."""
    kept = begin
    for i in range(begin, size):
        if new[1] <= losses[i, 1] and new[2] <= losses[i, 2]:
            continue
        if i != kept:
            _move(losses, i, kept)
            slots[kept], slots[i] = slots[i], slots[kept]
        kept += 1
    return kept


@jit(makes_arrays=False)
def _move(losses: Floats, source: int, target: int) -> None:
    losses[target, 0] = losses[source, 0]
    losses[target, 1] = losses[source, 1]
    losses[target, 2] = losses[source, 2]


@jit()
def hypervolume(losses: Floats, size: int, reference: Floats) -> float:
    """Return the volume between the first ``size`` points and the reference.

    ``losses`` must ascend by the first loss. A sweep along it holds the staircase of the other
    two: O(size·log size), plus insertions into the staircase.
    """
    ys = np.empty(size + 2)
    zs = np.empty(size + 2)
    ys[0], zs[0] = -np.inf, reference[2]  # sentinels: every step has two neighbours
    ys[1], zs[1] = reference[1], -np.inf
    steps, area, volume, x = 2, 0.0, 0.0, 0.0
    for i in range(size):
        new_x, y, z = losses[i, 0], losses[i, 1], losses[i, 2]
        if new_x >= reference[0]:
            break
        volume += area * (new_x - x)
        x = new_x
        if y >= reference[1] or z >= reference[2]:
            continue
        low, high = 1, steps - 1  # the first step with a larger y
        while low < high:
            middle = (low + high) // 2
            if ys[middle] <= y:
                low = middle + 1
            else:
                high = middle
        if zs[low - 1] <= z:
            continue
        begin = low
        while ys[begin - 1] == y:
            begin -= 1
        end = begin
        top, left = zs[begin - 1], y
        while zs[end] >= z:  # steps that it covers
            area += (ys[end] - left) * (top - z)
            top, left = zs[end], ys[end]
            end += 1
        area += (ys[end] - left) * (top - z)
        _replace(ys, zs, steps, begin, end)
        ys[begin], zs[begin] = y, z
        steps += begin + 1 - end
    return float(volume + area * (reference[0] - x))


@jit(makes_arrays=False)
def _replace(ys: Floats, zs: Floats, steps: int, begin: int, end: int) -> None:
    """Replace the steps from ``begin`` to ``end`` by room for one."""
    if end == begin:
        for i in range(steps, begin, -1):
            ys[i], zs[i] = ys[i - 1], zs[i - 1]
    elif end > begin + 1:
        for i in range(end, steps):
            ys[begin + 1 + i - end], zs[begin + 1 + i - end] = ys[i], zs[i]


@jit()
def non_dominated(losses: Floats) -> Bools:
    """(k,) not covered by any other; the first of equals. O(k²) at worst, less if sorted."""
    count = losses.shape[0]
    kept = np.empty((count, 3))
    slots = np.arange(count)
    owner = np.empty(count, np.int64)
    size = 0
    for i in range(count):
        size, slot = insert(kept, slots, size, losses[i])
        if slot != REJECTED:
            owner[slot] = i
    stays = np.zeros(count, np.bool_)
    for i in range(size):
        stays[owner[slots[i]]] = True
    return stays


@jit()
def ranks(losses: Floats, order: Ints, rank: Ints, last: Ints, chain: Ints) -> None:
    """Fill (k,) the front of each point, 0 the best; equal points are on different fronts.

    A point is on the first front without a point that covers it; in lexicographic ``order`` only
    earlier points can. ``last`` and ``chain`` (k,) are scratch: linked lists of each front. O(k²)
    at worst. Source: Zhang et al. (2015), ENS-BS.
    """
    fronts = 0
    for t in range(order.size):
        i = order[t]
        front, end = 0, fronts  # a point covered on one front is covered on all before it
        while front < end:
            middle = (front + end) // 2
            j = last[middle]
            while j >= 0 and (losses[j, 1] > losses[i, 1] or losses[j, 2] > losses[i, 2]):
                j = chain[j]
            if j >= 0:
                front = middle + 1
            else:
                end = middle
        if front == fronts:
            last[front] = -1
            fronts += 1
        rank[i] = front
        chain[i] = last[front]
        last[front] = i


@jit()
def crowding(losses: Floats, members: Ints, distance: Floats) -> None:
    """Set ``distance`` of ``members`` (of one front): Σ over losses of the gap around each.

    Extreme points are infinite, unless all share the loss. O(m·log m).
    Source: Deb et al. (2002), NSGA-II, §III-B.
    """
    count = members.size
    for i in members:
        distance[i] = 0.0
    column = np.empty(count)
    for d in range(3):
        for t in range(count):
            column[t] = losses[members[t], d]
        order = np.argsort(column)
        span = column[order[count - 1]] - column[order[0]]
        if span <= 0.0:
            continue
        distance[members[order[0]]] = np.inf
        distance[members[order[count - 1]]] = np.inf
        for t in range(1, count - 1):
            gap = column[order[t + 1]] - column[order[t - 1]]
            distance[members[order[t]]] += gap / span


@jit()
def spread_out(losses: Floats, count: int) -> Ints:
    """(count,) points in an order of which every prefix is spread over the whole set.

    The best of each loss come first, then always the one farthest from all before it; losses are
    scaled to their ranges. Source: Gonzalez (1985). O(k·count); count <= k.
    """
    points = losses.shape[0]
    scaled = np.zeros((points, 3))
    for d in range(3):
        low, high = losses[:, d].min(), losses[:, d].max()
        if high > low:
            scaled[:, d] = (losses[:, d] - low) / (high - low)
    nearest = np.full(points, np.inf)
    chosen = np.empty(count, np.int64)
    for t in range(count):
        if t < 3:
            best, ties = -1, np.inf
            for i in range(points):
                rank = scaled[i, t] + 1e-6 * (scaled[i, 0] + scaled[i, 1] + scaled[i, 2])
                if nearest[i] >= 0.0 and rank < ties:
                    best, ties = i, rank
        else:
            best = int(np.argmax(nearest))
        chosen[t] = best
        for i in range(points):
            away = 0.0
            for d in range(3):
                away += (scaled[i, d] - scaled[best, d]) ** 2
            nearest[i] = min(nearest[i], away)
        nearest[best] = -1.0
    return chosen
