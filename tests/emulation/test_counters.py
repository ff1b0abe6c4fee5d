"""Monitor counters of jobs: phases, working units and noise."""

from dataclasses import replace

import numpy as np
import pytest

from apps.common.core.interference import N_SOURCES, SOURCES
from apps.emulation.core.engine import Engine
from apps.emulation.core.events import EngineOrder, JobReadings
from apps.emulation.core.readings import COUNTER_NOISE, MEMORY_REQUESTS
from apps.emulation.core.truth import Noise, Phases, Truth
from tests.emulation.worlds import machines, truth

MEMORY, NETWORK, DISK = (
    SOURCES.index(f"{source}_bandwidth") for source in ("memory", "network", "storage")
)
READINGS = 400


def phased(*, second: float = 1.0) -> Truth:
    """Scores that differ by source; the second half of the work scales them by ``second``."""
    caused = np.zeros((2, N_SOURCES))
    caused[:, [MEMORY, NETWORK, DISK]] = (80.0, 40.0, 20.0)
    caused[1] *= second
    tolerated = np.full((2, N_SOURCES), 100.0)
    return truth(phases=Phases(np.array([0.0, 0.5]), np.ones(2), tolerated, caused, 3600.0))


def read_counters(order: EngineOrder, *, at_s: float = 0.0, seed: int = 3) -> list[JobReadings]:
    engine = Engine(machines(4, 4), np.random.default_rng(seed))
    engine.start([order], 0.0)
    engine.advance(at_s)
    return [engine.jobs() for _ in range(READINGS)]


def mean(readings: list[JobReadings], name: str) -> float:
    return float(np.mean([getattr(reading, name)[0] for reading in readings]))


# three standard errors of the mean of these readings
EXACT = 3.0 * COUNTER_NOISE / READINGS**0.5


def test_counters_follow_the_scores_of_the_job() -> None:
    readings = read_counters(EngineOrder("a", phased(), [(0, 2)], 100.0))
    assert mean(readings, "memory_rate") == pytest.approx(0.8 * MEMORY_REQUESTS, rel=EXACT)
    assert mean(readings, "network_wait") == pytest.approx(0.4, rel=EXACT)
    assert mean(readings, "disk_wait") == pytest.approx(0.2, rel=EXACT)


def test_counter_noise_is_as_documented() -> None:
    readings = [
        reading.memory_rate[0]
        for reading in read_counters(EngineOrder("a", phased(), [(0, 2)], 100.0))
    ]
    # the relative error of a deviation estimated from n readings is 1 / sqrt(2 n), here 3.5 %
    assert np.std(readings) / np.mean(readings) == pytest.approx(COUNTER_NOISE, rel=0.15)


def test_counters_follow_a_phase_change() -> None:
    order = EngineOrder("a", phased(second=0.5), [(0, 1)], 100.0)
    assert mean(read_counters(order, at_s=49.0), "memory_rate") == pytest.approx(2.4e7, rel=EXACT)
    assert mean(read_counters(order, at_s=51.0), "memory_rate") == pytest.approx(1.2e7, rel=EXACT)


def test_counters_of_idle_units_are_zero() -> None:
    # three tasks on two units: a quarter of their time one unit has nothing to do
    readings = read_counters(EngineOrder("a", phased(), [(0, 2)], 100.0, tasks=3))
    assert mean(readings, "memory_rate") == pytest.approx(0.75 * 2.4e7, rel=EXACT)


@pytest.mark.parametrize(
    ("parts", "tasks", "exchanged"),
    [([(0, 2)], None, 0.0), ([(0, 2)], 2, 1.0), ([(0, 1), (1, 1)], None, 1.0)],
)
def test_only_jobs_with_parts_or_tasks_exchange_data(
    parts: list[tuple[int, int]], tasks: int | None, exchanged: float
) -> None:
    app = phased()
    readings = read_counters(EngineOrder("a", app, parts, 100.0, tasks=tasks))
    expected = exchanged * app.demand.network_bps
    assert mean(readings, "traffic_bps") == pytest.approx(expected, rel=EXACT)


def test_wait_shares_are_at_most_one() -> None:
    app = phased()
    loud = replace(app, phases=replace(app.phases, caused=np.full((2, N_SOURCES), 100.0)))
    readings = read_counters(EngineOrder("a", loud, [(0, 2)], 100.0))
    assert max(reading.network_wait[0] for reading in readings) == 1.0
    assert max(reading.memory_rate[0] for reading in readings) > MEMORY_REQUESTS


def test_counters_are_per_job() -> None:
    engine = Engine(machines(8), np.random.default_rng(3))
    engine.start(
        [EngineOrder("a", phased(), [(0, 2)], 9e9), EngineOrder("b", truth(), [(0, 2)], 9e9)], 0.0
    )
    readings = engine.jobs(["b", "a"])
    assert readings.memory_rate[0] == 0.0
    assert readings.memory_rate[1] > 0.0


def test_a_service_counts_its_queries_without_noise() -> None:
    noisy = Noise(rate=0.2, ramp=0.02, metric=0.2)
    app = replace(truth(kind="latency_critical"), noise=noisy)
    order = EngineOrder("a", app, [(0, 2)], np.inf, load=0.5 * 2 * app.metric_per_s)
    readings = read_counters(order)
    assert {reading.metric[0] for reading in readings} == {order.load}
    assert {reading.offered_qps[0] for reading in readings} == {order.load}
    latencies = [reading.latency_s[0] for reading in readings]
    assert np.std(latencies) / np.mean(latencies) == pytest.approx(0.2, rel=0.15)
