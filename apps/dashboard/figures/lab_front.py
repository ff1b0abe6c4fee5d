"""Overall performance against the share of jobs near full speed: one point for each setting."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import plotly.graph_objects as go

from apps.dashboard.core import formats
from apps.dashboard.figures import theme
from apps.dashboard.figures.chart import Chart
from apps.dashboard.figures.theme import Table

HEIGHT: Final = 344
SYMBOLS: Final = (
    "circle", "square", "diamond", "triangle-up", "cross", "triangle-down", "star", "hexagon",
)  # fmt: skip
AXES: Final = ("performance", "jobs near full speed")
End = float | None


@dataclass(frozen=True, slots=True)
class FrontPoint:
    """One setting; estimate, low and high in per cent, the ends None for one seed."""

    setting: str
    near: tuple[float, End, End]
    overall: tuple[float, End, End]
    is_bound: bool


@dataclass(frozen=True, slots=True)
class LabFront:
    """All settings at one load, in the order of the grid.

    Attributes
    ----------
    load : factor on the arrival rate; None if the comparison has one load
    scale : points of all loads, which the axes span; empty for one load
    leaders : the settings that are clearly the best one in performance, and in jobs near full
        speed; "" = none
    """

    points: tuple[FrontPoint, ...]
    seeds: int
    load: float | None
    scale: tuple[FrontPoint, ...]
    leaders: tuple[str, str] = ("", "")

    @property
    def front(self) -> tuple[FrontPoint, ...]:
        """Settings, without the bound, that no other one exceeds in both; by share, ascending."""
        candidates = [point for point in self.points if not point.is_bound]
        best = [p for p in candidates if not any(_exceeds(other, p) for other in candidates)]
        return tuple(sorted(best, key=lambda point: point.near[0]))


def _exceeds(one: FrontPoint, other: FrontPoint) -> bool:
    a, b = (one.near[0], one.overall[0]), (other.near[0], other.overall[0])
    return a != b and a[0] >= b[0] and a[1] >= b[1]


def title(data: LabFront) -> str:
    """Return the settings on the front."""
    if not data.points:
        return "No front yet"
    names = [point.setting for point in data.front]
    at = "" if data.load is None else f"Load ×{data.load:g}: "
    if len(names) == 1:
        return f"{at}{_lead(names[0], data.leaders)}"
    return f"{at}{formats.listed(names)} are on the front"


def _lead(setting: str, leaders: tuple[str, str]) -> str:
    clear = [name for name, leader in zip(AXES, leaders, strict=True) if leader == setting]
    if len(clear) == len(AXES):
        return f"{setting} leads in {' and in '.join(AXES)}"
    where = f"{clear[0]} only" if clear else "neither"
    return f"{setting} has the best mean in both; its lead is clear in {where}"


def sub(data: LabFront) -> str:
    """Return the axes and n."""
    return f"one point for each setting, 90 % intervals, n = {formats.plural(data.seeds, 'seed')}"


def table(data: LabFront) -> Table:
    """Return one row for each setting."""
    front = data.front
    return Table(
        ("Setting", "Mean performance", "Jobs at 0.95 or more", "On the front"),
        tuple(
            (
                point.setting,
                _text(point.overall),
                _text(point.near),
                "bound" if point.is_bound else "yes" if point in front else "no",
            )
            for point in data.points
        ),
    )


def _text(interval: tuple[float, End, End]) -> str:
    value, low, high = interval
    ends = "" if low is None or high is None else f" [{low:.1f}, {high:.1f}]"
    return f"{value:.1f} %{ends}"


def figure(data: LabFront) -> go.Figure:
    """Draw a point with whiskers for each setting, and the front as steps."""
    x_axis: dict[str, Any] = {"title": {"text": "jobs at 0.95 of full speed or more, %"}}
    y_axis: dict[str, Any] = {"ticksuffix": " %"}
    if data.scale:
        x_axis["range"] = _range([point.near for point in data.scale])
        y_axis["range"] = _range([point.overall for point in data.scale])
    if not data.points:
        return theme.empty(HEIGHT, "The front appears with the last run", x=x_axis, y=y_axis)
    chart = Chart(
        theme.layout(
            HEIGHT,
            margin={"l": 46, "r": 12, "t": 24, "b": 72},
            xaxis=x_axis,
            yaxis=y_axis,
            showlegend=True,
            legend={"orientation": "h", "y": -0.2, "yanchor": "top", "x": 0},
        )
    )
    chart.add_annotation(theme.axis_name("mean performance", xshift=-40))
    front = data.front
    chart.add_scatter(
        x=[point.near[0] for point in front],
        y=[point.overall[0] for point in front],
        mode="lines",
        line={"color": theme.ACCENT, "width": 1, "shape": "vh"},
        hoverinfo="skip",
        showlegend=False,
    )
    for number, point in enumerate(data.points):
        _add_point(chart, point, number)
    return chart.figure()


def _range(intervals: Sequence[tuple[float, End, End]]) -> list[float]:
    """Return both ends of an axis that shows all intervals, with a margin."""
    ends = [end for interval in intervals for end in interval if end is not None]
    margin = 0.06 * max(max(ends) - min(ends), 1.0)
    return [min(ends) - margin, max(ends) + margin]


def _add_point(chart: Chart, point: FrontPoint, number: int) -> None:
    colour = theme.MUTED if point.is_bound else theme.CATEGORICAL[number % len(theme.CATEGORICAL)]
    chart.add_scatter(
        x=[point.near[0]],
        y=[point.overall[0]],
        mode="markers",
        name=point.setting,
        marker={"color": colour, "size": 10, "symbol": SYMBOLS[number % len(SYMBOLS)]},
        error_x=_whiskers(point.near, colour),
        error_y=_whiskers(point.overall, colour),
        hovertemplate=(
            f"{point.setting}: %{{y:.1f}} %, %{{x:.1f}} % near full speed<extra></extra>"
        ),
    )


def _whiskers(interval: tuple[float, End, End], colour: str) -> dict[str, object]:
    value, low, high = interval
    if low is None or high is None:
        return {"visible": False}
    return {
        "type": "data",
        "symmetric": False,
        "array": [high - value],
        "arrayminus": [value - low],
        "color": colour,
        "thickness": 1.5,
        "width": 0,
    }
