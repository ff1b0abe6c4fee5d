"""Which chip of its node each container is pinned to.

k containers on one node of p chips. Tazes on one chip fight over its caches and its memory
controller, so they are dealt to the chips one by one, the most intense first, each to the chip
with room where the fewest tazes are; turtles then fill the chips where the intensities add up to
least. No other dealing has fewer pairs of tazes on one chip: their number is convex in the number
of tazes of each chip, so that taking the smallest growth every time is best.

Source: ClavisMO §2 and C8; Zhuravlev, Blagodurov and Fedorova, "Addressing shared resource
contention in multicore processors via scheduling" (2010), DINO in Blagodurov et al. (2011).
"""

import numpy as np

from apps.inventory.core.snapshot import Bools, Floats, Ints


def deal(intensity: Floats, is_taz: Bools, room: Ints, current: Ints | None = None) -> Ints:
    """(k,) chip of each container; O(k·p).

    Where chips are as good, a container stays where it is: to be pinned anew costs it its caches.

    Parameters
    ----------
    intensity : (k,) of shared resources, >= 0
    is_taz : (k,)
    room : (p,) containers each chip can hold
    current : (k,) chip of each container now, -1 where it has none; None for all of them

    Raises
    ------
    ValueError : the chips have less room than there are containers, or lengths disagree.
    """
    k, p = intensity.size, room.size
    now = np.full(k, -1, dtype=np.int64) if current is None else current
    if is_taz.shape != (k,) or now.shape != (k,):
        raise ValueError(f"is_taz and current must have {k} entries, one for each intensity")
    if int(room.sum()) < k:
        raise ValueError(f"room must be at least {k} in all, got {int(room.sum())}")
    left = room.copy()
    tazes, heat = np.zeros(p, dtype=np.int64), np.zeros(p)
    chip = np.empty(k, dtype=np.int64)
    # tazes first, then by intensity; equal ones in their order
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
    """Pairs of tazes that share a chip."""
    count = np.bincount(chip[is_taz])
    return int((count * (count - 1) // 2).sum())
