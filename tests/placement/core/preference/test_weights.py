"""Weights from picks: by spread, by a reference point, direct."""

import numpy as np
import pytest

from apps.inventory.core.snapshot import Floats
from apps.placement.core.preference.derivation import SPREAD, PreferenceInput
from apps.placement.core.preference.weights import (
    SCREENS,
    SPREAD_FLOOR,
    by_reference,
    by_spread,
    direct,
    leave_one_out,
)

PD, PC, DC = SCREENS


def paper_front() -> Floats:
    """As in figure 4: picks 0-4 span power, agree on contention, and vary in communication."""
    steps = np.array([-2.0, -1.0, 0.0, 1.0, 2.0])
    power = 0.5 + 0.1 * steps
    contention = 0.9 + 0.1 * 0.22 * steps[[2, 0, 4, 1, 3]]
    communication = 0.2 + 0.1 * (0.22 / 0.36) * steps[[1, 2, 0, 4, 3]]
    chosen = np.stack([power, contention, communication], axis=1)
    avoided = np.array([[0.3, 0.2, 0.0], [0.75, 1.0, 0.9], [0.5, 0.5, 0.05]])
    return np.concatenate([chosen, avoided])


def test_the_papers_own_picks_give_its_weights() -> None:
    front = paper_front()
    picks = {"P-D": [0, 1, 2], "P-C": [2, 3, 4], "D-C": [0, 3, 4]}
    result = by_spread(front, np.array(PreferenceInput(SPREAD, picks).distinct()))
    assert {name: round(weight, 2) for name, weight in result.weights.items()} == {
        "P": 0.22,
        "D": 1.0,
        "C": 0.36,
    }
    assert result.spread["P"] == pytest.approx(0.1 * np.sqrt(2.5))
    assert result.floored == ()
    assert result.idle == ()


def test_a_placement_picked_on_two_screens_counts_once() -> None:
    picks = {"P-D": [5, 1, 1, 3], "P-C": [1, 3, 5], "D-C": [3, 5, 7]}
    assert PreferenceInput(SPREAD, picks).distinct() == [1, 3, 5, 7]


def test_an_objective_that_all_picks_agree_on_weighs_most_and_is_floored() -> None:
    front = np.array([[0.5, 0.9, 0.1], [0.6, 0.9, 0.2], [0.7, 0.9, 0.3], [0.7, 0.1, 0.0]])
    result = by_spread(front, np.arange(3))
    assert result.weights == pytest.approx(
        {"P": SPREAD_FLOOR / 0.1, "D": 1.0, "C": SPREAD_FLOOR / 0.1}
    )
    assert result.floored == ("D",)
    assert result.spread["D"] == pytest.approx(0.0)


def test_equal_picks_weigh_all_the_same() -> None:
    front = np.array([[0.5, 0.9, 0.1]] * 3 + [[0.6, 1.0, 0.2]])
    result = by_spread(front, np.arange(3))
    assert result.weights == {"P": 1.0, "D": 1.0, "C": 1.0}
    assert result.floored == ("P", "D", "C")


def test_an_objective_that_nothing_can_change_does_not_dwarf_the_others() -> None:
    front = np.array([[0.5, 0.9, 0.0], [0.6, 0.8, 0.0], [0.9, 0.7, 0.0]])
    result = by_spread(front, np.arange(3))
    assert result.idle == ("C",)
    assert result.floored == ()
    assert result.weights["D"] == 1.0
    assert result.weights["C"] == 1.0
    assert result.weights["P"] == pytest.approx(0.1 / np.std([0.5, 0.6, 0.9], ddof=1))


def test_a_front_of_equal_points_weighs_all_the_same() -> None:
    result = by_spread(np.full((4, 3), 0.5), np.arange(4))
    assert result.weights == {"P": 1.0, "D": 1.0, "C": 1.0}


def test_two_picks_are_too_few() -> None:
    with pytest.raises(ValueError, match="at least 3 different placements, not 2"):
        by_spread(paper_front(), np.arange(2))


def test_values_that_are_not_finite_are_refused() -> None:
    front = paper_front()
    front[1, 1] = np.nan
    with pytest.raises(ValueError, match="front must be finite"):
        by_spread(front, np.arange(3))


def test_each_pick_shows_what_it_decides() -> None:
    front = np.array([[0.5, 0.9, 0.1], [0.6, 0.9, 0.2], [0.7, 0.9, 0.3], [0.6, 0.1, 0.2]])
    result = leave_one_out(front, np.arange(4))
    assert result.shape == (4, 3)
    assert result[3].tolist() == pytest.approx([0.1, 1.0, 0.1])
    assert result[0, 1] < 0.2


def test_what_is_wanted_near_the_best_weighs_most() -> None:
    front = np.array([[0.5, 0.2, 0.1], [0.9, 1.0, 0.4]])
    result = by_reference(front, {"P": 0.9, "D": 0.9, "C": 0.3})
    assert result.weights == pytest.approx({"P": 0.25, "D": 1.0, "C": 0.5})
    assert result.spread == pytest.approx({"P": 0.4, "D": 0.1, "C": 0.2})


def test_what_is_wanted_beyond_the_best_is_wanted_at_the_best() -> None:
    front = np.array([[0.5, 0.2, 0.1], [0.9, 1.0, 0.4]])
    result = by_reference(front, {"P": 0.1, "D": 0.9, "C": 0.3})
    assert result.floored == ("P",)
    assert result.weights == pytest.approx({"P": 1.0, "D": 0.1, "C": 0.05})


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        ({"P": 0.5, "D": 0.5}, "C is missing"),
        ({"P": 0.5, "D": 0.5, "C": 0.5, "E": 1.0}, "no objective 'E'"),
        ({"P": 0.5, "D": float("nan"), "C": 0.5}, "target must be finite"),
    ],
)
def test_a_reference_that_cannot_stand_is_refused(reference: dict[str, float], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        by_reference(paper_front(), reference)


def test_a_reference_needs_a_front() -> None:
    with pytest.raises(ValueError, match="front must have at least one point"):
        by_reference(np.empty((0, 3)), {"P": 0.5, "D": 0.5, "C": 0.5})


def test_direct_weights_are_scaled_to_the_largest() -> None:
    assert direct({"P": 1.0, "D": 4.0, "C": 0.0}).weights == {"P": 0.25, "D": 1.0, "C": 0.0}


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        ({"P": 0.0, "D": 0.0, "C": 0.0}, "at least one weight must be above 0"),
        ({"P": -1.0, "D": 0.0, "C": 1.0}, "weight of P must be finite and at least 0, not -1"),
        ({"P": float("inf"), "D": 0.0, "C": 1.0}, "weight of P must be finite"),
        ({"P": 1.0}, "D is missing"),
    ],
)
def test_direct_weights_that_cannot_stand_are_refused(
    weights: dict[str, float], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        direct(weights)
