"""Weights from picks: by spread, by a reference point, direct."""

import numpy as np
import pytest

from apps.inventory.core.snapshot import Floats
from apps.placement.core.weights import (
    FLOOR,
    SCREENS,
    by_reference,
    by_spread,
    direct,
    leave_one_out,
    picked,
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
    chosen = picked({PD: [0, 1, 2], PC: [2, 3, 4], DC: [0, 3, 4]}, front.shape[0])
    assert chosen.tolist() == [0, 1, 2, 3, 4]
    found = by_spread(front, chosen)
    assert {name: round(weight, 2) for name, weight in found.weights.items()} == {
        "P": 0.22,
        "D": 1.0,
        "C": 0.36,
    }
    assert found.spread["P"] == pytest.approx(0.1 * np.sqrt(2.5))
    assert found.floored == ()
    assert found.idle == ()


def test_a_placement_picked_on_two_screens_counts_once() -> None:
    picks = {PD: [5, 1, 1, 3], PC: [1, 3, 5], DC: [3, 5, 7]}
    assert picked(picks, 8).tolist() == [1, 3, 5, 7]


@pytest.mark.parametrize(
    ("picks", "words"),
    [
        ({}, "pick at least 3 .*P-D has 0, P-C has 0, D-C has 0"),
        ({PD: [0, 1, 1], PC: [0, 1, 2], DC: [0, 1, 2]}, "each screen: P-D has 2$"),
        ({PD: [0, 1, 9], PC: [0, 1, 2], DC: [0, 1, 2]}, "pick 9 on P-D .* 9 points"),
        ({PD: [0, 1, -1], PC: [0, 1, 2], DC: [0, 1, 2]}, "pick -1 on P-D"),
        ({("P", "Q"): [0, 1, 2]}, "no screen P-Q: there are P-D, P-C, D-C"),
    ],
)
def test_picks_that_cannot_stand_say_where(
    picks: dict[tuple[str, str], list[int]], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        picked(picks, 9)


def test_an_objective_that_all_picks_agree_on_weighs_most_and_is_floored() -> None:
    front = np.array([[0.5, 0.9, 0.1], [0.6, 0.9, 0.2], [0.7, 0.9, 0.3], [0.7, 0.1, 0.0]])
    found = by_spread(front, np.arange(3))
    assert found.weights == pytest.approx({"P": FLOOR / 0.1, "D": 1.0, "C": FLOOR / 0.1})
    assert found.floored == ("D",)
    assert found.spread["D"] == pytest.approx(0.0)


def test_equal_picks_weigh_all_the_same() -> None:
    front = np.array([[0.5, 0.9, 0.1]] * 3 + [[0.6, 1.0, 0.2]])
    found = by_spread(front, np.arange(3))
    assert found.weights == {"P": 1.0, "D": 1.0, "C": 1.0}
    assert found.floored == ("P", "D", "C")


def test_an_objective_that_nothing_can_change_does_not_dwarf_the_others() -> None:
    front = np.array([[0.5, 0.9, 0.0], [0.6, 0.8, 0.0], [0.9, 0.7, 0.0]])
    found = by_spread(front, np.arange(3))
    assert found.idle == ("C",)
    assert found.floored == ()
    assert found.weights["D"] == 1.0
    assert found.weights["C"] == 1.0
    assert found.weights["P"] == pytest.approx(0.1 / np.std([0.5, 0.6, 0.9], ddof=1))


def test_a_front_of_equal_points_weighs_all_the_same() -> None:
    found = by_spread(np.full((4, 3), 0.5), np.arange(4))
    assert found.weights == {"P": 1.0, "D": 1.0, "C": 1.0}


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
    found = leave_one_out(front, np.arange(4))
    assert found.shape == (4, 3)
    assert found[3].tolist() == pytest.approx([0.1, 1.0, 0.1])
    assert found[0, 1] < 0.2


def test_what_is_wanted_near_the_best_weighs_most() -> None:
    front = np.array([[0.5, 0.2, 0.1], [0.9, 1.0, 0.4]])
    found = by_reference(front, {"P": 0.9, "D": 0.9, "C": 0.3})
    assert found.weights == pytest.approx({"P": 0.25, "D": 1.0, "C": 0.5})
    assert found.spread == pytest.approx({"P": 0.4, "D": 0.1, "C": 0.2})


def test_what_is_wanted_beyond_the_best_is_wanted_at_the_best() -> None:
    front = np.array([[0.5, 0.2, 0.1], [0.9, 1.0, 0.4]])
    found = by_reference(front, {"P": 0.1, "D": 0.9, "C": 0.3})
    assert found.floored == ("P",)
    assert found.weights == pytest.approx({"P": 1.0, "D": 0.1, "C": 0.05})


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ({"P": 0.5, "D": 0.5}, "C is missing"),
        ({"P": 0.5, "D": 0.5, "C": 0.5, "E": 1.0}, "no objective 'E'"),
        ({"P": 0.5, "D": float("nan"), "C": 0.5}, "wanted must be finite"),
    ],
)
def test_a_reference_that_cannot_stand_is_refused(wanted: dict[str, float], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        by_reference(paper_front(), wanted)


def test_a_reference_needs_a_front() -> None:
    with pytest.raises(ValueError, match="front has no points"):
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
