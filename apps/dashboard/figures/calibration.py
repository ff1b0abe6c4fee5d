"""Calibration of the intervals: nominal level against observed share."""

import math
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from apps.common.core.intervals import wilson
from apps.dashboard.core import formats
from apps.dashboard.figures import theme
from apps.dashboard.figures.chart import Chart
from apps.dashboard.figures.theme import Table

HEIGHT = 264
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Calibration:
    """Hidden cells of one matrix at one revision.

    Attributes
    ----------
    levels : (k,) nominal, in (0, 1)
    observed : (k,) share of the hidden cells inside the interval of that level
    covered : share inside the 90 % intervals; NaN = not evaluated
    cells, rows : number of hidden cells and rows
    is_too_small : too few rows or columns to hide any
    """

    levels: Floats
    observed: Floats
    covered: float
    cells: int
    rows: int
    revision: int
    is_too_small: bool = False


def title(data: Calibration) -> str:
    """Return the coverage of the 90 % intervals."""
    if data.is_too_small:
        return "Too few cells to check intervals"
    if math.isnan(data.covered):
        return "Intervals not checked yet"
    return (
        f"90 % intervals cover {formats.percent(data.covered, 0)} of "
        f"{formats.plural(data.cells, 'hidden cell')}"
    )


def sub(data: Calibration) -> str:
    """Return the measure, its scope and n."""
    if data.is_too_small:
        return "Needs at least three columns and four rows, as two cells of each row are kept"
    if math.isnan(data.covered):
        return f"Revision {data.revision} is being evaluated in the background"
    return (
        f"Share of hidden cells inside intervals of each level, "
        f"{formats.plural(data.rows, 'application')} hidden in turn"
    )


def table(data: Calibration) -> Table:
    """Return every level."""
    return Table(
        ("Nominal level", "Observed share", "95 % interval of the share"),
        tuple(
            (formats.percent(float(level), 0), formats.percent(float(share)), _ends(data, share))
            for level, share in zip(data.levels, data.observed, strict=True)
        ),
    )


def figure(data: Calibration) -> go.Figure:
    """Draw points against the diagonal."""
    axis = {
        "range": [0, 1.02],
        "tickvals": [0, 0.25, 0.5, 0.75, 1],
        "ticktext": ["0", "25", "50", "75", "100 %"],
        "showgrid": True,
        "fixedrange": True,
    }
    x_axis = {**axis, "title": {"text": "nominal level"}}
    if math.isnan(data.covered):
        sentence = "Too few cells to hide any" if data.is_too_small else "Not checked yet"
        return theme.empty(HEIGHT, sentence, x=x_axis, y=axis)
    chart = Chart(
        theme.layout(
            HEIGHT,
            margin={"l": 40, "r": 16, "t": 22, "b": 36},
            xaxis=x_axis,
            yaxis=axis,
            hovermode="closest",
        )
    )
    chart.add_annotation(theme.axis_name("hidden cells covered"))
    chart.add_shape(
        type="line",
        x0=0,
        y0=0,
        x1=1,
        y1=1,
        line={"color": theme.TEXT_2, "width": 1, "dash": "dot"},
    )
    chart.add_annotation(
        theme.note(
            "well calibrated",
            x=0.3,
            y=0.3,
            xanchor="left",
            yanchor="top",
            xshift=6,
            font={"color": theme.TEXT_2},
        )
    )
    chart.add_scatter(
        x=np.round(data.levels, 3),
        y=np.round(data.observed, 4),
        mode="lines+markers",
        line={"color": theme.ACCENT, "width": 1.5},
        marker={"color": theme.ACCENT, "size": 7},
        error_y=_whiskers(data),
        hovertemplate="<b>%{y:.1%}</b> inside the %{x:.0%} intervals<extra></extra>",
    )
    return chart.figure()


def _whiskers(data: Calibration) -> dict[str, object]:
    ends = [wilson(round(share * data.cells), data.cells) for share in data.observed.tolist()]
    pairs = list(zip(ends, data.observed.tolist(), strict=True))
    return {
        "type": "data",
        "symmetric": False,
        "array": [round(max(0.0, high - share), 4) for (_, high), share in pairs],
        "arrayminus": [round(max(0.0, share - low), 4) for (low, _), share in pairs],
        "width": 3,
        "thickness": 1,
        "color": theme.TEXT_2,
    }


def _ends(data: Calibration, share: float) -> str:
    low, high = wilson(round(float(share) * data.cells), data.cells)
    return f"{formats.percent(low)}–{formats.percent(high)}"
