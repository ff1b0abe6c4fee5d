"""Share of the units in use over the time of a comparison, one line for each setting."""

from dataclasses import dataclass
from typing import Final

import plotly.graph_objects as go

from apps.dashboard.core import formats
from apps.dashboard.figures import theme
from apps.dashboard.figures.lab_lines import HEIGHT, lines
from apps.dashboard.figures.theme import Table

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
    return lines(
        data,
        [round(at / 3600.0, 4) for at in data.at_s],
        x_axis=x_axis,
        y_name="units in use",
        hover="%{y:.1%} after %{x:.2f} h",
    )
