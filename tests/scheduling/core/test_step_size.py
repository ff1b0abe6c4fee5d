"""Sizes of steps."""

from apps.scheduling.core.step_size import StepSize


def sizes(*steps: tuple[int, float]) -> list[int]:
    """The size after each step of a number of items and a duration."""
    size = StepSize(smallest=10, largest=80)
    after = [size.current]
    for items, elapsed_s in steps:
        size.record(items, elapsed_s, target_s=1.0)
        after.append(size.current)
    return after


def test_a_long_step_halves_the_size_down_to_the_smallest() -> None:
    assert sizes((80, 1.1), (40, 9.0), (20, 1.1), (10, 1.1)) == [80, 40, 20, 10, 10]


def test_a_quick_full_step_doubles_the_size_up_to_the_largest() -> None:
    assert sizes((80, 2.0), (40, 0.4), (80, 0.1)) == [80, 40, 80, 80]


def test_a_step_near_the_target_keeps_the_size() -> None:
    assert sizes((80, 2.0), (40, 0.6), (40, 1.0)) == [80, 40, 40, 40]


def test_a_quick_step_that_was_not_full_does_not_grow() -> None:
    assert sizes((80, 2.0), (39, 0.1)) == [80, 40, 40]


def test_an_empty_step_is_ignored() -> None:
    assert sizes((0, 9.0)) == [80, 80]
