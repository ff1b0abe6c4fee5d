"""Error of inferred cells by revision, from cross-validation."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from apps.dashboard.core import formats
from apps.dashboard.figures import theme
from apps.dashboard.figures.chart import Chart
from apps.dashboard.figures.theme import Table

HEIGHT = 264
RIGHT = 92
EMPTY_TICKS = ["0", "10", "20", "30 %"]
LINES = ("p90", "average", "p50")
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class RevisionErrors:
    """Evaluations of one matrix, oldest first.

    Attributes
    ----------
    numbers : (k,) revisions
    average, p50, p90 : (k,) over applications, of the mean error of the hidden cells of each
    covered : (k,) share inside the 90 % intervals
    rows : (k,) number of applications evaluated
    is_points : errors are points of 100, not shares of the value
    entries : number of cells kept per row
    """

    numbers: NDArray[np.int64]
    average: Floats
    p50: Floats
    p90: Floats
    covered: Floats
    rows: NDArray[np.int64]
    is_points: bool
    entries: int

    def line(self, name: str) -> Floats:
        """Return one of the lines by its name."""
        return {"average": self.average, "p50": self.p50, "p90": self.p90}[name]


def title(data: RevisionErrors) -> str:
    """Return the p90 error of the newest and of the oldest evaluation."""
    if not data.numbers.size:
        return "Not evaluated yet"
    now = f"90 % of applications have a mean error below {_text(data, data.p90[-1])}"
    change = float(data.p90[-1] - data.p90[0])
    if data.numbers.size < 2 or abs(change) < 0.005:
        return now
    return f"{now}; revision {int(data.numbers[0])}: {_text(data, data.p90[0])}"


def sub(data: RevisionErrors) -> str:
    """Return the measure, its scope and n."""
    if not data.numbers.size:
        return (
            "Matrices with at least three columns and four rows are evaluated with each revision"
        )
    unit = "points of 100" if data.is_points else "relative error"
    return f"Mean error of hidden cells, {unit}; all but {data.entries} cells of a row hidden"


def table(data: RevisionErrors) -> Table:
    """Return every revision, newest first."""
    return Table(
        ("Revision", "Average", "p50", "p90", "90 % coverage", "Applications"),
        tuple(
            (
                str(int(data.numbers[i])),
                *(_text(data, data.line(name)[i]) for name in ("average", "p50", "p90")),
                formats.percent(float(data.covered[i])),
                str(int(data.rows[i])),
            )
            for i in reversed(range(data.numbers.size))
        ),
    )


def figure(data: RevisionErrors) -> go.Figure:
    """Draw one line each for average, p50 and p90."""
    if not data.numbers.size:
        return theme.empty(
            HEIGHT,
            "Not evaluated yet",
            x={"range": [0, 1], "showticklabels": False},
            y={"range": [0, 0.3], "tickvals": [0, 0.1, 0.2, 0.3], "ticktext": EMPTY_TICKS},
        )
    top = float(data.p90.max()) * 1.15
    chart = Chart(_layout(data, top))
    chart.add_annotation(theme.axis_name("error"))
    labels: list[tuple[str, float, str, bool]] = []
    for name in LINES:
        strong = name == "p90"
        colour = theme.ACCENT if strong else theme.MUTED
        values = data.line(name)
        chart.add_scatter(
            x=data.numbers,
            y=np.round(values, 5),
            mode="lines+markers",
            line={
                "color": colour,
                "width": 2 if strong else 1.5,
                "dash": "dot" if name == "p50" else "solid",
            },
            marker={"color": colour, "size": 6},
            customdata=[_text(data, value) for value in values],
            hovertemplate=f"<b>%{{customdata}}</b> {name}<br>revision %{{x}}<extra></extra>",
        )
        text = f"{name} {_text(data, values[-1])}"
        labels.append((text, float(values[-1]), theme.TEXT if strong else theme.TEXT_2, strong))
    for label in theme.end_labels(
        labels, x=float(data.numbers[-1]), pixels_per_unit=(HEIGHT - 58) / top
    ):
        chart.add_annotation(label)
    return chart.figure()


def _layout(data: RevisionErrors, top: float) -> dict[str, Any]:
    numbers = data.numbers.tolist()
    step = max(1, -(-len(numbers) // 8))
    shown = numbers[::-step][::-1]
    pad = 0.5 if len(numbers) == 1 else 0.02 * (numbers[-1] - numbers[0])
    ticks = _ticks(top)
    return theme.layout(
        HEIGHT,
        margin={"l": 40, "r": RIGHT, "t": 24, "b": 36},
        xaxis={
            "range": [numbers[0] - pad, numbers[-1] + pad],
            "tickvals": shown,
            "ticktext": [str(number) for number in shown],
            "title": {"text": "revision"},
            "fixedrange": True,
        },
        yaxis={
            "range": [0, top],
            "tickvals": ticks,
            "ticktext": [_tick(data, tick) for tick in ticks],
            "fixedrange": True,
        },
        hovermode="x",
    )


def _ticks(top: float) -> list[float]:
    """Return at most five round errors from 0."""
    widths = [m * 10.0**e for e in (-3, -2, -1, 0, 1) for m in (1, 2, 5)]
    width = next((width for width in widths if top / width <= 4), top)
    return [float(f"{i * width:.6g}") for i in range(int(top / width) + 1)]


def _tick(data: RevisionErrors, value: float) -> str:
    return formats.trimmed(100 * value) + ("" if data.is_points else " %")


def _text(data: RevisionErrors, value: float) -> str:
    if data.is_points:
        return f"{formats.significant(100 * float(value), 2)} points"
    return formats.percent(float(value))
