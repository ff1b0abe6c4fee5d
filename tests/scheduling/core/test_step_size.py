"""Sizes of steps."""

from collections.abc import Callable
from itertools import pairwise

import pytest

from apps.scheduling.core.step_size import StepSize


def sizes(*steps: tuple[int, float]) -> list[int]:
    """The size after each step of a number of items and a duration."""
    size = StepSize(smallest=10, largest=80)
    after = [size.current]
    for items, elapsed_s in steps:
        size.record(items, elapsed_s, target_s=1.0)
        after.append(size.current)
    return after


def settled(time_s: Callable[[int], float], *, target_s: float = 0.1) -> StepSize:
    """The size after fifty full steps that take what a function of their items says."""
    size = StepSize(smallest=16, largest=1024)
    for _ in range(50):
        size.record(size.current, time_s(size.current), target_s=target_s)
    return size


def test_a_long_step_shrinks_the_size_to_half_at_most_and_not_below_the_smallest() -> None:
    assert sizes((80, 9.0), (40, 4.5), (20, 2.25), (10, 1.125)) == [80, 40, 20, 10, 10]


def test_the_first_step_may_be_smaller_than_the_largest() -> None:
    size = StepSize(smallest=10, largest=80, first=20)
    assert size.current == 20
    size.record(20, 0.01, target_s=1.0)
    assert size.current == 40


def test_the_size_after_one_step_is_what_fits_into_the_target() -> None:
    assert sizes((80, 1.25)) == [80, 64]


def test_quick_full_steps_double_the_size_at_most_up_to_the_largest() -> None:
    size = settled(lambda n: 0.01 * n)
    assert size.current == 16
    after = [size.current]
    for _ in range(40):
        size.record(size.current, 1e-6 * size.current, target_s=0.1)
        after.append(size.current)
    assert all(big <= 2 * small for small, big in pairwise(after))
    assert after[-1] == 1024


def test_a_quick_step_that_was_not_full_does_not_grow() -> None:
    assert sizes((80, 2.0), (39, 0.1)) == [80, 40, 40]


def test_an_empty_step_is_ignored() -> None:
    assert sizes((0, 9.0)) == [80, 80]


def test_without_fixed_time_the_step_takes_the_target() -> None:
    size = settled(lambda items: 0.001 * items)
    assert 90 <= size.current <= 100
    assert size.fixed_s == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize(
    ("fixed_s", "items"), [(0.02, 80), (0.05, 50), (0.25, 250)], ids=["short", "half", "long"]
)
def test_the_fixed_time_is_told_from_that_of_the_items(fixed_s: float, items: int) -> None:
    # 1 ms an item: 0.1 s less the fixed time, or as long as the fixed time
    size = settled(lambda n: fixed_s + 0.001 * n)
    assert size.fixed_s == pytest.approx(fixed_s, rel=0.05)
    assert size.current == pytest.approx(items, rel=0.05)


def test_steps_that_become_slow_shrink_although_they_were_quick_before() -> None:
    size = settled(lambda n: 0.05 + 0.001 * n)
    for _ in range(20):
        size.record(size.current, 0.05 + 0.01 * size.current, target_s=0.1)
    assert size.current == 16


def test_steps_that_are_all_fixed_time_grow_to_the_largest() -> None:
    assert settled(lambda _: 0.25).current == 1024
