"""Metrics of the running cluster, the incremental state, migrations and speed guarantees."""

import itertools
import time
from dataclasses import replace

import numpy as np
import pytest

from apps.placement.core.problem.instance import Communication
from apps.placement.core.problem.objectives import evaluate
from apps.placement.core.rebalancing import cluster as live
from apps.placement.core.rebalancing.bound import bound
from apps.placement.core.rebalancing.cluster import RunningCluster
from apps.placement.core.rebalancing.planner import RebalancingResult, improve
from apps.placement.core.rebalancing.state import PlacementState
from tests.placement.core.small_cluster import small_cluster

WEIGHTS = {"P": 0.5, "D": 1.0, "C": 0.7}


def rebalanced(
    cluster: RunningCluster, weights: dict[str, float] | None = None, **limits: float
) -> RebalancingResult:
    """Rebalance a cluster without a relevant time limit."""
    return improve(cluster, weights or WEIGHTS, clock=time.perf_counter, limit_s=60.0, **limits)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(20))
def test_metrics_equal_those_of_the_instance_if_containers_have_one_unit(seed: int) -> None:
    cluster = small_cluster(seed, is_plain=True)
    evaluation = evaluate(live.to_instance(cluster), cluster.assignment, WEIGHTS)
    normalised = live.measure(cluster, cluster.assignment).normalised(cluster)
    assert normalised == pytest.approx({name: evaluation.normalised[name] for name in "PDC"})
    assert live.objective_value(cluster, cluster.assignment, WEIGHTS) == pytest.approx(
        evaluation.F
    )


def test_power_counts_units_in_use_on_servers_with_containers() -> None:
    cluster = small_cluster(3)
    modified = replace(
        cluster,
        assignment=np.zeros_like(cluster.assignment),
        units=np.full_like(cluster.units, 40),
        idle_watts=np.full(6, 100.0),
        peak_watts=np.full(6, 300.0),
    )
    watts = live.measure(modified, modified.assignment).watts
    assert watts == pytest.approx(100.0 + 200.0 * int(modified.size.sum()) / 40)


@pytest.mark.parametrize(
    ("communication", "containers", "expected"),
    [
        (Communication.NODE, 3, Communication.NODE),
        (Communication.NODE, 4, Communication.RACK),
        (Communication.NODE, 5, Communication.RACK),
        (Communication.NODE, 6, Communication.CLUSTER),
        (Communication.RACK, 4, Communication.RACK),
        (Communication.RACK, 5, Communication.RACK),
        (Communication.RACK, 6, Communication.CLUSTER),
        (Communication.CLUSTER, 3, Communication.CLUSTER),
        (Communication.CLUSTER, 4, Communication.CLUSTER),
    ],
)
def test_a_job_counts_as_the_smallest_scope_that_can_hold_it(
    communication: Communication, containers: int, expected: Communication
) -> None:
    # servers of 3 and 2 units in one rack, 3 and 1 in the other: 3 on a server, 5 in a rack
    cluster = replace(
        small_cluster(1, servers=4, containers=containers, is_plain=True),
        units=np.array([3, 2, 3, 1]),
        rack=np.array([0, 0, 1, 1]),
        job=np.zeros(containers, dtype=np.int64),
        job_id=("j0",),
        communication=np.array([communication]),
    )
    assert cluster.counts_as().tolist() == [expected]


@pytest.mark.parametrize(
    ("communication", "target", "is_split"),
    [
        (Communication.NODE, 0, False),
        (Communication.NODE, 1, True),
        (Communication.NODE, 2, True),
        (Communication.RACK, 1, False),
        (Communication.RACK, 2, True),
        (Communication.CLUSTER, 2, False),
    ],
)
def test_a_job_is_split_if_it_leaves_its_scope(
    communication: Communication, target: int, is_split: bool
) -> None:
    cluster = replace(
        small_cluster(1, servers=3, containers=2, is_plain=True),
        rack=np.array([0, 0, 1]),
        job=np.zeros(2, dtype=np.int64),
        assignment=np.array([0, 0]),
        communication=np.array([communication]),
        units=np.full(3, 4),
    )
    state = PlacementState(cluster, WEIGHTS)
    state.move(1, target)
    assert state.is_split(0) is is_split
    assert live.split_jobs(cluster, np.array([0, target])).tolist() == [is_split]


@pytest.mark.parametrize("seed", range(20))
def test_the_state_agrees_with_the_definitions_after_every_move(seed: int) -> None:
    cluster = small_cluster(seed, servers=8, containers=14)
    state, rng = PlacementState(cluster, WEIGHTS), np.random.default_rng(seed)
    for container, to in zip(rng.integers(0, 14, 60), rng.integers(0, 8, 60), strict=True):
        state.move(int(container), int(to))
        assignment = np.array(state.assignment)
        assert state.value == pytest.approx(
            live.objective_value(cluster, assignment, WEIGHTS), abs=1e-9
        )
    used = np.bincount(assignment, weights=cluster.size, minlength=8)
    others = cluster.held_units - np.bincount(
        cluster.assignment, weights=cluster.size, minlength=8
    )
    assert (state.free == cluster.units - used - others).all()
    split = [state.is_split(job) for job in range(len(cluster.job_id))]
    assert split == live.split_jobs(cluster, assignment).tolist()
    exposed = [state.is_exposed(job) for job in range(len(cluster.job_id))]
    assert exposed == live.exposed_jobs(cluster, assignment).tolist()


@pytest.mark.parametrize("seed", range(30))
def test_every_migration_fits_in_order_and_bundles_gain_what_they_report(seed: int) -> None:
    cluster = small_cluster(seed, servers=8, containers=12)
    result = rebalanced(cluster)
    state = PlacementState(cluster, WEIGHTS)
    for bundle in result.bundles:
        before = state.value
        for migration in bundle.migrations:
            assert state.assignment[migration.container] == migration.source
            assert state.fits(migration.container)[migration.target]
            state.move(migration.container, migration.target)
        assert before - state.value == pytest.approx(bundle.gain, abs=1e-9)
        assert bundle.gain > 0
    assert state.assignment == result.assignment.tolist()
    assert result.after == pytest.approx(state.value, abs=1e-9)


@pytest.mark.parametrize("seed", range(30))
def test_every_job_keeps_its_expected_speed(seed: int) -> None:
    cluster = small_cluster(seed, servers=8, containers=12)
    result = rebalanced(cluster)
    assert live.meets_expectations(cluster, live.job_speed(cluster, result.assignment)).all()


def best_of_all(cluster: RunningCluster) -> float:
    """F of the best placement, ignoring speed and migrations."""
    servers = cluster.units.size
    return min(
        live.objective_value(cluster, np.array(assignment), WEIGHTS)
        for assignment in itertools.product(range(servers), repeat=cluster.job.size)
        if (np.bincount(assignment, minlength=servers) <= cluster.units).all()
    )


@pytest.mark.parametrize("seed", range(12))
def test_no_placement_is_below_the_bound(seed: int) -> None:
    cluster = small_cluster(seed, servers=4, containers=5, is_plain=True)
    result, best = rebalanced(cluster), best_of_all(cluster)
    assert bound(cluster, WEIGHTS) <= best + 1e-12
    assert best - 1e-12 <= result.after <= result.before
    assert result.gap == pytest.approx((result.after - result.bound) / (result.after + 1.0))


def test_small_clusters_reach_most_of_the_possible_gain() -> None:
    clusters = [small_cluster(s, servers=4, containers=5, is_plain=True) for s in range(12)]
    results = [rebalanced(cluster) for cluster in clusters]
    saved = sum(result.before - result.after for result in results)
    could = sum(
        result.before - best_of_all(c) for result, c in zip(results, clusters, strict=True)
    )
    assert saved >= 0.75 * could


def test_a_server_is_emptied_if_only_power_counts() -> None:
    cluster = small_cluster(1, is_plain=True)
    result = rebalanced(cluster, {"P": 1.0})
    on = [
        live.measure(cluster, assignment).servers_on
        for assignment in (cluster.assignment, result.assignment)
    ]
    assert on[1] < on[0]
    assert {bundle.purpose for bundle in result.bundles} >= {"empty"}


def test_tazes_are_separated_if_only_diversity_counts() -> None:
    cluster = small_cluster(2, is_plain=True)
    both = np.array([True, True, False, False, False, False, False, False, False])
    together = replace(
        cluster,
        is_taz=both,
        intensity=both * 0.9,
        assignment=np.where(both, 0, cluster.assignment),
        units=np.full_like(cluster.units, 9),
    )
    result = rebalanced(together, {"D": 1.0})
    assert live.exposed_jobs(together, together.assignment).any()
    assert not live.exposed_jobs(together, result.assignment).any()


def test_a_job_is_gathered_if_only_communication_counts() -> None:
    cluster = small_cluster(4, is_plain=True)
    apart = replace(
        cluster,
        communication=np.full_like(cluster.communication, Communication.NODE),
        units=np.full_like(cluster.units, 9),
    )
    result = rebalanced(apart, {"C": 1.0})
    assert live.split_jobs(apart, apart.assignment).any()
    assert not live.split_jobs(apart, result.assignment).any()


def test_fixed_containers_do_not_migrate() -> None:
    cluster = replace(small_cluster(5), is_movable=np.zeros(9, dtype=np.bool_))
    assert rebalanced(cluster).migration_count == 0


def test_closed_servers_are_not_targets() -> None:
    closed = np.array([True, True, False, False, False, False])
    cluster = replace(small_cluster(6, is_plain=True), is_open=~closed)
    result = rebalanced(cluster)
    moved_to = result.assignment[result.assignment != cluster.assignment]
    assert not closed[moved_to].any()


def test_expensive_migrations_are_not_made() -> None:
    cluster = small_cluster(7, is_plain=True)
    assert rebalanced(cluster).migration_count > 0
    assert rebalanced(cluster, migration_cost=1e6).migration_count == 0


@pytest.mark.parametrize("limit", [0, 1, 3])
def test_the_number_of_migrations_is_limited(limit: int) -> None:
    assert (
        rebalanced(small_cluster(8, is_plain=True), max_migrations=limit).migration_count <= limit
    )


def test_containers_do_not_migrate_to_slower_platforms() -> None:
    cluster = small_cluster(9)
    result = rebalanced(cluster)
    before, after = cluster.platform[cluster.assignment], cluster.platform[result.assignment]
    assert not ((before == 0) & (after == 1)).any()


def test_a_search_stops_on_request() -> None:
    result = improve(small_cluster(1), WEIGHTS, clock=time.perf_counter, should_stop=lambda: True)
    assert result.migration_count == 0
    assert not result.is_complete


def test_the_first_migrations_do_not_wait_until_every_candidate_was_evaluated() -> None:
    readings = itertools.count()
    found: list[RebalancingResult] = []
    improve(
        small_cluster(3, servers=60, containers=90),
        WEIGHTS,
        clock=lambda: 0.01 * next(readings),
        limit_s=10.0,
        on_progress=found.append,
    )
    assert found[0].migration_count > 0
    assert found[0].seconds < 0.6


def test_an_empty_cluster_has_no_migrations() -> None:
    cluster = small_cluster(1)
    none = np.zeros(0, dtype=np.int64)
    empty = replace(
        cluster,
        allocation_id=none, job=none, assignment=none, size=none, demand=np.zeros((0, 3)),
        intensity=np.zeros(0), is_taz=none.astype(np.bool_), is_movable=none.astype(np.bool_),
        job_id=(), job_name=(), communication=none, is_allowed=np.zeros((0, 6), dtype=np.bool_),
        attainment=np.zeros(0), speed=np.zeros((0, 2)), caused=np.zeros((0, 3)),
        tolerated=np.zeros((0, 3)),
    )  # fmt: skip
    result = rebalanced(empty)
    assert (result.migration_count, result.before, result.bound) == (0, 0.0, 0.0)


def test_a_turtle_is_evicted_if_no_server_has_room_for_a_taz() -> None:
    cluster = small_cluster(2, servers=3, containers=6, is_plain=True)
    taz = np.array([True, True, False, False, False, False])
    # two tazes share the first server, two turtles fill the second, the third has one slot left
    full = replace(
        cluster,
        is_taz=taz,
        intensity=taz * 0.9,
        job=np.arange(6) % 3,
        assignment=np.array([0, 0, 1, 1, 2, 2]),
        units=np.array([2, 2, 3]),
        held_units=np.array([2, 2, 2]),
        is_movable=np.array([True, True, True, True, False, False]),
        platform=np.zeros(3, dtype=np.int64),
    )
    # only the second server may take the tazes
    allowed = np.ones((3, 3), dtype=np.bool_)
    allowed[full.job[0], 2] = allowed[full.job[1], 2] = False
    full = replace(full, is_allowed=allowed)
    result = rebalanced(full, {"D": 1.0})
    assert not live.exposed_jobs(full, result.assignment).any()
    assert [len(bundle.migrations) for bundle in result.bundles] == [2]
