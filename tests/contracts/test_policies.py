"""Contract of all policies in the registry."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.inventory.core.snapshot import Snapshot
from apps.scheduling.core.cluster.in_memory_store import Committed, MemoryCluster
from apps.scheduling.core.cluster.places import place_of
from apps.scheduling.core.contract import failures
from apps.scheduling.core.registry import POLICIES, UnknownPolicyError, make
from apps.scheduling.core.types import (
    MAX_CANDIDATES,
    Placed,
    Policy,
    RefusalReason,
    Refused,
    Request,
    Verdict,
    Within,
)
from tests.scheduling.core.clusters import SHARE, idle, loaded, request, topology

SWITCHES = ("agg-1", "agg-1", "agg-2", "agg-2", "")
SIZES = (4, 8, 16, 1, 2, 4, 8, 16)
BY_ORDER = {"slot_rr", "node_rr", "dot_product"}  # the order of servers decides ties, not a coin


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_a_policy_passes_the_suite_for_other_packages(name: str) -> None:
    assert list(failures(lambda: make(name))) == []


@pytest.fixture(params=sorted(POLICIES))
def policy(request: pytest.FixtureRequest) -> Policy:
    return make(request.param)


def place(policy: Policy, snapshot: Snapshot, *requests: Request, seed: int = 1) -> list[Any]:
    return policy.place(snapshot, requests, np.random.default_rng(seed))


def busy(snapshot: Snapshot, *units: int) -> Snapshot:
    free = snapshot.unit_free.copy()
    free[list(units)] = False
    return replace(snapshot, unit_free=free)


def closed(snapshot: Snapshot, *servers: int) -> Snapshot:
    is_open = snapshot.server_open.copy()
    is_open[list(servers)] = False
    return replace(snapshot, server_open=is_open)


def test_a_policy_has_its_name_in_the_registry(policy: Policy) -> None:
    assert policy.name in POLICIES
    assert policy.version >= 1


def test_an_unknown_name_lists_the_known_names() -> None:
    with pytest.raises(
        UnknownPolicyError,
        match=(
            "autoscale, dot_product, expected, heterogeneity_oblivious, interference_oblivious, "
            "least_loaded, node_rr, paragon_greedy, paragon_sampling, quasar, quietest, random, "
            "reservation_least_loaded, reservation_paragon, roomiest, "
            "sampling, slot_rr, tarcil, tarcil_monotone, tarcil_printed"
        ),
    ):
        make("fifo")


def test_the_same_seed_gives_the_same_outcome(policy: Policy) -> None:
    snapshot = loaded(topology(SIZES), 0.5, np.random.default_rng(3))
    first, second = (place(policy, snapshot, request(3), request(2)) for _ in range(2))
    assert [o.units.tolist() for o in first] == [o.units.tolist() for o in second]
    assert [o.seed for o in first] == [o.seed for o in second]


def test_a_new_policy_of_the_same_name_gives_the_same_outcome(policy: Policy) -> None:
    snapshot = loaded(topology(SIZES), 0.5, np.random.default_rng(3))
    (mine,) = place(policy, snapshot, request(3))
    (other,) = place(make(policy.name), snapshot, request(3))
    assert mine.units.tolist() == other.units.tolist()


def test_the_snapshot_does_not_change(policy: Policy) -> None:
    snapshot = loaded(topology(SIZES), 0.5, np.random.default_rng(3))
    arrays = (
        snapshot.unit_free,
        snapshot.server_open,
        snapshot.server_caused,
        snapshot.server_tolerance,
        snapshot.server_free,
    )
    before = [array.tolist() for array in arrays]
    place(policy, snapshot, request(3), request(2), request(5))
    assert [array.tolist() for array in arrays] == before


@pytest.mark.parametrize("seed", range(5))
def test_no_unit_is_on_an_excluded_server(policy: Policy, seed: int) -> None:
    rng = np.random.default_rng(seed)
    snapshot = loaded(topology(SIZES), 0.3, rng)
    out = frozenset(rng.choice(len(SIZES), 3, replace=False).tolist())
    demands = [
        request(1, excluded=out),
        request(6, excluded=out),
        request(3, excluded=out, locality=Within.SERVER),
        request(2, excluded=out, spread=Within.SERVER),
    ]
    for outcome in place(policy, snapshot, *demands, seed=seed):
        if isinstance(outcome, Placed):
            assert not out & set(snapshot.topology.unit_server[outcome.units].tolist())


def test_an_empty_batch_has_no_outcomes(policy: Policy) -> None:
    assert place(policy, idle(topology(SIZES))) == []


def test_a_cluster_without_servers_refuses_every_job(policy: Policy) -> None:
    outcomes = place(policy, idle(topology(())), request(1), request(1), request(5))
    reasons = [outcome.reason for outcome in outcomes if isinstance(outcome, Refused)]
    assert reasons == [RefusalReason.NO_MATCHING_SERVER] * 3


def test_an_idle_cluster_takes_the_first_job(policy: Policy) -> None:
    (outcome,) = place(policy, idle(topology(SIZES)), request(5))
    assert outcome.units.size == 5
    assert outcome.eligible == sum(SIZES)


def test_a_server_of_one_unit_is_used(policy: Policy) -> None:
    (outcome,) = place(policy, idle(topology((1,))), request())
    assert outcome.units.tolist() == [0]


def test_the_last_free_unit_is_found(policy: Policy) -> None:
    snapshot = busy(idle(topology((16,) * 20)), *range(319))
    (outcome,) = place(policy, snapshot, request())
    assert outcome.units.tolist() == [319]


def test_an_incremental_job_gets_all_free_units(policy: Policy) -> None:
    (outcome,) = place(policy, busy(idle(topology((4,))), 0), request(8))
    assert sorted(outcome.units.tolist()) == [1, 2, 3]


def test_a_full_cluster_refuses_because_no_unit_is_free(policy: Policy) -> None:
    snapshot = busy(idle(topology((4, 4))), *range(8))
    (outcome,) = place(policy, snapshot, request())
    assert outcome.reason is RefusalReason.NO_FREE_UNIT
    assert outcome.dropped == {"busy": 8}


def test_a_gang_with_too_few_free_units_is_refused(policy: Policy) -> None:
    (outcome,) = place(policy, busy(idle(topology((4,))), 0), request(4, gang=True))
    assert outcome.reason is RefusalReason.NOT_ENOUGH_FREE_UNITS
    assert outcome.eligible == 3


def test_closed_servers_are_not_used_and_are_counted(policy: Policy) -> None:
    (outcome,) = place(policy, closed(idle(topology((4, 4))), 0), request(8))
    assert sorted(outcome.units.tolist()) == [4, 5, 6, 7]
    assert outcome.dropped == {"closed": 4}


def test_a_closed_cluster_refuses_as_closed(policy: Policy) -> None:
    (outcome,) = place(policy, closed(idle(topology((4, 4))), 0, 1), request())
    assert outcome.reason is RefusalReason.SERVERS_CLOSED


def test_only_allowed_platforms_are_used(policy: Policy) -> None:
    (outcome,) = place(policy, idle(topology((2, 2, 2))), request(9, platforms=frozenset({"A"})))
    assert sorted(outcome.units.tolist()) == [2, 3]
    assert outcome.dropped == {"platform": 4}


def test_a_platform_missing_from_the_cluster_is_refused_permanently(policy: Policy) -> None:
    (outcome,) = place(policy, idle(topology((2, 2))), request(platforms=frozenset({"Z"})))
    assert outcome.reason is RefusalReason.NO_MATCHING_SERVER
    assert outcome.reason.is_permanent


def test_only_servers_with_all_labels_are_used(policy: Policy) -> None:
    marks = (frozenset({"ssd=yes"}), frozenset({"ssd=yes", "zone=a"}), frozenset[str]())
    spec = request(9, labels=frozenset({"ssd=yes", "zone=a"}))
    (outcome,) = place(policy, idle(topology((2, 2, 2), labels=marks)), spec)
    assert sorted(outcome.units.tolist()) == [2, 3]
    assert outcome.dropped == {"labels": 4}


def test_excluded_servers_are_not_used(policy: Policy) -> None:
    (outcome,) = place(policy, idle(topology((2, 2))), request(4, excluded=frozenset({0, 99})))
    assert sorted(outcome.units.tolist()) == [2, 3]
    assert outcome.dropped == {"excluded": 2}


def test_memory_limits_the_units_of_a_server(policy: Policy) -> None:
    spec = request(8, unit_memory_bytes=2 * SHARE[0])
    (outcome,) = place(policy, idle(topology((4, 4))), spec)
    servers = [0 if unit < 4 else 1 for unit in outcome.units.tolist()]
    assert sorted(servers) == [0, 0, 1, 1]


def test_units_without_memory_are_refused_for_capacity(policy: Policy) -> None:
    snapshot = idle(topology((4, 4)))
    full = replace(snapshot, server_free=np.zeros((2, 3)))
    (outcome,) = place(policy, full, request())
    assert outcome.reason is RefusalReason.CAPACITY_SHORT
    assert outcome.dropped == {"capacity": 8}


def test_a_unit_larger_than_any_server_is_refused_permanently(policy: Policy) -> None:
    (outcome,) = place(policy, idle(topology((4,))), request(unit_memory_bytes=5 * SHARE[0]))
    assert outcome.reason is RefusalReason.NO_MATCHING_SERVER


@pytest.mark.parametrize("bounds", [{"gang": True}, {"locality": Within.RACK}])
def test_a_job_whose_memory_no_idle_cluster_has_is_refused_permanently(
    policy: Policy, bounds: dict[str, Any]
) -> None:
    cluster = idle(topology((4, 4), racks=1))
    memory = 2 * SHARE[0]
    demands = [request(units, unit_memory_bytes=memory, **bounds) for units in (4, 5)]
    fits, lacks = (place(policy, cluster, each)[0] for each in demands)
    assert isinstance(fits, Placed)
    assert lacks.reason is RefusalReason.NO_MATCHING_SERVER


@pytest.mark.parametrize("within", list(Within))
def test_locality_keeps_the_units_together(policy: Policy, within: Within) -> None:
    cluster = topology((8,) * 20, racks=5, switches=SWITCHES)
    snapshot = loaded(cluster, 0.4, np.random.default_rng(9))
    units = {Within.SERVER: 4, Within.RACK: 12, Within.SWITCH: 36}[within]
    (outcome,) = place(policy, snapshot, request(units, locality=within))
    places = place_of(cluster, within)[cluster.unit_server[outcome.units]]
    assert outcome.units.size == units
    assert np.unique(places).size == 1


@pytest.mark.parametrize("within", list(Within))
def test_spread_keeps_the_units_apart(policy: Policy, within: Within) -> None:
    cluster = topology((8,) * 20, racks=5, switches=SWITCHES)
    snapshot = loaded(cluster, 0.4, np.random.default_rng(9))
    units = {Within.SERVER: 5, Within.RACK: 5, Within.SWITCH: 3}[within]
    (outcome,) = place(policy, snapshot, request(units, spread=within, gang=True))
    places = place_of(cluster, within)[cluster.unit_server[outcome.units]]
    assert np.unique(places).size == units


BOTH = [
    (Within.RACK, Within.SERVER, 3),
    (Within.SWITCH, Within.SERVER, 7),
    (Within.SWITCH, Within.RACK, 2),
]


@pytest.mark.parametrize(("within", "apart", "units"), BOTH)
def test_units_of_one_place_can_be_apart_within_it(
    policy: Policy, within: Within, apart: Within, units: int
) -> None:
    cluster = topology((8,) * 20, racks=5, switches=SWITCHES)
    snapshot = loaded(cluster, 0.4, np.random.default_rng(9))
    (outcome,) = place(policy, snapshot, request(units, locality=within, spread=apart))
    servers = cluster.unit_server[outcome.units]
    assert np.unique(place_of(cluster, within)[servers]).size == 1
    assert np.unique(place_of(cluster, apart)[servers]).size == outcome.units.size == units


def test_units_apart_in_one_rack_wait_for_enough_of_its_servers(policy: Policy) -> None:
    snapshot = busy(idle(topology((2, 2, 2, 2), racks=1)), 4, 5, 6, 7)
    spec = request(3, locality=Within.RACK, spread=Within.SERVER)
    (outcome,) = place(policy, snapshot, spec)
    assert outcome.reason is RefusalReason.SPREAD_SHORT


def test_a_job_larger_than_any_server_cannot_be_local_to_one(policy: Policy) -> None:
    spec = request(5, locality=Within.SERVER)
    (outcome,) = place(policy, idle(topology((4, 4))), spec)
    assert outcome.reason is RefusalReason.NO_MATCHING_SERVER


def test_locality_waits_for_room_on_one_server(policy: Policy) -> None:
    snapshot = busy(idle(topology((4, 4))), 0, 4)
    (outcome,) = place(policy, snapshot, request(4, locality=Within.SERVER))
    assert outcome.reason is RefusalReason.LOCALITY_SHORT
    assert outcome.dropped == {"busy": 2, "locality": 6}


def test_a_gang_spread_wider_than_free_servers_waits(policy: Policy) -> None:
    snapshot = busy(idle(topology((2, 2, 2))), 4, 5)
    (outcome,) = place(policy, snapshot, request(3, spread=Within.SERVER, gang=True))
    assert outcome.reason is RefusalReason.SPREAD_SHORT


def test_later_jobs_of_a_batch_see_the_units_of_earlier_ones(policy: Policy) -> None:
    outcomes = place(policy, idle(topology((4, 4))), *(request(job=str(i)) for i in range(9)))
    units = [unit for outcome in outcomes[:8] for unit in outcome.units.tolist()]
    assert sorted(units) == list(range(8))
    assert isinstance(outcomes[8], Refused)


def test_later_jobs_of_a_batch_see_the_memory_of_earlier_ones(policy: Policy) -> None:
    spec = request(unit_memory_bytes=4 * SHARE[0])
    outcomes = place(policy, idle(topology((4,))), spec, spec)
    assert isinstance(outcomes[0], Placed)
    assert outcomes[1].reason is RefusalReason.CAPACITY_SHORT


def test_later_jobs_of_a_batch_see_the_pressure_of_earlier_ones(policy: Policy) -> None:
    noisy = request(caused=np.full(10, 90.0), platforms=frozenset({"J"}))
    first, second = place(policy, idle(topology((2, 2))), noisy, noisy)
    assert first.candidates[0].headroom.tolist() == [10.0] * 10
    assert second.candidates[0].headroom.tolist() == [-80.0] * 10


def test_a_refusal_inside_a_batch_does_not_stop_the_rest(policy: Policy) -> None:
    outcomes = place(
        policy, idle(topology((4,))), request(9, gang=True, job="a"), request(job="b")
    )
    assert [type(outcome) for outcome in outcomes] == [Refused, Placed]
    assert [outcome.job for outcome in outcomes] == ["a", "b"]


def test_chosen_units_are_among_the_candidates_sorted_best_first(policy: Policy) -> None:
    snapshot = loaded(topology(SIZES * 4), 0.5, np.random.default_rng(3))
    (outcome,) = place(policy, snapshot, request(3))
    keys = [candidate.key for candidate in outcome.candidates]
    chosen = [c.unit for c in outcome.candidates if c.verdict == Verdict.CHOSEN]
    assert keys == sorted(keys, reverse=True)
    assert chosen == outcome.units.tolist()
    assert len(keys) <= min(MAX_CANDIDATES, outcome.examined)


def test_every_unit_is_eligible_or_dropped_once(policy: Policy) -> None:
    snapshot = closed(loaded(topology(SIZES), 0.5, np.random.default_rng(3)), 2)
    spec = request(platforms=frozenset({"J"}), excluded=frozenset({0}))
    (outcome,) = place(policy, snapshot, spec)
    assert outcome.eligible + sum(outcome.dropped.values()) == sum(SIZES)


def test_an_outcome_names_its_snapshot(policy: Policy) -> None:
    placed, refused = place(policy, idle(topology((1,))), request(), request())
    assert (placed.sequence, refused.sequence) == (7, 7)


def test_seeds_fit_a_signed_bigint(policy: Policy) -> None:
    outcomes = place(policy, idle(topology((16,) * 4)), *[request()] * 40)
    assert all(0 <= outcome.seed < 2**63 for outcome in outcomes)


def relabelled(snapshot: Snapshot, order: np.ndarray) -> Snapshot:
    """Return the same servers in another order, all of one size."""
    return replace(
        snapshot,
        topology=replace(
            snapshot.topology,
            server_platform=snapshot.topology.server_platform[order],
            server_rack=snapshot.topology.server_rack[order],
        ),
        unit_free=snapshot.unit_free.reshape(order.size, -1)[order].ravel(),
        server_caused=snapshot.server_caused[order],
        server_exposure=snapshot.server_exposure[order],
        server_tolerance=snapshot.server_tolerance[order],
        server_free=snapshot.server_free[order],
    )


@pytest.fixture(params=sorted(POLICIES.keys() - BY_ORDER))
def fair(request: pytest.FixtureRequest) -> Policy:
    return make(request.param)


@pytest.mark.parametrize("units", [1, 5])
def test_relabelling_leaves_the_score_of_a_full_scan_unchanged(fair: Policy, units: int) -> None:
    rng = np.random.default_rng(8)
    snapshot = loaded(topology((8,) * 30), 0.6, rng)
    spec = request(units, sample_size=1000, platform_speed=np.array([1.0, 0.7]))
    (outcome,) = place(fair, snapshot, spec)
    (other,) = place(fair, relabelled(snapshot, rng.permutation(30)), spec, seed=2)
    scores = [[c.key[:3] for c in o.candidates[:units]] for o in (outcome, other)]
    assert scores[0] == scores[1]


requests = st.lists(
    st.builds(
        request,
        units=st.integers(1, 10),
        gang=st.booleans(),
        unit_memory_bytes=st.sampled_from([0.0, 1e9, 8e9]),
        locality=st.sampled_from([None, *Within]),
        spread=st.none(),
        caused=st.lists(st.floats(0, 100), min_size=10, max_size=10).map(np.array),
    ),
    min_size=1,
    max_size=8,
)


@pytest.mark.parametrize("name", sorted(POLICIES))
@settings(max_examples=60)
@given(wishes=requests, seed=st.integers(0, 2**32))
def test_a_batch_never_exceeds_the_cluster_and_always_commits(
    name: str, wishes: list[Request], seed: int
) -> None:
    cluster = MemoryCluster(topology(SIZES))
    outcomes = make(name).place(cluster.snapshot(), wishes, np.random.default_rng(seed))
    pairs = [(o, r) for o, r in zip(outcomes, wishes, strict=True) if isinstance(o, Placed)]
    done = cluster.commit_batch(pairs)
    assert all(isinstance(commit, Committed) and commit.lost.size == 0 for commit in done)
    assert [c.units.size for c in done if isinstance(c, Committed)] == [
        o.units.size for o, _ in pairs
    ]
    assert (cluster.snapshot().server_free >= -1e-6 * SHARE[0]).all()


def hit_share(policy: Policy, snapshot: Snapshot, spec: Request, units: range) -> float:
    """Return the share of 1,000 decisions that chose one of ``units``."""
    rng = np.random.default_rng(12)
    outcomes = [policy.place(snapshot, [spec], rng)[0] for _ in range(1000)]
    hits = [o.units[0] in units for o in outcomes if isinstance(o, Placed)]
    return float(np.mean(hits))


def test_equal_units_are_chosen_with_equal_frequency(fair: Policy) -> None:
    # 8 idle servers of 4 units: the first two hold a quarter of all equals; a share of 1,000
    # decisions has deviation 0.0137, and 4.5 of them leave a chance of 7e-6
    share = hit_share(fair, idle(topology((4,) * 8)), request(), range(8))
    assert abs(share - 0.25) < 4.5 * 0.0137
