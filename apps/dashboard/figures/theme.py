"""Colours, axes and labels shared by all figures.

Colours are tokens, ``var(--cat-1)`` or with an opacity ``var(--cat-1/0.14)``. The page replaces
them by the values of its theme, so one figure serves light and dark. Fonts, margins, grid and
hover labels are in ``static/berth/theme.json``, which the page uses as the figure's template.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import plotly.graph_objects as go

ACCENT: Final = "var(--cat-1)"
CATEGORICAL: Final = tuple(f"var(--cat-{i})" for i in range(1, 9))
SEQUENTIAL: Final = tuple((i / 8, f"var(--seq-{i})") for i in range(9))
TEXT: Final = "var(--text)"
TEXT_2: Final = "var(--text-2)"
MUTED: Final = "var(--text-3)"
GROUND: Final = "var(--bg)"
TRACK: Final = "var(--bg-hover)"
RULE: Final = "var(--rule-strong)"
MET: Final = "var(--div-7)"
MISSED: Final = "var(--div-1)"
CLEAR: Final = "rgba(0,0,0,0)"
# tick labels with a gap to the axis
APART: Final = {"ticks": "outside", "ticklen": 6, "tickcolor": CLEAR}
TIME_BOTTOM: Final = 44  # px below a time axis: its labels and its title
BAND_OPACITY: Final = "band"  # set by the page: 0.14 in light, 0.20 in dark


@dataclass(frozen=True, slots=True)
class Table:
    """The data of a figure as a table; the first column is a name."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def faded(token: str, opacity: float | str = BAND_OPACITY) -> str:
    """Return the same colour with an opacity."""
    return f"{token[:-1]}/{opacity})"


def layout(height: int, **changes: Any) -> dict[str, Any]:
    """Return the layout of a figure of a height in pixels; the template sets the rest.

    Margins that are too small for the labels are widened by plotly.js, which then plots twice.
    """
    return {
        "height": height,
        "uirevision": "keep",
        "margin": {"l": 40, "r": 12, "t": 20, "b": 34},
        "template": "none",
        **changes,
    }


def percent_axis(top: float = 1.0) -> dict[str, Any]:
    """Return an axis of shares with ticks at quarters; the last one has the unit."""
    return {
        "range": [0, top],
        "tickvals": [0, 0.25, 0.5, 0.75, 1],
        "ticktext": ["0", "25", "50", "75", "100 %"],
        "fixedrange": True,
    }


def side_label(text: str, *, y: float, colour: str = TEXT_2) -> dict[str, Any]:
    """Return a label right of the plot; ``y`` is a share of its height."""
    return note(
        text,
        xref="paper",
        x=1,
        xanchor="left",
        xshift=5,
        yref="paper",
        y=y,
        yanchor="middle",
        font={"color": colour},
    )


def level(y: float, *, colour: str = TEXT_2, dash: str = "dot") -> dict[str, Any]:
    """Return a horizontal reference line over the whole plot."""
    return {
        "type": "line",
        "xref": "paper",
        "x0": 0,
        "x1": 1,
        "y0": y,
        "y1": y,
        "line": {"color": colour, "width": 1, "dash": dash},
    }


def note(text: str, **where: Any) -> dict[str, Any]:
    """Return a text annotation without an arrow."""
    return {"text": text, "showarrow": False, **where}


def axis_name(text: str, **where: Any) -> dict[str, Any]:
    """Return the name of the y axis: horizontal, above its upper end."""
    return note(
        text,
        xref="paper",
        x=0,
        yref="paper",
        y=1,
        yanchor="bottom",
        yshift=7,
        xanchor="left",
        xshift=where.pop("xshift", -36),
        font={"color": MUTED},
        **where,
    )


def end_labels(
    labels: Sequence[tuple[str, float, str, bool]],
    *,
    x: float,
    pixels_per_unit: float,
    gap: int = 13,
) -> list[dict[str, Any]]:
    """Return labels at the right end of lines, moved apart if they would overlap.

    Parameters
    ----------
    labels : (text, y of the last point, colour, is strong), in any order
    x : right end of the lines
    pixels_per_unit : pixels per unit of y, to detect overlaps
    gap : minimum distance of two labels in pixels
    """
    placed: list[dict[str, Any]] = []
    lowest = float("-inf")
    for text, y, colour, strong in sorted(labels, key=lambda label: label[1]):
        position = y * pixels_per_unit
        shown = max(position, lowest + gap)
        lowest = shown
        placed.append(
            note(
                text,
                x=x,
                y=y,
                xanchor="left",
                yanchor="middle",
                xshift=5,
                yshift=round(shown - position),
                font={"color": colour, "weight": 600 if strong else 400},
            )
        )
    return placed


def empty(height: int, sentence: str, *, x: dict[str, Any], y: dict[str, Any]) -> go.Figure:
    """Return empty axes with a sentence, for figures without data."""
    return go.Figure(
        layout=layout(
            height,
            xaxis=x,
            yaxis=y,
            annotations=[
                note(
                    sentence,
                    xref="paper",
                    yref="paper",
                    x=0.5,
                    y=0.5,
                    xanchor="center",
                    font={"color": TEXT_2, "size": 12},
                )
            ],
        )
    )


def time_axis(first_s: float, last_s: float, *, ticks: int = 5) -> dict[str, Any]:
    """Return an axis in cluster seconds with round ticks, which its title calls cluster time.

    The figure needs a bottom margin of `TIME_BOTTOM`.
    """
    step = _step((last_s - first_s) / max(1, ticks))
    start = -(-first_s // step) * step
    values = []
    while start <= last_s:
        values.append(start)
        start += step
    return {
        "range": [first_s, max(last_s, first_s + 1)],
        "tickvals": values,
        "ticktext": [_clock(value, step) for value in values],
        "title": {"text": _days(first_s, last_s), "standoff": 3},
        "fixedrange": False,
    }


def _days(first_s: float, last_s: float) -> str:
    first, last = (int(max(0.0, at_s)) // 86400 + 1 for at_s in (first_s, last_s))
    return f"cluster time, day {first}" + (f" to day {last}" if last > first else "")


def _step(min_s: float) -> float:
    for step in (
        1,
        5,
        10,
        30,
        60,
        120,
        300,
        600,
        900,
        1800,
        3600,
        7200,
        10800,
        14400,
        21600,
        43200,
    ):
        if step >= min_s:
            return float(step)
    return 86400.0 * max(1, round(min_s / 86400))


def _clock(cluster_s: float, step: float) -> str:
    rest = int(cluster_s) % 86400
    if step >= 86400:
        return f"day {int(cluster_s) // 86400 + 1}"
    text = f"{rest // 3600:02d}:{rest % 3600 // 60:02d}"
    return text if step >= 60 else f"{text}:{rest % 60:02d}"
