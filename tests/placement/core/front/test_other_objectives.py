"""Values of stored placements in objectives that a front was not searched by."""

from dataclasses import replace

import numpy as np
import pytest

from apps.placement.core.front.other_objectives import objective_column
from apps.placement.core.problem.examples import InstanceSpec, generate_instance
from apps.placement.core.problem.objectives import (
    BUILT_IN,
    CurveLacksRackError,
    evaluate,
    money,
    registry,
)

SMALL = InstanceSpec(containers=8, nodes=6, nodes_per_rack=3, largest=3, kinds=2)
MONEY = money(np.array([8.0, 16.0]), {"": np.array([0.1, 0.3])})
RUNNING = replace(generate_instance(SMALL, 1), current=np.array([0, 0, 1, 1, 2, 2, -1, -1]))
PLACED = np.array([[0, 0, 1, 1, 2, 2, 3, 3], [5, 0, 4, 1, 2, 3, 3, 4]])


def test_migrations_are_counted_from_the_placement_of_the_workload() -> None:
    column = objective_column([RUNNING], PLACED, BUILT_IN["M"])
    assert column.raw.tolist() == [0.0, 3.0]
    assert column.normalised == pytest.approx([0.0, 3 / 6])


def test_every_placement_has_the_values_of_its_evaluation() -> None:
    column = objective_column([RUNNING], PLACED, MONEY)
    known = registry({"money": MONEY})
    each = [evaluate(RUNNING, one, objectives=known) for one in PLACED]
    assert column.raw == pytest.approx([one.raw["money"] for one in each])
    assert column.normalised == pytest.approx([one.normalised["money"] for one in each])


def test_values_over_several_moments_are_means() -> None:
    still = replace(RUNNING, current=np.full(8, -1))
    column = objective_column([RUNNING, still], np.tile(PLACED[1], (1, 2)), BUILT_IN["M"])
    assert column.raw.tolist() == [1.5]
    assert column.normalised == pytest.approx([3 / 6])


def test_an_objective_that_is_always_zero_stays_zero() -> None:
    still = replace(RUNNING, current=np.full(8, -1))
    assert objective_column([still], PLACED, BUILT_IN["M"]).normalised.tolist() == [0.0, 0.0]


def test_a_rack_without_a_price_is_an_error() -> None:
    priced = money(np.array([1.0]), {"elsewhere": np.array([0.1])})
    with pytest.raises(CurveLacksRackError, match="has no rack"):
        objective_column([RUNNING], PLACED, priced)
