"""Laws of the engine: queueing theory, the plain formulas, and conservation."""

from collections import deque
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.emulation.core.draws import KINDS, application_truth
from apps.emulation.core.engine import Engine
from apps.emulation.core.events import EngineOrder, EventKind
from apps.emulation.core.queueing import waiting_share
from apps.emulation.core.stragglers import busy_share
from apps.emulation.core.truth import Curves, interference_factor, unit_pressure
from apps.inventory.core.snapshot import Floats
from tests.emulation.worlds import all_platforms, machines, truth


def queueing_delays(units: int, gaps: Floats, work: Floats) -> Floats:
    """(n,) waiting times of jobs of one unit in a first-come-first-served queue."""
    engine = Engine(machines(units), np.random.default_rng(0))
    arrivals, waits = np.cumsum(gaps), np.zeros(len(gaps))
    queue: deque[int] = deque()

    def start(i: int, now: float) -> None:
        waits[i] = now - arrivals[i]
        engine.start([EngineOrder(i, truth(), [(0, 1)], float(work[i]))], now)

    def until(now: float) -> None:
        while engine.next_event_s <= now:
            event = engine.advance(engine.next_event_s)[0]
            if queue:
                start(queue.popleft(), event.at_s)

    for i, now in enumerate(arrivals.tolist()):
        until(now)
        start(i, now) if len(engine) < units else queue.append(i)
    until(1e12)
    return waits


@pytest.mark.parametrize(("units", "utilisation"), [(1, 0.6), (4, 0.7), (8, 0.8)])
def test_mean_wait_is_that_of_m_m_c(units: int, utilisation: float) -> None:
    runs, jobs = 20, 4_000
    offered = units * utilisation
    expected = float(waiting_share(np.array([units]), np.array([offered]))[0]) / (units - offered)
    means = np.zeros(runs)
    for run, seed in enumerate(np.random.SeedSequence(11).spawn(runs)):
        rng = np.random.default_rng(seed)
        gaps, work = rng.exponential(1.0 / offered, jobs), rng.exponential(1.0, jobs)
        means[run] = queueing_delays(units, gaps, work)[500:].mean()
    # four standard errors of the mean, estimated from the 20 independent runs
    assert means.mean() == pytest.approx(expected, abs=4.0 * means.std(ddof=1) / np.sqrt(runs))


def test_mean_wait_is_that_of_m_g_1() -> None:
    """Pollaczek and Khinchine, with log-normal work of mean 1 and squared variation 2."""
    runs, jobs, utilisation = 20, 4_000, 0.6
    sigma = np.sqrt(np.log(3.0))
    expected = utilisation * 3.0 / (2.0 * (1.0 - utilisation))
    means = np.zeros(runs)
    for run, seed in enumerate(np.random.SeedSequence(12).spawn(runs)):
        rng = np.random.default_rng(seed)
        work = rng.lognormal(-(sigma**2) / 2.0, sigma, jobs)
        means[run] = queueing_delays(1, rng.exponential(1.0 / utilisation, jobs), work)[
            500:
        ].mean()
    # four standard errors of the mean, estimated from the 20 independent runs
    assert means.mean() == pytest.approx(expected, abs=4.0 * means.std(ddof=1) / np.sqrt(runs))


def speeds_by_formula(units: list[int], orders: list[EngineOrder]) -> list[float]:
    """Speed of every job from the plain formulas of `truth`."""
    total = np.zeros((len(units), 10))
    for order in orders:
        for server, count in order.parts:
            total[server] += count * order.truth.caused
    speeds = []
    for order in orders:
        allocated = sum(count for _, count in order.parts)
        speed = 0.0
        for server, count in order.parts:
            pressure = unit_pressure(total[server], count * order.truth.caused, units[server])
            speed += (
                float(order.truth.platform_speed[0])
                * order.truth.scale_up.speed_up(count)
                * float(interference_factor(pressure, order.truth.tolerated, order.truth.curves))
            )
        busy = 1.0 if order.tasks is None else busy_share(order.tasks, allocated, 0.0, 0)
        speeds.append(speed * busy * order.truth.scale_out.efficiency(len(order.parts)))
    return speeds


def random_curves(rng: np.random.Generator) -> Curves:
    return Curves(
        knee=rng.uniform(0.5, 8.0, 10),
        decay=rng.lognormal(1.0, 1.0, 10),
        plateau=rng.uniform(0.0, 0.9, 10),
        floor=float(rng.uniform(0.01, 0.3)),
    )


def random_orders(units: list[int], seed: int) -> list[EngineOrder]:
    rng = np.random.default_rng(seed)
    free, orders = list(units), []
    for i in range(3 * len(units)):
        drawn = application_truth(seed, f"app-{i % 7}", KINDS[i % 4], all_platforms())
        app = replace(drawn, curves=random_curves(rng)) if seed % 2 else drawn
        chosen = rng.permutation(len(units))[: int(rng.integers(1, 4))]
        parts = [(int(s), int(rng.integers(1, free[s] + 1))) for s in chosen if free[s] > 0]
        for server, count in parts:
            free[server] -= count
        if parts:
            tasks = int(rng.integers(1, 100))
            orders.append(EngineOrder(i, app, parts, float(rng.uniform(10, 500)), tasks))
    return orders


sizes = st.lists(st.integers(1, 16), min_size=1, max_size=8)


@settings(max_examples=40)
@given(units=sizes, seed=st.integers(0, 10_000))
def test_incremental_speeds_equal_the_plain_formulas(units: list[int], seed: int) -> None:
    engine = Engine(machines(*units, platforms=all_platforms()), np.random.default_rng(0))
    orders = random_orders(units, seed)
    engine.start(orders[::2], 0.0)
    engine.start(orders[1::2], 0.0)
    cancelled = {order.key for order in orders[::3]}
    for key in cancelled:
        engine.cancel(key, 0.0)
    remaining = [order for order in orders if order.key not in cancelled]
    speeds = [engine.speed(order.key) for order in remaining]
    assert speeds == pytest.approx(speeds_by_formula(units, remaining), rel=1e-9)


@settings(max_examples=40)
@given(units=sizes, seed=st.integers(0, 10_000))
def test_units_and_jobs_are_conserved_and_time_moves_forward(units: list[int], seed: int) -> None:
    engine = Engine(machines(*units, platforms=all_platforms()), np.random.default_rng(0))
    orders = random_orders(units, seed)
    allocated = np.zeros(len(units), dtype=np.int64)
    for order in orders:
        engine.start([order], 0.0)
        np.add.at(allocated, [s for s, _ in order.parts], [n for _, n in order.parts])
    assert np.array_equal(engine.used_units, allocated)
    events = engine.advance(1e9)
    ended = [event.key for event in events if event.kind is EventKind.FINISHED]
    assert set(ended) == {order.key for order in orders}
    assert len(ended) == len(orders)
    assert np.all(np.diff([event.at_s for event in events]) >= 0.0)
    assert not engine.used_units.any()
    assert len(engine) == 0


@settings(max_examples=25)
@given(seed=st.integers(0, 10_000), pause=st.floats(0.0, 400.0))
def test_reading_the_monitors_changes_nothing(seed: int, pause: float) -> None:
    units = [4, 2, 8]
    straight = Engine(machines(*units, platforms=all_platforms()), np.random.default_rng(0))
    monitored = Engine(machines(*units, platforms=all_platforms()), np.random.default_rng(0))
    straight.start(random_orders(units, seed), 0.0)
    monitored.start(random_orders(units, seed), 0.0)
    before = monitored.advance(pause)
    monitored.jobs()
    monitored.servers()
    assert before + monitored.advance(1e9) == straight.advance(1e9)


def test_golden_scenario() -> None:
    """Twelve jobs of three applications on three servers. A change here must be explained.

    Equal jobs on one server end at the same time, in the order in which they started.
    """
    engine = Engine(machines(8, 4, 2, platforms=all_platforms()), np.random.default_rng(0))
    apps = [application_truth(2011, name, "analytics", all_platforms()) for name in "xyz"]
    engine.start([EngineOrder(i, apps[i % 3], [(i % 3, 1)], 100.0 + i) for i in range(6)], 0.0)
    early = engine.advance(90.0)
    engine.start([EngineOrder(i, apps[i % 3], [(0, 1)], 50.0) for i in range(6, 12)], 90.0)
    late = engine.advance(1e6)
    assert [(e.key, e.kind) for e in early] == [(key, EventKind.PHASE) for key in (0, 3, 1, 4)]
    ended = [event.key for event in late if event.kind is EventKind.FINISHED]
    assert ended == [1, 4, 0, 3, 7, 10, 2, 6, 9, 8, 11, 5]
    assert late[-1].at_s == pytest.approx(141.77110893289813, abs=1e-6)
