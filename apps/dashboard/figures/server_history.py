"""Cores of one server in use and allocated, over time."""

from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from apps.dashboard.core import formats
from apps.dashboard.figures import theme
from apps.dashboard.figures.chart import Chart
from apps.dashboard.figures.theme import Table

HEIGHT = 200
RIGHT = 96
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class ServerHistory:
    """Use of one server.

    Attributes
    ----------
    server : name
    times_s : (T,) cluster seconds
    used, allocated : (T,) shares of its cores; NaN = not reported
    """

    server: str
    times_s: Floats
    used: Floats
    allocated: Floats


def title(data: ServerHistory) -> str:
    """Return current and mean use."""
    if not data.times_s.size or np.isnan(data.used).all():
        return f"{data.server} has not reported yet"
    used = data.used[~np.isnan(data.used)]
    return (
        f"{formats.percent(float(used[-1]), 0)} of its cores are in use, "
        f"{formats.percent(float(used.mean()), 0)} on average over the range"
    )


def sub(data: ServerHistory) -> str:
    """Return the measure, its scope and n."""
    return f"Share of cores used and allocated, n = {formats.thousands(data.times_s.size)} samples"


def table(data: ServerHistory) -> Table:
    """Return the last two hundred frames, newest first."""
    order = range(len(data.times_s) - 1, max(-1, len(data.times_s) - 201), -1)
    return Table(
        ("Cluster time", "Used", "Allocated"),
        tuple(
            (
                formats.cluster_day(float(data.times_s[i])),
                formats.percent(float(data.used[i]), 0),
                formats.percent(float(data.allocated[i]), 0),
            )
            for i in order
        ),
    )


def figure(data: ServerHistory) -> go.Figure:
    """Draw two lines with their names at the right end."""
    y_axis = theme.percent_axis(1.02)
    if not data.times_s.size or np.isnan(data.used).all():
        blank = {"range": [0, 1], "showticklabels": False}
        return theme.empty(HEIGHT, "No data yet", x=blank, y=y_axis)
    last = float(data.times_s[-1])
    chart = Chart(
        theme.layout(
            HEIGHT,
            margin={"l": 44, "r": RIGHT, "t": 10, "b": theme.TIME_BOTTOM},
            xaxis=theme.time_axis(float(data.times_s[0]), last, ticks=6),
            yaxis=y_axis,
            hovermode="x",
        )
    )
    labels = []
    for name, series, colour, strong in (
        ("allocated", data.allocated, theme.MUTED, False),
        ("used", data.used, theme.ACCENT, True),
    ):
        chart.add_scatter(
            x=data.times_s,
            y=np.round(series, 4),
            mode="lines",
            connectgaps=False,
            line={"color": colour, "width": 2 if strong else 1.5, "shape": "hv"},
            fill="tozeroy" if strong else None,
            fillcolor=theme.faded(colour),
            hovertemplate=f"%{{y:.0%}} {name}<extra></extra>",
        )
        known = series[~np.isnan(series)]
        if known.size:
            text = f"{name} {formats.percent(float(known[-1]), 0)}"
            tone = theme.TEXT if strong else theme.TEXT_2
            labels.append((text, float(known[-1]), tone, strong))
    for label in theme.end_labels(labels, x=last, pixels_per_unit=166):
        chart.add_annotation(label)
    return chart.figure()
