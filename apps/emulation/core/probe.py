"""Profiling runs on emulated servers: what a sandboxed copy of an application shows in a minute.

Source: Paragon §3.3 and P3 (microbenchmarks), Quasar §3.2-3.4 (which runs). Every number comes
out of noisy samples, never straight from the truth.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from apps.common.core.interference import N_SOURCES, SOURCES
from apps.emulation.core.truth import QOS, Truth, interference_factor
from apps.inventory.core.snapshot import Floats

SAMPLES: Final = 8
SAMPLE_S: Final = 1.5
SAMPLE_NOISE: Final = 0.04  # of one sample of a rate
SETUP_S: Final = (3.0, 10.0)  # copying and warming up, uniform
RAMP_STEP: Final = 5.0  # intensity points
RAMP_NOISE: Final = 0.005  # of the mean of one step, relative to isolation
RAMP_STEP_S: Final = 0.5
SIZES: Final = (1, 2, 4, 8, 16, 32)  # columns of the two scaling matrices


@dataclass(frozen=True, slots=True)
class ProbeRun:
    """One short run.

    Attributes
    ----------
    platform : name; the highest-end one unless it explores another
    servers, units : how many servers, and units on each
    sources : sources of interference whose microbenchmarks it carries, one after the other
    """

    platform: str
    servers: int
    units: int
    sources: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Measured:
    """One cell of one utility matrix.

    Attributes
    ----------
    matrix, column : e.g. ("scale_up", "8"); see docs/emulation.md for the units of each matrix
    standard_error : of `value`, in its unit
    """

    matrix: str
    column: str
    value: float
    standard_error: float
    samples: int


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """What a set of runs at the same time measured, and how many cluster seconds it took."""

    cells: tuple[Measured, ...]
    duration_s: float


@dataclass(frozen=True, slots=True)
class _Rate:
    """Mean speed of one run, 1 = one unit of the highest-end platform, and its error."""

    value: float
    error: float

    def over(self, other: "_Rate") -> tuple[float, float]:
        """Quotient and its standard error, to first order."""
        quotient = self.value / other.value
        relative = np.hypot(self.error / self.value, other.error / other.value)
        return quotient, float(quotient * relative)


def probe(truth: Truth, runs: Sequence[ProbeRun], rng: np.random.Generator) -> ProbeResult:
    """Run a plan, all its runs at once.

    Parameters
    ----------
    runs : among them one unit of the highest-end platform, to which other sizes are compared; a
        run on another platform or on several servers is compared to the one of as many units

    Raises
    ------
    ValueError : no such run, or an unknown platform or source.
    """
    best = truth.catalogue.names[truth.catalogue.reference]
    base = next((i for i, r in enumerate(runs) if r == _alone(best, r.sources)), None)
    if base is None:
        raise ValueError(f"a plan needs a run of one unit on {best}, got {list(runs)}")
    rates = [_sampled(_true_rate(truth, run), rng) for run in runs]
    cells = _base_cells(truth, rates[base])
    for run, rate in zip(runs, rates, strict=True):
        cells += _scaling_cells(run, rate, _Compared(best, runs, rates, rates[base]))
        for source in run.sources:
            cells += _interference_cells(truth, SOURCES.index(source), rng)
    ramps = max(len(run.sources) for run in runs)
    steps = 2 * (100.0 / RAMP_STEP + 1.0)
    duration = rng.uniform(*SETUP_S) + SAMPLES * SAMPLE_S + ramps * steps * RAMP_STEP_S
    return ProbeResult(cells=tuple(cells), duration_s=float(duration))


def exhaustive(truth: Truth, rng: np.random.Generator) -> tuple[Measured, ...]:
    """Every column of every matrix, with the same noise: the offline library of P1 and Q2."""
    best = truth.catalogue.names[truth.catalogue.reference]
    runs = [ProbeRun(best, 1, 1, SOURCES)]
    runs += [ProbeRun(best, 1, units) for units in SIZES[1:]]
    runs += [ProbeRun(best, servers, 1) for servers in SIZES[1:]]
    runs += [ProbeRun(name, 1, 1) for name in truth.catalogue.names if name != best]
    return probe(truth, runs, rng).cells


def _alone(platform: str, sources: tuple[str, ...]) -> ProbeRun:
    return ProbeRun(platform, 1, 1, sources)


def _true_rate(truth: Truth, run: ProbeRun) -> float:
    """Speed of a run in isolation, relative to one unit of the highest-end platform."""
    if run.platform not in truth.catalogue.names:
        raise ValueError(f"unknown platform {run.platform!r}")
    speed = float(truth.platform_speed[truth.catalogue.names.index(run.platform)])
    out = truth.scale_out.speed_up(run.servers)
    return speed * truth.scale_up.speed_up(run.units) * out


def _sampled(rate: float, rng: np.random.Generator) -> _Rate:
    samples = rate * rng.lognormal(0.0, SAMPLE_NOISE, SAMPLES)
    return _Rate(float(samples.mean()), float(samples.std(ddof=1) / np.sqrt(SAMPLES)))


def _base_cells(truth: Truth, rate: _Rate) -> list[Measured]:
    return [
        Measured("base_rate", column, rate.value * scale, rate.error * scale, SAMPLES)
        for column, scale in (("metric", truth.metric_per_s), ("bytes", truth.bytes_per_s))
    ]


@dataclass(frozen=True, slots=True)
class _Compared:
    """What a run's rate is compared to."""

    best: str
    runs: Sequence[ProbeRun]
    rates: Sequence[_Rate]
    base: _Rate

    def same_size(self, run: ProbeRun) -> _Rate | None:
        """Rate of the same units on one server of the highest-end platform."""
        for other, rate in zip(self.runs, self.rates, strict=True):
            if (other.platform, other.servers, other.units) == (self.best, 1, run.units):
                return rate
        return None


def _scaling_cells(run: ProbeRun, rate: _Rate, to: _Compared) -> list[Measured]:
    """Heterogeneity, scale-up or scale-out cell of one run; two of them are 1 by definition."""
    if run.platform == to.best and run.servers == 1:
        if rate is to.base:
            one = Measured("scale_up", "1", 1.0, 0.0, SAMPLES)
            return [
                one,
                Measured("scale_out", "1", 1.0, 0.0, SAMPLES),
                Measured("heterogeneity", run.platform, 1.0, 0.0, SAMPLES),
            ]
        return [Measured("scale_up", str(run.units), *rate.over(to.base), SAMPLES)]
    like = to.same_size(run)
    if like is None:
        raise ValueError(f"no run of {run.units} units on {to.best} to compare {run} to")
    value, error = rate.over(like)
    if run.servers == 1:
        return [Measured("heterogeneity", run.platform, value, error, SAMPLES)]
    n = run.servers
    return [Measured("scale_out", str(n), value / n, error / n, SAMPLES)]


def _interference_cells(truth: Truth, source: int, rng: np.random.Generator) -> list[Measured]:
    """Both scores of one source: where the job loses 5 %, and where the microbenchmark does."""
    name = SOURCES[source]
    tolerated, t_error = _ramp(float(truth.tolerated[source]), rng)
    intensity, c_error = _ramp(100.0 - float(truth.caused[source]), rng)
    steps = int(100.0 / RAMP_STEP) + 1
    return [
        Measured("tolerated", name, tolerated, t_error, steps),
        Measured("caused", name, 100.0 - intensity, c_error, steps),
    ]


def _ramp(tolerated: float, rng: np.random.Generator) -> tuple[float, float]:
    """Intensity at which performance is first seen below 95 % of isolation, and its error.

    Steps of 5 points, linear between the last step above and the first below; 100 if never.
    """
    levels = np.arange(0.0, 100.0 + RAMP_STEP, RAMP_STEP)
    seen = _alone_under(levels, tolerated) + rng.normal(0.0, RAMP_NOISE, len(levels))
    seen[0] = 1.0
    below = np.flatnonzero(seen < QOS)
    if len(below) == 0:
        return 100.0, RAMP_STEP / 2.0
    last, first = below[0] - 1, below[0]
    slope = (seen[last] - seen[first]) / RAMP_STEP
    return float(levels[last] + (seen[last] - QOS) / slope), float(RAMP_NOISE / slope)


def _alone_under(levels: Floats, tolerated: float) -> Floats:
    """(n,) performance when one source is pressed at these levels and the others not at all."""
    pressure = np.zeros((len(levels), N_SOURCES))
    pressure[:, 0] = levels
    scores = np.full(N_SOURCES, 100.0)
    scores[0] = tolerated
    return interference_factor(pressure, scores)
