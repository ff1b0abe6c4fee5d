"""Bundles of a plan on a cluster that has changed since."""

import time
from dataclasses import replace

import numpy as np
import pytest

from apps.placement.core.rebalancing.bundles import Bundle, BundleCandidate, BundlePurpose
from apps.placement.core.rebalancing.cluster import RunningCluster, objective_value
from apps.placement.core.rebalancing.planner import improve
from apps.placement.core.rebalancing.rebase import (
    ChangeCause,
    PlannedBundle,
    RebasedBundles,
    rebase,
)
from apps.placement.core.solver.migrations import ContainerMigration
from tests.placement.core.small_cluster import small_cluster

WEIGHTS = {"P": 1.0, "D": 0.0, "C": 0.0}


def plain(assignment: list[int], **changes: object) -> RunningCluster:
    """Three equal servers of four units, and one-unit containers of one job each."""
    count = len(assignment)
    drawn = small_cluster(0, servers=3, containers=2 * count, is_plain=True)
    held = np.bincount(assignment, minlength=3)
    cluster = replace(
        drawn,
        units=np.full(3, 4),
        idle_watts=np.full(3, 100.0),
        peak_watts=np.full(3, 200.0),
        held_units=held,
        allocation_id=np.arange(100, 100 + count),
        job=np.arange(count),
        assignment=np.array(assignment),
        size=np.ones(count, dtype=np.int64),
        demand=np.ones((count, 3)),
        intensity=np.full(count, 0.1),
        is_taz=np.zeros(count, dtype=np.bool_),
        is_movable=np.ones(count, dtype=np.bool_),
        communication=np.full(count, 2),
        attainment=np.full(count, np.nan),
    )
    return replace(cluster, **changes)  # type: ignore[arg-type]


def emptying(number: int, *migrations: tuple[int, int, int], missing: int = 0) -> PlannedBundle:
    """A bundle that empties the source of its first migration."""
    moves = tuple(ContainerMigration(*migration) for migration in migrations)
    candidate = BundleCandidate(BundlePurpose.EMPTY, moves[0].source if moves else 0)
    return PlannedBundle(number, candidate, moves, missing, gain=0.1)


def rebased(cluster: RunningCluster, *bundles: PlannedBundle, cost: float = 0.0) -> RebasedBundles:
    return rebase(cluster, WEIGHTS, bundles, max_migrations=40, migration_cost=cost)


def test_an_intact_bundle_is_kept_with_its_present_gain() -> None:
    cluster = plain([0, 1, 1])
    result = rebased(cluster, emptying(7, (0, 0, 1)))
    (kept,) = result.bundles
    assert (kept.number, kept.cause) == (7, None)
    assert kept.bundle is not None
    assert kept.bundle.migrations == (ContainerMigration(0, 0, 1),)
    assert kept.bundle.gain == pytest.approx(100.0 / 600.0)
    assert result.assignment.tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    "candidate", [BundleCandidate(BundlePurpose.IMPROVE, 2), None], ids=["container", "gone"]
)
def test_a_kept_bundle_of_one_container_is_about_its_job(
    candidate: BundleCandidate | None,
) -> None:
    # two jobs: container 2 belongs to job 1
    cluster = replace(plain([1, 1, 0]), job=np.array([0, 0, 1]))
    moves = (ContainerMigration(2, 0, 1),)
    planned = PlannedBundle(4, candidate, moves, missing=0, gain=0.1)
    (kept,) = rebased(cluster, planned).bundles
    assert kept.cause is None
    assert kept.bundle is not None
    assert (kept.bundle.purpose, kept.bundle.subject) == (BundlePurpose.IMPROVE, 1)


def test_what_is_left_of_a_bundle_is_kept_if_it_still_pays() -> None:
    result = rebased(plain([0, 1, 1]), emptying(0, (0, 0, 1), missing=1))
    (left,) = result.bundles
    assert left.cause is ChangeCause.GONE
    assert left.bundle is not None
    assert left.bundle.migrations == (ContainerMigration(0, 0, 1),)


def test_a_bundle_is_built_again_with_the_containers_that_arrived_since() -> None:
    # container 3 arrived on the server to empty
    result = rebased(plain([0, 1, 1, 0]), emptying(0, (0, 0, 1)))
    (built,) = result.bundles
    assert built.cause is ChangeCause.NO_GAIN
    assert built.bundle is not None
    assert {migration.container for migration in built.bundle.migrations} == {0, 3}
    assert result.assignment.tolist() == [1, 1, 1, 1]


def test_a_bundle_whose_target_filled_up_goes_elsewhere() -> None:
    # server 1 is full; server 2 has room
    result = rebased(plain([0, 1, 1, 1, 1, 2]), emptying(0, (0, 0, 1)))
    (built,) = result.bundles
    assert (built.cause, built.subject) == (ChangeCause.NO_ROOM, 1)
    assert built.bundle is not None
    assert built.bundle.migrations == (ContainerMigration(0, 0, 2),)


def test_a_bundle_without_any_container_left_is_dropped() -> None:
    gone = PlannedBundle(3, BundleCandidate(BundlePurpose.EMPTY, 2), (), missing=2, gain=0.1)
    result = rebased(plain([0, 1, 1]), gone)
    (dropped,) = result.bundles
    assert (dropped.number, dropped.bundle, dropped.cause) == (3, None, ChangeCause.GONE)
    assert result.assignment.tolist() == [0, 1, 1]


def test_a_bundle_whose_container_must_stay_is_dropped_and_names_it() -> None:
    cluster = plain([0, 1, 1], is_movable=np.array([False, True, True]))
    (dropped,) = rebased(cluster, emptying(0, (0, 0, 1))).bundles
    assert (dropped.bundle, dropped.cause, dropped.subject) == (None, ChangeCause.FIXED, 0)


def test_an_intact_bundle_that_would_raise_f_is_dropped() -> None:
    # it would switch server 2 on
    planned = replace(emptying(0, (0, 0, 2)), candidate=None)
    (dropped,) = rebased(plain([0, 0, 1]), planned).bundles
    assert (dropped.bundle, dropped.cause) == (None, ChangeCause.NO_GAIN)


def test_what_is_left_of_a_bundle_is_dropped_if_it_costs_more_than_it_gains() -> None:
    cluster = plain([0, 1, 1])
    (dropped,) = rebased(cluster, emptying(0, (0, 0, 1), missing=1), cost=3.0).bundles
    assert (dropped.bundle, dropped.cause) == (None, ChangeCause.GONE)


def test_a_later_bundle_may_use_what_an_earlier_one_frees() -> None:
    # server 1 is full until bundle 0 has moved a container to server 2
    cluster = plain([0, 1, 1, 1, 1, 2, 2])
    free = emptying(0, (1, 1, 2))
    result = rebased(cluster, replace(free, gain=0.0), emptying(1, (0, 0, 1)))
    assert [(b.number, b.cause) for b in result.bundles] == [(0, None), (1, None)]


@pytest.mark.parametrize("seed", range(20))
def test_a_plan_on_an_unchanged_cluster_is_kept_whole(seed: int) -> None:
    cluster = small_cluster(seed, servers=8, containers=16)
    weights = {"P": 0.5, "D": 1.0, "C": 0.7}
    found = improve(cluster, weights, clock=time.perf_counter, limit_s=60.0)
    result = rebase(
        cluster, weights, planned(found.bundles), max_migrations=100, migration_cost=0.0
    )
    assert [b.number for b in result.bundles] == list(range(len(found.bundles)))
    assert [b.cause for b in result.bundles] == [None] * len(found.bundles)
    assert result.assignment.tolist() == found.assignment.tolist()


@pytest.mark.parametrize("seed", range(20))
def test_what_stays_of_a_plan_fits_and_gains_what_it_says(seed: int) -> None:
    cluster = small_cluster(seed, servers=8, containers=16)
    weights = {"P": 0.5, "D": 1.0, "C": 0.7}
    found = improve(cluster, weights, clock=time.perf_counter, limit_s=60.0)
    now, place = without(cluster, np.random.default_rng(seed).random(16) < 0.3)
    bundles = [
        replace(
            bundle,
            candidate=moved(bundle.candidate, place),
            migrations=tuple(
                ContainerMigration(place[m.container], m.source, m.target)
                for m in bundle.migrations
                if m.container in place
            ),
            missing=sum(m.container not in place for m in bundle.migrations),
        )
        for bundle in planned(found.bundles)
    ]
    result = rebase(now, weights, bundles, max_migrations=100)
    used = np.bincount(result.assignment, weights=now.size, minlength=8)
    assert (used <= now.units).all()
    gain = objective_value(now, now.assignment, weights) - objective_value(
        now, result.assignment, weights
    )
    assert gain == pytest.approx(sum(b.bundle.gain for b in result.bundles if b.bundle), abs=1e-9)
    assert sorted(b.number for b in result.bundles) == list(range(len(bundles)))


def planned(bundles: tuple[Bundle, ...]) -> list[PlannedBundle]:
    """The bundles of a search, with all their containers."""
    return [
        PlannedBundle(number, candidate_of(b), b.migrations, 0, b.gain)
        for number, b in enumerate(bundles)
    ]


def candidate_of(bundle: Bundle) -> BundleCandidate:
    if bundle.purpose is BundlePurpose.IMPROVE:
        return BundleCandidate(bundle.purpose, bundle.migrations[0].container)
    return BundleCandidate(bundle.purpose, bundle.subject)


def moved(candidate: BundleCandidate | None, place: dict[int, int]) -> BundleCandidate | None:
    """The candidate in the new indices; None if its container is gone."""
    if candidate is None or candidate.purpose is not BundlePurpose.IMPROVE:
        return candidate
    new = place.get(candidate.subject)
    return None if new is None else BundleCandidate(candidate.purpose, new)


def without(cluster: RunningCluster, gone: np.ndarray) -> tuple[RunningCluster, dict[int, int]]:
    """The cluster without some containers, and the new index of each that is left."""
    left = np.flatnonzero(~gone)
    held = cluster.held_units - np.bincount(
        cluster.assignment[gone], weights=cluster.size[gone], minlength=cluster.units.size
    )
    changed = {
        name: getattr(cluster, name)[left]
        for name in (
            "allocation_id", "job", "assignment", "size", "demand", "intensity", "is_taz",
            "is_movable",
        )
    }  # fmt: skip
    now = replace(cluster, held_units=held.astype(np.int64), **changed)
    return now, {int(container): place for place, container in enumerate(left)}
