"""The benchmark of constants that were fitted to the emulator."""

import numpy as np
import pytest

from apps.classification.core import feedback
from apps.scheduling.core.sizing import allowances
from apps.testbed.core.comparison import RunTable, compare
from benchmarks._closed_loop import LoopFigures
from benchmarks.sensitivity import AS_IS, CONSTANTS, MEASURES, table_of, values_of


def test_of_a_share_that_remains_the_loss_is_multiplied() -> None:
    allowance, neighbours, cost = CONSTANTS
    assert allowance.times(2.0) == pytest.approx(
        1.0 - 2.0 * (1.0 - allowances.INTERFERENCE_ALLOWANCE)
    )
    assert neighbours.times(0.5) == pytest.approx(1.0 - 0.5 * (1.0 - feedback.NEIGHBOURS))
    assert cost.times(2.0) == 2.0 * feedback.POINT_COST
    assert [constant.times(1.0) for constant in CONSTANTS] == pytest.approx(
        [allowances.INTERFERENCE_ALLOWANCE, feedback.NEIGHBOURS, feedback.POINT_COST]
    )


def test_a_constant_is_changed_for_the_run_only() -> None:
    before, allowance = allowances.INTERFERENCE_ALLOWANCE, CONSTANTS[0]
    with allowance.set_to(0.7):
        assert allowances.INTERFERENCE_ALLOWANCE == 0.7
    assert before == allowances.INTERFERENCE_ALLOWANCE


def test_jobs_that_no_size_serves_miss_their_target() -> None:
    figures = LoopFigures(
        jobs=6, infeasible=2, met=0.5, near=2 / 3, performance=0.8, waited_s=0.0,
        attainment=1.1, units=4.0, unit_seconds=900.0,
    )  # fmt: skip
    assert values_of(figures) == pytest.approx([37.5, 50.0, 60.0, 900.0])


def test_clear_differences_to_the_constant_as_it_is_are_bold() -> None:
    rng = np.random.default_rng(1)
    noise = rng.normal(0.0, 0.1, (3, 5, len(MEASURES)))
    noise[:2] += 50.0
    noise[2] += 60.0
    names = (AS_IS, "sizing allowance x 0.5", "sizing allowance x 2")
    table = RunTable(names, (1, 2, 3, 4, 5), MEASURES, noise)
    shown = table_of(compare(table, baseline=AS_IS, rng=rng))
    assert [row[:2] for row in shown[1:]] == [
        [AS_IS, "1"], ["sizing allowance", "0.5"], ["sizing allowance", "2"],
    ]  # fmt: skip
    assert shown[1][2].startswith("50.")
    assert not any(cell.startswith("**") for cell in shown[2])
    assert shown[3][2].startswith("**+10.")
