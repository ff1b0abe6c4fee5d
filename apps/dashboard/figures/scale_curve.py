"""Scaling of an application to more units or more servers (like Quasar fig. 2)."""

from typing import Any

import numpy as np
import plotly.graph_objects as go

from apps.classification.core.matrix import MatrixName
from apps.dashboard.core import formats
from apps.dashboard.figures import marks, theme
from apps.dashboard.figures.chart import Chart
from apps.dashboard.figures.marks import MatrixRow
from apps.dashboard.figures.theme import Table

HEIGHT = 216
TICKS = (1, 2, 4, 8, 16, 32)


def title(data: MatrixRow) -> str:
    """Return the scaling at the last point."""
    if not data.cells:
        return "Scaling not known yet"
    last = data.cells[-1]
    if last.matrix is MatrixName.SCALE_UP:
        share = last.value / int(last.column)
        return (
            f"{last.column} units of a server do the work of {formats.trimmed(last.value)}, "
            f"{formats.percent(share, 0)} of linear"
        )
    percent = formats.percent(last.value, 0)
    return f"On {last.column} servers, each reaches {percent} of its speed alone"


def sub(data: MatrixRow) -> str:
    """Return the measure and the number of cells by source."""
    if not data.cells:
        return marks.NOT_PROFILED
    measure = (
        "Performance relative to one unit"
        if data.cells[0].matrix is MatrixName.SCALE_UP
        else "Efficiency relative to linear"
    )
    return f"{measure}; {marks.counted(data.cells)}"


def table(data: MatrixRow) -> Table:
    """Return every point."""
    return marks.table(data, "Size")


def figure(data: MatrixRow) -> go.Figure:
    """Draw the curve with its marks, and linear scaling for comparison."""
    if not data.cells:
        return theme.empty(
            HEIGHT,
            "Not profiled yet",
            x={"range": [0, 5], "tickvals": np.log2(TICKS), "ticktext": [str(t) for t in TICKS]},
            y={"range": [0, 1], "showticklabels": False},
        )
    is_up = data.cells[0].matrix is MatrixName.SCALE_UP
    sizes = [int(cell.column) for cell in data.cells]
    chart = Chart(_layout(data, sizes, is_up=is_up))
    chart.add_annotation(
        theme.axis_name("× one unit (log)" if is_up else "efficiency", xshift=-36)
    )
    linear = [float(size) for size in sizes] if is_up else [1.0] * len(sizes)
    _line(chart, sizes, linear, {"color": theme.TEXT_2, "width": 1, "dash": "dot"})
    _line(chart, sizes, data.values, {"color": theme.faded(theme.ACCENT, 0.55), "width": 1.5})
    marks.add(chart, data, np.log2(sizes).tolist(), along="y")
    chart.add_annotation(_linear_name(sizes, is_up=is_up))
    return chart.figure()


def _line(chart: Chart, sizes: list[int], values: list[float], line: dict[str, Any]) -> None:
    chart.add_scatter(
        x=np.log2(sizes).tolist(),
        y=[float(f"{value:.5g}") for value in values],
        mode="lines",
        line=line,
        hoverinfo="skip",
    )


def _linear_name(sizes: list[int], *, is_up: bool) -> dict[str, Any]:
    middle = len(sizes) // 2
    y = float(np.log10(sizes[middle])) if is_up else 1.0
    return theme.note(
        "linear",
        x=float(np.log2(sizes[middle])),
        y=y,
        xanchor="right" if is_up else "center",
        yanchor="bottom",
        xshift=-4 if is_up else 0,
        yshift=2,
        font={"color": theme.TEXT_2},
    )


def _layout(data: MatrixRow, sizes: list[int], *, is_up: bool) -> dict[str, Any]:
    ends = [end for cell in data.cells for end in (cell.low, cell.high)]
    if is_up:
        low, high = min(ends) / 1.12, max(*ends, float(sizes[-1])) * 1.2
        y_axis: dict[str, Any] = {
            "type": "log",
            "range": [float(np.log10(low)), float(np.log10(high))],
            "tickvals": list(TICKS),
            "ticktext": [str(tick) for tick in TICKS[:-1]] + [f"{TICKS[-1]} ×"],
            "fixedrange": True,
        }
    else:
        top = max(1.12, max(ends) * 1.04)
        y_axis = {**theme.percent_axis(top), "fixedrange": True}
    return theme.layout(
        HEIGHT,
        margin={"l": 40, "r": 12, "t": 24, "b": 36},
        xaxis={
            "range": [-0.25, float(np.log2(sizes[-1])) + 0.25],
            "tickvals": np.log2(sizes).tolist(),
            "ticktext": [str(size) for size in sizes],
            "title": {"text": "units of one server (log)" if is_up else "servers (log)"},
            "fixedrange": True,
        },
        yaxis=y_axis,
        hovermode="closest",
    )
