"""Predicted performance by number of units and platform."""

from typing import Any, Final

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from apps.dashboard.core import formats
from apps.dashboard.figures import theme
from apps.dashboard.figures.chart import Chart
from apps.dashboard.figures.theme import Table
from apps.scheduling.core.sizing.feasibility import Feasibility

HEIGHT = 264
RIGHT = 104
TICKS: Final = (1, 2, 4, 8, 16, 32, 64)
NAMES: Final = {
    "completion_time": "completion time",
    "throughput_latency": "latency",
    "ips": "instructions/s",
    "best_effort": "share of the work per hour",
}
Floats = NDArray[np.float64]


def title(data: Feasibility) -> str:
    """Return the size that is enough, or the best performance of any size."""
    at = _taken(data)
    if data.units is not None and data.units > data.sizes.size:
        return f"There is no prediction for more than {data.sizes.size} units"
    if data.units is None or at is None:
        return "The job fits on no platform"
    units = formats.plural(data.units, "unit")
    reached = formats.performance_text(data.kind, at)
    if data.target is None:
        return f"{units} would reach {reached}"
    target = formats.performance_text(data.kind, data.target)
    is_met = at >= data.target if data.is_rate else at <= data.target
    if is_met:
        verb = "is" if data.units == 1 else "are"
        return f"{units} {verb} enough: {reached}, target {target}"
    if not np.isfinite(at):
        return "No number of units serves that many queries"
    return f"No number of units is enough: {reached} at best, target {target}"


def sub(data: Feasibility) -> str:
    """Return the measure, the platform and the number of platforms."""
    basis = f", 90 % interval on {data.basis}" if data.basis else ""
    start = f", if it starts in {formats.duration(data.elapsed_s)}" if data.elapsed_s else ""
    return (
        f"Predicted {NAMES[data.kind]} by number of units{basis}; "
        f"{formats.plural(len(data.platforms), 'platform')}, with a margin for neighbours{start}"
    )


def table(data: Feasibility) -> Table:
    """Return a few sizes on the selected platform and on the best one."""
    sizes = sorted({*TICKS, *([] if data.units is None else [data.units])})
    rows = [_row(data, size) for size in sizes if size <= data.sizes.size]
    basis = data.basis or "–"
    return Table(
        ("Units", f"On {basis}", "Low", "High", "Best platform", "On that platform"), tuple(rows)
    )


def _row(data: Feasibility, size: int) -> tuple[str, ...]:
    values = data.value[size - 1]
    best = _best(data, values)
    at = data.platforms.index(data.basis) if data.basis else None
    shown = [
        "–" if at is None else formats.performance_text(data.kind, float(array[size - 1, at]))
        for array in (data.value, data.low, data.high)
    ]
    there = "–" if best is None else formats.performance_text(data.kind, float(values[best]))
    return (str(size), *shown, "–" if best is None else data.platforms[best], there)


def _best(data: Feasibility, values: Floats) -> int | None:
    """Return the index of the best platform at one size."""
    known = np.flatnonzero(np.isfinite(values))
    if not known.size:
        return None
    pick = np.argmax if data.is_rate else np.argmin
    return int(known[pick(values[known])])


def _taken(data: Feasibility) -> float | None:
    """Return the prediction at the size taken."""
    if data.units is None or data.basis is None or data.units > data.sizes.size:
        return None
    return float(data.value[data.units - 1, data.platforms.index(data.basis)])


def figure(data: Feasibility) -> go.Figure:
    """Draw a grey line per platform, the selected one in colour with its interval."""
    x_axis = {"type": "log", "range": [-0.03, np.log10(data.sizes[-1] * 1.04)]}
    if not np.isfinite(data.value).any():
        return theme.empty(
            HEIGHT,
            "No number of units is enough",
            x={**x_axis, "tickvals": list(TICKS)},
            y={"range": [0, 1], "showticklabels": False},
        )
    low, high = _reach(data)
    chart = Chart(
        theme.layout(
            HEIGHT,
            margin={"l": 56, "r": RIGHT, "t": 26, "b": 38},
            xaxis={
                **x_axis,
                "tickvals": [size for size in TICKS if size <= data.sizes[-1]],
                "title": {"text": "units (log)"},
                "fixedrange": True,
            },
            yaxis={
                "type": "log",
                "range": [float(np.log10(low)), float(np.log10(high))],
                "fixedrange": True,
                **_ticks(data.kind, low, high),
            },
            hovermode="closest",
        )
    )
    chart.add_annotation(theme.axis_name(f"{NAMES[data.kind]} (log)", xshift=-48))
    for i, name in enumerate(data.platforms):
        if name != data.basis:
            _add_line(chart, data, i)
    if data.basis:
        _add_basis(chart, data)
    _add_target(chart, data, pixels=(HEIGHT - 64) / float(np.log10(high / low)))
    return chart.figure()


def _reach(data: Feasibility) -> tuple[float, float]:
    """Return the ends of the performance axis: all of the basis, the target, most of the rest."""
    known = data.value[np.isfinite(data.value) & (data.value > 0)]
    parts = [float(np.quantile(known, 0.02)), float(np.quantile(known, 0.98))]
    if data.basis:
        column = data.platforms.index(data.basis)
        ends = np.concatenate([data.low[:, column], data.high[:, column]])
        ends = ends[np.isfinite(ends) & (ends > 0)]
        parts += [float(np.quantile(ends, 0.03)), float(np.quantile(ends, 0.97))]
    if data.target is not None:
        parts.append(data.target)
    return min(parts) / 1.25, max(parts) * 1.25


def _ticks(kind: str, low: float, high: float) -> dict[str, Any]:
    """Return at most five round values in the words of the target's unit."""
    steps = [m * 10.0**e for e in range(-9, 16) for m in (1, 2, 5)]
    if kind == "completion_time":
        steps = [1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 18_000, 36_000, 86_400]
        steps += [86_400 * m * 10.0**e for e in range(5) for m in (2, 5, 10)]
    inside = [step for step in steps if low <= step <= high]
    while len(inside) > 5:
        inside = inside[::2]
    return {"tickvals": inside, "ticktext": [formats.performance_text(kind, v) for v in inside]}


def _finite(values: Floats) -> list[float | None]:
    return [float(f"{v:.4g}") if np.isfinite(v) else None for v in values]


def _hover(data: Feasibility, values: Floats, name: str) -> dict[str, Any]:
    return {
        "customdata": [formats.performance_text(data.kind, float(v)) for v in values],
        "hovertemplate": f"<b>%{{customdata}}</b><br>%{{x}} units on {name}<extra></extra>",
    }


def _add_line(chart: Chart, data: Feasibility, i: int) -> None:
    values = data.value[:, i]
    chart.add_scatter(
        x=data.sizes,
        y=_finite(values),
        mode="lines",
        line={"color": theme.RULE, "width": 1},
        **_hover(data, values, data.platforms[i]),
    )


def _add_basis(chart: Chart, data: Feasibility) -> None:
    """Draw the band and the line of the platform the size was judged on."""
    i = data.platforms.index(data.basis or "")
    known = np.isfinite(data.low[:, i]) & np.isfinite(data.high[:, i])
    sizes = data.sizes[known]
    for values, fill in ((data.low[known, i], None), (data.high[known, i], "tonexty")):
        chart.add_scatter(
            x=sizes,
            y=_finite(values),
            mode="lines",
            line={"width": 0, "color": theme.ACCENT},
            fill=fill,
            fillcolor=theme.faded(theme.ACCENT),
            hoverinfo="skip",
        )
    values = data.value[:, i]
    chart.add_scatter(
        x=data.sizes,
        y=_finite(values),
        mode="lines",
        line={"color": theme.ACCENT, "width": 2},
        **_hover(data, values, data.basis or ""),
    )
    at = _taken(data)
    if at is None or not np.isfinite(at):
        return
    chart.add_scatter(
        x=[data.units],
        y=[at],
        mode="markers",
        marker={"color": theme.ACCENT, "size": 9, "line": {"color": theme.GROUND, "width": 2}},
        hoverinfo="skip",
    )
    right = (data.units or 0) > 40
    chart.add_annotation(
        theme.note(
            formats.plural(data.units or 0, "unit"),
            x=float(np.log10(data.units or 1)),
            y=float(np.log10(at)),
            xanchor="right" if right else "left",
            yanchor="bottom" if not data.is_rate else "top",
            xshift=-6 if right else 6,
            font={"color": theme.TEXT, "weight": 600},
        )
    )


def _add_target(chart: Chart, data: Feasibility, *, pixels: float) -> None:
    """Draw the target and name the lines at their right ends."""
    labels: list[tuple[str, float, str, bool]] = []
    if data.target is not None:
        chart.add_shape(theme.level(data.target))
        text = formats.performance_text(data.kind, data.target)
        labels.append((f"target {text}", float(np.log10(data.target)), theme.TEXT_2, False))
    last = data.value[-1]
    if data.basis and np.isfinite(last[data.platforms.index(data.basis)]):
        y = float(np.log10(last[data.platforms.index(data.basis)]))
        labels.append((data.basis, y, theme.TEXT, True))
    best = _best(data, last)
    if best is not None and data.platforms[best] != data.basis:
        labels.append((data.platforms[best], float(np.log10(last[best])), theme.MUTED, False))
    for label in theme.end_labels(
        labels, x=float(np.log10(data.sizes[-1])), pixels_per_unit=pixels
    ):
        chart.add_annotation(label)
