"""Performance over target as an empirical distribution, one line per kind of target."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from apps.dashboard.core import formats
from apps.dashboard.figures import theme
from apps.dashboard.figures.chart import Chart
from apps.dashboard.figures.tails import tail_cells, tail_points
from apps.dashboard.figures.theme import Table

HEIGHT = 216
LOWS = (0.5, 0.2, 0.1, 0.05, 0.02, 0.01)  # ends of the axis, the narrowest first
HIGHS = (2.0, 5.0, 10.0, 20.0, 50.0, 100.0)
MAX_TICKS = 6
NAMES = {
    "throughput_latency": "queries/s",
    "completion_time": "completion",
    "ips": "instr./s",
}
TICKS = (0.5, 0.7, 1.0, 1.4, 2.0)  # of the narrowest axis
COLOURS = dict(zip(NAMES, theme.CATEGORICAL, strict=False))


@dataclass(frozen=True, slots=True, eq=False)
class KindAttainment:
    """Jobs of one kind of target.

    Attributes
    ----------
    kind : target kind
    ratios : (n,) performance over target, ascending, >= 0; 1 or more = met
    """

    kind: str
    ratios: NDArray[np.float64]

    @property
    def missed(self) -> int:
        """Jobs below their target."""
        return int(np.searchsorted(self.ratios, 1.0))


@dataclass(frozen=True, slots=True)
class Attainment:
    """Performance over target of a set of jobs."""

    kinds: tuple[KindAttainment, ...]
    scope: str  # suffix of the number of jobs

    @property
    def jobs(self) -> int:
        """Jobs with a target and a measurement."""
        return sum(kind.ratios.size for kind in self.kinds)

    @property
    def missed(self) -> int:
        """Jobs below their target."""
        return sum(kind.missed for kind in self.kinds)


def title(data: Attainment) -> str:
    """Return the share of jobs that meet their target and where the misses are."""
    if not data.jobs:
        return "No job with a target measured yet"
    met = formats.percent(1 - data.missed / data.jobs)
    if not data.missed and data.jobs == 1:
        return "The only job with a target meets it"
    if not data.missed:
        return f"All {formats.thousands(data.jobs)} jobs meet their target"
    worst = max(data.kinds, key=lambda kind: kind.missed)
    if worst.missed * 2 > data.missed and len(data.kinds) > 1:
        return f"{met} of jobs meet their target; the misses are mostly {NAMES[worst.kind]}"
    verb = "does" if data.missed == 1 else "do"
    return f"{met} of jobs meet their target, {formats.thousands(data.missed)} {verb} not"


def sub(data: Attainment) -> str:
    """Return the measure, its scope, n and the lower tail."""
    text = f"Performance ÷ target, n = {formats.thousands(data.jobs)} {data.scope}"
    ratios = [kind.ratios for kind in data.kinds]
    tail = tail_points(np.sort(np.concatenate(ratios)) if ratios else np.zeros(0))
    return "; ".join([text, *(f"{at.reach} {formats.over_target(at.value)}" for at in tail)])


def table(data: Attainment) -> Table:
    """Return counts, the median and the lower tail by kind."""
    return Table(
        ("Target kind", "Jobs", "Missed", "Median", "99 % reach", "99.9 % reach"),
        tuple(
            (
                NAMES[kind.kind],
                formats.thousands(kind.ratios.size),
                formats.thousands(kind.missed),
                formats.over_target(float(np.median(kind.ratios))) if kind.ratios.size else "–",
                *tail_cells(kind.ratios),
            )
            for kind in data.kinds
        ),
    )


def axis_ends(data: Attainment) -> tuple[float, float]:
    """Return the narrowest axis with nine tenths of the jobs on it."""
    if not data.jobs:
        return LOWS[0], HIGHS[0]
    ratios = np.concatenate([kind.ratios for kind in data.kinds])
    first, last = np.quantile(ratios, [0.05, 0.95])
    return (
        next((low for low in LOWS if low <= first), LOWS[-1]),
        next((high for high in HIGHS if high >= last), HIGHS[-1]),
    )


def _x_axis(low: float, high: float) -> dict[str, Any]:
    ticks = _ticks(low, high)
    return {
        "type": "log",
        "range": [np.log10(low), np.log10(high)],
        "tickvals": ticks,
        "ticktext": [f"{tick:g}" for tick in ticks],
        "title": {"text": "performance ÷ target (log)"},
        "fixedrange": True,
    }


def _ticks(low: float, high: float) -> tuple[float, ...]:
    if (low, high) == (LOWS[0], HIGHS[0]):
        return TICKS
    inside = [tick for tick in sorted({*LOWS, 1.0, *HIGHS}) if low <= tick <= high]
    if len(inside) <= MAX_TICKS:
        return tuple(inside)
    return tuple(tick for tick in inside if f"{tick:e}"[0] == "1")


def figure(data: Attainment) -> go.Figure:
    """Draw steps on a logarithmic axis; jobs left of 1 miss their target."""
    low, high = axis_ends(data)
    x_axis = _x_axis(low, high)
    if not data.jobs:
        return theme.empty(HEIGHT, "No measurement yet", x=x_axis, y=theme.percent_axis())
    chart = Chart(
        theme.layout(
            HEIGHT,
            margin={"l": 48, "r": 16, "t": 20, "b": 49},
            xaxis=x_axis,
            yaxis=theme.percent_axis(),
            showlegend=True,
            legend={
                "x": 0.03,
                "y": 0.97,
                "yanchor": "top",
                "orientation": "v",
                "itemsizing": "trace",
                "itemwidth": 30,
            },
        )
    )
    _add_halves(chart, low)
    for kind in data.kinds:
        _add_steps(chart, kind, low, high)
        _add_tail(chart, kind, low, high)
    return chart.figure()


def _add_halves(chart: Chart, low: float) -> None:
    """Shade the side below the target and label both sides."""
    chart.add_shape(
        type="rect",
        x0=low,
        x1=1,
        y0=0,
        y1=1,
        layer="below",
        line={"width": 0},
        fillcolor=theme.TRACK,
    )
    chart.add_shape(
        type="line",
        x0=1,
        x1=1,
        y0=0,
        y1=1,
        line={"color": theme.TEXT_2, "width": 1, "dash": "dot"},
    )
    for text, anchor, shift in (("missed", "right", -6), ("met", "left", 6)):
        chart.add_annotation(
            theme.note(
                text,
                x=0,
                y=1,
                yref="paper",
                xanchor=anchor,
                yanchor="bottom",
                xshift=shift,
                yshift=2,
            )
        )


def _add_steps(chart: Chart, kind: KindAttainment, low: float, high: float) -> None:
    shares = np.arange(1, kind.ratios.size + 1) / max(1, kind.ratios.size)
    if kind.ratios.size > 400:  # more points than pixels
        keep = np.unique(np.linspace(0, kind.ratios.size - 1, 400).astype(int))
    else:
        keep = np.arange(kind.ratios.size)
    chart.add_scatter(
        x=np.round(np.clip(kind.ratios[keep], low / 2, high * 2), 4),
        y=np.round(shares[keep], 4),
        mode="lines",
        line={"shape": "hv", "color": COLOURS[kind.kind], "width": 1.5},
        name=NAMES[kind.kind],
        hovertemplate=f"%{{y:.0%}} of {kind.ratios.size} at or below %{{x:.2f}}<extra></extra>",
    )


def _add_tail(chart: Chart, kind: KindAttainment, low: float, high: float) -> None:
    """Mark the values that 99 % and 99.9 % of the jobs reach; those off the scale at its edge."""
    points = tail_points(kind.ratios)
    if not points:
        return
    chart.add_scatter(
        x=[round(max(low, min(high, point.value)), 4) for point in points],
        y=[point.share for point in points],
        mode="markers",
        marker={"color": COLOURS[kind.kind], "size": 6, "symbol": "diamond"},
        text=[
            f"{point.reach} {formats.over_target(point.value)}, "
            f"{formats.plural(point.below, 'job')} below"
            for point in points
        ],
        hovertemplate=f"{NAMES[kind.kind]}: %{{text}}<extra></extra>",
        showlegend=False,
    )
