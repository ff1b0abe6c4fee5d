"""Fitted distributions of how long units are busy, and the chance that some are free in time.

Source: Paragon §4.2 (P10), which fits the busy times of the servers of a pool.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np
from scipy.special import gammainc, ndtr

from apps.inventory.core.snapshot import Floats

MIN_SAMPLES: Final = 20  # fewer tell too little
_MIN: Final = 1e-12
_LOG_2PI: Final = float(np.log(2.0 * np.pi))


class Family(StrEnum):
    """A family of distributions."""

    EXPONENTIAL = "exponential"
    NORMAL = "normal"
    LOGNORMAL = "lognormal"


@dataclass(frozen=True, slots=True)
class BusyTime:
    """A fitted distribution of busy times in seconds.

    Attributes
    ----------
    location, scale : mean and standard deviation of the time (normal) or of its logarithm
        (lognormal); an exponential has the mean in both
    """

    family: Family
    location: float
    scale: float

    def cdf(self, time_s: Floats) -> Floats:
        """Return the probability that a unit is busy for at most a time."""
        time_s = np.maximum(time_s, 0.0)
        match self.family:
            case Family.EXPONENTIAL:
                share = -np.expm1(-time_s / self.scale)
            case Family.NORMAL:  # given that it is positive
                at_zero = ndtr(-self.location / self.scale)
                share = (ndtr((time_s - self.location) / self.scale) - at_zero) / (1.0 - at_zero)
            case Family.LOGNORMAL:
                logs = np.log(np.maximum(time_s, _MIN))
                share = ndtr((logs - self.location) / self.scale)
        return np.asarray(share, dtype=np.float64)


def fit(samples: Sequence[float]) -> BusyTime | None:
    """Return the family that fits best by Akaike's criterion; None with too few samples."""
    times = np.maximum(np.array(samples, dtype=np.float64), 1e-3)
    if times.size < MIN_SAMPLES:
        return None
    logs = np.log(times)
    mean, std = float(times.mean()), max(float(times.std()), 1e-6 * float(times.mean()))
    spread = max(float(logs.std()), 1e-6)
    n = times.size
    normal = -0.5 * n * (_LOG_2PI + 2.0 * np.log(std) + 1.0)
    lognormal = -0.5 * n * (_LOG_2PI + 2.0 * np.log(spread) + 1.0) - float(logs.sum())
    exponential = -n * (np.log(mean) + 1.0)
    fits = [
        (2.0 - 2.0 * exponential, BusyTime(Family.EXPONENTIAL, mean, mean)),
        (4.0 - 2.0 * normal, BusyTime(Family.NORMAL, mean, std)),
        (4.0 - 2.0 * lognormal, BusyTime(Family.LOGNORMAL, float(logs.mean()), spread)),
    ]
    return min(fits, key=lambda each: each[0])[1]


def chance_free(busy: BusyTime, ages_s: Floats, within_s: Floats, units: int) -> Floats:
    """(k,) probability that at least ``units`` busy units are freed within each time.

    Exact for one unit, 1 - Π (1 - p); for more, the number that is freed is taken as Poisson with
    the mean -Σ ln(1 - p), where p is the chance of one unit given how long it has been busy.

    Parameters
    ----------
    ages_s : (n,) time that each unit has been busy
    within_s : (k,)
    """
    if units <= 0:
        return np.ones_like(within_s)
    if not ages_s.size:
        return np.zeros_like(within_s)
    left = np.maximum(1.0 - busy.cdf(ages_s), _MIN)
    kept = np.maximum(1.0 - busy.cdf(ages_s[None, :] + within_s[:, None]), _MIN) / left
    freed = -np.log(np.clip(kept, _MIN, 1.0)).sum(axis=1)
    chance: Floats = gammainc(float(units), freed)
    return chance
