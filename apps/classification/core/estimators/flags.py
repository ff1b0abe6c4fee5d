"""Reasons why estimates may be worse than their intervals."""

from enum import StrEnum
from typing import Final, NamedTuple

import numpy as np

from apps.inventory.core.snapshot import Bools, Floats

MIN_ROWS: Final = 5
MIN_REACH: Final = 0.7  # a factor of two, or 35 points


class Degraded(StrEnum):
    """A reason; each has a sentence for users."""

    NO_CELL = "no_cell"
    ONE_CELL = "one_cell"
    FEW_ROWS = "few_rows"
    FAR = "far"
    UNFAMILIAR = "unfamiliar"

    @property
    def sentence(self) -> str:
        """Explanation for users."""
        return _SENTENCES[self]


_SENTENCES: Final = {
    Degraded.NO_CELL: "Nothing is measured: the estimate is the average of the library.",
    Degraded.ONE_CELL: "Only one cell is measured: the level is known, the shape is not.",
    Degraded.FEW_ROWS: "The library has fewer than five distinct rows.",
    Degraded.FAR: "A measured value lies far outside the range of the library.",
    Degraded.UNFAMILIAR: (
        "The measured values do not fit the applications of the library: intervals are wider."
    ),
}


class LibraryBounds(NamedTuple):
    """(m,) range of every library column in comparison space; number of distinct rows."""

    low: Floats
    high: Floats
    rows: int


def flags(
    z: Floats, bounds: LibraryBounds, is_unfamiliar: Bools
) -> tuple[frozenset[Degraded], ...]:
    """Return the reasons for each of q rows.

    Parameters
    ----------
    z : (q, m) in comparison space, NaN if not measured
    is_unfamiliar : (q,) True if the known cells are unlike the library (`familiarity`)

    A cell is far if its distance from the column's range exceeds the width of that range, and a
    factor of two (35 points).
    """
    reach = np.maximum(bounds.high - bounds.low, MIN_REACH)
    with np.errstate(invalid="ignore"):
        outside: Bools = (z < bounds.low - reach) | (z > bounds.high + reach)
    is_far: Bools = np.asarray(outside.any(axis=1))
    known = np.count_nonzero(~np.isnan(z), axis=1)
    few = {Degraded.FEW_ROWS} if bounds.rows < MIN_ROWS else set()
    count = {0: {Degraded.NO_CELL}, 1: {Degraded.ONE_CELL}}
    rows = zip(known.tolist(), is_far.tolist(), is_unfamiliar.tolist(), strict=True)
    return tuple(
        frozenset(
            few
            | count.get(k, set())
            | ({Degraded.FAR} if far else set())
            | ({Degraded.UNFAMILIAR} if unlike else set())
        )
        for k, far, unlike in rows
    )
