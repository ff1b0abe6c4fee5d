"""The default solver: counts, then roles, then the whole tree if small, displacement, exchanges.

Roles in racks follow, only if the gap is still wide; then exchanges start again from other
placements until a proof or the limit. Source: C6; the sequence is ours.
"""

from typing import Final

from apps.placement.core.solver import displacement, knapsack, rack_roles
from apps.placement.core.solver.packing import pack
from apps.placement.core.solver.racks import PackingStyle, RolePlan, role_plan
from apps.placement.core.solver.roles import RoleProgram
from apps.placement.core.solver.run import SolverRun

_PACKINGS: Final = 24  # of one plan: every style, then other orders of jobs
_STYLES: Final = tuple(
    PackingStyle(is_strict=strict, is_thrifty=thrifty)
    for strict in (False, True)
    for thrifty in (True, False)
)
_PROGRAM_GAP: Final = 1e-5  # relative gap at which the role program stops
_MIN_GAP: Final = 1e-5  # of the run: exchanges stop below it
_EXCHANGES: Final = 20_000  # between two checks of the clock
_RESTART_SLICES: Final = 20  # of `_EXCHANGES` each
_TEMPERATURES: Final = (0.0, 0.02, 0.05, 0.1)  # of restarts, in shares of F + beta per container
_MAX_STALLED: Final = 10  # slices without a better placement
_MAX_TREE_CONTAINERS: Final = 16  # so that the whole tree may be searched
_TREE_SHARE: Final = 0.5  # of the remaining time
_CLOSE_GAP: Final = 2e-3  # below it the program with racks is not tried
_RACK_SHARE: Final = 0.6  # of the remaining time


def solve_by_default(run: SolverRun) -> None:
    """Solve by roles, by the whole tree if small, by displacement and by exchanges."""
    plan = _solve_by_roles(run)
    if not run.is_over and run.instance.job.size <= _MAX_TREE_CONTAINERS:
        _search_whole_tree(run)
    if not run.is_over:
        _displace_exposed_jobs(run)
    if not run.is_over:
        _improve_by_exchanges(run)
    if not run.is_over and run.gap > _CLOSE_GAP:
        plan = _solve_by_roles_in_racks(run) or plan
    if not run.is_over:
        _restart_exchanges(run, plan)


def solve_by_counts(run: SolverRun) -> None:
    """Raise the bound to the knapsack's, and pack its options, if the knapsack applies."""
    model = knapsack.knapsack_model(run.instance, run.costs)
    if model is None:
        return
    bound = knapsack.knapsack_bound(run.instance, run.costs, model)
    run.raise_bound(bound.value)
    _pack(run, role_plan(run.instance, bound.options))


def _pack(run: SolverRun, plan: RolePlan) -> None:
    """Pack a plan in every style, then in other orders of jobs, until one is proven optimal."""
    for number in range(_PACKINGS):
        style = _STYLES[number % len(_STYLES)]
        rng = run.rng if number >= len(_STYLES) else None
        run.offer(pack(run.instance, run.costs, plan, style, rng))
        if run.is_over:
            return


def _solve_by_roles(run: SolverRun) -> RolePlan | None:
    """Give every container a role: a bound for any nodes and intensities, and a plan."""
    result = RoleProgram(run.instance, run.costs).solve(
        limit_s=run.remaining_s / 2.0, should_stop=lambda: run.is_over, gap_tolerance=_PROGRAM_GAP
    )
    run.raise_bound(result.bound)
    if result.plan is not None:
        _pack(run, result.plan)
    return result.plan


def _solve_by_roles_in_racks(run: SolverRun) -> RolePlan | None:
    """Solve the role program with racks, where racks keep the gap open."""
    if not 0 < rack_roles.extra_columns(run.instance) <= rack_roles.MAX_COLUMNS:
        return None
    result = rack_roles.RackProgram(run.instance, run.costs).solve(
        limit_s=run.remaining_s * _RACK_SHARE,
        should_stop=lambda: run.is_over,
        gap_tolerance=_CLOSE_GAP / 4.0,
    )
    run.raise_bound(result.bound)
    if result.plan is None:
        return None
    incumbent = run.value
    run.offer(pack(run.instance, run.costs, result.plan))
    if run.value < incumbent and not run.is_over:
        _improve_by_exchanges(run)
    return result.plan


def _displace_exposed_jobs(run: SolverRun) -> None:
    """Expose jobs of less credit in place of others, while that lowers F."""
    is_better = run.costs.credit > 0.0
    while is_better and run.assignment is not None:
        incumbent, is_better = run.value, False
        for assignment in displacement.exchanges(run.instance, run.assignment):
            if run.is_over:
                return
            run.offer(assignment)
            is_better = run.value < incumbent
            if is_better:
                break


def _restart_exchanges(run: SolverRun, plan: RolePlan | None) -> None:
    """Anneal another packing of the plan and the incumbent in turn, until the run is over."""
    from apps.placement.core.problem import evaluator  # noqa: PLC0415 - loads numba
    from apps.placement.core.solver import annealing, incremental  # noqa: PLC0415 - loads numba

    packed, containers = evaluator.pack(run.instance), run.instance.job.size
    for number in range(run.max_restarts):
        if run.is_over or run.assignment is None:
            return
        start = run.assignment
        if plan is not None and number % 2 == 0:
            style = _STYLES[number // 2 % len(_STYLES)]
            start = pack(run.instance, run.costs, plan, style, run.rng)
        seed = int(run.rng.integers(1, 2**31))
        placement = incremental.score(run.instance, packed, run.costs, start, seed)
        temperature = _TEMPERATURES[number // 2 % len(_TEMPERATURES)]
        temperature *= (run.value + run.costs.beta) / containers
        for _ in range(_RESTART_SLICES):
            annealing.anneal(packed, run.costs, placement, temperature, _EXCHANGES)
            temperature /= 2.0
            if run.is_over:
                break
        run.offer(placement.at)


def _improve_by_exchanges(run: SolverRun) -> None:
    """Improve the incumbent by exchanges until they no longer lower F."""
    from apps.placement.core.problem.evaluator import pack  # noqa: PLC0415 - loads numba
    from apps.placement.core.solver import annealing, incremental  # noqa: PLC0415 - loads numba

    if run.assignment is None:
        return
    packed, seed = pack(run.instance), int(run.rng.integers(1, 2**31))
    placement = incremental.score(run.instance, packed, run.costs, run.assignment, seed)
    stalled = 0
    while stalled < _MAX_STALLED and not run.is_over and run.gap > _MIN_GAP:
        incumbent = run.value
        annealing.anneal(packed, run.costs, placement, 0.0, _EXCHANGES)
        run.offer(placement.at)
        is_better = run.value < incumbent - _MIN_GAP * abs(incumbent)
        stalled = 0 if is_better else stalled + 1


def _search_whole_tree(run: SolverRun) -> None:
    """Search the tree for at most a share of the remaining time."""
    from apps.placement.core.solver import branch_and_bound  # noqa: PLC0415 - loads numba

    features = branch_and_bound.Features()
    branch_and_bound.branch_and_bound(run, features, limit_s=run.remaining_s * _TREE_SHARE)
