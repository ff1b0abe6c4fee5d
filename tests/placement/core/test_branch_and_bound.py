"""The paper's solver: every set of features finds the best where the tree ends, and proves it."""

import time
from collections.abc import Mapping

import numpy as np
import pytest

from apps.placement.core import annealing, branching, tree
from apps.placement.core.branch_and_bound import Features, at_random, branch_and_bound
from apps.placement.core.costs import costs
from apps.placement.core.examples import Draw, draw
from apps.placement.core.instance import NOWHERE, Instance
from apps.placement.core.objectives import evaluate
from apps.placement.core.search import Search
from apps.placement.core.solver import prepare
from tests.placement.core.tiny import every_assignment, some_weights, tiny_instance

NAIVE, ELABORATE = branching.NAIVE, branching.ELABORATE
FEATURES = {
    "generic": Features(is_custom=False, bound=0, is_fathoming=False),
    "branching": Features(bound=0, is_fathoming=False),
    "naive": Features(bound=NAIVE, is_fathoming=False),
    "elaborate": Features(bound=ELABORATE, is_fathoming=False),
    "fathoming": Features(),
}
ALIKE = {"P": 1.0, "D": 1.0, "C": 1.0}


@pytest.fixture(scope="module", autouse=True)
def compiled() -> None:
    """Have the kernels compiled before anything is timed."""
    prepare(draw(Draw(4), 0), ALIKE, "branch_and_bound")


def search(case: Instance, weights: Mapping[str, float], limit_s: float = 60.0) -> Search:
    return Search(case, weights, clock=time.perf_counter, limit_s=limit_s)


def least(case: Instance, weights: Mapping[str, float]) -> float:
    return min(evaluate(case, row, weights).F for row in every_assignment(case))


@pytest.mark.parametrize("is_plain", [True, False])
@pytest.mark.parametrize("seed", range(25))
@pytest.mark.parametrize("name", list(FEATURES))
def test_a_tree_that_ends_is_a_proof(name: str, seed: int, is_plain: bool) -> None:
    case = tiny_instance(seed + 300, is_plain=is_plain, containers=5)
    weights = {**some_weights(seed), "M": 0.5 * (seed % 2)}
    made = search(case, weights)
    figures = branch_and_bound(made, FEATURES[name])
    best = least(case, weights)
    assert figures.is_exhausted or made.is_optimal
    assert case.job.size == 0 or made.value == pytest.approx(best, abs=1e-9)
    assert made.bound <= best + 1e-9


@pytest.mark.parametrize("seed", range(25))
def test_approximate_pruning_is_off_by_no_more_than_it_says(seed: int) -> None:
    case, weights = tiny_instance(seed + 700, containers=5), {**some_weights(seed), "D": 1.0}
    made = search(case, weights)
    branch_and_bound(made, Features(share=0.9))
    best = least(case, weights)
    assert case.job.size == 0 or made.value <= best + 0.1 * (best + 1.0) / 0.9 + 1e-9
    assert made.bound <= best + 1e-9


@pytest.mark.parametrize("is_plain", [True, False])
@pytest.mark.parametrize("kind", [NAIVE, ELABORATE])
@pytest.mark.parametrize("seed", range(40))
def test_no_completion_is_below_the_bound_of_a_partial_placement(
    seed: int, kind: int, is_plain: bool
) -> None:
    case = tiny_instance(seed + 1200, is_plain=is_plain, containers=5)
    weights = some_weights(seed)
    known = annealing.fixed(case, costs(case, weights))
    state = annealing.empty(known, case.job.size)
    every = every_assignment(case)
    chosen = every[seed % len(every)]
    placed = case.job.size // 2
    order = np.arange(case.job.size)
    for i in range(placed):
        tree.put(known, state, i, int(chosen[i]))
    completions = every[(every[:, :placed] == chosen[:placed]).all(axis=1)]
    best = min(evaluate(case, row, weights).F for row in completions)
    assert branching.bound(known, state, order, placed, kind) <= best + 1e-9


def test_what_was_put_and_lifted_leaves_no_trace() -> None:
    case, weights = draw(Draw(40, nodes=24, occupied=0.5), 1), {**ALIKE, "M": 1.0}
    known = annealing.fixed(case, costs(case, weights))
    state = annealing.empty(known, case.job.size)
    nodes = np.repeat(np.arange(24), 2)[:40].tolist()
    for i, node in enumerate(nodes):
        tree.put(known, state, i, node)
    full = evaluate(case, np.array(nodes), weights).F
    assert state.total[0] == pytest.approx(full)
    for i in reversed(range(40)):
        tree.lift(known, state, i)
    assert state.total[0] == pytest.approx(0.0, abs=1e-12)
    assert (state.at == NOWHERE).all()
    assert not state.used.any()
    assert not state.in_rack.any()


def test_fathoming_finds_what_the_first_dive_does_not() -> None:
    case = draw(Draw(1024), 2015)
    plain = search(case, ALIKE, 1.5)
    branch_and_bound(plain, FEATURES["elaborate"])
    fathoming = search(case, ALIKE, 1.5)
    branch_and_bound(fathoming, FEATURES["fathoming"])
    assert fathoming.value < plain.value


def test_bounds_prune_and_close_levels() -> None:
    case = draw(Draw(200), 3)
    without = branch_and_bound(search(case, ALIKE, 1.0), FEATURES["branching"])
    pruning = branch_and_bound(search(case, ALIKE, 1.0), FEATURES["fathoming"])
    assert without.pruned == 0.0
    assert pruning.pruned > 0.5
    assert pruning.levels > without.levels


def test_random_placements_fit_and_improve_with_their_number() -> None:
    case = draw(Draw(64, nodes=40), 2)
    made = search(case, ALIKE, 0.5)
    figures = at_random(made)
    assert figures.evaluated > 100
    assert made.assignment is not None
    assert (np.bincount(made.assignment, minlength=40) <= 2).all()
