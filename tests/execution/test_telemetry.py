import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from apps.classification.core.feedback import BYTES, METRIC
from apps.execution.core.telemetry import (
    FIRST_S,
    LEAST_LOAD,
    LEAST_S,
    Run,
    Sample,
    busy_share,
    rate,
)
from apps.scheduling.core.waiting import capacity_at, latency_percentile
from apps.workloads.core.targets import (
    BestEffort,
    CompletionTime,
    InstructionRate,
    Target,
    ThroughputLatency,
)

SERVICE = ThroughputLatency(qps=1000.0, latency_seconds=0.1)


def run(target: Target | None = None, **values: Any) -> Run:
    """A job of 9,000 bytes that began at 1,000 s on four units."""
    defaults: dict[str, Any] = {
        "target": target or CompletionTime(900.0),
        "input_bytes": 9000.0,
        "units": 4,
        "duration_s": None,
        "is_service": isinstance(target, ThroughputLatency),
        "is_first_run": True,
        "started_s": 1000.0,
        "since_s": 1000.0,
        "finished_s": None,
    }
    return Run(**{**defaults, **values})


def progress(*points: tuple[float, float]) -> list[Sample]:
    return [Sample(at_s, share, 0.0) for at_s, share in points]


def readings(*values: float, begin_s: float = 1100.0) -> list[Sample]:
    """One value every 100 s."""
    return [Sample(begin_s + 100.0 * i, 0.0, value) for i, value in enumerate(values)]


@pytest.mark.parametrize("target", [CompletionTime(900.0), BestEffort()])
def test_input_over_time_is_the_rate(target: Target) -> None:
    seen = rate(run(target), progress((1100.0, 0.2), (1300.0, 0.6)))
    assert seen is not None
    assert (seen.at_s, seen.column, seen.per_s) == (1300.0, BYTES, 9000.0 * 0.6 / 300.0)


def test_the_end_says_more_than_the_last_report() -> None:
    seen = rate(run(finished_s=1100.0), progress((1020.0, 0.1)))
    assert seen is not None
    assert (seen.at_s, seen.per_s) == (1100.0, 90.0)


def test_what_was_observed_before_is_not_counted_again() -> None:
    later = run(since_s=1300.0, finished_s=1600.0)
    seen = rate(later, progress((1300.0, 0.4), (1500.0, 0.8)))
    assert seen is not None
    assert seen.per_s == pytest.approx(9000.0 * 0.6 / 300.0)


def test_a_job_that_was_started_again_begins_with_its_first_report() -> None:
    again = run(is_first_run=False)
    assert rate(again, progress((1200.0, 0.5))) is None
    seen = rate(again, progress((1200.0, 0.5), (1400.0, 0.7)))
    assert seen is not None
    assert seen.per_s == pytest.approx(9000.0 * 0.2 / 200.0)


@pytest.mark.parametrize(
    ("asked", "samples"),
    [
        (run(), []),
        (run(), progress((1000.0 + FIRST_S - 1.0, 0.1))),
        (run(), progress((1300.0, 0.0))),
        (run(finished_s=1000.0 + LEAST_S - 1.0), []),
        (run(input_bytes=0.0), progress((1300.0, 0.5))),
        (run(is_service=True), progress((1300.0, 0.5))),
        (run(finished_s=1500.0, duration_s=500.0), []),
        (run(InstructionRate(1e9)), readings(1e9, begin_s=1050.0)),
        (run(InstructionRate(1e9)), []),
        (run(InstructionRate(1e9), is_service=True), readings(1e9, 1e9, 1e9)),
        (run(SERVICE, is_service=False), readings(0.01, 0.01)),
        (run(SERVICE), readings(0.01, 10.0, 0.01)),
        (run(SERVICE), readings(0.01, math.inf)),
    ],
)
def test_reports_that_do_not_tell_a_rate_tell_none(asked: Run, samples: list[Sample]) -> None:
    assert rate(asked, samples) is None


def test_instructions_per_second_are_averaged() -> None:
    one = rate(run(InstructionRate(1e9)), readings(1e9, begin_s=1200.0))
    four = rate(run(InstructionRate(1e9)), readings(1e9, 4e9, 1e9, 4e9))
    assert one is not None
    assert four is not None
    assert four.column == METRIC
    assert four.per_s == pytest.approx(2e9)
    assert four.deviation == pytest.approx(one.deviation / 2.0)


@pytest.mark.parametrize("units", [1, 4, 40])
@pytest.mark.parametrize("capacity", [1050.0, 1500.0, 9000.0])
def test_the_capacity_is_found_from_the_latency(units: int, capacity: float) -> None:
    latency = latency_percentile(units, np.array([capacity]), 1000.0, 0.99).item()
    found = capacity_at(units, latency, np.array([1000.0]), 0.99).item()
    assert found == pytest.approx(capacity, rel=1e-6)


def test_a_service_with_room_tells_its_capacity() -> None:
    capacity = 4000.0
    latency = latency_percentile(16, np.array([capacity]), 700.0, 0.99).item()
    seen = rate(run(SERVICE, units=16), readings(latency, latency))
    assert seen is not None
    assert seen.column == METRIC
    assert abs(math.log(seen.per_s / capacity)) < 2.0 * seen.deviation


def test_a_service_whose_load_might_explain_its_latency_tells_nothing() -> None:
    latency = latency_percentile(1, np.array([1300.0]), 1000.0, 0.99).item()
    least, most = capacity_at(1, latency, 1000.0 * np.array([LEAST_LOAD, 1.0]), 0.99).tolist()
    assert most > 1.6 * least
    assert rate(run(SERVICE, units=1), readings(latency, latency)) is None


def test_answered_queries_are_no_rate() -> None:
    seen = rate(run(SERVICE, units=64), readings(0.001, 0.001))
    assert seen is not None
    assert seen.per_s > 100.0 * SERVICE.qps


@pytest.mark.parametrize(
    ("tasks", "units", "share"), [(1, 7, 1.0), (8, 4, 1.0), (9, 4, 0.75), (2, 4, 0.5)]
)
def test_waves_leave_units_idle(tasks: int, units: int, share: float) -> None:
    assert busy_share(tasks, units) == share


def test_a_run_seen_long_ago_is_observed_by_what_came_since() -> None:
    late = replace(run(), since_s=5000.0)
    assert rate(late, progress((5000.0, 0.5), (5050.0, 0.6))) is None
