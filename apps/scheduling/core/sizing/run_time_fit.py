"""Run times given their predictions, fitted to jobs that have ended and jobs that still run.

Of the jobs that started in the last hours, the short ones have ended. A fit to these alone says
that runs are shorter than they are, above all while the cluster fills. A job that still runs
therefore counts as one that takes longer than it has run (a right-censored observation).

A fit to few jobs is uncertain, and its error has the same direction for all jobs of a queue. Each
simulation therefore draws another line.

Sources: expectation-maximization of a censored normal regression (Tobit) in logarithms (Dempster,
Laird and Rubin 1977); quantiles of its errors by Kaplan and Meier 1958; the variance of the line
is the inverse of its observed information (Efron and Hinkley 1978).
"""

from collections.abc import Sequence
from statistics import NormalDist
from typing import Final, NamedTuple

import numpy as np
from scipy.special import log_ndtr

from apps.inventory.core.snapshot import Bools, Floats

QUANTILES: Final = 64  # of a distribution of run times
ENOUGH: Final = 30  # ended jobs of a class whose history replaces predicted intervals
MIN_SPREAD: Final = 0.01  # variance of the log of predictions below which the slope is 1
STEPS: Final = 60  # of the expectation-maximization at most
CLOSE: Final = 1e-4  # change of offset and slope at which it ends
MIDDLES: Final = np.array([(i + 0.5) / QUANTILES for i in range(QUANTILES)])
NORMAL: Final = np.array([NormalDist().inv_cdf(q) for q in MIDDLES])
CERTAIN: Final = np.zeros(2)


class RunTimeFit(NamedTuple):
    """Run times given their predictions: log run time = offset + slope x log prediction + error.

    The slope is below 1 if large predictions are more often too large than small ones.

    Attributes
    ----------
    errors : (Q,) quantiles of the error, ascending
    centre : log prediction at which the line is known best
    uncertainty : (2,) standard errors of the line's value at the centre, and of its slope; they
        are uncorrelated there
    """

    offset: float
    slope: float
    errors: Floats
    centre: float = 0.0
    uncertainty: Floats = CERTAIN

    def drawn(self, rng: np.random.Generator, draws: int) -> "DrawnLines":
        """Draw lines that the jobs do not rule out."""
        value, slope = self.uncertainty[:, None] * rng.standard_normal((2, draws))
        return DrawnLines(self.centre, value, slope)


class DrawnLines(NamedTuple):
    """Differences of drawn lines from the fitted one.

    Attributes
    ----------
    value, slope : (draws,) at the centre
    """

    centre: float
    value: Floats
    slope: Floats

    def factors(self, predicted_s: Floats) -> Floats:
        """(draws, n) by which the run times with n predictions differ from the fit."""
        away = np.log(predicted_s) - self.centre
        factors: Floats = np.exp(self.value[:, None] + self.slope[:, None] * away)
        return factors


class _Line(NamedTuple):
    offset: float
    slope: float

    def at(self, x: Floats) -> Floats:
        values: Floats = self.offset + self.slope * x
        return values


def fit_run_times(
    predicted: Floats, seconds: Floats, running: Sequence[tuple[float, float]] = ()
) -> RunTimeFit | None:
    """Fit run times to their predictions; None if too few jobs have ended. O(n log n).

    Parameters
    ----------
    predicted, seconds : (n,) of ended jobs, > 0
    running : prediction and elapsed seconds, > 0, of jobs that still run
    """
    if predicted.size < ENOUGH:
        return None
    late = np.array(running, dtype=np.float64).reshape(-1, 2)
    x = np.log(np.concatenate([predicted, late[:, 0]]))
    y = np.log(np.concatenate([seconds, late[:, 1]]))
    has_ended = np.arange(x.size) < predicted.size
    line, spread = _regression(x, y, has_ended)
    errors = _quantiles(y - line.at(x), has_ended, spread)
    centre, uncertainty = _uncertainty(x, y - line.at(x), has_ended, spread)
    return RunTimeFit(line.offset, line.slope, errors, centre, uncertainty)


def fit_recent(
    ended: Sequence[tuple[float, float, float]],
    running: Sequence[tuple[float, float]],
    span_s: float,
) -> RunTimeFit | None:
    """Fit the jobs that started within a span; all ended ones if too few of these have ended.

    Jobs that ended within the span are a fair sample of a steady cluster only. Those that started
    within it, ended or not, are one of any cluster.

    Parameters
    ----------
    ended : prediction, run time and seconds since the start
    running : prediction and elapsed seconds
    """
    recent = [each for each in ended if each[2] <= span_s]
    late = [each for each in running if each[1] <= span_s]
    if len(recent) < ENOUGH:
        recent, late = list(ended), []
    known = np.array(recent, dtype=np.float64).reshape(-1, 3)
    return fit_run_times(known[:, 0], known[:, 1], late)


def _regression(x: Floats, y: Floats, has_ended: Bools) -> tuple[_Line, float]:
    """Return the line, and the standard deviation of the errors."""
    line = _least_squares(x[has_ended], y[has_ended])
    spread = float(np.std(y[has_ended] - line.at(x[has_ended])))
    censored = ~has_ended
    if not censored.any() or spread <= 0.0:
        return line, spread
    expected, variance = y.copy(), np.zeros(y.size)
    for _ in range(STEPS):
        mean = line.at(x[censored])
        z = (y[censored] - mean) / spread
        hazard = _hazard(z)
        expected[censored] = mean + spread * hazard
        variance[censored] = spread**2 * np.maximum(0.0, 1.0 + z * hazard - hazard**2)
        before, line = line, _least_squares(x, expected)
        spread = float(np.sqrt(((expected - line.at(x)) ** 2 + variance).mean()))
        if np.abs(np.subtract(line, before)).max() < CLOSE:
            break
    return line, spread


def _hazard(z: Floats) -> Floats:
    """Mean of a normal value beyond z; by logarithms, so that it stays finite."""
    hazard: Floats = np.exp(-0.5 * z * z - 0.5 * np.log(2.0 * np.pi) - log_ndtr(-z))
    return hazard


def _uncertainty(
    x: Floats, errors: Floats, has_ended: Bools, spread: float
) -> tuple[float, Floats]:
    """Return the centre of the line, and the standard errors of its value there and of its slope.

    By their observed information, given the spread. A slope that is not fitted, as the predictions
    are almost equal, is certain.
    """
    if spread <= 0.0:
        return 0.0, CERTAIN
    beyond = np.where(has_ended, 0.0, errors / spread)
    hazard = _hazard(beyond)
    weight = np.where(has_ended, 1.0, hazard * (hazard - beyond))  # of an ended job
    centre = float((weight * x).sum() / weight.sum())
    of_slope = float((weight * (x - centre) ** 2).sum())
    is_fitted = x.var() > MIN_SPREAD
    return centre, spread * np.array([weight.sum() ** -0.5, of_slope**-0.5 if is_fitted else 0.0])


def _least_squares(x: Floats, y: Floats) -> _Line:
    variance, slope = float(x.var()), 1.0
    if variance > MIN_SPREAD:
        slope = float(np.clip(((x - x.mean()) * y).mean() / variance, 0.0, 1.0))
    return _Line(float(y.mean() - slope * x.mean()), slope)


def _quantiles(errors: Floats, has_ended: Bools, spread: float) -> Floats:
    """(Q,) quantiles of errors; those that no ended job reaches follow a normal distribution."""
    if has_ended.all():
        quantiles: Floats = np.quantile(errors, MIDDLES)
        return quantiles
    order = np.lexsort((~has_ended, errors))
    errors, ended = errors[order], has_ended[order]
    at_risk = errors.size - np.arange(errors.size)
    survival = np.cumprod(np.where(ended, 1.0 - 1.0 / at_risk, 1.0))
    before = np.concatenate([[1.0], survival[:-1]])
    reached = 1.0 - 0.5 * (before + survival)[ended]  # the middle of each step
    found = np.interp(MIDDLES, reached, errors[ended])
    beyond = reached[-1] < MIDDLES
    found[beyond] = np.maximum(found[beyond], spread * NORMAL[beyond])
    ascending: Floats = np.maximum.accumulate(found)
    return ascending
