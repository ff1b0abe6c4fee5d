"""The running cluster: its measures, the board that follows them, moves and what they promise."""

import itertools
import time
from dataclasses import replace

import numpy as np
import pytest

from apps.placement.core import live
from apps.placement.core.board import Board
from apps.placement.core.instance import Communication
from apps.placement.core.live import Cluster
from apps.placement.core.live_bound import bound
from apps.placement.core.objectives import evaluate
from apps.placement.core.replacing import Outcome, improve
from tests.placement.core.small_cluster import small_cluster

WEIGHTS = {"P": 0.5, "D": 1.0, "C": 0.7}


def found(cluster: Cluster, weights: dict[str, float] | None = None, **given: float) -> Outcome:
    """Improve a cluster with time enough to settle."""
    return improve(cluster, weights or WEIGHTS, clock=time.perf_counter, limit_s=60.0, **given)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(20))
def test_with_containers_of_one_unit_the_measures_are_those_of_the_instance(seed: int) -> None:
    cluster = small_cluster(seed, is_plain=True)
    seen = evaluate(live.to_instance(cluster), cluster.home, WEIGHTS)
    normalised = live.measure(cluster, cluster.home).normalised(cluster)
    assert normalised == pytest.approx({name: seen.normalised[name] for name in "PDC"})
    assert live.value(cluster, cluster.home, WEIGHTS) == pytest.approx(seen.F)


def test_power_counts_the_units_lent_by_servers_that_hold_a_container() -> None:
    cluster = small_cluster(3)
    one = replace(
        cluster,
        home=np.zeros_like(cluster.home),
        units=np.full_like(cluster.units, 40),
        idle_watts=np.full(6, 100.0),
        peak_watts=np.full(6, 300.0),
    )
    watts = live.measure(one, one.home).watts
    assert watts == pytest.approx(100.0 + 200.0 * int(one.size.sum()) / 40)


@pytest.mark.parametrize("seed", range(20))
def test_the_board_holds_what_the_definitions_say_after_every_move(seed: int) -> None:
    cluster = small_cluster(seed, servers=8, containers=14)
    board, rng = Board(cluster, WEIGHTS), np.random.default_rng(seed)
    for container, to in zip(rng.integers(0, 14, 60), rng.integers(0, 8, 60), strict=True):
        board.move(int(container), int(to))
        home = np.array(board.home)
        assert board.value == pytest.approx(live.value(cluster, home, WEIGHTS), abs=1e-9)
    used = np.bincount(home, weights=cluster.size, minlength=8)
    others = cluster.held_units - np.bincount(cluster.home, weights=cluster.size, minlength=8)
    assert (board.free == cluster.units - used - others).all()
    split = [board.is_split(job) for job in range(len(cluster.job_id))]
    assert split == live.split_jobs(cluster, home).tolist()
    exposed = [board.is_exposed(job) for job in range(len(cluster.job_id))]
    assert exposed == live.exposed_jobs(cluster, home).tolist()


@pytest.mark.parametrize("seed", range(30))
def test_every_move_fits_when_its_turn_comes_and_its_bundle_gains_what_it_says(seed: int) -> None:
    cluster = small_cluster(seed, servers=8, containers=12)
    outcome = found(cluster)
    board = Board(cluster, WEIGHTS)
    for bundle in outcome.bundles:
        before = board.value
        for step in bundle.steps:
            assert board.home[step.container] == step.source
            assert board.fits(step.container)[step.to]
            board.move(step.container, step.to)
        assert before - board.value == pytest.approx(bundle.gain, abs=1e-9)
        assert bundle.gain > 0
    assert board.home == outcome.home.tolist()
    assert outcome.after == pytest.approx(board.value, abs=1e-9)


@pytest.mark.parametrize("seed", range(30))
def test_nobody_is_left_with_less_than_promised(seed: int) -> None:
    cluster = small_cluster(seed, servers=8, containers=12)
    outcome = found(cluster)
    assert live.keeps_promise(cluster, live.job_speed(cluster, outcome.home)).all()


def best_of_all(cluster: Cluster) -> float:
    """F of the best placement there is, promises and moves left out."""
    servers = cluster.units.size
    return min(
        live.value(cluster, np.array(home), WEIGHTS)
        for home in itertools.product(range(servers), repeat=cluster.job.size)
        if (np.bincount(home, minlength=servers) <= cluster.units).all()
    )


@pytest.mark.parametrize("seed", range(12))
def test_nothing_is_below_the_bound(seed: int) -> None:
    cluster = small_cluster(seed, servers=4, containers=5, is_plain=True)
    outcome, best = found(cluster), best_of_all(cluster)
    assert bound(cluster, WEIGHTS) <= best + 1e-12
    assert best - 1e-12 <= outcome.after <= outcome.before
    assert outcome.gap == pytest.approx((outcome.after - outcome.bound) / (outcome.after + 1.0))


def test_small_clusters_come_near_the_best() -> None:
    clusters = [small_cluster(s, servers=4, containers=5, is_plain=True) for s in range(12)]
    outcomes = [found(cluster) for cluster in clusters]
    saved = sum(one.before - one.after for one in outcomes)
    could = sum(one.before - best_of_all(c) for one, c in zip(outcomes, clusters, strict=True))
    assert saved >= 0.75 * could


def test_a_server_is_emptied_when_power_is_all_that_counts() -> None:
    cluster = small_cluster(1, is_plain=True)
    outcome = found(cluster, {"P": 1.0})
    on = [live.measure(cluster, home).servers_on for home in (cluster.home, outcome.home)]
    assert on[1] < on[0]
    assert {bundle.purpose for bundle in outcome.bundles} >= {"empty"}


def test_tazes_are_parted_when_diversity_is_all_that_counts() -> None:
    cluster = small_cluster(2, is_plain=True)
    both = np.array([True, True, False, False, False, False, False, False, False])
    together = replace(
        cluster,
        is_taz=both,
        intensity=both * 0.9,
        home=np.where(both, 0, cluster.home),
        units=np.full_like(cluster.units, 9),
    )
    outcome = found(together, {"D": 1.0})
    assert live.exposed_jobs(together, together.home).any()
    assert not live.exposed_jobs(together, outcome.home).any()


def test_a_job_is_gathered_when_communication_is_all_that_counts() -> None:
    cluster = small_cluster(4, is_plain=True)
    apart = replace(
        cluster,
        wish=np.full_like(cluster.wish, Communication.NODE),
        units=np.full_like(cluster.units, 9),
    )
    outcome = found(apart, {"C": 1.0})
    assert live.split_jobs(apart, apart.home).any()
    assert not live.split_jobs(apart, outcome.home).any()


def test_what_must_stay_stays() -> None:
    cluster = replace(small_cluster(5), is_movable=np.zeros(9, dtype=np.bool_))
    assert found(cluster).moves == 0


def test_nothing_goes_to_a_closed_server() -> None:
    closed = np.array([True, True, False, False, False, False])
    cluster = replace(small_cluster(6, is_plain=True), is_open=~closed)
    outcome = found(cluster)
    moved_to = outcome.home[outcome.home != cluster.home]
    assert not closed[moved_to].any()


def test_a_migration_must_pay_for_itself() -> None:
    cluster = small_cluster(7, is_plain=True)
    assert found(cluster).moves > 0
    assert found(cluster, migration=1e6).moves == 0


@pytest.mark.parametrize("most", [0, 1, 3])
def test_no_more_moves_than_allowed(most: int) -> None:
    assert found(small_cluster(8, is_plain=True), most_moves=most).moves <= most


def test_a_slower_platform_is_not_a_better_place() -> None:
    cluster = small_cluster(9)
    outcome = found(cluster)
    before, after = cluster.platform[cluster.home], cluster.platform[outcome.home]
    assert not ((before == 0) & (after == 1)).any()


def test_a_search_stops_when_asked() -> None:
    outcome = improve(small_cluster(1), WEIGHTS, clock=time.perf_counter, should_stop=lambda: True)
    assert outcome.moves == 0
    assert not outcome.is_settled


def test_an_empty_cluster_has_nothing_to_move() -> None:
    cluster = small_cluster(1)
    none = np.zeros(0, dtype=np.int64)
    empty = replace(
        cluster,
        allocation_id=none, job=none, home=none, size=none, demand=np.zeros((0, 3)),
        intensity=np.zeros(0), is_taz=none.astype(np.bool_), is_movable=none.astype(np.bool_),
        job_id=(), job_name=(), wish=none, is_allowed=np.zeros((0, 6), dtype=np.bool_),
        attainment=np.zeros(0), speed=np.zeros((0, 2)), caused=np.zeros((0, 3)),
        tolerated=np.zeros((0, 3)),
    )  # fmt: skip
    outcome = found(empty)
    assert (outcome.moves, outcome.before, outcome.bound) == (0, 0.0, 0.0)


def test_a_turtle_makes_room_where_no_other_server_has_any() -> None:
    cluster = small_cluster(2, servers=3, containers=6, is_plain=True)
    taz = np.array([True, True, False, False, False, False])
    # two tazes share the first server, two turtles fill the second, the third has one slot left
    full = replace(
        cluster,
        is_taz=taz,
        intensity=taz * 0.9,
        job=np.arange(6) % 3,
        home=np.array([0, 0, 1, 1, 2, 2]),
        units=np.array([2, 2, 3]),
        held_units=np.array([2, 2, 2]),
        is_movable=np.array([True, True, True, True, False, False]),
        platform=np.zeros(3, dtype=np.int64),
    )
    # only the second server may take the tazes
    allowed = np.ones((3, 3), dtype=np.bool_)
    allowed[full.job[0], 2] = allowed[full.job[1], 2] = False
    full = replace(full, is_allowed=allowed)
    outcome = found(full, {"D": 1.0})
    assert not live.exposed_jobs(full, outcome.home).any()
    assert [len(bundle.steps) for bundle in outcome.bundles] == [2]
