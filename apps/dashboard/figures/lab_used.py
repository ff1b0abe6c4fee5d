"""Share of the units in use over the time of a comparison, one line for each setting."""

from dataclasses import dataclass
from typing import Final

import plotly.graph_objects as go

from apps.dashboard.core import formats
from apps.dashboard.figures import theme
from apps.dashboard.figures.lab_curves import DASHES
from apps.dashboard.figures.theme import Table

HEIGHT: Final = 344
ROWS: Final = 12  # of the table


@dataclass(frozen=True, slots=True)
class LabUsed:
    """Mean of the seeds.

    Attributes
    ----------
    at_s : seconds since the first job, the middles of equal intervals
    shares : for each name, one value for each time
    bound : name of the bound; empty = none
    """

    names: tuple[str, ...]
    at_s: tuple[float, ...]
    shares: tuple[tuple[float, ...], ...]
    bound: str
    seeds: int


def title(data: LabUsed) -> str:
    """Return the largest shares."""
    if not data.names:
        return "No units in use yet"
    peaks = {name: max(shares) for name, shares in zip(data.names, data.shares, strict=True)}
    least, most = min(peaks, key=peaks.__getitem__), max(peaks, key=peaks.__getitem__)
    if formats.percent(peaks[least]) == formats.percent(peaks[most]):
        return f"Units in use peak at {formats.percent(peaks[most])}"
    return (
        f"Units in use peak at {formats.percent(peaks[least])} under {least} and at"
        f" {formats.percent(peaks[most])} under {most}"
    )


def sub(data: LabUsed) -> str:
    """Return the measure and n."""
    seeds = formats.plural(data.seeds, "seed")
    return f"share of all units that jobs hold, mean of {seeds}, until the last job has ended"


def table(data: LabUsed) -> Table:
    """Return the shares at a few times."""
    step = max(1, len(data.at_s) // ROWS)
    rows = tuple(
        (
            formats.duration(data.at_s[i]),
            *(formats.percent(shares[i]) for shares in data.shares),
        )
        for i in range(step // 2, len(data.at_s), step)
    )
    return Table(("Time since the first job", *data.names), rows if data.names else ())


def figure(data: LabUsed) -> go.Figure:
    """Draw one line for each setting."""
    x_axis = {"title": {"text": "hours since the first job"}, "rangemode": "tozero"}
    if not data.names:
        sentence = "The series appear with the last run"
        return theme.empty(HEIGHT, sentence, x=x_axis, y=theme.percent_axis())
    chart = go.Figure(
        layout=theme.layout(
            HEIGHT,
            margin={"l": 42, "r": 12, "t": 24, "b": 72},
            xaxis=x_axis,
            yaxis=theme.percent_axis(),
            showlegend=True,
            legend={"orientation": "h", "y": -0.2, "yanchor": "top", "x": 0},
        )
    )
    chart.add_annotation(theme.axis_name("units in use", xshift=-40))
    hours = [round(at / 3600.0, 4) for at in data.at_s]
    for number, (name, shares) in enumerate(zip(data.names, data.shares, strict=True)):
        is_bound = name == data.bound
        chart.add_scatter(
            x=hours,
            y=shares,
            mode="lines",
            name=name,
            line={
                "color": theme.MUTED if is_bound else theme.CATEGORICAL[number],
                "width": 1.5,
                "dash": "dot" if is_bound else DASHES[number],
            },
            hovertemplate=f"{name}: %{{y:.1%}} after %{{x:.2f}} h<extra></extra>",
        )
    return chart
