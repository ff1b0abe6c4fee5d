"""Pressure an application tolerates and causes on the ten shared resources."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go

from apps.common.core.interference import SOURCES
from apps.dashboard.core import formats, labels
from apps.dashboard.core.profile_text import PRESSURES
from apps.dashboard.figures import marks, theme
from apps.dashboard.figures.chart import Chart
from apps.dashboard.figures.marks import MatrixRow
from apps.dashboard.figures.theme import Table

HEIGHT = 280


@dataclass(frozen=True, slots=True)
class Interference:
    """The two rows of one application, ten sources each; empty = not profiled yet."""

    tolerated: MatrixRow
    caused: MatrixRow


def title(data: Interference) -> str:
    """Return the resource it is most sensitive to, and the one it presses most."""
    if not data.tolerated.cells:
        return "Interference not known yet"
    tightest = min(data.tolerated.cells, key=lambda cell: cell.value)
    loudest = max(data.caused.cells, key=lambda cell: cell.value)
    return (
        f"Most sensitive to {PRESSURES[tightest.column]} pressure, from "
        f"{formats.thousands(tightest.value)} %; causes mostly "
        f"{PRESSURES[loudest.column]} pressure, {formats.thousands(loudest.value)} %"
    )


def sub(data: Interference) -> str:
    """Return the measure, its scope and n."""
    if not data.tolerated.cells:
        return marks.NOT_PROFILED
    return (
        "Pressure at which it loses 5 % (left) and pressure caused by one unit (right), 0–100 %; "
        f"{marks.counted((*data.tolerated.cells, *data.caused.cells))}"
    )


def table(data: Interference) -> Table:
    """Return both values of every resource."""
    left, right = marks.table(data.tolerated, ""), marks.table(data.caused, "")
    head = ("Tolerated", "90 % interval", "Source", "Caused", "90 % interval", "Source")
    return Table(
        ("Resource", *head),
        tuple(
            (tolerated[0], *tolerated[1:4], *caused[1:4])
            for tolerated, caused in zip(left.rows, right.rows, strict=True)
        ),
    )


def figure(data: Interference) -> go.Figure:
    """Draw two panels of ten bars with a common list of resources."""
    places = np.arange(len(SOURCES))
    chart = Chart(_layout(places))
    for name, x in (("tolerated", 0.0), ("caused by one unit", 0.53)):
        chart.add_annotation(
            theme.note(
                name,
                xref="paper",
                x=x,
                yref="paper",
                y=1,
                yanchor="bottom",
                xanchor="left",
                yshift=4,
                font={"color": theme.TEXT_2, "weight": 600},
            )
        )
    if not data.tolerated.cells:
        chart.add_annotation(
            theme.note("Not profiled yet", xref="paper", yref="paper", x=0.5, y=0.5)
        )
        return chart.figure()
    for row, axis in ((data.tolerated, "x"), (data.caused, "x2")):
        chart.add_bar(
            x=[float(f"{value:.4g}") for value in row.values],
            y=places,
            orientation="h",
            marker={"color": theme.faded(theme.ACCENT, 0.22)},
            hoverinfo="skip",
            xaxis=axis,
        )
        marks.add(chart, row, places.tolist(), along="x", xaxis=axis)
    return chart.figure()


def _layout(places: Any) -> dict[str, Any]:
    x_axis = {
        "range": [-1, 101],
        "tickvals": [0, 25, 50, 75, 100],
        "ticktext": ["0", "25", "50", "75", "100 %"],
        "showgrid": True,
        "fixedrange": True,
    }
    return theme.layout(
        HEIGHT,
        margin={"l": 118, "r": 20, "t": 24, "b": 24},
        # the unit on the last tick of the right panel only: on a phone the two would touch
        xaxis={**x_axis, "domain": [0, 0.45], "ticktext": ["0", "25", "50", "75", "100"]},
        xaxis2={**x_axis, "domain": [0.55, 1]},
        yaxis={
            "range": [len(places) - 0.5, -0.5],
            "tickvals": places.tolist(),
            "ticktext": [labels.SOURCE_NAMES[source] for source in SOURCES],
            "showgrid": False,
            "fixedrange": True,
            "automargin": False,
            **theme.APART,
        },
        bargap=0.5,
        hovermode="closest",
    )
