"""Parts shared by heatmaps: runs of cells, hatching and the colour key."""

from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from apps.dashboard.figures import theme
from apps.dashboard.figures.chart import Chart

STEP_WIDTH: Final = 8  # pixels of one colour of the key, and its height
BELOW: Final = 9  # pixels from the top of the key to the top of its labels

Box = tuple[float, float, float, float]  # from x, to x, from y, to y


def runs_of(mask: NDArray[np.bool_]) -> list[tuple[int, int, int]]:
    """Return the runs of True along the rows: (row, first column, column after the last)."""
    runs = []
    for i, row in enumerate(mask):
        edges = np.flatnonzero(np.diff(np.concatenate(([False], row, [False]))))
        runs += [(i, int(start), int(end)) for start, end in edges.reshape(-1, 2)]
    return runs


def add_hatch(chart: Chart, boxes: Iterable[Box], pattern: dict[str, Any], **trace: Any) -> None:
    """Draw hatched boxes as one trace; nothing if there are no boxes."""
    xs: list[float | None] = []
    ys: list[float | None] = []
    for x0, x1, y0, y1 in boxes:
        xs += [x0, x1, x1, x0, x0, None]
        ys += [y0, y0, y1, y1, y0, None]
    if xs:
        fill = {"shape": "/", "size": 5, **pattern}
        chart.add_scatter(x=xs, y=ys, fill="toself", mode="none", fillpattern=fill, **trace)


def add_key(
    chart: Chart, ends: Sequence[str], *, side: Literal[0, 1], left: int, top: int
) -> None:
    """Draw nine steps of the colour scale, with labels at both ends.

    Parameters
    ----------
    side : 0 = position relative to the upper left corner of the plot, 1 = upper right
    left, top : position in pixels, upwards
    """
    where = {"xref": "paper", "yref": "paper", "xsizemode": "pixel", "ysizemode": "pixel"}
    for i, (_, colour) in enumerate(theme.SEQUENTIAL):
        chart.add_shape(
            type="rect",
            xanchor=side,
            yanchor=1,
            x0=left + i * STEP_WIDTH,
            x1=left + (i + 1) * STEP_WIDTH,
            y0=top,
            y1=top - STEP_WIDTH,
            fillcolor=colour,
            line={"width": 0},
            **where,
        )
    right = left + len(theme.SEQUENTIAL) * STEP_WIDTH
    for text, x, anchor in zip(ends, (left, right), ("left", "right"), strict=True):
        add_label(chart, text, side=side, x=x, y=top - BELOW, xanchor=anchor)


def add_label(
    chart: Chart, text: str, *, side: Literal[0, 1], x: int, y: int, **where: Any
) -> None:
    """Add a label next to the key."""
    corner = {"xref": "paper", "yref": "paper", "x": side, "y": 1, "yanchor": "top"}
    quiet = {"color": theme.MUTED}
    chart.add_annotation(theme.note(text, xshift=x, yshift=y, font=quiet, **corner, **where))
