"""Random numbers of one decision, derived from its seed.

A decision draws a 63-bit seed from the caller's generator, and every random number is a function
of the seed and a counter (SplitMix64, stateless). A decision can therefore be repeated from its
stored row, and the fused kernel and the assembled policy draw the same units.

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
COIN: Final = 0x5851F42D4C957F2D  # separates the coins from the draws of units
MAX_PLACES: Final = (1 << 12) - 1  # on a server
_MASK: Final = (1 << 64) - 1


def word(seed: int, i: int) -> int:
    """Return the i-th 64-bit random number of a seed, i >= 0."""
    z = (seed + (i + 1) * GAMMA) & _MASK
    z = (z ^ z >> 30) * MIX_1 & _MASK
    z = (z ^ z >> 27) * MIX_2 & _MASK
    return z ^ z >> 31


def words(seed: int, at: Ints) -> Words:
    """Return the numbers of a seed at (n,) counters: (n,) uint64."""
    with np.errstate(over="ignore"):
        z = np.uint64(seed) + (at.astype(np.uint64) + np.uint64(1)) * np.uint64(GAMMA)
        z = (z ^ z >> np.uint64(30)) * np.uint64(MIX_1)
        z = (z ^ z >> np.uint64(27)) * np.uint64(MIX_2)
        return z ^ z >> np.uint64(31)


def below(value: int, n: int) -> int:
    """Scale a 64-bit number to 0..n-1, n < 2^31.

    Uses the upper 32 bits. The probability of each result differs from 1/n by a relative error of
    at most n / 2^32, about 1e-5 for 50,000 units.
    """
    return (value >> 32) * n >> 32


def coins(seed: int, units: Ints) -> Ints:
    """(n,) 63-bit random number of each unit in this decision, to break ties.

    Ties in quality are broken by the same coin in the choice and in the rank D (Tarcil §3.3). With
    another coin for the rank, the best of R tied units would get a middle rank.
    """
    return (words(seed ^ COIN, units) >> np.uint64(1)).astype(np.int64)


def server_coins(seed: int, servers: Ints, places: Ints) -> Ints:
    """(n,) random number of the server of each unit, lower by the unit's place on the server.

    So the units of one server stay together, in their order, wherever units tie.
    """
    return (coins(seed, servers) | MAX_PLACES) - np.minimum(places, MAX_PLACES)
