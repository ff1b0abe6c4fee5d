"""Predicted run time of a job: from its start to its end, in cluster seconds."""

import math
from dataclasses import replace
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np

from apps.classification.core.profile import Profile
from apps.scheduling.core.requests import work_of
from apps.scheduling.core.sizing.rate_grid import performance_grid
from apps.scheduling.core.sizing.sizes import ClusterFacts, Sized, Work
from apps.workloads.core.spec import JobSpec
from apps.workloads.core.targets import BestEffort, CompletionTime

KNOWN_SIZES: Final = 1024  # fixed sizes whose predictions are kept, 0.5 kB each


class RunTime(NamedTuple):
    """Predicted seconds, and the pessimistic end of their 90 % interval."""

    value: float
    high: float


def run_time(
    spec: JobSpec, profile: Profile, sized: Sized, facts: ClusterFacts, *, elapsed_s: float
) -> RunTime | None:
    """Predict the run time of a sized job; None if its end cannot be predicted.

    A fixed duration is an upper limit. A size that the submitter fixed has no prediction of its
    own, so that the slowest allowed platform is taken.

    Parameters
    ----------
    elapsed_s : cluster seconds from submission to the expected start, as given to sizing
    """
    predicted = _of_work(spec, profile, sized, facts, elapsed_s)
    if spec.duration_s is None:
        return predicted
    if predicted is None:
        return RunTime(spec.duration_s, spec.duration_s)
    return RunTime(min(predicted.value, spec.duration_s), min(predicted.high, spec.duration_s))


def _of_work(
    spec: JobSpec, profile: Profile, sized: Sized, facts: ClusterFacts, elapsed_s: float
) -> RunTime | None:
    if not isinstance(spec.target, CompletionTime | BestEffort) or not spec.input_bytes:
        return None
    value, high = sized.predicted, sized.high
    if isinstance(spec.target, BestEffort):
        high = sized.low
    if math.isnan(value):
        value, high = _of_fixed_size(
            profile, spec.target, work_of(spec), sized.units, replace(facts, free=None)
        )
        elapsed_s = 0.0
    if isinstance(spec.target, BestEffort) and value > 0.0 and high > 0.0:
        value, high = 1.0 / value, 1.0 / high
    else:
        value, high = value - elapsed_s, high - elapsed_s
    return RunTime(value, high) if 0.0 < value <= high < math.inf else None


@lru_cache(maxsize=KNOWN_SIZES)
def _of_fixed_size(
    profile: Profile,
    target: CompletionTime | BestEffort,
    work: Work,
    units: int,
    facts: ClusterFacts,
) -> tuple[float, float]:
    """Return the prediction and its pessimistic end on the slowest platform, in target units.

    Nothing of it depends on the units that are free, so similar jobs share one prediction.
    """
    grid = performance_grid(profile, target, work, facts)
    row = min(units, grid.sizes.size) - 1
    worst = np.nanmin if isinstance(target, BestEffort) else np.nanmax
    found: list[float] = []
    for array in (grid.value, grid.low):
        known = array[row][np.isfinite(array[row])]
        found.append(float(worst(known)) if known.size else math.nan)
    return found[0], found[1]
