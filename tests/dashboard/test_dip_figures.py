import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import plotly.graph_objects as go
import pytest

from apps.dashboard.figures import dip, dip_pressure
from apps.dashboard.figures.dip import DipTimeline, Lane
from apps.dashboard.figures.dip_pressure import DipPressure

LANES = (
    Lane("srv-0212", "shuffle-88", 8, 1, ((600.0, math.inf),)),
    Lane("srv-0212", "etl-40", 1, 0, ((-50.0, 300.0),)),
)
TIMELINE = DipTimeline(
    times_s=np.array([0.0, 300.0, 600.0, 900.0]),
    performance=np.array([0.04, 0.042, 0.062, 0.06]),
    attainment=np.array([1.0, 1.0, 0.8, 0.83]),
    target_kind="throughput_latency",
    target=0.05,
    dip=(600.0, 900.0),
    is_open=True,
    lanes=LANES,
    changed_s=(450.0,),
)
POINTS = np.full(10, 30.0)
PRESSURE = DipPressure(
    before=POINTS,
    at_dip=np.array([30.0, 30.0, 30.0, 68.0, *[30.0] * 6]),
    tolerated=np.full(10, 52.0),
    low=np.full(10, 48.0),
    high=np.full(10, 56.0),
)
NOTHING = np.full(10, np.nan)
NONE = np.empty(0)
EMPTY = DipTimeline(NONE, NONE, NONE, "ips", 1.0, None, is_open=False, lanes=(), changed_s=())


def words(figure: go.Figure) -> str:
    return " ".join(note.text for note in figure.layout.annotations)


def test_the_title_names_the_worst_performance_in_the_unit_of_the_target() -> None:
    assert dip.title(TIMELINE) == "Below target since 00:10:00: 62 ms at worst, target 50 ms"
    over = replace(TIMELINE, is_open=False)
    assert dip.title(over) == "Below target for 5 min from 00:10:00: 62 ms at worst, target 50 ms"


def test_neighbours_are_bars_on_the_axis_of_the_performance() -> None:
    figure = dip.figure(TIMELINE)
    bars = next(trace for trace in figure.data if trace.type == "bar")
    assert list(bars.base) == [600.0, 0.0]
    assert list(bars.x) == [300.0, 300.0]
    assert "1. shuffle-88, 8 units of srv-0212" in words(figure)
    assert "units added or moved" in words(figure)
    assert figure.layout.yaxis.ticktext[0] == "0"
    assert figure.layout.yaxis.ticktext[-1].endswith("ms")


def test_a_value_far_off_the_axis_is_cut() -> None:
    late = replace(TIMELINE, performance=np.array([0.04, 0.042, 10.0, 10.0]))
    figure = dip.figure(late)
    assert max(figure.data[-1].y) == pytest.approx(0.15)
    assert "10 s at worst" in dip.title(late)
    marks = next(trace for trace in figure.select_traces({"mode": "markers"}))
    assert (list(marks.x), list(marks.customdata)) == ([600.0, 900.0], ["10 s", "10 s"])
    assert "▲ above the axis, up to 10 s" in words(figure)


def test_the_axis_shows_a_curve_that_is_nowhere_near_the_target() -> None:
    figure = dip.figure(replace(TIMELINE, performance=np.array([0.4, 0.5, 0.6, 0.4])))
    assert figure.layout.yaxis.range == pytest.approx((0.0, 0.66))
    assert "above the axis" not in words(figure)


def test_changes_of_units_close_to_each_other_share_a_label() -> None:
    figure = dip.figure(replace(TIMELINE, changed_s=(100.0, 110.0, 450.0, 460.0, 800.0)))
    labels = [n.x for n in figure.layout.annotations if n.text == "▲ units added or moved"]
    assert labels == [100.0, 450.0, 800.0]
    assert (
        sum(shape.line.dash == "dot" and shape.x0 == 460.0 for shape in figure.layout.shapes) == 1
    )


def test_values_on_the_axis_have_no_mark() -> None:
    assert list(dip.figure(TIMELINE).select_traces({"mode": "markers"})) == []
    assert "above the axis" not in words(dip.figure(TIMELINE))


def test_lanes_that_are_not_shown_are_counted_in_a_lane_of_their_own() -> None:
    lanes = tuple(replace(LANES[1], name=f"job-{i}") for i in range(12))
    figure = dip.figure(replace(TIMELINE, lanes=lanes))
    count = next(n for n in figure.layout.annotations if n.text == "3 more in the table")
    assert (count.yref, count.y) == ("y2", 9)
    assert list(figure.layout.yaxis2.range) == [9.5, -0.5]


def test_a_duration_axis_has_round_ticks() -> None:
    hours = np.array([3000.0, 9000.0, 9000.0, 9000.0])
    slow = replace(TIMELINE, target_kind="completion_time", target=3000.0, performance=hours)
    assert list(dip.figure(slow).layout.yaxis.ticktext) == [
        *("0", "30 min", "1 h", "1 h 30 min", "2 h", "2 h 30 min"),
    ]


def test_a_job_without_a_dip_or_reports_has_axes_and_a_sentence() -> None:
    assert dip.title(EMPTY) == "No reports yet"
    assert "No reports yet" in words(dip.figure(EMPTY))
    fine = replace(TIMELINE, dip=None, lanes=())
    assert dip.title(fine) == "The job has met its target in all its reports"
    assert "No other job on its servers" in words(dip.figure(fine))


def test_the_table_lists_neighbours_and_reports() -> None:
    rows = dip.table(TIMELINE).rows
    assert rows[0] == ("1. shuffle-88, 8 units of srv-0212", "00:10:00", "until now", "–")
    assert rows[2][0] == "60 ms"


def test_the_crossed_resource_is_named() -> None:
    title = "LLC bandwidth crossed: 68 points, 52 tolerated; nine resources stayed within"
    assert dip_pressure.title(PRESSURE) == title
    assert "68 of 52" in words(dip_pressure.figure(PRESSURE))
    calm = replace(PRESSURE, at_dip=POINTS)
    assert dip_pressure.title(calm) == (
        "Pressure stays within what the job tolerates in all ten resources"
    )


def test_pressure_without_a_dip_or_a_profile_is_empty_or_unjudged() -> None:
    none = DipPressure(NOTHING, NOTHING, NOTHING, NOTHING, NOTHING)
    assert dip_pressure.title(none) == "No dip, no pressure to compare"
    assert words(dip_pressure.figure(none)) == "No dip"
    unknown = replace(PRESSURE, tolerated=NOTHING, low=NOTHING, high=NOTHING)
    assert not unknown.crossed.any()
    assert dip_pressure.title(unknown) == "Without a profile, what the job tolerates is unknown"
    assert dip_pressure.table(unknown).rows[3][3:] == ("–", "–", "–")


@pytest.mark.parametrize(
    "figure", [dip.figure(TIMELINE), dip_pressure.figure(PRESSURE)], ids=["dip", "pressure"]
)
def test_colours_are_tokens_and_texts_need_no_inline_style(figure: go.Figure) -> None:
    tokens = Path("static/berth/css/tokens.css").read_text(encoding="utf-8")
    used = set(re.findall(r"var\(--([a-z0-9-]+)", figure.to_json()))
    assert used <= set(re.findall(r"--([a-z0-9-]+):", tokens))
    assert not re.search(r"<(b|i|sup|sub|span)\b", figure.to_json())
