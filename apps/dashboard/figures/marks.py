"""Profile cells as marks with 90 % intervals.

Filled marks are measured, hollow marks inferred, diamonds set by hand.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np

from apps.classification.core.cells import Source
from apps.dashboard.core import formats
from apps.dashboard.core.profile_cells import ProfileCell
from apps.dashboard.core.profile_text import (
    SOURCE_WORDS,
    certainty,
    column_name,
    interval_text,
    value_text,
)
from apps.dashboard.figures import theme
from apps.dashboard.figures.chart import Chart
from apps.dashboard.figures.theme import Table

SYMBOLS: Final = {
    Source.MEASURED: "circle",
    Source.INFERRED: "circle-open",
    Source.OVERRIDE: "diamond",
}
NOT_PROFILED: Final = "Not profiled yet; profiling takes a few short runs"


@dataclass(frozen=True, slots=True)
class MatrixRow:
    """The row of one application in a matrix.

    Attributes
    ----------
    application, kind : name and kind
    cells : in the order of the columns; empty = not profiled yet
    """

    application: str
    kind: str
    cells: tuple[ProfileCell, ...]

    @property
    def values(self) -> list[float]:
        """Values of the cells."""
        return [cell.value for cell in self.cells]


def counted(cells: Sequence[ProfileCell]) -> str:
    """Return the number of cells by source, e.g. "3 measured, 11 inferred"."""
    sources = [cell.source for cell in cells]
    return ", ".join(
        f"{sources.count(source)} {name}"
        for source, name in SOURCE_WORDS.items()
        if source in sources
    )


def add(
    chart: Chart, row: MatrixRow, at: Sequence[float], *, along: Literal["x", "y"], **axes: str
) -> None:
    """Draw the cells with their intervals, one trace per source.

    Parameters
    ----------
    at : position of each cell on the other axis
    along : axis of the values
    axes : ``xaxis``, ``yaxis`` of a subplot
    """
    other = "y" if along == "x" else "x"
    for source, symbol in SYMBOLS.items():
        indices = [i for i, cell in enumerate(row.cells) if cell.source is source]
        if not indices:
            continue
        cells = [row.cells[i] for i in indices]
        values = np.array([cell.value for cell in cells])
        chart.add_scatter(
            **{
                other: [float(at[i]) for i in indices],
                along: [float(f"{value:.5g}") for value in values],
                f"error_{along}": _whiskers(cells, values),
            },
            mode="markers",
            marker=_marker(symbol),
            customdata=[hover(cell, row.kind) for cell in cells],
            hovertemplate="%{customdata}<extra></extra>",
            **axes,
        )


def hover(cell: ProfileCell, kind: str) -> str:
    """Return value, column, interval and source."""
    value = value_text(cell.matrix, cell.column, cell.value, kind)
    when = "" if np.isnan(cell.at_s) else f", {formats.cluster_day(cell.at_s)}"
    return (
        f"<b>{value}</b> {column_name(cell.matrix, cell.column)}"
        f"<br>90 % interval {interval_text(cell, kind)}<br>{_source_text(cell, kind)}{when}"
    )


def table(row: MatrixRow, name: str) -> Table:
    """Return every cell with its interval and source."""
    return Table(
        (name, "Value", "90 % interval", "Source", "Samples"),
        tuple(
            (
                column_name(cell.matrix, cell.column),
                value_text(cell.matrix, cell.column, cell.value, row.kind),
                interval_text(cell, row.kind),
                SOURCE_WORDS[cell.source],
                str(cell.samples) if cell.samples else "–",
            )
            for cell in row.cells
        ),
    )


def _source_text(cell: ProfileCell, kind: str) -> str:
    return "inferred" if cell.source is Source.INFERRED else certainty(cell, kind)


def _whiskers(cells: Sequence[ProfileCell], values: Any) -> dict[str, Any]:
    return {
        "type": "data",
        "symmetric": False,
        "array": [float(f"{c.high - v:.4g}") for c, v in zip(cells, values, strict=True)],
        "arrayminus": [float(f"{v - c.low:.4g}") for c, v in zip(cells, values, strict=True)],
        "width": 3,
        "thickness": 1,
        "color": theme.TEXT_2,
    }


def _marker(symbol: str) -> dict[str, Any]:
    if symbol == "circle-open":  # the filled centre hides the whisker
        return {
            "symbol": "circle",
            "size": 8,
            "color": theme.GROUND,
            "line": {"color": theme.ACCENT, "width": 1.5},
        }
    if symbol == "diamond":
        return {
            "symbol": symbol,
            "size": 10,
            "color": "var(--cat-2)",
            "line": {"color": theme.TEXT, "width": 1},
        }
    return {"symbol": symbol, "size": 8, "color": theme.ACCENT, "line": {"width": 0}}
