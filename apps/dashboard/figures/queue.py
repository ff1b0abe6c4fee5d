"""Waiting jobs by reason.

A small line per reason, how many wait now, how long they have waited.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from apps.dashboard.core import words
from apps.dashboard.figures import theme
from apps.dashboard.figures.theme import Table

HEIGHT = 216
LINES_END, BARS_START = 0.60, 0.80


@dataclass(frozen=True, slots=True, eq=False)
class ReasonQueue:
    """Jobs waiting for one reason.

    Attributes
    ----------
    code : reason code
    name : reason in words, short
    waiting : (T,) jobs waiting at each time, NaN = not recorded
    now : jobs waiting now
    wait_p50_s, wait_p95_s : how long they have waited so far, cluster seconds; NaN = none waits
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
        """All waiting jobs."""
        return sum(reason.now for reason in self.reasons)


def title(data: QueueByReason) -> str:
    """How many wait, and for what mostly."""
    if not data.now:
        peak = max((_peak(reason) for reason in data.reasons), default=0.0)
        if not peak:
            return "Nothing waits"
        return f"Nothing waits; at most {words.thousands(peak)} did at once"
    most = max(data.reasons, key=lambda reason: reason.now)
    verb = "waits" if data.now == 1 else "wait"
    return (
        f"{words.plural(data.now, 'job')} {verb}, {words.thousands(most.now)} of them: {most.name}"
    )


def sub(data: QueueByReason) -> str:
    """Return what is measured."""
    return "Waiting jobs by reason; how long so far, p50–p95"


def table(data: QueueByReason) -> Table:
    """Return counts and waits by reason."""
    return Table(
        ("Reason", "Waiting", "Waited p50", "Waited p95"),
        tuple(
            (
                r.name,
                words.thousands(r.now),
                words.duration(r.wait_p50_s),
                words.duration(r.wait_p95_s),
            )
            for r in data.reasons
        ),
    )


def figure(data: QueueByReason) -> go.Figure:
    """Small multiples in one plot: lines at the left, counts, spans of waiting at the right."""
    if not data.reasons or not data.times_s.size:
        return theme.empty(
            HEIGHT,
            "No job waits",
            x={"range": [0, 1], "showticklabels": False},
            y={"range": [0, 4], "showticklabels": False},
        )
    first, last = float(data.times_s[0]), float(data.times_s[-1])
    longest = max((r.wait_p95_s for r in data.reasons if not np.isnan(r.wait_p95_s)), default=0.0)
    rows = max(len(data.reasons), 3)
    chart = go.Figure(layout=_layout(first, last, longest, rows))
    scale = max(1.0, *(_peak(reason) for reason in data.reasons))
    most = max(range(len(data.reasons)), key=lambda i: data.reasons[i].now)
    for i, reason in enumerate(data.reasons):
        _add_row(chart, data.times_s, reason, at=i, scale=scale, strong=i == most)
    _add_heads(chart, longest)
    return chart


def _layout(first: float, last: float, longest: float, rows: int) -> dict[str, Any]:
    """Return lines at the left over cluster time, spans at the right over time waited."""
    return theme.layout(
        HEIGHT,
        margin={"l": 4, "r": 8, "t": 20, "b": 22},
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


def _add_heads(chart: go.Figure, longest: float) -> None:
    """Name the columns and the end of the scale of waiting, where any waits."""
    heads = [("now", 0.72, "right")]
    if longest:
        heads.append(("waited", 1.0, "right"))
        chart.add_annotation(
            theme.note(
                words.duration(longest),
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
    chart: go.Figure,
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
                f"{words.duration(reason.wait_p50_s)} to {words.duration(reason.wait_p95_s)} "
                f"waited, p50 to p95<br>{reason.name}<extra></extra>"
            ),
        )


def _add_row_words(chart: go.Figure, reason: ReasonQueue, *, at: int, strong: bool) -> None:
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
            words.thousands(reason.now),
            xref="paper",
            x=0.72,
            xanchor="right",
            y=at + 0.66,
            yanchor="middle",
            font=weight,
        )
    )
