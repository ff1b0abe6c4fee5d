"""Cells with their provenance: measured, overridden or inferred.

Source: Paragon §2.2 (P1), Quasar §3.2 (Q2); provenance is ours.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from apps.classification.core.estimates import HALF_WIDTH_90
from apps.classification.core.matrix import Cell, Matrix, MatrixName, Scale


class Source(StrEnum):
    """Where a cell's value comes from."""

    INFERRED = "inferred"
    MEASURED = "measured"
    OVERRIDE = "override"


class SourceCode(IntEnum):
    """Stored code of a `Source`."""

    INFERRED = 0
    MEASURED = 1
    OVERRIDE = 2

    @property
    def source(self) -> Source:
        """The source with this code."""
        return Source[self.name]


CODE_OF: Final = {code.source: code for code in SourceCode}

# A stored cell. In unknown cells ``value``, ``standard_error`` and ``measured_s`` (cluster
# seconds) are NaN and ``samples`` is 0; ``estimate``, ``low`` and ``high`` are NaN if inference
# failed. Known cells have them, too: the value with the interval of its error.
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
class KnownCell(Cell):
    """A cell that was measured or set by hand, with its provenance.

    Attributes
    ----------
    samples : number of measurements averaged, >= 1
    at_s : cluster seconds of the newest measurement
    is_posterior : measured by telemetry, whose value includes all earlier measurements of the cell
    """

    source: Source
    samples: int
    at_s: float
    is_posterior: bool = False


def unknown_cells(rows: int, columns: int) -> Cells:
    """Return (rows, columns) unknown cells."""
    cells = np.zeros((rows, columns), dtype=CELL)
    for name in ("value", "standard_error", "measured_s", "estimate", "low", "high"):
        cells[name] = np.nan
    return cells


def cell_table(
    name: MatrixName, columns: Sequence[str], rows: Iterable[Sequence[KnownCell]]
) -> Cells:
    """Return the (rows, columns) cells of one matrix; ignore other matrices and columns."""
    all_rows = list(rows)
    cells = unknown_cells(len(all_rows), len(columns))
    place = {column: j for j, column in enumerate(columns)}
    for i, row in enumerate(all_rows):
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


def estimate_known_cells(cells: Cells, scale: Scale) -> None:
    """Set the estimate of every known cell to its value, with the interval of its error."""
    value, error = cells["value"], cells["standard_error"]
    cells["estimate"] = value
    if scale is Scale.LOG:
        wide = np.exp(HALF_WIDTH_90 * error / value)
        cells["low"], cells["high"] = value / wide, value * wide
    else:
        cells["low"] = np.clip(value - HALF_WIDTH_90 * error, 0.0, 100.0)
        cells["high"] = np.clip(value + HALF_WIDTH_90 * error, 0.0, 100.0)


def decode_cells(stored: bytes, rows: int, columns: int) -> Cells:
    """Decode stored cells into a read-only (rows, columns) array.

    Raises
    ------
    ValueError : the number of bytes does not match.
    """
    return np.frombuffer(stored, dtype=CELL).reshape(rows, columns)


def training_matrix(
    name: MatrixName, rows: Sequence[str], columns: Sequence[str], cells: Cells
) -> Matrix:
    """Return the training rows: rows with at least half of their cells known; NaN elsewhere.

    These are the rows of the offline library, and live applications with enough measurements.
    """
    values = np.asarray(cells["value"], dtype=np.float64)
    enough = 2 * (~np.isnan(values)).sum(axis=1) >= max(len(columns), 1)
    kept = np.flatnonzero(enough).tolist()
    return Matrix(name, tuple(rows[i] for i in kept), tuple(columns), values[kept])
