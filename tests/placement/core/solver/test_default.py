"""The default solver: brute force on tiny instances, proofs and gaps on large ones."""

import time
from collections.abc import Mapping
from itertools import count

import numpy as np
import pytest

from apps.inventory.core.snapshot import Ints
from apps.placement.core.problem.costs import costs
from apps.placement.core.problem.evaluator import pack
from apps.placement.core.problem.examples import InstanceSpec, JobMix, generate_instance
from apps.placement.core.problem.instance import NOWHERE, Communication, Instance
from apps.placement.core.problem.objectives import Objective, evaluate, money, registry
from apps.placement.core.solver import annealing, default, incremental, knapsack
from apps.placement.core.solver.packing import pack as pack_plan
from apps.placement.core.solver.rack_roles import RackProgram
from apps.placement.core.solver.racks import ContainerRole, PackingStyle, RolePlan, role_plan
from apps.placement.core.solver.registry import DEFAULT, UnknownSolverError, prepare, solve
from apps.placement.core.solver.roles import RoleProgram
from apps.placement.core.solver.round_robin import fill_free_slots
from apps.placement.core.solver.run import Solution, SolverProgress, SolverRun
from tests.placement.core.tiny import every_assignment, only_tazes, some_weights, tiny_instance


@pytest.fixture(scope="module", autouse=True)
def compiled() -> None:
    """Compile the kernels before the first timed test."""
    prepare(generate_instance(InstanceSpec(4, kinds=2, nodes_per_rack=1), 0), {"P": 1.0})


def search(case: Instance, weights: Mapping[str, float], limit_s: float = 5.0) -> SolverRun:
    return SolverRun(case, weights, clock=time.perf_counter, limit_s=limit_s)


def solved_to(case: Instance, gap: float, patch: pytest.MonkeyPatch) -> Solution:
    """Solve at equal weights to a gap, or for 20,000 checks; programs stop at a third of the gap.

    Nothing here depends on the time that the machine takes.
    """
    patch.setattr(default, "_PROGRAM_GAP", gap / 3.0)
    checks = count()
    run = SolverRun(
        case,
        dict.fromkeys("PDC", 1.0),
        clock=lambda: float(next(checks)),
        limit_s=20_000.0,
        should_stop=lambda: run.gap < gap,
    )
    return solve(run)


def solved(case: Instance, weights: Mapping[str, float], limit_s: float = 5.0) -> Solution:
    return solve(search(case, weights, limit_s))


def optimum(case: Instance, weights: Mapping[str, float]) -> float:
    return min(evaluate(case, row, weights).F for row in every_assignment(case))


def fits(case: Instance, assignment: Ints) -> bool:
    used = np.bincount(assignment, minlength=case.slots.size)
    return bool((used <= case.slots).all() and assignment.size == case.job.size)


@pytest.mark.parametrize("is_plain", [True, False])
@pytest.mark.parametrize("seed", range(150))
def test_brute_force_agrees_on_tiny_instances(seed: int, is_plain: bool) -> None:
    case, weights = tiny_instance(seed, is_plain=is_plain), some_weights(seed)
    solution, best = solved(case, weights), optimum(case, weights)
    assert fits(case, solution.assignment)
    assert pytest.approx(best, abs=1e-9) == solution.evaluation.F
    assert solution.bound <= best + 1e-9


@pytest.mark.parametrize("seed", range(60))
def test_migrations_are_charged_exactly_on_tiny_instances(seed: int) -> None:
    case, weights = tiny_instance(seed, containers=5), {**some_weights(seed), "M": 0.8}
    solution, best = solved(case, weights), optimum(case, weights)
    assert pytest.approx(best, abs=1e-9) == solution.evaluation.F
    assert solution.bound <= best + 1e-9


@pytest.mark.parametrize("seed", range(120))
def test_no_bound_is_above_the_optimum(seed: int) -> None:
    case, weights = tiny_instance(seed + 5000), some_weights(seed)
    coefficients = costs(case, weights)
    best = optimum(case, weights)
    program = RoleProgram(case, coefficients)
    cast = program.solve(limit_s=5.0, should_stop=lambda: False, gap_tolerance=0.0)
    assert cast.bound <= best + 1e-9
    racked = RackProgram(case, coefficients)
    assert (
        racked.solve(limit_s=5.0, should_stop=lambda: False, gap_tolerance=0.0).bound
        <= best + 1e-9
    )


@pytest.mark.parametrize("seed", range(120))
def test_the_knapsack_bound_is_at_most_the_optimum(seed: int) -> None:
    case, weights = tiny_instance(seed + 9000, is_plain=True), some_weights(seed)
    coefficients = costs(case, weights)
    known = knapsack.knapsack_model(case, coefficients)
    assert known is not None
    assert (
        knapsack.knapsack_bound(case, coefficients, known).value <= optimum(case, weights) + 1e-9
    )


@pytest.mark.parametrize("weights", [(1, 1, 1), (3, 1, 2), (1, 3, 3), (2, 1, 1)])
@pytest.mark.parametrize("mix", list(JobMix))
def test_a_thousand_plain_containers_are_placed_and_proven(
    mix: JobMix, weights: tuple[float, float, float]
) -> None:
    case = generate_instance(InstanceSpec(mix=mix), 1)
    solution = solved(case, dict(zip("PDC", weights, strict=True)))
    assert fits(case, solution.assignment)
    assert solution.is_optimal
    assert solution.gap == 0.0
    assert pytest.approx(solution.bound, abs=1e-9) == solution.evaluation.F


def test_a_full_cluster_has_a_small_proven_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = InstanceSpec(1024, nodes=512, has_real_intensities=True, kinds=2)
    case = generate_instance(spec, 0)
    solution = solved_to(case, 0.01, monkeypatch)
    assert fits(case, solution.assignment)
    assert 0.0 <= solution.gap < 0.01


def test_the_program_with_racks_closes_a_gap_that_racks_keep_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spec = InstanceSpec(
        64, nodes=32, nodes_per_rack=8, largest=16, has_real_intensities=True, kinds=2
    )
    solution = solved_to(generate_instance(spec, 1), 0.004, monkeypatch)
    assert solution.gap < 0.004  # 0.036 without that program


@pytest.mark.parametrize("names", [("large", "small"), ("small", "large")])
def test_the_displaced_host_belongs_to_the_job_with_the_least_credit(
    names: tuple[str, str],
) -> None:
    jobs = {"exposed": [1.0, 1.0], "large": [0.6, 0.6], "small": [0.9]}
    ordered = {name: jobs[name] for name in ("exposed", *names)}
    case = only_tazes(ordered, nodes=3, slots=3, communication={"exposed": "rack"})
    is_exposed = np.array([key.startswith("exposed") for key in case.container_ids])
    roles = np.where(is_exposed, ContainerRole.EXPOSED, ContainerRole.HOST)  # of three nodes, four
    plan = RolePlan(roles, np.ones(3, dtype=np.bool_))
    solution = pack_plan(case, costs(case, {"D": 1.0}), plan)
    assert evaluate(case, solution).raw["D"] == pytest.approx(1.2)


def test_a_job_kept_on_one_node_is_placed_before_hosts_that_may_go_anywhere() -> None:
    jobs = {"pair": [1.0, 1.0], "a": [1.0], "b": [1.0], "c": [1.0]}
    case = only_tazes(jobs, nodes=3, communication={"pair": "node"})
    is_pair = np.array([key.startswith("pair") for key in case.container_ids])
    roles = np.where(is_pair, ContainerRole.EXPOSED, ContainerRole.HOST)  # of three nodes, four
    plan = RolePlan(roles, np.ones(4, dtype=np.bool_))
    solution = pack_plan(case, costs(case, {"D": 1.0, "C": 1.0}), plan)
    assert evaluate(case, solution).raw["C"] == 0.0


def test_the_gap_is_the_share_of_f_that_could_still_be_saved() -> None:
    case, weights = (
        generate_instance(InstanceSpec(64, nodes=40, has_real_intensities=True), 2),
        {"P": 1.0, "D": 2.0},
    )
    solution = solved(case, weights, 1.0)
    share = (solution.evaluation.F - solution.bound) / (solution.evaluation.F + 2.0)
    assert solution.gap == pytest.approx(0.0 if solution.is_optimal else share)


def test_memory_does_not_grow_with_slots_beyond_the_number_of_containers() -> None:
    case = generate_instance(InstanceSpec(200, nodes=50, slots=60_000, nodes_per_rack=10), 0)
    solution = solved(case, {"P": 1.0, "D": 1.0, "C": 1.0}, 3.0)
    assert fits(case, solution.assignment)
    assert solution.bound <= solution.evaluation.F


def test_an_empty_instance_is_solved() -> None:
    solution = solved(generate_instance(InstanceSpec(0, nodes=3), 0), {"P": 1.0})
    assert (solution.evaluation.F, solution.gap, solution.is_optimal) == (0.0, 0.0, True)


def test_an_instance_without_nodes_or_containers_is_solved() -> None:
    assert solved(generate_instance(InstanceSpec(0), 0), {"P": 1.0}).is_optimal


def test_without_weights_any_placement_is_optimal() -> None:
    solution = solved(generate_instance(InstanceSpec(32), 0), {})
    assert solution.is_optimal
    assert solution.evaluation.F == 0.0


def test_a_stopped_run_returns_the_incumbent() -> None:
    case = generate_instance(InstanceSpec(600, has_real_intensities=True), 0)
    stopped = SolverRun(
        case, {"P": 1.0}, clock=time.perf_counter, limit_s=60.0, should_stop=lambda: True
    )
    solution = solve(stopped)
    assert solution.seconds < 5.0
    assert fits(case, solution.assignment)


def test_a_run_ends_at_its_time_limit() -> None:
    ticks = iter(range(10_000))
    case = generate_instance(InstanceSpec(600, has_real_intensities=True), 0)
    bounded = SolverRun(case, {"P": 1.0}, clock=lambda: float(next(ticks)), limit_s=3.0)
    assert fits(case, solve(bounded).assignment)


def test_reported_values_fall_and_reported_bounds_rise() -> None:
    reports: list[SolverProgress] = []
    case = generate_instance(InstanceSpec(128, nodes=100, has_real_intensities=True), 0)
    watched = SolverRun(
        case,
        {"P": 1.0, "D": 1.0},
        clock=time.perf_counter,
        limit_s=2.0,
        on_progress=reports.append,
    )
    solve(watched)
    values, bounds = [each.value for each in reports], [each.bound for each in reports]
    assert values == sorted(values, reverse=True)
    assert bounds == sorted(bounds)
    assert reports[-1].gap < reports[0].gap


def test_the_same_seed_gives_the_same_placement() -> None:
    case, weights = (
        generate_instance(InstanceSpec(256, mix=JobMix.HADOOP), 3),
        {"P": 3.0, "D": 1.0, "C": 1.0},
    )
    first, second = solved(case, weights), solved(case, weights)
    assert np.array_equal(first.assignment, second.assignment)


def test_an_unknown_solver_is_refused_with_the_known_names() -> None:
    with pytest.raises(UnknownSolverError, match=f"unknown solver 'x'; known: .*{DEFAULT}"):
        solve(search(generate_instance(InstanceSpec(4), 0), {}), "x")


def test_containers_stay_if_migrations_cost_more_than_they_gain() -> None:
    case = generate_instance(InstanceSpec(64, occupied=1.0), 0)
    solution = solved(case, {"P": 1.0, "D": 1.0, "M": 1000.0}, 2.0)
    assert np.array_equal(solution.assignment, case.current)


def test_money_is_bounded_like_power() -> None:
    case = generate_instance(InstanceSpec(64, kinds=2, nodes_per_rack=16), 0)
    price = {"r0": np.array([1.0]), "": np.array([3.0])}
    known = registry({"money": money(np.array([1.0]), price)})
    with_money = SolverRun(
        case, {"money": 1.0, "D": 1.0}, clock=time.perf_counter, limit_s=3.0, objectives=known
    )
    solution = solve(with_money)
    assert solution.gap < 0.01
    assert (case.rack[solution.assignment] == 0).sum() >= 16


def test_an_objective_that_solvers_cannot_model_keeps_the_bound_valid() -> None:
    known = registry({"first": Objective("First node", "", _first, lambda _: 1.0)})
    case = tiny_instance(11)
    weights = {"P": 1.0, "first": 2.0}
    solution = solve(
        SolverRun(case, weights, clock=time.perf_counter, limit_s=2.0, objectives=known)
    )
    best = min(evaluate(case, row, weights, objectives=known).F for row in every_assignment(case))
    assert solution.bound <= best <= solution.evaluation.F


def _first(_: Instance, assignment: Ints) -> float:
    return float((assignment == 0).any())


# --- parts


@pytest.mark.parametrize("seed", range(40))
def test_exchanges_keep_the_value_and_never_overfill(seed: int) -> None:
    case, weights = tiny_instance(seed + 1), {**some_weights(seed), "M": 0.7}
    packed, charged = pack(case), costs(case, weights)
    start = fill_free_slots(case, np.full(case.job.size, NOWHERE))
    state = incremental.score(case, packed, charged, start, seed)
    assert state.total[0] == pytest.approx(evaluate(case, start, weights).F)
    annealing.anneal(packed, charged, state, 1.0, 400 if case.job.size else 0)
    assert fits(case, state.at)
    assert state.total[0] == pytest.approx(evaluate(case, state.at, weights).F)


@pytest.mark.parametrize("seed", range(30))
def test_plans_are_placed_without_overfilling_a_node(seed: int) -> None:
    case, weights = tiny_instance(seed, containers=9), some_weights(seed)
    coefficients = costs(case, weights)
    rng = np.random.default_rng(seed)
    roles: Ints = rng.integers(0, 3, case.job.size)
    plan = RolePlan(roles, rng.random(case.size.size) < 0.7)
    assert fits(case, pack_plan(case, coefficients, plan, PackingStyle())) or case.job.size == 0


def test_jobs_that_fit_stay_in_one_rack_if_the_plan_keeps_them_whole() -> None:
    case = generate_instance(InstanceSpec(512, nodes=512), 4)
    plan = role_plan(case, [knapsack.JobOption(0, 0.0, True, True)] * case.size.size)
    placed = pack_plan(case, costs(case, {"P": 1.0}), plan, PackingStyle())
    is_rack_job = case.effective_communication == Communication.RACK
    split = [
        np.unique(case.rack[placed[case.job == job]]).size for job in np.flatnonzero(is_rack_job)
    ]
    tazes = np.bincount(case.job[case.is_taz], minlength=case.size.size)[is_rack_job]
    assert all(racks == 1 for racks, t in zip(split, tazes, strict=True) if t <= 64)
