"""Leaders of rankings: the servers with the highest scores, which most decisions only read."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.common.core.interference import N_SOURCES
from apps.inventory.core.snapshot import Floats
from apps.scheduling.core import policies
from apps.scheduling.core.cluster.in_memory_store import Committed, MemoryCluster
from apps.scheduling.core.expected import performance as expected
from apps.scheduling.core.fused import FusedExpected
from apps.scheduling.core.rankings import leaders as ranking_leaders
from apps.scheduling.core.rankings.leaders import AGE, FLOOR, IDLE, LEADERS, WAIT, Leaders
from apps.scheduling.core.types import Placed, Request
from tests.scheduling.core.clusters import request, topology
from tests.scheduling.core.rankings.outcomes import assert_alike

SIZES = tuple(np.random.default_rng(8).integers(1, 13, 3 * expected.BLOCK + 5).tolist())
CLUSTER = topology(SIZES, racks=5)
SPREAD = expected.DEFAULT.spread
_RNG = np.random.default_rng(3)
APPLICATIONS = [
    {
        "caused": _RNG.uniform(0, 100, N_SOURCES),
        "tolerated": _RNG.uniform(20, 100, N_SOURCES),
        "platform_speed": _RNG.uniform(0.3, 1.0, len(CLUSTER.platform_name)),
    }
    for _ in range(3)
]


def asked(application: int, number: int) -> Request:
    units = (1, 1, 5)[application]
    return request(units, job=str(number), **APPLICATIONS[application])


def values_of(outcome: Any) -> tuple[Any, ...]:
    common = (type(outcome), outcome.dropped, outcome.eligible)
    if not isinstance(outcome, Placed):
        return (*common, outcome.reason)
    return (*common, outcome.units.tolist(), [(c.key, c.verdict) for c in outcome.candidates])


def filled(share: float) -> tuple[MemoryCluster, list[int]]:
    """Return a cluster on which a share of the units is allocated, and the allocations."""
    store, rng = MemoryCluster(CLUSTER, is_compiled=True), np.random.default_rng(5)
    units = np.flatnonzero(rng.random(CLUSTER.unit_id.size) < share).tolist()
    return store, commit(store, [(on(unit), asked(unit % 2, unit)) for unit in units])


def on(unit: int) -> Placed:
    return Placed("old", np.array([unit], np.int32), (), 1, 1, {}, 0.8, 0.0, 0, 0, np.empty(0))


def commit(store: MemoryCluster, pairs: list[tuple[Any, Request]]) -> list[int]:
    placed = [(outcome, asked) for outcome, asked in pairs if isinstance(outcome, Placed)]
    done = store.commit_batch(placed)
    return [each.allocation for each in done if isinstance(each, Committed)]


def rankings_of(policy: FusedExpected) -> Any:
    assert policy._rankings is not None
    return policy._rankings


def leaders_of(policy: FusedExpected, row: int) -> Leaders:
    return Leaders._make(values[row] for values in rankings_of(policy)._table.leaders)


def assert_leaders_exceed_the_floor(policy: FusedExpected, row: int) -> None:
    """Check that the leaders are the servers above the floor, each with its place and values."""
    found, leaders = rankings_of(policy), leaders_of(policy, row)
    base, busy = found._table.base[row], found._state.cluster.busy
    score: Floats = base[:, 0] - SPREAD * busy * leaders.floor[IDLE]
    above = np.flatnonzero(score > leaders.floor[FLOOR])
    count = leaders.numbers[LEADERS]
    servers = leaders.server[:count]
    assert sorted(servers.tolist()) == above.tolist()
    assert leaders.base[:count].tolist() == base[servers, 0].tolist()
    assert leaders.busy[:count].tolist() == busy[servers].tolist()
    places = [ranking_leaders.place_of.py_func(each) for each in base[:, 1].tolist()]  # type: ignore[attr-defined]
    assert [places[s] for s in servers.tolist()] == list(range(1, count + 1))
    assert sum(place > 0 for place in places) == count


TURN = st.tuples(
    st.lists(st.integers(0, 2), min_size=1, max_size=5),  # applications that are placed
    st.lists(st.integers(0, 10**6), max_size=40),  # jobs that end
    st.integers(0, CLUSTER.server_id.size - 1),  # a server that opens or closes
)


@settings(max_examples=40)
@given(
    st.lists(TURN, min_size=1, max_size=12),
    st.sampled_from([0.0, 0.6, 0.97]),
    st.sampled_from([2, 12, 40, 300]),
)
def test_decisions_are_those_of_all_servers_whatever_the_number_of_leaders(
    turns: list[tuple[list[int], list[int], int]], share: float, places: int
) -> None:
    store, held = filled(share)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(ranking_leaders, "max_leaders", lambda _: places)
        live = FusedExpected()
        for number, (applications, ending, server) in enumerate(turns):
            batch = [asked(application, number) for application in applications]
            found = live.place(store.view(), batch, np.random.default_rng(number))
            plain = policies.expected().place(
                store.snapshot(), batch, np.random.default_rng(number)
            )
            assert_alike([values_of(o) for o in found], [values_of(o) for o in plain])
            held += commit(store, list(zip(found, batch, strict=True)))
            for end in ending[: len(held)]:
                store.release(held.pop(end % len(held)))
            store.set_open([server], is_open=number % 3 > 0)
        # the signature of the last job has seen all changes but its own placement
        live.place(store.view(), [asked(0, 0)], np.random.default_rng(1))
        rankings_of(live).state(store.view(), rankings_of(live)._state.facts)
        rankings_of(live).best(asked(0, 0), 4, 1)
        row = rankings_of(live).rows([asked(0, 0)])[0]
        assert_leaders_exceed_the_floor(live, row)


def test_few_leaders_are_enough_on_a_busy_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranking_leaders, "max_leaders", lambda _: 40)
    store, _ = filled(0.8)
    live = FusedExpected()
    live.place(store.view(), [asked(0, 0)], np.random.default_rng(1))
    leaders = leaders_of(live, 0)
    assert 8 <= leaders.numbers[LEADERS] <= 40
    assert leaders.numbers[WAIT] == 0
    floor = leaders.floor.tolist()
    live.place(store.view(), [asked(0, 1)], np.random.default_rng(1))
    assert leaders.floor.tolist() == floor  # they are not collected again


def test_leaders_are_given_up_for_longer_and_longer_where_many_servers_are_equally_good(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ranking_leaders, "max_leaders", lambda _: 10)
    store = MemoryCluster(topology((8,) * 100), is_compiled=True)
    live, batch = FusedExpected(), [request(caused=np.zeros(N_SOURCES))]
    waits = []
    for seed in range(200):
        live.place(store.view(), batch, np.random.default_rng(seed))
        numbers = leaders_of(live, 0).numbers
        waits.append((int(numbers[WAIT]), int(numbers[AGE])))
    assert leaders_of(live, 0).numbers[LEADERS] == 0
    assert waits[:65] == [(64, age) for age in range(65)]
    assert waits[65:194] == [(128, age) for age in range(129)]
    assert waits[194:] == [(256, age) for age in range(6)]


def joined(scores: list[float], places: int) -> tuple[Leaders, Floats]:
    """Return the leaders after servers with these scores have joined, and their ranking."""
    leaders = Leaders(
        np.zeros(places, dtype=np.int32),
        *(np.zeros(places), np.zeros(places), np.array([-np.inf, 0.0])),
        np.zeros(3, dtype=np.int64),
    )
    base = np.array([[score, 7.0] for score in scores])
    for server in range(len(scores)):
        ranking_leaders.join(leaders, base, server, 0.0, SPREAD)
    return leaders, base


@pytest.mark.parametrize(
    ("scores", "floor", "left"),
    [
        ([1.0, 2.0, 3.0, 4.0], -np.inf, [0, 1, 2, 3]),
        ([1.0, 2.0, 3.0, 4.0, 5.0], 1.75, [1, 2, 3, 4]),  # (mean + least) / 2
        ([1.0, 2.0, 3.0, 4.0, 1.5], 1.75, [1, 2, 3]),
        ([0.1, 0.1, 0.1, 0.1, 0.1], 0.1, []),
        ([0.1, 0.1, 0.1, 0.1, 0.2], 0.1, [4]),
    ],
)
def test_a_full_list_raises_its_floor(scores: list[float], floor: float, left: list[int]) -> None:
    leaders, base = joined(scores, 4)
    count = leaders.numbers[LEADERS]
    assert leaders.floor[FLOOR] == floor
    assert sorted(leaders.server[:count].tolist()) == left
    places = (base[leaders.server[:count], 1] - 7) / (1 << ranking_leaders.PLACE)
    assert places.tolist() == list(range(1, count + 1))
    others = np.setdiff1d(np.arange(len(scores)), left)
    assert base[others, 1].tolist() == [7.0] * others.size


def test_servers_that_are_no_leaders_gain_at_most_what_an_entirely_busy_one_gains() -> None:
    leaders, _ = joined([1.0], 4)
    leaders.floor[:] = 0.5, 0.25
    assert ranking_leaders.others_reach(leaders, 0.15, 2.0) == pytest.approx(0.7)
    assert ranking_leaders.others_reach(leaders, 0.35, 2.0) == 0.5


@pytest.mark.parametrize(
    ("places", "best", "last"),
    [(2, [4.0, 3.0], 3.0), (4, [4.0, 3.0, 2.0, 1.0], 1.0), (5, [4.0, 3.0, 2.0, 1.0], -np.inf)],
)
def test_the_best_scores_are_in_order(places: int, best: list[float], last: float) -> None:
    leaders, _ = joined([2.0, 4.0, 1.0, 3.0], 8)
    into = np.zeros(places)
    assert ranking_leaders.best_scores(leaders, 0.0, into) == last
    assert into[:4].tolist() == best


@pytest.mark.parametrize(
    ("places", "floor"),
    [
        *((38, -np.inf), (39, 99.0), (77, 99.0), (78, 90.0), (117, 68.0), (155, 37.0)),
        *((194, 6.0), (233, -np.inf)),  # 6 of a sample of 5
    ],
)
def test_a_floor_for_leaders_follows_from_a_sample(places: int, floor: float) -> None:
    leaders, _ = joined([], places)
    base = np.array([[130.0 - server, 0.0] for server in range(125)])  # five are sampled
    busy = np.zeros(125)
    busy[0] = 0.5  # so that it has 130 - 80 * 0.5 = 90
    assert ranking_leaders.sampled_floor(leaders, base, busy, 80.0) == floor


def test_a_sample_of_the_best_servers_alone_does_not_leave_too_few_leaders() -> None:
    """The sampled servers are all 49 that are fast, so no server exceeds their score."""
    platforms = tuple(f"p{i}" for i in range(ranking_leaders.STEP))
    store = MemoryCluster(topology((4,) * 1500, platforms=platforms), is_compiled=True)
    fast = np.where(np.arange(len(platforms)) == 0, 1.0, 0.5)
    live = FusedExpected()
    live.place(store.view(), [request(platform_speed=fast)], np.random.default_rng(1))
    leaders = leaders_of(live, 0)
    assert (leaders.numbers[LEADERS], leaders.numbers[WAIT]) == (49, 0)


@pytest.mark.parametrize(("servers", "places"), [(1, 4), (10_000, 301), (10**8, 1023)])
def test_places_grow_with_the_root_of_the_number_of_servers(servers: int, places: int) -> None:
    assert ranking_leaders.max_leaders(servers) == places
