"""Bars by category."""

from dataclasses import replace

from apps.dashboard.figures import bars
from apps.dashboard.figures.bars import Bars

JOBS = Bars(
    heading="7 jobs in 2 projects",
    scope="Jobs by project now",
    category="Project",
    names=("web", "batch"),
    series={"Running": (4, 1), "Waiting": (0, 2)},
    unit="jobs",
    empty="No jobs yet",
)


def test_every_series_is_a_trace_over_all_categories() -> None:
    running, waiting = bars.figure(JOBS).data
    assert (list(running.x), list(running.y), running.name) == (
        ["web", "batch"],
        [4, 1],
        "Running",
    )
    assert (list(waiting.y), waiting.name) == ([0, 2], "Waiting")
    assert running.marker.color != waiting.marker.color


def test_the_series_are_stacked_and_the_axis_is_named() -> None:
    layout = bars.figure(JOBS).layout
    assert layout.barmode == "stack"
    assert [note.text for note in layout.annotations] == ["jobs"]


def test_a_legend_needs_two_series() -> None:
    one = replace(JOBS, series={"Running": (4, 1)})
    assert (bars.figure(JOBS).layout.showlegend, bars.figure(one).layout.showlegend) == (
        True,
        False,
    )


def test_the_table_has_a_row_for_each_category() -> None:
    table = bars.table(JOBS)
    assert table.head == ("Project", "Running", "Waiting")
    assert [row[0] for row in table.rows] == ["web", "batch"]
    assert [row[2] for row in table.rows] == ["0", "2"]


def test_without_categories_the_figure_is_a_sentence() -> None:
    empty = replace(JOBS, names=(), series={"Running": ()})
    assert bars.title(empty) == "No jobs yet"
    assert [note.text for note in bars.figure(empty).layout.annotations] == ["No jobs yet"]
    assert bars.table(empty).rows == ()
