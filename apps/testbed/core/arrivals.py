"""Arrival processes.

A process gives a rate for each minute; the number of jobs is fixed, and each job falls into a
minute by its rate and anywhere within it, or at the gaps of `Gaps`. So the knobs work on all
processes alike: ``scale`` multiplies the number of jobs in the same time, ``burst`` adds variance
to the rate of the minutes.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from apps.testbed.core.arrival_gaps import Gaps
from apps.testbed.core.traces import Floats

HOUR_S: Final = 3600.0
MINUTES: Final = 60  # of an hour
MINUTE_S: Final = 60.0
HOURS: Final = 24


@dataclass(frozen=True, slots=True)
class Poisson:
    """The same rate at all times."""

    def rates(self, minutes: int, rng: np.random.Generator) -> Floats:
        """(minutes,) relative rates."""
        return np.ones(minutes)


@dataclass(frozen=True, slots=True)
class Regular:
    """Equal intervals, with a normal deviation of each relative to the interval."""

    deviation: float = 0.0


@dataclass(frozen=True, slots=True)
class Modulated:
    """Markov-modulated Poisson process of two states: calm and burst.

    Attributes
    ----------
    ratio : rate in a burst over the rate in calm, >= 1
    calm_minutes, burst_minutes : mean length of each state, >= 1
    """

    ratio: float
    calm_minutes: float
    burst_minutes: float

    def rates(self, minutes: int, rng: np.random.Generator) -> Floats:
        """(minutes,) relative rates."""
        lengths = self.calm_minutes, self.burst_minutes
        rates = np.empty(minutes)
        state = int(rng.random() < lengths[1] / sum(lengths))
        at = 0
        while at < minutes:
            stay = int(rng.geometric(1.0 / lengths[state]))
            rates[at : at + stay] = self.ratio if state else 1.0
            at, state = at + stay, 1 - state
        return rates


@dataclass(frozen=True, slots=True)
class Diurnal:
    """A rate for each hour of the day, and bursty minutes.

    Attributes
    ----------
    hours : 24 relative rates
    shape : Gamma shape of the rate of a minute; infinite = Poisson minutes
    """

    hours: tuple[float, ...]
    shape: float

    def rates(self, minutes: int, rng: np.random.Generator) -> Floats:
        """(minutes,) relative rates."""
        hour = (np.arange(minutes) // 60) % HOURS
        return np.array(self.hours)[hour] * gamma_weights(minutes, self.shape, rng)


Process = Poisson | Regular | Modulated | Diurnal | Gaps


def arrivals(
    process: Process, jobs: int, span_s: float, rng: np.random.Generator, *, burst: float = 0.0
) -> Floats:
    """Draw (jobs,) arrival times in [0, span_s), non-decreasing; `Regular` may end a little later.

    Parameters
    ----------
    burst : variance that is added to the relative rate of each minute; 0 = as the process
    """
    if isinstance(process, Regular) and burst == 0.0:
        return _regular(process, jobs, span_s, rng)
    minutes = max(1, int(np.ceil(span_s / MINUTE_S)))
    rates = np.ones(minutes) if isinstance(process, Regular) else process.rates(minutes, rng)
    rates *= np.diff(np.minimum(np.arange(minutes + 1) * MINUTE_S, span_s))
    if burst > 0.0:
        rates *= gamma_weights(minutes, 1.0 / burst, rng)
    if not rates.sum() > 0.0:
        rates = np.ones(minutes)  # a tiny shape may round every weight to zero
    if isinstance(process, Gaps):
        return _by_gaps(process, jobs, span_s, rates, rng)
    minute = rng.choice(minutes, size=jobs, p=rates / rates.sum())
    start = minute * MINUTE_S
    length = np.minimum(MINUTE_S, span_s - start)
    return np.sort(start + length * rng.random(jobs))


def _by_gaps(
    process: Gaps, jobs: int, span_s: float, rates: Floats, rng: np.random.Generator
) -> Floats:
    """Draw positions at equal rates, and stretch them to the rates of the minutes."""
    edges = np.minimum(np.arange(rates.size + 1) * MINUTE_S, span_s)
    share = np.concatenate(([0.0], np.cumsum(rates) / rates.sum()))
    times: Floats = np.interp(process.positions(jobs, rng), share, edges)
    step = process.resolution_s
    return np.floor(times / step) * step if step else times


def gamma_weights(count: int, shape: float, rng: np.random.Generator) -> Floats:
    """(count,) weights of mean 1 and variance 1 / shape."""
    return np.ones(count) if np.isinf(shape) else rng.gamma(shape, size=count) / shape


def _regular(process: Regular, jobs: int, span_s: float, rng: np.random.Generator) -> Floats:
    step = span_s / max(jobs, 1)
    gaps = np.maximum(rng.normal(step, process.deviation * step, jobs), 0.0)
    return np.concatenate(([0.0], np.cumsum(gaps)))[:jobs]


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
