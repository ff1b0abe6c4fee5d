"""Paired differences to the baseline of a comparison, with corrected intervals."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import plotly.graph_objects as go

from apps.dashboard.core import formats
from apps.dashboard.figures import theme
from apps.dashboard.figures.chart import Chart
from apps.dashboard.figures.theme import Table

HEIGHT: Final = 344
LONGEST: Final = 110.0  # ends of a difference of shares are at most 100 points away
WORDS: Final = {"better": "better", "worse": "worse", "unclear": "within noise"}


@dataclass(frozen=True, slots=True)
class DifferenceRow:
    """One difference in points, or in per cent of the baseline: estimate, low, high."""

    setting: str
    measure: str
    unit: str
    is_higher_better: bool
    interval: tuple[float, ...]
    outcome: str

    @property
    def gain(self) -> tuple[float, float, float]:
        """Estimate, low and high of the gain: above 0 is better."""
        estimate, low, high = self.interval
        return (estimate, low, high) if self.is_higher_better else (-estimate, -high, -low)


@dataclass(frozen=True, slots=True)
class LabDifferences:
    """Differences to a baseline that have an interval in points or per cent.

    Attributes
    ----------
    clear, total : of all differences, those without such an interval included
    is_open : the last run has not ended
    """

    baseline: str
    rows: tuple[DifferenceRow, ...]
    seeds: int
    is_open: bool
    clear: int = 0
    total: int = 0


def title(data: LabDifferences) -> str:
    """Return the number of differences that are clear of zero."""
    if not data.rows:
        return "No differences yet" if data.is_open else "No differences with intervals"
    count = formats.plural(data.total, "difference")
    return f"{data.clear} of {count} to {data.baseline} are clear of zero"


def sub(data: LabDifferences) -> str:
    """Return the unit and n."""
    if data.seeds < 2:
        return "one seed has no intervals; two or more have"
    parts = [f"paired by seed, n = {data.seeds}", "90 % intervals that hold together"]
    if hidden := data.total - len(data.rows):
        parts.append(f"{hidden} without a per cent not shown")
    if _limit(data.rows) is not None:
        parts.append("the longest are cut at the edge")
    return "; ".join([*parts, "right is better"])


def _limit(rows: Sequence[DifferenceRow]) -> float | None:
    """Return half the width of an axis that cuts very long intervals; None if none is cut."""
    limit = max(LONGEST, 1.2 * max((abs(row.interval[0]) for row in rows), default=0.0))
    ends = (abs(end) for row in rows for end in row.interval)
    return limit if max(ends, default=0.0) > limit else None


def table(data: LabDifferences) -> Table:
    """Return one row for each difference, with its sign as measured."""
    return Table(
        ("Setting and measure", "Difference", "Interval", "Outcome"),
        tuple(
            (
                f"{row.setting}: {row.measure}",
                f"{formats.signed(row.interval[0], 1)} {row.unit}",
                f"[{formats.signed(row.interval[1], 1)}, {formats.signed(row.interval[2], 1)}]",
                WORDS[row.outcome],
            )
            for row in data.rows
        ),
    )


def figure(data: LabDifferences) -> go.Figure:
    """Draw a point with an interval for each difference; hollow within noise."""
    names = list(dict.fromkeys(row.measure for row in data.rows))
    x_axis: dict[str, Any] = {
        "title": {"text": "gain, points or % of the baseline"},
        "zeroline": True,
    }
    if (limit := _limit(data.rows)) is not None:
        x_axis["range"] = [-limit, limit]
    y_axis = {
        "tickvals": list(range(len(names))),
        "ticktext": names,
        "range": [max(len(names), 1) - 0.5, -0.5],
        "fixedrange": True,
    }
    if not data.rows:
        sentence = (
            "The differences appear with the last run"
            if data.is_open
            else "Compare two or more settings with two or more seeds"
        )
        return theme.empty(HEIGHT, sentence, x=x_axis, y=y_axis)
    chart = Chart(
        theme.layout(
            HEIGHT,
            margin={"l": 124, "r": 12, "t": 12, "b": 72},
            xaxis=x_axis,
            yaxis=y_axis,
            showlegend=True,
            legend={"orientation": "h", "y": -0.2, "yanchor": "top", "x": 0},
        )
    )
    settings = list(dict.fromkeys(row.setting for row in data.rows))
    for number, setting in enumerate(settings):
        _add_setting(chart, data, names, setting, number, len(settings))
    return chart.figure()


def _add_setting(
    chart: Chart,
    data: LabDifferences,
    names: list[str],
    setting: str,
    number: int,
    settings: int,
) -> None:
    rows = [row for row in data.rows if row.setting == setting]
    colour = theme.CATEGORICAL[number % len(theme.CATEGORICAL)]
    offset = 0.6 * ((number + 0.5) / settings - 0.5)
    gains = [row.gain for row in rows]
    chart.add_scatter(
        x=[gain[0] for gain in gains],
        y=[names.index(row.measure) + offset for row in rows],
        mode="markers",
        name=setting,
        marker={
            "color": [theme.GROUND if row.outcome == "unclear" else colour for row in rows],
            "size": 8,
            "line": {"color": colour, "width": 2},
        },
        error_x={
            "type": "data",
            "symmetric": False,
            "array": [gain[2] - gain[0] for gain in gains],
            "arrayminus": [gain[0] - gain[1] for gain in gains],
            "color": colour,
            "thickness": 1.5,
            "width": 0,
        },
        hovertemplate=f"{setting}: %{{x:.1f}}<extra></extra>",
    )
