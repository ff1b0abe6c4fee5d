"""Utility matrices: applications x what may be known of them (Paragon P1, Quasar Q2)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np

from apps.common.core.interference import SOURCES
from apps.inventory.core.snapshot import Bools, Floats
from apps.workloads.core.framework import LABELS


class Scale(StrEnum):
    """The space in which cells are compared and averaged."""

    LOG = "log"  # rates and speed-ups: errors are relative
    SCORE = "score"  # 0-100: errors are points


class MatrixName(StrEnum):
    """Names of the matrices. ``base_rate`` has the two columns ``metric`` and ``bytes``.

    ``framework`` has rows of analytics only: speed under a setting relative to the default.
    """

    BASE_RATE = "base_rate"
    HETEROGENEITY = "heterogeneity"
    SCALE_UP = "scale_up"
    SCALE_OUT = "scale_out"
    FRAMEWORK = "framework"
    TOLERATED = "tolerated"
    CAUSED = "caused"

    @property
    def scale(self) -> Scale:
        """The space in which its cells are compared."""
        scores = (MatrixName.TOLERATED, MatrixName.CAUSED)
        return Scale.SCORE if self in scores else Scale.LOG


RATE_COLUMNS: Final = ("metric", "bytes")
SCALE_UP_COLUMNS: Final = ("1", "2", "4", "8", "16", "32")
SCALE_OUT_COLUMNS: Final = (*SCALE_UP_COLUMNS, "64", "100")


def columns_of(name: MatrixName, platforms: tuple[str, ...]) -> tuple[str, ...]:
    """Column labels of a matrix on a cluster of these platforms."""
    match name:
        case MatrixName.BASE_RATE:
            return RATE_COLUMNS
        case MatrixName.HETEROGENEITY:
            return platforms
        case MatrixName.SCALE_UP:
            return SCALE_UP_COLUMNS
        case MatrixName.SCALE_OUT:
            return SCALE_OUT_COLUMNS
        case MatrixName.FRAMEWORK:
            return LABELS
        case MatrixName.TOLERATED | MatrixName.CAUSED:
            return SOURCES


@dataclass(frozen=True, slots=True)
class Cell:
    """One measured cell. ``standard_error`` is in the unit of ``value``, >= 0."""

    matrix: MatrixName
    column: str
    value: float
    standard_error: float


@dataclass(frozen=True, slots=True, eq=False)
class Matrix:
    """One matrix at one revision.

    Attributes
    ----------
    name : determines the scale
    rows : n application names
    columns : m labels
    values : (n, m) NaN if unknown
    """

    name: MatrixName
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    values: Floats

    def __post_init__(self) -> None:
        if self.values.shape != (len(self.rows), len(self.columns)):
            raise ValueError(
                f"values must be {len(self.rows)} x {len(self.columns)}, got {self.values.shape}"
            )

    @property
    def known(self) -> Bools:
        """(n, m) True for known cells."""
        return ~np.isnan(self.values)

    def at(self, columns: tuple[str, ...]) -> Floats:
        """All rows at these columns: (n, len(columns)), in the given column order.

        Raises
        ------
        ValueError : the matrix lacks one of the columns.
        """
        missing = [column for column in columns if column not in self.columns]
        if missing:
            raise ValueError(f"{self.name} has no column {', '.join(missing)}")
        return self.values[:, [self.columns.index(column) for column in columns]]


def from_cells(
    name: MatrixName, columns: tuple[str, ...], cells: Mapping[str, Iterable[Cell]]
) -> Matrix:
    """Build a matrix from measured cells of each application; average repeated cells."""
    rows = tuple(cells)
    values = np.full((len(rows), len(columns)), np.nan)
    for i, row in enumerate(rows):
        values[i] = observed(name, columns, cells[row])[0]
    return Matrix(name, rows, columns, values)


def observed(
    name: MatrixName, columns: tuple[str, ...], cells: Iterable[Cell]
) -> tuple[Floats, Floats]:
    """Return (m,) values and (m,) standard errors of one row; NaN if not measured.

    Repeated measurements of a cell are averaged with weights 1 / error². Cells of other matrices
    and of removed columns are ignored.
    """
    weight, total = np.zeros(len(columns)), np.zeros(len(columns))
    # a mean lies between its values: 100 must not become 100.00000000000001 by rounding
    low, high = np.full(len(columns), np.inf), np.full(len(columns), -np.inf)
    for cell in cells:
        if cell.matrix == name and cell.column in columns:
            at = columns.index(cell.column)
            # an error of exactly 0 (ratios that are 1 by definition) must not divide by zero
            precision = 1.0 / max(cell.standard_error, 1e-9 * max(abs(cell.value), 1e-9)) ** 2
            weight[at] += precision
            total[at] += precision * cell.value
            low[at], high[at] = min(low[at], cell.value), max(high[at], cell.value)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.minimum(np.maximum(total / weight, low), high)
        return mean, np.where(weight > 0, 1.0 / np.sqrt(weight), np.nan)
