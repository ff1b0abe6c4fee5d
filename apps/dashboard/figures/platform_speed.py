"""How fast an application is on each platform (as Quasar fig. 2, heterogeneity)."""

import numpy as np
import plotly.graph_objects as go

from apps.dashboard.core import words
from apps.dashboard.figures import marks, theme
from apps.dashboard.figures.marks import Row
from apps.dashboard.figures.theme import Table

HEIGHT = 264
MOST = 16  # rows that keep their names legible


def title(data: Row) -> str:
    """Return the span from the fastest to the slowest platform."""
    if not data.cells:
        return "Speed on the platforms not known yet"
    ordered = sorted(data.cells, key=lambda cell: -cell.value)
    fastest, slowest = ordered[0], ordered[-1]
    if fastest is slowest:
        return f"{fastest.column} is the only platform"
    ratio = fastest.value / slowest.value
    return f"{fastest.column} is {words.trimmed(ratio, 2)} × as fast as {slowest.column}"


def sub(data: Row) -> str:
    """Return what is measured."""
    if not data.cells:
        return marks.NOT_PROFILED
    hidden = len(data.cells) - MOST
    rest = f"; the {hidden} slowest are in the table only" if hidden > 0 else ""
    best = data.cells[0].column
    return f"Speed of one unit relative to {best}; {marks.counted(data.cells)}{rest}"


def table(data: Row) -> Table:
    """Every platform, the fastest first."""
    return marks.table(_ordered(data, len(data.cells)), "Platform")


def figure(data: Row) -> go.Figure:
    """One bar for each platform, the fastest at the top."""
    if not data.cells:
        return theme.empty(
            HEIGHT,
            "Not profiled yet",
            x={"range": [0, 1], "tickvals": [0, 0.5, 1]},
            y={"range": [0, 1], "showticklabels": False},
        )
    shown = _ordered(data, MOST)
    places = np.arange(len(shown.cells))
    top = max(1.05, *(cell.high for cell in shown.cells)) * 1.02
    chart = go.Figure(
        layout=theme.layout(
            HEIGHT,
            margin={"l": 92, "r": 16, "t": 6, "b": 26},
            xaxis={
                "range": [0, top],
                "tickvals": [0, 0.25, 0.5, 0.75, 1],
                "ticktext": ["0", "0.25", "0.5", "0.75", "1 ×"],
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
    return chart


def _ordered(data: Row, most: int) -> Row:
    cells = sorted(data.cells, key=lambda cell: -cell.value)[:most]
    return Row(data.application, data.kind, tuple(cells))
