"""Performance of a job around a dip, with its neighbours underneath on the same axis."""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from apps.dashboard.core import formats
from apps.dashboard.core.gauge import axis_ticks
from apps.dashboard.figures import theme
from apps.dashboard.figures.chart import Chart
from apps.dashboard.figures.theme import Table

HEIGHT: Final = 400
MAX_LANES: Final = 9
LANES: Final = 0.42  # share of the height below the curve
LABEL: Final = 0.3  # share of the width that a label needs
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Lane:
    """A neighbour on one server.

    Attributes
    ----------
    rank : place among the suspects, from 1; 0 = not a suspect
    spans : (from, to) while it works there; ``to`` is infinite if it is still there
    """

    server: str
    name: str
    units: int
    rank: int
    spans: tuple[tuple[float, float], ...]

    @property
    def text(self) -> str:
        """Text on its first bar."""
        rank = f"{self.rank}. " if self.rank else ""
        return f"{rank}{self.name}, {formats.plural(self.units, 'unit')} of {self.server}"


@dataclass(frozen=True, slots=True, eq=False)
class DipTimeline:
    """The reports around a dip, or the latest ones of a job without a dip.

    Attributes
    ----------
    times_s, performance, attainment : (T,)
    target : in the target's unit; NaN = best effort
    dip : begin and end; None = none
    lanes : suspects first, then by the time they arrived
    changed_s : when the job got more or other units, ascending
    """

    times_s: Floats
    performance: Floats
    attainment: Floats
    target_kind: str
    target: float
    dip: tuple[float, float] | None
    is_open: bool
    lanes: tuple[Lane, ...]
    changed_s: tuple[float, ...]


def title(data: DipTimeline) -> str:
    """Return since when, or for how long, the job is or was below its target."""
    if not data.times_s.size:
        return "No reports yet"
    if data.dip is None:
        return "The job has met its target in all its reports"
    begin_s, end_s = data.dip
    worst = _worst(data)
    reached = formats.performance_text(data.target_kind, worst)
    target = formats.performance_text(data.target_kind, data.target)
    began = formats.cluster_time(begin_s, seconds=True)
    when = (
        f"Below target since {began}"
        if data.is_open
        else f"Below target for {formats.duration(end_s - begin_s)} from {began}"
    )
    return f"{when}: {reached} at worst, target {target}"


def sub(data: DipTimeline) -> str:
    """Return the measure, its scope and n."""
    count = formats.plural(data.times_s.size, "report")
    return (
        f"Performance in the unit of the target, {count}; below: other jobs on its servers, in "
        "cluster time"
    )


def table(data: DipTimeline) -> Table:
    """Return the neighbours, then the latest reports, newest first."""
    lanes = [
        (lane.text, formats.cluster_time(begin, seconds=True), _until(end), "–")
        for lane in data.lanes
        for begin, end in lane.spans
    ]
    order = range(len(data.times_s) - 1, max(-1, len(data.times_s) - 101), -1)
    reports = [
        (
            formats.performance_text(data.target_kind, float(data.performance[i])),
            formats.cluster_time(float(data.times_s[i]), seconds=True),
            "–",
            formats.significant(float(data.attainment[i])),
        )
        for i in order
    ]
    return Table(("Neighbour or performance", "From", "To", "÷ target"), (*lanes, *reports))


def figure(data: DipTimeline) -> go.Figure:
    """Draw the performance above, neighbours as bars below, and the dip across both."""
    if not data.times_s.size:
        return theme.empty(
            HEIGHT,
            "No reports yet; they arrive every few seconds while the job runs",
            x={"range": [0, 1], "showticklabels": False},
            y={"range": [0, 2]},
        )
    first, last = float(data.times_s[0]), float(data.times_s[-1])
    lanes = data.lanes[:MAX_LANES]
    top = _top(data)
    ticks = axis_ticks(data.target_kind, top)
    hidden = len(data.lanes) - len(lanes)
    chart = Chart(
        theme.layout(
            HEIGHT,
            margin={"l": 84, "r": 64, "t": 24, "b": theme.TIME_BOTTOM},
            xaxis={**theme.time_axis(first, last, ticks=6), "anchor": "y2"},
            yaxis={
                "domain": [LANES + 0.06, 1],
                "range": [0, top],
                "tickvals": ticks,
                "ticktext": [_tick(data, tick) for tick in ticks],
                "fixedrange": True,
            },
            yaxis2={
                "domain": [0, LANES],
                "range": [max(len(lanes) + bool(hidden), 3) - 0.5, -0.5],
                "showticklabels": False,
                "showgrid": False,
                "zeroline": False,
                "fixedrange": True,
            },
            hovermode="closest",
            bargap=0.35,
        )
    )
    _add_dip(chart, data)
    _add_lanes(chart, lanes, first, last)
    _add_performance(chart, data, last)
    _add_changes(chart, data.changed_s, last - first)
    if hidden:  # in a lane of its own
        more = {"x": first, "y": len(lanes), "yref": "y2", "xanchor": "left", "xshift": 4}
        text = f"{hidden} more in the table"
        chart.add_annotation(theme.note(text, **more, font={"color": theme.TEXT_2}))
    elif not lanes:
        chart.add_annotation(_label("No other job on its servers", x=first, y=0.0))
    return chart.figure()


def _add_performance(chart: Chart, data: DipTimeline, last: float) -> None:
    shown = np.minimum(data.performance, _top(data))
    texts = [formats.performance_text(data.target_kind, float(v)) for v in data.performance]
    _add_beyond(chart, data, texts, last)
    chart.add_scatter(
        x=data.times_s,
        y=shown,
        mode="lines",
        line={"color": theme.ACCENT, "width": 2},
        customdata=texts,
        hovertemplate="%{customdata}<extra></extra>",
    )
    labels = [("now" if data.is_open else texts[-1], float(shown[-1]), theme.TEXT, True)]
    if not math.isnan(data.target):
        chart.add_shape(theme.level(data.target))
        labels.append(("target", data.target, theme.TEXT_2, False))
    pixels = (HEIGHT - 48) * (1 - LANES - 0.06) / _top(data)
    for label in theme.end_labels(labels, x=last, pixels_per_unit=pixels):
        chart.add_annotation(label)
    chart.add_annotation(theme.axis_name(_measure(data), xshift=-78))


def _add_beyond(chart: Chart, data: DipTimeline, texts: list[str], last: float) -> None:
    """Mark the reports beyond the end of the axis, and say how far they reach."""
    top = _top(data)
    beyond = np.flatnonzero(data.performance > top)
    if not beyond.size:
        return
    chart.add_scatter(
        x=data.times_s[beyond],
        y=np.full(beyond.size, top),
        mode="markers",
        marker={"symbol": "triangle-up", "size": 8, "color": theme.ACCENT},
        cliponaxis=False,
        customdata=[texts[i] for i in beyond],
        hovertemplate="%{customdata}, above the axis<extra></extra>",
    )
    highest = texts[beyond[np.argmax(data.performance[beyond])]]
    at_end = {"x": last, "y": 1.0, "yref": "paper", "yanchor": "bottom", "xanchor": "right"}
    text = f"▲ above the axis, up to {highest}"
    chart.add_annotation(theme.note(text, **at_end, yshift=4, font={"color": theme.TEXT_2}))


def _add_dip(chart: Chart, data: DipTimeline) -> None:
    if data.dip is None:
        return
    begin_s, end_s = data.dip
    chart.add_shape(
        type="rect",
        x0=begin_s,
        x1=end_s,
        yref="paper",
        y0=0,
        y1=1,
        layer="below",
        line={"width": 0},
        fillcolor=theme.faded("var(--bad)"),
    )
    chart.add_annotation(_label("below target", x=begin_s, y=1.0, yanchor="top"))


def _add_lanes(chart: Chart, lanes: tuple[Lane, ...], first: float, last: float) -> None:
    bars = [
        (row, max(first, begin), min(last, end), lane)
        for row, lane in enumerate(lanes)
        for begin, end in lane.spans
    ]
    chart.add_bar(
        x=[end - begin for _, begin, end, _ in bars],
        base=[begin for _, begin, _, _ in bars],
        y=[row for row, _, _, _ in bars],
        yaxis="y2",
        orientation="h",
        marker={
            "color": [
                theme.faded(theme.ACCENT, 0.45) if lane.rank == 1 else theme.RULE
                for _, _, _, lane in bars
            ]
        },
        customdata=[
            f"{lane.text}<br>from {formats.cluster_time(begin, seconds=True)} {_until(end)}"
            for lane in lanes
            for begin, end in lane.spans
        ],
        hovertemplate="%{customdata}<extra></extra>",
    )
    for row, lane in enumerate(lanes):
        begin = max(first, min(begin for begin, _ in lane.spans))
        is_late = begin > first + 0.4 * (last - first)
        chart.add_annotation(
            theme.note(
                lane.text,
                x=begin,
                y=row,
                yref="y2",
                xanchor="right" if is_late else "left",
                xshift=-4 if is_late else 4,
                font={"color": theme.TEXT, "weight": 600 if lane.rank == 1 else 400},
            )
        )


def _add_changes(chart: Chart, times_s: tuple[float, ...], span_s: float) -> None:
    """Mark when the job got other units, without labels on top of each other."""
    labelled_s = -math.inf
    for at_s in times_s:
        chart.add_shape(_vertical(at_s))
        if at_s - labelled_s >= LABEL * span_s:
            chart.add_annotation(_label("▲ units added or moved", x=at_s, y=LANES + 0.07))
            labelled_s = at_s


def _vertical(at_s: float) -> dict[str, object]:
    return {
        "type": "line",
        "x0": at_s,
        "x1": at_s,
        "yref": "paper",
        "y0": 0,
        "y1": 1,
        "line": {"color": theme.TEXT_2, "width": 1, "dash": "dot"},
    }


def _label(text: str, *, x: float, y: float, yanchor: str = "bottom") -> dict[str, object]:
    return theme.note(
        text,
        x=x,
        y=y,
        yref="paper",
        yanchor=yanchor,
        xanchor="left",
        xshift=4,
        font={"color": theme.TEXT_2},
    )


def _worst(data: DipTimeline) -> float:
    begin_s, end_s = data.dip or (-math.inf, math.inf)
    inside = (data.times_s >= begin_s) & (data.times_s <= end_s) & ~np.isnan(data.attainment)
    return float(data.performance[inside][np.argmin(data.attainment[inside])])


def _top(data: DipTimeline) -> float:
    """Return the end of the axis: all values, but at most three targets if any value is within."""
    known = data.performance[np.isfinite(data.performance)]
    highest = float(known.max(initial=0.0))
    if math.isnan(data.target) or known.min(initial=math.inf) > 3.0 * data.target:
        return 1.1 * highest or 1.0
    return min(3.0 * data.target, 1.1 * max(highest, 1.2 * data.target))


def _measure(data: DipTimeline) -> str:
    return {
        "completion_time": "expected completion time",
        "throughput_latency": "latency at the target's percentile",
        "ips": "instructions per second",
    }.get(data.target_kind, "work per second")


def _tick(data: DipTimeline, value: float) -> str:
    return "0" if value == 0.0 else formats.performance_text(data.target_kind, value)


def _until(end_s: float) -> str:
    return "until now" if math.isinf(end_s) else formats.cluster_time(end_s, seconds=True)
