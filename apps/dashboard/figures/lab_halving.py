"""Rounds of a sweep by successive halving: points behind the leader, one line for each setting."""

from dataclasses import dataclass
from typing import Any, Final

import plotly.graph_objects as go

from apps.dashboard.core import formats
from apps.dashboard.figures import theme
from apps.dashboard.figures.chart import Chart
from apps.dashboard.figures.theme import Table

HEIGHT: Final = 344


@dataclass(frozen=True, slots=True)
class SweepLine:
    """One setting.

    Attributes
    ----------
    seeds : at the end of each round in which it took part
    behind : points behind the leader of each of these rounds, 0 = the leader
    is_dropped : after its last round
    """

    setting: str
    seeds: tuple[int, ...]
    behind: tuple[float, ...]
    is_dropped: bool


@dataclass(frozen=True, slots=True)
class LabHalving:
    """All settings of a sweep in the order of the grid, without the bound."""

    lines: tuple[SweepLine, ...]
    rounds: tuple[int, ...]


def title(data: LabHalving) -> str:
    """Return how many settings were dropped."""
    if not data.rounds:
        return "No round has ended yet"
    dropped = sum(line.is_dropped for line in data.lines)
    count = formats.plural(len(data.lines), "setting")
    return f"{dropped} of {count} were dropped early"


def sub(data: LabHalving) -> str:
    """Return the measure."""
    return "points of mean performance behind the leader of each round; a cross marks a drop"


def table(data: LabHalving) -> Table:
    """Return one row for each setting, and one column for each round."""
    heads = (f"{formats.plural(seeds, 'seed')}" for seeds in data.rounds)
    return Table(("Setting", *heads, "Dropped"), tuple(_row(data, line) for line in data.lines))


def _row(data: LabHalving, line: SweepLine) -> tuple[str, ...]:
    values = dict(zip(line.seeds, line.behind, strict=True))
    cells = (f"{values[seeds]:.1f}" if seeds in values else "–" for seeds in data.rounds)
    return (line.setting, *cells, f"after {line.seeds[-1]}" if line.is_dropped else "no")


def figure(data: LabHalving) -> go.Figure:
    """Draw one line for each setting; the leader is at the top."""
    x_axis: dict[str, Any] = {"title": {"text": "seeds"}, "tickvals": list(data.rounds)}
    largest = max((gap for line in data.lines for gap in line.behind), default=0.0) or 1.0
    y_axis: dict[str, Any] = {"range": [1.06 * largest, -0.06 * largest]}
    if not data.rounds:
        sentence = "The first round appears when all settings have run with its seeds"
        return theme.empty(HEIGHT, sentence, x=x_axis, y=y_axis)
    chart = Chart(
        theme.layout(
            HEIGHT,
            margin={"l": 46, "r": 16, "t": 24, "b": 44},
            xaxis=x_axis,
            yaxis=y_axis,
            showlegend=False,
        )
    )
    chart.add_annotation(theme.axis_name("points behind the leader", xshift=-40))
    left = [line.setting for line in data.lines if not line.is_dropped]
    for line in data.lines:
        _add_line(chart, line, left)
    return chart.figure()


def _add_line(chart: Chart, line: SweepLine, left: list[str]) -> None:
    colour = theme.MUTED
    if not line.is_dropped:
        colour = theme.CATEGORICAL[left.index(line.setting) % len(theme.CATEGORICAL)]
    symbols = ["circle"] * len(line.seeds)
    if line.is_dropped:
        symbols[-1] = "x"
    chart.add_scatter(
        x=line.seeds,
        y=line.behind,
        mode="lines+markers",
        name=line.setting,
        line={"color": colour, "width": 1 if line.is_dropped else 2},
        marker={"color": colour, "size": 8, "symbol": symbols},
        hovertemplate=f"{line.setting}: %{{y:.1f}} points behind, %{{x}} seeds<extra></extra>",
    )
