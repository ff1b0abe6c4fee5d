"""Distribution of the performance of jobs, one line for each setting of a comparison."""

from dataclasses import dataclass
from typing import Final

import plotly.graph_objects as go

from apps.dashboard.core import formats
from apps.dashboard.figures import theme
from apps.dashboard.figures.theme import Table
from apps.testbed.core.lab_grids import PERFORMANCE_GRID

HEIGHT: Final = 344
HALF: Final = PERFORMANCE_GRID.index(0.5)
SHOWN: Final = (0.2, 0.5, 0.8, 0.9, 1.0, 1.5)
DASHES: Final = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot", "solid", "dash")


@dataclass(frozen=True, slots=True)
class LabCurves:
    """Shares of jobs at or below each point of `PERFORMANCE_GRID`, by setting.

    Attributes
    ----------
    shares : for each name, non-decreasing, in [0, 1]
    bound : name of the bound; empty = none
    jobs, seeds : of a run, and runs of a setting
    """

    names: tuple[str, ...]
    shares: tuple[tuple[float, ...], ...]
    bound: str
    jobs: int
    seeds: int


def title(data: LabCurves) -> str:
    """Return the settings with the fewest and the most jobs below half speed."""
    if not data.names:
        return "No distribution yet"
    below = {name: shares[HALF] for name, shares in zip(data.names, data.shares, strict=True)}
    best, worst = min(below, key=below.__getitem__), max(below, key=below.__getitem__)
    if below[best] == below[worst]:
        return f"{formats.percent(below[best])} of the jobs run at half speed or less"
    return (
        f"Jobs at half speed or less: {formats.percent(below[best])} under {best},"
        f" {formats.percent(below[worst])} under {worst}"
    )


def sub(data: LabCurves) -> str:
    """Return the measure and n."""
    n = formats.thousands(data.jobs * data.seeds)
    return f"share of jobs at or below, n = {n} a setting; a job that did not finish counts as 0"


def table(data: LabCurves) -> Table:
    """Return the shares at a few points."""
    rows = tuple(
        (
            f"{at:g}",
            *(formats.percent(shares[PERFORMANCE_GRID.index(at)]) for shares in data.shares),
        )
        for at in SHOWN
    )
    return Table(("Performance at most", *data.names), rows if data.names else ())


def figure(data: LabCurves) -> go.Figure:
    """Draw one line for each setting; the bound is grey."""
    x_axis = {
        "range": [0, 1.5],
        "title": {"text": "performance of a job, 1 = alone on the best platform"},
        "fixedrange": True,
    }
    if not data.names:
        sentence = "The distributions appear with the last run"
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
    chart.add_annotation(theme.axis_name("jobs at or below", xshift=-40))
    for number, (name, shares) in enumerate(zip(data.names, data.shares, strict=True)):
        is_bound = name == data.bound
        chart.add_scatter(
            x=PERFORMANCE_GRID,
            y=shares,
            mode="lines",
            name=name,
            line={
                "color": theme.MUTED if is_bound else theme.CATEGORICAL[number],
                "width": 1.5 if is_bound else 2,
                "dash": "dot" if is_bound else DASHES[number],
            },
            hovertemplate=f"{name}: %{{y:.1%}} at or below %{{x:.2f}}<extra></extra>",
        )
    return chart
