"""Cells with their provenance: what is known of each, by whom, and what is inferred.

Source: Paragon §3.2 (P1), Quasar §3.2 (Q2); provenance is ours.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from apps.classification.core.matrix import Cell, Matrix, MatrixName, Scale
from apps.classification.core.profile import HALF_WIDTH_90


class Source(StrEnum):
    """Where a cell's value comes from."""

    INFERRED = "inferred"
    MEASURED = "measured"
    OVERRIDE = "override"


class SourceCode(IntEnum):
    """`Source` as it is stored."""

    INFERRED = 0
    MEASURED = 1
    OVERRIDE = 2

    @property
    def source(self) -> Source:
        """The word for it."""
        return Source[self.name]


CODE_OF: Final = {code.source: code for code in SourceCode}

# One cell as it is stored. ``value``, ``standard_error`` and ``measured_s`` (cluster seconds) are
# NaN and ``samples`` is 0 where nothing is known; ``estimate``, ``low`` and ``high`` are NaN where
# nothing could be inferred. Known cells have them too: the value with the interval of its error.
CELL: Final = np.dtype(
    [
        ("value", "<f8"),
        ("standard_error", "<f8"),
        ("samples", "<i4"),
        ("source", "u1"),
        ("measured_s", "<f8"),
        ("estimate", "<f8"),
        ("low", "<f8"),
        ("high", "<f8"),
    ]
)
Cells = NDArray[Any]  # of dtype CELL


@dataclass(frozen=True, slots=True)
class KnownCell:
    """One cell that was measured or set by hand, the sum of all that is known of it.

    Attributes
    ----------
    standard_error : in the unit of ``value``, >= 0
    samples : measurements that were averaged, >= 1
    at_s : cluster seconds of the newest of them
    """

    matrix: MatrixName
    column: str
    value: float
    standard_error: float
    source: Source
    samples: int
    at_s: float

    @property
    def cell(self) -> Cell:
        """What estimators must know of it."""
        return Cell(self.matrix, self.column, self.value, self.standard_error)


def blank(rows: int, columns: int) -> Cells:
    """(rows, columns) cells of which nothing is known."""
    cells = np.zeros((rows, columns), dtype=CELL)
    for name in ("value", "standard_error", "measured_s", "estimate", "low", "high"):
        cells[name] = np.nan
    return cells


def table(name: MatrixName, columns: Sequence[str], rows: Iterable[Sequence[KnownCell]]) -> Cells:
    """(rows, columns) cells of one matrix; cells of other matrices and columns are left out."""
    every = list(rows)
    cells = blank(len(every), len(columns))
    place = {column: j for j, column in enumerate(columns)}
    for i, row in enumerate(every):
        for known in row:
            if known.matrix is name and known.column in place:
                cells[i, place[known.column]] = (
                    known.value,
                    known.standard_error,
                    known.samples,
                    CODE_OF[known.source],
                    known.at_s,
                    np.nan,
                    np.nan,
                    np.nan,
                )
    return cells


def show_known(cells: Cells, scale: Scale) -> None:
    """Write the value of every known cell as its estimate, with the interval of its error."""
    value, error = cells["value"], cells["standard_error"]
    cells["estimate"] = value
    if scale is Scale.LOG:
        wide = np.exp(HALF_WIDTH_90 * error / value)
        cells["low"], cells["high"] = value / wide, value * wide
    else:
        cells["low"] = np.clip(value - HALF_WIDTH_90 * error, 0.0, 100.0)
        cells["high"] = np.clip(value + HALF_WIDTH_90 * error, 0.0, 100.0)


def read(stored: bytes, rows: int, columns: int) -> Cells:
    """Read stored cells, (rows, columns), not writable.

    Raises
    ------
    ValueError : the bytes are not that many cells.
    """
    return np.frombuffer(stored, dtype=CELL).reshape(rows, columns)


def training(
    name: MatrixName, rows: Sequence[str], columns: Sequence[str], cells: Cells
) -> Matrix:
    """Rows to learn from: those of which at least half is known, NaN where a cell is not.

    So the offline library counts from the start, and a live application as soon as its runs have
    told enough of it.
    """
    values = np.asarray(cells["value"], dtype=np.float64)
    enough = 2 * (~np.isnan(values)).sum(axis=1) >= max(len(columns), 1)
    kept = np.flatnonzero(enough).tolist()
    return Matrix(name, tuple(rows[i] for i in kept), tuple(columns), values[kept])
