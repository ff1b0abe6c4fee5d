"""Paragon's compiled search against the assembled one, on states that change."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.common.core.interference import N_SOURCES
from apps.scheduling.core.cluster.in_memory_store import Committed, MemoryCluster
from apps.scheduling.core.expected import performance as expected
from apps.scheduling.core.paragon import kernels as paragon_kernels
from apps.scheduling.core.rankings import by_signature as rankings
from apps.scheduling.core.registry import POLICIES, make
from apps.scheduling.core.types import Placed, Policy, Request
from tests.scheduling.core.clusters import idle, loaded, request, topology

NAMES = ("paragon_greedy", "heterogeneity_oblivious", "reservation_paragon")
SIZES = tuple(np.random.default_rng(2).integers(1, 13, 2 * expected.BLOCK + 5).tolist())
CLUSTER = topology(SIZES, racks=5)


def application(seed: int, scale: float) -> dict[str, Any]:
    """Scores of an application; the smaller ``scale``, the more servers meet all constraints."""
    rng = np.random.default_rng(seed)
    return {
        "caused": rng.uniform(0, 100, N_SOURCES) * scale,
        "tolerated": 100.0 - rng.uniform(0, 100, N_SOURCES) * scale,
        "platform_speed": rng.uniform(0.3, 1.0, len(CLUSTER.platform_name)).round(1),
    }


# quiet, common, loud and louder than any server tolerates; the last causes the same everywhere
APPLICATIONS = [application(n, scale) for n, scale in enumerate((0.1, 0.4, 0.8))]
APPLICATIONS += [{"caused": np.full(N_SOURCES, 95.0), "tolerated": np.full(N_SOURCES, 1.0)}]
STEP = st.one_of(
    st.tuples(st.just("place"), st.lists(st.integers(0, 3), min_size=1, max_size=5)),
    st.tuples(st.just("end"), st.integers(0, 10**6)),
    st.tuples(st.sampled_from(["open", "close"]), st.integers(0, CLUSTER.server_id.size - 1)),
)


def asked(number: int, name: str = "job", units: int = 1) -> Request:
    memory = (0.0, 6e9, 0.0, 0.0)[number]
    more: dict[str, Any] = APPLICATIONS[number]
    return request(units, job=name, unit_memory_bytes=memory, **more)


def plain(name: str, **parameters: int) -> Policy:
    made = POLICIES[name].plain
    assert made is not None
    return made(**parameters)


def values_of(outcome: Any) -> tuple[Any, ...]:
    common = (type(outcome), outcome.dropped, outcome.eligible, outcome.examined)
    if not isinstance(outcome, Placed):
        return (*common, outcome.reason)
    candidates = [(c.key, c.unit, c.verdict, c.headroom.tolist()) for c in outcome.candidates]
    return (*common, outcome.units.tolist(), outcome.probability, candidates)


def filled(share: float) -> tuple[MemoryCluster, list[int]]:
    """Return a cluster on which a share of the units is allocated, and the allocations."""
    store = MemoryCluster(CLUSTER, is_compiled=True)
    rng, held = np.random.default_rng(5), []
    for unit in np.flatnonzero(rng.random(CLUSTER.unit_id.size) < share).tolist():
        units = np.array([unit], np.int32)
        placed = Placed("old", units, (), 1, 1, {}, 0.8, 0.0, 0, 0, np.empty(0))
        done = store.commit(placed, asked(unit % 3))
        held += [done.allocation] if isinstance(done, Committed) else []
    return store, held


@settings(max_examples=60)
@given(
    steps=st.lists(STEP, max_size=20),
    share=st.sampled_from([0.0, 0.5, 0.97]),
    name=st.sampled_from(NAMES),
    limit=st.sampled_from([4_000_000, 4_000_000, 1_500, 200, 1]),
)
def test_both_forms_decide_alike_while_the_cluster_changes(
    steps: list[tuple[str, Any]], share: float, name: str, limit: int
) -> None:
    store, held = filled(share)
    live, oracle = make(name, {"limit": limit}), plain(name, limit=limit)
    for number, (kind, value) in enumerate([*steps, ("place", [0, 1, 2, 3])]):
        if kind in {"open", "close"}:
            store.set_open([value], is_open=kind == "open")
        elif kind == "end" and held:
            store.release(held.pop(value % len(held)))
        elif kind == "place":
            batch = [asked(n, f"job-{number}-{n}") for n in value]
            found = live.place(store.view(), batch, np.random.default_rng(number))
            again = oracle.place(store.snapshot(), batch, np.random.default_rng(number))
            assert [values_of(o) for o in found] == [values_of(o) for o in again]
            pairs = [(o, r) for o, r in zip(found, batch, strict=True) if isinstance(o, Placed)]
            # every other placement is not committed: its units are free again
            for done in store.commit_batch(pairs[::2]):
                held += [done.allocation] if isinstance(done, Committed) else []


@settings(max_examples=80)
@given(
    seed=st.integers(0, 2**31),
    busy=st.floats(0.0, 0.9),
    scale=st.floats(0.05, 1.0),
    limit=st.sampled_from([10**6, 100, 30]),
    units=st.sampled_from([1, 1, 1, 3]),
)
def test_both_forms_relax_and_stop_alike_on_few_servers(
    seed: int, busy: float, scale: float, limit: int, units: int
) -> None:
    rng = np.random.default_rng(seed)
    snapshot = loaded(topology((4, 8, 16, 1, 2, 4, 8, 16)), busy, rng)
    job = request(units, **(application(seed, scale) | {"platform_speed": None}))
    found, again = (
        policy.place(snapshot, [job], np.random.default_rng(seed))
        for policy in (
            make("paragon_greedy", {"limit": limit}),
            plain("paragon_greedy", limit=limit),
        )
    )
    assert [values_of(o) for o in found] == [values_of(o) for o in again]


@settings(max_examples=150)
@given(seed=st.integers(0, 2**31), limit=st.sampled_from([10**6, 10**6, 10**6, 150, 60]))
def test_both_forms_go_back_alike_if_every_server_violates_something(
    seed: int, limit: int
) -> None:
    rng = np.random.default_rng(seed)
    servers = 20
    pressed = rng.uniform(0.0, 240.0, (servers, N_SOURCES)).astype(np.float32)
    tolerance = rng.uniform(-10.0, 60.0, (servers, N_SOURCES)).astype(np.float32)
    snapshot = replace(
        idle(topology((4,) * servers)), server_caused=pressed, server_tolerance=tolerance
    )
    job = request(caused=rng.uniform(0, 100, N_SOURCES), tolerated=rng.uniform(0, 100, N_SOURCES))
    found, again = (
        policy.place(snapshot, [job], np.random.default_rng(seed))
        for policy in (
            make("paragon_greedy", {"limit": limit}),
            plain("paragon_greedy", limit=limit),
        )
    )
    assert [values_of(o) for o in found] == [values_of(o) for o in again]


@pytest.mark.parametrize("name", NAMES)
def test_a_cluster_without_free_units_refuses_alike(name: str) -> None:
    snapshot = loaded(CLUSTER, 1.1, np.random.default_rng(1))
    outcomes = [
        policy.place(snapshot, [asked(0)], np.random.default_rng(1))
        for policy in (make(name), plain(name))
    ]
    assert [values_of(o) for o in outcomes[0]] == [values_of(o) for o in outcomes[1]]
    assert not isinstance(outcomes[0][0], Placed)


def test_signatures_that_were_dropped_are_examined_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rankings, "MAX_SIGNATURES", 2)
    store, held = filled(0.5)
    live, oracle = make("paragon_greedy"), plain("paragon_greedy")
    for turn in range(6):
        for allocation in [held.pop() for _ in range(3)]:
            store.release(allocation)
        batch = [asked(turn % 3), asked((turn + 1) % 3)]
        found = live.place(store.view(), batch, np.random.default_rng(turn))
        again = oracle.place(store.snapshot(), batch, np.random.default_rng(turn))
        assert [values_of(o) for o in found] == [values_of(o) for o in again]


def test_the_reserved_units_are_placed() -> None:
    store, _ = filled(0.2)
    job = request(1, **(APPLICATIONS[0] | {"reserved": 3}))
    (outcome,) = make("reservation_paragon").place(store.view(), [job], np.random.default_rng(1))
    assert isinstance(outcome, Placed)
    assert (outcome.units.size, outcome.wanted) == (3, 3)


@pytest.mark.parametrize(("count", "high"), [(1, 9), (2, 7), (3, 5), (4, 1), (9, 1)])
def test_the_nth_highest_bound_is_found_whatever_their_order(count: int, high: int) -> None:
    for order in ([1, 5, 9, 7], [9, 7, 5, 1], [5, 1, 7, 9]):
        assert paragon_kernels._high(np.array(order, dtype=np.int64), count) == high
