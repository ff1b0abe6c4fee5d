"""What the monitors of a job count: of the present phase, of the units at work, with noise."""

from dataclasses import replace

import numpy as np
import pytest

from apps.common.core.interference import N_SOURCES, SOURCES
from apps.emulation.core.engine import Engine
from apps.emulation.core.events import JobReadings, Order
from apps.emulation.core.readings import COUNTER_NOISE, MEMORY_REQUESTS
from apps.emulation.core.truth import Phases, Truth
from tests.emulation.worlds import machines, truth

MEMORY, NETWORK, DISK = (
    SOURCES.index(f"{what}_bandwidth") for what in ("memory", "network", "storage")
)
LOOKS = 400


def phased(*, second: float = 1.0) -> Truth:
    """Scores that differ by source, the second half of the work ``second`` times the first."""
    caused = np.zeros((2, N_SOURCES))
    caused[:, [MEMORY, NETWORK, DISK]] = (80.0, 40.0, 20.0)
    caused[1] *= second
    tolerated = np.full((2, N_SOURCES), 100.0)
    return truth(phases=Phases(np.array([0.0, 0.5]), np.ones(2), tolerated, caused, 3600.0))


def looks(order: Order, *, at_s: float = 0.0, seed: int = 3) -> list[JobReadings]:
    one = Engine(machines(4, 4), np.random.default_rng(seed))
    one.start([order], 0.0)
    one.advance(at_s)
    return [one.jobs() for _ in range(LOOKS)]


def mean(seen: list[JobReadings], name: str) -> float:
    return float(np.mean([getattr(one, name)[0] for one in seen]))


# of the mean of so many looks, three standard errors
EXACT = 3.0 * COUNTER_NOISE / LOOKS**0.5


def test_counters_follow_the_scores_of_the_job() -> None:
    seen = looks(Order("a", phased(), [(0, 2)], 100.0))
    assert mean(seen, "memory_rate") == pytest.approx(0.8 * MEMORY_REQUESTS, rel=EXACT)
    assert mean(seen, "network_wait") == pytest.approx(0.4, rel=EXACT)
    assert mean(seen, "disk_wait") == pytest.approx(0.2, rel=EXACT)


def test_their_noise_is_as_documented() -> None:
    seen = [one.memory_rate[0] for one in looks(Order("a", phased(), [(0, 2)], 100.0))]
    # the relative error of a deviation estimated from n looks is 1 / sqrt(2 n), here 3.5 %
    assert np.std(seen) / np.mean(seen) == pytest.approx(COUNTER_NOISE, rel=0.15)


def test_another_phase_is_told_when_it_has_come() -> None:
    order = Order("a", phased(second=0.5), [(0, 1)], 100.0)
    assert mean(looks(order, at_s=49.0), "memory_rate") == pytest.approx(2.4e7, rel=EXACT)
    assert mean(looks(order, at_s=51.0), "memory_rate") == pytest.approx(1.2e7, rel=EXACT)


def test_units_without_a_task_count_nothing() -> None:
    # three tasks on two units: a quarter of their time one unit has nothing to do
    seen = looks(Order("a", phased(), [(0, 2)], 100.0, tasks=3))
    assert mean(seen, "memory_rate") == pytest.approx(0.75 * 2.4e7, rel=EXACT)


@pytest.mark.parametrize(
    ("parts", "tasks", "exchanged"),
    [([(0, 2)], None, 0.0), ([(0, 2)], 2, 1.0), ([(0, 1), (1, 1)], None, 1.0)],
)
def test_only_what_has_parts_or_tasks_exchanges_data(
    parts: list[tuple[int, int]], tasks: int | None, exchanged: float
) -> None:
    app = phased()
    seen = looks(Order("a", app, parts, 100.0, tasks=tasks))
    expected = exchanged * app.demand.network_bps
    assert mean(seen, "traffic_bps") == pytest.approx(expected, rel=EXACT)


def test_waiting_is_a_share() -> None:
    app = phased()
    loud = replace(app, phases=replace(app.phases, caused=np.full((2, N_SOURCES), 100.0)))
    seen = looks(Order("a", loud, [(0, 2)], 100.0))
    assert max(one.network_wait[0] for one in seen) == 1.0
    assert max(one.memory_rate[0] for one in seen) > MEMORY_REQUESTS


def test_jobs_are_told_apart() -> None:
    one = Engine(machines(8), np.random.default_rng(3))
    one.start([Order("a", phased(), [(0, 2)], 9e9), Order("b", truth(), [(0, 2)], 9e9)], 0.0)
    seen = one.jobs(["b", "a"])
    assert seen.memory_rate[0] == 0.0
    assert seen.memory_rate[1] > 0.0
