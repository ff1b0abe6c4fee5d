"""One or several lines over wall time, each labelled at its end."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from apps.dashboard.figures import theme
from apps.dashboard.figures.chart import Chart
from apps.dashboard.figures.theme import Table

HEIGHT: Final = 216
RIGHT: Final = 112
COLOURS: Final = tuple(f"var(--cat-{i})" for i in range(1, 9))
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Lines:
    """Series over the same moments.

    Attributes
    ----------
    heading, below : title and subtitle
    unit : name of the y axis
    times : T moments, UTC, ascending
    series : (T,) values by name, at most eight; NaN = not known
    text : formats a value
    nothing : sentence without data
    """

    heading: str
    below: str
    unit: str
    times: tuple[datetime, ...]
    series: Mapping[str, Floats]
    text: Callable[[float], str]
    nothing: str


def title(data: Lines) -> str:
    """Return the heading."""
    return data.heading if data.times else data.nothing


def sub(data: Lines) -> str:
    """Return the subtitle."""
    return data.below


def table(data: Lines) -> Table:
    """Return the last, mean and highest value of each line."""
    head = ("Line", "Now", "Mean", "Maximum")
    rows = (
        (
            name,
            data.text(_last(values)),
            data.text(_over(np.mean, values)),
            data.text(_over(np.max, values)),
        )
        for name, values in data.series.items()
    )
    return Table(head, tuple(rows))


def _over(reduce: Callable[[Floats], np.float64], values: Floats) -> float:
    known = values[~np.isnan(values)]
    return float(reduce(known)) if known.size else float("nan")


def _last(values: Floats) -> float:
    known = values[~np.isnan(values)]
    return float(known[-1]) if known.size else float("nan")


def figure(data: Lines) -> go.Figure:
    """Draw the lines from zero, with gaps where nothing is known."""
    top = max((_over(np.max, values) for values in data.series.values()), default=0.0)
    top = 1.08 * top if top > 0.0 else 1.0
    y_axis = {"range": [0, top], "fixedrange": True, "nticks": 5}
    if not data.times or not data.series:
        return theme.empty(
            HEIGHT, data.nothing, x={"range": [0, 1], "showticklabels": False}, y=y_axis
        )
    chart = Chart(
        theme.layout(
            HEIGHT,
            margin={"l": 40, "r": RIGHT, "t": 20, "b": 22},
            xaxis={"type": "date", "range": [data.times[0], data.times[-1]], "nticks": 5},
            yaxis=y_axis,
            hovermode="x",
        )
    )
    chart.add_annotation(theme.axis_name(data.unit))
    ends = []
    for (name, values), colour in zip(data.series.items(), COLOURS, strict=False):
        chart.add_scatter(
            x=data.times,
            y=values,
            name=name,
            mode="lines",
            line={"color": colour, "width": 2},
            text=[data.text(value) for value in values.tolist()],
            hovertemplate=f"{name}: %{{text}}<extra></extra>",
        )
        if not np.isnan(_last(values)):
            ends.append((f"{name} {data.text(_last(values))}", _last(values), colour, False))
    labels = theme.end_labels(
        ends, x=data.times[-1].timestamp(), pixels_per_unit=(HEIGHT - 42) / top
    )
    for label in labels:
        chart.add_annotation({**label, "x": data.times[-1]})
    return chart.figure()
