"""Choose the arrival process of a trace, by its counts per minute and its held-out gaps."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
import scipy

from apps.testbed.core.arrival_gaps import fit_gaps, minute_of
from apps.testbed.core.arrivals import (
    HOURS,
    MINUTE_S,
    Diurnal,
    Modulated,
    Poisson,
    Process,
    arrivals,
)
from apps.testbed.core.fitting import ks_distance
from apps.testbed.core.traces import Bools, Floats, Ints

FOLDS: Final = 5
WINDOW_MINUTES: Final = 10  # of a held-out window, at least
WINDOW_JOBS: Final = 50  # mean number of arrivals in it, at least
FAR: Final = 1.5  # times the distance of two samples of one distribution
SEED: Final = 2011  # of the draws that are compared with the held-out arrivals


@dataclass(frozen=True, slots=True, eq=False)
class HeldOut:
    """Times between arrivals of held-out windows against draws of a process fitted to the others.

    Attributes
    ----------
    distance : (folds,) Kolmogorov-Smirnov
    same : (folds,) that two samples of one distribution reach in 95 % of cases
    """

    distance: Floats
    same: Floats

    @property
    def is_far(self) -> bool:
        """Whether the process does not draw such times."""
        return bool((self.distance / self.same).mean() > FAR)


FitProcess = Callable[[Floats, float, Bools | None], Process | None]


def fit_process(submit_s: Floats, span_s: float) -> Process:
    """Choose a process for (n,) non-decreasing arrivals in [0, span].

    Among Poisson, modulated and diurnal, the BIC of the counts per minute decides. It gives way to
    `Gaps` if it is far from the held-out times between arrivals, and `Gaps` is nearer.
    """
    by_rates = fit_rates(submit_s, span_s)
    by_gaps = fit_gaps(submit_s, span_s)
    rates, gaps = (held_out(submit_s, span_s, fit) for fit in (fit_rates, fit_gaps))
    if by_gaps is None or rates is None or gaps is None or not rates.is_far:
        return by_rates
    return by_gaps if gaps.distance.mean() < rates.distance.mean() else by_rates


def held_out(submit_s: Floats, span_s: float, fit: FitProcess) -> HeldOut | None:
    """Cross-validate a fit: every fifth window is held out in turn; None with too few arrivals."""
    minutes = max(1, int(np.ceil(span_s / MINUTE_S)))
    length = max(WINDOW_MINUTES, int(np.ceil(WINDOW_JOBS * minutes / max(submit_s.size, 1))))
    if minutes <= (FOLDS - 1) * length:
        return None
    fold_of = (np.arange(minutes) // length) % FOLDS
    rng = np.random.default_rng(SEED)
    rows = []
    for fold in range(FOLDS):
        is_held = fold_of == fold
        process = fit(submit_s, span_s, ~is_held)
        if process is None:
            return None
        source = gaps_within(submit_s, is_held)
        drawn = gaps_within(arrivals(process, submit_s.size, span_s, rng), is_held)
        if not source.size or not drawn.size:
            return None
        same = 1.358 * np.sqrt(1.0 / source.size + 1.0 / drawn.size)
        rows.append((ks_distance(source, drawn), same))
    distance, same = np.array(rows).T
    return HeldOut(distance, same)


def gaps_within(submit_s: Floats, is_kept: Bools) -> Floats:
    """Return the times between arrivals that both lie in the kept minutes."""
    kept = is_kept[minute_of(submit_s, is_kept.size)]
    return np.diff(submit_s)[kept[:-1] & kept[1:]]


def fit_rates(submit_s: Floats, span_s: float, is_kept: Bools | None = None) -> Process:
    """Choose among Poisson, modulated and diurnal by the BIC of the counts per minute.

    The modulated process is fitted by its spells above and below the mean count; its likelihood is
    that of independent minutes.

    Parameters
    ----------
    is_kept : (minutes of the span,) minutes to fit to; None = all
    """
    counts, hour = _counts(submit_s, span_s, is_kept)
    candidates: list[tuple[float, Process]] = [
        (_criterion(counts, np.full(counts.size, counts.mean()), np.inf, 1), Poisson())
    ]
    diurnal = _fit_diurnal(counts, hour)
    expected = np.array(diurnal.hours)[hour]
    hours = min(HOURS, -(-max(1, int(np.ceil(span_s / MINUTE_S))) // 60))
    candidates.append((_criterion(counts, expected, diurnal.shape, hours + 1), diurnal))
    modulated = _fit_modulated(counts)
    if modulated is not None:
        candidates.append((_mixture_criterion(counts, modulated), modulated))
    return min(candidates, key=lambda each: each[0])[1]


def fit_poisson(submit_s: Floats, span_s: float, is_kept: Bools | None = None) -> Process:
    """Return the process of one rate; see `fit_rates`."""
    return Poisson()


def fit_diurnal(submit_s: Floats, span_s: float, is_kept: Bools | None = None) -> Process:
    """Fit a rate for each hour of the day; see `fit_rates`."""
    return _fit_diurnal(*_counts(submit_s, span_s, is_kept))


def fit_modulated(submit_s: Floats, span_s: float, is_kept: Bools | None = None) -> Process | None:
    """Fit calm and bursts; None if there is no burst. See `fit_rates`."""
    return _fit_modulated(_counts(submit_s, span_s, is_kept)[0])


def _counts(submit_s: Floats, span_s: float, is_kept: Bools | None) -> tuple[Floats, Ints]:
    """(minutes,) arrivals in each kept minute, and its hour of the day."""
    minutes = max(1, int(np.ceil(span_s / MINUTE_S)))
    counts = np.bincount(minute_of(submit_s, minutes), minlength=minutes).astype(np.float64)
    hour = (np.arange(minutes) // 60) % HOURS
    return (counts, hour) if is_kept is None else (counts[is_kept], hour[is_kept])


def _fit_diurnal(counts: Floats, hour: Ints) -> Diurnal:
    """Mean count by hour of the day; the shape by moments: variance = m + m²/shape."""
    number = np.bincount(hour, minlength=HOURS)
    mean = np.bincount(hour, counts, HOURS) / np.maximum(number, 1)
    mean[number == 0] = counts.mean()
    expected = mean[hour]
    excess = float(((counts - expected) ** 2 - expected).sum())
    shape = float((expected**2).sum() / excess) if excess > 0.0 else np.inf
    return Diurnal(tuple(mean.tolist()), shape)


def _fit_modulated(counts: Floats) -> Modulated | None:
    """States by the mean count; None if there is no burst, or no calm rate."""
    is_burst = counts > counts.mean()
    high, low = counts[is_burst].mean() if is_burst.any() else 0.0, counts[~is_burst].mean()
    changes = int(np.count_nonzero(np.diff(is_burst)))
    if low <= 0.0 or high <= low or changes < 2:
        return None
    spells = (changes + 1) / 2.0
    calm, burst = float((~is_burst).sum()) / spells, float(is_burst.sum()) / spells
    return Modulated(float(high / low), max(calm, 1.0), max(burst, 1.0))


def _criterion(counts: Floats, expected: Floats, shape: float, parameters: int) -> float:
    """BIC of Poisson counts (infinite shape) or negative binomial ones."""
    from_hours = np.maximum(expected, 1e-12)
    log = (
        scipy.stats.poisson.logpmf(counts, from_hours)
        if np.isinf(shape)
        else scipy.stats.nbinom.logpmf(counts, shape, shape / (shape + from_hours))
    )
    return parameters * float(np.log(counts.size)) - 2.0 * float(log.sum())


def _mixture_criterion(counts: Floats, process: Modulated) -> float:
    share = process.burst_minutes / (process.calm_minutes + process.burst_minutes)
    low = counts.mean() / (1.0 - share + share * process.ratio)
    parts = [
        np.log(weight) + scipy.stats.poisson.logpmf(counts, rate)
        for weight, rate in ((1.0 - share, low), (share, low * process.ratio))
    ]
    return 4.0 * float(np.log(counts.size)) - 2.0 * float(np.logaddexp(*parts).sum())
