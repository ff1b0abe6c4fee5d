"""The default solver: brute force on tiny instances, proofs where the structure allows them."""

import time
from collections.abc import Mapping

import numpy as np
import pytest

from apps.inventory.core.snapshot import Ints
from apps.placement.core import annealing, knapsack, packing
from apps.placement.core.costs import costs
from apps.placement.core.examples import Draw, Mix, draw
from apps.placement.core.instance import NOWHERE, Communication, Instance
from apps.placement.core.objectives import Objective, evaluate, money, registry
from apps.placement.core.rack_roles import RackProgram
from apps.placement.core.roles import RoleProgram
from apps.placement.core.search import Progress, Search, Solution
from apps.placement.core.solver import DEFAULT, UnknownSolverError, filled, prepare, solve
from tests.placement.core.tiny import every_assignment, only_tazes, some_weights, tiny_instance


@pytest.fixture(scope="module", autouse=True)
def compiled() -> None:
    """Have the kernels compiled before anything is timed."""
    prepare(draw(Draw(4, kinds=2, nodes_per_rack=1), 0), {"P": 1.0})


def search(case: Instance, weights: Mapping[str, float], limit_s: float = 5.0) -> Search:
    return Search(case, weights, clock=time.perf_counter, limit_s=limit_s)


def solved(case: Instance, weights: Mapping[str, float], limit_s: float = 5.0) -> Solution:
    return solve(search(case, weights, limit_s))


def least(case: Instance, weights: Mapping[str, float]) -> float:
    return min(evaluate(case, row, weights).F for row in every_assignment(case))


def fits(case: Instance, assignment: Ints) -> bool:
    used = np.bincount(assignment, minlength=case.slots.size)
    return bool((used <= case.slots).all() and assignment.size == case.job.size)


@pytest.mark.parametrize("is_plain", [True, False])
@pytest.mark.parametrize("seed", range(150))
def test_brute_force_agrees_on_tiny_instances(seed: int, is_plain: bool) -> None:
    case, weights = tiny_instance(seed, is_plain=is_plain), some_weights(seed)
    found, best = solved(case, weights), least(case, weights)
    assert fits(case, found.assignment)
    assert pytest.approx(best, abs=1e-9) == found.evaluation.F
    assert found.bound <= best + 1e-9


@pytest.mark.parametrize("seed", range(60))
def test_migrations_are_charged_exactly_on_tiny_instances(seed: int) -> None:
    case, weights = tiny_instance(seed, containers=5), {**some_weights(seed), "M": 0.8}
    found, best = solved(case, weights), least(case, weights)
    assert pytest.approx(best, abs=1e-9) == found.evaluation.F
    assert found.bound <= best + 1e-9


@pytest.mark.parametrize("seed", range(120))
def test_no_bound_is_above_the_least_value(seed: int) -> None:
    case, weights = tiny_instance(seed + 5000), some_weights(seed)
    coefficients = costs(case, weights)
    best = least(case, weights)
    program = RoleProgram(case, coefficients)
    cast = program.solve(limit_s=5.0, should_stop=lambda: False, enough=0.0)
    assert cast.bound <= best + 1e-9
    racked = RackProgram(case, coefficients)
    assert racked.solve(limit_s=5.0, should_stop=lambda: False, enough=0.0).bound <= best + 1e-9


@pytest.mark.parametrize("seed", range(120))
def test_the_knapsack_bounds_what_it_applies_to(seed: int) -> None:
    case, weights = tiny_instance(seed + 9000, is_plain=True), some_weights(seed)
    coefficients = costs(case, weights)
    known = knapsack.profile(case, coefficients)
    assert known is not None
    assert knapsack.bound(case, coefficients, known).value <= least(case, weights) + 1e-9


@pytest.mark.parametrize("weights", [(1, 1, 1), (3, 1, 2), (1, 3, 3), (2, 1, 1)])
@pytest.mark.parametrize("mix", list(Mix))
def test_a_thousand_plain_containers_are_placed_and_proven(
    mix: Mix, weights: tuple[float, float, float]
) -> None:
    case = draw(Draw(mix=mix), 1)
    found = solved(case, dict(zip("PDC", weights, strict=True)))
    assert fits(case, found.assignment)
    assert found.is_optimal
    assert found.gap == 0.0
    assert pytest.approx(found.bound, abs=1e-9) == found.evaluation.F


def test_a_full_cluster_has_a_small_proven_gap() -> None:
    case = draw(Draw(1024, nodes=512, has_real_intensities=True, kinds=2), 0)
    found = solved(case, {"P": 1.0, "D": 1.0, "C": 1.0})
    assert fits(case, found.assignment)
    assert 0.0 <= found.gap < 0.01


def test_racks_in_view_close_the_gap_that_racks_keep_open() -> None:
    case = draw(Draw(1024, nodes=512, has_real_intensities=True, kinds=2), 1)
    found = solved(case, {"P": 1.0, "D": 1.0, "C": 1.0}, 12.0)
    assert fits(case, found.assignment)
    assert found.gap < 0.02


@pytest.mark.parametrize("names", [("large", "small"), ("small", "large")])
def test_who_finds_no_node_of_its_own_is_whose_job_loses_least(names: tuple[str, str]) -> None:
    jobs = {"exposed": [1.0, 1.0], "large": [0.6, 0.6], "small": [0.9]}
    ordered = {name: jobs[name] for name in ("exposed", *names)}
    case = only_tazes(ordered, nodes=3, slots=3, communication={"exposed": "rack"})
    is_exposed = np.array([key.startswith("exposed") for key in case.container_ids])
    roles = np.where(is_exposed, packing.Role.BESIDE, packing.Role.HOST)  # of three nodes, four
    plan = packing.Plan(roles, np.ones(3, dtype=np.bool_))
    found = packing.place(case, costs(case, {"D": 1.0}), plan)
    assert evaluate(case, found).raw["D"] == pytest.approx(1.2)


def test_a_job_that_stays_on_one_node_has_one_before_hosts_that_may_be_anywhere() -> None:
    jobs = {"pair": [1.0, 1.0], "a": [1.0], "b": [1.0], "c": [1.0]}
    case = only_tazes(jobs, nodes=3, communication={"pair": "node"})
    is_pair = np.array([key.startswith("pair") for key in case.container_ids])
    roles = np.where(is_pair, packing.Role.BESIDE, packing.Role.HOST)  # of three nodes, four
    plan = packing.Plan(roles, np.ones(4, dtype=np.bool_))
    found = packing.place(case, costs(case, {"D": 1.0, "C": 1.0}), plan)
    assert evaluate(case, found).raw["C"] == 0.0


def test_the_gap_is_the_share_that_may_be_saved() -> None:
    case, weights = draw(Draw(64, nodes=40, has_real_intensities=True), 2), {"P": 1.0, "D": 2.0}
    found = solved(case, weights, 1.0)
    share = (found.evaluation.F - found.bound) / (found.evaluation.F + 2.0)
    assert found.gap == pytest.approx(0.0 if found.is_optimal else share)


def test_nodes_of_very_many_slots_take_no_more_memory_than_containers_need() -> None:
    case = draw(Draw(200, nodes=50, slots=60_000, nodes_per_rack=10), 0)
    found = solved(case, {"P": 1.0, "D": 1.0, "C": 1.0}, 3.0)
    assert fits(case, found.assignment)
    assert found.bound <= found.evaluation.F


def test_an_empty_instance_is_solved() -> None:
    found = solved(draw(Draw(0, nodes=3), 0), {"P": 1.0})
    assert (found.evaluation.F, found.gap, found.is_optimal) == (0.0, 0.0, True)


def test_an_instance_without_nodes_or_containers_is_solved() -> None:
    assert solved(draw(Draw(0), 0), {"P": 1.0}).is_optimal


def test_without_weights_any_placement_is_best() -> None:
    found = solved(draw(Draw(32), 0), {})
    assert found.is_optimal
    assert found.evaluation.F == 0.0


def test_a_search_ends_when_told_to_with_the_best_so_far() -> None:
    case = draw(Draw(600, has_real_intensities=True), 0)
    told = Search(
        case, {"P": 1.0}, clock=time.perf_counter, limit_s=60.0, should_stop=lambda: True
    )
    found = solve(told)
    assert found.seconds < 5.0
    assert fits(case, found.assignment)


def test_a_search_ends_at_its_limit() -> None:
    ticks = iter(range(10_000))
    case = draw(Draw(600, has_real_intensities=True), 0)
    bounded = Search(case, {"P": 1.0}, clock=lambda: float(next(ticks)), limit_s=3.0)
    assert fits(case, solve(bounded).assignment)


def test_a_watcher_hears_of_ever_better_placements_and_bounds() -> None:
    heard: list[Progress] = []
    case = draw(Draw(128, nodes=100, has_real_intensities=True), 0)
    watched = Search(
        case, {"P": 1.0, "D": 1.0}, clock=time.perf_counter, limit_s=2.0, watch=heard.append
    )
    solve(watched)
    values, bounds = [each.value for each in heard], [each.bound for each in heard]
    assert values == sorted(values, reverse=True)
    assert bounds == sorted(bounds)
    assert heard[-1].gap < heard[0].gap


def test_the_same_seed_gives_the_same_placement() -> None:
    case, weights = draw(Draw(256, mix=Mix.HADOOP), 3), {"P": 3.0, "D": 1.0, "C": 1.0}
    first, second = solved(case, weights), solved(case, weights)
    assert np.array_equal(first.assignment, second.assignment)


def test_a_solver_nobody_knows_is_refused_with_those_there_are() -> None:
    with pytest.raises(UnknownSolverError, match=f"no solver 'x'; there are .*{DEFAULT}"):
        solve(search(draw(Draw(4), 0), {}), "x")


def test_what_runs_stays_where_moving_costs_more_than_it_gains() -> None:
    case = draw(Draw(64, occupied=1.0), 0)
    found = solved(case, {"P": 1.0, "D": 1.0, "M": 1000.0}, 2.0)
    assert np.array_equal(found.assignment, case.current)


def test_money_is_bounded_as_power_is() -> None:
    case = draw(Draw(64, kinds=2, nodes_per_rack=16), 0)
    price = {"r0": np.array([1.0]), "": np.array([3.0])}
    known = registry({"money": money(np.array([1.0]), price)})
    with_money = Search(
        case, {"money": 1.0, "D": 1.0}, clock=time.perf_counter, limit_s=3.0, objectives=known
    )
    found = solve(with_money)
    assert found.gap < 0.01
    assert (case.rack[found.assignment] == 0).sum() >= 16


def test_an_objective_solvers_do_not_know_leaves_the_bound_below() -> None:
    known = registry({"first": Objective("First node", "", _first, lambda _: 1.0)})
    case = tiny_instance(11)
    weights = {"P": 1.0, "first": 2.0}
    found = solve(Search(case, weights, clock=time.perf_counter, limit_s=2.0, objectives=known))
    best = min(evaluate(case, row, weights, objectives=known).F for row in every_assignment(case))
    assert found.bound <= best <= found.evaluation.F


def _first(_: Instance, assignment: Ints) -> float:
    return float((assignment == 0).any())


# --- parts


@pytest.mark.parametrize("seed", range(40))
def test_exchanges_keep_the_value_and_never_overfill(seed: int) -> None:
    case, weights = tiny_instance(seed + 1), {**some_weights(seed), "M": 0.7}
    known = annealing.fixed(case, costs(case, weights))
    start = filled(case, np.full(case.job.size, NOWHERE))
    state = annealing.state(known, start, seed)
    assert state.total[0] == pytest.approx(evaluate(case, start, weights).F)
    annealing.anneal(known, state, 1.0, 400 if case.job.size else 0)
    assert fits(case, state.at)
    assert state.total[0] == pytest.approx(evaluate(case, state.at, weights).F)


@pytest.mark.parametrize("seed", range(30))
def test_plans_are_placed_without_overfilling_a_node(seed: int) -> None:
    case, weights = tiny_instance(seed, containers=9), some_weights(seed)
    coefficients = costs(case, weights)
    rng = np.random.default_rng(seed)
    roles: Ints = rng.integers(0, 3, case.job.size)
    plan = packing.Plan(roles, rng.random(case.size.size) < 0.7)
    assert (
        fits(case, packing.place(case, coefficients, plan, packing.Style())) or case.job.size == 0
    )


def test_jobs_that_fit_stay_in_one_rack_when_the_plan_says_so() -> None:
    case = draw(Draw(512, nodes=512), 4)
    plan = packing.plan_of(case, [knapsack.Choice(0, 0.0, True, True)] * case.size.size)
    placed = packing.place(case, costs(case, {"P": 1.0}), plan, packing.Style())
    wishes = case.counts_as == Communication.RACK
    split = [np.unique(case.rack[placed[case.job == job]]).size for job in np.flatnonzero(wishes)]
    tazes = np.bincount(case.job[case.is_taz], minlength=case.size.size)[wishes]
    assert all(racks == 1 for racks, t in zip(split, tazes, strict=True) if t <= 64)
