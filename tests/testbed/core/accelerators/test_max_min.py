"""Max-min fair time shares: hand-computed cases, limits, and all shares of a grid."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.testbed.core.accelerators.max_min import (
    equal_parts,
    max_min_shares,
    relative_speed,
)
from apps.testbed.core.traces import Floats, Ints

ONE = np.ones(3, dtype=np.int64)


def shares(
    speed: list[list[float]], available: list[int], count: list[int] | None = None
) -> Floats:
    counts = np.ones(len(speed), dtype=np.int64) if count is None else np.array(count)
    return max_min_shares(np.array(speed, dtype=np.float64), counts, np.array(available))


def test_the_example_of_the_paper_has_its_shares() -> None:
    # Gavel §4.1 prints 0.45, 0; 0.45, 0.09; 0.09, 0.91 for a V100 and a K80
    found = shares([[40, 10], [12, 4], [100, 50]], [1, 1])
    assert found * 11 == pytest.approx(np.array([[5, 0], [5, 1], [1, 10]]), abs=1e-4)


def test_two_jobs_on_two_types_are_equally_far_above_an_equal_division() -> None:
    # relative speeds (2, 1/2) and (3/2, 3/4): 1/2 + 3/2 a = 3/2 - 3/4 a at a = 4/9
    speed = np.array([[4.0, 1.0], [2.0, 1.0]])
    found = shares(speed.tolist(), [1, 2])
    assert found * 9 == pytest.approx(np.array([[4, 5], [5, 4]]), abs=1e-4)
    worth = relative_speed(speed, ONE[:2], np.array([1, 2]))
    assert (worth * found).sum(axis=1) == pytest.approx([7 / 6, 7 / 6])


def test_a_job_at_its_limit_does_not_hold_the_others_back() -> None:
    found = shares([[1, 1], [4, 1]], [1, 1])
    assert found == pytest.approx(np.array([[0, 1], [1, 0]]), abs=1e-5)


def test_jobs_of_many_accelerators_get_as_many_accelerator_seconds() -> None:
    # 8 a + b = 8; b cannot exceed 1
    assert shares([[1], [1]], [8], [8, 1]) == pytest.approx(np.array([[7 / 8], [1]]), abs=1e-5)
    assert shares([[1], [1], [1]], [8], [8, 4, 4]) * 24 == pytest.approx(
        np.array([[8], [16], [16]]), abs=1e-4
    )


def test_a_weight_of_two_gives_twice_the_share() -> None:
    found = max_min_shares(np.ones((2, 1)), ONE[:2], np.array([1]), np.array([2.0, 1.0]))
    assert found == pytest.approx(np.array([[2 / 3], [1 / 3]]), abs=1e-5)


def test_a_job_has_no_share_of_a_type_on_which_it_cannot_run() -> None:
    found = shares([[0, 2], [5, 2]], [1, 1])
    assert found[0, 0] == 0.0
    assert found == pytest.approx(np.array([[0, 1], [1, 0]]), abs=1e-5)


def test_no_jobs_have_no_shares() -> None:
    assert max_min_shares(np.zeros((0, 2)), ONE[:0], np.array([1, 1])).shape == (0, 2)
    assert equal_parts(ONE[:0], 4).size == 0


@pytest.mark.parametrize(
    ("count", "total", "expected"),
    [
        ([1, 1, 8], 8, [1, 1, 6 / 8]),
        ([1, 1, 1, 1], 2, [0.5] * 4),
        ([4, 2], 8, [1, 1]),
        ([8, 4], 2, [1 / 8, 1 / 4]),
    ],
)
def test_equal_parts_divide_the_accelerators(
    count: list[int], total: int, expected: list[float]
) -> None:
    assert equal_parts(np.array(count), total) == pytest.approx(expected)


@st.composite
def clusters(draw: st.DrawFn, jobs: int = 6, types: int = 3) -> tuple[Floats, Ints, Ints]:
    n, kinds = draw(st.integers(1, jobs)), draw(st.integers(1, types))
    available = draw(st.lists(st.integers(1, 8), min_size=kinds, max_size=kinds))
    rows = st.lists(st.floats(0.1, 10.0), min_size=kinds, max_size=kinds)
    speed = np.array(draw(st.lists(rows, min_size=n, max_size=n)))
    numbers = st.integers(1, min(available))
    count = np.array(draw(st.lists(numbers, min_size=n, max_size=n)))
    return speed, count, np.array(available)


@settings(max_examples=60, deadline=None)
@given(clusters())
def test_shares_respect_the_time_of_jobs_and_the_accelerators(
    case: tuple[Floats, Ints, Ints],
) -> None:
    speed, count, available = case
    found = max_min_shares(speed, count, available)
    assert (found >= 0.0).all()
    assert (found.sum(axis=1) <= 1.0 + 1e-9).all()
    assert (count @ found <= available + 1e-9).all()


@settings(max_examples=60, deadline=None)
@given(clusters())
def test_no_job_has_less_than_an_equal_division_gives(case: tuple[Floats, Ints, Ints]) -> None:
    speed, count, available = case
    worth = relative_speed(speed, count, available)
    division = equal_parts(count, int(available.sum()))[:, None] * available / available.sum()
    gets = (worth * max_min_shares(speed, count, available)).sum(axis=1)
    assert gets.min() >= (worth * division).sum(axis=1).min() - 1e-5


def on_grid(worth: Floats, count: Ints, available: Ints, parts: int) -> Floats:
    """Sorted relative speeds of all shares in multiples of 1/parts."""
    one = [(a, b) for a, b in product(range(parts + 1), repeat=2) if a + b <= parts]
    rows = np.array(one) / parts
    each = np.array(list(product(range(len(one)), repeat=worth.shape[0])))
    shares = rows[each]
    fits = (np.einsum("cnj,n->cj", shares, count) <= available + 1e-12).all(axis=1)
    return np.sort(np.einsum("cnj,nj->cn", shares[fits], worth), axis=1)


@settings(max_examples=40, deadline=None)
@given(
    st.integers(2, 3).flatmap(
        lambda n: st.tuples(
            st.lists(st.tuples(st.integers(1, 8), st.integers(1, 8)), min_size=n, max_size=n),
            st.lists(st.integers(1, 2), min_size=n, max_size=n),
        )
    ),
    st.tuples(st.integers(2, 3), st.integers(2, 3)),
)
def test_no_shares_of_a_grid_are_better_for_the_worst_job_or_then_for_the_next(
    jobs: tuple[list[tuple[int, int]], list[int]], available: tuple[int, int]
) -> None:
    speed, count = np.array(jobs[0], dtype=np.float64), np.array(jobs[1])
    worth = relative_speed(speed, count, np.array(available))
    ours = np.sort((worth * max_min_shares(speed, count, np.array(available))).sum(axis=1))
    others = on_grid(worth, count, np.array(available), 20 if count.size == 2 else 6)
    for place, value in enumerate(ours):  # among those that are as good until here
        assert others[:, place].max(initial=0.0) <= value + 1e-5
        others = others[others[:, place] >= value]
