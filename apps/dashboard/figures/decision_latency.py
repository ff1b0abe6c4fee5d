"""Decision time and commit conflicts over time."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from apps.dashboard.core import formats
from apps.dashboard.figures import theme
from apps.dashboard.figures.chart import Chart
from apps.dashboard.figures.theme import Table

HEIGHT = 216
RIGHT = 74
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class DecisionLatency:
    """Decision times by interval.

    Attributes
    ----------
    times_s : (T,) cluster seconds, the start of each interval
    p50_s, p95_s, p99_s : (T,) wall seconds in the agent; NaN = no decision
    conflicts : (T,) commits lost to another agent
    counts : (T,) decisions
    now_p50_s, now_p95_s, now_p99_s, now_p999_s : over the whole range; NaN = none
    agents : agents that decided in the range
    """

    times_s: Floats
    p50_s: Floats
    p95_s: Floats
    p99_s: Floats
    conflicts: Floats
    counts: Floats
    now_p50_s: float
    now_p95_s: float
    now_p99_s: float
    agents: int
    now_p999_s: float = float("nan")

    @property
    def decisions(self) -> int:
        """Decisions in the range."""
        return int(self.counts.sum())


def title(data: DecisionLatency) -> str:
    """Return p99 and the number of conflicts."""
    if not data.decisions:
        return "No decisions in this range"
    lost = int(data.conflicts.sum())
    conflicts = "no commit conflict" if not lost else formats.plural(lost, "commit conflict")
    return f"99 % of decisions within {formats.duration(data.now_p99_s)}; {conflicts}"


def sub(data: DecisionLatency) -> str:
    """Return the measure, its scope and n."""
    return (
        f"Decision time in the agent, {formats.plural(data.agents, 'agent')}, "
        f"n = {formats.thousands(data.decisions)}"
        + ("" if np.isnan(data.now_p999_s) else f"; p99.9 {formats.duration(data.now_p999_s)}")
    )


def table(data: DecisionLatency) -> Table:
    """Return percentiles over the range and in the worst interval."""
    rows = (
        ("p50", data.now_p50_s, data.p50_s),
        ("p95", data.now_p95_s, data.p95_s),
        ("p99", data.now_p99_s, data.p99_s),
        ("p99.9", data.now_p999_s, np.zeros(0)),
    )
    return Table(
        ("Percentile", "Whole range", "Worst interval"),
        tuple(
            (name, formats.duration(whole), formats.duration(_highest(series)))
            for name, whole, series in rows
        ),
    )


def figure(data: DecisionLatency) -> go.Figure:
    """Draw three lines on a logarithmic axis, and conflicts as bars below."""
    if not data.decisions:
        return theme.empty(
            HEIGHT,
            "No decisions yet",
            x={"range": [0, 1], "showticklabels": False},
            y={"range": [0, 3], "type": "linear", "showticklabels": False},
        )
    known = np.concatenate([data.p50_s, data.p95_s, data.p99_s])
    known = known[~np.isnan(known)] * 1000
    low, high = np.log10(max(known.min(), 1e-4)) - 0.1, np.log10(known.max()) + 0.15
    last = float(data.times_s[-1])
    chart = Chart(_layout(data, low, high))
    chart.add_annotation(theme.axis_name("ms (log)"))
    _add_percentiles(chart, data, last, pixels=(HEIGHT - 42) * 0.73 / (high - low))
    chart.add_bar(
        x=data.times_s,
        y=data.conflicts,
        yaxis="y2",
        marker={"color": theme.MUTED},
        hovertemplate="%{y} conflicts<extra></extra>",
    )
    chart.add_annotation(theme.side_label("conflicts", y=0.13, colour=theme.MUTED))
    chart.add_annotation(theme.side_label(formats.thousands(data.conflicts.sum()), y=0.03))
    return chart.figure()


def _layout(data: DecisionLatency, low: float, high: float) -> dict[str, Any]:
    """Return two plots on one time axis; ``low`` and ``high`` are powers of ten."""
    ticks = [t for t in _log_ticks() if 10**low <= t <= 10**high]
    return theme.layout(
        HEIGHT,
        margin={"l": 40, "r": RIGHT, "t": 20, "b": theme.TIME_BOTTOM},
        xaxis={
            **theme.time_axis(float(data.times_s[0]), float(data.times_s[-1]), ticks=4),
            "anchor": "y2",
        },
        yaxis={
            "domain": [0.27, 1],
            "type": "log",
            "range": [low, high],
            "tickvals": ticks,
            "ticktext": [f"{t:g}" for t in ticks],
            "fixedrange": True,
        },
        yaxis2={
            "domain": [0, 0.18],
            "range": [0, max(1.0, float(data.conflicts.max()))],
            "showticklabels": False,
            "showgrid": False,
            "fixedrange": True,
        },
        hovermode="x",
    )


def _add_percentiles(chart: Chart, data: DecisionLatency, last: float, *, pixels: float) -> None:
    labels = []
    for name, series, opacity in (
        ("p50", data.p50_s, 0.45),
        ("p95", data.p95_s, 0.7),
        ("p99", data.p99_s, 1.0),
    ):
        strong = name == "p99"
        chart.add_scatter(
            x=data.times_s,
            y=np.round(series * 1000, 5),
            mode="lines",
            connectgaps=False,
            opacity=opacity,
            line={"color": theme.ACCENT, "width": 2 if strong else 1.5},
            hovertemplate=f"%{{y:.3g}} ms, {name}<extra></extra>",
        )
        final = series[~np.isnan(series)][-1]
        text = f"{name} {formats.significant(final * 1000)}"
        labels.append(
            (text, float(np.log10(final * 1000)), theme.TEXT if strong else theme.TEXT_2, strong)
        )
    for label in theme.end_labels(labels, x=last, pixels_per_unit=pixels):
        chart.add_annotation(label)


def _log_ticks() -> list[float]:
    return [m * 10.0**e for e in range(-4, 5) for m in (1, 2, 5)]


def _highest(series: Floats) -> float:
    known = series[~np.isnan(series)]
    return float(known.max()) if known.size else float("nan")
