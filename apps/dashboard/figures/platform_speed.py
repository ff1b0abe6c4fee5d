"""Speed of an application on each platform (like Quasar fig. 2, heterogeneity)."""

import numpy as np
import plotly.graph_objects as go

from apps.dashboard.core import formats
from apps.dashboard.figures import marks, theme
from apps.dashboard.figures.chart import Chart
from apps.dashboard.figures.marks import MatrixRow
from apps.dashboard.figures.theme import Table

HEIGHT = 264
MAX_ROWS = 16  # more would make the names illegible


def title(data: MatrixRow) -> str:
    """Return the ratio of the fastest to the slowest platform."""
    if not data.cells:
        return "Platform speeds not known yet"
    ordered = sorted(data.cells, key=lambda cell: -cell.value)
    fastest, slowest = ordered[0], ordered[-1]
    if fastest is slowest:
        return f"{fastest.column} is the only platform"
    ratio = fastest.value / slowest.value
    return f"{fastest.column} is {formats.trimmed(ratio, 2)} × as fast as {slowest.column}"


def sub(data: MatrixRow) -> str:
    """Return the measure, its scope and n."""
    if not data.cells:
        return marks.NOT_PROFILED
    hidden = len(data.cells) - MAX_ROWS
    rest = f"; the {hidden} slowest are in the table only" if hidden > 0 else ""
    best = data.cells[0].column
    return f"Speed of one unit relative to {best}; {marks.counted(data.cells)}{rest}"


def table(data: MatrixRow) -> Table:
    """Return every platform, fastest first."""
    return marks.table(ordered(data, len(data.cells)), "Platform")


def figure(data: MatrixRow) -> go.Figure:
    """Draw one bar per platform, fastest at the top."""
    return bars(data, "Not profiled yet")


def bars(data: MatrixRow, empty_text: str) -> go.Figure:
    """Draw one bar per cell, largest at the top, or a sentence if there are none."""
    if not data.cells:
        return theme.empty(
            HEIGHT,
            empty_text,
            x={"range": [0, 1], "tickvals": [0, 0.5, 1]},
            y={"range": [0, 1], "showticklabels": False},
        )
    shown = ordered(data, MAX_ROWS)
    places = np.arange(len(shown.cells))
    top = max(1.05, *(cell.high for cell in shown.cells)) * 1.02
    chart = Chart(
        theme.layout(
            HEIGHT,
            margin={"l": 92, "r": 16, "t": 6, "b": 26},
            xaxis={
                "range": [0, top],
                **_ticks(top),
                "showgrid": True,
                "fixedrange": True,
            },
            yaxis={
                "range": [len(places) - 0.5, -0.5],
                "tickvals": places.tolist(),
                "ticktext": [cell.column for cell in shown.cells],
                "showgrid": False,
                "fixedrange": True,
                "automargin": False,
                **theme.APART,
            },
            bargap=0.5,
            hovermode="closest",
        )
    )
    chart.add_bar(
        x=[float(f"{value:.5g}") for value in shown.values],
        y=places,
        orientation="h",
        marker={"color": theme.faded(theme.ACCENT, 0.22)},
        hoverinfo="skip",
    )
    marks.add(chart, shown, places.tolist(), along="x")
    return chart.figure()


def _ticks(top: float) -> dict[str, list[float] | list[str]]:
    """Return ticks at quarters, halves or units; the last one has the unit."""
    step = 0.25 if top < 1.3 else 0.5 if top < 3 else 1.0
    values = [step * i for i in range(int(top / step) + 1)]
    texts = [formats.trimmed(value) for value in values]
    return {"tickvals": values, "ticktext": [*texts[:-1], f"{texts[-1]} ×"]}


def ordered(data: MatrixRow, limit: int) -> MatrixRow:
    """Return the largest cells, largest first."""
    cells = sorted(data.cells, key=lambda cell: -cell.value)[:limit]
    return MatrixRow(data.application, data.kind, tuple(cells))
