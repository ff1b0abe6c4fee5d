"""Lines of the settings of a comparison over one axis, as shares from 0 to 1."""

from collections.abc import Sequence
from typing import Any, Final, Protocol

import plotly.graph_objects as go

from apps.dashboard.figures import theme
from apps.dashboard.figures.chart import Chart

HEIGHT: Final = 344
DASHES: Final = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot", "solid", "dash")


class LineData(Protocol):
    """Shares of each setting; ``bound`` is the name of the bound, empty without one."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the settings."""
        ...

    @property
    def shares(self) -> tuple[tuple[float, ...], ...]:
        """For each name, one value for each point of the axis."""
        ...

    @property
    def bound(self) -> str:
        """Name of the bound."""
        ...


def lines(
    data: LineData, x: Sequence[float], *, x_axis: dict[str, Any], y_name: str, hover: str
) -> go.Figure:
    """Draw one line for each setting; the bound is grey and dotted.

    Parameters
    ----------
    x : points of the axis
    hover : text after the name of the setting
    """
    chart = Chart(
        theme.layout(
            HEIGHT,
            margin={"l": 42, "r": 12, "t": 24, "b": 72},
            xaxis=x_axis,
            yaxis=theme.percent_axis(),
            showlegend=True,
            legend={"orientation": "h", "y": -0.2, "yanchor": "top", "x": 0},
        )
    )
    chart.add_annotation(theme.axis_name(y_name, xshift=-40))
    for number, (name, values) in enumerate(zip(data.names, data.shares, strict=True)):
        is_bound = name == data.bound
        colour = theme.CATEGORICAL[number % len(theme.CATEGORICAL)]
        chart.add_scatter(
            x=x,
            y=values,
            mode="lines",
            name=name,
            line={
                "color": theme.MUTED if is_bound else colour,
                "width": 1.5 if is_bound else 2,
                "dash": "dot" if is_bound else DASHES[number % len(DASHES)],
            },
            hovertemplate=f"{name}: {hover}<extra></extra>",
        )
    return chart.figure()
