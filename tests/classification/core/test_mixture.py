import numpy as np
import pytest

from apps.classification.core.estimators.mixture import components, condition
from apps.inventory.core.snapshot import Floats, Ints

RNG = np.random.default_rng(3)
CENTRE = RNG.normal(size=(25, 6))
ROOT = RNG.normal(size=(6, 6))
BENT = 0.2 * ROOT @ ROOT.T + 0.1 * np.eye(6)
WEIGHT = RNG.dirichlet(np.ones(25))
ROWS = RNG.normal(size=(9, 6))


def plain(tail: float, row: Floats, at: Ints, noise: Floats) -> tuple[Floats, Floats]:
    """The formula of the module `local`, written out for one row."""
    inverse = np.linalg.inv(BENT[np.ix_(at, at)] + np.diag(noise))
    away = row[at] - CENTRE[:, at]
    squared = np.einsum("nk,kl,nl->n", away, inverse, away)
    kernel = np.exp(-0.5 * squared)
    if np.isfinite(tail):
        kernel = (1.0 + squared / tail) ** (-0.5 * (tail + at.size))
    share = WEIGHT * kernel / (WEIGHT * kernel).sum()
    gain = BENT[:, at] @ inverse
    each = CENTRE + away @ gain.T
    mean = share @ each
    rest = np.diag(BENT - gain @ BENT[at])
    return mean, np.sqrt(share @ (each - mean) ** 2 + np.maximum(rest, 1e-8))


@pytest.mark.parametrize("tail", [4.0, np.inf])
@pytest.mark.parametrize("known", [[], [2], [0, 5], [1, 2, 4]])
def test_the_kernel_answers_as_the_formula(tail: float, known: list[int]) -> None:
    at = np.array(known, dtype=np.int64)
    noise = np.full((9, at.size), 0.01)
    found = condition(components(CENTRE), BENT, WEIGHT, tail, ROWS, np.tile(at, (9, 1)), noise)
    expected = [plain(tail, row, at, noise[0]) for row in ROWS]
    assert found[0] == pytest.approx(np.array([mean for mean, _ in expected]), abs=0.01)
    assert found[1] == pytest.approx(np.array([wide for _, wide in expected]), abs=0.01)


def test_what_is_left_out_is_negligible_at_every_tail() -> None:
    at = np.array([[0, 5]])
    found = condition(components(CENTRE), BENT, WEIGHT, 3.0, ROWS[:1], at, np.full((1, 2), 0.01))
    expected = plain(3.0, ROWS[0], at[0], np.full(2, 0.01))
    assert found[0][0] == pytest.approx(expected[0], abs=0.003)


def test_a_row_far_from_every_component_is_still_answered() -> None:
    at = np.array([[0, 1]])
    far = np.full((1, 6), 1e6)
    found = condition(components(CENTRE), BENT, WEIGHT, np.inf, far, at, np.full((1, 2), 0.01))
    assert np.isfinite(found).all()
