"""Sia's program: hand-computed cases, and all assignments of small cases."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.testbed.core.accelerators.goodput import (
    best_assignment,
    gains,
    goodputs,
    restart_factor,
)
from apps.testbed.core.accelerators.jobs import NONE, Assignment, RoundState
from apps.testbed.core.accelerators.policies import Goodput
from apps.testbed.core.traces import Floats, Ints
from tests.testbed.core.accelerators.states import COUNTS, state

TWO = [[4.0, 1.0], [2.0, 1.0]]  # jobs x types


def chosen(of: RoundState, policy: Goodput) -> list[tuple[int, int]]:
    found = policy.assign(of)
    return list(zip(found.types.tolist(), found.counts.tolist(), strict=True))


def test_a_restart_costs_more_the_more_often_and_the_sooner_a_job_restarts() -> None:
    ages, restarts = np.array([600.0, 600.0, 59.0, 60.0, 100.0]), np.array([0, 2, 0, 0, 5])
    expected = [600 / 660, 480 / 660, 1.0, 60 / 120, 0.0]
    assert restart_factor(ages, restarts, 60.0) == pytest.approx(expected)


def test_goodput_is_relative_to_the_lowest_and_counts_its_accelerators() -> None:
    of = state([[[3.0, 0.0, 9.0], [0.0, 1.5, 2.0]]], [4, 4])
    # lowest speed 1.5, smallest number 1
    assert goodputs(of, is_adaptive=True)[0].tolist() == [
        [2.0, 0.0, 6.0],
        pytest.approx([0.0, 1.0, 4 / 3]),
    ]


def test_a_rigid_job_has_the_goodput_of_the_requested_number_only() -> None:
    of = state([[[3.0, 5.0, 9.0], [1.0, 2.5, 2.0]]], [4, 4], count=[2])
    assert goodputs(of, is_adaptive=False)[0].tolist() == [[0.0, 4.0, 0.0], [0.0, 2.0, 0.0]]


def test_numbers_beyond_the_accelerators_are_not_possible() -> None:
    of = state([[[1.0, 2.0, 4.0]]], [3])
    assert goodputs(of, is_adaptive=True)[0].tolist() == [[1.0, 2.0, 0.0]]


def test_all_but_the_configuration_of_the_last_round_are_reduced() -> None:
    of = state([[[1.0, 2.0, 0.0], [2.0, 4.0, 0.0]]], [4, 4], on=[(1, 1)], age_s=540.0)
    assert goodputs(of, is_adaptive=True)[0].tolist() == [
        pytest.approx([0.9, 1.8, 0.0]),
        pytest.approx([2.0, 3.6, 0.0]),
    ]


@pytest.mark.parametrize("power", [-0.5, 1.0])
def test_the_job_that_gains_most_gets_the_fast_type(power: float) -> None:
    # 4 + 1 > 1 + 2, and 0.5 + 1 < 1 + 0.71
    assert chosen(state(TWO, [1, 1]), Goodput(power)) == [(0, 1), (1, 1)]


@pytest.mark.parametrize(("age_s", "expected"), [(60.0, [1, 0]), (6000.0, [0, 1])])
def test_jobs_exchange_their_types_only_if_that_pays_for_the_restarts(
    age_s: float, expected: list[int]
) -> None:
    # r = 1/2: 2 + 0.5 < 1 + 2; r = 0.99: 3.96 + 0.99 > 3
    of = state(TWO, [1, 1], on=[(1, 1), (0, 1)], age_s=age_s)
    assert [on for on, _ in chosen(of, Goodput(1.0))] == expected


def test_jobs_share_accelerators_by_what_more_of_them_bring() -> None:
    # 2 / sqrt(1.9) < 1 + 1 / sqrt(1.9): both get two of four
    rows = [[[1.0, 1.9, 3.6]], [[1.0, 1.9, 3.6]]]
    assert chosen(state(rows, [4]), Goodput()) == [(0, 2), (0, 2)]
    assert chosen(state(rows[:1], [4]), Goodput()) == [(0, 4)]


def test_a_job_waits_only_for_want_of_accelerators() -> None:
    assert sorted(chosen(state([[1.0]] * 3, [2]), Goodput())) == [(NONE, 0), (0, 1), (0, 1)]


def test_no_possible_configuration_assigns_nothing() -> None:
    found = best_assignment(np.full((2, 1, 3), -np.inf), COUNTS, np.array([4]))
    assert (found.types.tolist(), found.counts.tolist()) == ([NONE, NONE], [0, 0])


def total(gain: Floats, found: Assignment) -> float:
    runs = np.flatnonzero(found.types != NONE)
    option = np.searchsorted(COUNTS, found.counts[runs])
    return float(gain[runs, found.types[runs], option].sum())


def best_of_all(gain: Floats, available: Ints) -> float:
    """Try every assignment."""
    options = [None, *product(range(gain.shape[1]), range(gain.shape[2]))]
    best = 0.0
    for each in product(options, repeat=gain.shape[0]):
        used, value = np.zeros_like(available), 0.0
        for job, option in enumerate(each):
            if option is not None:
                used[option[0]] += COUNTS[option[1]]
                value += gain[job, *option]
        if (used <= available).all():
            best = max(best, float(value))
    return best


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 3).flatmap(
        lambda n: st.lists(
            st.lists(st.integers(0, 9), min_size=6, max_size=6).filter(any),
            min_size=n,
            max_size=n,
        )
    ),
    st.tuples(st.integers(0, 5), st.integers(1, 5)),
    st.sampled_from([-0.5, 1.0]),
)
def test_no_assignment_has_a_larger_goodput(
    speed: list[list[int]], available: tuple[int, int], power: float
) -> None:
    of = state(np.array(speed, dtype=np.float64).reshape(-1, 2, 3).tolist(), available)
    gain = gains(goodputs(of, is_adaptive=True), power, 1.1)
    found = best_assignment(gain, COUNTS, of.available)
    assert total(gain, found) == pytest.approx(best_of_all(gain, of.available), rel=1e-4)
