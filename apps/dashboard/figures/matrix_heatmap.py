"""One utility matrix as a heatmap: solid = measured, hatched = inferred, diamond = set by hand."""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from apps.classification.core.cells import CODE_OF, Source, SourceCode
from apps.classification.core.matrix import MatrixName, Scale
from apps.dashboard.core import formats
from apps.dashboard.core.profile_text import MATRIX_MEANS, SOURCE_WORDS, value_text
from apps.dashboard.figures import heat, theme
from apps.dashboard.figures.chart import Chart
from apps.dashboard.figures.theme import Table

PAGE_ROWS: Final = 40
HEIGHTS: Final = ((8, 264), (16, 400), (28, 560), (PAGE_ROWS, 736))
LEFT, TOP, BOTTOM, RIGHT = 158, 70, 8, 50
NAME_LENGTH: Final = 24
Floats = NDArray[np.float64]
Bytes = NDArray[np.uint8]
Ints = NDArray[np.int32]
INFERRED, BY_HAND = CODE_OF[Source.INFERRED], CODE_OF[Source.OVERRIDE]


@dataclass(frozen=True, slots=True, eq=False)
class MatrixHeat:
    """A page of rows of a matrix at one revision.

    Attributes
    ----------
    rows : n names
    links : n addresses, "" = no page
    kinds : n kinds, "" = unknown
    library : (n,) True for rows of the offline library
    columns : m display names
    value, low, high : (n, m), NaN = not inferred
    source : (n, m) codes
    samples : (n, m)
    measured_s : (n, m) cluster seconds, NaN = inferred
    column_keys : m stored names
    first, matching : index of the first row among the matching rows, and their number
    known, cells : of the whole matrix
    now_s : cluster seconds, for ages
    """

    matrix: MatrixName
    revision: int
    rows: tuple[str, ...]
    links: tuple[str, ...]
    kinds: tuple[str, ...]
    library: NDArray[np.bool_]
    columns: tuple[str, ...]
    column_keys: tuple[str, ...]
    value: Floats
    low: Floats
    high: Floats
    source: Bytes
    samples: Ints
    measured_s: Floats
    first: int
    matching: int
    known: int
    cells: int
    now_s: float


def height(rows: int) -> int:
    """Return one of a few heights, so that the page can reserve the space."""
    return next((pixels for most, pixels in HEIGHTS if rows <= most), HEIGHTS[-1][1])


def title(data: MatrixHeat) -> str:
    """Return the number of known cells."""
    if not data.cells:
        return "No matrix yet"
    share = formats.percent(data.known / data.cells, 0)
    rest = data.cells - data.known
    if not rest:
        return f"All {formats.thousands(data.cells)} cells are known"
    return (
        f"{share} of {formats.thousands(data.cells)} cells are known, "
        f"{formats.thousands(rest)} are inferred"
    )


def sub(data: MatrixHeat) -> str:
    """Return the meaning of the values and the part shown."""
    if not data.cells:
        return "The first revision is trained from a library of profiled applications"
    last = data.first + len(data.rows)
    part = (
        f"rows {data.first + 1}–{last} of {formats.thousands(data.matching)}"
        if data.matching > len(data.rows)
        else formats.plural(data.matching, "row")
    )
    log = ", log colours" if data.matrix.scale is Scale.LOG else ""
    means = MATRIX_MEANS[data.matrix]
    return f"{means[0].upper()}{means[1:]}{log}; {part}, revision {data.revision}"


def table(data: MatrixHeat) -> Table:
    """Return every cell; ≈ marks inferred values, ◆ values set by hand."""
    marks = {int(INFERRED): "≈ ", int(BY_HAND): "◆ "}
    return Table(
        ("Application", *data.columns),
        tuple(
            (
                name,
                *(
                    marks.get(int(data.source[i, j]), "") + _text(data, i, j)
                    for j in range(len(data.columns))
                ),
            )
            for i, name in enumerate(data.rows)
        ),
    )


def figure(data: MatrixHeat) -> go.Figure:
    """Draw colours by value, with hatching over inferred cells."""
    n, m = data.value.shape
    pixels = height(n)
    if not n or not m:
        sentence = "No application matches" if data.cells else "No revision yet"
        hidden = {"showticklabels": False, "range": [0, 1]}
        return theme.empty(pixels, sentence, x=hidden, y=hidden)
    chart = Chart(_layout(data, pixels))
    z = _coloured(data)
    lowest, highest = _range(data, z)
    chart.add_heatmap(
        x=np.arange(m),
        y=np.arange(n),
        z=np.round(z, 4),
        zmin=lowest,
        zmax=max(highest, lowest + 1e-6),
        colorscale=theme.SEQUENTIAL,
        xgap=1,
        ygap=1,
        customdata=[[_hover(data, i, j) for j in range(m)] for i in range(n)],
        hovertemplate="%{customdata}<extra></extra>",
        hoverongaps=True,
        # plotly.js draws its colour bar with inline styles, which our CSP forbids
        showscale=False,
    )
    _add_hatch(chart, data.source == INFERRED, theme.faded(theme.GROUND, 0.62))
    _add_hatch(chart, np.isnan(data.value), theme.MUTED)
    _add_by_hand(chart, data)
    _add_parts(chart, data)
    ends = _key_ends(data, lowest, highest)
    heat.add_key(chart, ends, side=0, left=4 - LEFT, top=34)
    return chart.figure()


def _coloured(data: MatrixHeat) -> Floats:
    """(n, m) colour values: logarithms of rates; base rates relative to their kind's median."""
    if data.matrix.scale is not Scale.LOG:
        return data.value
    with np.errstate(divide="ignore", invalid="ignore"):
        logs: Floats = np.log10(np.where(data.value > 0, data.value, np.nan))
    if data.matrix is not MatrixName.BASE_RATE:
        return logs
    kinds = np.array(data.kinds)
    for kind in np.unique(kinds):
        rows = kinds == kind
        logs[rows] -= np.array([_median(column) for column in logs[rows].T])
    return logs


def _median(values: Floats) -> float:
    known = values[~np.isnan(values)]
    return float(np.median(known)) if known.size else 0.0


def _range(data: MatrixHeat, z: Floats) -> tuple[float, float]:
    if data.matrix.scale is not Scale.LOG:
        return 0.0, 100.0
    known = z[~np.isnan(z)]
    return (float(known.min()), float(known.max())) if known.size else (0.0, 1.0)


def _text(data: MatrixHeat, i: int, j: int) -> str:
    value = float(data.value[i, j])
    if np.isnan(value):
        return "–"
    return value_text(data.matrix, data.column_keys[j], value, data.kinds[i])


def _hover(data: MatrixHeat, i: int, j: int) -> str:
    if np.isnan(data.value[i, j]):
        return f"<b>not known</b><br>{data.rows[i]}, {data.columns[j]}"
    ends = [
        value_text(data.matrix, data.column_keys[j], float(end[i, j]), data.kinds[i])
        for end in (data.low, data.high)
    ]
    origin = SOURCE_WORDS[SourceCode(int(data.source[i, j])).source]
    if data.samples[i, j]:
        age = data.now_s - float(data.measured_s[i, j])
        origin += f", {formats.plural(int(data.samples[i, j]), 'sample')}"
        origin += f", {formats.duration(max(0.0, age))} old"
    return (
        f"<b>{_text(data, i, j)}</b> [{ends[0]}, {ends[1]}]"
        f"<br>{data.rows[i]}, {data.columns[j]}<br>{origin}"
    )


def _layout(data: MatrixHeat, pixels: int) -> dict[str, Any]:
    n, m = data.value.shape
    return theme.layout(
        pixels,
        margin={"l": LEFT, "r": RIGHT, "t": TOP, "b": BOTTOM},
        xaxis={
            "side": "top",
            "range": [-0.5, m - 0.5],
            "tickvals": list(range(m)),
            "ticktext": list(data.columns),
            "tickangle": -38 if m > 6 else 0,
            "ticklen": 0,
            "showgrid": False,
            "showline": False,
            "fixedrange": True,
        },
        yaxis={
            "range": [n - 0.5, -0.5],
            "tickvals": list(range(n)),
            "ticktext": [_shortened(name) for name in data.rows],
            **theme.APART,
            "showgrid": False,
            "fixedrange": True,
            "automargin": False,
        },
        hovermode="closest",
        meta={"links": list(data.links)},
    )


def _shortened(name: str) -> str:
    name = name.removeprefix("library-")  # shown once, at the right
    return name if len(name) <= NAME_LENGTH else f"{name[: NAME_LENGTH - 1]}…"


def _add_hatch(chart: Chart, mask: NDArray[np.bool_], colour: str) -> None:
    boxes = ((start - 0.5, end - 0.5, i - 0.46, i + 0.46) for i, start, end in heat.runs_of(mask))
    pattern = {"solidity": 0.4, "fgcolor": colour, "bgcolor": theme.CLEAR}
    heat.add_hatch(chart, boxes, pattern, fillcolor=theme.CLEAR, hoverinfo="skip")


def _add_by_hand(chart: Chart, data: MatrixHeat) -> None:
    rows, columns = np.nonzero(data.source == BY_HAND)
    if rows.size:
        chart.add_scatter(
            x=columns,
            y=rows,
            mode="markers",
            marker={
                "symbol": "diamond",
                "size": 9,
                "color": "var(--cat-2)",
                "line": {"color": theme.TEXT, "width": 1},
            },
            hoverinfo="skip",
        )


def _add_parts(chart: Chart, data: MatrixHeat) -> None:
    """Label library and live rows and draw a line between them."""
    n = len(data.rows)
    split = int(data.library.sum())
    if 0 < split < n:
        chart.add_shape(
            type="line",
            xref="paper",
            x0=0,
            x1=1,
            y0=split - 0.5,
            y1=split - 0.5,
            line={"color": theme.TEXT, "width": 1.5},
        )
    for word, at, there in (("library", 0, split > 0), ("live", split, split < n)):
        if there:
            chart.add_annotation(
                theme.note(
                    word,
                    xref="paper",
                    x=1,
                    xanchor="left",
                    xshift=6,
                    y=at,
                    yanchor="middle",
                    font={"color": theme.TEXT_2},
                )
            )


def _key_ends(data: MatrixHeat, lowest: float, highest: float) -> tuple[str, str]:
    if data.matrix.scale is not Scale.LOG:
        return "0", "100 %"
    low, high = 10**lowest, 10**highest
    if data.matrix is MatrixName.SCALE_OUT:
        return formats.percent(low, 0), formats.percent(high, 0)
    return formats.trimmed(low, 2), f"{formats.trimmed(high, 2)} ×"
