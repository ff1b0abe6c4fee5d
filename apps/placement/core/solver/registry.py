"""Solvers by name.

A solver works on a `SolverRun`: it offers placements and raises the lower bound until the run is
over.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import numpy as np

from apps.placement.core.problem.examples import InstanceSpec, generate_instance
from apps.placement.core.problem.instance import NOWHERE, Instance
from apps.placement.core.problem.objectives import BUILT_IN, Objective
from apps.placement.core.solver import default
from apps.placement.core.solver.round_robin import fill_free_slots
from apps.placement.core.solver.run import Solution, SolverRun

Solver = Callable[[SolverRun], None]

DEFAULT: Final = "counts"


class UnknownSolverError(ValueError):
    """No solver has that name."""


def find(name: str) -> Solver:
    """Return a solver of the registry.

    Raises
    ------
    UnknownSolverError : lists the known names.
    """
    if name not in SOLVERS:
        raise UnknownSolverError(f"unknown solver {name!r}; known: {', '.join(sorted(SOLVERS))}")
    return SOLVERS[name]


def solve(run: SolverRun, name: str = DEFAULT) -> Solution:
    """Run a solver until it has a proof, is out of time or is stopped; return the best placement.

    Raises
    ------
    UnknownSolverError : lists the known names.
    """
    solver = find(name)
    if name == DEFAULT and run.instance.job.size:
        default.solve_by_counts(run)  # often optimal within a few milliseconds
    if not run.is_optimal:
        _offer_starts(run)
    if not run.is_over:
        solver(run)
    return run.solution(name)


def prepare(
    instance: Instance,
    weights: Mapping[str, float],
    name: str = DEFAULT,
    *,
    objectives: Mapping[str, Objective] = BUILT_IN,
    clock: Callable[[], float] = lambda: 0.0,
) -> None:
    """Load, and if necessary compile, what a solve needs, before its clock starts.

    Compiles nothing if the knapsack proves an answer, which needs neither the compiler nor HiGHS.

    Parameters
    ----------
    clock : gives up the trial of the knapsack after a second

    Raises
    ------
    UnknownSolverError : lists the known names.
    """
    find(name)
    if name == DEFAULT:
        trial = SolverRun(instance, weights, clock=clock, limit_s=1.0, objectives=objectives)
        if instance.job.size:
            default.solve_by_counts(trial)
        if trial.is_optimal or instance.job.size == 0:
            return
    from apps.placement.core.problem.evaluator import pack, raw_values  # noqa: PLC0415 - numba
    from apps.placement.core.solver import (  # noqa: PLC0415 - numba
        annealing,
        branch_and_bound,
        incremental,
    )

    small = generate_instance(InstanceSpec(4, has_real_intensities=True), 0)
    raw_values(small, np.zeros((1, 4), dtype=np.int64))
    run = SolverRun(small, {"P": 1.0, "D": 1.0, "C": 1.0}, clock=lambda: 0.0, limit_s=1.0)
    branch_and_bound.branch_and_bound(run, branch_and_bound.Features())
    packed = pack(small)
    placement = incremental.score(small, packed, run.costs, np.arange(4))
    annealing.anneal(packed, run.costs, placement, 0.0, 0)


def _offer_starts(run: SolverRun) -> None:
    """Offer SlotRR placements: of all containers, and of those not running yet."""
    instance = run.instance
    run.offer(fill_free_slots(instance, np.full(instance.job.size, NOWHERE, dtype=np.int64)))
    if instance.has_current:
        run.offer(fill_free_slots(instance, instance.current))
    if instance.job.size == 0:
        run.raise_bound(run.value)


def _solve_by_tree(run: SolverRun) -> None:
    """Solve as the paper does, with all its features except approximate pruning."""
    from apps.placement.core.solver import branch_and_bound  # noqa: PLC0415 - loads numba

    branch_and_bound.branch_and_bound(run, branch_and_bound.Features())


def _solve_at_random(run: SolverRun) -> None:
    """Try random placements."""
    from apps.placement.core.solver import branch_and_bound  # noqa: PLC0415 - loads numba

    branch_and_bound.try_random_placements(run)


SOLVERS: Final[Mapping[str, Solver]] = MappingProxyType(
    {
        DEFAULT: default.solve_by_default,
        "branch_and_bound": _solve_by_tree,
        "random": _solve_at_random,
    }
)
