"""Figures of one application: filled = measured, hollow = inferred, diamond = overridden."""

import math
from dataclasses import replace

import numpy as np
import plotly.graph_objects as go
import pytest

from apps.classification.core.cells import Source
from apps.classification.core.matrix import MatrixName
from apps.dashboard.figures import (
    interference,
    marks,
    platform_speed,
    prediction_error,
    scale_curve,
    setting_speed,
    theme,
)
from apps.dashboard.figures.marks import MatrixRow
from tests.dashboard.profile_parts import CAUSED, OUT, PLATFORMS, TOLERATED, UP, row

NOTHING = MatrixRow("web", "batch", ())


def words_of(figure: go.Figure) -> list[str]:
    return [note.text for note in figure.layout.annotations]


def marked(figure: go.Figure) -> list[go.Scatter]:
    """Traces of marks, in order of source."""
    return [trace for trace in figure.data if trace.mode == "markers"]


# ---- marks ----


def test_measured_is_filled_and_inferred_hollow() -> None:
    measured, inferred = marked(scale_curve.figure(UP))
    assert (measured.marker.color, len(measured.y)) == (theme.ACCENT, 5)
    assert (inferred.marker.color, len(inferred.y)) == (theme.GROUND, 1)
    assert inferred.marker.line.color == theme.ACCENT


def test_overridden_cells_are_diamonds() -> None:
    cells = (replace(UP.cells[0], source=Source.OVERRIDE), *UP.cells[1:])
    symbols = [
        trace.marker.symbol for trace in marked(scale_curve.figure(replace(UP, cells=cells)))
    ]
    assert symbols == ["circle", "circle", "diamond"]


def test_whiskers_reach_from_the_low_to_the_high_end() -> None:
    (trace, _) = marked(scale_curve.figure(UP))
    assert trace.error_y.array[1] == pytest.approx(UP.cells[1].high - UP.cells[1].value)
    assert trace.error_y.arrayminus[1] == pytest.approx(UP.cells[1].value - UP.cells[1].low)


def test_hovering_a_mark_shows_value_interval_and_source() -> None:
    (measured, inferred) = marked(scale_curve.figure(UP))
    assert measured.customdata[1] == (
        "<b>2.00 ×</b> 2 units<br>90 % interval 1.90–2.10 ×<br>measured, 8 samples, day 1, 01:00"
    )
    assert inferred.customdata[0].endswith("<br>inferred")


def test_cells_are_counted_by_source() -> None:
    assert marks.counted(UP.cells) == "5 measured, 1 inferred"


# ---- scaling ----


def test_the_scale_up_title_gives_the_last_size() -> None:
    assert scale_curve.title(UP) == "32 units of a server do the work of 18.1, 57 % of linear"
    assert scale_curve.figure(UP).layout.xaxis.title.text == "units of one server (log)"
    assert scale_curve.figure(UP).layout.yaxis.type == "log"


def test_scale_out_is_an_efficiency() -> None:
    chart = scale_curve.figure(OUT)
    assert scale_curve.title(OUT) == "On 32 servers, each reaches 61 % of its speed alone"
    assert chart.layout.xaxis.title.text == "servers (log)"
    assert chart.layout.yaxis.range == (0, 1.12)
    assert "efficiency" in words_of(chart)


def test_a_curve_lists_every_point() -> None:
    assert scale_curve.table(OUT).rows[-1] == (
        "32 servers",
        "61 %",
        "58–64 %",
        "inferred",
        "–",
    )


# ---- platforms ----


def test_platforms_are_ordered_by_speed() -> None:
    chart = platform_speed.figure(PLATFORMS)
    assert chart.layout.yaxis.ticktext == ("B", "J", "A")
    assert platform_speed.title(PLATFORMS) == "B is 3 × as fast as A"


def test_only_the_table_lists_the_slowest_of_many_platforms() -> None:
    many = tuple(
        replace(PLATFORMS.cells[0], column=f"p{i:02d}", value=1.0 - 0.01 * i) for i in range(40)
    )
    data = MatrixRow("web", "batch", many)
    assert len(platform_speed.figure(data).layout.yaxis.tickvals) == platform_speed.MAX_ROWS
    assert "the 24 slowest are in the table only" in platform_speed.sub(data)
    assert len(platform_speed.table(data).rows) == 40


def test_a_single_platform_is_named_as_the_only_one() -> None:
    assert (
        platform_speed.title(MatrixRow("web", "batch", PLATFORMS.cells[:1]))
        == "J is the only platform"
    )


# ---- settings ----

SETTINGS = row(MatrixName.FRAMEWORK, ("1x1GB", "2x0.5GB", "4x2GB+lz4"), [1.0, 0.8, 1.32])


def test_the_title_names_the_fastest_setting() -> None:
    assert setting_speed.title(SETTINGS) == (
        "1.32 × the default with 4 tasks a core, 2 GB heap each, compressed"
    )
    chart = setting_speed.figure(SETTINGS)
    assert chart.layout.yaxis.ticktext == ("4x2GB+lz4", "1x1GB", "2x0.5GB")
    assert chart.layout.xaxis.ticktext == ("0", "0.5", "1 ×")


def test_the_title_says_if_no_setting_beats_the_default() -> None:
    slower = replace(SETTINGS, cells=SETTINGS.cells[:2])
    assert setting_speed.title(slower).startswith(
        "No setting is clearly faster than the default, 1 task"
    )


def test_applications_without_settings_show_a_sentence() -> None:
    assert setting_speed.sub(NOTHING) == "Only analytics applications have framework settings"


# ---- interference ----

BOTH = interference.Interference(TOLERATED, CAUSED)


def test_the_interference_title_names_the_main_resources() -> None:
    assert interference.title(BOTH) == (
        "Most sensitive to L1-instruction pressure, from 35 %; "
        "causes mostly memory-bandwidth pressure, 62 %"
    )


def test_interference_has_a_panel_for_each_with_its_own_axis() -> None:
    chart = interference.figure(BOTH)
    assert [trace.type for trace in chart.data] == [
        "bar", "scatter", "scatter", "bar", "scatter", "scatter",
    ]  # fmt: skip
    assert {trace.xaxis for trace in chart.data[3:]} == {"x2"}


def test_interference_lists_all_ten_sources() -> None:
    rows = interference.table(BOTH).rows
    assert len(rows) == 10
    assert rows[1] == (
        "Memory bandwidth", "41 %", "39–43 %", "measured", "62 %", "59–65 %", "measured",
    )  # fmt: skip


# ---- prediction errors ----


def errors(
    ratio: list[float], *, flagged_s: float = math.nan
) -> prediction_error.PredictionErrors:
    return prediction_error.PredictionErrors(
        application="web",
        times_s=np.arange(len(ratio), dtype=np.float64) * 60.0,
        ratio=np.array(ratio),
        deviation=np.full(len(ratio), 0.1),
        jobs=tuple(f"web-{i}" for i in range(len(ratio))),
        flagged_s=flagged_s,
    )


def test_the_title_says_if_predictions_are_unbiased() -> None:
    assert prediction_error.title(errors([0.95, 1.0, 1.05, 1.1, 0.92])) == (
        "Half of 5 predictions were off by at most 5.0 %, without bias"
    )


def test_the_title_gives_the_direction_of_a_bias() -> None:
    assert prediction_error.title(errors([0.8, 0.8, 0.81])).endswith(
        "jobs run 20 % slower than predicted"
    )


def test_after_drift_the_title_covers_the_time_since() -> None:
    data = errors([1.0] * 20 + [1.5] * 5, flagged_s=1200.0)
    assert (
        prediction_error.title(data) == "Since day 1, 00:20, jobs run 50 % faster than predicted"
    )
    assert "▲ drift" in words_of(prediction_error.figure(data))


def test_the_band_is_the_error_expected_by_the_profiles() -> None:
    (line, band) = prediction_error.figure(errors([1.0, 1.02])).layout.shapes
    assert (line.y0, line.y1) == (1, 1)
    assert band.y1 == pytest.approx(math.exp(1.6449 * 0.1), abs=1e-4)
    assert band.y0 == pytest.approx(1 / band.y1)


def test_few_observations_have_no_moving_median() -> None:
    assert len(prediction_error.figure(errors([1.0] * 9)).data) == 1
    assert len(prediction_error.figure(errors([1.0] * 10)).data) == 2


def test_the_newest_observation_is_listed_first() -> None:
    assert prediction_error.table(errors([1.0, 1.2])).rows[0][:3] == (
        "web-1", "day 1, 00:01", "1.20",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("module", "data", "sentence"),
    [
        (scale_curve, NOTHING, "Scaling not known yet"),
        (platform_speed, NOTHING, "Platform speeds not known yet"),
        (setting_speed, NOTHING, "Framework settings not known yet"),
        (
            interference,
            interference.Interference(NOTHING, NOTHING),
            "Interference not known yet",
        ),
        (prediction_error, errors([]), "No prediction has been compared yet"),
    ],
)
def test_an_application_without_a_profile_has_axes_and_a_sentence(
    module: object, data: object, sentence: str
) -> None:
    chart = module.figure(data)  # type: ignore[attr-defined]  # a module of figures
    assert module.title(data) == sentence  # type: ignore[attr-defined]  # a module of figures
    assert [trace for trace in chart.data if trace.mode == "markers"] == []
    assert len(words_of(chart)) >= 1
    assert module.table(data).rows == ()  # type: ignore[attr-defined]  # a module of figures
