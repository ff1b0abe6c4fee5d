"""Rows as Gaussian components: one family from nearest rows to a conditional Gaussian.

p(z) = Σ_r w_r · K(z; x_r, S), where the component of row r lies at x_r = μ + √(1 - h²)·(z_r - μ)
and S = h²·C + τ·11ᵀ. C is the shrunk covariance of the rows. With h near 0 only the nearest rows
speak; with h = 1 all components lie at the mean and S is the covariance: the conditional Gaussian.
Given known cells o, component r weighs K(z_o; x_r,o, S_oo + E) and predicts
x_r + S_·o (S_oo + E)⁻¹ (z_o - x_r,o), with the variance that S leaves, wider for a row whose known
cells are further away than expected: times (f + d²) / (f + k), as if S were that of a
Student t of f degrees of freedom.

Source: West, "Approximating posterior distributions by mixtures" (1993) for √(1 - h²); Nadaraya
(1964) and Watson (1964) for the weights; Kotz and Nadarajah, "Multivariate t distributions"
(2004), §1.11 for the variance.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

import numpy as np

from apps.classification.core.estimators import mixture
from apps.classification.core.estimators.covariance import (
    FLOOR,
    Shrunk,
    group_weights,
    levelled,
    moments_with_gaps,
    shrunk_covariance,
)
from apps.classification.core.estimators.mixture import Component, Layout
from apps.classification.core.estimators.protocol import Panel, Rows, Spread, Told
from apps.inventory.core.snapshot import Floats

NOISE: Final = 0.01  # of a measured cell, relative: what its standard error leaves out
# What is believed of a row's shape before any row is seen, worth this many rows: each column by
# itself, and the whole row stretched along the mean one.
PRIOR_ROWS: Final = 2.0
PRIOR_DEVIATION: Final = 0.25
PRIOR_STRETCH: Final = 3.0
PRIOR_FADE: Final = 1.5


class Level(StrEnum):
    """What the height of a whole row tells about its shape."""

    TOLD = "told"  # all that it told in the library
    HINT = "hint"  # the same, but a component may also be moved up or down
    FREE = "free"  # nothing


@dataclass(frozen=True, slots=True)
class Local:
    """Settings of one member of the family.

    Attributes
    ----------
    width : h, in (0, 1]
    level : what the height of a row tells
    tail : degrees of freedom of the Student t that weighs the components; inf is a Gaussian
    by_application : 0 counts every row, 1 every application the same
    west : whether components move towards the mean; without, S is h²·C around the rows themselves
    prior_rows : weight of the prior covariance
    """

    width: float
    level: Level
    tail: float = 4.0
    by_application: float = 0.5
    west: bool = True
    prior_rows: float = PRIOR_ROWS


@dataclass(frozen=True, slots=True)
class Family:
    """Members of the family, which share centres and covariances."""

    settings: tuple[Local, ...]

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.settings)

    def learn(self, rows: Rows, rng: np.random.Generator, which: tuple[int, ...]) -> Panel:
        """Learn some members; O(n·m²) for every different covariance among them."""
        is_grouped = not np.array_equal(rows.groups, np.arange(rows.groups.size))
        centres: dict[_CentresKey, _Centres] = {}
        covariances: dict[tuple[_CentresKey, float], Floats] = {}
        members = []
        for one in (self.settings[i] for i in which):
            key = (one.level is Level.FREE, one.by_application if is_grouped else 0.0)
            if key not in centres:
                has_gaps = rows.sparse is not None or not rows.known.all()
                centres[key] = (_with_gaps if has_gaps else _centred)(rows, *key)
            found = centres[key]
            bent = (key, one.prior_rows)
            if bent not in covariances:
                covariances[bent] = _with_prior(found, one.prior_rows)
            members.append(
                Component(
                    list(centres).index(key),
                    list(covariances).index(bent),
                    float(np.sqrt(1.0 - one.width**2)) if one.west else 1.0,
                    one.width**2,
                    _FREEDOM[one.level] * max(found.height, _mean_variance(covariances[bent])),
                    one.tail,
                )
            )
        return _Mixture(
            _layout(list(centres.values()), list(covariances.values())), np.array(members)
        )


# of τ, in variances of the rows' heights
_FREEDOM: Final = {Level.TOLD: 0.0, Level.HINT: 1.0, Level.FREE: 100.0}

_CentresKey = tuple[bool, float]


@dataclass(frozen=True, slots=True, eq=False)
class _Mixture:
    layout: Layout
    members: Floats  # (M, 6)

    def each(self, told: Told) -> Spread:
        return mixture.each(self.layout, self.members, told, told.error**2 + NOISE**2)

    def blend(self, told: Told, share: Floats) -> Spread:
        return mixture.blend(self.layout, self.members, share, told, told.error**2 + NOISE**2)


class _Centres(NamedTuple):
    """(n, m) rows less their (m,) mean; (n,) weights; their spread, and that of their heights."""

    shape: Floats
    mean: Floats
    weight: Floats
    spread: Shrunk
    height: float


def _centred(rows: Rows, is_free: bool, by_application: float) -> _Centres:
    weight = group_weights(rows.groups, by_application)
    mean = weight @ rows.z
    rest = rows.z - mean
    level = rest.mean(axis=1, keepdims=True)
    height = float(weight @ level[:, 0] ** 2)
    shape = rest - level if is_free else rest
    spread = shrunk_covariance(shape, weight)
    return _Centres(shape, mean, weight, spread, height)


def _with_gaps(rows: Rows, is_free: bool, by_application: float) -> _Centres:
    """As `_centred`, with the mean and the spread that gaps and sparse rows allow for."""
    weight = group_weights(rows.groups, by_application)
    mean, spread = moments_with_gaps(rows, by_application)
    rest = rows.z - mean
    level = rest.mean(axis=1, keepdims=True)
    height = float(spread.covariance.mean())
    if is_free:
        return _Centres(rest - level, mean, weight, levelled(spread), height)
    return _Centres(rest, mean, weight, spread, height)


def _layout(centres: list[_Centres], covariances: list[Floats]) -> Layout:
    rows = np.array([c.shape for c in centres], dtype=np.float32)
    return Layout(
        rows,
        np.ascontiguousarray(rows.transpose(0, 2, 1)),
        np.array([c.weight for c in centres], dtype=np.float32),
        np.array([c.mean for c in centres]),
        np.array(covariances),
    )


def _mean_variance(covariance: Floats) -> float:
    return float(np.trace(covariance)) / len(covariance)


def _with_prior(centres: _Centres, prior_rows: float) -> Floats:
    """(m, m) covariance of the rows, unbiased, predictive, and mixed with the prior."""
    sample, rows = centres.spread
    m = centres.mean.size
    ramp = centres.mean - centres.mean.mean()
    stretch = np.outer(ramp, ramp) / max(float((ramp**2).mean()), FLOOR)
    usual = (rows * _mean_variance(sample) + PRIOR_ROWS * PRIOR_DEVIATION**2) / (rows + PRIOR_ROWS)
    prior = min(usual, PRIOR_DEVIATION**2) * (np.eye(m) + PRIOR_STRETCH * stretch)
    # + 1: the mean is itself uncertain; - 1: it was taken from the same rows
    sample = sample * (rows + 1.0) / max(rows - 1.0, 1.0)
    # fades faster than 1 / rows: with twenty rows the sample knows the shape better
    share = prior_rows / (prior_rows + rows**PRIOR_FADE) if prior_rows else 0.0
    return (1.0 - share) * sample + share * prior
