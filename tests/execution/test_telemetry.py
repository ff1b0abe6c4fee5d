import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from apps.classification.core.feedback import BYTES, METRIC
from apps.execution.core.telemetry import (
    FIRST_S,
    MIN_LOAD,
    MIN_S,
    ObservedRun,
    Sample,
    busy_share,
    rate,
)
from apps.scheduling.core.sizing.response_time import capacity_at, latency_percentile
from apps.workloads.core.targets import (
    BestEffort,
    CompletionTime,
    InstructionRate,
    Target,
    ThroughputLatency,
)

SERVICE = ThroughputLatency(qps=1000.0, latency_seconds=0.1)


def run(target: Target | None = None, **values: Any) -> ObservedRun:
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
    return ObservedRun(**{**defaults, **values})


def progress(*points: tuple[float, float]) -> list[Sample]:
    return [Sample(at_s, share, 0.0) for at_s, share in points]


def readings(*values: float, begin_s: float = 1100.0) -> list[Sample]:
    """One value every 100 s."""
    return [Sample(begin_s + 100.0 * i, 0.0, value) for i, value in enumerate(values)]


@pytest.mark.parametrize("target", [CompletionTime(900.0), BestEffort()])
def test_input_over_time_is_the_rate(target: Target) -> None:
    measured = rate(run(target), progress((1100.0, 0.2), (1300.0, 0.6)))
    assert measured is not None
    assert (measured.at_s, measured.column, measured.per_s) == (
        1300.0,
        BYTES,
        9000.0 * 0.6 / 300.0,
    )


def test_the_end_counts_as_the_last_report() -> None:
    measured = rate(run(finished_s=1100.0), progress((1020.0, 0.1)))
    assert measured is not None
    assert (measured.at_s, measured.per_s) == (1100.0, 90.0)


def test_observed_progress_is_not_counted_again() -> None:
    later = run(since_s=1300.0, finished_s=1600.0)
    measured = rate(later, progress((1300.0, 0.4), (1500.0, 0.8)))
    assert measured is not None
    assert measured.per_s == pytest.approx(9000.0 * 0.6 / 300.0)


def test_a_restarted_job_starts_with_its_first_report() -> None:
    again = run(is_first_run=False)
    assert rate(again, progress((1200.0, 0.5))) is None
    measured = rate(again, progress((1200.0, 0.5), (1400.0, 0.7)))
    assert measured is not None
    assert measured.per_s == pytest.approx(9000.0 * 0.2 / 200.0)


@pytest.mark.parametrize(
    ("observed", "samples"),
    [
        (run(), []),
        (run(), progress((1000.0 + FIRST_S - 1.0, 0.1))),
        (run(), progress((1300.0, 0.0))),
        (run(finished_s=1000.0 + MIN_S - 1.0), []),
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
def test_insufficient_reports_give_no_rate(observed: ObservedRun, samples: list[Sample]) -> None:
    assert rate(observed, samples) is None


def test_instructions_per_second_are_averaged() -> None:
    measured = rate(run(InstructionRate(1e9)), readings(1e9, begin_s=1200.0))
    four = rate(run(InstructionRate(1e9)), readings(1e9, 4e9, 1e9, 4e9))
    assert measured is not None
    assert four is not None
    assert four.column == METRIC
    assert four.per_s == pytest.approx(2e9)
    assert four.deviation == pytest.approx(measured.deviation / 2.0)


@pytest.mark.parametrize("units", [1, 4, 40])
@pytest.mark.parametrize("capacity", [1050.0, 1500.0, 9000.0])
def test_the_capacity_is_inferred_from_the_latency(units: int, capacity: float) -> None:
    latency = latency_percentile(units, np.array([capacity]), 1000.0, 0.99).item()
    inferred = capacity_at(units, latency, np.array([1000.0]), 0.99).item()
    assert inferred == pytest.approx(capacity, rel=1e-6)


def test_a_lightly_loaded_service_gives_its_capacity() -> None:
    capacity = 4000.0
    latency = latency_percentile(16, np.array([capacity]), 700.0, 0.99).item()
    measured = rate(run(SERVICE, units=16), readings(latency, latency))
    assert measured is not None
    assert measured.column == METRIC
    assert abs(math.log(measured.per_s / capacity)) < 2.0 * measured.deviation


def test_a_latency_that_the_load_might_explain_gives_no_rate() -> None:
    latency = latency_percentile(1, np.array([1300.0]), 1000.0, 0.99).item()
    lowest, highest = capacity_at(1, latency, 1000.0 * np.array([MIN_LOAD, 1.0]), 0.99).tolist()
    assert highest > 1.6 * lowest
    assert rate(run(SERVICE, units=1), readings(latency, latency)) is None


def test_a_known_load_gives_the_capacity_of_a_busy_service() -> None:
    samples, capacity = [], 1300.0
    for i, load in enumerate((1000.0, 400.0, 700.0)):
        latency = latency_percentile(1, np.array([capacity]), load, 0.99).item()
        samples.append(Sample(1100.0 + 100.0 * i, 0.0, latency, load))
    measured = rate(run(SERVICE, units=1), samples)
    assert measured is not None
    assert measured.per_s == pytest.approx(capacity, rel=1e-6)
    unknown = [*samples[:2], samples[2]._replace(offered_qps=math.nan)]
    assert rate(run(SERVICE, units=1), unknown) is None


def test_answered_queries_are_not_a_rate() -> None:
    measured = rate(run(SERVICE, units=64), readings(0.001, 0.001))
    assert measured is not None
    assert measured.per_s > 100.0 * SERVICE.qps


@pytest.mark.parametrize(
    ("tasks", "units", "share"), [(1, 7, 1.0), (8, 4, 1.0), (9, 4, 0.75), (2, 4, 0.5)]
)
def test_waves_leave_units_idle(tasks: int, units: int, share: float) -> None:
    assert busy_share(tasks, units) == share


def test_an_observation_uses_only_later_reports() -> None:
    late = replace(run(), since_s=5000.0)
    assert rate(late, progress((5000.0, 0.5), (5050.0, 0.6))) is None
