"""The paper's solver: with any set of features, a completed tree proves the optimum."""

import time
from collections.abc import Mapping

import numpy as np
import pytest

from apps.placement.core.problem.costs import costs
from apps.placement.core.problem.evaluator import pack
from apps.placement.core.problem.examples import InstanceSpec, generate_instance
from apps.placement.core.problem.instance import NOWHERE, Instance
from apps.placement.core.problem.objectives import evaluate
from apps.placement.core.solver import branching, incremental
from apps.placement.core.solver.branch_and_bound import (
    Features,
    branch_and_bound,
    try_random_placements,
)
from apps.placement.core.solver.registry import prepare
from apps.placement.core.solver.run import SolverRun
from apps.placement.core.solver.search_tree import SearchTree
from tests.placement.core.problem.test_objectives import instance
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
    """Compile the kernels before the first timed test."""
    prepare(generate_instance(InstanceSpec(4), 0), ALIKE, "branch_and_bound")


def search(case: Instance, weights: Mapping[str, float], limit_s: float = 60.0) -> SolverRun:
    return SolverRun(case, weights, clock=time.perf_counter, limit_s=limit_s)


def minimum(case: Instance, weights: Mapping[str, float]) -> float:
    return min(evaluate(case, row, weights).F for row in every_assignment(case))


@pytest.mark.parametrize("is_plain", [True, False])
@pytest.mark.parametrize("seed", range(25))
@pytest.mark.parametrize("name", list(FEATURES))
def test_a_completed_tree_proves_the_optimum(name: str, seed: int, is_plain: bool) -> None:
    case = tiny_instance(seed + 300, is_plain=is_plain, containers=5)
    weights = {**some_weights(seed), "M": 0.5 * (seed % 2)}
    run = search(case, weights)
    figures = branch_and_bound(run, FEATURES[name])
    best = minimum(case, weights)
    assert figures.is_exhausted or run.is_optimal
    assert case.job.size == 0 or run.value == pytest.approx(best, abs=1e-9)
    assert run.bound <= best + 1e-9


@pytest.mark.parametrize("seed", range(25))
def test_approximate_pruning_stays_within_its_stated_error(seed: int) -> None:
    case, weights = tiny_instance(seed + 700, containers=5), {**some_weights(seed), "D": 1.0}
    run = search(case, weights)
    branch_and_bound(run, Features(share=0.9))
    best = minimum(case, weights)
    assert case.job.size == 0 or run.value <= best + 0.1 * (best + 1.0) / 0.9 + 1e-9
    assert run.bound <= best + 1e-9


@pytest.mark.parametrize("is_plain", [True, False])
@pytest.mark.parametrize("kind", [NAIVE, ELABORATE])
@pytest.mark.parametrize("seed", range(40))
def test_no_completion_is_below_the_bound_of_a_partial_placement(
    seed: int, kind: int, is_plain: bool
) -> None:
    case = tiny_instance(seed + 1200, is_plain=is_plain, containers=5)
    weights = some_weights(seed)
    packed, charged = pack(case), costs(case, weights)
    state = incremental.empty_placement(case)
    every = every_assignment(case)
    chosen = every[seed % len(every)]
    placed = case.job.size // 2
    order = np.arange(case.job.size)
    for i in range(placed):
        incremental.place(packed, charged, state, i, int(chosen[i]))
    completions = every[(every[:, :placed] == chosen[:placed]).all(axis=1)]
    best = min(evaluate(case, row, weights).F for row in completions)
    assert branching.lower_bound(packed, charged, state, order, placed, kind) <= best + 1e-9


@pytest.mark.parametrize(("is_custom", "branches"), [(True, 3), (False, 6)])
def test_the_papers_example_has_three_branches(is_custom: bool, branches: int) -> None:
    # ClavisMO, figure 5: tazes X0 and X1 and turtle Y0, which communicates with Y1, are alone on
    # their nodes, and three nodes are idle. Y1 joins a taz, joins Y0, or goes to an idle node.
    taz, turtle = ("x", 1.0, "taz", "cluster"), ("y", 0.0, "turtle", "rack")
    case = instance([taz, taz, turtle, turtle, turtle, turtle], racks="aaaaaa")
    packed, charged = pack(case), costs(case, ALIKE)
    state = incremental.empty_placement(case)
    for container in range(3):
        incremental.place(packed, charged, state, container, container)
    tree = SearchTree(
        order=np.arange(6),
        item=case.job.astype(np.int64),
        branches=np.full((6, 6), NOWHERE, dtype=np.int64),
        offered=np.zeros(6, dtype=np.int64),
        tried=np.zeros(6, dtype=np.int64),
        level=np.zeros(1, dtype=np.int64),
        best=np.zeros(6, dtype=np.int64),
        value=np.array([np.inf]),
        figures=np.zeros(5, dtype=np.int64),
    )
    marks = np.zeros(6, dtype=np.int64)
    branching.list_branches(packed, charged, state, tree, 3, is_custom, marks)
    nodes = tree.branches[3, : tree.offered[3]]
    assert nodes.size == branches
    kinds = [(int(state.tazes[n]), int(state.used[n])) for n in nodes]
    assert set(kinds) == {(1, 1), (0, 1), (0, 0)}


def test_adding_and_removing_a_container_restores_the_state() -> None:
    case, weights = (
        generate_instance(InstanceSpec(40, nodes=24, occupied=0.5), 1),
        {**ALIKE, "M": 1.0},
    )
    packed, charged = pack(case), costs(case, weights)
    state = incremental.empty_placement(case)
    nodes = np.repeat(np.arange(24), 2)[:40].tolist()
    for i, node in enumerate(nodes):
        incremental.place(packed, charged, state, i, node)
    full = evaluate(case, np.array(nodes), weights).F
    assert state.total[0] == pytest.approx(full)
    for i in reversed(range(40)):
        incremental.remove_last(packed, charged, state, i)
    assert state.total[0] == pytest.approx(0.0, abs=1e-12)
    assert (state.at == NOWHERE).all()
    assert not state.used.any()
    assert not state.in_rack.any()


def test_fathoming_improves_on_the_first_dive() -> None:
    case = generate_instance(InstanceSpec(1024), 2015)
    plain = search(case, ALIKE, 1.5)
    branch_and_bound(plain, FEATURES["elaborate"])
    fathoming = search(case, ALIKE, 1.5)
    branch_and_bound(fathoming, FEATURES["fathoming"])
    assert fathoming.value < plain.value


def test_bounds_prune_and_close_levels() -> None:
    case = generate_instance(InstanceSpec(200), 3)
    without = branch_and_bound(search(case, ALIKE, 1.0), FEATURES["branching"])
    pruning = branch_and_bound(search(case, ALIKE, 1.0), FEATURES["fathoming"])
    assert without.pruned == 0.0
    assert pruning.pruned > 0.5
    assert pruning.levels > without.levels


def test_random_placements_fit_and_improve_with_their_number() -> None:
    case = generate_instance(InstanceSpec(64, nodes=40), 2)
    run = search(case, ALIKE, 0.5)
    figures = try_random_placements(run)
    assert figures.evaluated > 100
    assert run.assignment is not None
    assert (np.bincount(run.assignment, minlength=40) <= 2).all()
