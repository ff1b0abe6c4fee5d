"""Pressure on a job before and at a dip, against what it tolerates, by resource."""

from dataclasses import dataclass
from typing import Final

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from apps.common.core.interference import SOURCE_NAMES, SOURCES
from apps.dashboard.core import formats
from apps.dashboard.figures import theme
from apps.dashboard.figures.chart import Chart
from apps.dashboard.figures.theme import Table

HEIGHT: Final = 268
BAD: Final = "var(--bad)"
NAMES: Final = tuple(SOURCE_NAMES[source] for source in SOURCES)
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class DipPressure:
    """Pressure on the units of one job; each (10,), 0-100.

    Attributes
    ----------
    before, at_dip : NaN = nothing reported
    tolerated, low, high : with a 90 % interval; NaN = no profile
    """

    before: Floats
    at_dip: Floats
    tolerated: Floats
    low: Floats
    high: Floats

    @property
    def crossed(self) -> NDArray[np.bool_]:
        """(10,) whether the pressure at the dip is above what the job tolerates."""
        above: NDArray[np.bool_] = self.at_dip > self.tolerated
        return above


def title(data: DipPressure) -> str:
    """Return the resources whose pressure is above what the job tolerates."""
    if np.isnan(data.at_dip).all():
        return "No dip, no pressure to compare"
    if np.isnan(data.tolerated).all():
        return "Without a profile, what the job tolerates is unknown"
    over = np.flatnonzero(data.crossed)
    if not over.size:
        return "Pressure stays within what the job tolerates in all ten resources"
    worst = int(over[np.argmax((data.at_dip - data.tolerated)[over])])
    points = f"{data.at_dip[worst]:.0f} points, {data.tolerated[worst]:.0f} tolerated"
    rest = "nine resources" if over.size == 1 else f"{10 - over.size} resources"
    others = f" and {over.size - 1} more" if over.size > 1 else ""
    return f"{NAMES[worst]}{others} crossed: {points}; {rest} stayed within"


def sub(data: DipPressure) -> str:
    """Return the measure and the marks."""
    return (
        "Mean points on the job's units, from profiles: ○ before the dip, ● at the dip; bar: "
        "tolerated, with its 90 % interval"
    )


def table(data: DipPressure) -> Table:
    """Return all ten resources."""
    return Table(
        ("Resource", "Before", "At the dip", "Tolerated", "90 % interval", "Verdict"),
        tuple(
            (
                NAMES[i],
                formats.thousands(float(data.before[i])),
                formats.thousands(float(data.at_dip[i])),
                formats.thousands(float(data.tolerated[i])),
                _interval(data, i),
                _verdict(data, i),
            )
            for i in range(len(NAMES))
        ),
    )


def figure(data: DipPressure) -> go.Figure:
    """Draw one row per resource: the tolerance as a bar, the pressure as two marks."""
    rows = np.arange(len(NAMES))
    chart = Chart(_layout())
    if np.isnan(data.at_dip).all():
        return theme.empty(HEIGHT, "No dip", x={"range": [0, 100]}, y={"range": [0, 10]})
    known = np.nan_to_num(data.tolerated)
    chart.add_bar(
        x=known,
        y=rows,
        orientation="h",
        marker={"color": theme.TRACK},
        error_x={
            "type": "data",
            "symmetric": False,
            "array": np.nan_to_num(data.high - data.tolerated),
            "arrayminus": np.nan_to_num(data.tolerated - data.low),
            "color": theme.MUTED,
            "thickness": 1,
            "width": 4,
        },
        customdata=NAMES,
        hovertemplate="%{x:.0f} points tolerated<br>%{customdata}<extra></extra>",
    )
    colours = [BAD if crossed else theme.TEXT_2 for crossed in data.crossed]
    for values, name, is_filled in (
        (data.before, "before the dip", False),
        (data.at_dip, "at the dip", True),
    ):
        chart.add_scatter(
            x=values,
            y=rows,
            mode="markers",
            marker={
                "size": 8,
                "color": colours if is_filled else theme.GROUND,
                "line": {"width": 1.5, "color": colours},
            },
            customdata=NAMES,
            hovertemplate=f"%{{x:.0f}} points {name}<br>%{{customdata}}<extra></extra>",
        )
    for i in np.flatnonzero(data.crossed):
        text = f"{data.at_dip[i]:.0f} of {data.tolerated[i]:.0f}"
        chart.add_annotation(
            theme.note(
                text,
                xref="paper",
                x=1,
                xanchor="left",
                xshift=4,
                y=int(i),
                font={"color": BAD, "weight": 600},
            )
        )
    return chart.figure()


def _interval(data: DipPressure, i: int) -> str:
    if np.isnan(data.low[i]):
        return "–"
    return f"[{data.low[i]:.0f}, {data.high[i]:.0f}]"


def _verdict(data: DipPressure, i: int) -> str:
    if np.isnan(data.tolerated[i]):
        return "–"
    return "crossed" if data.crossed[i] else "within"


def _layout() -> dict[str, object]:
    return theme.layout(
        HEIGHT,
        margin={"l": 118, "r": 60, "t": 8, "b": 24},
        xaxis={
            "range": [0, 100],
            "tickvals": [0, 25, 50, 75, 100],
            "showgrid": True,
            "fixedrange": True,
        },
        yaxis={
            "range": [len(NAMES) - 0.5, -0.5],
            "tickvals": list(range(len(NAMES))),
            "ticktext": list(NAMES),
            "showgrid": False,
            "fixedrange": True,
            "automargin": False,
        },
        bargap=0.35,
    )
