"""Arrival processes."""

import numpy as np

from apps.testbed.core.traces import Floats

HOUR_S = 3600.0
MINUTES = 60


def hourly_arrivals(counts: Floats, *, burst_shape: float, rng: np.random.Generator) -> Floats:
    """Draw arrival times with given counts per hour and bursty minutes.

    Within an hour, each minute has a Gamma(``burst_shape``) weight, so the count of a minute with
    mean m has a variance of about m + m²/``burst_shape`` (negative binomial). Within a minute,
    arrivals are uniform.

    Parameters
    ----------
    counts : (h,) arrivals of each hour, >= 0, whole
    burst_shape : > 0; infinity makes the minutes equal (Poisson)

    Returns
    -------
    (sum of counts,) seconds from the start of the first hour, non-decreasing
    """
    if not burst_shape > 0:
        raise ValueError(f"burst_shape must be > 0, not {burst_shape}")
    hours = [
        hour * HOUR_S + _within_hour(int(count), burst_shape, rng)
        for hour, count in enumerate(counts)
    ]
    return np.sort(np.concatenate([np.zeros(0), *hours]))


def _within_hour(count: int, burst_shape: float, rng: np.random.Generator) -> Floats:
    """(count,) unsorted seconds within one hour."""
    if np.isinf(burst_shape):
        return rng.uniform(0.0, HOUR_S, count)
    weight = rng.gamma(burst_shape, size=MINUTES)
    # A tiny shape may round every weight to zero; then minutes are equally likely.
    share = weight / weight.sum() if weight.sum() > 0 else np.full(MINUTES, 1.0 / MINUTES)
    minute = rng.choice(MINUTES, size=count, p=share)
    return (minute + rng.uniform(size=count)) * (HOUR_S / MINUTES)
