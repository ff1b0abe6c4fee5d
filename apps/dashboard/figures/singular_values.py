"""Singular values of a matrix: how many similarity concepts tell applications apart (P2)."""

from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from apps.dashboard.core import words
from apps.dashboard.figures import theme
from apps.dashboard.figures.theme import Table

HEIGHT = 200
MOST = 16
ENOUGH = 0.9
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class SingularValues:
    """Singular values, descending; none where fewer than two rows are fully known."""

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
        """How many carry 90 % of the variance."""
        if not self.values.size or not self.shares.any():
            return 0
        return int(np.searchsorted(np.cumsum(self.shares), ENOUGH - 1e-12)) + 1


def title(data: SingularValues) -> str:
    """Return how many concepts matter."""
    if not data.enough:
        return "No concept is known yet"
    share = words.percent(float(data.shares[: data.enough].sum()), 0)
    count = words.plural(data.enough, "concept")
    carries = "carries" if data.enough == 1 else "carry"
    return f"{count} {carries} {share} of what tells applications apart"


def sub(data: SingularValues) -> str:
    """Return what is measured."""
    if not data.enough:
        return "At least two applications known on every column are needed"
    return f"Singular values of {data.matrix}, revision {data.revision}, {data.values.size} in all"


def table(data: SingularValues) -> Table:
    """Every value with its share."""
    sums = np.cumsum(data.shares)
    return Table(
        ("Concept", "Singular value", "Share", "Together"),
        tuple(
            (
                str(i + 1),
                words.significant(float(value)),
                words.percent(float(data.shares[i])),
                words.percent(float(sums[i])),
            )
            for i, value in enumerate(data.values)
        ),
    )


def figure(data: SingularValues) -> go.Figure:
    """One bar each; those that carry 90 % in colour."""
    if not data.enough:
        return theme.empty(
            HEIGHT,
            "Not enough applications",
            x={"range": [0.5, 5.5], "showticklabels": False},
            y={"range": [0, 1], "showticklabels": False},
        )
    shown = data.values[:MOST]
    places = np.arange(1, shown.size + 1)
    chart = go.Figure(
        layout=theme.layout(
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
        customdata=[words.percent(float(share)) for share in data.shares[:MOST]],
        hovertemplate="<b>%{y:.3g}</b><br>%{customdata} of the variance<extra></extra>",
    )
    return chart
