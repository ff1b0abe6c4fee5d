"""Which chip each container of a node is pinned to."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.placement.core.chips import deal, taz_pairs


def test_two_tazes_of_a_node_are_on_different_chips() -> None:
    chip = deal(
        np.array([0.9, 0.1, 0.8, 0.2]), np.array([True, False, True, False]), np.full(2, 2)
    )
    assert chip[0] != chip[2]
    assert sorted(chip.tolist()) == [0, 0, 1, 1]


def test_the_calmest_turtle_is_beside_the_fiercest_taz() -> None:
    intensity = np.array([1.0, 0.6, 0.3, 0.0])
    chip = deal(intensity, np.array([True, True, False, False]), np.full(2, 2))
    assert chip[0] == chip[3]
    assert chip[1] == chip[2]


def test_tazes_are_counted_before_they_are_weighed() -> None:
    is_taz = np.ones(4, dtype=np.bool_)
    assert taz_pairs(deal(np.array([1.0, 0.3, 0.3, 0.3]), is_taz, np.full(2, 3)), is_taz) == 2


def test_what_is_well_placed_stays() -> None:
    current = np.array([1, 0, 0, 1])
    is_taz = np.array([True, True, False, False])
    assert deal(np.array([0.9, 0.9, 0.2, 0.2]), is_taz, np.full(2, 2), current).tolist() == [
        1,
        0,
        0,
        1,
    ]


def test_a_chip_without_room_gets_none() -> None:
    chip = deal(np.array([0.9, 0.8, 0.7]), np.ones(3, dtype=np.bool_), np.array([0, 3]))
    assert chip.tolist() == [1, 1, 1]


def test_too_little_room_is_refused() -> None:
    with pytest.raises(ValueError, match="room must be at least 3 in all, got 2"):
        deal(np.zeros(3), np.zeros(3, dtype=np.bool_), np.array([1, 1]))


def test_lengths_that_disagree_are_refused() -> None:
    with pytest.raises(ValueError, match="must have 3 entries"):
        deal(np.zeros(3), np.zeros(2, dtype=np.bool_), np.array([2, 2]))


@given(st.integers(0, 10_000))
def test_no_other_dealing_has_fewer_tazes_together(seed: int) -> None:
    rng = np.random.default_rng(seed)
    k = int(rng.integers(1, 6))
    room = rng.integers(0, 4, size=3)
    room[0] += max(0, k - int(room.sum()))
    is_taz, intensity = rng.random(k) < 0.6, rng.random(k)
    chip = deal(intensity, is_taz, room, rng.integers(-1, 3, size=k))
    assert (np.bincount(chip, minlength=3) <= room).all()
    every = [np.array(one) for one in product(range(3), repeat=k)]
    allowed = [one for one in every if (np.bincount(one, minlength=3) <= room).all()]
    assert taz_pairs(chip, is_taz) == min(taz_pairs(one, is_taz) for one in allowed)
