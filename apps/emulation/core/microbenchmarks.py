"""Microbenchmarks beside an emulated application: the two scores of one source (P3).

How far to ramp is decided by `profiling.core.ramp`, as on real servers; here is what it sees.
"""

from itertools import count
from typing import Final

import numpy as np

from apps.common.core.interference import N_SOURCES, SOURCES
from apps.emulation.core.truth import Truth, interference_factor
from apps.inventory.core.snapshot import Floats
from apps.profiling.core.ramp import (
    Missing,
    ProbeFailedError,
    Sampler,
    Threshold,
    find_threshold,
)

SAMPLE_S: Final = 0.5  # cluster seconds of one sample
NOISE: Final = 0.005  # of one sample, relative to isolation


def tolerated(
    truth: Truth, source: str, rng: np.random.Generator, failures: float
) -> Threshold | Missing:
    """Find the intensity at which the application loses 5 %."""
    return find_threshold(_sampler(float(truth.tolerated[SOURCES.index(source)]), rng, failures))


def caused(
    truth: Truth, source: str, rng: np.random.Generator, failures: float
) -> Threshold | Missing:
    """Find 100 minus the intensity at which the microbenchmark itself loses 5 %."""
    at = 100.0 - float(truth.caused[SOURCES.index(source)])
    found = find_threshold(_sampler(at, rng, failures))
    if isinstance(found, Missing):
        return found
    return Threshold(100.0 - found.value, found.standard_error, found.samples)


def under_one_source(intensity: float, threshold: float) -> float:
    """Return the performance when one source alone is pressed at this level, 0-1."""
    pressure, scores = np.zeros(N_SOURCES), np.full(N_SOURCES, 100.0)
    pressure[0], scores[0] = intensity, threshold
    return float(interference_factor(pressure, scores))


def _sampler(threshold: float, rng: np.random.Generator, failures: float) -> Sampler:
    """Make the samples of something that loses 5 % at this intensity; of some, only the first."""
    dies, calls = rng.random() < failures, count()

    def sample(intensity: int, n: int) -> Floats:
        if next(calls) and dies:
            raise ProbeFailedError("the microbenchmark died")
        return under_one_source(float(intensity), threshold) + rng.normal(0.0, NOISE, n)

    return sample
