"""NSGA-II: feasible genomes, values of the plain objectives, good fronts."""

from collections.abc import Callable
from dataclasses import replace
from itertools import count

import numpy as np
import pytest

from apps.inventory.core.snapshot import Bools, Floats, Ints
from apps.placement.core.front import genome, kernels, variation
from apps.placement.core.front.archive import ParetoFront, hypervolume, losses
from apps.placement.core.front.counts import counts_front
from apps.placement.core.front.nsga2 import FrontProgress, FrontSearch
from apps.placement.core.front.search import find_front
from apps.placement.core.front.starts import (
    node_round_robin,
    packed,
    rule_placements,
    slot_round_robin,
    spread,
    weights_to_try,
)
from apps.placement.core.problem.evaluator import fill, pack, raw_values
from apps.placement.core.problem.examples import InstanceSpec, JobMix, generate_instance
from apps.placement.core.problem.instance import Instance
from apps.placement.core.problem.objectives import evaluate, scales
from tests.placement.core.tiny import every_assignment, tiny_instance

MIXED = InstanceSpec(
    containers=80, nodes=50, nodes_per_rack=8, slots=3, kinds=2, has_real_intensities=True
)
PLAIN = InstanceSpec(containers=120, nodes_per_rack=24, mix=JobMix.HADOOP, largest=32)
OPERATORS = [
    "_swap_containers",
    "_move_container",
    "_empty_node",
    "_gather_job",
    "_protect_job",
    "_concentrate_tazes",
    "_swap_jobs",
]


def stopped_clock() -> float:
    return 0.0


def ticking(step_s: float) -> Callable[[], float]:
    ticks = count()
    return lambda: step_s * next(ticks)


def begun(instance: Instance, seed: int = 0, size: int = 20) -> FrontSearch:
    return FrontSearch(
        instance, rule_placements(instance), clock=stopped_clock, seed=seed, size=size
    )


def fits(instance: Instance, assignment: Ints) -> bool:
    used = np.bincount(assignment, minlength=len(instance.node_ids))
    return bool((used <= instance.slots).all())


def is_consistent(instance: Instance, w: genome.DecodedPlacement) -> bool:
    """Whether the nodes' containers, sums and counts agree with the assignment."""
    nodes = len(instance.node_ids)
    used = np.bincount(w.at, minlength=nodes)
    tazes = np.bincount(w.at[instance.is_taz], minlength=nodes)
    held = [set(w.held[node, : used[node]].tolist()) for node in range(nodes)]
    expected_sets = [set(np.flatnonzero(w.at == node).tolist()) for node in range(nodes)]
    return bool(
        np.array_equal(used, w.used) and np.array_equal(tazes, w.tazes) and held == expected_sets
    )


def plain_losses(instance: Instance, assignment: Ints) -> Floats:
    normalised = evaluate(instance, assignment).normalised
    return losses(np.array([[normalised[name] for name in "PDC"]]))[0]


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("seed", range(4))
def test_every_operator_leaves_a_placement_that_fits_and_changes_some(
    seed: int, operator: str
) -> None:
    instance = generate_instance(replace(MIXED, largest=8), seed)
    s, w = pack(instance), genome.allocate(instance, seed)
    slots = np.repeat(np.arange(50), instance.slots)
    start = np.random.default_rng(seed).permutation(slots)[:80]
    act = getattr(variation, operator)
    held: list[bool] = []
    changed = 0
    for _ in range(60):
        fill(s, w, start)
        variation.mutate(s, w)
        before = w.at.copy()
        act(s, w)
        changed += not np.array_equal(before, w.at)
        held.append(is_consistent(instance, w) and fits(instance, w.at))
    assert all(held)
    assert changed > 0


PLACEABLE = [seed for seed in range(80) if tiny_instance(seed, containers=5).job.size]


@pytest.mark.parametrize("seed", PLACEABLE)
def test_long_chains_of_changes_on_tiny_instances_fit(seed: int) -> None:
    instance = tiny_instance(seed, containers=5)
    s, w = pack(instance), genome.allocate(instance, seed)
    fill(s, w, node_round_robin(instance))
    donor = slot_round_robin(instance)
    held = []
    for _ in range(50):
        variation.mutate(s, w)
        variation.cross(s, w, donor)
        held.append(is_consistent(instance, w) and fits(instance, w.at))
    assert all(held)


@pytest.mark.parametrize("seed", range(10))
def test_crossover_gives_the_jobs_that_come_over_the_donors_places(seed: int) -> None:
    instance = generate_instance(MIXED, seed)
    s, w = pack(instance), genome.allocate(instance, seed)
    fill(s, w, slot_round_robin(instance))
    donor = node_round_robin(instance)
    variation.cross(s, w, donor)
    came: Bools = w.marked[instance.job]
    assert came.any()
    assert np.array_equal(w.at[came], donor[came])
    assert is_consistent(instance, w)
    assert fits(instance, w.at)


@pytest.mark.parametrize("instance_spec", [MIXED, PLAIN])
@pytest.mark.parametrize("seed", range(5))
def test_a_placement_is_measured_as_the_plain_objectives_do(
    seed: int, instance_spec: InstanceSpec
) -> None:
    instance = generate_instance(instance_spec, seed)
    s, w = pack(instance), genome.allocate(instance, seed)
    fill(s, w, spread(instance))
    fast, plain = [], []
    for _ in range(20):
        variation.mutate(s, w)
        measured = np.empty(3)
        genome.evaluate_losses(s, w, measured)
        fast.append(measured)
        plain.append(plain_losses(instance, w.at.astype(np.int64)))
    assert np.array(fast) == pytest.approx(np.array(plain), abs=1e-9)


@pytest.mark.parametrize("seed", range(100))
def test_tiny_instances_are_measured_as_the_plain_objectives_do(seed: int) -> None:
    instance = tiny_instance(seed)
    s, w, measured = pack(instance), genome.allocate(instance, 0), np.empty(3)
    fill(s, w, slot_round_robin(instance))
    genome.evaluate_losses(s, w, measured)
    assert measured == pytest.approx(plain_losses(instance, slot_round_robin(instance)), abs=1e-9)


def test_drawn_numbers_are_even_and_stay_below_the_end() -> None:
    w = genome.allocate(tiny_instance(1), 5)
    drawn = np.array([genome.random_below(w, 7) for _ in range(7_000)])
    counts = np.bincount(drawn, minlength=7)
    assert counts.size == 7
    assert abs(counts - 1_000).max() < 5 * np.sqrt(7_000 * (1 / 7) * (6 / 7))


@pytest.mark.parametrize("seed", range(40))
def test_tiny_fronts_equal_brute_force(seed: int) -> None:
    instance = tiny_instance(seed, containers=5)
    every = losses(raw_values(instance, every_assignment(instance)) / scales(instance))
    search = begun(instance)
    search.advance(1_000)  # five times the maximum over 200 runs
    assert search.archive.hypervolume() == pytest.approx(hypervolume(every), abs=1e-9)


def searched(instance_spec: InstanceSpec, generations: int = 60) -> tuple[Instance, FrontSearch]:
    instance = generate_instance(instance_spec, 3)
    search = begun(instance)
    search.advance(generations)
    return instance, search


@pytest.mark.parametrize("instance_spec", [MIXED, PLAIN])
def test_a_front_is_of_placements_that_fit_none_better_than_another(
    instance_spec: InstanceSpec,
) -> None:
    instance, search = searched(instance_spec)
    front = search.front()
    assert len(front.raw) > 5
    assert all(fits(instance, assignment) for assignment in front.assignments)
    assert front.raw == pytest.approx(
        np.array(
            [
                [evaluate(instance, a).raw[name] for name in ("P", "D", "C")]
                for a in front.assignments
            ]
        )
    )
    assert kernels.non_dominated(losses(front.normalised)).all()
    turned = front.raw * (1.0, -1.0, 1.0)
    worse = (turned[:, None] <= turned[None]).all(axis=-1)
    assert np.array_equal(worse, np.eye(len(turned), dtype=np.bool_))
    assert front.generations == 60


def test_hypervolume_is_kept_for_each_generation_and_never_falls() -> None:
    _, search = searched(MIXED)
    assert search.volumes.shape == (60,)
    assert (np.diff(search.volumes) >= 0.0).all()
    assert search.volumes[-1] > search.volumes[0]
    assert search.volumes[-1] == pytest.approx(search.archive.hypervolume(), abs=1e-12)
    assert search.progress() == FrontProgress(0.0, 60, search.volumes[-1], search.archive.size)


def test_the_same_seed_gives_the_same_front_however_it_is_sliced() -> None:
    _, front_search = searched(MIXED)
    again = begun(generate_instance(MIXED, 3))
    again.advance(7)
    again.advance(53)
    assert np.array_equal(front_search.front().assignments, again.front().assignments)
    assert np.array_equal(front_search.volumes, again.volumes)


def test_another_seed_gives_another_front() -> None:
    instance, front_search = searched(MIXED)
    other = begun(instance, seed=1)
    other.advance(60)
    assert not np.array_equal(front_search.front().raw, other.front().raw)


def test_the_exact_front_is_nearly_reached_from_simple_rules_only() -> None:
    instance, search = searched(PLAIN, 1_500)
    counts = counts_front(instance)
    assert counts is not None
    best = hypervolume(losses(counts.raw / scales(instance)))
    assert 0.98 * best < search.archive.hypervolume() <= best + 1e-9


def test_many_starts_are_all_in_the_archive() -> None:
    instance = generate_instance(PLAIN, 3)
    counts = counts_front(instance)
    assert counts is not None
    rng = np.random.default_rng(0)
    slots = np.repeat(np.arange(len(instance.node_ids)), instance.slots)
    starts = [rng.permutation(slots)[: instance.job.size] for _ in range(30)]
    search = FrontSearch(instance, starts, clock=stopped_clock, size=5)
    raw = raw_values(instance, np.array(starts))
    whole = hypervolume(losses(raw / scales(instance)))
    assert search.archive.hypervolume() >= whole - 1e-12
    assert len(search._population.rows) == 10  # twice the size, not of the starts


def test_it_stops_at_the_budget_and_on_request() -> None:
    instance = generate_instance(MIXED, 1)
    progress: list[FrontProgress] = []
    search = FrontSearch(instance, rule_placements(instance), clock=ticking(0.01), size=10)
    search.run(0.2, on_progress=progress.append)
    assert progress[-1].seconds >= 0.2
    assert 1 < len(progress) < 20
    assert [each.generations for each in progress] == sorted(
        {each.generations for each in progress}
    )
    answers = iter([False, False, True])
    other = FrontSearch(instance, rule_placements(instance), clock=stopped_clock, size=10)
    other.run(1.0, should_stop=lambda: next(answers))
    assert other.generations == 2 + 4


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda start: start[:-1], r"starts\[1\] places 79 containers of 80"),
        (lambda start: start * 0, r"starts\[1\] puts 80 containers on 'n0', which holds 3"),
        (lambda start: start - 1, r"starts\[1\] has a node that is not among 50"),
    ],
)
def test_a_start_that_is_no_placement_is_refused(
    change: Callable[[Ints], Ints], words: str
) -> None:
    instance = generate_instance(MIXED, 1)
    start = slot_round_robin(instance)
    with pytest.raises(ValueError, match=words):
        FrontSearch(instance, [start, change(start)], clock=stopped_clock)


def test_no_start_and_no_population_are_refused() -> None:
    instance = generate_instance(MIXED, 1)
    with pytest.raises(ValueError, match="starts must have at least one placement"):
        FrontSearch(instance, [], clock=stopped_clock)
    with pytest.raises(ValueError, match="size must be at least 2, not 1"):
        FrontSearch(instance, rule_placements(instance), clock=stopped_clock, size=1)


@pytest.mark.parametrize("seed", range(50))
def test_simple_rules_give_feasible_placements(seed: int) -> None:
    instance = tiny_instance(seed)
    assert all(fits(instance, start) for start in rule_placements(instance))


def test_rules_of_thumb_differ_as_they_say() -> None:
    instance = generate_instance(InstanceSpec(containers=40, nodes=30, nodes_per_rack=10), 1)
    assert slot_round_robin(instance).tolist() == [i // 2 for i in range(40)]
    assert node_round_robin(instance).tolist() == [*range(30), *range(10)]
    assert np.unique(packed(instance)).size == 20
    assert np.unique(spread(instance)).size == 30
    values = raw_values(instance, np.array([packed(instance), spread(instance)]))
    assert values[0, 0] < values[1, 0]


def test_weights_to_try_have_every_corner_and_no_zero() -> None:
    tried = weights_to_try(10)
    assert tried.shape == (10, 3)
    assert (tried > 0.0).all()
    assert tried.sum(axis=1) == pytest.approx(np.ones(10))
    assert sorted(tried.argmax(axis=1)[tried.max(axis=1) > 0.9].tolist()) == [0, 1, 2]


def searched_front(
    instance_spec: InstanceSpec, seed: int, limit: int = 2_000
) -> tuple[Instance, ParetoFront]:
    instance = generate_instance(instance_spec, seed)
    return instance, find_front(instance, clock=ticking(0.01), budget_s=5.0, limit=limit)


def test_where_counts_decide_the_front_is_proven_before_any_generation() -> None:
    instance, front = searched_front(InstanceSpec(containers=100, nodes_per_rack=50, largest=8), 5)
    counts = counts_front(instance)
    assert counts is not None
    assert front.is_exact
    assert front.generations == 0
    assert np.unique(front.raw, axis=0) == pytest.approx(np.unique(counts.raw, axis=0))
    assert front.hypervolume == pytest.approx(hypervolume(losses(counts.raw / scales(instance))))


def test_elsewhere_generations_follow_and_the_solver_is_among_the_starts() -> None:
    instance, front = searched_front(MIXED, 1, limit=15)
    assert not front.is_exact
    assert front.generations > 0
    assert len(front.raw) == 15
    rules = raw_values(instance, np.array(rule_placements(instance)))
    assert front.hypervolume > hypervolume(losses(rules / scales(instance)))


def test_a_search_that_is_told_to_stop_at_once_gives_what_rules_make() -> None:
    instance = generate_instance(MIXED, 1)
    front = find_front(instance, clock=stopped_clock, budget_s=5.0, should_stop=lambda: True)
    assert front.generations == 0
    assert len(front.raw) >= 1


@pytest.mark.parametrize("instance_spec", [MIXED, PLAIN])
def test_versions_can_be_kept_while_it_goes_on(instance_spec: InstanceSpec) -> None:
    versions: list[tuple[FrontProgress, ParetoFront]] = []

    def record(progress: FrontProgress, make: Callable[[], ParetoFront]) -> None:
        versions.append((progress, make()))

    instance = generate_instance(instance_spec, 1)
    last = find_front(instance, clock=ticking(0.1), budget_s=20.0, on_version=record)
    volumes = [front.hypervolume for _, front in versions] + [last.hypervolume]
    assert versions[0][0].generations == 0
    assert volumes == sorted(volumes)
    assert [(p.generations, p.points) for p, _ in versions] == [
        (front.generations, front.points) for _, front in versions
    ]


def test_given_starts_are_kept() -> None:
    instance = generate_instance(MIXED, 1)
    before = find_front(instance, clock=ticking(0.01), budget_s=3.0)
    after = find_front(
        instance,
        clock=stopped_clock,
        budget_s=1.0,
        starts=list(before.assignments),
        should_stop=lambda: True,
    )
    assert after.generations == 0
    assert after.hypervolume == pytest.approx(before.hypervolume, abs=1e-12)


@pytest.mark.parametrize(
    ("budget_s", "limit", "words"),
    [(0.0, 5, "budget_s must be above 0"), (1.0, 0, "limit must be at least 1")],
)
def test_invalid_budgets_and_limits_are_refused(budget_s: float, limit: int, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        find_front(tiny_instance(3), clock=stopped_clock, budget_s=budget_s, limit=limit)


@pytest.mark.parametrize("seed", range(20))
def test_tiny_fronts_found_are_never_called_exact_wrongly(seed: int) -> None:
    instance = tiny_instance(seed, is_plain=True, containers=5)
    front = find_front(instance, clock=ticking(0.01), budget_s=1.0, seed=seed)
    every = losses(raw_values(instance, every_assignment(instance)) / scales(instance))
    missing = hypervolume(every) - front.hypervolume
    assert not (front.is_exact and missing > 1e-9)
    assert missing == pytest.approx(0.0, abs=1e-9)
