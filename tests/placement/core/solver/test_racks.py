"""Assignment of jobs to racks whose nodes differ in slots."""

from itertools import count, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.placement.core.problem.examples import InstanceSpec, generate_instance
from apps.placement.core.solver.racks import RoleCounts, slots_of
from apps.placement.core.solver.registry import solve
from apps.placement.core.solver.run import Solution, SolverRun

UNEQUAL = InstanceSpec(
    120, nodes=70, nodes_per_rack=14, slots=(1, 2, 4), largest=16, has_real_intensities=True
)


def fits(counts: RoleCounts, slots: list[int]) -> bool:
    """Try every choice of nodes for the hosts and for the exposed tazes."""
    return any(
        kinds.count("host") >= counts.hosts
        and sum(n for n, kind in zip(slots, kinds, strict=True) if kind == "exposed")
        >= counts.exposed
        and sum(slots) >= sum(counts)
        for kinds in product(("host", "exposed"), repeat=len(slots))
    )


@given(
    st.lists(st.sampled_from([1, 2, 4]), min_size=1, max_size=6),
    st.tuples(*[st.integers(0, 8)] * 3),
)
def test_containers_fit_in_a_rack_if_some_choice_of_nodes_holds_them(
    slots: list[int], roles: tuple[int, int, int]
) -> None:
    rack = slots_of(tuple(sorted(slots, reverse=True)))
    counts = RoleCounts(*roles)
    assert (counts.nodes(rack) <= rack.nodes) == fits(counts, slots)


def test_the_slots_of_a_rack_are_counted_by_its_largest_nodes() -> None:
    rack = slots_of((4, 2, 1))
    assert (rack.nodes, rack.total, rack.of_largest) == (3, 7, (0, 4, 6, 7))
    assert [rack.nodes_for(n) for n in (0, 1, 4, 5, 7, 8)] == [0, 1, 1, 2, 3, 4]


def solved(seed: int, *, checks: float, max_restarts: int) -> Solution:
    """Solve with a clock that counts how often it is read."""
    ticks = count()
    run = SolverRun(
        generate_instance(UNEQUAL, seed),
        {"P": 0.2, "D": 0.2, "C": 1.0},
        clock=lambda: float(next(ticks)),
        limit_s=checks,
        max_restarts=max_restarts,
    )
    return solve(run)


@pytest.mark.parametrize("seed", range(3))
def test_unequal_slots_leave_a_small_gap(seed: int) -> None:
    assert solved(seed, checks=50_000.0, max_restarts=20).gap < 0.025


def test_the_search_goes_on_until_the_limit_without_a_proof() -> None:
    brief = solved(2, checks=50_000.0, max_restarts=0)
    long = solved(2, checks=2.0 * brief.seconds, max_restarts=10**9)
    assert not brief.is_optimal
    assert brief.seconds < 50_000.0
    assert long.is_optimal or long.seconds >= 2.0 * brief.seconds
    assert long.evaluation.F <= brief.evaluation.F
