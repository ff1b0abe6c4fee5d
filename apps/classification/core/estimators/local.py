"""Rows as Gaussian components: one family from nearest rows to a conditional Gaussian.

p(z) = Σ_r w_r · K(z; x_r, S), where the component of row r lies at x_r = μ + √(1 - h²)·(z_r - μ)
and S = h²·C + τ·11ᵀ. C is the shrunk covariance of the rows. With h near 0 only the nearest rows
speak; with h = 1 all components lie at the mean and S is the covariance: the conditional Gaussian.
Given known cells o, component r weighs K(z_o; x_r,o, S_oo + E) and predicts
x_r + S_·o (S_oo + E)⁻¹ (z_o - x_r,o).

Source: West, "Approximating posterior distributions by mixtures" (1993) for √(1 - h²); Nadaraya
(1964) and Watson (1964) for the weights.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np

from apps.classification.core.estimators.covariance import (
    FLOOR,
    group_weights,
    shrunk_covariance,
)
from apps.classification.core.estimators.mixture import Components, components, condition
from apps.classification.core.estimators.protocol import (
    Learner,
    Predictor,
    Rows,
    Spread,
    known_columns,
)
from apps.inventory.core.snapshot import Bools, Floats

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


@dataclass(frozen=True, slots=True, eq=False)
class _Mixture:
    origin: Floats  # (m,) taken off everything, for the sake of exact variances
    centre: Components  # x_r - origin
    bent: Floats  # (m, m) S
    weight: Floats  # (n,)
    tail: float

    def predict(self, z: Floats, known: Bools, error: Floats) -> Spread:
        at = known_columns(known)
        noise = np.take_along_axis(error, at, axis=1) ** 2 + NOISE**2
        mean, deviation = condition(
            self.centre, self.bent, self.weight, self.tail, z - self.origin, at, noise
        )
        return Spread(mean + self.origin, deviation)


def local(settings: Local) -> Learner:
    """Learn one member of the family; O(n·m²), and O(n·m·k) a row to predict."""

    def learn(rows: Rows, rng: np.random.Generator) -> Predictor:
        weight = group_weights(rows.groups, settings.by_application)
        mean = weight @ rows.z
        rest = rows.z - mean
        level = rest.mean(axis=1, keepdims=True)
        shape = rest - level if settings.level is Level.FREE else rest
        covariance = _with_prior(shape, weight, mean, settings.prior_rows)
        height = max(float(weight @ level[:, 0] ** 2), float(np.trace(covariance)) / mean.size)
        kept = np.sqrt(1.0 - settings.width**2) if settings.west else 1.0
        bent = settings.width**2 * covariance + _FREEDOM[settings.level] * height
        return _Mixture(mean, components(kept * shape), bent, weight, settings.tail)

    return learn


# of τ, in variances of the rows' heights
_FREEDOM: Final = {Level.TOLD: 0.0, Level.HINT: 1.0, Level.FREE: 100.0}


def _with_prior(shape: Floats, weight: Floats, mean: Floats, prior_rows: float) -> Floats:
    """(m, m) covariance of (n, m) rows, unbiased, predictive, and mixed with the prior."""
    sample, rows = shrunk_covariance(shape, weight)
    m = mean.size
    ramp = mean - mean.mean()
    stretch = np.outer(ramp, ramp) / max(float((ramp**2).mean()), FLOOR)
    seen = float(np.trace(sample)) / m
    usual = (rows * seen + PRIOR_ROWS * PRIOR_DEVIATION**2) / (rows + PRIOR_ROWS)
    prior = min(usual, PRIOR_DEVIATION**2) * (np.eye(m) + PRIOR_STRETCH * stretch)
    # + 1: the mean is itself uncertain; - 1: it was taken from the same rows
    sample = sample * (rows + 1.0) / max(rows - 1.0, 1.0)
    # fades faster than 1 / rows: with twenty rows the sample knows the shape better
    share = prior_rows / (prior_rows + rows**PRIOR_FADE) if prior_rows else 0.0
    return (1.0 - share) * sample + share * prior
