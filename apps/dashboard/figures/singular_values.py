"""Singular values of a matrix: the number of relevant similarity concepts (P2)."""

from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from apps.dashboard.core import formats
from apps.dashboard.figures import theme
from apps.dashboard.figures.chart import Chart
from apps.dashboard.figures.theme import Table

HEIGHT = 200
MAX_BARS = 16
ENOUGH = 0.9
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class SingularValues:
    """Singular values, descending; empty if fewer than two rows are fully known."""

    values: Floats
    matrix: str
    revision: int

    @property
    def shares(self) -> Floats:
        """Share of the variance of each."""
        squares = self.values**2
        total = float(squares.sum())
        return squares / total if total > 0 else squares

    @property
    def enough(self) -> int:
        """Number of concepts that carry 90 % of the variance."""
        if not self.values.size or not self.shares.any():
            return 0
        return int(np.searchsorted(np.cumsum(self.shares), ENOUGH - 1e-12)) + 1


def title(data: SingularValues) -> str:
    """Return the number of concepts that carry 90 % of the variance."""
    if not data.enough:
        return "No concepts yet"
    share = formats.percent(float(data.shares[: data.enough].sum()), 0)
    count = formats.plural(data.enough, "concept")
    carries = "carries" if data.enough == 1 else "carry"
    return f"{count} {carries} {share} of the variance between applications"


def sub(data: SingularValues) -> str:
    """Return the measure, its scope and n."""
    if not data.enough:
        return "Needs at least two applications measured on every column"
    return f"Singular values of {data.matrix}, revision {data.revision}, {data.values.size} in all"


def table(data: SingularValues) -> Table:
    """Return every value with its share."""
    sums = np.cumsum(data.shares)
    return Table(
        ("Concept", "Singular value", "Share", "Cumulative share"),
        tuple(
            (
                str(i + 1),
                formats.significant(float(value)),
                formats.percent(float(data.shares[i])),
                formats.percent(float(sums[i])),
            )
            for i, value in enumerate(data.values)
        ),
    )


def figure(data: SingularValues) -> go.Figure:
    """Draw one bar per value; those that carry 90 % are coloured."""
    if not data.enough:
        return theme.empty(
            HEIGHT,
            "Not enough applications",
            x={"range": [0.5, 5.5], "showticklabels": False},
            y={"range": [0, 1], "showticklabels": False},
        )
    shown = data.values[:MAX_BARS]
    places = np.arange(1, shown.size + 1)
    chart = Chart(
        theme.layout(
            HEIGHT,
            margin={"l": 40, "r": 8, "t": 22, "b": 34},
            xaxis={
                "range": [0.4, shown.size + 0.6],
                "tickvals": places.tolist(),
                "title": {"text": "concept, strongest first"},
                "fixedrange": True,
            },
            yaxis={"range": [0, float(shown[0]) * 1.05], "nticks": 4, "fixedrange": True},
            bargap=0.4,
        )
    )
    chart.add_annotation(theme.axis_name("singular value"))
    chart.add_bar(
        x=places,
        y=[float(f"{value:.4g}") for value in shown],
        marker={
            "color": [theme.ACCENT if i < data.enough else theme.MUTED for i in range(shown.size)]
        },
        customdata=[formats.percent(float(share)) for share in data.shares[:MAX_BARS]],
        hovertemplate="<b>%{y:.3g}</b><br>%{customdata} of the variance<extra></extra>",
    )
    return chart.figure()
