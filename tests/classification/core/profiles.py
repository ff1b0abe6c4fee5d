"""Profiles with known curves."""

import numpy as np

from apps.classification.core.profile import HALF_WIDTH_90, Profile

POINTS = np.array([1.0, 2.0, 4.0, 8.0, 16.0, 32.0])


def profile(
    *,
    kind: str = "analytics",
    base_rate: float = 1e8,
    bytes_rate: float = 1e8,
    speeds: tuple[float, ...] = (1.0, 1.0),
    error: float = 0.0,
) -> Profile:
    """Perfect scaling, exact but for the base rate's relative ``error``."""
    speed = np.array(speeds)
    linear, flat = POINTS, np.ones(8)
    scores = np.full(10, 50.0)
    return Profile(
        application="kmeans",
        kind=kind,
        revision=1,
        platforms=("J", "A", "C", "F")[: speed.size],
        base_rate=base_rate,
        base_rate_se=error,
        bytes_rate=bytes_rate,
        bytes_rate_se=error,
        platform_speed=speed,
        platform_low=speed,
        platform_high=speed,
        scale_up=linear,
        scale_up_low=linear,
        scale_up_high=linear,
        scale_out=flat,
        scale_out_low=flat,
        scale_out_high=flat,
        tolerated=scores,
        tolerated_low=scores,
        tolerated_high=scores,
        caused=scores,
        caused_low=scores,
        caused_high=scores,
        platform_measured=np.ones(speed.size, dtype=np.bool_),
        scale_up_measured=np.ones(6, dtype=np.bool_),
        scale_out_measured=np.ones(8, dtype=np.bool_),
        tolerated_measured=np.ones(10, dtype=np.bool_),
        caused_measured=np.ones(10, dtype=np.bool_),
    )


def wide(error: float) -> float:
    """Factor between a value and the end of its 90 % interval."""
    return float(np.exp(HALF_WIDTH_90 * error))
