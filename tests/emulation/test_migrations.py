"""Migrations of units between servers, and the cost of different racks."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.emulation.core.engine import Engine
from apps.emulation.core.events import EngineEvent, EngineOrder, EventKind
from apps.emulation.core.truth import Phases, Truth, UniversalScaling, split_share
from tests.emulation.test_engine_laws import random_orders
from tests.emulation.worlds import all_platforms, machines, truth


def new_engine(*units: int, rack: list[int] | None = None) -> Engine:
    return Engine(machines(*units, rack=rack), np.random.default_rng(0))


def started(app: Truth, *parts: tuple[int, int], work_s: float = 100.0) -> Engine:
    engine = new_engine(4, 4, 4, rack=[0, 0, 1])
    engine.start([EngineOrder("a", app, parts, work_s)], 0.0)
    return engine


def outcomes(events: list[EngineEvent]) -> list[tuple[object, EventKind]]:
    return [(pytest.approx(event.at_s), event.kind) for event in events]


def test_a_job_that_migrates_whole_loses_the_stall() -> None:
    engine = started(truth(), (0, 2))
    engine.migrate("a", 0, 1, 2, 10.0, 7.0)
    # 20 of 100 unit-seconds are done before, the rest from 17 s on at two a second
    assert outcomes(engine.advance(1e6)) == [
        (17.0, EventKind.MIGRATED),
        (57.0, EventKind.FINISHED),
    ]


def test_units_that_stay_work_during_a_migration() -> None:
    engine = started(truth(), (0, 2))
    engine.migrate("a", 0, 1, 1, 10.0, 10.0)
    # 20 until the move, 10 during it, and 70 at two a second
    assert outcomes(engine.advance(1e6)) == [
        (20.0, EventKind.MIGRATED),
        (55.0, EventKind.FINISHED),
    ]


def test_a_job_in_step_waits_for_its_migrating_units() -> None:
    engine = started(truth(is_in_step=True), (0, 2))
    engine.migrate("a", 0, 1, 1, 10.0, 10.0)
    assert engine.speed("a") == 0.0
    assert outcomes(engine.advance(1e6)) == [
        (20.0, EventKind.MIGRATED),
        (60.0, EventKind.FINISHED),
    ]


def test_both_servers_are_allocated_until_the_migration_completes() -> None:
    engine = started(truth(), (0, 3))
    engine.migrate("a", 0, 1, 2, 0.0, 5.0)
    assert engine.used_units.tolist() == [3, 2, 0]
    assert not engine.fits(EngineOrder("b", truth(), [(1, 3)], 1.0))
    engine.advance(5.0)
    assert engine.used_units.tolist() == [1, 2, 0]


def test_migrated_units_join_the_part_on_the_target() -> None:
    law = UniversalScaling(contention=0.1, coherency=0.0)
    engine = started(truth(scale_up=law), (0, 1), (1, 2))
    engine.migrate("a", 0, 1, 1, 0.0, 5.0)
    assert engine.speed("a") == pytest.approx(law.speed_up(2))
    engine.advance(5.0)
    assert engine.speed("a") == pytest.approx(law.speed_up(3))
    assert engine.used_units.tolist() == [0, 3, 0]


def test_scale_out_changes_when_the_migration_completes() -> None:
    law = UniversalScaling(contention=0.25, coherency=0.0)
    engine = started(truth(scale_out=law), (0, 1), (1, 1))
    assert engine.speed("a") == pytest.approx(2.0 * 0.8)
    engine.migrate("a", 0, 1, 1, 0.0, 5.0)
    assert engine.speed("a") == pytest.approx(1.0 * 0.8)
    engine.advance(5.0)
    assert engine.speed("a") == pytest.approx(2.0)


def test_migrating_units_cause_no_pressure() -> None:
    engine = new_engine(2, 2)
    app = truth(tolerated=20.0, caused=60.0)
    engine.start(
        [EngineOrder("a", app, [(0, 1)], 100.0), EngineOrder("b", app, [(0, 1)], 100.0)], 0.0
    )
    engine.migrate("a", 0, 1, 1, 0.0, 5.0)
    assert engine.speed("b") == pytest.approx(1.0)
    engine.advance(5.0)
    assert engine.speed("a") == pytest.approx(1.0)


def test_cancelling_during_a_migration_frees_both_servers() -> None:
    engine = started(truth(), (0, 2))
    engine.migrate("a", 0, 1, 2, 10.0, 7.0)
    assert engine.cancel("a", 12.0) == pytest.approx(0.2)
    assert engine.used_units.tolist() == [0, 0, 0]
    assert engine.advance(1e6) == []


def test_a_job_that_ends_during_a_migration_frees_both_servers() -> None:
    engine = new_engine(4, 4)
    engine.start([EngineOrder("a", truth(), [(0, 2)], np.inf, duration_s=12.0)], 0.0)
    engine.migrate("a", 0, 1, 1, 10.0, 7.0)
    assert outcomes(engine.advance(1e6)) == [(12.0, EventKind.FINISHED)]
    assert engine.used_units.tolist() == [0, 0]


def test_units_that_stay_can_end_the_job_during_a_migration() -> None:
    engine = started(truth(), (0, 2), work_s=21.0)
    engine.migrate("a", 0, 1, 1, 10.0, 7.0)
    assert outcomes(engine.advance(1e6)) == [(11.0, EventKind.FINISHED)]
    assert engine.used_units.tolist() == [0, 0, 0]


def test_a_phase_change_does_not_end_a_migration() -> None:
    level = np.full((2, 10), 50.0)
    phases = Phases(np.array([0.0, 0.2]), np.array([1.0, 2.0]), level, level, 3600.0)
    engine = started(truth(phases=phases), (0, 2))
    engine.migrate("a", 0, 1, 1, 5.0, 10.0)
    # 10 by 5 s, 20 at 15 s alone: both at the same instant, the move first; then four a second
    assert outcomes(engine.advance(1e6)) == [
        (15.0, EventKind.MIGRATED),
        (15.0, EventKind.PHASE),
        (35.0, EventKind.FINISHED),
    ]


def test_monitors_read_a_paused_job() -> None:
    engine = new_engine(4, 4)
    service = truth(kind="latency_critical", metric_per_s=10.0)
    engine.start(
        [
            EngineOrder("a", truth(), [(0, 2)], 100.0),
            EngineOrder("b", service, [(0, 1)], np.inf, load=50.0),
        ],
        0.0,
    )
    engine.migrate("a", 0, 1, 2, 10.0, 7.0)
    engine.migrate("b", 0, 1, 1, 10.0, 7.0)
    read = engine.jobs(["a", "b"])
    assert read.progress[0] == pytest.approx(0.2)
    assert read.left_s[0] == np.inf
    assert read.metric[1] == 0.0
    assert read.latency_s[1] == pytest.approx(10.0, rel=0.2)
    assert engine.servers().network_share.tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    ("server", "to", "units", "stall_s", "message"),
    [
        (0, 1, 3, 1.0, "a has 2 units on server 0, not 3"),
        (0, 1, 0, 1.0, "a has 2 units on server 0, not 0"),
        (1, 0, 1, 1.0, "a has 0 units on server 1, not 1"),
        (0, 0, 1, 1.0, "cannot migrate from server 0 to 0"),
        (0, 9, 1, 1.0, "cannot migrate from server 0 to 9"),
        (0, -1, 1, 1.0, "cannot migrate from server 0 to -1"),
        (0, 2, 2, 1.0, "server 2 has 1 free units, not 2"),
        (0, 1, 2, -1.0, "stall_s must be finite and at least 0"),
        (0, 1, 2, np.inf, "stall_s must be finite and at least 0"),
    ],
)
def test_refuses_an_impossible_migration_with_a_reason(
    server: int, to: int, units: int, stall_s: float, message: str
) -> None:
    engine = started(truth(), (0, 2))
    engine.start([EngineOrder("b", truth(), [(2, 3)], 100.0)], 0.0)
    with pytest.raises(ValueError, match=message):
        engine.migrate("a", server, to, units, 0.0, stall_s)
    assert engine.used_units.tolist() == [2, 0, 3]


def test_a_job_migrates_one_part_at_a_time() -> None:
    engine = started(truth(), (0, 2))
    engine.migrate("a", 0, 1, 1, 0.0, 5.0)
    with pytest.raises(ValueError, match="a is migrating already, to server 1"):
        engine.migrate("a", 0, 2, 1, 0.0, 5.0)


def test_refuses_to_migrate_an_unknown_job() -> None:
    with pytest.raises(KeyError):
        new_engine(4, 4).migrate("a", 0, 1, 1, 0.0, 5.0)


def test_a_job_in_step_goes_as_fast_as_its_slowest_unit() -> None:
    app = truth(tolerated=20.0, caused=60.0, is_in_step=True)
    engine = new_engine(2, 2)
    engine.start([EngineOrder("a", app, [(0, 1), (1, 1)], 100.0)], 0.0)
    engine.start([EngineOrder("b", app, [(0, 1)], 100.0)], 0.0)
    slowed = engine.speed("b")
    assert slowed < 0.9
    assert engine.speed("a") == pytest.approx(2.0 * slowed)


@pytest.mark.parametrize(
    ("units", "share"),
    [
        ([], 0.0),
        ([(0, 1)], 0.0),
        ([(0, 2), (0, 2)], 0.0),
        ([(0, 1), (1, 1)], 1.0),
        ([(0, 2), (1, 2)], 4 / 6),
        ([(0, 3), (1, 1)], 3 / 6),
        ([(0, 1), (1, 1), (2, 1), (3, 1)], 1.0),
    ],
)
def test_share_of_pairs_in_different_racks(units: list[tuple[int, int]], share: float) -> None:
    assert split_share(units) == pytest.approx(share)


def test_racks_cost_a_job_by_the_pairs_they_split() -> None:
    app = truth(rack_loss=0.3)
    engine = started(app, (0, 1), (1, 1))
    assert engine.speed("a") == pytest.approx(2.0)
    engine.migrate("a", 1, 2, 1, 0.0, 5.0)
    engine.advance(5.0)
    assert engine.speed("a") == pytest.approx(2.0 * 0.7)


sizes = st.lists(st.integers(2, 8), min_size=2, max_size=5)


@settings(max_examples=60)
@given(units=sizes, seed=st.integers(0, 10_000), stall_s=st.floats(0.0, 60.0))
def test_migrations_lose_no_job_no_unit_and_no_work(
    units: list[int], seed: int, stall_s: float
) -> None:
    engine = Engine(
        machines(*units, platforms=all_platforms(), rack=[i % 2 for i in range(len(units))]),
        np.random.default_rng(0),
    )
    rng = np.random.default_rng(seed)
    orders = random_orders(units, seed)[::2]
    engine.start(orders, 0.0)
    now, events, migrations = 0.0, [], 0
    layout = {order.key: dict(order.parts) for order in orders}
    for _ in range(20):
        now += float(rng.exponential(5.0))
        events += engine.advance(now)
        key = int(rng.choice([int(str(order.key)) for order in orders]))
        to = int(rng.integers(len(units)))
        server = int(rng.choice(list(layout[key])))
        before, progress = engine.used_units, None
        if key in engine:
            progress = engine.jobs([key]).progress[0]
        try:
            engine.migrate(key, server, to, 1, now, stall_s)
        except (ValueError, KeyError):
            assert np.array_equal(engine.used_units, before)
            continue
        migrations += 1
        assert engine.jobs([key]).progress[0] == progress
        assert engine.used_units.sum() == before.sum() + 1
    events += engine.advance(1e9)
    ended = [event.key for event in events if event.kind is EventKind.FINISHED]
    arrived = sum(event.kind is EventKind.MIGRATED for event in events)
    assert sorted(map(str, ended)) == sorted(str(order.key) for order in orders)
    assert arrived <= migrations
    assert np.all(np.diff([event.at_s for event in events]) >= 0.0)
    assert not engine.used_units.any()


@settings(max_examples=40)
@given(seed=st.integers(0, 10_000), there=st.booleans())
def test_a_migrated_job_runs_like_one_started_there(seed: int, there: bool) -> None:
    units = [4, 4, 4]
    migrated = Engine(machines(*units, platforms=all_platforms()), np.random.default_rng(0))
    still = Engine(machines(*units, platforms=all_platforms()), np.random.default_rng(0))
    first, *others = random_orders([2, 2, 2], seed)[:3]
    layout = dict(first.parts)
    server = next(iter(layout))
    to = (server + (1 if there else 2)) % 3
    layout[server] -= 1
    layout[to] = layout.get(to, 0) + 1
    parts = [(s, n) for s, n in layout.items() if n]
    migrated.start([first, *others], 0.0)
    still.start(
        [EngineOrder(first.key, first.truth, parts, first.work_s, first.tasks), *others], 0.0
    )
    migrated.migrate(first.key, server, to, 1, 0.0, 0.0)
    assert [event.kind for event in migrated.advance(0.0)] == [EventKind.MIGRATED]
    keys = [first.key, *(order.key for order in others)]
    assert [migrated.speed(key) for key in keys] == pytest.approx(
        [still.speed(key) for key in keys]
    )
    ends = [
        [(event.key, event.kind) for event in engine.advance(1e9)] for engine in (migrated, still)
    ]
    assert ends[0] == ends[1]
