"""The moves of a plan over time, one row each."""

import math
from dataclasses import dataclass
from typing import Final

import plotly.graph_objects as go

from apps.dashboard.core import words
from apps.dashboard.core.move_tally import Tally
from apps.dashboard.figures import theme
from apps.dashboard.figures.theme import Table

HEIGHT: Final = 344
NAMED: Final = 24  # rows up to which each has its name
COLOURS: Final = {
    "done": theme.ACCENT,
    "moving": theme.faded(theme.ACCENT, 0.45),
    "failed": theme.MISSED,
    "cancelled": theme.RULE,
    "passed over": theme.RULE,
}
WORDS: Final = {
    "done": "done", "moving": "under way", "failed": "failed", "cancelled": "cancelled",
    "passed over": "passed over", "waiting": "waiting",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Span:
    """One move; times in cluster seconds, None where it has not begun or ended.

    ``expected_s`` from when to when it should go on, of one that waits.
    """

    label: str
    way: str
    state: str
    began_s: float | None
    ended_s: float | None
    expected_s: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class PlanProgress:
    """The moves of a plan in their order; ``now_s`` now, or when it was over.

    ``spans`` of the moves that were to be made: those left out before it began have none.
    """

    plan: str
    now_s: float
    is_over: bool
    spans: tuple[Span, ...]
    tally: Tally


def title(data: PlanProgress) -> str:
    """Return how many of the moves to be made are done, and what became of the others."""
    done = f"{data.tally.done:,} of {words.plural(data.tally.asked, 'move')} done"
    return ", ".join(said for said in (done, data.tally.others) if said)


def sub(data: PlanProgress) -> str:
    """Return what is drawn."""
    began = sum(span.began_s is not None for span in data.spans)
    return f"Cluster time from request to end of each move of {data.plan}, n = {began:,} begun"


def table(data: PlanProgress) -> Table:
    """Every move in order."""
    return Table(
        ("Move", "Job", "Way", "State", "Began", "Took"),
        tuple(
            (
                str(place + 1),
                span.label,
                span.way,
                WORDS.get(span.state, span.state),
                "–" if span.began_s is None else words.cluster_day(span.began_s),
                words.duration(_took(span)) if span.ended_s is not None else "–",
            )
            for place, span in enumerate(data.spans)
        ),
    )


def _took(span: Span) -> float:
    if span.began_s is None or span.ended_s is None:
        return math.nan
    return span.ended_s - span.began_s


def figure(data: PlanProgress) -> go.Figure:
    """Return a bar from begin to end of each move, outlines of what waits, a line at now."""
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
        return theme.empty(HEIGHT, "No move has begun", x=blank, y={**y_axis, "tickvals": []})
    first = min(s.began_s for _, s in begun if s.began_s is not None)
    waits = [(i, *s.expected_s, s) for i, s in enumerate(data.spans) if s.expected_s is not None]
    last = max([data.now_s, first + 1.0, *(end for _, _, end, _ in waits)])
    chart = go.Figure(
        layout=theme.layout(
            HEIGHT,
            margin={"l": 124 if names else 40, "r": 16, "t": 12, "b": 32},
            xaxis=theme.time_axis(first, last, ticks=6),
            yaxis=y_axis,
            barmode="overlay",
            bargap=0.35,
            showlegend=False,
        )
    )
    for state, colour in COLOURS.items():
        mine = [(i, s) for i, s in begun if s.state == state]
        if mine:
            chart.add_bar(**_bars(mine, state, colour, data.now_s))
    if waits and not data.is_over:
        chart.add_bar(**_outlines(waits))
    if not data.is_over:
        chart.add_vline(x=data.now_s, line={"color": theme.TEXT_2, "width": 1, "dash": "dot"})
    return chart


def _bars(
    mine: list[tuple[int, Span]], state: str, colour: str, now_s: float
) -> dict[str, object]:
    ends = [now_s if s.ended_s is None else s.ended_s for _, s in mine]
    begins = [0.0 if s.began_s is None else s.began_s for _, s in mine]
    lengths = [max(end - begin, 0.2) for begin, end in zip(begins, ends, strict=True)]
    return {
        "orientation": "h",
        "y": [i for i, _ in mine],
        "base": begins,
        "x": lengths,
        "marker": {"color": colour, "line": {"width": 0}},
        "customdata": [
            [s.label, s.way, words.duration(end - begin)]
            for (_, s), begin, end in zip(mine, begins, ends, strict=True)
        ],
        "hovertemplate": (
            f"<b>%{{customdata[2]}}</b> {WORDS[state]}<br>%{{customdata[0]}}<br>"
            "%{customdata[1]}<extra></extra>"
        ),
        "name": WORDS[state],
    }


def _outlines(waits: list[tuple[int, float, float, Span]]) -> dict[str, object]:
    return {
        "orientation": "h",
        "y": [i for i, _, _, _ in waits],
        "base": [begin for _, begin, _, _ in waits],
        "x": [end - begin for _, begin, end, _ in waits],
        "marker": {"color": theme.CLEAR, "line": {"width": 1, "color": theme.MUTED}},
        "customdata": [[s.label, s.way, words.duration(end - a)] for _, a, end, s in waits],
        "hovertemplate": (
            "<b>%{customdata[2]}</b> expected<br>%{customdata[0]}<br>"
            "%{customdata[1]}<extra></extra>"
        ),
        "name": WORDS["waiting"],
    }


def _short(name: str) -> str:
    return name if len(name) <= 17 else f"{name[:16]}…"
