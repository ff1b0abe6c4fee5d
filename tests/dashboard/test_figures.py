"""Titles, traces and empty states of figures."""

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import plotly.graph_objects as go
import pytest

from apps.common.core.interference import N_SOURCES
from apps.dashboard.figures import (
    attainment,
    bars,
    decision_latency,
    performance,
    power,
    pressure,
    quality_cdf,
    queue,
    server_history,
    theme,
    utilisation,
)
from tests.dashboard.test_bars import JOBS

NOTHING = np.zeros(0)

TIMES = np.array([0.0, 60.0, 120.0])


def words_of(figure: go.Figure) -> list[str]:
    return [note.text for note in figure.layout.annotations]


# ---- utilisation ----

ROWS = utilisation.Utilisation(
    times_s=TIMES,
    used=np.array([[0.1, 0.2, 0.3], [0.9, np.nan, np.nan], [0.8, np.nan, np.nan]]),
    platforms=(
        utilisation.PlatformRows("A", 1, 1, 0.3, 0.2, 0.3),
        utilisation.PlatformRows("B", 2, 2, math.nan, 0.85, 0.9),
    ),
    cluster_used=np.array([0.4, 0.3, 0.3]),
    cluster_allocated=np.array([0.5, 0.5, 0.6]),
    used_now=0.3,
    allocated_now=0.6,
    servers=3,
    servers_per_row=1,
    column_s=60.0,
    row_names=("a", "b", "c"),
)


def test_utilisation_has_two_lines_a_heatmap_and_the_hatch() -> None:
    figure = utilisation.figure(ROWS)
    assert [trace.type for trace in figure.data] == ["scatter", "scatter", "heatmap", "scatter"]


def test_utilisation_is_drawn_if_no_server_reports_now() -> None:
    silent = replace(ROWS, used_now=math.nan)
    texts = [note.text for note in utilisation.figure(silent).layout.annotations]
    assert "allocated 60 %" in texts
    assert not [text for text in texts if text.startswith("used")]


def test_utilisation_merges_neighbouring_missing_rows() -> None:
    assert utilisation.missing_boxes(ROWS) == [(30.0, 150.0, 1, 3)]


def test_utilisation_names_the_busiest_platform_that_reports() -> None:
    assert utilisation.title(ROWS) == (
        "30 % of the cores are in use, 60 % allocated; platform A is busiest at 30 %"
    )


def test_utilisation_without_frames_shows_a_sentence() -> None:
    empty = utilisation.Utilisation(
        NOTHING, np.zeros((0, 0)), (), NOTHING, NOTHING, math.nan, math.nan, 0, 1, 60.0, ()
    )
    assert utilisation.title(empty) == "No server has reported yet"
    assert len(utilisation.figure(empty).data) == 0
    assert "No server has reported yet" in words_of(utilisation.figure(empty))[0]


# ---- attainment ----

MET = attainment.Attainment(
    (
        attainment.KindAttainment("ips", np.array([1.1, 1.2])),
        attainment.KindAttainment("throughput_latency", np.array([0.8, 0.9, 1.3])),
    ),
    "now",
)


def test_attainment_counts_what_is_below_one() -> None:
    assert (MET.jobs, MET.missed) == (5, 2)
    assert (
        attainment.title(MET)
        == "60.0 % of jobs meet their target; the misses are mostly queries/s"
    )


def test_exactly_the_target_is_met() -> None:
    assert attainment.KindAttainment("ips", np.array([1.0])).missed == 0


def test_attainment_draws_one_line_per_kind() -> None:
    assert len(attainment.figure(MET).data) == 2


@pytest.mark.parametrize(
    ("ratios", "ticks"),
    [
        ([0.8, 1.3], ["0.5", "0.7", "1", "1.4", "2"]),
        ([0.3, 0.4, 1.0], ["0.2", "0.5", "1", "2"]),
        ([1.0, 9.0, 9.5, 9.9], ["0.5", "1", "2", "5", "10"]),
        ([0.04, 0.5, 30.0, 900.0], ["0.1", "1", "10", "100"]),
    ],
    ids=["near", "missed", "met", "far"],
)
def test_attainment_has_most_jobs_on_its_axis(ratios: list[float], ticks: list[str]) -> None:
    data = attainment.Attainment((attainment.KindAttainment("ips", np.array(ratios)),), "now")
    axis = attainment.figure(data).layout.xaxis
    assert list(axis.ticktext) == ticks


def test_attainment_without_jobs_shows_a_sentence() -> None:
    empty = attainment.Attainment((), "now")
    assert words_of(attainment.figure(empty)) == ["No measurement yet"]
    assert attainment.table(empty).rows == ()


# ---- queue ----

QUEUE = queue.QueueByReason(
    TIMES,
    (
        queue.ReasonQueue("LocalityShort", "too far apart", np.array([1.0, 2, 19]), 19, 52, 161),
        queue.ReasonQueue("Held", "held", np.array([0.0, 0, 1]), 1, math.nan, math.nan),
    ),
)


def test_queue_names_the_most_common_reason() -> None:
    assert queue.title(QUEUE) == "20 jobs waiting, 19 of them: too far apart"
    same = replace(QUEUE, reasons=tuple(r for r in QUEUE.reasons if r.now == 19))
    assert queue.title(same) == "19 jobs waiting, reason: too far apart"


def test_queue_table_lists_waiting_times() -> None:
    assert queue.table(QUEUE).rows == (
        ("too far apart", "19", "52 s", "2 min 41 s"),
        ("held", "1", "–", "–"),
    )


def test_queue_without_jobs_shows_a_sentence() -> None:
    empty = queue.QueueByReason(TIMES, ())
    assert queue.title(empty) == "No jobs waiting"
    assert words_of(queue.figure(empty)) == ["No jobs waiting"]


# ---- decision latency ----

LATENCY = decision_latency.DecisionLatency(
    times_s=TIMES,
    p50_s=np.array([0.00005, np.nan, 0.00006]),
    p95_s=np.array([0.00008, np.nan, 0.00009]),
    p99_s=np.array([0.0001, np.nan, 0.00018]),
    conflicts=np.array([0.0, 0, 2]),
    counts=np.array([10.0, 0, 12]),
    now_p50_s=0.000055,
    now_p95_s=0.000085,
    now_p99_s=0.00016,
    agents=2,
)


def test_latency_title_gives_p99_and_conflicts() -> None:
    assert decision_latency.title(LATENCY) == "99 % of decisions within 160 µs; 2 commit conflicts"


def test_latency_draws_three_percentiles_and_the_conflicts() -> None:
    figure = decision_latency.figure(LATENCY)
    assert [trace.type for trace in figure.data] == ["scatter", "scatter", "scatter", "bar"]
    assert figure.layout.yaxis.type == "log"
    assert "ms (log)" in words_of(figure)


def test_latency_without_decisions_shows_a_sentence() -> None:
    none = decision_latency.DecisionLatency(
        TIMES, TIMES * np.nan, TIMES * np.nan, TIMES * np.nan, TIMES * 0, TIMES * 0,
        math.nan, math.nan, math.nan, 0,
    )  # fmt: skip
    assert decision_latency.title(none) == "No decisions in this range"
    assert words_of(decision_latency.figure(none)) == ["No decisions yet"]


# ---- power ----


def test_power_title_gives_the_change() -> None:
    data = power.Power(TIMES, np.array([1000.0, 900, 890]), 500, 2000, 9, 10)
    assert power.title(data) == "The cluster draws 890 W, −11 % over the range"
    assert len(power.figure(data).layout.shapes) == 2


def test_power_without_readings_shows_a_sentence() -> None:
    empty = power.Power(NOTHING, NOTHING, 0, 0, 0, 0)
    assert power.title(empty) == "No power reading yet"
    assert power.table(empty).rows == ()
    assert words_of(power.figure(empty)) == ["No power reading yet"]


# ---- sampling quality ----


def test_distance_to_the_promise_of_a_perfect_sample_is_half_a_step() -> None:
    n = 100
    ranks = ((np.arange(n) + 0.5) / n) ** (1 / 8)
    assert quality_cdf.largest_distance(ranks, 8) == pytest.approx(0.5 / n)


def test_distance_of_a_sampler_that_never_finds_the_best_is_large() -> None:
    assert quality_cdf.largest_distance(np.full(50, 0.5), 8) > 0.9


def test_limit_falls_with_the_root_of_the_sample() -> None:
    assert quality_cdf.kolmogorov_limit(10_000) == pytest.approx(0.01358)
    assert quality_cdf.kolmogorov_limit(0) == 1.0


def test_quality_title_compares_the_distance_with_the_limit() -> None:
    ranks = np.linspace(0.5, 1, 50)
    data = quality_cdf.QualityCdf(8, ranks, ranks, 50, 0.2, 0.19, 0.8, "Live decisions")
    assert (
        quality_cdf.title(data)
        == "R = 8: the measured rank deviates from x⁸, largest distance 0.200"
    )
    assert data.promised == pytest.approx(0.1678, abs=1e-4)


def test_quality_without_ranks_draws_the_promise_only() -> None:
    data = quality_cdf.QualityCdf(16, NOTHING, NOTHING, 0, math.nan, 1.0, 0.8, "Live decisions")
    figure = quality_cdf.figure(data)
    assert len(figure.data) == 2
    assert "No rank has been measured yet" in words_of(figure)


# ---- performance ----

RUN = performance.PerformanceHistory(
    times_s=TIMES,
    attainment=np.array([0.9, 1.0, 1.1]),
    progress=np.array([0.1, 0.2, 0.3]),
    cpu=np.array([0.8, 0.7, 0.9]),
    performance=np.array([660.0, 600, 545]),
    target_kind="completion_time",
    predicted=1.05,
    predicted_low=0.95,
    predicted_high=1.15,
    moments=(performance.Moment(0.0, "started"),),
)


def test_performance_counts_the_reports_that_met_the_target() -> None:
    assert performance.title(RUN) == "1.1 × its target at the last report; met in 2 of 3 reports"


def test_performance_of_best_effort_shows_progress() -> None:
    run = performance.PerformanceHistory(
        TIMES, TIMES * np.nan, np.array([0.1, 0.2, 0.3]), TIMES, TIMES, "best_effort",
        math.nan, math.nan, math.nan, (),
    )  # fmt: skip
    assert performance.title(run) == "30 % of the work done"
    assert "work done" in words_of(performance.figure(run))


def test_performance_of_a_command_without_progress_shows_what_it_uses() -> None:
    run = performance.PerformanceHistory(
        TIMES, TIMES * np.nan, TIMES * np.nan, np.array([0.1, 0.2, 0.75]), TIMES * np.nan,
        "completion_time", math.nan, math.nan, math.nan, (),
        run_wait=np.array([0.1, np.nan, 0.2]), blocked=np.array([0.5, np.nan, 0.3]),
        memory_bytes=np.array([1e6, np.nan, 2e6]),
    )  # fmt: skip
    assert performance.title(run) == "75 % of its cores in use"
    assert "reports no progress" in performance.sub(run)
    assert performance.table(run).rows[0][1:] == ("–", "–", "–", "75 %", "20 %", "30 %", "2 MB")
    assert performance.table(run).rows[1][-3:] == ("–", "–", "–")
    assert len(performance.figure(run).data) == 3


def test_performance_without_reports_shows_a_sentence() -> None:
    none = performance.PerformanceHistory(
        NOTHING, NOTHING, NOTHING, NOTHING, NOTHING, "ips", math.nan, math.nan, math.nan, ()
    )
    assert performance.title(none) == "No reports yet"
    assert len(performance.figure(none).data) == 0


# ---- pressure ----


def test_pressure_title_names_the_exceeded_resource() -> None:
    caused = np.full(N_SOURCES, 10.0)
    caused[2] = 60.0
    data = pressure.Pressure(caused, np.full(N_SOURCES, 40.0), ("web",) * N_SOURCES, "srv-1", 2)
    assert (
        pressure.title(data) == "LLC capacity pressure exceeds the tolerance of web by 20 points"
    )
    assert "exceeded" in words_of(pressure.figure(data))


def test_pressure_of_an_empty_server() -> None:
    data = pressure.Pressure(
        np.zeros(N_SOURCES), np.full(N_SOURCES, np.nan), ("",) * N_SOURCES, "srv-1", 0
    )
    assert pressure.title(data) == "No job on srv-1, no pressure"
    assert pressure.figure(data).data[0].type == "bar"


# ---- server history ----


def test_server_history_has_gaps_for_missing_reports() -> None:
    data = server_history.ServerHistory(
        "srv-1", TIMES, np.array([0.2, np.nan, 0.4]), np.array([0.5, 0.5, 0.5])
    )
    assert server_history.title(data) == (
        "40 % of its cores are in use, 30 % on average over the range"
    )


def test_server_history_without_frames() -> None:
    data = server_history.ServerHistory("srv-1", NOTHING, NOTHING, NOTHING)
    assert words_of(server_history.figure(data)) == ["No data yet"]


# ---- theme ----


def test_labels_at_line_ends_keep_their_distance() -> None:
    labels = [("a", 1.0, "x", False), ("b", 1.01, "x", False), ("c", 1.02, "x", True)]
    placed = theme.end_labels(labels, x=0, pixels_per_unit=100)
    pixels = [label["y"] * 100 + label["yshift"] for label in placed]
    assert np.diff(pixels).min() >= 12.5


def test_time_ticks_are_round() -> None:
    axis = theme.time_axis(1000, 50_000, ticks=5)
    assert axis["ticktext"] == ["03:00", "06:00", "09:00", "12:00"]


def test_a_range_of_no_length_still_has_an_axis() -> None:
    assert theme.time_axis(5, 5)["range"] == [5, 6]


TOKENS = Path("static/berth/css/tokens.css").read_text(encoding="utf-8")
DRAWN = [
    utilisation.figure(ROWS),
    attainment.figure(MET),
    queue.figure(QUEUE),
    decision_latency.figure(LATENCY),
    performance.figure(RUN),
    bars.figure(JOBS),
]


@pytest.mark.parametrize("figure", DRAWN)
def test_every_colour_is_a_token_of_the_style_sheet(figure: go.Figure) -> None:
    used = set(re.findall(r"var\(--([a-z0-9-]+)", figure.to_json()))
    known = set(re.findall(r"--([a-z0-9-]+):", TOKENS))
    assert used
    assert used <= known


@pytest.mark.parametrize("figure", DRAWN)
def test_figures_hold_no_markup_that_needs_inline_styles(figure: go.Figure) -> None:
    assert not re.search(r"<(b|i|sup|sub|span)\b", figure.to_json())


def test_the_chart_theme_has_both_modes() -> None:
    both = json.loads(Path("static/berth/theme.json").read_text(encoding="utf-8"))
    assert {"light", "dark", "config"} <= both.keys()
