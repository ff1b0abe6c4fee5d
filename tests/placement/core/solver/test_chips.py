"""Assignment of the containers of a node to its chips."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.placement.core.solver.chips import assign_chips, taz_pairs


def test_two_tazes_of_a_node_are_on_different_chips() -> None:
    chip = assign_chips(
        np.array([0.9, 0.1, 0.8, 0.2]), np.array([True, False, True, False]), np.full(2, 2)
    )
    assert chip[0] != chip[2]
    assert sorted(chip.tolist()) == [0, 0, 1, 1]


def test_the_least_intense_turtle_shares_a_chip_with_the_most_intense_taz() -> None:
    intensity = np.array([1.0, 0.6, 0.3, 0.0])
    chip = assign_chips(intensity, np.array([True, True, False, False]), np.full(2, 2))
    assert chip[0] == chip[3]
    assert chip[1] == chip[2]


def test_the_number_of_tazes_on_a_chip_matters_more_than_their_intensity() -> None:
    is_taz = np.ones(4, dtype=np.bool_)
    assert (
        taz_pairs(assign_chips(np.array([1.0, 0.3, 0.3, 0.3]), is_taz, np.full(2, 3)), is_taz) == 2
    )


def test_an_optimal_assignment_does_not_change() -> None:
    current = np.array([1, 0, 0, 1])
    is_taz = np.array([True, True, False, False])
    assert assign_chips(
        np.array([0.9, 0.9, 0.2, 0.2]), is_taz, np.full(2, 2), current
    ).tolist() == [
        1,
        0,
        0,
        1,
    ]


def test_a_full_chip_gets_no_container() -> None:
    chip = assign_chips(np.array([0.9, 0.8, 0.7]), np.ones(3, dtype=np.bool_), np.array([0, 3]))
    assert chip.tolist() == [1, 1, 1]


def test_too_few_free_places_are_refused() -> None:
    with pytest.raises(ValueError, match="room must be at least 3 in total, got 2"):
        assign_chips(np.zeros(3), np.zeros(3, dtype=np.bool_), np.array([1, 1]))


def test_arrays_of_different_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="must have 3 entries"):
        assign_chips(np.zeros(3), np.zeros(2, dtype=np.bool_), np.array([2, 2]))


@given(st.integers(0, 10_000))
def test_no_other_assignment_has_fewer_tazes_on_a_chip(seed: int) -> None:
    rng = np.random.default_rng(seed)
    k = int(rng.integers(1, 6))
    room = rng.integers(0, 4, size=3)
    room[0] += max(0, k - int(room.sum()))
    is_taz, intensity = rng.random(k) < 0.6, rng.random(k)
    chip = assign_chips(intensity, is_taz, room, rng.integers(-1, 3, size=k))
    assert (np.bincount(chip, minlength=3) <= room).all()
    every = [np.array(counts) for counts in product(range(3), repeat=k)]
    allowed = [counts for counts in every if (np.bincount(counts, minlength=3) <= room).all()]
    assert taz_pairs(chip, is_taz) == min(taz_pairs(counts, is_taz) for counts in allowed)
