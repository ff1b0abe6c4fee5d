"""Predicted run times of jobs."""

import math
from dataclasses import replace

import pytest

from apps.scheduling.core.sizing.allowances import INTERFERENCE_ALLOWANCE
from apps.scheduling.core.sizing.run_time import RunTime, run_time
from apps.scheduling.core.sizing.sizes import ClusterFacts, Sized
from apps.workloads.core.spec import JobSpec
from apps.workloads.core.targets import (
    BestEffort,
    CompletionTime,
    InstructionRate,
    Target,
    ThroughputLatency,
)
from tests.classification.core.profiles import profile, wide

FACTS = ClusterFacts(("J", "A"), units=(100, 100), server_units=(8, 8))
NAN = math.nan


def predicted(
    target: Target,
    sized: tuple[float, float, float] = (NAN, NAN, NAN),
    *,
    units: int = 2,
    elapsed_s: float = 0.0,
    duration_s: float | None = None,
    speeds: tuple[float, ...] = (1.0, 0.5),
    error: float = 0.0,
    input_bytes: int = 10**10,
) -> RunTime | None:
    spec = JobSpec("sort", target, duration_s=duration_s, input_bytes=input_bytes)
    size = Sized(units, None, None, *sized, NAN)
    known = profile(speeds=speeds, error=error)
    return run_time(spec, known, size, FACTS, elapsed_s=elapsed_s)


def test_a_completion_time_counts_from_the_start_of_the_job() -> None:
    assert predicted(CompletionTime(900.0), (500.0, 400.0, 650.0), elapsed_s=100.0) == (400, 550)


def test_best_effort_work_takes_the_inverse_of_its_share_per_second() -> None:
    assert predicted(BestEffort(), (0.01, 0.005, 0.02)) == (100.0, 200.0)


def test_a_fixed_size_is_predicted_on_the_slowest_platform() -> None:
    seconds = 10**10 / (2 * 0.5e8 * INTERFERENCE_ALLOWANCE)
    for target in (BestEffort(), CompletionTime(10.0)):
        found = predicted(target, elapsed_s=50.0, error=0.1)
        assert found is not None
        assert found.value == pytest.approx(seconds)
        assert found.high == pytest.approx(seconds * wide(0.1))


def test_a_fixed_size_is_predicted_again_when_platforms_open_or_close() -> None:
    spec, known = JobSpec("sort", BestEffort(), input_bytes=10**10), profile(speeds=(1.0, 0.5))
    size = Sized(2, None, None, NAN, NAN, NAN, NAN)
    found = [
        run_time(spec, known, size, replace(FACTS, units=units, free=free), elapsed_s=0.0)
        for units, free in (((100, 100), None), ((100, 100), (7, 0)), ((100, 0), (7, 0)))
    ]
    slowest, busy, fast = (each.value for each in found if each is not None)
    assert slowest == busy
    assert 2 * fast == pytest.approx(slowest)


def test_a_gang_wider_than_the_predictions_is_at_most_as_slow_as_the_widest() -> None:
    assert predicted(BestEffort(), units=500) == predicted(BestEffort(), units=64)


def test_a_fixed_duration_is_an_upper_limit() -> None:
    service = ThroughputLatency(100.0, 0.1, 99.0)
    assert predicted(service, (0.01, 0.01, 0.02), duration_s=60.0) == (60.0, 60.0)
    assert predicted(BestEffort(), (0.01, 0.005, 0.02), duration_s=150.0) == (100.0, 150.0)


@pytest.mark.parametrize("target", [ThroughputLatency(100.0, 0.1, 99.0), InstructionRate(1e9)])
def test_a_service_without_duration_has_no_end(target: Target) -> None:
    assert predicted(target, (0.01, 0.01, 0.02)) is None


def test_work_without_input_has_no_known_end() -> None:
    assert predicted(BestEffort(), input_bytes=0) is None
