"""Which points weighted sums return, against exact arithmetic."""

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from apps.placement.core.preference.support import MIN_WEIGHT, TOLERANCE, supporting, unsupported

Row = tuple[Fraction, Fraction, Fraction]
SMALL = Fraction(1, 10_000)


def candidates(rows: list[Row]) -> list[Row]:
    """Weights at the crossings of the lines that divide the triangle, its sides included."""
    sides = [tuple(int(i == k) - SMALL for i in range(3)) for k in range(3)]
    supported = []
    for a, b in combinations([*sides, *rows], 2):
        cross = (a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0])
        total = sum(cross)
        if total:
            supported.append((cross[0] / total, cross[1] / total, cross[2] / total))
    return supported


def is_supported(points: list[tuple[int, int, int]], point: int) -> bool:
    """Decide it exactly: it suffices to check the crossings of the lines."""
    mine = points[point]
    rows = [
        (Fraction(mine[0] - p[0]), Fraction(mine[1] - p[1]), Fraction(mine[2] - p[2]))
        for p in points
    ]

    def holds(w: Row) -> bool:
        within = all(x >= SMALL for x in w)
        return within and all(sum(x * y for x, y in zip(w, r, strict=True)) <= 0 for r in rows)

    return any(holds(weights) for weights in candidates(rows))


@pytest.mark.parametrize("seed", range(40))
def test_it_agrees_with_exact_arithmetic(seed: int) -> None:
    rng = np.random.default_rng(seed)
    drawn = np.unique(rng.integers(0, 9, (12, 3)), axis=0)
    points = [(int(a), int(b), int(c)) for a, b, c in drawn]
    expected = [i for i in range(len(points)) if not is_supported(points, i)]
    assert unsupported(drawn / 8.0, range(len(points))) == expected


@pytest.mark.parametrize("seed", range(40))
def test_points_of_a_plane_hold_by_a_hair(seed: int) -> None:
    rng = np.random.default_rng(seed)
    drawn = np.unique(rng.integers(0, 5, (14, 3)), axis=0)
    drawn = drawn[drawn.sum(axis=1) == 5] if (drawn.sum(axis=1) == 5).any() else drawn[:1]
    assert unsupported(drawn / 4.0, range(len(drawn))) == []


@pytest.mark.parametrize("seed", range(10))
def test_weights_that_are_returned_do_what_they_say(seed: int) -> None:
    losses = np.random.default_rng(seed).random((300, 3))
    point = int((losses @ (0.2, 0.5, 0.3)).argmin())
    weights = supporting(losses, point)
    assert weights is not None
    assert weights.min() >= MIN_WEIGHT - 1e-12
    assert weights.sum() == pytest.approx(1.0)
    assert losses[point] @ weights <= (losses @ weights).min() + 3 * TOLERANCE


def test_a_dent_is_not_supported_and_a_bulge_is() -> None:
    line = np.array([[0.0, 1.0, 0.5], [0.6, 0.6, 0.5], [1.0, 0.0, 0.5]])
    assert unsupported(line, [0, 1, 2]) == [1]
    line[1] = (0.4, 0.4, 0.5)
    assert unsupported(line, [2, 1, 0]) == []


def test_a_dent_as_deep_as_rounding_is_none() -> None:
    line = np.array([[0.0, 1.0, 0.5], [0.5 + 1e-9, 0.5 + 1e-9, 0.5], [1.0, 0.0, 0.5]])
    assert unsupported(line, [1]) == []
    line[1, :2] += 1e-5
    assert unsupported(line, [1]) == [1]


def test_a_dominated_point_is_not_supported() -> None:
    assert unsupported(np.array([[0.1, 0.1, 0.1], [0.2, 0.2, 0.2]]), [0, 1]) == [1]


def test_a_point_by_itself_is_supported() -> None:
    assert unsupported(np.array([[0.3, 0.3, 0.3]]), [0]) == []


def test_many_points_are_decided_quickly() -> None:
    rng = np.random.default_rng(0)
    sphere = np.abs(rng.standard_normal((2_000, 3)))
    sphere = 1.0 - sphere / np.linalg.norm(sphere, axis=1)[:, None]  # all in one convex bulge
    assert unsupported(sphere, range(0, 2_000, 100)) == []
    assert len(unsupported(1.0 - sphere, range(0, 2_000, 100))) >= 17  # all but corners: a dent
