"""The curve of what a growing number of migrations reaches."""

from dataclasses import replace
from itertools import count

import numpy as np
import pytest

from apps.placement.core.problem.instance import Communication
from apps.placement.core.rebalancing import cluster as live
from apps.placement.core.rebalancing.bundles import Bundle, BundlePurpose
from apps.placement.core.rebalancing.cluster import RunningCluster
from apps.placement.core.rebalancing.obstacles import Obstacle, obstacle_sentence
from apps.placement.core.rebalancing.planner import RebalancingResult, improve
from apps.placement.core.rebalancing.reach import elbow, prefixes, reach_json
from apps.placement.core.solver.migrations import ContainerMigration
from tests.placement.core.small_cluster import small_cluster

POWER = {"P": 1.0, "D": 0.0, "C": 0.0}


def line_of_servers() -> RunningCluster:
    """Three servers of 4 units and 60-150 W, with one container of one unit each."""
    plain = small_cluster(1, servers=3, containers=3, is_plain=True)
    return replace(
        plain,
        units=np.full(3, 4),
        held_units=np.ones(3, dtype=np.int64),
        assignment=np.arange(3),
        idle_watts=np.full(3, 60.0),
        peak_watts=np.full(3, 150.0),
        job=np.zeros(3, dtype=np.int64),
        job_id=("j0",),
        job_name=("job-0",),
        communication=np.array([Communication.CLUSTER]),
        is_taz=np.zeros(3, dtype=np.bool_),
        is_allowed=np.ones((1, 3), dtype=np.bool_),
        attainment=np.array([1.0]),
        speed=np.array([[1.0, 0.6]]),
        caused=np.zeros((1, 3)),
        tolerated=np.full((1, 3), 99.0),
    )


def result_of(cluster: RunningCluster, *bundles: Bundle) -> RebalancingResult:
    return RebalancingResult(bundles, cluster.assignment, 0.0, 0.0, 0.0, 0.0, 0.0, True)


def emptying(server: int, to: int) -> Bundle:
    return Bundle(BundlePurpose.EMPTY, server, (ContainerMigration(server, server, to),), 0.1)


def test_the_curve_has_the_power_after_each_bundle() -> None:
    cluster = line_of_servers()
    outcome = result_of(cluster, emptying(1, 0), emptying(2, 0))
    curve = reach_json(cluster, outcome, POWER, [30.0, 12.0])
    # a server costs 60 W, and each used unit 90/4 = 22.5 W: 3·60 + 67.5, 2·60 + 67.5, 60 + 67.5
    assert curve["watts"] == pytest.approx([247.5, 187.5, 127.5])
    assert (curve["moves"], curve["bundles"]) == ([0, 1, 2], [0, 1, 2])
    assert (curve["servers_on"], curve["seconds"]) == ([3, 2, 1], [0.0, 30.0, 42.0])
    assert curve["normalised"]["P"] == pytest.approx([0.55, 187.5 / 450, 127.5 / 450])
    assert curve["F"] == pytest.approx(curve["normalised"]["P"])
    assert (curve["fallen"], curve["falling"]) == ([0, 0, 0], [])


def test_the_last_prefix_is_the_result_of_the_search() -> None:
    cluster = small_cluster(11, servers=8, containers=14)
    weights = {"P": 1.0, "D": 0.6, "C": 0.4}
    outcome = improve(cluster, weights, clock=lambda: 0.0)
    assert outcome.bundles
    curve = reach_json(cluster, outcome, weights, [1.0] * outcome.migration_count)
    assert (curve["F"][0], curve["F"][-1]) == pytest.approx((outcome.before, outcome.after))
    after = live.metrics_json(cluster, outcome.assignment, weights)
    assert curve["watts"][-1] == pytest.approx(after["watts"])
    assert curve["moves"][-1] == outcome.migration_count
    assert all(np.diff(curve["F"]) < 0.0)  # every bundle of the search lowers F


def test_a_job_that_would_miss_its_target_is_counted_from_the_bundle_that_slows_it() -> None:
    cluster = line_of_servers()
    cluster = replace(cluster, platform=np.array([1, 0, 0]))  # server 0 is slow: 0.6
    curve = reach_json(
        cluster, result_of(cluster, emptying(2, 1), emptying(1, 0)), POWER, [1.0, 1.0]
    )
    assert curve["fallen"] == [0, 0, 1]
    # from speeds 0.6 + 1 + 1 to 0.6 + 0.6 + 1
    assert curve["falling"][0]["ratio"] == pytest.approx([1.0, 1.0, 2.2 / 2.6], abs=1e-4)
    assert curve["falling"][0]["name"] == "job-0"


def test_no_migrations_give_a_curve_of_one_point() -> None:
    cluster = line_of_servers()
    curve = reach_json(cluster, result_of(cluster), POWER, [])
    assert (curve["moves"], curve["elbow"], len(curve["F"])) == ([0], 0, 1)


@pytest.mark.parametrize(
    ("migrations", "limit", "kept"),
    [
        ([], 5, [0]),
        ([3, 1], 5, [0, 1, 2]),
        ([1] * 10, 3, [0, 5, 10]),
        ([9, 1, 1, 1], 3, [0, 1, 4]),  # half of 12 migrations are inside the first bundle
    ],
)
def test_prefixes_are_spread_over_the_migrations(
    migrations: list[int], limit: int, kept: list[int]
) -> None:
    assert prefixes(migrations, limit) == kept


@pytest.mark.parametrize(
    ("moves", "values", "index"),
    [
        ([0, 10, 20, 30, 40], [10.0, 4.0, 2.0, 1.0, 0.0], 1),  # line 7.5: 3.5 below; 3, 1.5
        ([0, 10, 20, 30, 40], [10.0, 6.0, 2.0, 1.0, 0.0], 2),
        ([0, 10, 20], [10.0, 5.0, 0.0], 0),  # a straight line has no elbow
        ([0, 4], [3.0, 1.0], 0),
        ([0], [3.0], 0),
    ],
)
def test_the_elbow_is_farthest_below_the_line_between_the_ends(
    moves: list[int], values: list[float], index: int
) -> None:
    assert elbow(np.array(moves), np.array(values)) == index


# ---- obstacles ----


def searched(cluster: RunningCluster, **options: float) -> RebalancingResult:
    return improve(cluster, POWER, clock=lambda: 0.0, **options)  # type: ignore[arg-type]


def test_a_full_cluster_has_no_room() -> None:
    cluster = replace(line_of_servers(), held_units=np.full(3, 4))
    assert searched(cluster).obstacles == {Obstacle.NO_ROOM: 3}


def test_migrations_that_cost_more_than_they_gain_are_counted() -> None:
    # emptying a server gains 60 of 450 W; one of 3 migrations costs a third of the price
    assert searched(line_of_servers(), migration_cost=0.41).obstacles == {Obstacle.COST: 3}


def test_containers_that_must_stay_are_counted() -> None:
    cluster = replace(line_of_servers(), is_movable=np.zeros(3, dtype=np.bool_))
    assert searched(cluster).obstacles == {Obstacle.PINNED: 3}


def test_targets_that_slow_a_job_down_are_counted() -> None:
    cluster = line_of_servers()
    loud = replace(cluster, caused=np.full((1, 3), 90.0), tolerated=np.full((1, 3), 5.0))
    assert searched(loud).obstacles == {Obstacle.SLOWER: 3}


def test_a_container_is_migrated_once() -> None:
    outcome = searched(line_of_servers())
    assert outcome.migration_count == 2
    assert outcome.obstacles == {Obstacle.MOVED: 1}  # the last server holds all three


def test_a_limit_on_migrations_is_an_obstacle() -> None:
    outcome = searched(line_of_servers(), max_migrations=1)
    assert outcome.migration_count == 1
    assert not outcome.is_complete


def test_a_search_out_of_time_says_so() -> None:
    ticks = count()
    outcome = improve(line_of_servers(), POWER, clock=lambda: float(next(ticks)), limit_s=1.0)
    sentence = obstacle_sentence(outcome.obstacles, is_complete=outcome.is_complete)
    assert sentence == "The search reached its limit before it tried every bundle."


@pytest.mark.parametrize(
    ("counts", "sentence"),
    [
        ({}, "No further bundle of migrations is possible."),
        ({Obstacle.COST: 1}, "The one further bundle tried gains less than it costs."),
        (
            {Obstacle.NO_ROOM: 1_200},
            "All 1,200 further bundles tried find no suitable server with room.",
        ),
        (
            {Obstacle.COST: 1, Obstacle.NO_ROOM: 31, Obstacle.SLOWER: 12},
            "Of 44 further bundles tried, 31 find no suitable server with room, 12 would slow down"
            " a job too much and 1 gains less than it costs.",
        ),
    ],
)
def test_the_obstacles_are_listed_most_frequent_first(
    counts: dict[Obstacle, int], sentence: str
) -> None:
    assert obstacle_sentence(counts, is_complete=True) == sentence
