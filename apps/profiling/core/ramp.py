"""How hard one source of interference must be pressed until performance falls below 95 %.

A sequential procedure: press where the threshold is believed to lie, sample until the interval of
mean performance excludes 95 % or is so narrow that the threshold is here, move on, and stop as
soon as the threshold is known well enough. Nothing here knows what is pressed: emulated servers
and real ones answer the same callable.

What is believed is a posterior over the threshold, the shape of the curve around it and the noise,
so that the error told is honest although the procedure stops by what it sees.

Source: Paragon §3.2 (P3) names the 95 % point and a ramp; the procedure and the shapes are ours.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from typing import Final

import numpy as np
from scipy.special import stdtrit

from apps.inventory.core.snapshot import Floats

QOS: Final = 0.95
FULL: Final = 100  # the highest intensity
CONFIDENCE: Final = 0.90  # of the interval that excludes 95 %, or includes it
FIRM: Final = 0.005  # half the width of an interval that includes 95 % firmly
RESOLUTION: Final = 1.0  # points of standard error that are enough
MAX_SAMPLES: Final = 30
FIRST_SAMPLES: Final = 2  # at each intensity, before its interval is looked at
# Before anything is seen, the noise of a sample is taken for 0.5 %, with the weight of two of
# them.
NOISE: Final = 0.005
NOISE_WEIGHT: Final = 2.0
# Shapes considered: the power with which the first 5 % are lost, and the points of intensity in
# which performance then falls by a factor e. From straight lines to a knee with a cliff.
KNEES: Final = (1.0, 2.0, 4.0, 8.0)
DECAYS: Final = (2.0, 20.0, 60.0, 180.0, 540.0)
# No shape fits better than this share of the distance from 95 %, and this of its square: what is
# seen far from the threshold says on which side of it, and little of how far.
MISFIT: Final = (0.1, 3.0)
STEP: Final = 1.0  # points between the thresholds considered
BEYOND: Final = 110.0  # the highest of them; above full intensity they mean "never"
LEAST_ERROR: Final = 0.29  # STEP over the root of 12
NEVER: Final = 0.05  # more than this chance of "never" and full intensity is tried
HALF_WIDTH_90: Final = 1.6448536269514722

Sampler = Callable[[int, int], Floats]


class ProbeFailedError(Exception):
    """A microbenchmark or a copy of the application died; the words say why."""


@dataclass(frozen=True, slots=True)
class Threshold:
    """Where performance falls below 95 %.

    Attributes
    ----------
    value : intensity 0-100; exactly 100 only where performance stayed firmly above 95 % at full
        intensity
    standard_error : of the value, in points of intensity
    samples : how many it took
    """

    value: float
    standard_error: float
    samples: int


@dataclass(frozen=True, slots=True)
class Missing:
    """No threshold, and why: a probe that failed or did not decide is neither a 0 nor a 100."""

    reason: str
    samples: int


class _Verdict(Enum):
    """What the interval of mean performance at one intensity says about 95 %."""

    ABOVE = "above"
    BELOW = "below"
    INCLUDED = "included"  # firmly
    OPEN = "open"  # more samples needed


def find_threshold(
    sample: Sampler, *, resolution: float = RESOLUTION, max_samples: int = MAX_SAMPLES
) -> Threshold | Missing:
    """Find the intensity at which performance falls below 95 % of isolation.

    Parameters
    ----------
    sample : ``sample(intensity, n)`` gives (n,) performance relative to isolation under this
        intensity, 1-100; raises `ProbeFailedError` where it cannot
    resolution : standard error in points of intensity that is enough
    max_samples : a probe that needs more is inconclusive

    Returns
    -------
    The threshold; or why there is none: the probe failed, what it saw is not a number, or its
    interval did not decide.

    Cost: some 0.06 ms for each intensity tried, of which there are 2 to 8.
    """
    seen, level = _Seen(), int(BEYOND / 2)
    try:
        while seen.samples < max_samples:
            verdict = _press(sample, level, seen, max_samples)
            belief = _believe(seen)
            if verdict is _Verdict.ABOVE and level == FULL:
                return Threshold(100.0, belief.error, seen.samples)
            if verdict is _Verdict.INCLUDED or belief.is_known(resolution):
                return Threshold(belief.score, belief.error, seen.samples)
            level = belief.level
    except ProbeFailedError as failure:
        return Missing(str(failure), seen.samples)
    return Missing(f"not decided within {seen.samples} samples", seen.samples)


@dataclass(slots=True)
class _Level:
    """What was seen at one intensity: number, mean, and squared distances from it, summed."""

    count: int = 0
    mean: float = 0.0
    within: float = 0.0

    def add(self, value: float) -> None:
        """Take one more sample in (Welford 1962)."""
        self.count += 1
        away = value - self.mean
        self.mean += away / self.count
        self.within += away * (value - self.mean)


@dataclass(slots=True)
class _Seen:
    """What was seen at each intensity."""

    at: dict[int, _Level] = field(default_factory=dict)
    samples: int = 0

    def add(self, level: int, values: Floats) -> None:
        if not np.isfinite(values).all():
            raise ProbeFailedError(f"a sample at intensity {level} is not a number")
        seen = self.at.setdefault(level, _Level())
        for value in values.tolist():
            seen.add(value)
        self.samples += len(values)

    def noise(self) -> tuple[float, float]:
        """Variance of a sample, pooled over the intensities, and its degrees of freedom."""
        within = sum(seen.within for seen in self.at.values())
        freedom = NOISE_WEIGHT + self.samples - len(self.at)
        return (NOISE_WEIGHT * NOISE**2 + within) / freedom, freedom


def _press(sample: Sampler, level: int, seen: _Seen, max_samples: int) -> _Verdict:
    """Sample at one intensity until its interval decides, or until no sample is left."""
    count = 1 if level in seen.at else FIRST_SAMPLES
    while True:
        count = min(count, max_samples - seen.samples)
        seen.add(level, sample(level, count))
        verdict = _judge(seen, level)
        if verdict is not _Verdict.OPEN or seen.samples >= max_samples:
            return verdict
        count = 1


def _judge(seen: _Seen, level: int) -> _Verdict:
    variance, freedom = seen.noise()
    mean, count = seen.at[level].mean, seen.at[level].count
    half = float(stdtrit(freedom, 0.5 + CONFIDENCE / 2.0)) * (variance / count) ** 0.5
    if mean - half > QOS:
        return _Verdict.ABOVE
    if mean + half < QOS:
        return _Verdict.BELOW
    return _Verdict.INCLUDED if half <= FIRM else _Verdict.OPEN


@dataclass(frozen=True, slots=True)
class _Belief:
    """Posterior of the threshold: (T,) weights that sum to 1, and what follows from them."""

    weights: Floats

    @property
    def score(self) -> float:
        """The middle of what lies within the scale: 100 itself is for what is never crossed.

        Not the mean, which a little weight far away would move.
        """
        within = np.where(_thresholds() < FULL, self.weights, 0.0)
        return float(_quantiles(within / within.sum(), 0.5)[0])

    @property
    def error(self) -> float:
        """Standard error that gives the 90 % interval its right width."""
        low, high = np.minimum(_quantiles(self.weights, 0.05, 0.95), FULL)
        return max(LEAST_ERROR, float((high - low) / (2.0 * HALF_WIDTH_90)))

    def is_known(self, resolution: float) -> bool:
        """Whether this will do; that it is never crossed must be seen at full intensity."""
        never = float(self.weights[_thresholds() > FULL].sum())
        return self.error <= resolution and never < NEVER

    @property
    def level(self) -> int:
        """Where to press next: as likely too much as too little."""
        (middle,) = _quantiles(self.weights, 0.5)
        return int(np.clip(round(middle), 1, FULL))


def _quantiles(weights: Floats, *shares: float) -> Floats:
    """Thresholds below which these shares of the weight lie."""
    edges = np.append(0.0, _thresholds() + STEP / 2.0)
    return np.interp(shares, np.append(0.0, np.cumsum(weights)), edges)


def _believe(seen: _Seen) -> _Belief:
    """Weigh every threshold by how well some curve through it explains the means.

    A mean is taken as normal around the curve with the variance of the noise and, further from
    95 %, of what no curve explains; but whatever its shape, a curve is on one side of 95 % up to
    the threshold and on the other beyond it, so a mean on the wrong side is noise alone.
    """
    variance, _ = seen.noise()
    levels = list(seen.at)
    curves = _curves()[levels]
    means = np.array([one.mean for one in seen.at.values()])[:, None]
    noise = variance / np.array([one.count for one in seen.at.values()])[:, None]
    spread = noise + np.maximum(_unexplained()[levels], _misfit(means))
    wrong = np.where((curves > QOS) == (means > QOS), 0.0, (means - QOS) ** 2 / noise)
    apart = np.maximum((means - curves) ** 2 / spread, wrong).sum(axis=0)
    # one logarithm for all: a product of at most fifteen variances is far from underflow
    fit = -0.5 * (apart + np.log(spread.prod(axis=0)))
    weights = np.exp(fit - fit.max()).reshape(-1, len(_thresholds())).sum(axis=0)
    return _Belief(weights / weights.sum())


def _misfit(performance: Floats) -> Floats:
    """Variance that is left to what no curve explains."""
    away = np.abs(performance - QOS)
    return np.asarray((MISFIT[0] * away + MISFIT[1] * away**2) ** 2)


@lru_cache(maxsize=1)
def _thresholds() -> Floats:
    """(T,) thresholds considered."""
    found = np.arange(STEP / 2.0, BEYOND, STEP)
    found.setflags(write=False)
    return found


@lru_cache(maxsize=1)
def _curves() -> Floats:
    """(101, shapes x T) performance at each whole intensity, of every shape and threshold.

    1 - 0.05 (x/t)^knee up to the threshold t, then 0.95 exp(-(x - t) / decay).
    """
    x = np.arange(FULL + 1.0)[:, None, None, None]
    knee, decay = np.array(KNEES)[:, None, None], np.array(DECAYS)[:, None]
    t = _thresholds()
    below = 1.0 - (1.0 - QOS) * np.minimum(x / t, 1.0) ** knee
    found = (below * np.exp(-np.maximum(x - t, 0.0) / decay)).reshape(FULL + 1, -1)
    found.setflags(write=False)
    return found


@lru_cache(maxsize=1)
def _unexplained() -> Floats:
    """(101, shapes x T) misfit of each curve."""
    found = _misfit(_curves())
    found.setflags(write=False)
    return found
