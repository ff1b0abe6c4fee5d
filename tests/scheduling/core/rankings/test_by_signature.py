"""Rankings that follow a cluster copy, against policies that start from a frozen snapshot."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.common.core.interference import N_SOURCES
from apps.scheduling.core import policies, registry
from apps.scheduling.core.batch_state import TopologyFacts
from apps.scheduling.core.cluster.in_memory_store import Committed, MemoryCluster
from apps.scheduling.core.expected import performance as expected
from apps.scheduling.core.fused import FusedExpected
from apps.scheduling.core.rankings import by_signature as rankings
from apps.scheduling.core.rankings import leaders as ranking_leaders
from apps.scheduling.core.rankings import log as ranking_log
from apps.scheduling.core.rankings import search as ranking_search
from apps.scheduling.core.reservations.backfill import Binding, place_batch
from apps.scheduling.core.types import Placed, Refused, Request
from tests.scheduling.core.clusters import idle, loaded, request, topology
from tests.scheduling.core.rankings.outcomes import assert_alike

SIZES = tuple(np.random.default_rng(2).integers(1, 13, 3 * expected.BLOCK + 5).tolist())
CLUSTER = topology(SIZES, racks=5)

_RNG = np.random.default_rng(11)
APPLICATIONS = [
    {
        "caused": _RNG.uniform(0, 100, N_SOURCES),
        "tolerated": _RNG.uniform(20, 100, N_SOURCES),
        "platform_speed": _RNG.uniform(0.3, 1.0, len(CLUSTER.platform_name)),
    }
    for _ in range(4)
]
STEP = st.one_of(
    st.tuples(st.just("place"), st.lists(st.integers(0, 3), min_size=1, max_size=6)),
    st.tuples(st.just("end"), st.integers(0, 10**6)),
    st.tuples(st.sampled_from(["open", "close"]), st.integers(0, CLUSTER.server_id.size - 1)),
)


def asked(application: int, number: int) -> Request:
    more: dict[str, Any] = APPLICATIONS[application]
    units = (1, 1, 1, 7)[application]
    memory = (0.0, 0.0, 6e9, 0.0)[application]
    return request(units, job=f"job-{number}", unit_memory_bytes=memory, **more)


def values_of(outcome: Any) -> tuple[Any, ...]:
    common = (type(outcome), outcome.dropped, outcome.eligible, outcome.examined)
    if not isinstance(outcome, Placed):
        return (*common, outcome.reason)
    return (*common, outcome.units.tolist(), [(c.key, c.verdict) for c in outcome.candidates])


def filled(share: float) -> tuple[MemoryCluster, list[int]]:
    """Return a cluster on which a share of the units is allocated, and the allocations."""
    store = MemoryCluster(CLUSTER, is_compiled=True)
    rng, held = np.random.default_rng(5), []
    for unit in np.flatnonzero(rng.random(CLUSTER.unit_id.size) < share).tolist():
        placed = Placed(
            "old", np.array([unit], np.int32), (), 1, 1, {}, 0.8, 0.0, 0, 0, np.empty(0)
        )
        done = store.commit(placed, asked(unit % 3, unit))
        held += [done.allocation] if isinstance(done, Committed) else []
    return store, held


@settings(max_examples=60)
@given(st.lists(STEP, max_size=25), st.sampled_from([0.0, 0.5, 0.97]))
def test_rankings_that_follow_a_copy_decide_as_if_they_were_computed_again(
    steps: list[tuple[str, Any]], share: float
) -> None:
    store, held = filled(share)
    live = FusedExpected()
    for number, (kind, value) in enumerate([*steps, ("place", [0, 1, 2, 3])]):
        if kind in {"open", "close"}:
            store.set_open([value], is_open=kind == "open")
        elif kind == "end" and held:
            store.release(held.pop(value % len(held)))
        elif kind == "place":
            batch = [asked(application, number) for application in value]
            outcomes = live.place(store.view(), batch, np.random.default_rng(number))
            again = FusedExpected().place(store.snapshot(), batch, np.random.default_rng(number))
            plain = policies.expected().place(
                store.snapshot(), batch, np.random.default_rng(number)
            )
            assert [values_of(o) for o in outcomes] == [values_of(o) for o in again]
            assert_alike([values_of(o) for o in outcomes], [values_of(o) for o in plain])
            pairs = [(o, r) for o, r in zip(outcomes, batch, strict=True) if isinstance(o, Placed)]
            # every other placement is not committed: its units are free again
            for done in store.commit_batch(pairs[::2]):
                held += [done.allocation] if isinstance(done, Committed) else []


def test_rankings_survive_more_changes_and_signatures_than_they_keep(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rankings, "MAX_SIGNATURES", 2)
    store, held = filled(0.5)
    live = FusedExpected()
    live.place(store.view(), [asked(0, 0)], np.random.default_rng(1))
    assert live._rankings is not None
    state = live._rankings._state
    assert state is not None
    state.log = ranking_log.new_log(CLUSTER.server_id.size, entries=6)  # a short memory
    for turn in range(6):
        for allocation in [held.pop() for _ in range(3)]:
            store.release(allocation)
        batch = [asked(turn % 3, turn), asked((turn + 1) % 3, turn)]
        found = live.place(store.view(), batch, np.random.default_rng(turn))
        plain = policies.expected().place(store.snapshot(), batch, np.random.default_rng(turn))
        assert [values_of(o) for o in found] == [values_of(o) for o in plain]
    assert len(live._rankings._known) == 2


def test_units_that_a_view_hides_are_not_chosen() -> None:
    store, _ = filled(0.5)
    live, rng = FusedExpected(), np.random.default_rng(1)
    (first,) = live.place(store.view(), [asked(0, 0)], rng)
    assert isinstance(first, Placed)
    rest = store.view().unit_free.copy()
    rest[CLUSTER.unit_server == CLUSTER.unit_server[first.units[0]]] = False
    hidden = replace(store.view(), unit_free=rest)
    (found,) = live.place(hidden, [asked(0, 1)], np.random.default_rng(2))
    (plain,) = policies.expected().place(hidden, [asked(0, 1)], np.random.default_rng(2))
    assert values_of(found) == values_of(plain)
    other = replace(store.view(), unit_free=~rest & store.view().unit_free)
    (found,) = live.place(other, [asked(0, 1)], np.random.default_rng(2))
    (plain,) = policies.expected().place(other, [asked(0, 1)], np.random.default_rng(2))
    assert values_of(found) == values_of(plain)
    (after,) = live.place(store.view(), [asked(0, 1)], np.random.default_rng(2))
    (plain,) = policies.expected().place(store.view(), [asked(0, 1)], np.random.default_rng(2))
    assert values_of(after) == values_of(plain)


def test_equally_good_units_are_chosen_from_a_random_block() -> None:
    store = MemoryCluster(CLUSTER, is_compiled=True)
    live, batch = FusedExpected(), [asked(0, 0)]
    chosen = set()
    for seed in range(20):
        (outcome,) = live.place(store.view(), batch, np.random.default_rng(seed))
        assert isinstance(outcome, Placed)
        scores = [c.closeness for c in outcome.candidates]
        assert max(scores) - scores[0] <= expected.LOSS
        chosen.add(int(outcome.units[0]))
    assert len(chosen) > 10


def test_the_snapshots_of_different_copies_are_not_confused() -> None:
    live = FusedExpected()
    rng = np.random.default_rng(3)
    for share in (0.2, 0.9, 0.5):
        snapshot = loaded(CLUSTER, share, rng)
        (found,) = live.place(snapshot, [asked(1, 0)], np.random.default_rng(1))
        (plain,) = policies.expected().place(snapshot, [asked(1, 0)], np.random.default_rng(1))
        assert values_of(found) == values_of(plain)


@pytest.mark.parametrize("application", range(3))
def test_the_best_units_are_found_in_every_group_of_blocks(
    application: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # too few: the blocks are searched
    monkeypatch.setattr(ranking_leaders, "max_leaders", lambda _: 2)
    group = ranking_search.GROUP * expected.BLOCK
    cluster = topology((3,) * (group + 5 * expected.BLOCK))
    rng = np.random.default_rng(application)
    noise = rng.uniform(90, 100, cluster.server_id.size)
    quiet = np.array([7, 70, 700, 2000, group, group + 70, group + 140, group + 319])
    noise[rng.permutation(quiet)] = np.arange(60, 76, 2)
    snapshot = replace(
        idle(cluster),
        unit_free=cluster.unit_core > 0,
        server_caused=np.repeat(2 * noise[:, None], N_SOURCES, axis=1).astype(np.float32),
    )
    batch = [asked(application, 0)]
    (found,) = FusedExpected().place(snapshot, batch, np.random.default_rng(1))
    (plain,) = policies.expected().place(snapshot, batch, np.random.default_rng(1))
    assert isinstance(found, Placed)
    servers = cluster.unit_server[[c.unit for c in found.candidates]]
    assert set((servers // group).tolist()) == {0, 1}
    assert values_of(found) == values_of(plain)


@given(calls=st.lists(st.lists(st.integers(0, 9), unique=True, max_size=12), max_size=9))
def test_the_log_lists_each_server_once_as_long_as_it_knows_its_changes(
    calls: list[list[int]],
) -> None:
    cluster = topology((3,) * 10)
    facts = TopologyFacts(cluster)
    state = rankings.RankedState.starting(idle(cluster), facts)
    state.log = ranking_log.new_log(10, entries=14)
    changes: list[int] = []
    for servers in calls:
        ranking_log.append(state.log, state.cluster, np.array(servers, dtype=np.int32))
        changes += servers
        for seen in range(len(changes) + 1):
            found = state.changed_since(seen)
            if found is not None:
                assert sorted(found.tolist()) == sorted(set(changes[seen:]))
    assert state.last == len(changes)
    assert state.knows(len(changes) - min(len(changes), 7))


# ---- around reservations ----

UNITS = st.lists(st.integers(0, CLUSTER.unit_id.size - 1), max_size=40, unique=True)
ROOM = st.lists(
    st.tuples(st.integers(0, CLUSTER.unit_id.size - 1), st.sampled_from([0.0, 2e9, 64e9])),
    max_size=4,
    unique_by=lambda pair: pair[0],
)
GROUP = st.tuples(st.lists(st.integers(0, 3), min_size=1, max_size=4), UNITS, ROOM)
BATCH = st.lists(GROUP, min_size=1, max_size=3)
RESERVED_STEP = st.one_of(
    st.tuples(st.just("bound"), BATCH),
    STEP,
)


def bound(groups: list[Any]) -> tuple[list[int], list[Binding]]:
    """The applications of a batch, and its bindings."""
    applications: list[int] = []
    bindings = []
    for jobs, units, room in groups:
        first = len(applications)
        applications += jobs
        bindings.append(
            Binding(
                tuple(range(first, len(applications))),
                tuple(CLUSTER.unit_id[units].tolist()),
                tuple((int(CLUSTER.unit_id[unit]), memory, 0.0, 0.0) for unit, memory in room),
            )
        )
    return applications, bindings


@pytest.mark.parametrize("name", ["expected", "paragon_greedy"])
@settings(max_examples=30, deadline=None)
@given(st.lists(RESERVED_STEP, max_size=12), BATCH, st.sampled_from([0.0, 0.5, 0.97]))
def test_rankings_kept_around_reservations_decide_as_if_they_were_computed_again(
    name: str, steps: list[tuple[str, Any]], last: list[Any], share: float
) -> None:
    store, held = filled(share)
    live, facts = registry.make(name), TopologyFacts(CLUSTER)
    for number, (kind, value) in enumerate([*steps, ("bound", last), ("place", [0, 1, 2, 3])]):
        if kind in {"open", "close"}:
            store.set_open([value], is_open=kind == "open")
        elif kind == "end" and held:
            store.release(held.pop(value % len(held)))
        elif kind in {"bound", "place"}:
            applications, bindings = bound(value) if kind == "bound" else (value, [])
            batch = [asked(application, number) for application in applications]
            outcomes, again = (
                place_batch(
                    policy,
                    store.view(),
                    batch,
                    np.random.default_rng(number),
                    facts=facts,
                    bindings=bindings,
                )
                for policy in (live, registry.make(name))
            )
            assert [values_of(o) for o in outcomes] == [values_of(o) for o in again]
            pairs = [(o, r) for o, r in zip(outcomes, batch, strict=True) if isinstance(o, Placed)]
            # every other placement is not committed: its units are free again
            for done in store.commit_batch(pairs[::2]):
                held += [done.allocation] if isinstance(done, Committed) else []


def test_reservations_start_no_rankings_again(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Any] = []
    starting = rankings.RankedState.starting

    def counted(*given: Any) -> rankings.RankedState:
        started.append(given)
        return starting(*given)

    monkeypatch.setattr(rankings.RankedState, "starting", counted)
    store, _ = filled(0.5)
    live, facts, rng = FusedExpected(), TopologyFacts(CLUSTER), np.random.default_rng(1)
    held = Binding((1, 2), tuple(CLUSTER.unit_id[:40].tolist()))
    for bindings in ([], [Binding((0,), ()), held], [held._replace(positions=(0, 1, 2))], []):
        batch = [asked(application, 0) for application in (0, 1, 3)]
        outcomes = place_batch(live, store.view(), batch, rng, facts=facts, bindings=bindings)
        assert not any(isinstance(each, Refused) for each in outcomes)
    assert len(started) == 1


def test_rankings_made_around_a_reservation_are_kept() -> None:
    store, _ = filled(0.5)
    live, facts, rng = FusedExpected(), TopologyFacts(CLUSTER), np.random.default_rng(1)
    held = Binding((0,), tuple(CLUSTER.unit_id[:40].tolist()))
    states = []
    for _ in range(3):
        place_batch(live, store.view(), [asked(0, 0)], rng, facts=facts, bindings=[held])
        assert live._rankings is not None
        states.append(live._rankings._state)
    assert len(set(map(id, states))) == 1
