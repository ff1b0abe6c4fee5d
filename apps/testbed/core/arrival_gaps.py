"""Arrivals by the times between them: their quantiles, their memory and the hours of the day.

Times are first stretched so that every hour of the day has the same rate. The gaps that remain
keep their distribution (an interpolation between quantiles, finer in the tail), and their normal
scores are sqrt(m) x + sqrt(1 - m) y: x is an autoregressive process of order 1, y white noise, so
that long gaps follow long ones (a Gaussian copula).
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
import scipy

from apps.testbed.core.traces import Bools, Floats

MINUTE_S: Final = 60.0
HOURS: Final = 24
DAY_MINUTES: Final = 1440
STEPS: Final = 128  # quantiles at equal steps; then halving steps up to the largest gap
LAGS: Final = 20  # autocorrelations that the memory is fitted to
PERSISTENCES: Final = np.round(np.concatenate((np.arange(0.0, 0.95, 0.05), [0.95, 0.98, 0.99])), 2)
MAX_MEMORY: Final = 0.99
QUIET: Final = 0.02  # smallest rate of an hour, relative to the mean


@dataclass(frozen=True, slots=True)
class Gaps:
    """Times between arrivals.

    Attributes
    ----------
    levels, gaps : quantiles of the gaps relative to their mean, both ascending; levels from 0 to 1
    memory : share of the variance of the normal scores that is autocorrelated, 0 to `MAX_MEMORY`
    persistence : autocorrelation of that share from one gap to the next, 0 to 1
    hours : 24 relative rates, above 0
    resolution_s : arrivals are multiples of it; 0 = any time
    """

    levels: tuple[float, ...]
    gaps: tuple[float, ...]
    memory: float
    persistence: float
    hours: tuple[float, ...]
    resolution_s: float

    def rates(self, minutes: int, rng: np.random.Generator) -> Floats:
        """(minutes,) relative rates by the hours of the day."""
        return np.array(self.hours)[(np.arange(minutes) // 60) % HOURS]

    def positions(self, jobs: int, rng: np.random.Generator) -> Floats:
        """(jobs,) arrivals in [0, 1), ascending from 0, at equal rates of all hours.

        The gaps are stratified: one from each of ``jobs`` equally probable ranges. So they fill
        the time as those of the source do, whose number of jobs is known too.
        """
        if not jobs:
            return np.empty(0)
        slow: Floats = scipy.signal.lfilter([1.0], [1.0, -self.persistence], rng.normal(size=jobs))
        slow *= np.sqrt(1.0 - min(self.persistence, MAX_MEMORY) ** 2)
        scores = np.sqrt(self.memory) * slow + np.sqrt(1.0 - self.memory) * rng.normal(size=jobs)
        level = (scipy.stats.rankdata(scores, "ordinal") - rng.random(jobs)) / jobs
        gaps = np.interp(level, self.levels, self.gaps)
        ends = np.cumsum(gaps)
        return (ends - gaps[0]) / max(float(ends[-1]), 1e-300) * (1.0 - 1e-12)


def fit_gaps(submit_s: Floats, span_s: float, is_kept: Bools | None = None) -> Gaps | None:
    """Fit to (n,) non-decreasing arrivals in [0, span]; None with too few gaps.

    Parameters
    ----------
    is_kept : (minutes of the span,) minutes to fit to; None = all. Gaps that begin or end in
        another minute are left out.
    """
    minutes = max(1, int(np.ceil(span_s / MINUTE_S)))
    kept = np.ones(minutes, dtype=np.bool_) if is_kept is None else is_kept
    resolution_s = float((submit_s == np.round(submit_s)).all())
    minute = minute_of(submit_s, minutes)
    hours = _hours(np.bincount(minute, minlength=minutes), kept)
    stretched = np.interp(submit_s, *_clock(hours, minutes))
    gaps = np.diff(stretched)[kept[minute[:-1]] & kept[minute[1:]]]
    if gaps.size < LAGS or not gaps.mean() > 0.0:
        return None
    tail = 1.0 - 0.5 ** np.arange(1, max(2, int(np.log2(gaps.size / STEPS)) + 1)) / STEPS
    levels = np.concatenate((np.arange(STEPS) / STEPS, tail[tail > 1.0 - 1.0 / STEPS], [1.0]))
    values = np.quantile(gaps / gaps.mean(), levels)
    memory, persistence = _memory(gaps)
    return Gaps(
        tuple(levels.tolist()),
        tuple(values.tolist()),
        memory,
        persistence,
        tuple(hours.tolist()),
        resolution_s,
    )


def minute_of(times: Floats, minutes: int) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    """(n,) minute of each time; the last one also has what is later."""
    return np.minimum((times / MINUTE_S).astype(np.int64), minutes - 1)


def _hours(counts: "np.ndarray[tuple[int], np.dtype[np.int64]]", kept: Bools) -> Floats:
    """(24,) relative rates of the hours; equal where the arrivals span less than a day."""
    if counts.size < DAY_MINUTES:
        return np.ones(HOURS)
    hour = (np.arange(counts.size) // 60) % HOURS
    number = np.maximum(np.bincount(hour[kept], minlength=HOURS), 1)
    mean = np.bincount(hour[kept], counts[kept].astype(np.float64), HOURS) / number
    relative: Floats = mean / mean.mean()
    return np.maximum(relative, QUIET)


def _clock(hours: Floats, minutes: int) -> tuple[Floats, Floats]:
    """Edges of the minutes, and the expected share of the arrivals before each."""
    rates = hours[(np.arange(minutes) // 60) % HOURS]
    edges: Floats = np.arange(minutes + 1, dtype=np.float64) * MINUTE_S
    return edges, np.concatenate((np.zeros(1), np.cumsum(rates) / float(rates.sum())))


def _memory(gaps: Floats) -> tuple[float, float]:
    """Least squares of m p^k to the autocorrelations of the normal scores at lags k."""
    scores = scipy.stats.norm.ppf((scipy.stats.rankdata(gaps) - 0.5) / gaps.size)
    scores -= scores.mean()
    lags = np.arange(1, min(LAGS, gaps.size // 2) + 1)
    found = np.array([(scores[lag:] * scores[:-lag]).mean() for lag in lags]) / scores.var()
    best = (float((found**2).sum()), 0.0, 0.0)
    for persistence in PERSISTENCES[1:].tolist():
        shape = persistence**lags
        memory = float(np.clip((found @ shape) / (shape @ shape), 0.0, MAX_MEMORY))
        best = min(best, (float(((found - memory * shape) ** 2).sum()), memory, persistence))
    return best[1], best[2]
