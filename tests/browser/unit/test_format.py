"""Numbers, durations and counts as text."""

from typing import Any

import pytest

from apps.dashboard.core import formats
from tests.browser.unit.conftest import Script

NAN, INFINITY = float("nan"), float("inf")
CALL = "const module = await load('format.js'); return module[argument[0]](...argument[1]);"


@pytest.mark.parametrize(
    ("function", "arguments", "text"),
    [
        ("grouped", [0], "0"),
        ("grouped", [1234567.8], "1,234,568"),
        ("grouped", [-5], "−5"),
        ("grouped", [2, 1], "2.0"),
        ("counted", [0, "job"], "0 jobs"),
        ("counted", [1, "job"], "1 job"),
        ("counted", [1200, "job"], "1,200 jobs"),
        ("counted", [2, "loses", "lose"], "2 lose"),
        ("spelled", [0], "No"),
        ("spelled", [12], "Twelve"),
        ("spelled", [13], "13"),
        ("significant", [None], "–"),
        ("significant", [NAN], "–"),
        ("significant", [INFINITY], "∞"),
        ("significant", [0], "0"),
        ("significant", [0.0123456], "0.0123"),
        ("significant", [-1234.5], "−1,235"),
        ("significant", [1.5, 2], "1.5"),
        ("signed", [0], "0"),
        ("signed", [0.04, 1], "0.0"),
        ("signed", [-0.06, 1], "−0.1"),
        ("signed", [1200], "+1,200"),
        ("percent", [None], "–"),
        ("percent", [0.3333], "33.3 %"),
        ("percent", [1, 0], "100 %"),
        ("watts", [999.4], "999 W"),
        ("watts", [1000], "1.0 kW"),
        ("watts", [-2500], "−2.5 kW"),
        ("duration", [119], "1 min 59 s"),
        ("duration", [179.7], "3 min"),
        ("duration", [7199], "1 h 59 min"),
        ("clusterTime", [0], "day 1, 00:00"),
        ("clusterTime", [86399.9999], "day 1, 23:59"),
        ("clusterTime", [86400], "day 2, 00:00"),
        ("tickLabel", [0.5], ".5"),
        ("tickLabel", [-0.25], "−.25"),
        ("tickLabel", [10], "10"),
        ("tickLabel", [0], "0"),
        ("csv", [[]], ""),
        ("csv", [[["a", "b"], [1, 2]]], "a,b\r\n1,2"),
        ("csv", [[['say "no"', "x,y", "two\nlines"]]], '"say ""no""","x,y","two\nlines"'),
    ],
)
def test_values_are_formatted(js: Script, function: str, arguments: list[Any], text: str) -> None:
    assert js(CALL, [function, arguments]) == text


@pytest.mark.parametrize(
    "seconds",
    [
        *(0, 0.000048, 0.0009994, 0.0009996, 0.018, 0.5, 0.9994, 0.9996, 1, 1.26, 12.43),
        *(59.94, 59.96, 60, 119.6, 120, 125, 179.7, 3599.4, 3599.6, 3600, 5400, 7199, 7199.6),
        *(86_399.4, 86_399.6, 90_000, 172_799, 1e8),
    ],
)
def test_durations_are_those_of_the_pages_from_the_server(js: Script, seconds: float) -> None:
    assert js(CALL, ["duration", [seconds]]) == formats.duration(seconds)


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0, 1, [0, 0.25, 0.5, 0.75, 1]),
        (0.1, 0.9, [0.2, 0.4, 0.6, 0.8]),
        (-1, 1, [-1, -0.5, 0, 0.5, 1]),
        (0, 1000, [0, 250, 500, 750, 1000]),
    ],
)
def test_ticks_are_round_and_within_the_range(
    js: Script, low: float, high: float, expected: list[float]
) -> None:
    assert js(CALL, ["ticks", [low, high]]) == expected


def test_the_mean_of_one_value_is_that_value_and_of_none_is_nan(js: Script) -> None:
    assert js(CALL, ["mean", [[3]]]) == 3
    assert js(CALL, ["mean", [[1, 2, 6]]]) == 3
    empty = js(CALL, ["mean", [[]]])
    assert empty != empty  # noqa: PLR0124  (NaN)
