"""Distribution of the performance of jobs, one line for each setting of a comparison."""

from dataclasses import dataclass
from typing import Final

import plotly.graph_objects as go

from apps.dashboard.core import formats
from apps.dashboard.figures import theme
from apps.dashboard.figures.lab_lines import HEIGHT, lines
from apps.dashboard.figures.theme import Table
from apps.testbed.core.lab_grids import PERFORMANCE_GRID

HALF: Final = PERFORMANCE_GRID.index(0.5)
SHOWN: Final = (0.2, 0.5, 0.8, 0.9, 1.0, 1.5)


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
    return lines(
        data,
        PERFORMANCE_GRID,
        x_axis=x_axis,
        y_name="jobs at or below",
        hover="%{y:.1%} at or below %{x:.2f}",
    )
