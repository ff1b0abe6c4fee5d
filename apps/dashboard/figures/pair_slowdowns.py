"""Predicted and measured slowdowns of one pair, with the rounds."""

from dataclasses import dataclass
from typing import Any, Final

import plotly.graph_objects as go

from apps.classification.core.estimates import Estimate
from apps.dashboard.core.pair_text import SideFacts, interval, number
from apps.dashboard.figures import theme
from apps.dashboard.figures.chart import Chart
from apps.dashboard.figures.theme import Table

HEIGHT: Final = 264
LINEAR: Final = 4.0  # slowdown up to which the axis is linear
LOG_TICKS: Final = (0.5, 1, 1.5, 2, 3, 5, 10, 20, 50, 100)
LABELS: Final = ("predicted", "measured")


@dataclass(frozen=True, slots=True)
class PairSlowdowns:
    """One pair.

    Attributes
    ----------
    rounds : slowdown of each application in each round
    is_open : it waits or is being measured
    """

    sides: tuple[SideFacts, SideFacts]
    rounds: tuple[tuple[float, ...], ...]
    is_open: bool


def title(data: PairSlowdowns) -> str:
    """Return the verdicts."""
    if not data.rounds[0]:
        return "Not measured yet" if data.is_open else "Not measured"
    return "; ".join(f"{side.application}: {side.verdict}" for side in data.sides)


def sub(data: PairSlowdowns) -> str:
    """Return the measure and n."""
    rounds = f"; points: {len(data.rounds[0])} rounds" if data.rounds[0] else ""
    return f"Time next to the other over time alone, 90 % intervals{rounds}"


def table(data: PairSlowdowns) -> Table:
    """Return the four numbers."""
    return Table(
        ("Application", "Predicted", "90 % interval", "Measured", "90 % interval", "Prediction"),
        tuple(
            (
                side.application,
                *(number(side.predicted), interval(side.predicted)),
                *(number(side.measured), interval(side.measured)),
                side.verdict,
            )
            for side in data.sides
        ),
    )


def figure(data: PairSlowdowns) -> go.Figure:
    """Draw two lines for each application: its predicted and its measured interval."""
    rows = [
        (f"{side.application}, {label}", estimate, label)
        for side in data.sides
        for label, estimate in zip(LABELS, (side.predicted, side.measured), strict=True)
    ]
    x_axis: dict[str, Any] = {"title": {"text": "slowdown, 1 = as alone"}, "zeroline": False}
    if any(estimate is not None and estimate.high > LINEAR for _, estimate, _ in rows):
        x_axis |= {
            "type": "log",
            "title": {"text": "slowdown, 1 = as alone (log)"},
            "tickvals": LOG_TICKS,
            "ticktext": [f"{tick:g}" for tick in LOG_TICKS],
        }
    y_axis = {
        "tickvals": list(range(len(rows))),
        "ticktext": [name for name, _, _ in rows],
        "range": [len(rows) - 0.5, -0.5],
        "fixedrange": True,
    }
    if all(estimate is None for _, estimate, _ in rows):
        sentence = "The first numbers appear with the last round"
        empty_axis = {**x_axis, "range": [0.9, 1.5]}
        return theme.empty(HEIGHT, sentence, x=empty_axis, y={**y_axis, "showticklabels": False})
    chart = Chart(
        theme.layout(
            HEIGHT,
            margin={"l": 150, "r": 16, "t": 12, "b": 40},
            xaxis=x_axis,
            yaxis=y_axis,
            hovermode="closest",
        )
    )
    chart.add_shape(
        type="line", x0=1, x1=1, yref="paper", y0=0, y1=1,
        line={"color": theme.TEXT_2, "width": 1, "dash": "dot"},
    )  # fmt: skip
    for side, ratios in enumerate(data.rounds):
        _add_rounds(chart, ratios, 2 * side + 1)
    for place, (_, estimate, label) in enumerate(rows):
        if estimate is not None:
            _add_estimate(chart, estimate, place, is_predicted=label == LABELS[0])
    return chart.figure()


def _add_rounds(chart: Chart, ratios: tuple[float, ...], place: int) -> None:
    chart.add_scatter(
        x=list(ratios),
        y=[place + 0.25] * len(ratios),
        mode="markers",
        marker={"color": theme.MUTED, "size": 5, "opacity": 0.6},
        hovertemplate="one round: %{x:.3f}<extra></extra>",
    )


def _add_estimate(chart: Chart, estimate: Estimate, place: int, *, is_predicted: bool) -> None:
    colour = theme.CATEGORICAL[1 if is_predicted else 0]
    chart.add_scatter(
        x=[estimate.value],
        y=[place],
        mode="markers",
        marker={
            "color": theme.GROUND if is_predicted else colour,
            "size": 9,
            "line": {"color": colour, "width": 2},
        },
        error_x={
            "type": "data",
            "symmetric": False,
            "array": [estimate.high - estimate.value],
            "arrayminus": [estimate.value - estimate.low],
            "color": colour,
            "thickness": 2,
            "width": 0,
        },
        hovertemplate=f"%{{x:.3f}} {interval(estimate)}<extra></extra>",
    )
