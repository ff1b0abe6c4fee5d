"""Microbenchmarks that run with an emulated application to measure its scores (P3).

`profiling.core.ramp` controls the ramps, as on real servers; this module supplies the samples.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Final

import numpy as np

from apps.common.core.interference import N_SOURCES, SOURCES
from apps.emulation.core.probe_runs import ProbeRun
from apps.emulation.core.truth import PAPER_CURVES, Curves, Truth, interference_factor
from apps.inventory.core.snapshot import Floats
from apps.profiling.core.measurements import MeasuredCell, MissingCell
from apps.profiling.core.plan import fits_another_source
from apps.profiling.core.ramp import (
    ProbeFailedError,
    RampFailure,
    RampResult,
    Sampler,
    find_threshold,
)

SAMPLE_S: Final = 0.5  # cluster seconds of one sample


def tolerated(
    truth: Truth, source: str, rng: np.random.Generator, failures: float
) -> RampResult | RampFailure:
    """Find the intensity at which the application loses 5 %."""
    i = SOURCES.index(source)
    victim = _Victim(float(truth.tolerated[i]), truth.curves, i, truth.noise.ramp)
    return find_threshold(_sampler(victim, rng, failures))


def caused(
    truth: Truth, source: str, rng: np.random.Generator, failures: float
) -> RampResult | RampFailure:
    """Find 100 minus the intensity at which the microbenchmark itself loses 5 %.

    The curve of a microbenchmark is that of the `paper` world in every world.
    """
    i = SOURCES.index(source)
    victim = _Victim(100.0 - float(truth.caused[i]), PAPER_CURVES, i, truth.noise.ramp)
    result = find_threshold(_sampler(victim, rng, failures))
    if isinstance(result, RampFailure):
        return result
    return RampResult(100.0 - result.value, result.standard_error, result.samples)


def single_source_performance(
    intensity: float, threshold: float, curves: Curves = PAPER_CURVES, source: int = 0
) -> float:
    """Relative performance under interference from a single source, 0-1."""
    pressure, scores = np.zeros(N_SOURCES), np.full(N_SOURCES, 100.0)
    pressure[source], scores[source] = intensity, threshold
    return float(interference_factor(pressure, scores, curves))


@dataclass(frozen=True, slots=True)
class _Victim:
    """A program under one source: where it loses 5 %, its curves, and the noise of a sample."""

    threshold: float
    curves: Curves
    source: int
    noise: float

    def performance(self, intensity: float) -> float:
        return single_source_performance(intensity, self.threshold, self.curves, self.source)


def _sampler(victim: _Victim, rng: np.random.Generator, failures: float) -> Sampler:
    """Sampler of a victim's performance; some victims die after the first sample."""
    dies, calls = rng.random() < failures, count()

    def sample(intensity: int, n: int) -> Floats:
        if next(calls) and dies:
            raise ProbeFailedError("the microbenchmark died")
        return victim.performance(float(intensity)) + rng.normal(0.0, victim.noise, n)

    return sample


# ---- the sources of one run ----

Ramp = Callable[[Truth, str, np.random.Generator, float], RampResult | RampFailure]
SCORES: Final[tuple[tuple[str, Ramp], ...]] = (("tolerated", tolerated), ("caused", caused))


@dataclass(frozen=True, slots=True)
class MeasuredSource:
    """The measured scores of one source.

    Attributes
    ----------
    at_s : cluster seconds since the start of the run
    sources : expected number of sources that the run will measure
    """

    at_s: float
    name: str
    cells: tuple[MeasuredCell, ...]
    missing: tuple[MissingCell, ...]
    sources: int

    def __str__(self) -> str:
        scores = [f"{x.matrix} {x.value:.0f} ± {x.standard_error:.1f}" for x in self.cells]
        missing = [f"{x.matrix} missing, {x.reason}" for x in self.missing]
        return f"{self.name}: {', '.join([*scores, *missing])}"


@dataclass(frozen=True, slots=True)
class Ramps:
    """The microbenchmarks of one run, in sequence.

    Attributes
    ----------
    budget_s : as in `probe.probe_steps`
    """

    truth: Truth
    rng: np.random.Generator
    failures: float
    budget_s: float | None

    def sources(self, run: ProbeRun, at_s: float) -> Iterator[MeasuredSource]:
        """Measure the sources that fit the budget, starting at `at_s`."""
        names = run.sources if self.budget_s is None else (*run.sources, *run.spare)
        continues = self._has_time(run, 0, names, at_s)
        done = 0
        while continues:
            name, done = names[done], done + 1
            results = [
                (matrix, ramp(self.truth, name, self.rng, self.failures))
                for matrix, ramp in _scores(run, done)
            ]
            at_s += SAMPLE_S * sum(result.samples for _, result in results)
            continues = self._has_time(run, done, names, at_s)
            cells = tuple(
                MeasuredCell(matrix, name, result.value, result.standard_error, result.samples)
                for matrix, result in results
                if isinstance(result, RampResult)
            )
            missing = tuple(
                MissingCell(matrix, name, result.reason)
                for matrix, result in results
                if isinstance(result, RampFailure)
            )
            total = max(done + 1, min(len(run.sources), len(names))) if continues else done
            yield MeasuredSource(at_s, name, cells, missing, total)

    def _has_time(self, run: ProbeRun, done: int, names: Sequence[str], at_s: float) -> bool:
        if done == len(names):
            return False
        return self.budget_s is None or fits_another_source(
            done, at_s, self.budget_s, is_alternating=run.is_alternating
        )


def _scores(run: ProbeRun, number: int) -> tuple[tuple[str, Ramp], ...]:
    """Scores to measure of the ``number``-th source, counted from 1."""
    return SCORES if not run.is_alternating else (SCORES[(number - 1) % 2],)
