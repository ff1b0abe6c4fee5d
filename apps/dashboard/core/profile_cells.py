"""The cells of a stored profile with their sources."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from apps.classification.core.cells import Source
from apps.classification.core.matrix import MatrixName


@dataclass(frozen=True, slots=True)
class ProfileCell:
    """Estimate of one column of one matrix, and its source.

    Attributes
    ----------
    low, high : ends of the 90 % interval
    samples : number of measurements averaged; 0 = inferred
    standard_error : in the unit of ``value``; NaN = inferred
    at_s : cluster seconds of the latest measurement; NaN = inferred
    """

    matrix: MatrixName
    column: str
    value: float
    low: float
    high: float
    source: Source
    samples: int
    standard_error: float
    at_s: float


Cells = Mapping[MatrixName, Sequence[ProfileCell]]


@dataclass(frozen=True, slots=True)
class KnownCells:
    """Number of measured and overridden cells of a profile."""

    measured: int
    by_hand: int
    cells: int

    @property
    def share(self) -> float:
        """Share of cells that are not inferred, in [0, 1]."""
        return (self.measured + self.by_hand) / self.cells if self.cells else 0.0


def read_cells(stored: Mapping[str, Any]) -> Cells:
    """Read the cells of a profile's JSON, by matrix, in the order of the columns.

    Only analytics applications have framework settings.
    """
    return {
        name: tuple(_cells(name, stored[name.value]))
        for name in MatrixName
        if name.value in stored
    }


def count_known(cells: Cells) -> KnownCells:
    """Count measured and overridden cells."""
    sources = [cell.source for row in cells.values() for cell in row]
    return KnownCells(
        measured=sources.count(Source.MEASURED),
        by_hand=sources.count(Source.OVERRIDE),
        cells=len(sources),
    )


def _cells(name: MatrixName, part: Mapping[str, Sequence[Any]]) -> list[ProfileCell]:
    columns = ("columns", "value", "low", "high", "source", "samples", "standard_error", "at_s")
    return [
        ProfileCell(
            matrix=name,
            column=column,
            value=value,
            low=low,
            high=high,
            source=Source(source),
            samples=samples,
            standard_error=math.nan if error is None else error,
            at_s=math.nan if at_s is None else at_s,
        )
        for column, value, low, high, source, samples, error, at_s in zip(
            *(part[key] for key in columns), strict=True
        )
    ]
