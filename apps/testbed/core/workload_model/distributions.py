"""Distributions of the quantities of a class of jobs.

Few different values are drawn with their frequencies (`Discrete`). Otherwise the smallest Bayesian
information criterion decides among families fitted by maximum likelihood, truncated at the
smallest and the largest value, and an interpolation between quantiles (`Quantiles`), which has
many parameters but also fits several peaks and frequent values.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import scipy

from apps.testbed.core.traces import Floats

DISCRETE_VALUES: Final = 20  # at most, of a discrete distribution
SMALLEST: Final = 1e-9
STEPS: Final = 32  # of `Quantiles`
PEAK: Final = 1e-3  # of a logarithm


@dataclass(frozen=True, slots=True)
class Discrete:
    """Values with their probabilities; ``values`` ascend."""

    values: tuple[float, ...]
    weights: tuple[float, ...]

    def quantile(self, u: Floats) -> Floats:
        """(n,) values at the quantiles u in [0, 1)."""
        total = np.cumsum(self.weights)
        place = np.searchsorted(total / total[-1], u, side="right")
        return np.array(self.values)[np.minimum(place, len(self.values) - 1)]


@dataclass(frozen=True, slots=True)
class Continuous:
    """A family of `FAMILIES`, truncated.

    Attributes
    ----------
    shape, scale : parameters of the family (`FAMILIES`)
    low, high : the smallest and the largest value
    """

    family: str
    shape: float
    scale: float
    low: float
    high: float

    def quantile(self, u: Floats) -> Floats:
        """(n,) values at the quantiles u in [0, 1)."""
        frozen = FAMILIES[self.family].frozen(self.shape, self.scale)
        first, last = frozen.cdf(self.low), frozen.cdf(self.high)
        values = frozen.ppf(first + u * (last - first))
        return np.clip(values, self.low, self.high)


@dataclass(frozen=True, slots=True)
class Quantiles:
    """Values > 0 at equal steps of probability, ascending; log-linear between them."""

    values: tuple[float, ...]

    def quantile(self, u: Floats) -> Floats:
        """(n,) values at the quantiles u in [0, 1)."""
        values = np.array(self.values)
        step, part = np.divmod(u * (values.size - 1), 1.0)
        low = values[step.astype(np.int64)]
        # exact where both ends of a step are one frequent value
        return low * (values[step.astype(np.int64) + 1] / low) ** part

    def log_density(self, x: Floats) -> Floats:
        """(n,) log density; a value that fills a step counts as a peak of width `PEAK`."""
        logs = np.log(self.values)
        step = np.clip(np.searchsorted(logs, np.log(x), side="right") - 1, 0, logs.size - 2)
        width = np.maximum(np.diff(logs), PEAK)[step]
        return -np.log(logs.size - 1) - np.log(width) - np.log(x)


Distribution = Discrete | Continuous | Quantiles


@dataclass(frozen=True, slots=True)
class Family:
    """One family: its number of parameters, its fit and its distribution."""

    parameters: int
    fit: Callable[[Floats], tuple[float, float]]
    frozen: Callable[[float, float], Any]


def _fit_lognormal(values: Floats) -> tuple[float, float]:
    logs = np.log(values)
    return float(max(logs.std(), 1e-6)), float(np.exp(logs.mean()))


def _fit_gamma(values: Floats) -> tuple[float, float]:
    """Maximum likelihood: log k - digamma(k) = log mean - mean log."""
    gap = max(float(np.log(values.mean()) - np.log(values).mean()), 1e-9)

    def error(log_k: float) -> float:
        k = np.exp(log_k)
        return float(np.log(k) - scipy.special.digamma(k) - gap)

    shape = float(np.exp(scipy.optimize.brentq(error, -15.0, 22.0)))
    return shape, float(values.mean()) / shape


def _fit_weibull(values: Floats) -> tuple[float, float]:
    """Maximum likelihood: sum x^k log x / sum x^k - 1/k = mean log x."""
    logs = np.log(values) - np.log(values).max()  # no overflow of x^k

    def error(k: float) -> float:
        weights = np.exp(k * logs)
        return float((weights * logs).sum() / weights.sum() - 1.0 / k - logs.mean())

    shape = float(scipy.optimize.brentq(error, 1e-3, 1e4))
    scale = np.exp(np.log(values).max()) * np.exp(shape * logs).mean() ** (1.0 / shape)
    return shape, float(scale)


def _fit_exponential(values: Floats) -> tuple[float, float]:
    return 1.0, float(values.mean())


FAMILIES: Final = {
    "exponential": Family(1, _fit_exponential, lambda _, scale: scipy.stats.expon(scale=scale)),
    "gamma": Family(2, _fit_gamma, lambda shape, scale: scipy.stats.gamma(shape, scale=scale)),
    "lognormal": Family(
        2, _fit_lognormal, lambda shape, scale: scipy.stats.lognorm(shape, scale=scale)
    ),
    "weibull": Family(
        2, _fit_weibull, lambda shape, scale: scipy.stats.weibull_min(shape, scale=scale)
    ),
}


def fitted(values: Floats) -> Distribution:
    """Fit a distribution to (n,) finite values, n >= 1.

    Positive values with many different ones get the family with the smallest BIC.
    """
    distinct, counts = np.unique(values, return_counts=True)
    if distinct.size <= DISCRETE_VALUES or distinct[0] < SMALLEST:
        return _discrete(values, distinct, counts.astype(np.float64))
    low, high, price = float(distinct[0]), float(distinct[-1]), np.log(values.size)
    free = Quantiles(tuple(np.quantile(values, np.linspace(0.0, 1.0, STEPS + 1)).tolist()))
    best: Distribution = free
    least = price * (STEPS - 1) - 2.0 * float(free.log_density(values).sum())
    for name, family in FAMILIES.items():
        shape, scale = family.fit(values)
        likelihood = float(family.frozen(shape, scale).logpdf(values).sum())
        criterion = price * family.parameters - 2.0 * likelihood
        if criterion < least:
            best, least = Continuous(name, shape, scale, low, high), criterion
    return best


def _discrete(values: Floats, distinct: Floats, counts: Floats) -> Discrete:
    """Frequencies; of too many values, those of as many equally probable groups."""
    if distinct.size > DISCRETE_VALUES:
        middle = (np.arange(DISCRETE_VALUES) + 0.5) / DISCRETE_VALUES
        at = np.quantile(values, middle, method="inverted_cdf")
        distinct, small = np.unique(at, return_counts=True)
        counts = small.astype(np.float64)
    weights = counts / counts.sum()
    return Discrete(tuple(distinct.tolist()), tuple(weights.tolist()))
