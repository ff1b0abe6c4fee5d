"""Figures of the Classification page."""

import math
from dataclasses import replace

import numpy as np
import plotly.graph_objects as go
import pytest

from apps.classification.core.cells import SourceCode
from apps.classification.core.matrix import MatrixName
from apps.dashboard.figures import (
    calibration,
    matrix_heatmap,
    revision_error,
    singular_values,
    theme,
)

NAN = math.nan
M, I, H = SourceCode.MEASURED, SourceCode.INFERRED, SourceCode.OVERRIDE  # noqa: E741 - as read


def heat(**changes: object) -> matrix_heatmap.MatrixHeat:
    """Two library rows and a live one, three columns; the live row has all sources and a gap."""
    data = matrix_heatmap.MatrixHeat(
        matrix=MatrixName.TOLERATED,
        revision=7,
        rows=("library-batch-01", "library-batch-02", "web"),
        links=("", "", "/applications/web/"),
        kinds=("batch", "batch", "latency_critical"),
        library=np.array([True, True, False]),
        columns=("LLC capacity", "TLB", "Core"),
        column_keys=("llc_capacity", "tlb", "core"),
        value=np.array([[10.0, 20, 30], [40, 50, 60], [70, 80, NAN]]),
        low=np.array([[9.0, 19, 29], [39, 49, 59], [60, 80, NAN]]),
        high=np.array([[11.0, 21, 31], [41, 51, 61], [80, 80, NAN]]),
        source=np.array([[M, M, M], [M, M, M], [I, H, I]], dtype=np.uint8),
        samples=np.array([[3, 3, 3], [3, 3, 3], [0, 1, 0]], dtype=np.int32),
        measured_s=np.array([[0.0, 0, 0], [0, 0, 0], [NAN, 600, NAN]]),
        first=0,
        matching=3,
        known=7,
        cells=9,
        now_s=720.0,
    )
    return replace(data, **changes)  # type: ignore[arg-type]  # fields by name


def words_of(figure: go.Figure) -> list[str]:
    return [note.text for note in figure.layout.annotations]


# ---- matrix ----


def test_the_title_counts_known_and_inferred_cells() -> None:
    assert matrix_heatmap.title(heat()) == "78 % of 9 cells are known, 2 are inferred"
    assert matrix_heatmap.title(heat(known=9)) == "All 9 cells are known"


def test_the_subtitle_names_the_rows_shown() -> None:
    assert matrix_heatmap.sub(heat()).endswith("; 3 rows, revision 7")
    later = heat(first=40, matching=1000)
    assert matrix_heatmap.sub(later).endswith("; rows 41–43 of 1,000, revision 7")


def test_inferred_cells_are_hatched_and_overrides_have_a_diamond() -> None:
    figure = matrix_heatmap.figure(heat())
    assert [trace.type for trace in figure.data] == ["heatmap", "scatter", "scatter", "scatter"]
    _, hatch, gap, by_hand = figure.data
    assert hatch.fillpattern.fgcolor == theme.faded(theme.GROUND, 0.62)
    assert [x for x in hatch.x if x is not None][::5] == [-0.5, 1.5]
    assert {y for y in hatch.y if y is not None} == {1.54, 2.46}
    assert (min(x for x in gap.x if x is not None), gap.y[0]) == (1.5, 1.54)
    assert (list(by_hand.x), list(by_hand.y)) == ([1], [2])


def test_hovering_a_cell_shows_value_interval_source_and_age() -> None:
    hover = matrix_heatmap.figure(heat()).data[0].customdata
    assert hover[0][0] == (
        "<b>10 %</b> [9 %, 11 %]<br>library-batch-01, LLC capacity"
        "<br>measured, 3 samples, 12 min old"
    )
    assert hover[2][1].endswith("<br>set by hand, 1 sample, 2 min old")
    assert hover[2][0].endswith("<br>inferred")
    assert hover[2][2] == "<b>not known</b><br>web, Core"


def test_the_table_marks_inferred_and_overridden_cells() -> None:
    table = matrix_heatmap.table(heat())
    assert table.head == ("Application", "LLC capacity", "TLB", "Core")
    assert table.rows[2] == ("web", "≈ 70 %", "◆ 80 %", "≈ –")


def test_library_and_live_rows_are_labelled() -> None:
    figure = matrix_heatmap.figure(heat())
    assert {"library", "live"} <= set(words_of(figure))
    assert figure.layout.shapes[0].y0 == 1.5
    assert "live" not in words_of(matrix_heatmap.figure(heat(library=np.array([True] * 3))))


def test_ratios_are_coloured_by_their_logarithm() -> None:
    value = np.array([[1.0, 0.1, 10.0]] * 3)
    ratios = heat(matrix=MatrixName.HETEROGENEITY, value=value, column_keys=("J", "A", "B"))
    trace = matrix_heatmap.figure(ratios).data[0]
    assert trace.z[0].tolist() == [0.0, -1.0, 1.0]
    assert (trace.zmin, trace.zmax) == (-1.0, 1.0)


def test_base_rates_are_coloured_relative_to_their_kind() -> None:
    value = np.array([[1e6, 10.0], [1e8, 10.0], [4.0, 10.0]])
    some = {"low": value, "high": value, "source": np.ones((3, 2), dtype=np.uint8)}
    some |= {"samples": np.ones((3, 2), dtype=np.int32), "measured_s": np.zeros((3, 2))}
    rates = heat(
        matrix=MatrixName.BASE_RATE,
        value=value,
        columns=("own metric", "input bytes"),
        column_keys=("metric", "bytes"),
        **some,
    )
    z = matrix_heatmap.figure(rates).data[0].z
    assert z[:, 0].tolist() == [-1.0, 1.0, 0.0]
    apart = replace(rates, kinds=("batch", "analytics", "latency_critical"))
    assert not matrix_heatmap.figure(apart).data[0].z.any()


def test_rows_link_to_their_application() -> None:
    assert matrix_heatmap.figure(heat()).layout.meta["links"] == ["", "", "/applications/web/"]


def test_long_names_are_shortened_and_the_library_prefix_is_removed() -> None:
    rows = ("library-batch-01", "a" * 40, "web")
    names = matrix_heatmap.figure(heat(rows=rows)).layout.yaxis.ticktext
    assert names == ("batch-01", "a" * 23 + "…", "web")


def test_a_matrix_has_one_of_a_few_heights() -> None:
    assert [matrix_heatmap.height(n) for n in (0, 8, 9, 28, 40)] == [264, 264, 400, 560, 736]


def test_a_missing_matrix_shows_a_sentence() -> None:
    none = np.zeros((0, 0))
    empty = heat(rows=(), columns=(), value=none, known=0, cells=0, matching=0)
    assert matrix_heatmap.title(empty) == "No matrix yet"
    assert words_of(matrix_heatmap.figure(empty)) == ["No revision yet"]
    assert matrix_heatmap.table(empty).rows == ()


def test_a_search_without_rows_shows_a_sentence() -> None:
    empty = heat(rows=(), value=np.zeros((0, 3)), matching=0)
    assert words_of(matrix_heatmap.figure(empty)) == ["No application matches"]


# ---- singular values ----


def test_concepts_with_nine_tenths_of_the_variance_are_counted() -> None:
    data = singular_values.SingularValues(np.array([3.0, 1.0, 0.5]), "tolerated", 7)
    assert data.enough == 2
    assert (
        singular_values.title(data) == "2 concepts carry 98 % of the variance between applications"
    )
    colours = singular_values.figure(data).data[0].marker.color
    assert colours == (theme.ACCENT, theme.ACCENT, theme.MUTED)
    assert singular_values.table(data).rows[1] == ("2", "1.00", "9.8 %", "97.6 %")


def test_the_title_uses_the_singular_for_one_concept() -> None:
    data = singular_values.SingularValues(np.array([3.0, 0.1]), "caused", 7)
    assert singular_values.title(data).startswith("1 concept carries")


@pytest.mark.parametrize("values", [[], [0.0, 0.0]])
def test_missing_concepts_show_a_sentence(values: list[float]) -> None:
    data = singular_values.SingularValues(np.array(values), "caused", 1)
    assert singular_values.title(data) == "No concepts yet"
    assert words_of(singular_values.figure(data)) == ["Not enough applications"]


# ---- calibration ----

HELD = calibration.Calibration(
    levels=np.array([0.5, 0.9]),
    observed=np.array([0.46, 0.88]),
    covered=0.88,
    cells=400,
    rows=30,
    revision=7,
)


def test_the_calibration_title_gives_the_coverage() -> None:
    assert calibration.title(HELD) == "90 % intervals cover 88 % of 400 hidden cells"
    (trace,) = calibration.figure(HELD).data
    assert (trace.x.tolist(), trace.y.tolist()) == ([0.5, 0.9], [0.46, 0.88])
    assert calibration.figure(HELD).layout.shapes[0].y1 == 1


def test_calibration_lists_the_interval_of_each_share() -> None:
    assert calibration.table(HELD).rows[1] == ("90 %", "88.0 %", "84.4 %–90.8 %")
    assert calibration.figure(HELD).data[0].error_y.arrayminus[1] == pytest.approx(0.036, abs=1e-3)


def test_a_missing_evaluation_is_named() -> None:
    nothing = np.zeros(0)
    waiting = calibration.Calibration(nothing, nothing, NAN, 0, 0, 7)
    too_small = replace(waiting, is_too_small=True)
    assert calibration.title(waiting) == "Intervals not checked yet"
    assert words_of(calibration.figure(waiting)) == ["Not checked yet"]
    assert calibration.title(too_small) == "Too few cells to check intervals"
    assert words_of(calibration.figure(too_small)) == ["Too few cells to hide any"]


# ---- errors by revision ----

ERRORS = revision_error.RevisionErrors(
    numbers=np.array([1, 2, 4]),
    average=np.array([0.1, 0.09, 0.06]),
    p50=np.array([0.08, 0.07, 0.05]),
    p90=np.array([0.21, 0.2, 0.14]),
    covered=np.array([0.9, 0.91, 0.88]),
    rows=np.array([28, 30, 34]),
    is_points=False,
    entries=2,
)


def test_the_error_title_compares_the_newest_with_the_first_revision() -> None:
    assert revision_error.title(ERRORS) == (
        "90 % of applications have a mean error below 14.0 %; revision 1: 21.0 %"
    )


def test_errors_of_scores_are_given_in_points() -> None:
    scores = replace(ERRORS, is_points=True)
    assert revision_error.title(scores).endswith("below 14 points; revision 1: 21 points")
    assert "points of 100" in revision_error.sub(scores)
    assert revision_error.figure(scores).layout.yaxis.ticktext == ("0", "10", "20")


def test_the_error_figure_has_three_labelled_lines() -> None:
    chart = revision_error.figure(ERRORS)
    assert len(chart.data) == 3
    assert {"p90 14.0 %", "average 6.0 %", "p50 5.0 %"} <= set(words_of(chart))
    assert chart.layout.xaxis.ticktext == ("1", "2", "4")


def test_the_newest_revision_is_listed_first() -> None:
    assert revision_error.table(ERRORS).rows[0] == (
        "4",
        "6.0 %",
        "5.0 %",
        "14.0 %",
        "88.0 %",
        "34",
    )


def test_a_single_revision_is_not_compared() -> None:
    single = replace(
        ERRORS,
        **{
            name: getattr(ERRORS, name)[:1]
            for name in ("numbers", "average", "p50", "p90", "covered", "rows")
        },
    )
    assert revision_error.title(single) == "90 % of applications have a mean error below 21.0 %"
    low, high = revision_error.figure(single).layout.xaxis.range
    assert (low, high) == (0.5, 1.5)


def test_missing_evaluations_show_a_sentence() -> None:
    nothing = np.zeros(0)
    none = revision_error.RevisionErrors(
        nothing.astype(int), nothing, nothing, nothing, nothing, nothing.astype(int), False, 0
    )
    assert revision_error.title(none) == "Not evaluated yet"
    assert words_of(revision_error.figure(none)) == ["Not evaluated yet"]
