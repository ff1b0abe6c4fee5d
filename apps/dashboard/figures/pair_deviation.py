"""Predicted against measured slowdown, over all measured pairs."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

import plotly.graph_objects as go

from apps.classification.core.estimates import Estimate
from apps.dashboard.core import formats
from apps.dashboard.core.pair_text import interval, number
from apps.dashboard.figures import theme
from apps.dashboard.figures.chart import Chart
from apps.dashboard.figures.theme import Table
from apps.testbed.core.pairs.rounds import holds, is_wide

HEIGHT: Final = 344
MARGIN: Final = 0.03  # of a slowdown, around the points


@dataclass(frozen=True, slots=True)
class Deviation:
    """One application of a measured pair, with a prediction."""

    application: str
    other: str
    predicted: Estimate
    measured: Estimate
    is_emulated: bool

    @property
    def is_held(self) -> bool:
        """Whether the predicted interval contains the measured value, and is narrow enough."""
        wide = is_wide(self.predicted.low, self.predicted.high)
        return not wide and bool(holds(self.predicted, self.measured))

    @property
    def ratio(self) -> float:
        """Measured over predicted slowdown."""
        return self.measured.value / self.predicted.value


@dataclass(frozen=True, slots=True)
class Deviations:
    """The applications of measured pairs, the newest pair first."""

    points: tuple[Deviation, ...]


def title(data: Deviations) -> str:
    """Return how many predictions held, and the typical deviation."""
    if not data.points:
        return "No prediction has been measured yet"
    held = sum(each.is_held for each in data.points)
    off = median(abs(math.log(each.ratio)) for each in data.points)
    return (
        f"{held} of {formats.plural(len(data.points), 'prediction')} held; "
        f"half were off by at most {formats.percent(math.expm1(off))}"
    )


def sub(data: Deviations) -> str:
    """Return the measure, and the bias."""
    if not data.points:
        return "Slowdown of one application next to another, measured ÷ predicted"
    bias = math.expm1(median(math.log(each.ratio) for each in data.points))
    return (
        "Slowdown next to another application, 90 % intervals; measured is "
        f"{formats.signed(100 * bias, 1)} % of the prediction in the median"
    )


def table(data: Deviations) -> Table:
    """Return one row for each application of each pair."""
    return Table(
        ("Application", "Next to", "Servers", "Predicted", "Measured", "Deviation"),
        tuple(
            (
                each.application,
                each.other,
                "emulated" if each.is_emulated else "real",
                f"{number(each.predicted)} {interval(each.predicted)}",
                f"{number(each.measured)} {interval(each.measured)}",
                f"{formats.signed(100 * (each.ratio - 1), 1)} %",
            )
            for each in data.points
        ),
    )


def figure(data: Deviations) -> go.Figure:
    """Draw a point with both intervals for each application, against the diagonal."""
    x_axis = {"title": {"text": "predicted slowdown"}, "fixedrange": True}
    y_axis = {"fixedrange": True}
    if not data.points:
        ends = {"range": [0.95, 1.5]}
        return theme.empty(
            HEIGHT, "Run a pair to compare its prediction", x=x_axis | ends, y=y_axis | ends
        )
    low, high = _ends(data.points)
    chart = Chart(
        theme.layout(
            HEIGHT,
            margin={"l": 44, "r": 16, "t": 24, "b": 64},
            xaxis=x_axis | {"range": [low, high]},
            yaxis=y_axis | {"range": [low, high]},
            hovermode="closest",
            showlegend=True,
            legend={"orientation": "h", "y": -0.2, "yanchor": "top", "x": 0},
        )
    )
    chart.add_annotation(theme.axis_name("measured slowdown"))
    chart.add_shape(
        type="line", x0=low, y0=low, x1=high, y1=high,
        line={"color": theme.TEXT_2, "width": 1, "dash": "dot"},
    )  # fmt: skip
    real = [each for each in data.points if not each.is_emulated]
    emulated = [each for each in data.points if each.is_emulated]
    for name, points, colour in (
        ("real servers", real, theme.CATEGORICAL[0]),
        ("emulated", emulated, theme.CATEGORICAL[1]),
    ):
        if points:
            _add_points(chart, name, points, colour)
    return chart.figure()


def _ends(points: Sequence[Deviation]) -> tuple[float, float]:
    """Return the range of both axes: all values, and 1."""
    values = [each.predicted.value for each in points] + [each.measured.value for each in points]
    low, high = min(1.0, *values), max(1.0, *values)
    margin = max(MARGIN, 0.08 * (high - low))
    return low - margin, high + margin


def _add_points(chart: Chart, name: str, points: Sequence[Deviation], colour: str) -> None:
    chart.add_scatter(
        x=[each.predicted.value for each in points],
        y=[each.measured.value for each in points],
        mode="markers",
        name=name,
        marker={
            "color": [colour if each.is_held else theme.GROUND for each in points],
            "size": 8,
            "line": {"color": colour, "width": 2},
        },
        error_x=_error([each.predicted for each in points], colour),
        error_y=_error([each.measured for each in points], colour),
        text=[f"{each.application} next to {each.other}" for each in points],
        hovertemplate="%{text}: predicted %{x:.3f}, measured %{y:.3f}<extra></extra>",
    )


def _error(estimates: Sequence[Estimate], colour: str) -> dict[str, object]:
    return {
        "type": "data",
        "symmetric": False,
        "array": [each.high - each.value for each in estimates],
        "arrayminus": [each.value - each.low for each in estimates],
        "color": colour,
        "thickness": 1,
        "width": 0,
    }
