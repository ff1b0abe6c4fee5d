"""Measured ranks of sampled units against the promise x^R.

Source: Tarcil fig. 4 and Paragon's sampling argument: with R independent uniform candidates the
best one's rank D
in [0, 1] has the distribution P(D <= x) = x^R.
"""

from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from apps.dashboard.core import formats
from apps.dashboard.figures import theme
from apps.dashboard.figures.chart import Chart
from apps.dashboard.figures.tails import SHARES
from apps.dashboard.figures.theme import Table

HEIGHT = 264
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class QualityCdf:
    """Measured ranks for one sample size.

    Attributes
    ----------
    sample_size : R >= 1
    ranks : (k,) D of the chosen unit among the eligible ones, ascending, in [0, 1]; 1 = best of
        all
    shares : (k,) share of the decisions at or below each rank, non-decreasing, last 1
    samples : decisions measured
    distance : largest distance between the measured CDF and x^R
    limit : distance a uniform sampler exceeds in 5 % of such samples; 1 without ranks
    threshold : x at which the promise is shown as text
    source : origin of the ranks, "offline check" or "live decisions"
    """

    sample_size: int
    ranks: Floats
    shares: Floats
    samples: int
    distance: float
    limit: float
    threshold: float
    source: str

    @property
    def promised(self) -> float:
        """Probability that the best unit of the sample ranks below the threshold."""
        return float(self.threshold**self.sample_size)


def kolmogorov_limit(samples: int) -> float:
    """Return the distance exceeded with probability 5 %: 1.358 / sqrt(n), at most 1.

    Source: Kolmogorov 1933, the asymptotic value; accurate from n = 35.
    """
    return min(1.0, 1.358 / np.sqrt(samples)) if samples else 1.0


def largest_distance(ranks: Floats, sample_size: int) -> float:
    """Return the largest distance of the CDF of ascending ranks from x^R; NaN without ranks."""
    if not ranks.size:
        return float("nan")
    promise = ranks**sample_size
    steps = np.arange(1, ranks.size + 1) / ranks.size
    return float(
        max(np.abs(steps - promise).max(), np.abs(steps - 1 / ranks.size - promise).max())
    )


def superscript(number: int) -> str:
    """Return a number in superscript digits; plotly.js sets <sup> with an inline style."""
    return str(number).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))


def title(data: QualityCdf) -> str:
    """Return the distance of the measured ranks from the promise."""
    if not data.ranks.size:
        return f"R = {data.sample_size}: not measured yet"
    verb = "follows" if data.distance <= data.limit else "deviates from"
    return (
        f"R = {data.sample_size}: the measured rank {verb} x{superscript(data.sample_size)}, "
        f"largest distance {data.distance:.3f}"
    )


def sub(data: QualityCdf) -> str:
    """Return the measure, its scope and n."""
    if not data.samples:
        return f"{data.source}: no rank has been measured at this sample size"
    return (
        f"{data.source}, n = {formats.thousands(data.samples)}; "
        f"a uniform sampler stays within {data.limit:.3f} in 95 % of such samples"
    )


def table(data: QualityCdf) -> Table:
    """Return promised and measured shares at a few ranks."""
    rows = []
    for x in (0.2, 0.4, 0.6, 0.7, 0.8, 0.9, 0.95):
        measured = _share_at(data, x) if data.ranks.size else float("nan")
        rows.append(
            (f"{x:g}", formats.percent(x**data.sample_size, 2), formats.percent(measured, 2))
        )
    for share in SHARES:
        reached = _quantile(data, share)
        rows.append(
            (
                f"{formats.trimmed(100 * (1 - share))} % reach a rank of",
                formats.significant(_inverse(share, data.sample_size)),
                formats.significant(reached),
            )
        )
    return Table(("Rank at most", "Promised", "Measured"), tuple(rows))


def figure(data: QualityCdf) -> go.Figure:
    """Draw the promise with its band, the measured shares and the threshold."""
    ticks = [0, 0.2, 0.4, 0.6, 0.8, 1]
    chart = Chart(
        theme.layout(
            HEIGHT,
            margin={"l": 42, "r": 10, "t": 24, "b": 40},
            xaxis={
                "range": [0, 1],
                "tickvals": ticks,
                "ticktext": [f"{t:g}" for t in ticks],
                "title": {"text": "rank of the chosen unit, 1 = best"},
                "fixedrange": True,
            },
            yaxis=theme.percent_axis(),
        )
    )
    chart.add_annotation(theme.axis_name("decisions at or below", xshift=-40))
    _add_promise(chart, data)
    if data.ranks.size:
        _add_measured(chart, data)
        _add_tail(chart, data)
    else:
        chart.add_annotation(
            theme.note(
                "No rank has been measured yet",
                x=0.4,
                y=0.55,
                font={"color": theme.TEXT_2, "size": 12},
            )
        )
    return chart.figure()


def _add_promise(chart: Chart, data: QualityCdf) -> None:
    x = np.linspace(0, 1, 101)
    y = x**data.sample_size
    if data.samples:
        _add_band(chart, x, y, limit=data.limit)
    chart.add_scatter(
        x=x,
        y=y,
        mode="lines",
        line={"color": theme.MUTED, "width": 1.5},
        hovertemplate="%{y:.1%} promised at or below %{x:.2f}<extra></extra>",
    )
    _add_threshold(chart, data)
    chart.add_annotation(
        theme.note(
            f"promised x{superscript(data.sample_size)}{' ± limit' if data.samples else ''}",
            x=_inverse(0.86, data.sample_size),
            y=0.86,
            xanchor="right",
            xshift=-14,
            font={"color": theme.MUTED},
        )
    )


def _add_threshold(chart: Chart, data: QualityCdf) -> None:
    """Mark the promise at the threshold, with a text."""
    at, chance = data.threshold, data.promised
    for x0, x1, y0, y1 in ((at, at, 0, chance), (0, at, chance, chance)):
        chart.add_shape(
            type="line",
            x0=x0,
            x1=x1,
            y0=y0,
            y1=y1,
            line={"color": theme.TEXT_2, "width": 1, "dash": "dot"},
        )
    chart.add_scatter(
        x=[at],
        y=[chance],
        mode="markers",
        marker={"color": theme.TEXT, "size": 7},
        hoverinfo="skip",
    )
    outside = f"{formats.percent(chance)} outside the top {formats.percent(1 - at, 0)}"
    chart.add_annotation(
        theme.note(
            outside,
            x=at,
            y=chance,
            xanchor="right",
            yanchor="bottom",
            xshift=-8,
            yshift=3,
            font={"color": theme.TEXT, "weight": 600},
        )
    )


def _add_band(chart: Chart, x: Floats, y: Floats, *, limit: float) -> None:
    """Draw the band that contains 95 % of the samples of a uniform sampler."""
    chart.add_scatter(
        x=x, y=np.maximum(0, y - limit), mode="lines", line={"width": 0}, hoverinfo="skip"
    )
    chart.add_scatter(
        x=x,
        y=np.minimum(1, y + limit),
        mode="lines",
        line={"width": 0},
        fill="tonexty",
        fillcolor=theme.faded(theme.MUTED),
        hoverinfo="skip",
    )


def _add_measured(chart: Chart, data: QualityCdf) -> None:
    keep = np.unique(np.linspace(0, data.ranks.size - 1, min(data.ranks.size, 600)).astype(int))
    chart.add_scatter(
        x=np.round(data.ranks[keep], 5),
        y=np.round(data.shares[keep], 5),
        mode="lines",
        line={"color": theme.ACCENT, "width": 2, "shape": "hv"},
        hovertemplate="%{y:.1%} measured at or below %{x:.2f}<extra></extra>",
    )
    chart.add_annotation(
        theme.note(
            "measured",
            x=_inverse(0.6, data.sample_size),
            y=0.6,
            xanchor="right",
            xshift=-14,
            font={"color": theme.ACCENT, "weight": 600},
        )
    )


def _quantile(data: QualityCdf, share: float) -> float:
    """Return the rank that all but a share of the decisions reach; NaN if they are too few."""
    if data.samples * share < 1:
        return float("nan")
    return float(data.ranks[np.searchsorted(data.shares, share)])


def _add_tail(chart: Chart, data: QualityCdf) -> None:
    """Mark the ranks that 99 % and 99.9 % of the decisions reach."""
    for share in SHARES:
        reached = _quantile(data, share)
        if np.isnan(reached):
            continue
        chart.add_scatter(
            x=[reached],
            y=[share],
            mode="markers",
            marker={"color": theme.ACCENT, "size": 7, "symbol": "diamond"},
            hovertemplate=(
                f"{formats.trimmed(100 * (1 - share))} % reach %{{x:.2f}}, promised "
                f"{_inverse(share, data.sample_size):.2f}<extra></extra>"
            ),
        )
        chart.add_annotation(
            theme.note(
                f"{formats.trimmed(100 * (1 - share))} %",
                x=reached,
                y=share,
                yanchor="bottom",
                yshift=5,
                font={"color": theme.ACCENT},
            )
        )


def _share_at(data: QualityCdf, x: float) -> float:
    at = int(np.searchsorted(data.ranks, x, side="right"))
    return float(data.shares[at - 1]) if at else 0.0


def _inverse(share: float, sample_size: int) -> float:
    return float(share ** (1 / sample_size))
