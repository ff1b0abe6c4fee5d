"""Waiting jobs by reason: their number over time, now, and the time waited."""

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
LINES_END, BARS_START = 0.60, 0.80


@dataclass(frozen=True, slots=True, eq=False)
class ReasonQueue:
    """Jobs waiting for one reason.

    Attributes
    ----------
    code : reason code
    name : short display text
    waiting : (T,) jobs waiting at each time, NaN = not recorded
    now : jobs waiting now
    wait_p50_s, wait_p95_s : time waited so far, cluster seconds; NaN = no waiting jobs
    """

    code: str
    name: str
    waiting: NDArray[np.float64]
    now: int
    wait_p50_s: float
    wait_p95_s: float


@dataclass(frozen=True, slots=True, eq=False)
class QueueByReason:
    """The queue over a range of cluster time.

    Attributes
    ----------
    times_s : (T,) cluster seconds, ascending
    reasons : longest first
    """

    times_s: NDArray[np.float64]
    reasons: tuple[ReasonQueue, ...]

    @property
    def now(self) -> int:
        """Number of waiting jobs."""
        return sum(reason.now for reason in self.reasons)


def title(data: QueueByReason) -> str:
    """Return the number of waiting jobs and their main reason."""
    if not data.now:
        peak = max((_peak(reason) for reason in data.reasons), default=0.0)
        if not peak:
            return "No jobs waiting"
        return f"No jobs waiting; up to {formats.thousands(peak)} in this range"
    main = max(data.reasons, key=lambda reason: reason.now)
    waiting = formats.plural(data.now, "job")
    if main.now == data.now:
        return f"{waiting} waiting, reason: {main.name}"
    return f"{waiting} waiting, {formats.thousands(main.now)} of them: {main.name}"


def sub(data: QueueByReason) -> str:
    """Return the measure, its scope and n."""
    return "By reason, with p50–p95 of the time waited"


def table(data: QueueByReason) -> Table:
    """Return counts and waiting times by reason."""
    return Table(
        ("Reason", "Jobs waiting", "Wait p50", "Wait p95"),
        tuple(
            (
                r.name,
                formats.thousands(r.now),
                formats.duration(r.wait_p50_s),
                formats.duration(r.wait_p95_s),
            )
            for r in data.reasons
        ),
    )


def figure(data: QueueByReason) -> go.Figure:
    """Draw a line, the count and the range of waiting times for each reason."""
    if not data.reasons or not data.times_s.size:
        return theme.empty(
            HEIGHT,
            "No jobs waiting",
            x={"range": [0, 1], "showticklabels": False},
            y={"range": [0, 4], "showticklabels": False},
        )
    first, last = float(data.times_s[0]), float(data.times_s[-1])
    longest = max((r.wait_p95_s for r in data.reasons if not np.isnan(r.wait_p95_s)), default=0.0)
    rows = max(len(data.reasons), 3)
    chart = Chart(_layout(first, last, longest, rows))
    scale = max(1.0, *(_peak(reason) for reason in data.reasons))
    main = max(range(len(data.reasons)), key=lambda i: data.reasons[i].now)
    for i, reason in enumerate(data.reasons):
        _add_row(chart, data.times_s, reason, at=i, scale=scale, strong=i == main)
    _add_heads(chart, longest)
    return chart.figure()


def _layout(first: float, last: float, longest: float, rows: int) -> dict[str, Any]:
    """Return a layout with lines at the left and waiting times at the right."""
    return theme.layout(
        HEIGHT,
        margin={"l": 4, "r": 8, "t": 20, "b": theme.TIME_BOTTOM},
        xaxis={
            **theme.time_axis(first, last, ticks=3),
            "domain": [0, LINES_END],
            "showspikes": False,
            "fixedrange": True,
        },
        xaxis2={
            "domain": [BARS_START, 1],
            "range": [0, max(longest, 1.0) * 1.05],
            "showticklabels": False,
            "ticks": "",
            "anchor": "y",
            "fixedrange": True,
        },
        yaxis={"range": [rows, 0], "visible": False, "fixedrange": True},
        barmode="overlay",
    )


def _add_heads(chart: Chart, longest: float) -> None:
    """Label the columns and the end of the waiting time scale."""
    heads = [("now", 0.72, "right")]
    if longest:
        heads.append(("waited", 1.0, "right"))
        chart.add_annotation(
            theme.note(
                formats.duration(longest),
                xref="paper",
                x=1,
                xanchor="right",
                yref="paper",
                y=0,
                yanchor="top",
                yshift=-5,
            )
        )
    for text, x, anchor in heads:
        chart.add_annotation(
            theme.note(
                text,
                xref="paper",
                x=x,
                xanchor=anchor,
                yref="paper",
                y=1,
                yanchor="bottom",
                font={"color": theme.MUTED},
            )
        )


def _peak(reason: ReasonQueue) -> float:
    known = reason.waiting[~np.isnan(reason.waiting)]
    return float(known.max()) if known.size else 0.0


def _add_row(
    chart: Chart,
    times_s: NDArray[np.float64],
    reason: ReasonQueue,
    *,
    at: int,
    scale: float,
    strong: bool,
) -> None:
    base = at + 0.86
    colour = theme.ACCENT if strong else theme.MUTED
    chart.add_scatter(
        x=times_s,
        y=np.full(times_s.size, base),
        mode="lines",
        line={"width": 1, "color": "var(--chart-grid)"},
        hoverinfo="skip",
    )
    chart.add_scatter(
        x=times_s,
        y=np.round(base - 0.42 * reason.waiting / scale, 4),
        mode="lines",
        line={"color": colour, "width": 1.5},
        fill="tonexty",
        fillcolor=theme.faded(colour),
        customdata=reason.waiting,
        hovertemplate=f"%{{customdata:.0f}} waiting<br>{reason.name}<extra></extra>",
    )
    _add_row_words(chart, reason, at=at, strong=strong)
    if not np.isnan(reason.wait_p50_s):
        chart.add_scatter(
            x=[reason.wait_p50_s, reason.wait_p95_s],
            y=[at + 0.66, at + 0.66],
            xaxis="x2",
            mode="lines",
            line={"color": colour if strong else theme.RULE, "width": 5},
            hovertemplate=(
                f"{formats.duration(reason.wait_p50_s)} to {formats.duration(reason.wait_p95_s)} "
                f"waited, p50 to p95<br>{reason.name}<extra></extra>"
            ),
        )


def _add_row_words(chart: Chart, reason: ReasonQueue, *, at: int, strong: bool) -> None:
    weight = {"weight": 600, "color": theme.TEXT} if strong else {}
    chart.add_annotation(
        theme.note(
            reason.name,
            xref="paper",
            x=0,
            xanchor="left",
            y=at + 0.16,
            yanchor="middle",
            font=weight,
        )
    )
    chart.add_annotation(
        theme.note(
            formats.thousands(reason.now),
            xref="paper",
            x=0.72,
            xanchor="right",
            y=at + 0.66,
            yanchor="middle",
            font=weight,
        )
    )
