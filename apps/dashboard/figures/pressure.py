"""Pressure caused and tolerated by the tenants of one server, by resource."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from apps.common.core.interference import SOURCES
from apps.dashboard.core import formats, labels
from apps.dashboard.figures import theme
from apps.dashboard.figures.chart import Chart
from apps.dashboard.figures.theme import Table

HEIGHT = 268
EXCEEDED = {"color": "var(--bad)"}
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Pressure:
    """Pressure on one server.

    Attributes
    ----------
    caused : (10,) mean score its units cause, 0-100 (the sum over busy units divided by all
        units, as Tarcil Eq. 3)
    tolerated : (10,) lowest tolerance of its tenants, 0-100; NaN = no tenant with a profile
    strictest : name of the tenant with the lowest tolerance, by resource; "" = none
    server : name
    tenants : jobs on the server
    """

    caused: Floats
    tolerated: Floats
    strictest: tuple[str, ...]
    server: str
    tenants: int


def title(data: Pressure) -> str:
    """Return the tightest resource."""
    if not data.tenants:
        return f"No job on {data.server}, no pressure"
    if not data.caused.any():
        return f"The jobs on {data.server} cause no pressure"
    headroom = data.tolerated - data.caused
    if np.isnan(headroom).all():
        worst = int(np.argmax(data.caused))
        return f"{_name(worst)} has the highest pressure, {data.caused[worst]:.0f} points"
    worst = int(np.nanargmin(headroom))
    if headroom[worst] < 0:
        return (
            f"{_name(worst)} pressure exceeds the tolerance of "
            f"{data.strictest[worst] or 'a tenant'} by {abs(headroom[worst]):.0f} points"
        )
    return f"{_name(worst)} is tightest, with {headroom[worst]:.0f} points of headroom"


def sub(data: Pressure) -> str:
    """Return the measure, its scope and n."""
    return (
        f"Mean pressure caused (bar) and lowest tolerance of a tenant (mark), 0–100, "
        f"{formats.plural(data.tenants, 'tenant')}"
    )


def table(data: Pressure) -> Table:
    """Return all ten resources."""
    return Table(
        ("Resource", "Caused", "Tolerated", "Headroom", "Strictest tenant"),
        tuple(
            (
                _name(i),
                formats.thousands(float(data.caused[i])),
                formats.thousands(float(data.tolerated[i])),
                formats.signed(float(data.tolerated[i] - data.caused[i])),
                data.strictest[i] or "–",
            )
            for i in range(len(SOURCES))
        ),
    )


def figure(data: Pressure) -> go.Figure:
    """Draw one bar per resource, with a mark at the limit of the strictest tenant."""
    names = [_name(i) for i in range(len(SOURCES))]
    over = data.caused > data.tolerated
    chart = Chart(_layout(names))
    chart.add_bar(
        x=np.round(data.caused, 2),
        y=np.arange(len(names)),
        orientation="h",
        marker={"color": [theme.MISSED if o else theme.ACCENT for o in over]},
        customdata=names,
        hovertemplate="%{x:.0f} points caused<br>%{customdata}<extra></extra>",
    )
    chart.add_scatter(
        x=np.round(data.tolerated, 2),
        y=np.arange(len(names)),
        mode="markers",
        marker={"symbol": "line-ns", "size": 14, "line": {"width": 2, "color": theme.TEXT}},
        customdata=[name or "no tenant" for name in data.strictest],
        hovertemplate="%{x:.0f} points tolerated<br>%{customdata}<extra></extra>",
    )
    for i in np.flatnonzero(over):
        chart.add_annotation(
            theme.note(
                "exceeded", xref="paper", x=1, xanchor="left", xshift=4, y=int(i), font=EXCEEDED
            )
        )
    return chart.figure()


def _name(index: int) -> str:
    return labels.SOURCE_NAMES[SOURCES[index]]


def _layout(names: list[str]) -> dict[str, Any]:
    return theme.layout(
        HEIGHT,
        margin={"l": 118, "r": 48, "t": 8, "b": 24},
        xaxis={
            "range": [0, 100],
            "tickvals": [0, 25, 50, 75, 100],
            "showgrid": True,
            "fixedrange": True,
        },
        yaxis={
            "range": [len(names) - 0.5, -0.5],
            "tickvals": list(range(len(names))),
            "ticktext": names,
            "showgrid": False,
            "fixedrange": True,
            "automargin": False,
        },
        bargap=0.45,
    )
