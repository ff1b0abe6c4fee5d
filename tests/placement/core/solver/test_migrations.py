"""Arrivals placed without migrations, and few migrations to an equivalent placement."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.inventory.core.snapshot import Ints
from apps.placement.core.problem.instance import NOWHERE, Instance
from apps.placement.core.problem.objectives import evaluate, migrations
from apps.placement.core.solver.arrivals import place_arriving
from apps.placement.core.solver.migrations import ordered_migrations, relabel
from tests.placement.core.tiny import (
    every_assignment,
    random_assignment,
    some_weights,
    tiny_instance,
)


def still() -> float:
    return 0.0


def arrive(instance: Instance, weights: dict[str, float], *, limit_s: float = 0.0) -> Ints:
    return place_arriving(instance, weights, clock=still, limit_s=limit_s)


seeds = st.integers(0, 100_000)


@settings(max_examples=200)
@given(seed=seeds)
def test_arrivals_fit_and_running_containers_stay(seed: int) -> None:
    instance = tiny_instance(seed)
    placed = arrive(instance, some_weights(seed))
    runs = instance.current != NOWHERE
    assert np.array_equal(placed[runs], instance.current[runs])
    assert (placed != NOWHERE).all()
    assert (np.bincount(placed, minlength=instance.slots.size) <= instance.slots).all()


def gap_of_arrivals(seed: int) -> float:
    """F above the minimum over all placements that keep running containers on their nodes."""
    instance, weights = tiny_instance(seed, is_plain=True), some_weights(seed)
    runs = instance.current != NOWHERE
    every = every_assignment(instance)
    allowed = every[(every[:, runs] == instance.current[runs]).all(axis=1)]
    minimum = min((evaluate(instance, candidate, weights).F for candidate in allowed), default=0.0)
    return evaluate(instance, arrive(instance, weights, limit_s=1.0), weights).F - minimum


def test_placed_arrivals_are_nearly_optimal() -> None:
    gaps = np.array([gap_of_arrivals(seed) for seed in range(150)])
    assert gaps.min() > -1e-9
    assert np.mean(gaps < 1e-9) >= 0.95
    assert gaps.mean() < 0.01


def test_more_arrivals_than_slots_are_refused() -> None:
    instance = tiny_instance(1)
    crowded = Instance(
        node_ids=("a",),
        rack_ids=("r",),
        rack=np.zeros(1, dtype=np.int64),
        slots=np.ones(1, dtype=np.int64),
        idle_watts=np.ones(1),
        peak_watts=np.ones(1),
        container_ids=("x", "y"),
        job_ids=("j",),
        job=np.zeros(2, dtype=np.int64),
        intensity=np.zeros(2),
        is_taz=np.zeros(2, dtype=np.bool_),
        communication=np.zeros(1, dtype=np.int64),
        current=np.full(2, NOWHERE),
    )
    assert arrive(instance, {"P": 1.0}).size == instance.job.size
    with pytest.raises(ValueError, match="2 containers do not fit in the free slots"):
        arrive(crowded, {"P": 1.0})


@settings(max_examples=200)
@given(seed=seeds)
def test_relabelling_keeps_the_values_and_adds_no_migrations(seed: int) -> None:
    instance, weights = tiny_instance(seed, is_plain=seed % 2 == 0), some_weights(seed)
    assignment = random_assignment(instance, seed)
    near = relabel(instance, assignment)
    values = [evaluate(instance, candidate, weights) for candidate in (assignment, near)]
    assert [values[1].raw[name] for name in "PDC"] == pytest.approx(
        [values[0].raw[name] for name in "PDC"]
    )
    assert migrations(instance, near) <= migrations(instance, assignment)


def test_an_equivalent_placement_on_renamed_nodes_needs_no_migration() -> None:
    instance = twelve_on_six()
    turned = np.array([4, 4, 5, 5, 0, 0, 1, 1, 2, 2, 3, 3])
    assert relabel(instance, turned).tolist() == instance.current.tolist()


def twelve_on_six() -> Instance:
    """Three racks of two full nodes, with one job per rack."""
    return Instance(
        node_ids=tuple("abcdef"),
        rack_ids=("r", "s", "t"),
        rack=np.array([0, 0, 1, 1, 2, 2]),
        slots=np.full(6, 2),
        idle_watts=np.full(6, 1.0),
        peak_watts=np.full(6, 2.0),
        container_ids=tuple(map(str, range(12))),
        job_ids=("x", "y", "z"),
        job=np.repeat([0, 1, 2], 4),
        intensity=np.zeros(12),
        is_taz=np.zeros(12, dtype=np.bool_),
        communication=np.ones(3, dtype=np.int64),
        current=np.repeat(np.arange(6), 2),
    )


@settings(max_examples=200)
@given(seed=seeds)
def test_each_migration_fits_in_its_order(seed: int) -> None:
    instance = tiny_instance(seed)
    at = instance.current.copy()
    for migration in ordered_migrations(instance, random_assignment(instance, seed)):
        assert at[migration.container] == migration.source
        at[migration.container] = migration.target
        used = np.bincount(at[at != NOWHERE], minlength=instance.slots.size)
        assert (used <= instance.slots).all()


@settings(max_examples=200)
@given(seed=seeds)
def test_migrations_reach_the_target_if_there_is_a_free_slot(seed: int) -> None:
    instance = tiny_instance(seed, containers=5)
    target = random_assignment(instance, seed)
    runs = instance.current != NOWHERE
    at = instance.current.copy()
    for migration in ordered_migrations(instance, target):
        at[migration.container] = migration.target
    has_room = runs.sum() < instance.slots.sum()
    assert np.array_equal(at[runs], target[runs]) or not has_room


def test_a_full_cluster_has_no_migrations() -> None:
    instance = twelve_on_six()
    assert ordered_migrations(instance, instance.current[::-1].copy()) == []
