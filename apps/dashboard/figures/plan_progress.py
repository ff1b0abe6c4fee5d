"""The migrations of a plan over time, one row each."""

import math
from dataclasses import dataclass
from typing import Any, Final

import plotly.graph_objects as go

from apps.dashboard.core import formats
from apps.dashboard.core.migration_counts import MigrationCounts
from apps.dashboard.figures import theme
from apps.dashboard.figures.chart import Chart
from apps.dashboard.figures.theme import Table

HEIGHT: Final = 344
NAMED: Final = 24  # maximum number of rows with a name each
COLOURS: Final = {
    "done": theme.ACCENT,
    "moving": theme.faded(theme.ACCENT, 0.45),
    "failed": theme.MISSED,
    "cancelled": theme.RULE,
    "skipped": theme.RULE,
}
WORDS: Final = {
    "done": "done", "moving": "running", "failed": "failed", "cancelled": "cancelled",
    "skipped": "skipped", "waiting": "waiting",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class MigrationSpan:
    """One migration; times in cluster seconds, None before it began or ended.

    ``expected_s`` is the expected start and end of a waiting migration.
    """

    label: str
    route: str
    state: str
    began_s: float | None
    ended_s: float | None
    expected_s: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class PlanProgress:
    """The migrations of a plan in order; ``now_s`` is now, or the end of the plan.

    ``spans`` does not contain excluded migrations.
    """

    plan: str
    now_s: float
    is_over: bool
    spans: tuple[MigrationSpan, ...]
    counts: MigrationCounts


def title(data: PlanProgress) -> str:
    """Return the number of migrations done, and the states of the others."""
    done = f"{data.counts.done:,} of {formats.plural(data.counts.planned, 'migration')} done"
    return ", ".join(part for part in (done, data.counts.others) if part)


def sub(data: PlanProgress) -> str:
    """Return the measure, the plan and n."""
    began = sum(span.began_s is not None for span in data.spans)
    return (
        f"Cluster time from request to end of each migration of {data.plan}, n = {began:,} started"
    )


def table(data: PlanProgress) -> Table:
    """Return every migration in order."""
    return Table(
        ("No.", "Job", "Route", "State", "Started", "Duration"),
        tuple(
            (
                str(place + 1),
                span.label,
                span.route,
                WORDS.get(span.state, span.state),
                "–" if span.began_s is None else formats.cluster_day(span.began_s),
                formats.duration(_took(span)) if span.ended_s is not None else "–",
            )
            for place, span in enumerate(data.spans)
        ),
    )


def _took(span: MigrationSpan) -> float:
    if span.began_s is None or span.ended_s is None:
        return math.nan
    return span.ended_s - span.began_s


def figure(data: PlanProgress) -> go.Figure:
    """Draw a bar per migration, outlines of waiting ones, and a line at the current time."""
    begun = [(i, s) for i, s in enumerate(data.spans) if s.began_s is not None]
    rows = len(data.spans)
    names = [span.label for span in data.spans] if rows <= NAMED else []
    y_axis = {
        "autorange": False,
        "range": [rows - 0.4, -0.6],
        "showgrid": False,
        "zeroline": False,
        "tickvals": list(range(rows)) if names else [0, rows - 1],
        "ticktext": [_short(name) for name in names] or ["1", f"{rows:,}"],
        **theme.APART,
    }
    if not begun:
        blank = {"range": [0, 1], "showticklabels": False}
        return theme.empty(
            HEIGHT, "No migration has started yet", x=blank, y={**y_axis, "tickvals": []}
        )
    first = min(s.began_s for _, s in begun if s.began_s is not None)
    waits = [(i, *s.expected_s, s) for i, s in enumerate(data.spans) if s.expected_s is not None]
    last = max([data.now_s, first + 1.0, *(end for _, _, end, _ in waits)])
    chart = Chart(
        theme.layout(
            HEIGHT,
            margin={"l": 124 if names else 40, "r": 16, "t": 12, "b": theme.TIME_BOTTOM},
            xaxis=theme.time_axis(first, last, ticks=6),
            yaxis=y_axis,
            barmode="overlay",
            bargap=0.35,
            showlegend=False,
        )
    )
    for state, colour in COLOURS.items():
        bars = [(i, s) for i, s in begun if s.state == state]
        if bars:
            chart.add_bar(**_bar_trace(bars, state, colour, data.now_s))
    if waits and not data.is_over:
        chart.add_bar(**_outlines(waits))
    if not data.is_over:
        chart.add_shape(_now(data.now_s))
    return chart.figure()


def _bar_trace(
    bars: list[tuple[int, MigrationSpan]], state: str, colour: str, now_s: float
) -> dict[str, object]:
    ends = [now_s if s.ended_s is None else s.ended_s for _, s in bars]
    begins = [0.0 if s.began_s is None else s.began_s for _, s in bars]
    lengths = [max(end - begin, 0.2) for begin, end in zip(begins, ends, strict=True)]
    return {
        "orientation": "h",
        "y": [i for i, _ in bars],
        "base": begins,
        "x": lengths,
        "marker": {"color": colour, "line": {"width": 0}},
        "customdata": [
            [s.label, s.route, formats.duration(end - begin)]
            for (_, s), begin, end in zip(bars, begins, ends, strict=True)
        ],
        "hovertemplate": (
            f"<b>%{{customdata[2]}}</b> {WORDS[state]}<br>%{{customdata[0]}}<br>"
            "%{customdata[1]}<extra></extra>"
        ),
        "name": WORDS[state],
    }


def _outlines(waits: list[tuple[int, float, float, MigrationSpan]]) -> dict[str, object]:
    return {
        "orientation": "h",
        "y": [i for i, _, _, _ in waits],
        "base": [begin for _, begin, _, _ in waits],
        "x": [end - begin for _, begin, end, _ in waits],
        "marker": {"color": theme.CLEAR, "line": {"width": 1, "color": theme.MUTED}},
        "customdata": [[s.label, s.route, formats.duration(end - a)] for _, a, end, s in waits],
        "hovertemplate": (
            "<b>%{customdata[2]}</b> expected<br>%{customdata[0]}<br>"
            "%{customdata[1]}<extra></extra>"
        ),
        "name": WORDS["waiting"],
    }


def _short(name: str) -> str:
    return name if len(name) <= 17 else f"{name[:16]}…"


def _now(at_s: float) -> dict[str, Any]:
    """Return a vertical line over the whole plot."""
    return {
        "type": "line",
        "xref": "x",
        "x0": at_s,
        "x1": at_s,
        "yref": "y domain",
        "y0": 0,
        "y1": 1,
        "line": {"color": theme.TEXT_2, "width": 1, "dash": "dot"},
    }
