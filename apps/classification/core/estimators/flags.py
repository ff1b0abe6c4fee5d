"""Why an estimate may be worse than its interval says."""

from enum import StrEnum
from typing import Final, NamedTuple

import numpy as np

from apps.inventory.core.snapshot import Bools, Floats

FEWEST_ROWS: Final = 5
LEAST_REACH: Final = 0.7  # a factor of two, or 35 points


class Degraded(StrEnum):
    """One reason; each also has a sentence."""

    NO_CELL = "no_cell"
    ONE_CELL = "one_cell"
    FEW_ROWS = "few_rows"
    FAR = "far"

    @property
    def sentence(self) -> str:
        """What to tell people."""
        return _SENTENCES[self]


_SENTENCES: Final = {
    Degraded.NO_CELL: "Nothing is measured: this is what the library says of any application.",
    Degraded.ONE_CELL: "One cell is measured: it sets the level and says little of the shape.",
    Degraded.FEW_ROWS: "The library has fewer than five different rows to compare with.",
    Degraded.FAR: "A measured value lies far outside everything in the library.",
}


class Seen(NamedTuple):
    """(m,) ends of every column of the library in comparison space; how many rows differ."""

    low: Floats
    high: Floats
    rows: int


def flags(z: Floats, seen: Seen) -> tuple[frozenset[Degraded], ...]:
    """Reasons for each of q rows.

    Parameters
    ----------
    z : (q, m) in comparison space, NaN where not measured

    A cell is far when it lies further from all of its column than they lie from each other, and
    more than a factor of two (35 points) away.
    """
    reach = np.maximum(seen.high - seen.low, LEAST_REACH)
    with np.errstate(invalid="ignore"):
        outside: Bools = (z < seen.low - reach) | (z > seen.high + reach)
    is_far: Bools = np.asarray(outside.any(axis=1))
    known = np.count_nonzero(~np.isnan(z), axis=1)
    few = {Degraded.FEW_ROWS} if seen.rows < FEWEST_ROWS else set()
    count = {0: {Degraded.NO_CELL}, 1: {Degraded.ONE_CELL}}
    return tuple(
        frozenset(few | count.get(k, set()) | ({Degraded.FAR} if far else set()))
        for k, far in zip(known.tolist(), is_far.tolist(), strict=True)
    )
