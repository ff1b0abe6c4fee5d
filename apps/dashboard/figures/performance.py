"""Measured and predicted performance of one job relative to its target, over time."""

from dataclasses import dataclass, field

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from apps.dashboard.core import formats
from apps.dashboard.figures import theme
from apps.dashboard.figures.chart import Chart
from apps.dashboard.figures.theme import Table

HEIGHT = 280
RIGHT = 96
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Moment:
    """An event in the life of the job."""

    cluster_s: float
    word: str


@dataclass(frozen=True, slots=True, eq=False)
class PerformanceHistory:
    """Measurements of one job.

    Attributes
    ----------
    times_s : (T,) cluster seconds
    attainment : (T,) performance over target, 1 or more = met; NaN = no target
    progress : (T,) share of the work done
    cpu : (T,) share of its cores in use
    performance : (T,) in the target's unit
    target_kind : kind of target
    predicted, predicted_low, predicted_high : predicted performance over target; NaN = none
    moments : starts of launches
    is_averaged : whether some values are means of the reports of a minute or an hour
    run_wait, blocked : (T,) shares of the time of the threads of a command; empty = not measured
    memory_bytes : (T,) that its processes use; likewise
    """

    times_s: Floats
    attainment: Floats
    progress: Floats
    cpu: Floats
    performance: Floats
    target_kind: str
    predicted: float
    predicted_low: float
    predicted_high: float
    moments: tuple[Moment, ...]
    is_averaged: bool = False
    run_wait: Floats = field(default_factory=lambda: np.empty(0))
    blocked: Floats = field(default_factory=lambda: np.empty(0))
    memory_bytes: Floats = field(default_factory=lambda: np.empty(0))

    @property
    def has_progress(self) -> bool:
        """Whether the job says how far it is; a command need not."""
        return not bool(np.isnan(self.progress).all())

    @property
    def has_usage(self) -> bool:
        """Whether the processes of a command were measured."""
        return bool(self.memory_bytes.size) and not bool(np.isnan(self.memory_bytes).all())

    @property
    def has_target(self) -> bool:
        """Whether the job has a target and was measured."""
        return bool(self.attainment.size) and not bool(np.isnan(self.attainment).all())


def title(data: PerformanceHistory) -> str:
    """Return how often the target was met, or the progress."""
    if not data.times_s.size:
        return "No reports yet"
    if data.has_target:
        known = data.attainment[~np.isnan(data.attainment)]
        met = int((known >= 1).sum())
        return (
            f"{formats.significant(float(known[-1]), 2)} × its target at the last report; "
            f"met in {met} of {formats.plural(known.size, 'report')}"
        )
    if not data.has_progress:
        return f"{formats.percent(float(data.cpu[-1]), 0)} of its cores in use"
    known = data.progress[~np.isnan(data.progress)]
    return f"{formats.percent(float(known[-1]), 0)} of the work done"


def sub(data: PerformanceHistory) -> str:
    """Return the measure, its scope and n."""
    what = "Performance ÷ target" if data.has_target else "Share of the work done"
    text = f"{what} over cluster time; below: share of the job's cores in use"
    if data.has_usage:
        text += ", and (dotted) of its threads' time spent waiting for a core"
    if not data.has_progress and not data.has_target:
        text += "; the command reports no progress"
    return f"{text}; old reports as means of a minute or an hour" if data.is_averaged else text


def table(data: PerformanceHistory) -> Table:
    """Return the last two hundred reports, newest first."""
    order = range(len(data.times_s) - 1, max(-1, len(data.times_s) - 201), -1)
    more = ("Waiting for a core", "Blocked", "Memory") if data.has_usage else ()
    return Table(
        ("Cluster time", "Performance", "÷ target", "Progress", "CPU", *more),
        tuple(
            (
                formats.cluster_day(float(data.times_s[i]), seconds=True),
                _performance(data, i),
                formats.significant(float(data.attainment[i])),
                formats.percent(float(data.progress[i]), 0),
                formats.percent(float(data.cpu[i]), 0),
                *(_usage(data, i) if more else ()),
            )
            for i in order
        ),
    )


def _performance(data: PerformanceHistory, i: int) -> str:
    value = float(data.performance[i])
    return "–" if np.isnan(value) else formats.performance_text(data.target_kind, value)


def _usage(data: PerformanceHistory, i: int) -> tuple[str, str, str]:
    return (
        formats.percent(float(data.run_wait[i]), 0),
        formats.percent(float(data.blocked[i]), 0),
        "–" if np.isnan(data.memory_bytes[i]) else formats.byte_size(data.memory_bytes[i]),
    )


def figure(data: PerformanceHistory) -> go.Figure:
    """Draw attainment or progress above, CPU use below, and events as dotted lines."""
    if not data.times_s.size:
        return theme.empty(
            HEIGHT,
            "No reports yet; they arrive every few seconds while the job runs",
            x={"range": [0, 1], "showticklabels": False},
            y={"range": [0, 2]},
        )
    main = data.attainment if data.has_target else data.progress
    first = float(min([data.times_s[0], *(m.cluster_s for m in data.moments)]))
    last = float(data.times_s[-1])
    known = main[~np.isnan(main)]
    highest = max(1.2, float(known.max()) * 1.1) if data.has_target else 1.05
    chart = Chart(
        theme.layout(
            HEIGHT,
            margin={"l": 44, "r": RIGHT, "t": 24, "b": theme.TIME_BOTTOM},
            xaxis={**theme.time_axis(first, last, ticks=6), "anchor": "y2"},
            yaxis={"domain": [0.3, 1], "range": [0, highest], "fixedrange": True},
            yaxis2={
                "domain": [0, 0.2],
                "range": [0, 1.05],
                "tickvals": [0, 1],
                "ticktext": ["0", "100 %"],
                "fixedrange": True,
            },
            hovermode="x",
        )
    )
    chart.add_annotation(
        theme.axis_name("performance ÷ target" if data.has_target else "work done", xshift=-40)
    )
    labels = _add_main(chart, data, main)
    _add_processors(chart, data, last)
    if data.has_usage:
        _add_waiting(chart, data)
    for label in theme.end_labels(labels, x=last, pixels_per_unit=(HEIGHT - 48) * 0.7 / highest):
        chart.add_annotation(label)
    for moment in data.moments:
        _add_moment(chart, moment)
    return chart.figure()


def _add_processors(chart: Chart, data: PerformanceHistory, last: float) -> None:
    """Draw the share of the job's cores in use below."""
    chart.add_scatter(
        x=data.times_s,
        y=np.round(data.cpu, 4),
        yaxis="y2",
        mode="lines",
        line={"color": theme.MUTED, "width": 1.5},
        hovertemplate="%{y:.0%} of the job's cores in use<extra></extra>",
    )
    chart.add_annotation(
        theme.note(
            f"CPU {formats.percent(float(data.cpu[-1]), 0)}",
            x=last,
            y=float(data.cpu[-1]),
            yref="y2",
            xanchor="left",
            xshift=5,
        )
    )


def _add_waiting(chart: Chart, data: PerformanceHistory) -> None:
    """Draw how long the threads of a command waited for a core below."""
    chart.add_scatter(
        x=data.times_s,
        y=np.round(data.run_wait, 4),
        yaxis="y2",
        mode="lines",
        line={"color": theme.ACCENT, "width": 1, "dash": "dot"},
        hovertemplate="%{y:.0%} of its threads' time waiting for a core<extra></extra>",
    )


def _add_main(
    chart: Chart, data: PerformanceHistory, main: Floats
) -> list[tuple[str, float, str, bool]]:
    labels: list[tuple[str, float, str, bool]] = []
    if data.has_target:
        chart.add_shape(theme.level(1))
        labels.append(("target", 1.0, theme.TEXT_2, False))
        if not np.isnan(data.predicted):
            _add_prediction(chart, data)
            labels.append(
                (
                    f"predicted {formats.significant(data.predicted)}",
                    data.predicted,
                    theme.MUTED,
                    False,
                )
            )
    chart.add_scatter(
        x=data.times_s,
        y=np.round(main, 4),
        mode="lines",
        line={"color": theme.ACCENT, "width": 2},
        hovertemplate="%{y:.3g}<extra></extra>",
    )
    known = main[~np.isnan(main)]
    if not known.size:
        return labels
    final = float(known[-1])
    text = f"now {formats.significant(final)}" if data.has_target else formats.percent(final, 0)
    labels.append((text, final, theme.TEXT, True))
    return labels


def _add_prediction(chart: Chart, data: PerformanceHistory) -> None:
    if not np.isnan(data.predicted_low) and not np.isnan(data.predicted_high):
        chart.add_shape(
            type="rect",
            xref="paper",
            x0=0,
            x1=1,
            y0=data.predicted_low,
            y1=data.predicted_high,
            layer="below",
            line={"width": 0},
            fillcolor=theme.faded(theme.MUTED),
        )
    chart.add_shape(theme.level(data.predicted, colour=theme.MUTED, dash="dash"))


def _add_moment(chart: Chart, moment: Moment) -> None:
    chart.add_shape(
        type="line",
        x0=moment.cluster_s,
        x1=moment.cluster_s,
        yref="paper",
        y0=0,
        y1=1,
        line={"color": theme.TEXT_2, "width": 1, "dash": "dot"},
    )
    chart.add_annotation(
        theme.note(
            f"▲ {moment.word}",
            x=moment.cluster_s,
            yref="paper",
            y=0.22,
            yanchor="bottom",
            xanchor="left",
            xshift=2,
            font={"color": theme.TEXT_2},
        )
    )
