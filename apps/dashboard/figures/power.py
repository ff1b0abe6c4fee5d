"""Power of the cluster over time, between its idle and its peak power."""

from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from apps.dashboard.core import formats
from apps.dashboard.figures import theme
from apps.dashboard.figures.chart import Chart
from apps.dashboard.figures.theme import Table

HEIGHT = 216
RIGHT = 72
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Power:
    """Watts over a range of cluster time.

    Attributes
    ----------
    times_s : (T,) cluster seconds
    watts : (T,) sum over the servers that reported
    idle_watts, peak_watts : of all servers together
    servers_on : servers on at the end of the range
    servers : all servers
    """

    times_s: Floats
    watts: Floats
    idle_watts: float
    peak_watts: float
    servers_on: int
    servers: int


def title(data: Power) -> str:
    """Return the current power and its change over the range."""
    if not data.watts.size:
        return "No power reading yet"
    now, start = float(data.watts[-1]), float(data.watts[0])
    change = (now - start) / start if start > 0 else 0.0
    trend = (
        "unchanged over the range"
        if abs(change) < 0.005
        else f"{formats.signed(100 * change)} % over the range"
    )
    return f"The cluster draws {formats.quantity(now, 'W')}, {trend}"


def sub(data: Power) -> str:
    """Return the measure, its scope and n."""
    return (
        f"{formats.thousands(data.servers)} servers, "
        f"{formats.quantity(data.idle_watts, 'W')} idle, "
        f"{formats.quantity(data.peak_watts, 'W')} at peak"
    )


def table(data: Power) -> Table:
    """Return current, minimum, mean and maximum power, and the bounds."""
    if not data.watts.size:
        return Table(("Measure", "Power"), ())
    rows = (
        ("Now", float(data.watts[-1])),
        ("Minimum", float(data.watts.min())),
        ("Mean", float(data.watts.mean())),
        ("Maximum", float(data.watts.max())),
        ("All servers idle", data.idle_watts),
        ("All servers at peak", data.peak_watts),
    )
    return Table(("Measure", "Power"), tuple((name, formats.quantity(w, "W")) for name, w in rows))


def figure(data: Power) -> go.Figure:
    """Draw one line between two dotted bounds."""
    top_kw = max(data.peak_watts, 1.0) / 1000 * 1.08
    y_axis = {"range": [0, top_kw], "fixedrange": True, "nticks": 5}
    if not data.watts.size:
        return theme.empty(
            HEIGHT, "No power reading yet", x={"range": [0, 1], "showticklabels": False}, y=y_axis
        )
    first, last = float(data.times_s[0]), float(data.times_s[-1])
    chart = Chart(
        theme.layout(
            HEIGHT,
            margin={"l": 40, "r": RIGHT, "t": 20, "b": theme.TIME_BOTTOM},
            xaxis=theme.time_axis(first, last, ticks=4),
            yaxis=y_axis,
            hovermode="x",
        )
    )
    chart.add_annotation(theme.axis_name("kW"))
    for watts in (data.idle_watts, data.peak_watts):
        chart.add_shape(theme.level(watts / 1000))
    chart.add_scatter(
        x=data.times_s,
        y=np.round(data.watts / 1000, 4),
        mode="lines",
        line={"color": theme.ACCENT, "width": 2},
        hovertemplate="%{y:.3s} kW<extra></extra>",
    )
    now = float(data.watts[-1]) / 1000
    pixels = (HEIGHT - 42) / top_kw
    for label in theme.end_labels(
        [
            ("all idle", data.idle_watts / 1000, theme.MUTED, False),
            (f"now {formats.significant(now)}", now, theme.TEXT, True),
            ("all at peak", data.peak_watts / 1000, theme.MUTED, False),
        ],
        x=last,
        pixels_per_unit=pixels,
    ):
        chart.add_annotation(label)
    return chart.figure()
