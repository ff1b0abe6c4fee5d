"""NSGA-II: every genome a feasible placement, every value the plain one, fronts that are good."""

from collections.abc import Callable
from dataclasses import replace
from itertools import count

import numpy as np
import pytest

from apps.inventory.core.snapshot import Bools, Floats, Ints
from apps.placement.core import front_kernels, genome, variation
from apps.placement.core.examples import Draw, Mix, draw
from apps.placement.core.front import Front, hypervolume, losses, scales
from apps.placement.core.front_counts import counts_front
from apps.placement.core.front_search import find_front
from apps.placement.core.instance import Instance
from apps.placement.core.kernels import evaluate_all, problem
from apps.placement.core.nsga2 import Progress, Search
from apps.placement.core.objectives import evaluate
from apps.placement.core.starts import (
    by_rule,
    node_round_robin,
    packed,
    slot_round_robin,
    spread,
    weights_to_try,
)
from tests.placement.core.tiny import every_assignment, tiny_instance

MIXED = Draw(
    containers=80, nodes=50, nodes_per_rack=8, slots=3, kinds=2, has_real_intensities=True
)
PLAIN = Draw(containers=120, nodes_per_rack=24, mix=Mix.HADOOP, largest=32)
OPERATORS = ["_exchange", "_anywhere", "_close", "_gather", "_protect", "_huddle", "_trade"]


def stopped_clock() -> float:
    return 0.0


def ticking(step_s: float) -> Callable[[], float]:
    ticks = count()
    return lambda: step_s * next(ticks)


def begun(instance: Instance, seed: int = 0, size: int = 20) -> Search:
    return Search(instance, by_rule(instance), clock=stopped_clock, seed=seed, size=size)


def fits(instance: Instance, assignment: Ints) -> bool:
    used = np.bincount(assignment, minlength=len(instance.node_ids))
    return bool((used <= instance.slots).all())


def is_consistent(instance: Instance, w: genome.Work) -> bool:
    """Whether what nodes hold, use and count is what containers say."""
    nodes = len(instance.node_ids)
    used = np.bincount(w.at, minlength=nodes)
    tazes = np.bincount(w.at[instance.is_taz], minlength=nodes)
    held = [set(w.held[node, : used[node]].tolist()) for node in range(nodes)]
    wanted = [set(np.flatnonzero(w.at == node).tolist()) for node in range(nodes)]
    return bool(np.array_equal(used, w.used) and np.array_equal(tazes, w.tazes) and held == wanted)


def plain_losses(instance: Instance, assignment: Ints) -> Floats:
    found = evaluate(instance, assignment).normalised
    return losses(np.array([[found[name] for name in "PDC"]]))[0]


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("seed", range(4))
def test_every_operator_leaves_a_placement_that_fits_and_changes_some(
    seed: int, operator: str
) -> None:
    instance = draw(replace(MIXED, largest=8), seed)
    s, w = genome.space(instance), genome.work(instance, seed)
    slots = np.repeat(np.arange(50), instance.slots)
    start = np.random.default_rng(seed).permutation(slots)[:80]
    act = getattr(variation, operator)
    held: list[bool] = []
    changed = 0
    for _ in range(60):
        genome.unfold(s, w, start)
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
    s, w = genome.space(instance), genome.work(instance, seed)
    genome.unfold(s, w, node_round_robin(instance))
    donor = slot_round_robin(instance)
    held = []
    for _ in range(50):
        variation.mutate(s, w)
        variation.cross(s, w, donor)
        held.append(is_consistent(instance, w) and fits(instance, w.at))
    assert all(held)


@pytest.mark.parametrize("seed", range(10))
def test_crossover_gives_the_jobs_that_come_over_the_donors_places(seed: int) -> None:
    instance = draw(MIXED, seed)
    s, w = genome.space(instance), genome.work(instance, seed)
    genome.unfold(s, w, slot_round_robin(instance))
    donor = node_round_robin(instance)
    variation.cross(s, w, donor)
    came: Bools = w.marked[instance.job]
    assert came.any()
    assert np.array_equal(w.at[came], donor[came])
    assert is_consistent(instance, w)
    assert fits(instance, w.at)


@pytest.mark.parametrize("wanted", [MIXED, PLAIN])
@pytest.mark.parametrize("seed", range(5))
def test_a_placement_is_measured_as_the_plain_objectives_do(seed: int, wanted: Draw) -> None:
    instance = draw(wanted, seed)
    s, w = genome.space(instance), genome.work(instance, seed)
    genome.unfold(s, w, spread(instance))
    found, plain = [], []
    for _ in range(20):
        variation.mutate(s, w)
        measured = np.empty(3)
        genome.measure(s, w, measured)
        found.append(measured)
        plain.append(plain_losses(instance, w.at.astype(np.int64)))
    assert np.array(found) == pytest.approx(np.array(plain), abs=1e-9)


@pytest.mark.parametrize("seed", range(100))
def test_tiny_instances_are_measured_as_the_plain_objectives_do(seed: int) -> None:
    instance = tiny_instance(seed)
    s, w, measured = genome.space(instance), genome.work(instance, 0), np.empty(3)
    genome.unfold(s, w, slot_round_robin(instance))
    genome.measure(s, w, measured)
    assert measured == pytest.approx(plain_losses(instance, slot_round_robin(instance)), abs=1e-9)


def test_drawn_numbers_are_even_and_stay_below_the_end() -> None:
    w = genome.work(tiny_instance(1), 5)
    drawn = np.array([genome.below(w, 7) for _ in range(7_000)])
    counts = np.bincount(drawn, minlength=7)
    assert counts.size == 7
    assert abs(counts - 1_000).max() < 5 * np.sqrt(7_000 * (1 / 7) * (6 / 7))


@pytest.mark.parametrize("seed", range(40))
def test_tiny_fronts_are_what_brute_force_leaves(seed: int) -> None:
    instance = tiny_instance(seed, containers=5)
    every = losses(evaluate_all(problem(instance), every_assignment(instance)) / scales(instance))
    search = begun(instance)
    search.advance(1_000)  # five times what any of 200 runs needed
    assert search.archive.hypervolume() == pytest.approx(hypervolume(every), abs=1e-9)


def searched(wanted: Draw, generations: int = 60) -> tuple[Instance, Search]:
    instance = draw(wanted, 3)
    search = begun(instance)
    search.advance(generations)
    return instance, search


@pytest.mark.parametrize("wanted", [MIXED, PLAIN])
def test_a_front_is_of_placements_that_fit_none_better_than_another(wanted: Draw) -> None:
    instance, search = searched(wanted)
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
    assert front_kernels.non_dominated(losses(front.normalised)).all()
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
    assert search.progress() == Progress(0.0, 60, search.volumes[-1], search.archive.size)


def test_the_same_seed_gives_the_same_front_however_it_is_sliced() -> None:
    _, one = searched(MIXED)
    again = begun(draw(MIXED, 3))
    again.advance(7)
    again.advance(53)
    assert np.array_equal(one.front().assignments, again.front().assignments)
    assert np.array_equal(one.volumes, again.volumes)


def test_another_seed_gives_another_front() -> None:
    instance, one = searched(MIXED)
    other = begun(instance, seed=1)
    other.advance(60)
    assert not np.array_equal(one.front().raw, other.front().raw)


def test_the_exact_front_is_nearly_reached_from_rules_of_thumb_alone() -> None:
    instance, search = searched(PLAIN, 1_500)
    counts = counts_front(instance)
    assert counts is not None
    best = hypervolume(losses(counts.raw / scales(instance)))
    assert 0.98 * best < search.archive.hypervolume() <= best + 1e-9


def test_many_starts_are_all_in_the_archive() -> None:
    instance = draw(PLAIN, 3)
    counts = counts_front(instance)
    assert counts is not None
    rng = np.random.default_rng(0)
    slots = np.repeat(np.arange(len(instance.node_ids)), instance.slots)
    starts = [rng.permutation(slots)[: instance.job.size] for _ in range(30)]
    search = Search(instance, starts, clock=stopped_clock, size=5)
    raw = evaluate_all(problem(instance), np.array(starts))
    whole = hypervolume(losses(raw / scales(instance)))
    assert search.archive.hypervolume() >= whole - 1e-12
    assert len(search._rows.rows) == 10  # twice the size, not of the starts


def test_it_stops_at_the_budget_and_when_told_to() -> None:
    instance = draw(MIXED, 1)
    told: list[Progress] = []
    search = Search(instance, by_rule(instance), clock=ticking(0.01), size=10)
    search.run(0.2, watch=told.append)
    assert told[-1].seconds >= 0.2
    assert 1 < len(told) < 20
    assert [each.generations for each in told] == sorted({each.generations for each in told})
    answers = iter([False, False, True])
    other = Search(instance, by_rule(instance), clock=stopped_clock, size=10)
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
    instance = draw(MIXED, 1)
    start = slot_round_robin(instance)
    with pytest.raises(ValueError, match=words):
        Search(instance, [start, change(start)], clock=stopped_clock)


def test_no_start_and_no_population_are_refused() -> None:
    instance = draw(MIXED, 1)
    with pytest.raises(ValueError, match="at least one placement is needed"):
        Search(instance, [], clock=stopped_clock)
    with pytest.raises(ValueError, match="size must be at least 2, not 1"):
        Search(instance, by_rule(instance), clock=stopped_clock, size=1)


@pytest.mark.parametrize("seed", range(50))
def test_rules_of_thumb_fit(seed: int) -> None:
    instance = tiny_instance(seed)
    assert all(fits(instance, start) for start in by_rule(instance))


def test_rules_of_thumb_differ_as_they_say() -> None:
    instance = draw(Draw(containers=40, nodes=30, nodes_per_rack=10), 1)
    assert slot_round_robin(instance).tolist() == [i // 2 for i in range(40)]
    assert node_round_robin(instance).tolist() == [*range(30), *range(10)]
    assert np.unique(packed(instance)).size == 20
    assert np.unique(spread(instance)).size == 30
    values = evaluate_all(problem(instance), np.array([packed(instance), spread(instance)]))
    assert values[0, 0] < values[1, 0]


def test_weights_to_try_have_every_corner_and_no_zero() -> None:
    tried = weights_to_try(10)
    assert tried.shape == (10, 3)
    assert (tried > 0.0).all()
    assert tried.sum(axis=1) == pytest.approx(np.ones(10))
    assert sorted(tried.argmax(axis=1)[tried.max(axis=1) > 0.9].tolist()) == [0, 1, 2]


def found(wanted: Draw, seed: int, most: int = 2_000) -> tuple[Instance, Front]:
    instance = draw(wanted, seed)
    return instance, find_front(instance, clock=ticking(0.01), budget_s=5.0, most=most)


def test_where_counts_decide_the_front_is_proven_before_any_generation() -> None:
    instance, front = found(Draw(containers=100, nodes_per_rack=50, largest=8), 5)
    counts = counts_front(instance)
    assert counts is not None
    assert front.is_exact
    assert front.generations == 0
    assert np.unique(front.raw, axis=0) == pytest.approx(np.unique(counts.raw, axis=0))
    assert front.hypervolume == pytest.approx(hypervolume(losses(counts.raw / scales(instance))))


def test_elsewhere_generations_follow_and_the_solver_is_among_the_starts() -> None:
    instance, front = found(MIXED, 1, most=15)
    assert not front.is_exact
    assert front.generations > 0
    assert len(front.raw) == 15
    rules = evaluate_all(problem(instance), np.array(by_rule(instance)))
    assert front.hypervolume > hypervolume(losses(rules / scales(instance)))


def test_a_search_that_is_told_to_stop_at_once_gives_what_rules_make() -> None:
    instance = draw(MIXED, 1)
    front = find_front(instance, clock=stopped_clock, budget_s=5.0, should_stop=lambda: True)
    assert front.generations == 0
    assert len(front.raw) >= 1


@pytest.mark.parametrize("wanted", [MIXED, PLAIN])
def test_versions_can_be_kept_while_it_goes_on(wanted: Draw) -> None:
    kept: list[tuple[Progress, Front]] = []

    def keep(progress: Progress, make: Callable[[], Front]) -> None:
        kept.append((progress, make()))

    instance = draw(wanted, 1)
    last = find_front(instance, clock=ticking(0.1), budget_s=20.0, keep=keep)
    volumes = [front.hypervolume for _, front in kept] + [last.hypervolume]
    assert kept[0][0].generations == 0
    assert volumes == sorted(volumes)
    assert [(p.generations, p.points) for p, _ in kept] == [
        (front.generations, front.points) for _, front in kept
    ]


def test_what_was_found_before_is_not_lost() -> None:
    instance = draw(MIXED, 1)
    before = find_front(instance, clock=ticking(0.01), budget_s=3.0)
    after = find_front(
        instance,
        clock=stopped_clock,
        budget_s=1.0,
        more=list(before.assignments),
        should_stop=lambda: True,
    )
    assert after.generations == 0
    assert after.hypervolume == pytest.approx(before.hypervolume, abs=1e-12)


@pytest.mark.parametrize(
    ("budget_s", "most", "words"),
    [(0.0, 5, "budget_s must be above 0"), (1.0, 0, "most must be at least 1")],
)
def test_a_search_for_nothing_is_refused(budget_s: float, most: int, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        find_front(tiny_instance(3), clock=stopped_clock, budget_s=budget_s, most=most)


@pytest.mark.parametrize("seed", range(20))
def test_tiny_fronts_found_are_never_called_exact_wrongly(seed: int) -> None:
    instance = tiny_instance(seed, is_plain=True, containers=5)
    front = find_front(instance, clock=ticking(0.01), budget_s=1.0, seed=seed)
    every = losses(evaluate_all(problem(instance), every_assignment(instance)) / scales(instance))
    missing = hypervolume(every) - front.hypervolume
    assert not (front.is_exact and missing > 1e-9)
    assert missing == pytest.approx(0.0, abs=1e-9)
