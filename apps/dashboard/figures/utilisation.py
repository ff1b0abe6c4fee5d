"""CPU use by server and time, grouped by platform."""

from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from apps.dashboard.core import formats
from apps.dashboard.figures import heat, theme
from apps.dashboard.figures.chart import Chart
from apps.dashboard.figures.theme import Table

HEIGHT = 344
RIGHT = 104
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class PlatformRows:
    """The consecutive rows of one platform and their summary."""

    name: str
    servers: int
    rows: int
    now: float  # share, NaN = not known
    mean: float
    peak: float


@dataclass(frozen=True, slots=True, eq=False)
class Utilisation:
    """Use of the cluster over a range of cluster time.

    Attributes
    ----------
    times_s : (T,) cluster seconds, the middle of each column
    used : (R, T) share of the cores in use, mean of the row's servers; NaN = not reported
    platforms : in the order of the rows
    cluster_used, cluster_allocated : (T,) shares of the whole cluster
    used_now, allocated_now : the same shares at the end of the range
    servers : servers in the picture
    servers_per_row : of the largest platform
    column_s : width of a column in cluster seconds
    row_names : R names, "srv-0001 to srv-0004"
    """

    times_s: Floats
    used: Floats
    platforms: tuple[PlatformRows, ...]
    cluster_used: Floats
    cluster_allocated: Floats
    used_now: float
    allocated_now: float
    servers: int
    servers_per_row: int
    column_s: float
    row_names: tuple[str, ...]


def title(data: Utilisation) -> str:
    """Return used and allocated shares and the busiest platform."""
    if not data.times_s.size:
        return "No server has reported yet"
    busy = max(data.platforms, key=lambda p: -1.0 if np.isnan(p.now) else p.now)
    used, allocated = data.used_now, data.allocated_now
    if busy.now > 0.85:
        return (
            f"Platform {busy.name} runs at {formats.percent(busy.now, 0)}; "
            f"the cluster uses {formats.percent(used, 0)} of its cores"
        )
    return (
        f"{formats.percent(used, 0)} of the cores are in use, {formats.percent(allocated, 0)} "
        f"allocated; platform {busy.name} is busiest at {formats.percent(busy.now, 0)}"
    )


def sub(data: Utilisation) -> str:
    """Return the measure, its scope and n."""
    rows = "one per row" if data.servers_per_row == 1 else f"up to {data.servers_per_row} per row"
    return (
        f"CPU used, {formats.thousands(data.servers)} servers, {rows}, "
        f"{formats.duration(data.column_s)} of cluster time per column"
    )


def table(data: Utilisation) -> Table:
    """Return use by platform."""
    return Table(
        ("Platform", "Servers", "Now", "Mean", "Maximum"),
        tuple(
            (
                p.name,
                formats.thousands(p.servers),
                formats.percent(p.now, 0),
                formats.percent(p.mean, 0),
                formats.percent(p.peak, 0),
            )
            for p in data.platforms
        ),
    )


def figure(data: Utilisation) -> go.Figure:
    """Draw two lines above and the heatmap below, on one time axis."""
    if not data.times_s.size:
        return theme.empty(
            HEIGHT,
            "No server has reported yet",
            x={"range": [0, 1], "showticklabels": False},
            y={"range": [0, 1], "showticklabels": False},
        )
    half = data.column_s / 2
    first, last = float(data.times_s[0] - half), float(data.times_s[-1] + half)
    chart = Chart(
        theme.layout(
            HEIGHT,
            margin={"l": 90, "r": RIGHT, "t": 12, "b": theme.TIME_BOTTOM},
            hovermode="closest",
            xaxis={**theme.time_axis(first, last, ticks=6), "anchor": "y2", "showspikes": True},
            yaxis={
                "domain": [0.84, 1],
                "range": [0, 1.02],
                "tickvals": [0, 0.5, 1],
                "ticktext": ["0", "50", "100 %"],
                "automargin": False,  # the margin above has room for half a label
                "fixedrange": True,
            },
            yaxis2=_row_axis(data),
        )
    )
    _add_lines(chart, data)
    _add_heat(chart, data)
    _add_missing(chart, data)
    _add_borders(chart, data, first, last)
    _add_notes(chart, data, last)
    _add_key(chart)
    return chart.figure()


def _row_axis(data: Utilisation) -> dict[str, object]:
    middles, names, at = [], [], 0
    min_rows = max(1.0, 0.034 * data.used.shape[0])  # height of a line of text
    for platform in data.platforms:
        if platform.rows >= min_rows:
            middles.append(at + platform.rows / 2)
            names.append(platform.name)
        at += platform.rows
    return {
        "domain": [0, 0.81],
        "range": [at, 0],
        "tickvals": middles,
        "ticktext": names,
        "tickfont": {"color": theme.TEXT, "weight": 600},
        "showgrid": False,
        "fixedrange": True,
    }


def _add_lines(chart: Chart, data: Utilisation) -> None:
    chart.add_scatter(
        x=data.times_s,
        y=data.cluster_used,
        line={"color": theme.ACCENT, "width": 1.5},
        fill="tozeroy",
        fillcolor=theme.faded(theme.ACCENT),
        name="used",
        hovertemplate="%{y:.1%} of the cores used<extra></extra>",
    )
    chart.add_scatter(
        x=data.times_s,
        y=data.cluster_allocated,
        line={"color": theme.MUTED, "width": 1.5},
        name="allocated",
        hovertemplate="%{y:.1%} of the units allocated<extra></extra>",
    )


def missing_boxes(data: Utilisation) -> list[tuple[float, float, int, int]]:
    """Return boxes of missing data: from s, to s, first row, row after the last."""
    boxes: list[tuple[float, float, int, int]] = []
    half = data.column_s / 2
    for row, start, end in heat.runs_of(np.isnan(data.used)):
        x0, x1 = float(data.times_s[start] - half), float(data.times_s[end - 1] + half)
        if boxes and boxes[-1][:2] == (x0, x1) and boxes[-1][3] == row:
            boxes[-1] = (x0, x1, boxes[-1][2], row + 1)
        else:
            boxes.append((x0, x1, row, row + 1))
    return boxes


def _add_missing(chart: Chart, data: Utilisation) -> None:
    heat.add_hatch(
        chart,
        missing_boxes(data),
        {"solidity": 0.3, "fgcolor": theme.MUTED},
        fillcolor=theme.GROUND,
        hoveron="fills",
        text="not reported",
        hoverinfo="text",
        yaxis="y2",
    )


def _add_heat(chart: Chart, data: Utilisation) -> None:
    rows = data.used.shape[0]
    chart.add_heatmap(
        x=data.times_s,
        y=np.arange(rows) + 0.5,
        z=np.round(data.used, 3),
        zmin=0,
        zmax=1,
        colorscale=theme.SEQUENTIAL,
        # a gap too thin to see keeps plotly.js from a shortcut that sets an inline style
        xgap=1e-6,
        meta={"rows": data.row_names},  # the page repeats each along its row for the hover label
        hovertemplate="%{z:.0%} CPU used<br>%{customdata}<extra></extra>",
        hoverongaps=False,
        yaxis="y2",
        # plotly.js draws its colour bar with inline styles, which our CSP forbids
        showscale=False,
    )


def _add_key(chart: Chart) -> None:
    """Draw the colour scale at the upper right, from 0 to 100 %."""
    left, top = 10, -78
    heat.add_key(chart, ("0", "100 %"), side=1, left=left, top=top)
    heat.add_label(chart, "CPU used", side=1, x=left, y=top + 17, xanchor="left")


def _add_borders(chart: Chart, data: Utilisation, first: float, last: float) -> None:
    at = 0
    for platform in data.platforms[:-1]:
        at += platform.rows
        chart.add_shape(
            type="line",
            x0=first,
            x1=last,
            y0=at,
            y1=at,
            yref="y2",
            line={"color": theme.GROUND, "width": 2, "dash": "solid"},
        )


def _add_notes(chart: Chart, data: Utilisation, last: float) -> None:
    used, allocated = data.used_now, data.allocated_now
    labels = [
        (f"allocated {formats.percent(allocated, 0)}", allocated, theme.TEXT_2, False),
        (f"used {formats.percent(used, 0)}", used, theme.TEXT, True),
    ]
    known = [label for label in labels if not np.isnan(label[1])]
    for label in theme.end_labels(known, x=last, pixels_per_unit=48):
        chart.add_annotation({**label, "xref": "x", "yref": "y"})
