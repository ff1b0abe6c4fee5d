import math
import re
from importlib import import_module
from pathlib import Path

import pytest

from apps.common.core.intervals import wilson
from apps.dashboard.core import formats, labels
from apps.dashboard.core.ranges import time_range


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.000048, "48 µs"),
        (0.018, "18 ms"),
        (0.5, "500 ms"),
        (1, "1 s"),
        (12.43, "12.4 s"),
        (59.94, "59.9 s"),
        (59.96, "1 min"),
        (161, "2 min 41 s"),
        (4980, "1 h 23 min"),
        (86_400, "1 d"),
        (90_000, "1 d 1 h"),
        (-5, "−5 s"),
        (math.nan, "–"),
        (math.inf, "never"),
    ],
)
def test_durations_have_the_two_largest_units(seconds: float, text: str) -> None:
    assert formats.duration(seconds) == text


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (55_400, "W", "55.4 kW"),
        (20_000, "queries/s", "20 k queries/s"),
        (1.2e9, "instr./s", "1.2 G instr./s"),
        (950, "W", "950 W"),
        (0, "W", "0 W"),
    ],
)
def test_quantities_carry_a_prefix_before_their_unit(value: float, unit: str, text: str) -> None:
    assert formats.quantity(value, unit) == text


@pytest.mark.parametrize(
    ("target", "text"),
    [
        ({"kind": "completion_time", "seconds": 600}, "done within 10 min"),
        (
            {
                "kind": "throughput_latency",
                "qps": 20_000,
                "latency_seconds": 0.01,
                "percentile": 99,
            },
            "20 k queries/s, p99 ≤ 10 ms",
        ),
        ({"kind": "ips", "ips": 1.2e9}, "1.2 G instr./s"),
        ({"kind": "best_effort"}, "best effort"),
    ],
)
def test_targets_read_as_sentences(target: dict[str, object], text: str) -> None:
    assert formats.target_text(target) == text


@pytest.mark.parametrize(
    ("value", "text"), [(14.2, "+14"), (-7.4, "−7"), (0.2, "0"), (math.nan, "–")]
)
def test_signed_numbers_use_a_real_minus(value: float, text: str) -> None:
    assert formats.signed(value) == text


def test_unknown_reasons_are_shown_as_they_are() -> None:
    assert labels.reason_text("BrandNew") == "BrandNew"


def test_cluster_time_starts_with_day_one() -> None:
    assert formats.cluster_day(0.0) == "day 1, 00:00"
    assert formats.cluster_day(86_400 + 3_660) == "day 2, 01:01"


def test_wilson_interval_without_trials_is_the_unit_interval() -> None:
    assert wilson(0, 0) == (0.0, 1.0)


def test_wilson_interval_agrees_with_the_published_example() -> None:
    # 15 of 20: 0.531 to 0.888 (Newcombe 1998, score method)
    low, high = wilson(15, 20)
    assert low == pytest.approx(0.531, abs=1e-3)
    assert high == pytest.approx(0.888, abs=1e-3)


def test_a_range_never_starts_before_the_cluster() -> None:
    span = time_range("24h", now_s=3600.0)
    assert (span.first_s, span.last_s) == (0.0, 3600.0)


def test_an_unknown_range_is_the_default() -> None:
    assert time_range("99y", now_s=1e6).name == "24h"


def test_every_kind_of_operation_has_a_name() -> None:
    """Kinds are given as texts, or as the `KIND` of the module."""
    made = re.compile(
        r"(?:begin_operation|completed_operation|\bOperation(?:\.objects\.create)?)\("
        r"\s*kind=(?:\"([^\"]+)\"|KIND)"
    )
    kinds = {
        text or import_module(".".join(path.with_suffix("").parts)).KIND
        for path in Path("apps").rglob("*.py")
        for text in made.findall(path.read_text(encoding="utf-8"))
    }
    assert len(kinds) >= 8
    assert kinds == set(labels.OPERATIONS)
