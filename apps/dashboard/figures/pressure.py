"""What the tenants of one server cause and tolerate in the ten shared resources."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from apps.common.core.interference import SOURCES
from apps.dashboard.core import words
from apps.dashboard.figures import theme
from apps.dashboard.figures.theme import Table

HEIGHT = 268
TOO_MUCH = {"color": "var(--bad)"}
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Pressure:
    """Contention on one server.

    Attributes
    ----------
    caused : (10,) mean score its units cause, 0-100 (the sum over busy units divided by all
        units, as Tarcil Eq. 3)
    tolerated : (10,) least score one of its tenants tolerates, 0-100; NaN = no tenant with a
        profile
    picky : names of the tenants that set the tolerated score; "" = none
    server : name
    tenants : jobs on the server
    """

    caused: Floats
    tolerated: Floats
    picky: tuple[str, ...]
    server: str
    tenants: int


def title(data: Pressure) -> str:
    """Return the tightest source."""
    if not data.tenants:
        return f"{data.server} is empty: nothing causes pressure"
    if not data.caused.any():
        return f"The jobs on {data.server} put no pressure on each other"
    room = data.tolerated - data.caused
    if np.isnan(room).all():
        worst = int(np.argmax(data.caused))
        return f"{_name(worst)} is the most contended, {data.caused[worst]:.0f} points caused"
    worst = int(np.nanargmin(room))
    if room[worst] < 0:
        return (
            f"{_name(worst)} is over what {data.picky[worst] or 'a tenant'} tolerates "
            f"by {abs(room[worst]):.0f} points"
        )
    return f"{_name(worst)} is tightest: {room[worst]:.0f} points of room"


def sub(data: Pressure) -> str:
    """Return what is measured."""
    return (
        f"Mean score caused (bar) and least score tolerated (mark), 0–100, "
        f"{words.plural(data.tenants, 'tenant')}"
    )


def table(data: Pressure) -> Table:
    """All ten sources."""
    return Table(
        ("Source", "Caused", "Tolerated", "Room", "Set by"),
        tuple(
            (
                _name(i),
                words.thousands(float(data.caused[i])),
                words.thousands(float(data.tolerated[i])),
                words.signed(float(data.tolerated[i] - data.caused[i])),
                data.picky[i] or "–",
            )
            for i in range(len(SOURCES))
        ),
    )


def figure(data: Pressure) -> go.Figure:
    """One bar per source, a mark where the pickiest tenant's limit lies."""
    names = [_name(i) for i in range(len(SOURCES))]
    over = data.caused > data.tolerated
    chart = go.Figure(layout=_layout(names))
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
        customdata=[name or "no tenant" for name in data.picky],
        hovertemplate="%{x:.0f} points tolerated<br>%{customdata}<extra></extra>",
    )
    for i in np.flatnonzero(over):
        chart.add_annotation(
            theme.note(
                "too much", xref="paper", x=1, xanchor="left", xshift=4, y=int(i), font=TOO_MUCH
            )
        )
    return chart


def _name(index: int) -> str:
    return words.SOURCE_NAMES[SOURCES[index]]


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
