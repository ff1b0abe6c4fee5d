"""Marked points in the lower tail of an empirical distribution.

The last percent of a distribution is a few pixels of a plot: its quantiles are marked and named
with the number of values below.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from apps.dashboard.core import formats

SHARES: Final = (0.01, 0.001)  # p99 and p99.9: all but these shares reach the quantile
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class TailPoint:
    """A quantile: all but ``share`` of the values are at least ``value``.

    Attributes
    ----------
    below : number of values below ``value``
    """

    share: float
    value: float
    below: int

    @property
    def reach(self) -> str:
        """Name of the point, e.g. "99.9 % reach"."""
        return f"{formats.trimmed(100 * (1 - self.share))} % reach"


def tail_points(ascending: Floats, shares: Sequence[float] = SHARES) -> tuple[TailPoint, ...]:
    """Return the quantiles that the values (n,) are enough for: 1 / share values or more."""
    points = []
    for share in shares:
        if ascending.size * share >= 1:
            value = float(np.quantile(ascending, share, method="inverted_cdf"))
            points.append(TailPoint(share, value, int(np.searchsorted(ascending, value))))
    return tuple(points)


def tail_cells(ascending: Floats) -> tuple[str, ...]:
    """Return a table cell for each tail share; a dash if there are too few values."""
    known = {point.share: point for point in tail_points(ascending)}
    return tuple(_cell(known[share]) if share in known else "–" for share in SHARES)


def _cell(point: TailPoint) -> str:
    return f"{formats.over_target(point.value)} ({formats.thousands(point.below)} below)"
