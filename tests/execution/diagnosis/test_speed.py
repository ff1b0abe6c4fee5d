import math

import numpy as np
import pytest

from apps.execution.core.diagnosis.speed import SpeedScale, scale_of
from apps.scheduling.core.sizing.response_time import capacity_at
from apps.workloads.core.targets import (
    BestEffort,
    CompletionTime,
    InstructionRate,
    ThroughputLatency,
)

TIME = SpeedScale(CompletionTime(600.0), 4)
RATE = SpeedScale(InstructionRate(2e9), 4)
QUERIES = SpeedScale(ThroughputLatency(1000.0, 0.01, 99.0), 4)


def test_a_completion_time_is_the_remaining_work_over_the_remaining_time() -> None:
    # 60 % left in 300 s: 0.002 of the work per second
    log = TIME.log_speeds(np.array([500.0]), np.array([0.4]), np.array([200.0]))
    assert math.exp(log[0]) == pytest.approx(0.002)
    assert TIME.performance(log[0], 0.4, 200.0) == pytest.approx(500.0)
    assert math.exp(TIME.log_needed(0.4, 200.0)) == pytest.approx(0.6 / 400.0)


def test_no_speed_meets_a_deadline_that_has_passed() -> None:
    assert TIME.log_needed(0.4, 700.0) == math.inf


def test_an_instruction_rate_is_a_speed() -> None:
    assert RATE.log_speeds(np.array([3e9]), np.array([0.0]), np.array([0.0]))[0] == (
        pytest.approx(math.log(3e9))
    )
    assert math.exp(RATE.log_needed(0.0, 0.0)) == pytest.approx(2e9)


@pytest.mark.parametrize("latency_s", [0.004, 0.01, 0.2])
def test_a_latency_is_the_capacity_at_the_declared_load(latency_s: float) -> None:
    log = QUERIES.log_speeds(np.array([latency_s]), np.array([0.0]), np.array([0.0]))
    assert QUERIES.performance(float(log[0]), 0.0, 0.0) == pytest.approx(latency_s, rel=1e-6)
    assert (log[0] >= QUERIES.log_needed(0.0, 0.0) - 1e-9) == (latency_s <= 0.01)


def test_a_performance_without_a_speed_is_unknown() -> None:
    performance = np.array([math.inf, 100.0, math.nan])
    logs = TIME.log_speeds(performance, np.full(3, 0.5), np.full(3, 200.0))
    assert np.isnan(logs).all()


def test_best_effort_has_no_scale() -> None:
    assert scale_of(BestEffort(), 4) is None
    assert scale_of(InstructionRate(1.0), 0) == SpeedScale(InstructionRate(1.0), 1)


def test_the_reported_load_of_a_service_counts() -> None:
    load = np.array([200.0, np.nan])
    latency = np.full(2, 0.008)
    known, declared = np.exp(QUERIES.log_speeds(latency, np.zeros(2), np.zeros(2), load))
    expected = capacity_at(4, 0.008, np.array([200.0, 1000.0]), 0.99)
    assert [known, declared] == pytest.approx(expected.tolist())
    assert known < declared
