"""The compiled mixture against the formula of the module `local`, written out."""

import numpy as np
import pytest

from apps.classification.core.estimators.kernels import (
    NEGLIGIBLE,
    SURPRISE,
    gaussian_shares,
    student_shares,
)
from apps.classification.core.estimators.mixture import Component, MixtureLayout, blend, each
from apps.classification.core.estimators.protocol import Observed, Spread
from apps.inventory.core.snapshot import Floats, Ints

RNG = np.random.default_rng(3)
CENTRES = RNG.normal(size=(2, 25, 6))
ORIGIN = RNG.normal(size=(2, 6))
ROOTS = RNG.normal(size=(2, 6, 6))
COVARIANCE = 0.2 * ROOTS @ ROOTS.transpose(0, 2, 1) + 0.1 * np.eye(6)
WEIGHT = RNG.dirichlet(np.ones(25), size=2)
ROWS = RNG.normal(size=(9, 6))
MEMBERS = (
    Component(0, 1, 0.9, 0.4, 0.0, 4.0),
    Component(1, 0, 0.5, 0.8, 0.7, np.inf),
    Component(0, 0, 1.0, 0.1, 30.0, 13.0),
)
SHARE = np.array([0.5, 0.2, 0.3])


def layout(centres: Floats = CENTRES) -> MixtureLayout:
    rows = centres.astype(np.float32)
    columns = np.ascontiguousarray(rows.transpose(0, 2, 1))
    return MixtureLayout(rows, columns, WEIGHT.astype(np.float32), ORIGIN, COVARIANCE)


def observed(at: list[int], rows: Floats = ROWS) -> Observed:
    columns = np.tile(np.array(at, dtype=np.int64), (len(rows), 1))
    return Observed(columns, rows[:, at], np.zeros(columns.shape))


def plain(member: Component, row: Floats, at: Ints, noise: Floats) -> tuple[Floats, Floats]:
    """Mean and variance of one row."""
    centre = ORIGIN[member.centres] + member.shrink * CENTRES[member.centres]
    covariance = member.scale * COVARIANCE[member.covariance] + member.common
    inverse = np.linalg.inv(covariance[np.ix_(at, at)] + np.diag(noise))
    away = row[at] - centre[:, at]
    squared = np.einsum("nk,kl,nl->n", away, inverse, away)
    kernel = np.exp(-0.5 * squared)
    if np.isfinite(member.tail):
        kernel = (1.0 + squared / member.tail) ** (-0.5 * (member.tail + at.size))
    share = WEIGHT[member.centres] * kernel
    share /= share.sum()
    gain = covariance[:, at] @ inverse
    component = centre + away @ gain.T
    mean = share @ component
    widened = (SURPRISE + share @ squared) / (SURPRISE + at.size)
    return mean, share @ (component - mean) ** 2 + widened * np.diag(
        covariance - gain @ covariance[at]
    )


def expected(at: list[int]) -> tuple[Floats, Floats]:
    """(M, q, m) means and variances."""
    noise, columns = np.full(len(at), 0.01), np.array(at, dtype=np.int64)
    every = [[plain(member, row, columns, noise) for row in ROWS] for member in MEMBERS]
    return np.array([[m for m, _ in rows] for rows in every]), np.array(
        [[v for _, v in rows] for rows in every]
    )


@pytest.mark.parametrize("known", [[], [2], [0, 5], [1, 2, 4], [0, 1, 2, 3, 4, 5]])
def test_every_member_answers_as_the_formula(known: list[int]) -> None:
    noise = np.full((9, len(known)), 0.01)
    mean, deviation = each(layout(), np.array(MEMBERS), observed(known), noise)
    means, variances = expected(known)
    # a thousandth of the weight may be left out, of centres a few units apart
    assert mean == pytest.approx(means, abs=0.01)
    assert deviation == pytest.approx(np.sqrt(variances), abs=0.01)


@pytest.mark.parametrize("known", [[], [0, 5], [1, 2, 4]])
def test_a_blend_is_the_mixture_of_its_members(known: list[int]) -> None:
    noise = np.full((9, len(known)), 0.01)
    mean, deviation = blend(layout(), np.array(MEMBERS), SHARE, observed(known), noise)
    means, variances = expected(known)
    centre = np.einsum("m,mqj->qj", SHARE, means)
    variance = np.einsum("m,mqj->qj", SHARE, variances + (means - centre) ** 2)
    assert mean == pytest.approx(centre, abs=0.01)
    assert deviation == pytest.approx(np.sqrt(variance), abs=0.01)


DISTANCES = np.linspace(7.0, 60.0, 40).astype(np.float32)
EQUAL = np.full(40, 0.025, np.float32)


def test_the_quick_exponential_has_four_digits() -> None:
    share = np.empty(40, np.float32)
    total = gaussian_shares(DISTANCES.copy(), EQUAL, share)
    expected = 0.025 * np.exp(-0.5 * (DISTANCES.astype(np.float64) - 7.0))
    assert share == pytest.approx(expected, rel=1e-4)
    assert total == pytest.approx(expected.sum(), rel=1e-4)


@pytest.mark.parametrize("k", [0, 1, 2, 5, 13])
def test_the_quick_power_has_five_digits(k: int) -> None:
    share = np.empty(40, np.float32)
    total = student_shares(DISTANCES.copy(), EQUAL, 4.0, k, share)
    expected = 0.025 * (11.0 / (4.0 + DISTANCES.astype(np.float64))) ** (0.5 * (4 + k))
    assert share == pytest.approx(expected, rel=1e-5)
    assert total == pytest.approx(expected.sum(), rel=1e-5)


def test_nothing_is_left_out_of_few_heavy_components() -> None:
    # the nearest two components of 25 carry nearly all: the digits are then those of the weights
    member = Component(0, 1, 1.0, 0.02, 0.0, np.inf)
    at = [0, 5]
    mean, _ = each(layout(), np.array([member]), observed(at), np.full((9, 2), 1e-4))
    means = [plain(member, row, np.array(at), np.full(2, 1e-4))[0] for row in ROWS]
    assert mean[0] == pytest.approx(np.array(means), abs=NEGLIGIBLE)


def test_a_row_far_from_every_component_is_still_answered() -> None:
    far = np.full((1, 6), 1e6)
    result = blend(
        layout(), np.array(MEMBERS), SHARE, observed([0, 1], far), np.full((1, 2), 0.01)
    )
    assert np.isfinite(result).all()
    assert (result.deviation > 0).all()


def test_equal_columns_are_accepted() -> None:
    flat = MixtureLayout(*layout()[:4], np.ones((2, 6, 6)))
    result: Spread = each(flat, np.array(MEMBERS), observed([0, 1, 2]), np.full((9, 3), 1e-4))
    assert np.isfinite(result).all()
