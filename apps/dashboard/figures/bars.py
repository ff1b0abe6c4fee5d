"""Bars by category: the figure of any selector that returns `Bars`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from apps.dashboard.core import formats
from apps.dashboard.figures import theme
from apps.dashboard.figures.chart import Chart
from apps.dashboard.figures.theme import Table

HEIGHT = 216
MAX_WIDTH = 0.7  # of a bar, as a share of the width of its category


@dataclass(frozen=True, slots=True)
class Bars:
    """Numbers by category, in the order of the bars; several series are stacked.

    Attributes
    ----------
    heading, scope : title and subtitle of the figure
    category : heading of the categories in the table
    names : (n,) categories
    series : (n,) numbers by name of the series
    unit : name of the axis of the numbers
    empty : sentence without any category
    """

    heading: str
    scope: str
    category: str
    names: Sequence[str]
    series: Mapping[str, Sequence[float]]
    unit: str
    empty: str


def title(data: Bars) -> str:
    """Return the heading."""
    return data.heading if data.names else data.empty


def sub(data: Bars) -> str:
    """Return the measure, its scope and n."""
    return data.scope


def table(data: Bars) -> Table:
    """Return one row per category."""
    columns = [[_number(number) for number in numbers] for numbers in data.series.values()]
    return Table((data.category, *data.series), tuple(zip(data.names, *columns, strict=True)))


def figure(data: Bars) -> go.Figure:
    """Draw one bar per category, the series on top of each other."""
    if not data.names:
        return theme.empty(HEIGHT, data.empty, x={"showticklabels": False}, y={"range": [0, 1]})
    chart = Chart(
        theme.layout(
            HEIGHT,
            xaxis={"type": "category", "fixedrange": True},
            yaxis={"rangemode": "tozero", "nticks": 4, "fixedrange": True},
            barmode="stack",
            showlegend=len(data.series) > 1,
        )
    )
    chart.add_annotation(theme.axis_name(data.unit))
    colours = (theme.ACCENT, theme.MUTED)
    for i, (name, numbers) in enumerate(data.series.items()):
        chart.add_bar(
            x=list(data.names),
            y=list(numbers),
            name=name,
            width=min(MAX_WIDTH, 0.12 * len(data.names)),
            marker={"color": colours[i % len(colours)]},
            hovertemplate=f"%{{y:.4g}} {name}<br>%{{x}}<extra></extra>",
        )
    return chart.figure()


def _number(number: float) -> str:
    if float(number).is_integer():
        return formats.thousands(int(number))
    return formats.significant(number)
