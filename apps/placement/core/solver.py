"""Solvers by name, and the default: counts first, then roles, then exchanges, then everything.

A solver writes on a `Search`: it offers placements and proves bounds until the search is over.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import numpy as np

from apps.inventory.core.snapshot import Ints
from apps.placement.core import exposing, knapsack, packing, rack_roles
from apps.placement.core.costs import costs
from apps.placement.core.examples import Draw, draw
from apps.placement.core.instance import NOWHERE, Instance
from apps.placement.core.objectives import BUILT_IN, Objective
from apps.placement.core.roles import RoleProgram
from apps.placement.core.search import Search, Solution

Solver = Callable[[Search], None]

DEFAULT: Final = "counts"
_SHAKES: Final = 24  # ways to fill the racks tried
_STYLES: Final = tuple(
    packing.Style(is_strict=strict, is_thrifty=thrifty)
    for strict in (False, True)
    for thrifty in (True, False)
)
_ENOUGH: Final = 1e-5  # relative gap of the role program
_LEAST_GAP: Final = 1e-5  # of the search: exchanges stop there
_TRIES: Final = 20_000  # exchanges between two looks at the clock
_STALLED: Final = 10  # slices without a better placement
_FEW: Final = 16  # containers: the whole tree may be searched
_TREE_SHARE: Final = 0.5  # of the time left
_CLOSE: Final = 2e-3  # gap that racks are not asked to close
_RACK_SHARE: Final = 0.6  # of the time left


class UnknownSolverError(ValueError):
    """No solver has that name."""


def find(name: str) -> Solver:
    """Return a solver of the registry.

    Raises
    ------
    UnknownSolverError : names those there are.
    """
    if name not in SOLVERS:
        raise UnknownSolverError(f"no solver {name!r}; there are {', '.join(sorted(SOLVERS))}")
    return SOLVERS[name]


def solve(search: Search, name: str = DEFAULT) -> Solution:
    """Search until proven, out of time or told to stop, and return the best placement."""
    run = find(name)
    if name == DEFAULT and search.instance.job.size:
        _count(search)  # most often that is all, within a few milliseconds
    if not search.is_optimal:
        _begin(search)
    if not search.is_over:
        run(search)
    return search.solution(name)


def prepare(
    instance: Instance,
    weights: Mapping[str, float],
    name: str = DEFAULT,
    *,
    objectives: Mapping[str, Objective] = BUILT_IN,
) -> None:
    """Load, and the first time compile, what a solve will need: before its clock runs.

    Nothing where the knapsack applies, which needs neither compiler nor library.

    Raises
    ------
    UnknownSolverError : names those there are.
    """
    find(name)
    if name == DEFAULT:
        charged = costs(instance, weights, objectives)
        if knapsack.profile(instance, charged) is not None:
            return
    from apps.placement.core import annealing, branch_and_bound, kernels  # noqa: PLC0415 - numba

    small = draw(Draw(4, has_real_intensities=True), 0)
    kernels.evaluate_all(kernels.problem(small), np.zeros((1, 4), dtype=np.int64))
    search = Search(small, {"P": 1.0, "D": 1.0, "C": 1.0}, clock=lambda: 0.0, limit_s=1.0)
    branch_and_bound.branch_and_bound(search, branch_and_bound.Features())
    known = annealing.fixed(small, search.costs)
    annealing.anneal(known, annealing.state(known, np.arange(4), 1), 0.0, 0)


def by_counts(search: Search) -> None:
    """Solve by counts (done before), by roles, where it is small by trying all, by exchanges."""
    _cast(search)
    if not search.is_over and search.instance.job.size <= _FEW:
        _try_all(search)
    if not search.is_over:
        _expose_others(search)
    if not search.is_over:
        _exchange(search)
    if not search.is_over and search.gap > _CLOSE:
        _cast_in_racks(search)


def _begin(search: Search) -> None:
    """Offer what needs no thought: what runs, with the rest filled in, and slot after slot."""
    instance = search.instance
    search.offer(filled(instance, np.full(instance.job.size, NOWHERE, dtype=np.int64)))
    if instance.has_current:
        search.offer(filled(instance, instance.current))
    if instance.job.size == 0:
        search.prove(search.value)


def filled(instance: Instance, assignment: Ints) -> Ints:
    """Put containers without a node on free slots, node after node (the paper's SlotRR)."""
    placed = assignment.copy()
    rest = np.flatnonzero(placed == NOWHERE)
    used = np.bincount(placed[placed != NOWHERE], minlength=len(instance.node_ids))
    free: Ints = np.repeat(np.arange(used.size), np.minimum(instance.slots - used, rest.size))
    placed[rest] = free[: rest.size]
    return placed


def _count(search: Search) -> None:
    """Where only counts matter: the knapsack's bound, and its choices packed to meet it."""
    known = knapsack.profile(search.instance, search.costs)
    if known is None:
        return
    found = knapsack.bound(search.instance, search.costs, known)
    search.prove(found.value)
    _pack(search, packing.plan_of(search.instance, found.choices))


def _pack(search: Search, plan: packing.Plan) -> None:
    """Place by a plan in every style, then in other orders of jobs while it is not proven best."""
    for number in range(_SHAKES):
        style = _STYLES[number % len(_STYLES)]
        rng = search.rng if number >= len(_STYLES) else None
        search.offer(packing.place(search.instance, search.costs, plan, style, rng))
        if search.is_over:
            return


def _cast(search: Search) -> None:
    """Give every container a role: a bound for any nodes and intensities, and a plan."""
    program = RoleProgram(search.instance, search.costs)
    found = program.solve(
        limit_s=search.left_s / 2.0, should_stop=lambda: search.is_over, enough=_ENOUGH
    )
    search.prove(found.bound)
    if found.plan is not None:
        _pack(search, found.plan)


def _cast_in_racks(search: Search) -> None:
    """Cast again with the racks in view, where they are what keeps the gap open."""
    if not 0 < rack_roles.columns(search.instance) <= rack_roles.MOST_COLUMNS:
        return
    found = rack_roles.RackProgram(search.instance, search.costs).solve(
        limit_s=search.left_s * _RACK_SHARE,
        should_stop=lambda: search.is_over,
        enough=_CLOSE / 4.0,
    )
    search.prove(found.bound)
    if found.plan is None:
        return
    best = search.value
    search.offer(packing.place(search.instance, search.costs, found.plan))
    if search.value < best and not search.is_over:
        _exchange(search)


def _expose_others(search: Search) -> None:
    """Let jobs of little worth be exposed instead of others, while that helps."""
    is_better = search.costs.credit > 0.0
    while is_better and search.assignment is not None:
        before, is_better = search.value, False
        for placed in exposing.instead(search.instance, search.assignment):
            if search.is_over:
                return
            search.offer(placed)
            is_better = search.value < before
            if is_better:
                break


def _exchange(search: Search) -> None:
    """Improve the best placement by exchanges until they no longer help."""
    from apps.placement.core import annealing  # noqa: PLC0415 - loads numba

    if search.assignment is None:
        return
    known = annealing.fixed(search.instance, search.costs)
    state = annealing.state(known, search.assignment, int(search.rng.integers(1, 2**31)))
    stalled = 0
    while stalled < _STALLED and not search.is_over and search.gap > _LEAST_GAP:
        before = search.value
        annealing.anneal(known, state, 0.0, _TRIES)
        search.offer(state.at)
        stalled = 0 if search.value < before - _LEAST_GAP * abs(before) else stalled + 1


def _try_all(search: Search) -> None:
    """Search the whole tree, if that is done before long."""
    from apps.placement.core import branch_and_bound  # noqa: PLC0415 - loads numba

    features = branch_and_bound.Features()
    branch_and_bound.branch_and_bound(search, features, limit_s=search.left_s * _TREE_SHARE)


def by_tree(search: Search) -> None:
    """Solve as the paper does, with all its features but approximate pruning."""
    from apps.placement.core import branch_and_bound  # noqa: PLC0415 - loads numba

    branch_and_bound.branch_and_bound(search, branch_and_bound.Features())


def by_chance(search: Search) -> None:
    """Try placements at random."""
    from apps.placement.core import branch_and_bound  # noqa: PLC0415 - loads numba

    branch_and_bound.at_random(search)


SOLVERS: Final[Mapping[str, Solver]] = MappingProxyType(
    {DEFAULT: by_counts, "branch_and_bound": by_tree, "random": by_chance}
)
