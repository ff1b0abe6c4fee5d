"""Measurement of the intensity of a source at which performance falls below 95 %.

Sample at the median of the posterior of the threshold until the confidence interval of mean
performance excludes 95 %, or is narrow and includes it; update the posterior, and repeat until its
standard error is small enough. Emulated and real servers both provide the sampler.

The posterior covers the threshold, the shape of the curve around it and the noise. The reported
error is therefore valid although the data decide when to stop.

Source: Paragon §2.3 (P3) names the 95 % point and a ramp; the procedure and the shapes are ours.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from typing import Final

import numpy as np
from scipy.special import stdtrit

from apps.common.core.arrays import as_readonly
from apps.inventory.core.snapshot import Floats

QOS: Final = 0.95
FULL: Final = 100  # the highest intensity
CONFIDENCE: Final = 0.90  # of the interval of mean performance
NARROW: Final = 0.005  # max half-width of an interval that counts as including 95 %
RESOLUTION: Final = 1.0  # target standard error, in points of intensity
MAX_SAMPLES: Final = 30
FIRST_SAMPLES: Final = 2  # at each intensity, before its interval is evaluated
# Prior of the noise of a sample: 0.5 %, with the weight of two samples.
NOISE: Final = 0.005
NOISE_WEIGHT: Final = 2.0
# Shapes of the curve: the exponent of the loss of the first 5 %, and the points of intensity over
# which performance then falls by a factor e. They range from straight lines to a sharp knee.
KNEES: Final = (1.0, 2.0, 4.0, 8.0)
DECAYS: Final = (2.0, 20.0, 60.0, 180.0, 540.0)
# Model error of every shape: this share of the distance from 95 %, and of its square. Samples far
# from the threshold show on which side it is, but not how far away.
MISFIT: Final = (0.1, 3.0)
STEP: Final = 1.0  # points between candidate thresholds
BEYOND: Final = 110.0  # the highest candidate; above full intensity it means "never"
MIN_ERROR: Final = 0.29  # STEP over the root of 12
NEVER: Final = 0.05  # try full intensity if the probability of "never" exceeds this
HALF_WIDTH_90: Final = 1.6448536269514722

Sampler = Callable[[int, int], Floats]


@dataclass(frozen=True, slots=True)
class NoisePrior:
    """Standard deviation of a sample before the first one, with the weight of so many samples."""

    deviation: float = NOISE
    weight: float = NOISE_WEIGHT


@dataclass(frozen=True, slots=True)
class Precision:
    """How precise a ramp has to be, and where it begins.

    Attributes
    ----------
    resolution : target standard error, in points of intensity
    max_samples : a probe that needs more is inconclusive
    narrow : max half-width of an interval of mean performance that counts as including 95 %
    first : intensity of the first samples
    """

    resolution: float = RESOLUTION
    max_samples: int = MAX_SAMPLES
    narrow: float = NARROW
    first: int = int(BEYOND / 2)


PRECISION: Final = Precision()
PRIOR: Final = NoisePrior()


class ProbeFailedError(Exception):
    """A microbenchmark or a copy of the application died; the message is the reason."""


@dataclass(frozen=True, slots=True)
class RampResult:
    """The intensity at which performance falls below 95 %.

    Attributes
    ----------
    value : intensity 0-100; 100 only if performance stayed above 95 % at full intensity
    standard_error : of the value, in points of intensity
    samples : number of samples used
    """

    value: float
    standard_error: float
    samples: int


@dataclass(frozen=True, slots=True)
class RampFailure:
    """A ramp without a result, and the reason; callers must not use 0 or 100 instead."""

    reason: str
    samples: int


class _Verdict(Enum):
    """Position of the interval of mean performance at one intensity relative to 95 %."""

    ABOVE = "above"
    BELOW = "below"
    INCLUDED = "included"  # in a narrow interval
    OPEN = "open"  # more samples needed


def find_threshold(
    sample: Sampler, *, precision: Precision = PRECISION, prior: NoisePrior = PRIOR
) -> RampResult | RampFailure:
    """Find the intensity at which performance falls below 95 % of isolation.

    Parameters
    ----------
    sample : ``sample(intensity, n)`` returns (n,) performance relative to isolation under this
        intensity, 1-100, or raises `ProbeFailedError`
    precision : when it ends, and where it begins
    prior : noise of a sample; on a real machine, from windows without a stressor

    Returns
    -------
    The threshold; or a failure if the probe failed, a sample is not a number, or
    `Precision.max_samples` was too low.

    Cost: about 0.06 ms for each of the 2 to 8 intensities.
    """
    observed, level = _Samples(precision, prior), precision.first
    try:
        while observed.samples < precision.max_samples:
            verdict = _sample_level(sample, level, observed)
            posterior = _posterior(observed)
            if verdict is _Verdict.ABOVE and level == FULL:
                return RampResult(100.0, posterior.error, observed.samples)
            if verdict is _Verdict.INCLUDED or posterior.is_known(precision.resolution):
                return RampResult(posterior.score, posterior.error, observed.samples)
            level = posterior.level
    except ProbeFailedError as failure:
        return RampFailure(str(failure), observed.samples)
    return RampFailure(f"inconclusive after {observed.samples} samples", observed.samples)


@dataclass(slots=True)
class _Level:
    """Samples at one intensity: number, mean, and sum of squared deviations from it."""

    count: int = 0
    mean: float = 0.0
    within: float = 0.0

    def add(self, value: float) -> None:
        """Add one sample (Welford 1962)."""
        self.count += 1
        deviation = value - self.mean
        self.mean += deviation / self.count
        self.within += deviation * (value - self.mean)


@dataclass(slots=True)
class _Samples:
    """All samples, by intensity."""

    precision: Precision
    prior: NoisePrior
    at: dict[int, _Level] = field(default_factory=dict)
    samples: int = 0

    def add(self, level: int, values: Floats) -> None:
        if not np.isfinite(values).all():
            raise ProbeFailedError(f"a sample at intensity {level} is not a number")
        at_level = self.at.setdefault(level, _Level())
        for value in values.tolist():
            at_level.add(value)
        self.samples += len(values)

    def noise(self) -> tuple[float, float]:
        """Variance of a sample, pooled over the intensities, and its degrees of freedom."""
        within = sum(level.within for level in self.at.values())
        freedom = self.prior.weight + self.samples - len(self.at)
        return (self.prior.weight * self.prior.deviation**2 + within) / freedom, freedom


def _sample_level(sample: Sampler, level: int, observed: _Samples) -> _Verdict:
    """Sample at one intensity until its interval is conclusive or `max_samples` is reached."""
    count, max_samples = (
        1 if level in observed.at else FIRST_SAMPLES,
        observed.precision.max_samples,
    )
    while True:
        count = min(count, max_samples - observed.samples)
        observed.add(level, sample(level, count))
        verdict = _judge(observed, level)
        if verdict is not _Verdict.OPEN or observed.samples >= max_samples:
            return verdict
        count = 1


def _judge(observed: _Samples, level: int) -> _Verdict:
    variance, freedom = observed.noise()
    mean, count = observed.at[level].mean, observed.at[level].count
    half = float(stdtrit(freedom, 0.5 + CONFIDENCE / 2.0)) * (variance / count) ** 0.5
    if mean - half > QOS:
        return _Verdict.ABOVE
    if mean + half < QOS:
        return _Verdict.BELOW
    return _Verdict.INCLUDED if half <= observed.precision.narrow else _Verdict.OPEN


@dataclass(frozen=True, slots=True)
class _Posterior:
    """Posterior of the threshold: (T,) weights that sum to 1."""

    weights: Floats

    @property
    def score(self) -> float:
        """Median of the thresholds up to 100; higher ones mean "never".

        The mean would be sensitive to small weights far away.
        """
        within = np.where(_thresholds() < FULL, self.weights, 0.0)
        return float(_quantiles(within / within.sum(), 0.5)[0])

    @property
    def error(self) -> float:
        """Standard error of a normal distribution with the same 90 % interval."""
        low, high = np.minimum(_quantiles(self.weights, 0.05, 0.95), FULL)
        return max(MIN_ERROR, float((high - low) / (2.0 * HALF_WIDTH_90)))

    def is_known(self, resolution: float) -> bool:
        """Whether the error is small enough; "never" requires samples at full intensity."""
        never = float(self.weights[_thresholds() > FULL].sum())
        return self.error <= resolution and never < NEVER

    @property
    def level(self) -> int:
        """Next intensity: the median of the posterior."""
        (middle,) = _quantiles(self.weights, 0.5)
        return int(np.clip(round(middle), 1, FULL))


def _quantiles(weights: Floats, *shares: float) -> Floats:
    """Quantiles of the posterior."""
    edges = np.append(0.0, _thresholds() + STEP / 2.0)
    return np.interp(shares, np.append(0.0, np.cumsum(weights)), edges)


def _posterior(observed: _Samples) -> _Posterior:
    """Posterior weights of the thresholds, summed over the shapes of the curve.

    A mean is normally distributed around the curve, with the variance of the noise plus the model
    error, which grows with the distance from 95 %. A curve of any shape is above 95 % up to the
    threshold and below it afterwards, so a mean on the wrong side is due to noise alone.
    """
    variance, _ = observed.noise()
    levels = list(observed.at)
    curves = _curves()[levels]
    means = np.array([level.mean for level in observed.at.values()])[:, None]
    noise = variance / np.array([level.count for level in observed.at.values()])[:, None]
    spread = noise + np.maximum(_model_error()[levels], _misfit(means))
    wrong = np.where((curves > QOS) == (means > QOS), 0.0, (means - QOS) ** 2 / noise)
    distances = np.maximum((means - curves) ** 2 / spread, wrong).sum(axis=0)
    # a single logarithm: a product of at most fifteen variances does not underflow
    fit = -0.5 * (distances + np.log(spread.prod(axis=0)))
    weights = np.exp(fit - fit.max()).reshape(-1, len(_thresholds())).sum(axis=0)
    return _Posterior(weights / weights.sum())


def _misfit(performance: Floats) -> Floats:
    """Variance of the model error."""
    distance = np.abs(performance - QOS)
    return np.asarray((MISFIT[0] * distance + MISFIT[1] * distance**2) ** 2)


@lru_cache(maxsize=1)
def _thresholds() -> Floats:
    """(T,) candidate thresholds."""
    return as_readonly(np.arange(STEP / 2.0, BEYOND, STEP))


@lru_cache(maxsize=1)
def _curves() -> Floats:
    """(101, shapes x T) performance at each whole intensity, for every shape and threshold.

    1 - 0.05 (x/t)^knee up to the threshold t, then 0.95 exp(-(x - t) / decay).
    """
    x = np.arange(FULL + 1.0)[:, None, None, None]
    knee, decay = np.array(KNEES)[:, None, None], np.array(DECAYS)[:, None]
    t = _thresholds()
    below = 1.0 - (1.0 - QOS) * np.minimum(x / t, 1.0) ** knee
    return as_readonly((below * np.exp(-np.maximum(x - t, 0.0) / decay)).reshape(FULL + 1, -1))


@lru_cache(maxsize=1)
def _model_error() -> Floats:
    """(101, shapes x T) variance of the model error of each curve."""
    return as_readonly(_misfit(_curves()))
