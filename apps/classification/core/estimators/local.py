"""Mixtures with one Gaussian component per row, from nearest rows to a conditional Gaussian.

p(z) = Σ_r w_r · K(z; x_r, S), where the component of row r lies at x_r = μ + √(1 - h²)·(z_r - μ)
and S = h²·C + τ·11ᵀ. C is the shrunk covariance of the rows. With h near 0 only the nearest rows
have weight; with h = 1 all components lie at the mean and S is the covariance: the
conditional Gaussian. Given known cells o, component r weighs K(z_o; x_r,o, S_oo + E) and predicts
x_r + S_·o (S_oo + E)⁻¹ (z_o - x_r,o), with the residual variance under S times
(f + d²) / (f + k), as for a Student t of f degrees of freedom: wider for a row whose known cells
are further away than expected.

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
from apps.classification.core.estimators.mixture import Component, MixtureLayout
from apps.classification.core.estimators.protocol import Observed, Panel, Rows, Spread
from apps.inventory.core.snapshot import Floats

NOISE: Final = 0.01  # relative, of a measured cell, in addition to its standard error
# Prior of a row's shape, worth this many rows: independent columns, and a stretch of the row along
# the mean row.
PRIOR_ROWS: Final = 2.0
PRIOR_DEVIATION: Final = 0.25
PRIOR_STRETCH: Final = 3.0
PRIOR_FADE: Final = 1.5


class Level(StrEnum):
    """Assumed dependence of a row's shape on its level."""

    DEPENDENT = "dependent"  # as in the library
    PARTIAL = "partial"  # as in the library, but components may also shift up or down
    INDEPENDENT = "independent"  # no dependence


@dataclass(frozen=True, slots=True)
class Local:
    """Settings of one member of the family.

    Attributes
    ----------
    width : h, in (0, 1]
    level : assumed dependence of a row's shape on its level
    tail : degrees of freedom of the Student t that weights the components; inf = Gaussian
    by_application : 0 = equal weight of rows, 1 = of applications
    west : whether components shrink towards the mean; if not, they lie at the rows
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
        """Number of members."""
        return len(self.settings)

    def learn(self, rows: Rows, rng: np.random.Generator, which: tuple[int, ...]) -> Panel:
        """Train some members; O(n·m²) for each distinct covariance."""
        is_grouped = not np.array_equal(rows.groups, np.arange(rows.groups.size))
        centres: dict[_CentresKey, _Centres] = {}
        covariances: dict[tuple[_CentresKey, float], Floats] = {}
        members = []
        for member in (self.settings[i] for i in which):
            key = (member.level is Level.INDEPENDENT, member.by_application if is_grouped else 0.0)
            if key not in centres:
                has_gaps = rows.sparse is not None or not rows.known.all()
                centres[key] = (_with_gaps if has_gaps else _centred)(rows, *key)
            centre = centres[key]
            pair = (key, member.prior_rows)
            if pair not in covariances:
                covariances[pair] = _with_prior(centre, member.prior_rows)
            members.append(
                Component(
                    list(centres).index(key),
                    list(covariances).index(pair),
                    float(np.sqrt(1.0 - member.width**2)) if member.west else 1.0,
                    member.width**2,
                    _FREEDOM[member.level] * max(centre.height, _mean_variance(covariances[pair])),
                    member.tail,
                )
            )
        return _Mixture(
            _layout(list(centres.values()), list(covariances.values())), np.array(members)
        )


# τ in variances of the rows' levels
_FREEDOM: Final = {Level.DEPENDENT: 0.0, Level.PARTIAL: 1.0, Level.INDEPENDENT: 100.0}

_CentresKey = tuple[bool, float]


@dataclass(frozen=True, slots=True, eq=False)
class _Mixture:
    layout: MixtureLayout
    members: Floats  # (M, 6)

    def each(self, observed: Observed) -> Spread:
        return mixture.each(self.layout, self.members, observed, observed.error**2 + NOISE**2)

    def blend(self, observed: Observed, share: Floats) -> Spread:
        return mixture.blend(
            self.layout, self.members, share, observed, observed.error**2 + NOISE**2
        )


class _Centres(NamedTuple):
    """(n, m) rows minus their (m,) mean; (n,) weights; covariance; variance of the row levels."""

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
    """As `_centred`, with mean and covariance estimated from incomplete rows, too."""
    weight = group_weights(rows.groups, by_application)
    mean, spread = moments_with_gaps(rows, by_application)
    rest = rows.z - mean
    level = rest.mean(axis=1, keepdims=True)
    height = float(spread.covariance.mean())
    if is_free:
        return _Centres(rest - level, mean, weight, levelled(spread), height)
    return _Centres(rest, mean, weight, spread, height)


def _layout(centres: list[_Centres], covariances: list[Floats]) -> MixtureLayout:
    rows = np.array([c.shape for c in centres], dtype=np.float32)
    return MixtureLayout(
        rows,
        np.ascontiguousarray(rows.transpose(0, 2, 1)),
        np.array([c.weight for c in centres], dtype=np.float32),
        np.array([c.mean for c in centres]),
        np.array(covariances),
    )


def _mean_variance(covariance: Floats) -> float:
    return float(np.trace(covariance)) / len(covariance)


def _with_prior(centres: _Centres, prior_rows: float) -> Floats:
    """(m, m) unbiased predictive covariance of the rows, mixed with the prior."""
    sample, rows = centres.spread
    m = centres.mean.size
    ramp = centres.mean - centres.mean.mean()
    stretch = np.outer(ramp, ramp) / max(float((ramp**2).mean()), FLOOR)
    usual = (rows * _mean_variance(sample) + PRIOR_ROWS * PRIOR_DEVIATION**2) / (rows + PRIOR_ROWS)
    prior = min(usual, PRIOR_DEVIATION**2) * (np.eye(m) + PRIOR_STRETCH * stretch)
    # + 1: the mean is uncertain; - 1: it was estimated from the same rows
    sample = sample * (rows + 1.0) / max(rows - 1.0, 1.0)
    # fades faster than 1 / rows: with twenty rows the sample covariance is better
    share = prior_rows / (prior_rows + rows**PRIOR_FADE) if prior_rows else 0.0
    return (1.0 - share) * sample + share * prior
