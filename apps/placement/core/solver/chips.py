"""Assignment of the containers of a node to its chips.

k containers on one node of p chips. Tazes on one chip compete for its caches and memory
controller, so they are assigned first, in descending order of intensity, each to the chip with
room and the fewest tazes. Turtles then go to the chips with the smallest sum of intensities. No
other assignment has fewer pairs of tazes on one chip: the number of pairs is convex in the tazes
of each chip, so the greedy choice is optimal.

Source: ClavisMO §2 and C8; Zhuravlev, Blagodurov and Fedorova, "Addressing shared resource
contention in multicore processors via scheduling" (2010), DINO in Blagodurov et al. (2011).
"""

import numpy as np

from apps.inventory.core.snapshot import Bools, Floats, Ints


def assign_chips(
    intensity: Floats, is_taz: Bools, room: Ints, current: Ints | None = None
) -> Ints:
    """(k,) chip of each container; O(k·p).

    Among equally good chips a container keeps its own: moving it would cost it its caches.

    Parameters
    ----------
    intensity : (k,) of shared resources, >= 0
    is_taz : (k,)
    room : (p,) containers each chip can hold
    current : (k,) present chip of each container, -1 if it has none; None if no container has

    Raises
    ------
    ValueError : the chips have too little room, or lengths differ.
    """
    k, p = intensity.size, room.size
    now = np.full(k, -1, dtype=np.int64) if current is None else current
    if is_taz.shape != (k,) or now.shape != (k,):
        raise ValueError(f"is_taz and current must have {k} entries, one for each intensity")
    if int(room.sum()) < k:
        raise ValueError(f"room must be at least {k} in total, got {int(room.sum())}")
    left = room.copy()
    tazes, heat = np.zeros(p, dtype=np.int64), np.zeros(p)
    chip = np.empty(k, dtype=np.int64)
    # tazes first, then by intensity; ties by index
    for i in np.lexsort((-intensity, ~is_taz)).tolist():
        elsewhere = np.arange(p) != now[i]
        fewest = tazes if is_taz[i] else np.zeros(p, dtype=np.int64)
        best = np.lexsort((elsewhere, heat, fewest, left == 0))[0]
        chip[i] = best
        left[best] -= 1
        tazes[best] += bool(is_taz[i])
        heat[best] += intensity[i]
    return chip


def taz_pairs(chip: Ints, is_taz: Bools) -> int:
    """Count the pairs of tazes that share a chip."""
    count = np.bincount(chip[is_taz])
    return int((count * (count - 1) // 2).sum())
