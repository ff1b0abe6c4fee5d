"""Conditional Gaussians: one distribution for all rows, conditioned on the known cells.

mean = μ_u + C_uo (C_oo + E)⁻¹ (z_o - μ_o), variance = C_uu - C_uo (C_oo + E)⁻¹ C_ou. The
heavy-tailed variant is the conditional Student t, whose scale grows with the distance of the
known cells.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from apps.classification.core.estimators.covariance import (
    FLOOR,
    group_weights,
    low_rank_covariance,
    shrunk_covariance,
)
from apps.classification.core.estimators.protocol import Observed, Predictor, Rows, Spread
from apps.inventory.core.snapshot import Floats

TAIL: Final = 5.0  # degrees of freedom
RANK: Final = 4
NOISE: Final = 0.01


@dataclass(frozen=True, slots=True, eq=False)
class _Gaussian:
    mean: Floats
    covariance: Floats
    tail: float

    def predict(self, observed: Observed) -> Spread:
        at, k = observed.at, observed.at.shape[1]
        noise = observed.error**2 + NOISE**2
        observed_covariance = self.covariance[at[:, :, None], at[:, None, :]] + noise[
            :, :, None
        ] * np.eye(k)
        across = self.covariance[:, at].transpose(1, 0, 2)
        gain = across @ np.linalg.inv(observed_covariance)
        offset = observed.z - self.mean[at]
        mean = self.mean + np.einsum("qmk,qk->qm", gain, offset)
        rest = np.diag(self.covariance)[None, :] - np.einsum("qmk,qmk->qm", gain, across)
        variance = np.maximum(rest, FLOOR)
        if np.isfinite(self.tail):
            solved = np.linalg.solve(observed_covariance, offset[:, :, None])[:, :, 0]
            squared = (offset * solved).sum(axis=1)
            variance = variance * ((self.tail + squared) / (self.tail + k))[:, None]
        return Spread(mean, np.sqrt(variance))


def gaussian(rows: Rows, rng: np.random.Generator) -> Predictor:
    """Condition on the Ledoit-Wolf covariance."""
    mean, covariance = _moments(rows)
    return _Gaussian(mean, covariance, np.inf)


def student(rows: Rows, rng: np.random.Generator) -> Predictor:
    """Condition a Student t of 5 degrees of freedom; mean and scale by five rounds of EM.

    Source: Lange, Little and Taylor, "Robust statistical modeling using the t distribution"
    (1989).
    """
    mean, covariance = _moments(rows)
    m = mean.size
    for _ in range(5):
        offset = rows.z - mean
        squared = (offset * np.linalg.solve(covariance, offset.T).T).sum(axis=1)
        weight = (TAIL + m) / (TAIL + squared)
        weight = weight / weight.sum()
        mean = weight @ rows.z
        covariance = shrunk_covariance(rows.z - mean, weight).covariance
    return _Gaussian(mean, covariance, TAIL)


def principal(rows: Rows, rng: np.random.Generator) -> Predictor:
    """Condition on the covariance of probabilistic PCA with four directions."""
    mean = rows.z.mean(axis=0)
    return _Gaussian(mean, low_rank_covariance(rows.z - mean, RANK), np.inf)


def _moments(rows: Rows) -> tuple[Floats, Floats]:
    weight = group_weights(rows.groups, 0.0)
    mean = weight @ rows.z
    return mean, shrunk_covariance(rows.z - mean, weight).covariance
