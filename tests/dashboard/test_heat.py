"""Parts shared by heatmaps."""

import numpy as np
import plotly.graph_objects as go
import pytest

from apps.dashboard.figures import heat, theme

PATTERN = {"fgcolor": theme.MUTED}


@pytest.mark.parametrize(
    ("mask", "runs"),
    [
        ([[False, False]], []),
        ([[True, True, False], [False, False, True]], [(0, 0, 2), (1, 2, 3)]),
        ([[True, False, True]], [(0, 0, 1), (0, 2, 3)]),
    ],
)
def test_neighbouring_cells_form_one_run(
    mask: list[list[bool]], runs: list[tuple[int, int, int]]
) -> None:
    assert heat.runs_of(np.array(mask)) == runs


def test_hatched_boxes_are_one_trace_with_gaps() -> None:
    chart = go.Figure()
    heat.add_hatch(chart, [(0, 2, 1, 3), (5, 6, 0, 1)], PATTERN, hoverinfo="skip")
    (trace,) = chart.data
    assert trace.x == (0, 2, 2, 0, 0, None, 5, 6, 6, 5, 5, None)
    assert trace.y == (1, 1, 3, 3, 1, None, 0, 0, 1, 1, 0, None)
    assert (trace.fillpattern.shape, trace.fillpattern.fgcolor) == ("/", theme.MUTED)


def test_without_boxes_nothing_is_drawn() -> None:
    chart = go.Figure()
    heat.add_hatch(chart, [], PATTERN)
    assert chart.data == ()


def test_the_key_has_every_step_and_labels_at_its_ends() -> None:
    chart = go.Figure()
    heat.add_key(chart, ("low", "high"), side=1, left=10, top=-78)
    steps = chart.layout.shapes
    assert [step.fillcolor for step in steps] == [colour for _, colour in theme.SEQUENTIAL]
    assert (steps[0].x0, steps[-1].x1) == (10, 10 + 9 * heat.STEP_WIDTH)
    assert {(step.y0, step.y1, step.xanchor) for step in steps} == {(-78, -86, 1)}
    low, high = chart.layout.annotations
    assert (low.text, low.xshift, low.xanchor) == ("low", 10, "left")
    assert (high.text, high.xshift, high.xanchor) == ("high", 82, "right")
