"""Attainment: performance over target."""

import math

import pytest

from apps.workloads.core.attainment import Performance, attainment

SERVICE = {"kind": "throughput_latency", "qps": 100.0, "latency_seconds": 0.1, "percentile": 99}


def served(qps: float, offered_qps: float = math.nan, latency_s: float = 0.05) -> float | None:
    performance = Performance(0.0, 0.0, qps, latency_s, offered_qps=offered_qps)
    return attainment(SERVICE, performance, elapsed_s=1.0)


def test_a_service_that_is_offered_little_meets_its_target() -> None:
    assert served(30.0, offered_qps=30.0) == 1.0
    assert served(0.0, offered_qps=0.0) == 1.0


def test_a_service_that_answers_part_of_what_it_is_offered_misses_its_target() -> None:
    assert served(15.0, offered_qps=30.0) == pytest.approx(0.5)
    assert served(60.0, offered_qps=200.0) == pytest.approx(0.6)  # more than its target names
    assert served(100.0, offered_qps=200.0) == 1.0


def test_little_load_does_not_excuse_a_high_latency() -> None:
    assert served(30.0, offered_qps=30.0, latency_s=0.4) == pytest.approx(0.25)


def test_without_the_offered_load_the_target_counts() -> None:
    assert served(30.0) == pytest.approx(0.3)
    assert served(95.0) == 1.0
