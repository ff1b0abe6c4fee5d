"""Free units by part of a server, ordered by their number."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from apps.scheduling.core.starts.parts import (
    Parts,
    add_units,
    count_with,
    nth_with,
    part_of_unit,
    sorted_parts,
    units_with,
)

MOST, POOLS = 4, 3


def parts_of(pool: list[int], free: list[int]) -> Parts:
    return sorted_parts(np.array(pool), np.array(free), POOLS, MOST)


def check(parts: Parts, pool: list[int], free: list[int]) -> None:
    """Compare with plain lists."""
    assert parts.free.tolist() == free
    assert parts.order[parts.place].tolist() == list(range(len(free)))
    for number in range(POOLS):
        own = [i for i, of in enumerate(pool) if of == number]
        for units in range(MOST + 3):
            fitting = [i for i in own if free[i] >= units]
            count = count_with(parts, number, units)
            assert count == len(fitting)
            assert sorted(nth_with(parts, number, units, n) for n in range(count)) == fitting
            assert units_with(parts, number, units) == sum(free[i] for i in fitting)
        units = sum(free[i] for i in own)
        found = [part_of_unit(parts, number, n) for n in range(units)]
        assert sorted(found) == [i for i in own for _ in range(free[i])]


@given(
    st.lists(st.tuples(st.integers(0, POOLS - 1), st.integers(0, MOST)), min_size=1, max_size=9),
    st.lists(st.tuples(st.integers(0, 8), st.integers(0, MOST)), max_size=12),
)
def test_parts_stay_ordered_when_units_are_taken_and_freed(
    rows: list[tuple[int, int]], changes: list[tuple[int, int]]
) -> None:
    pool, free = [list(column) for column in zip(*rows, strict=True)]
    parts = parts_of(pool, free)
    check(parts, pool, free)
    for number, units in changes:
        part = number % len(free)
        add_units(parts, part, units - free[part])
        free[part] = units
        check(parts, pool, free)


def test_a_copy_leaves_the_parts_as_they_are() -> None:
    parts = parts_of([0, 0], [1, 2])
    add_units(parts.copy(), 0, 2)
    check(parts, [0, 0], [1, 2])
