"""Durations of tasks, and the share of the units that they keep busy."""

import heapq
from dataclasses import replace

import numpy as np
import pytest

from apps.emulation.core.engine import Engine
from apps.emulation.core.events import EngineOrder
from apps.emulation.core.stragglers import (
    busy_share,
    busy_shares,
    seeds_of,
    task_durations,
    task_seed,
)
from tests.emulation.worlds import machines, truth


@pytest.mark.parametrize(
    ("tasks", "units", "share"), [(1, 1, 1.0), (10, 5, 1.0), (11, 5, 11 / 15), (3, 10, 0.3)]
)
def test_equal_tasks_run_in_waves(tasks: int, units: int, share: float) -> None:
    assert busy_share(tasks, units, 0.0, 7) == pytest.approx(share)


@pytest.mark.parametrize(("tasks", "units"), [(0, 1), (1, 0)])
def test_a_job_without_tasks_or_units_is_an_error(tasks: int, units: int) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        busy_share(tasks, units, 0.3, 7)


def test_durations_are_log_normal() -> None:
    logs = np.log(task_durations(20_000, 0.5, task_seed(1, "a")))
    assert logs.mean() == pytest.approx(0.0, abs=5 * 0.5 / np.sqrt(20_000))
    assert logs.std() == pytest.approx(0.5, rel=0.03)
    assert np.mean(np.abs(logs) > 1.96 * 0.5) == pytest.approx(0.05, abs=0.01)


def test_jobs_draw_different_durations() -> None:
    drawn = np.array([task_durations(50, 1.0, seed) for seed in seeds_of(1, range(400))])
    assert len(np.unique(drawn)) == drawn.size
    assert np.corrcoef(np.log(drawn[0::2].ravel()), np.log(drawn[1::2].ravel()))[
        0, 1
    ] == pytest.approx(0.0, abs=5 / np.sqrt(10_000))


def test_a_job_ends_with_its_last_task() -> None:
    app = replace(truth(), task_spread=0.8)
    order = EngineOrder("a", app, [(0, 4)], work_s=100.0, tasks=7, task_seed=11)
    engine = Engine(machines(4), np.random.default_rng(0))
    engine.start([order], 0.0)
    (event,) = engine.advance(1e6)
    durations = task_durations(7, 0.8, 11)
    durations *= 100.0 / durations.sum()
    free_s = [0.0] * 4
    ends = []
    for duration in durations:
        ends.append(heapq.heappop(free_s) + duration)
        heapq.heappush(free_s, ends[-1])
    assert event.at_s == pytest.approx(max(ends))
    assert event.at_s > 100.0 / 4 * 8 / 7  # equal tasks need two waves


def test_units_added_later_share_the_same_tasks() -> None:
    app = replace(truth(), task_spread=0.8)
    order = EngineOrder("a", app, [(0, 2)], work_s=100.0, tasks=7, task_seed=11)
    engine = Engine(machines(4), np.random.default_rng(0))
    engine.start([order], 0.0)
    assert engine.speed("a") == pytest.approx(2 * busy_share(7, 2, 0.8, 11))
    engine.grow("a", [(0, 1)], 0.0)
    assert engine.speed("a") == pytest.approx(3 * busy_share(7, 3, 0.8, 11))


def test_more_units_are_never_slower() -> None:
    units = np.arange(1, 40)
    share = busy_shares(np.full(39, 60), units, np.full(39, 0.7), np.full(39, 5))
    assert (np.diff(share * units) >= -1e-12).all()


def test_the_last_waves_stand_for_all_tasks_of_a_long_job() -> None:
    seeds, spread = seeds_of(3, range(60)), 0.4
    shares = [
        busy_shares(np.full(60, n), np.full(60, 50), np.full(60, spread), seeds).mean()
        for n in (2_048, 2_049, 20_480)
    ]
    assert shares[0] == pytest.approx(shares[1], abs=0.01)
    short, long = 2_048 * (1.0 / shares[0] - 1.0), 20_480 * (1.0 / shares[2] - 1.0)
    assert long == pytest.approx(short, rel=0.15)
