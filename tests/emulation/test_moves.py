"""Units that go from one server to another, and what the racks between them cost."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.emulation.core.engine import Engine
from apps.emulation.core.events import Event, EventKind, Order
from apps.emulation.core.truth import Phases, Truth, UniversalScaling, split_share
from tests.emulation.test_engine_laws import random_orders
from tests.emulation.worlds import all_platforms, machines, truth


def engine(*units: int, rack: list[int] | None = None) -> Engine:
    return Engine(machines(*units, rack=rack), np.random.default_rng(0))


def started(app: Truth, *parts: tuple[int, int], work_s: float = 100.0) -> Engine:
    one = engine(4, 4, 4, rack=[0, 0, 1])
    one.start([Order("a", app, parts, work_s)], 0.0)
    return one


def told(events: list[Event]) -> list[tuple[object, EventKind]]:
    return [(pytest.approx(event.at_s), event.kind) for event in events]


def test_a_job_that_moves_whole_loses_the_stall() -> None:
    one = started(truth(), (0, 2))
    one.move("a", 0, 1, 2, 10.0, 7.0)
    # 20 of 100 unit-seconds are done before, the rest from 17 s on at two a second
    assert told(one.advance(1e6)) == [(17.0, EventKind.MOVED), (57.0, EventKind.FINISHED)]


def test_units_that_stay_work_on_while_others_move() -> None:
    one = started(truth(), (0, 2))
    one.move("a", 0, 1, 1, 10.0, 10.0)
    # 20 until the move, 10 during it, and 70 at two a second
    assert told(one.advance(1e6)) == [(20.0, EventKind.MOVED), (55.0, EventKind.FINISHED)]


def test_a_job_in_step_waits_for_the_units_that_move() -> None:
    one = started(truth(is_in_step=True), (0, 2))
    one.move("a", 0, 1, 1, 10.0, 10.0)
    assert one.speed("a") == 0.0
    assert told(one.advance(1e6)) == [(20.0, EventKind.MOVED), (60.0, EventKind.FINISHED)]


def test_both_servers_are_held_until_the_units_have_arrived() -> None:
    one = started(truth(), (0, 3))
    one.move("a", 0, 1, 2, 0.0, 5.0)
    assert one.used_units.tolist() == [3, 2, 0]
    assert not one.fits(Order("b", truth(), [(1, 3)], 1.0))
    one.advance(5.0)
    assert one.used_units.tolist() == [1, 2, 0]


def test_units_join_those_the_job_has_there() -> None:
    law = UniversalScaling(contention=0.1, coherency=0.0)
    one = started(truth(scale_up=law), (0, 1), (1, 2))
    one.move("a", 0, 1, 1, 0.0, 5.0)
    assert one.speed("a") == pytest.approx(law.speed_up(2))
    one.advance(5.0)
    assert one.speed("a") == pytest.approx(law.speed_up(3))
    assert one.used_units.tolist() == [0, 3, 0]


def test_the_number_of_servers_counts_once_the_units_have_arrived() -> None:
    law = UniversalScaling(contention=0.25, coherency=0.0)
    one = started(truth(scale_out=law), (0, 1), (1, 1))
    assert one.speed("a") == pytest.approx(2.0 * 0.8)
    one.move("a", 0, 1, 1, 0.0, 5.0)
    assert one.speed("a") == pytest.approx(1.0 * 0.8)
    one.advance(5.0)
    assert one.speed("a") == pytest.approx(2.0)


def test_units_that_move_press_on_nobody() -> None:
    one = engine(2, 2)
    app = truth(tolerated=20.0, caused=60.0)
    one.start([Order("a", app, [(0, 1)], 100.0), Order("b", app, [(0, 1)], 100.0)], 0.0)
    one.move("a", 0, 1, 1, 0.0, 5.0)
    assert one.speed("b") == pytest.approx(1.0)
    one.advance(5.0)
    assert one.speed("a") == pytest.approx(1.0)


def test_cancelling_during_a_move_frees_both_servers() -> None:
    one = started(truth(), (0, 2))
    one.move("a", 0, 1, 2, 10.0, 7.0)
    assert one.cancel("a", 12.0) == pytest.approx(0.2)
    assert one.used_units.tolist() == [0, 0, 0]
    assert one.advance(1e6) == []


def test_a_job_that_ends_during_a_move_frees_both_servers() -> None:
    one = engine(4, 4)
    one.start([Order("a", truth(), [(0, 2)], np.inf, duration_s=12.0)], 0.0)
    one.move("a", 0, 1, 1, 10.0, 7.0)
    assert told(one.advance(1e6)) == [(12.0, EventKind.FINISHED)]
    assert one.used_units.tolist() == [0, 0]


def test_work_done_by_units_that_stay_ends_the_job_during_the_move() -> None:
    one = started(truth(), (0, 2), work_s=21.0)
    one.move("a", 0, 1, 1, 10.0, 7.0)
    assert told(one.advance(1e6)) == [(11.0, EventKind.FINISHED)]
    assert one.used_units.tolist() == [0, 0, 0]


def test_a_phase_that_begins_during_a_move_does_not_end_it() -> None:
    level = np.full((2, 10), 50.0)
    phases = Phases(np.array([0.0, 0.2]), np.array([1.0, 2.0]), level, level, 3600.0)
    one = started(truth(phases=phases), (0, 2))
    one.move("a", 0, 1, 1, 5.0, 10.0)
    # 10 by 5 s, 20 at 15 s alone: both at the same instant, the move first; then four a second
    assert told(one.advance(1e6)) == [
        (15.0, EventKind.MOVED),
        (15.0, EventKind.PHASE),
        (35.0, EventKind.FINISHED),
    ]


def test_monitors_read_a_job_that_rests() -> None:
    one = engine(4, 4)
    service = truth(kind="latency_critical", metric_per_s=10.0)
    one.start(
        [
            Order("a", truth(), [(0, 2)], 100.0),
            Order("b", service, [(0, 1)], np.inf, load=50.0),
        ],
        0.0,
    )
    one.move("a", 0, 1, 2, 10.0, 7.0)
    one.move("b", 0, 1, 1, 10.0, 7.0)
    read = one.jobs(["a", "b"])
    assert read.progress[0] == pytest.approx(0.2)
    assert read.left_s[0] == np.inf
    assert read.metric[1] == 0.0
    assert read.latency_s[1] == pytest.approx(10.0, rel=0.2)
    assert one.servers().network_share.tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    ("server", "to", "units", "stall_s", "complaint"),
    [
        (0, 1, 3, 1.0, "a has 2 units on server 0, not 3"),
        (0, 1, 0, 1.0, "a has 2 units on server 0, not 0"),
        (1, 0, 1, 1.0, "a has 0 units on server 1, not 1"),
        (0, 0, 1, 1.0, "cannot move from server 0 to 0"),
        (0, 9, 1, 1.0, "cannot move from server 0 to 9"),
        (0, -1, 1, 1.0, "cannot move from server 0 to -1"),
        (0, 2, 2, 1.0, "server 2 has 1 free units, not 2"),
        (0, 1, 2, -1.0, "stall_s must be finite and at least 0"),
        (0, 1, 2, np.inf, "stall_s must be finite and at least 0"),
    ],
)
def test_a_move_that_cannot_be_names_why(
    server: int, to: int, units: int, stall_s: float, complaint: str
) -> None:
    one = started(truth(), (0, 2))
    one.start([Order("b", truth(), [(2, 3)], 100.0)], 0.0)
    with pytest.raises(ValueError, match=complaint):
        one.move("a", server, to, units, 0.0, stall_s)
    assert one.used_units.tolist() == [2, 0, 3]


def test_a_job_moves_one_part_at_a_time() -> None:
    one = started(truth(), (0, 2))
    one.move("a", 0, 1, 1, 0.0, 5.0)
    with pytest.raises(ValueError, match="a moves already, to server 1"):
        one.move("a", 0, 2, 1, 0.0, 5.0)


def test_a_job_that_is_not_there_cannot_move() -> None:
    with pytest.raises(KeyError):
        engine(4, 4).move("a", 0, 1, 1, 0.0, 5.0)


def test_a_job_in_step_goes_as_fast_as_its_slowest_unit() -> None:
    app = truth(tolerated=20.0, caused=60.0, is_in_step=True)
    one = engine(2, 2)
    one.start([Order("a", app, [(0, 1), (1, 1)], 100.0)], 0.0)
    one.start([Order("b", app, [(0, 1)], 100.0)], 0.0)
    slowed = one.speed("b")
    assert slowed < 0.9
    assert one.speed("a") == pytest.approx(2.0 * slowed)


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
    one = started(app, (0, 1), (1, 1))
    assert one.speed("a") == pytest.approx(2.0)
    one.move("a", 1, 2, 1, 0.0, 5.0)
    one.advance(5.0)
    assert one.speed("a") == pytest.approx(2.0 * 0.7)


sizes = st.lists(st.integers(2, 8), min_size=2, max_size=5)


@settings(max_examples=60, deadline=None)
@given(units=sizes, seed=st.integers(0, 10_000), stall_s=st.floats(0.0, 60.0))
def test_moves_lose_no_job_no_unit_and_no_work(
    units: list[int], seed: int, stall_s: float
) -> None:
    one = Engine(
        machines(*units, platforms=all_platforms(), rack=[i % 2 for i in range(len(units))]),
        np.random.default_rng(0),
    )
    rng = np.random.default_rng(seed)
    orders = random_orders(units, seed)[::2]
    one.start(orders, 0.0)
    now, seen, moves = 0.0, [], 0
    layout = {order.key: dict(order.parts) for order in orders}
    for _ in range(20):
        now += float(rng.exponential(5.0))
        seen += one.advance(now)
        key = int(rng.choice([int(str(order.key)) for order in orders]))
        to = int(rng.integers(len(units)))
        server = int(rng.choice(list(layout[key])))
        before, progress = one.used_units, None
        if key in one:
            progress = one.jobs([key]).progress[0]
        try:
            one.move(key, server, to, 1, now, stall_s)
        except (ValueError, KeyError):
            assert np.array_equal(one.used_units, before)
            continue
        moves += 1
        assert one.jobs([key]).progress[0] == progress
        assert one.used_units.sum() == before.sum() + 1
    seen += one.advance(1e9)
    ended = [event.key for event in seen if event.kind is EventKind.FINISHED]
    arrived = sum(event.kind is EventKind.MOVED for event in seen)
    assert sorted(map(str, ended)) == sorted(str(order.key) for order in orders)
    assert arrived <= moves
    assert np.all(np.diff([event.at_s for event in seen]) >= 0.0)
    assert not one.used_units.any()


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), there=st.booleans())
def test_after_its_moves_a_job_runs_as_one_that_began_there(seed: int, there: bool) -> None:
    units = [4, 4, 4]
    moved = Engine(machines(*units, platforms=all_platforms()), np.random.default_rng(0))
    still = Engine(machines(*units, platforms=all_platforms()), np.random.default_rng(0))
    first, *others = random_orders([2, 2, 2], seed)[:3]
    layout = dict(first.parts)
    server = next(iter(layout))
    to = (server + (1 if there else 2)) % 3
    layout[server] -= 1
    layout[to] = layout.get(to, 0) + 1
    parts = [(s, n) for s, n in layout.items() if n]
    moved.start([first, *others], 0.0)
    still.start([Order(first.key, first.truth, parts, first.work_s, first.tasks), *others], 0.0)
    moved.move(first.key, server, to, 1, 0.0, 0.0)
    assert [event.kind for event in moved.advance(0.0)] == [EventKind.MOVED]
    keys = [first.key, *(order.key for order in others)]
    assert [moved.speed(key) for key in keys] == pytest.approx([still.speed(key) for key in keys])
    ends = [[(event.key, event.kind) for event in one.advance(1e9)] for one in (moved, still)]
    assert ends[0] == ends[1]
