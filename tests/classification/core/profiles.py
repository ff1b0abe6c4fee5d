"""Profiles with known curves."""

import numpy as np
from numpy.typing import ArrayLike

from apps.classification.core.estimates import HALF_WIDTH_90, Estimates
from apps.classification.core.profile import Profile

POINTS = np.array([1.0, 2.0, 4.0, 8.0, 16.0, 32.0])


def exact(values: ArrayLike) -> Estimates:
    """Measured cells whose intervals have no width."""
    value = np.asarray(values, dtype=np.float64)
    return Estimates(value, value, value, np.ones(value.shape, dtype=np.bool_))


def profile(
    *,
    kind: str = "analytics",
    base_rate: float = 1e8,
    bytes_rate: float = 1e8,
    speeds: tuple[float, ...] = (1.0, 1.0),
    error: float = 0.0,
    tolerated: float = 50.0,
    caused: float = 50.0,
) -> Profile:
    """Perfect scaling, exact but for the base rate's relative ``error``."""
    return Profile(
        application="kmeans",
        kind=kind,
        revision=1,
        platforms=("J", "A", "C", "F")[: len(speeds)],
        base_rate=base_rate,
        base_rate_se=error,
        bytes_rate=bytes_rate,
        bytes_rate_se=error,
        platform_speed=exact(speeds),
        scale_up=exact(POINTS),
        scale_out=exact(np.ones(8)),
        tolerated=exact(np.full(10, tolerated)),
        caused=exact(np.full(10, caused)),
    )


def wide(error: float) -> float:
    """Factor between a value and the end of its 90 % interval."""
    return float(np.exp(HALF_WIDTH_90 * error))
