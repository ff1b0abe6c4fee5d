"""Prediction errors of one application, by job."""

import math
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from apps.classification.core.estimates import HALF_WIDTH_90
from apps.dashboard.core import formats
from apps.dashboard.figures import theme
from apps.dashboard.figures.chart import Chart
from apps.dashboard.figures.theme import Table

HEIGHT = 280
MEDIAN_OF = 10  # observations in the moving median
MIN_SPAN = math.log(1.25)
NO_BIAS = 0.02
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class PredictionErrors:
    """Observations of the jobs of one application, oldest first.

    Attributes
    ----------
    times_s : (T,) cluster seconds
    ratio : (T,) measured over predicted work per second, > 0
    deviation : (T,) expected standard deviation of its logarithm
    jobs : T names
    flagged_s : when drift was detected; NaN = no drift
    """

    application: str
    times_s: Floats
    ratio: Floats
    deviation: Floats
    jobs: tuple[str, ...]
    flagged_s: float

    @property
    def expected(self) -> float:
        """Median half width of the 90 % band of the logarithm, according to the profiles."""
        return HALF_WIDTH_90 * float(np.median(self.deviation)) if self.deviation.size else 0.0


def title(data: PredictionErrors) -> str:
    """Return the typical prediction error, or the bias since drift was detected."""
    if not data.ratio.size:
        return "No prediction has been compared yet"
    if not math.isnan(data.flagged_s):
        since = data.ratio[data.times_s >= data.flagged_s]
        if since.size:
            return (
                f"Since {formats.cluster_day(data.flagged_s)}, jobs run {_bias(since)} predicted"
            )
    off = float(np.median(np.abs(data.ratio - 1.0)))
    half = f"Half of {formats.plural(data.ratio.size, 'prediction')} were off by at most"
    text = f"{half} {formats.percent(off, 0 if off >= 0.1 else 1)}"
    if abs(float(np.median(np.log(data.ratio)))) < NO_BIAS:
        return f"{text}, without bias"
    return f"{text}; jobs run {_bias(data.ratio)} predicted"


def _bias(ratio: Floats) -> str:
    """Return the median deviation, e.g. "24 % slower than"."""
    bias = float(np.exp(np.median(np.log(ratio)))) - 1.0
    if abs(bias) < NO_BIAS:
        return "as"
    return f"{formats.percent(abs(bias), 0)} {'faster' if bias > 0 else 'slower'} than"


def sub(data: PredictionErrors) -> str:
    """Return the measure, its scope and n."""
    if not data.ratio.size:
        return "Work per second of running jobs ÷ predicted"
    drift = "no drift" if math.isnan(data.flagged_s) else "drift detected"
    count = formats.plural(data.ratio.size, "observation")
    return f"Work per second of running jobs ÷ predicted (log), {count}; {drift}"


def table(data: PredictionErrors) -> Table:
    """Return the last two hundred observations, newest first."""
    order = range(len(data.times_s) - 1, max(-1, len(data.times_s) - 201), -1)
    return Table(
        ("Job", "Cluster time", "Measured ÷ predicted", "90 % expected"),
        tuple(
            (
                data.jobs[i],
                formats.cluster_day(float(data.times_s[i])),
                formats.significant(float(data.ratio[i])),
                _band_text(HALF_WIDTH_90 * float(data.deviation[i])),
            )
            for i in order
        ),
    )


def figure(data: PredictionErrors) -> go.Figure:
    """Draw one point per observation, the moving median, and the expected band."""
    y_name = "measured ÷ predicted"
    if not data.ratio.size:
        return theme.empty(
            HEIGHT,
            "Predictions are compared once jobs run",
            x={"range": [0, 1], "showticklabels": False},
            y={"range": [0.5, 1.5], "tickvals": [0.5, 1, 1.5]},
        )
    logs = np.log(data.ratio)
    reach = max(MIN_SPAN, float(np.abs(logs).max()) * 1.1, data.expected * 1.1)
    first, last = float(data.times_s[0]), float(data.times_s[-1])
    chart = Chart(
        theme.layout(
            HEIGHT,
            margin={"l": 40, "r": 16, "t": 24, "b": theme.TIME_BOTTOM},
            xaxis=theme.time_axis(first, last, ticks=4),
            yaxis={
                "type": "log",
                "range": [-reach / math.log(10), reach / math.log(10)],
                "tickvals": _ticks(reach),
                "ticktext": [formats.trimmed(tick) for tick in _ticks(reach)],
                "fixedrange": True,
            },
            hovermode="closest",
        )
    )
    chart.add_annotation(theme.axis_name(y_name))
    _add_band(chart, data.expected)
    _add_points(chart, data)
    if not math.isnan(data.flagged_s):
        _add_drift(chart, max(first, min(last, data.flagged_s)))
    return chart.figure()


def _ticks(reach: float) -> list[float]:
    steps = [0.1, 0.2, 0.5, 0.8, 1, 1.25, 2, 5, 10]
    return [step for step in steps if abs(math.log(step)) <= reach] or [1.0]


def _band_text(half: float) -> str:
    return f"{formats.significant(math.exp(-half))}–{formats.significant(math.exp(half))}"


def _add_band(chart: Chart, expected: float) -> None:
    chart.add_shape(theme.level(1))
    if expected > 0:
        chart.add_shape(
            type="rect",
            xref="paper",
            x0=0,
            x1=1,
            y0=math.exp(-expected),
            y1=math.exp(expected),
            layer="below",
            line={"width": 0},
            fillcolor=theme.faded(theme.MUTED),
        )
        chart.add_annotation(
            theme.note(
                "90 % expected",
                xref="paper",
                x=1,
                xanchor="right",
                y=expected / math.log(10),
                yanchor="bottom",
                font={"color": theme.MUTED},
            )
        )


def _add_points(chart: Chart, data: PredictionErrors) -> None:
    chart.add_scatter(
        x=data.times_s,
        y=np.round(data.ratio, 4),
        mode="markers",
        marker={"color": theme.faded(theme.MUTED, 0.55), "size": 5},
        customdata=[
            f"<b>{formats.significant(float(r))} × predicted</b>"
            f"<br>{job}, {formats.cluster_day(t)}"
            for r, job, t in zip(data.ratio, data.jobs, data.times_s.tolist(), strict=True)
        ],
        hovertemplate="%{customdata}<extra></extra>",
    )
    if data.ratio.size >= MEDIAN_OF:
        windows = np.lib.stride_tricks.sliding_window_view(np.log(data.ratio), MEDIAN_OF)
        chart.add_scatter(
            x=data.times_s[MEDIAN_OF - 1 :],
            y=np.round(np.exp(np.median(windows, axis=1)), 4),
            mode="lines",
            line={"color": theme.ACCENT, "width": 2},
            hovertemplate=f"<b>%{{y:.3g}}</b><br>median of the last {MEDIAN_OF}<extra></extra>",
        )


def _add_drift(chart: Chart, at_s: float) -> None:
    chart.add_shape(
        type="line",
        x0=at_s,
        x1=at_s,
        yref="paper",
        y0=0,
        y1=1,
        line={"color": theme.TEXT_2, "width": 1, "dash": "dot"},
    )
    chart.add_annotation(
        theme.note(
            "▲ drift",
            x=at_s,
            yref="paper",
            y=0,
            yanchor="bottom",
            xanchor="left",
            xshift=2,
            font={"color": theme.TEXT_2},
        )
    )
