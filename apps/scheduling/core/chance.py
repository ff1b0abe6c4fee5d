"""Numbers that a decision draws from its one seed.

A decision takes 63 bits from the caller's generator; everything random in it is a function of them
(SplitMix64 read as a counter, so the i-th number needs no state). That makes a decision repeatable
from what its row stores, and lets the fused kernel and the assembled policy draw the very same
units.

Source: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from apps.inventory.core.snapshot import Ints

Words = NDArray[np.uint64]

GAMMA: Final = 0x9E3779B97F4A7C15
MIX_1: Final = 0xBF58476D1CE4E5B9
MIX_2: Final = 0x94D049BB133111EB
COIN: Final = 0x5851F42D4C957F2D  # separates the coins from the draws
_MASK: Final = (1 << 64) - 1


def word(seed: int, i: int) -> int:
    """Draw the i-th 64-bit number of a seed, i >= 0."""
    z = (seed + (i + 1) * GAMMA) & _MASK
    z = (z ^ z >> 30) * MIX_1 & _MASK
    z = (z ^ z >> 27) * MIX_2 & _MASK
    return z ^ z >> 31


def words(seed: int, at: Ints) -> Words:
    """Draw the numbers of a seed at many places: (n,) uint64."""
    with np.errstate(over="ignore"):
        z = np.uint64(seed) + (at.astype(np.uint64) + np.uint64(1)) * np.uint64(GAMMA)
        z = (z ^ z >> np.uint64(30)) * np.uint64(MIX_1)
        z = (z ^ z >> np.uint64(27)) * np.uint64(MIX_2)
        return z ^ z >> np.uint64(31)


def below(value: int, n: int) -> int:
    """Scale a 64-bit number to 0..n-1, n < 2^31.

    Its upper 32 bits are scaled; no value is off its share 1/n by more than n / 2^32 of it, a
    hundred-thousandth for 50,000 units.
    """
    return (value >> 32) * n >> 32


def coins(seed: int, units: Ints) -> Ints:
    """(n,) the fair coin of each unit in this decision, 63 bits: a random order of all units.

    Ties in quality are broken by it (Tarcil §3.3), in the choice and in the rank D alike: a coin
    tossed anew for the rank would put the best of R tied units in their middle.
    """
    return (words(seed ^ COIN, units) >> np.uint64(1)).astype(np.int64)
