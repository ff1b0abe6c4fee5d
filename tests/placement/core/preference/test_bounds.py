"""Bounds on objectives: feasible placements, and the best of them under weights."""

import numpy as np
import pytest

from apps.placement.core.preference.bounds import (
    bound_warnings,
    broken_bounds,
    constrained_choice,
    invalid_bounds,
    within_bounds,
)
from apps.placement.core.preference.derivation import PreferenceInput, derive
from apps.placement.core.preference.support import supporting

# P, D, C. Placement 1 lies on a concave part: 0 or 2 has a smaller weighted sum for any weights.
FRONT = np.array([[0.2, 0.2, 0.5], [0.6, 0.45, 0.5], [0.8, 0.9, 0.5]])
COLUMNS = {**dict(zip("PDC", FRONT.T, strict=True)), "M": np.array([0.0, 0.3, 0.2])}
EQUAL = {"P": 1.0, "D": 1.0, "C": 1.0}


@pytest.mark.parametrize(
    ("bounds", "feasible"),
    [
        ({}, [True, True, True]),
        ({"D": 0.45}, [False, True, True]),  # at least: higher is better
        ({"P": 0.6}, [True, True, False]),  # at most
        ({"P": 0.6, "D": 0.3}, [False, True, False]),
        ({"C": 0.4}, [False, False, False]),
        ({"M": 0.2}, [True, False, True]),  # an objective that has no weight
    ],
)
def test_a_placement_is_feasible_if_it_keeps_every_bound(
    bounds: dict[str, float], feasible: list[bool]
) -> None:
    assert within_bounds(COLUMNS, bounds).tolist() == feasible


@pytest.mark.parametrize(
    ("weights", "bounds", "chosen"),
    [
        (EQUAL, {}, 2),  # sums P − D + C: 0.5, 0.65, 0.4
        (EQUAL, {"P": 0.7}, 0),
        (EQUAL, {"P": 0.7, "D": 0.3}, 1),
        ({"P": 1.0, "D": 0.0, "C": 0.0}, {"D": 0.4}, 1),
        (EQUAL, {"C": 0.1}, None),
        (EQUAL, {"M": 0.1}, 0),
    ],
)
def test_the_choice_is_the_feasible_placement_with_the_smallest_weighted_sum(
    weights: dict[str, float], bounds: dict[str, float], chosen: int | None
) -> None:
    assert constrained_choice(COLUMNS, weights, bounds) == chosen


def test_a_bound_reaches_a_placement_that_no_weights_return() -> None:
    losses = FRONT * (1.0, -1.0, 1.0) + (0.0, 1.0, 0.0)
    assert supporting(losses, 1) is None
    assert constrained_choice(COLUMNS, EQUAL, {"P": 0.7, "D": 0.3}) == 1


def test_the_broken_bounds_of_a_placement_are_named() -> None:
    values = {"P": 0.2, "D": 0.2, "C": 0.5, "M": 0.0}
    assert broken_bounds(values, {"D": 0.5, "P": 0.3, "C": 0.4, "M": 0.1}) == ["D", "C"]


def test_picks_outside_the_bounds_are_named_with_the_bound_they_break() -> None:
    warnings = list(bound_warnings(COLUMNS, [0, 1, 2], {"D": 0.3, "P": 0.7}))
    assert warnings == [
        "Placement 0 is outside your bounds (diversity at least 0.30).",
        "Placement 2 is outside your bounds (power at most 0.70).",
    ]


def test_bounds_that_no_placement_keeps_give_one_warning() -> None:
    assert list(bound_warnings(COLUMNS, [0, 1], {"C": 0.25})) == [
        "No placement of this front keeps your bounds: crossing traffic at most 0.25."
    ]


def test_unknown_and_infinite_bounds_are_reported() -> None:
    found = [(x.pointer, x.code) for x in invalid_bounds({"Q": 1.0, "P": np.inf, "D": 0.5})]
    assert found == [("/bounds/Q", "unknown"), ("/bounds/P", "not_finite")]


def test_bounds_may_use_every_registered_objective() -> None:
    picks = {screen: [0, 1, 2] for screen in ("P-D", "P-C", "D-C")}
    picking = PreferenceInput("spread", picks, bounds={"M": 0.25}, others=("M", "money"))
    bounded = derive(FRONT, picking, others={"M": COLUMNS["M"]})
    assert "Placement 1 is outside your bounds (M at most 0.25)." in bounded.warnings
    assert not [*invalid_bounds({"money": 1.0}, ("P", "D", "C", "money"))]


def test_the_derivation_names_picks_outside_the_bounds() -> None:
    picks = {screen: [0, 1, 2] for screen in ("P-D", "P-C", "D-C")}
    free = derive(FRONT, PreferenceInput("spread", picks))
    bounded = derive(FRONT, PreferenceInput("spread", picks, bounds={"D": 0.3}))
    assert bounded.weights == free.weights  # every pick still tells which objectives matter
    assert set(bounded.warnings) - set(free.warnings) == {
        "Placement 0 is outside your bounds (diversity at least 0.30)."
    }
