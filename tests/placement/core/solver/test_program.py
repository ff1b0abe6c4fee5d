"""Mixed-integer programs: bounds that allow for the tolerances of HiGHS."""

import numpy as np
import pytest

from apps.placement.core.solver.program import (
    COST_TOLERANCE,
    INFINITY,
    ROW_TOLERANCE,
    MixedIntegerProgram,
)


def cheapest_of_two(cost: float, *, is_whole: bool) -> MixedIntegerProgram:
    """Two columns of equal cost that add up to at least 1: the optimum is ``cost``."""
    program = MixedIntegerProgram()
    columns = program.columns(np.full(2, cost), 1.0, is_whole=is_whole)
    program.row(1.0, INFINITY, (columns, 1.0))
    return program


@pytest.mark.parametrize("is_whole", [False, True])
@pytest.mark.parametrize("cost", [1.0, 1e3, 1e-3])
def test_the_bound_is_the_optimum_less_the_tolerances(cost: float, is_whole: bool) -> None:
    result = cheapest_of_two(cost, is_whole=is_whole).solve(limit_s=10.0)
    slack = cost * (ROW_TOLERANCE + 2 * COST_TOLERANCE)  # one row, two columns, in units of cost
    assert cost - result.bound == pytest.approx(slack, rel=1e-3)


def test_every_row_lowers_the_bound() -> None:
    program = cheapest_of_two(1.0, is_whole=False)
    for _ in range(9):
        program.row(0.0, 2.0, (np.arange(2), 1.0))
    slack = 10 * ROW_TOLERANCE + 2 * COST_TOLERANCE
    assert 1.0 - program.solve(limit_s=10.0).bound == pytest.approx(slack, rel=1e-3)


def test_an_infeasible_program_has_no_values() -> None:
    program = cheapest_of_two(1.0, is_whole=False)
    program.row(-INFINITY, 0.5, (np.arange(2), 1.0))
    assert program.solve(limit_s=10.0).values is None
