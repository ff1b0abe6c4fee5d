import math

import pytest

from apps.dashboard.core.gauge import Gauge, gauge
from apps.dashboard.templatetags.drawings import gauge as drawn

UNKNOWN = (math.nan, math.nan, math.nan)
LATENCY = {"kind": "throughput_latency", "qps": 100.0, "latency_seconds": 0.05, "percentile": 99}
TIME = {"kind": "completion_time", "seconds": 600.0}
RATE = {"kind": "ips", "ips": 2e9}


def of(target: dict[str, object], performance: float | None, attainment: float | None) -> Gauge:
    shown = gauge(target, performance=performance, attainment=attainment, predicted=UNKNOWN)
    assert shown is not None
    return shown


def test_the_axis_is_in_the_unit_of_the_target() -> None:
    shown = of(LATENCY, 0.03, 1.0)
    places, texts = zip(*shown.ticks, strict=True)
    assert texts == ("0", "25 ms", "50 ms", "75 ms")
    assert places == pytest.approx((0.0, 1 / 3, 2 / 3, 1.0))
    assert shown.target == pytest.approx(2 / 3)
    assert shown.value == pytest.approx(0.4)


def test_a_service_shows_its_headroom_although_its_attainment_stops_at_1() -> None:
    assert of(LATENCY, 0.03, 1.0).headroom == "headroom 20 ms, 40 % of the target"
    assert of(LATENCY, 0.048, 1.0).headroom == "headroom 2 ms, 4 % of the target"


@pytest.mark.parametrize(
    ("target", "performance", "attainment", "text"),
    [
        (LATENCY, 0.062, 0.81, "12 ms over the target, 24 % of it"),
        (TIME, 540.0, 1.11, "headroom 1 min, 10 % of the target"),
        (TIME, 660.0, 0.91, "1 min over the target, 10 % of it"),
        (RATE, 2.5e9, 1.25, "headroom 500 M instr./s, 25 % of the target"),
        (RATE, 1.5e9, 0.75, "500 M instr./s below the target, 25 % of it"),
        (TIME, math.inf, 0.0, "makes no progress"),
        (TIME, None, None, ""),
    ],
)
def test_the_distance_from_the_target_is_named(
    target: dict[str, object], performance: float | None, attainment: float | None, text: str
) -> None:
    assert of(target, performance, attainment).headroom == text


def test_a_service_that_answers_too_few_queries_does_not_show_headroom() -> None:
    text = of(LATENCY, 0.03, 0.83).headroom
    assert text == "within the latency, but answers only 83 % of the load"


def test_the_axis_grows_with_the_measurement_up_to_three_targets() -> None:
    assert of(TIME, 1000.0, 0.6).target == pytest.approx(600 / 1100)
    far = of(TIME, 9000.0, 0.07)
    assert far.target == pytest.approx(1 / 3)
    assert far.is_beyond
    assert far.value == 1.0


def test_best_effort_has_no_gauge() -> None:
    assert gauge({"kind": "best_effort"}, performance=1.0, attainment=None, predicted=UNKNOWN) is (
        None
    )


def test_the_drawing_names_measurement_target_and_headroom() -> None:
    shown = gauge(LATENCY, performance=0.03, attainment=1.0, predicted=(0.035, 0.03, 0.04))
    assert shown is not None
    svg = drawn(shown)
    assert 'aria-label="30 ms; target 50 ms; headroom 20 ms, 40 % of the target"' in svg
    assert ">75 ms</text>" in svg
    assert ">predicted</text>" in svg


def test_the_drawing_marks_what_lies_beyond_the_axis() -> None:
    shown = gauge(TIME, performance=9000.0, attainment=0.07, predicted=(6000.0, 5000.0, 7000.0))
    assert shown is not None
    svg = drawn(shown)
    assert ">predicted 1 h 40 min ▸</text>" in svg
    assert 'd="M400 37l-10 -9v18z"' in svg  # outside of the bar, which ends at 392


@pytest.mark.parametrize("top", [0.075, 0.9, 1.5, 6.0, 9.9, 10.0, 3e9])
def test_the_axis_has_three_to_six_ticks(top: float) -> None:
    ticks = of({"kind": "ips", "ips": top / 1.5}, top / 3, 0.5).ticks
    assert 4 <= len(ticks) <= 7
