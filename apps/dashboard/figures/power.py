"""Power of the cluster over time, between all servers idle and all servers busy."""

from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from apps.dashboard.core import words
from apps.dashboard.figures import theme
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
    """Return what the cluster draws now and how that moved."""
    if not data.watts.size:
        return "No power reading yet"
    now, start = float(data.watts[-1]), float(data.watts[0])
    change = (now - start) / start if start > 0 else 0.0
    moved = (
        "as at the start of the range"
        if abs(change) < 0.005
        else f"{words.signed(100 * change)} % over the range"
    )
    return f"The cluster draws {words.quantity(now, 'W')}, {moved}"


def sub(data: Power) -> str:
    """Return what is measured, over what, how many."""
    return (
        f"{words.thousands(data.servers)} servers, {words.quantity(data.idle_watts, 'W')} idle, "
        f"{words.quantity(data.peak_watts, 'W')} busy"
    )


def table(data: Power) -> Table:
    """Now, lowest, highest, against the bounds."""
    if not data.watts.size:
        return Table(("Measure", "Power"), ())
    rows = (
        ("Now", float(data.watts[-1])),
        ("Lowest", float(data.watts.min())),
        ("Mean", float(data.watts.mean())),
        ("Highest", float(data.watts.max())),
        ("All servers idle", data.idle_watts),
        ("All servers busy", data.peak_watts),
    )
    return Table(("Measure", "Power"), tuple((name, words.quantity(w, "W")) for name, w in rows))


def figure(data: Power) -> go.Figure:
    """One line between two dotted bounds."""
    top_kw = max(data.peak_watts, 1.0) / 1000 * 1.08
    y_axis = {"range": [0, top_kw], "fixedrange": True, "nticks": 5}
    if not data.watts.size:
        return theme.empty(
            HEIGHT, "No reading yet", x={"range": [0, 1], "showticklabels": False}, y=y_axis
        )
    first, last = float(data.times_s[0]), float(data.times_s[-1])
    chart = go.Figure(
        layout=theme.layout(
            HEIGHT,
            margin={"l": 40, "r": RIGHT, "t": 20, "b": 22},
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
            (f"now {words.significant(now)}", now, theme.TEXT, True),
            ("all busy", data.peak_watts / 1000, theme.MUTED, False),
        ],
        x=last,
        pixels_per_unit=pixels,
    ):
        chart.add_annotation(label)
    return chart
