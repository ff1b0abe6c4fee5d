"""Metrics from readings and profiles, and the thresholds above which they cost performance."""

import numpy as np
import pytest

from apps.common.core.interference import N_SOURCES, SOURCES
from apps.placement.core.monitoring.classes import Metric
from apps.placement.core.monitoring.metrics import (
    METRIC_SOURCES,
    container_metrics,
    fit_thresholds,
    self_interference_loss,
)


def test_every_source_but_the_core_stands_behind_one_metric() -> None:
    behind = sorted(i for parts in METRIC_SOURCES.values() for i in parts)
    assert behind == [i for i in range(N_SOURCES) if SOURCES[i] != "core"]


def test_a_container_does_its_share_of_what_a_full_server_would() -> None:
    metrics = container_metrics(
        np.array([[8e6, 0.4, np.nan]]), size=np.array([3]), units=np.array([12])
    )
    np.testing.assert_allclose(metrics, [[2e6, 0.1, np.nan]])


def test_what_is_lost_grows_with_what_is_caused_over_what_is_tolerated() -> None:
    caused, tolerated = np.zeros((1, N_SOURCES)), np.full((1, N_SOURCES), 50.0)
    caused[0, SOURCES.index("network_bandwidth")] = 80.0
    tolerated[0, SOURCES.index("network_bandwidth")] = 20.0
    lost = self_interference_loss(np.array([5]), np.array([11]), caused, tolerated)
    # pressure 5 x 80 / 10 = 40: 5 % up to the tolerated score, 1.5 % for each point above it
    np.testing.assert_allclose(lost, [[0.0, 0.35, 0.0]], atol=1e-12)


def test_a_platform_learns_from_its_own_readings_when_it_has_enough() -> None:
    value = np.concatenate([np.linspace(1, 2, 20), np.linspace(10, 20, 20)])
    metrics = np.tile(value[:, None], (1, 3))
    lost = np.where(metrics > 15.0, 0.3, 0.0)
    lost[:20] = np.where(metrics[:20] > 1.5, 0.3, 0.0)
    platform = np.repeat([7, 9], 20)
    thresholds = fit_thresholds(metrics, lost, platform)
    assert 1.4 < thresholds[7, Metric.MEMORY].value < 1.6
    assert 14.5 < thresholds[9, Metric.DISK].value < 15.5
    assert thresholds[7, Metric.NETWORK].readings == 20


def test_too_few_readings_of_a_platform_leave_the_word_to_all_of_them() -> None:
    metrics = np.tile(np.arange(30.0)[:, None], (1, 3))
    lost = np.where(metrics >= 12.0, 0.2, 0.0)
    platform = np.where(np.arange(30) < 28, 1, 2)
    thresholds = fit_thresholds(metrics, lost, platform)
    assert thresholds[2, Metric.MEMORY].value == pytest.approx(11.5)
    assert thresholds[2, Metric.MEMORY].readings == 30


@pytest.mark.parametrize(("lost", "value"), [(0.0, np.inf), (0.5, 3.0)])
def test_a_metric_that_never_or_always_costs(lost: float, value: float) -> None:
    metrics = np.tile(np.array([3.0, 4.0, 5.0])[:, None], (1, 3))
    thresholds = fit_thresholds(metrics, np.full_like(metrics, lost), np.zeros(3, dtype=np.int64))
    assert thresholds[0, Metric.MEMORY].value == value


def test_what_was_not_read_does_not_count() -> None:
    metrics = np.full((4, 3), np.nan)
    metrics[0] = 5.0
    thresholds = fit_thresholds(metrics, np.full_like(metrics, 0.0), np.zeros(4, dtype=np.int64))
    assert thresholds[0, Metric.DISK].readings == 1
