"""The parts of a figure while it is drawn."""

from collections.abc import Mapping
from typing import Any

import plotly.graph_objects as go


class Chart:
    """Traces, shapes and annotations in the order of their addition; validated once, at the end.

    A plotly figure copies and validates all its shapes or annotations whenever one is added,
    which takes O(n²).
    """

    def __init__(self, layout: dict[str, Any]) -> None:
        self._layout = layout
        self._traces: list[dict[str, Any]] = []
        self._shapes: list[dict[str, Any]] = []
        self._annotations: list[dict[str, Any]] = []

    def add_scatter(self, **trace: Any) -> None:
        """Add a trace of points and lines."""
        self._traces.append({"type": "scatter", **trace})

    def add_bar(self, **trace: Any) -> None:
        """Add a trace of bars."""
        self._traces.append({"type": "bar", **trace})

    def add_heatmap(self, **trace: Any) -> None:
        """Add a trace of coloured cells."""
        self._traces.append({"type": "heatmap", **trace})

    def add_shape(self, shape: Mapping[str, Any] | None = None, /, **more: Any) -> None:
        """Add a line or an area."""
        self._shapes.append({**(shape or {}), **more})

    def add_annotation(self, annotation: Mapping[str, Any] | None = None, /, **more: Any) -> None:
        """Add a text."""
        self._annotations.append({**(annotation or {}), **more})

    def figure(self) -> go.Figure:
        """Return the figure.

        Raises
        ------
        ValueError : plotly does not know a property or accept a value.
        """
        parts = {"shapes": self._shapes, "annotations": self._annotations}
        return go.Figure(data=self._traces, layout={**self._layout, **parts})
