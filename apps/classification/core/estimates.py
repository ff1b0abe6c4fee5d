"""Estimated values with 90 % intervals: of a single cell, and of many cells."""

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from apps.inventory.core.snapshot import Bools, Floats

HALF_WIDTH_90: Final = 1.6448536269514722  # standard deviations of a two-sided 90 % interval


class Estimate(NamedTuple):
    """A value and its 90 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, eq=False)
class Estimates:
    """Estimates of the cells of a matrix: arrays of one shape, made read-only in place.

    Attributes
    ----------
    value, low, high : values and the ends of their 90 % intervals, in the unit of the matrix
    measured : True where the cell was measured, False where it was inferred
    """

    value: Floats
    low: Floats
    high: Floats
    measured: Bools

    def __post_init__(self) -> None:
        # in place and without the flags object: a fold of one row takes only 40 µs
        self.value.setflags(write=False)
        self.low.setflags(write=False)
        self.high.setflags(write=False)
        self.measured.setflags(write=False)

    @property
    def ends(self) -> tuple[Floats, Floats, Floats]:
        """Values, low ends and high ends."""
        return self.value, self.low, self.high

    def at(self, cell: int) -> Estimate:
        """Return one cell of a row."""
        return Estimate(float(self.value[cell]), float(self.low[cell]), float(self.high[cell]))

    def part(self, columns: slice) -> "Estimates":
        """Return some columns."""
        at = (..., columns)
        return Estimates(self.value[at], self.low[at], self.high[at], self.measured[at])


NO_ESTIMATES: Final = Estimates(np.empty(0), np.empty(0), np.empty(0), np.empty(0, dtype=np.bool_))
