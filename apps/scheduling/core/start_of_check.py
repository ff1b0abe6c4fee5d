"""The predictions of a dry run, from the predicted start of a job that waits.

A completion time counts from the submission: the wait is a part of it.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np
from scipy.special import ndtri

from apps.classification.core.estimates import HALF_WIDTH_90
from apps.inventory.core.snapshot import Floats
from apps.scheduling.core.dry_run import DryRunResult, Suggestion, easier
from apps.scheduling.core.requests import size_of, size_or_late, work_of
from apps.scheduling.core.sizing.feasibility import Feasibility, feasibility
from apps.scheduling.core.sizing.sizes import Infeasible, Sized
from apps.workloads.core.spec import JobSpec
from apps.workloads.core.targets import CompletionTime

POINTS: Final = 100  # of the distributions of the start and of the run time
_DEVIATIONS: Final = ndtri((np.arange(POINTS) + 0.5) / POINTS)
_P90: Final = float(ndtri(0.9))


class NewStart(NamedTuple):
    """Predicted start of a job that is not submitted yet, in cluster seconds from now.

    None: later than simulated, or the ends of jobs cannot be predicted.
    """

    p50_s: float | None
    p90_s: float | None


def from_start(spec: JobSpec, result: DryRunResult, start: NewStart | None) -> DryRunResult:
    """Return a dry run whose completion time counts the wait.

    The job gets the size that an agent would give it at its median start. Without a known start,
    a job that waits has no prediction. Results of other jobs are returned unchanged.

    Parameters
    ----------
    result : of `dry_run`
    start : None = unknown
    """
    if not isinstance(spec.target, CompletionTime) or result.outcome != "waits":
        return result
    if start is None or start.p50_s is None or result.basis is None:
        return replace(result, predicted=None, low=None, high=None, probability_met=None)
    profile, facts = result.basis
    elapsed_s = start.p50_s
    found = size_of(spec, profile, facts, elapsed_s=elapsed_s)
    sized = size_or_late(spec, profile, facts, elapsed_s=elapsed_s)
    if isinstance(sized, Infeasible):  # at submission too
        return result
    grid = feasibility_after(spec, result, elapsed_s)
    result = replace(result, units=sized.units, feasibility=grid)
    if not math.isnan(sized.predicted):
        result = _predicted(result, spec.target, sized, start.p90_s, elapsed_s)
    is_late = isinstance(found, Infeasible) or elapsed_s >= spec.target.seconds
    return _late(spec, result) if is_late else result


def feasibility_after(spec: JobSpec, result: DryRunResult, elapsed_s: float) -> Feasibility | None:
    """Return the predictions for all sizes of a job that starts later.

    Parameters
    ----------
    elapsed_s : cluster seconds from submission to the start
    """
    if result.feasibility is None or result.basis is None:
        return result.feasibility
    profile, facts = result.basis
    sized = size_of(spec, profile, facts, elapsed_s=elapsed_s)
    work = work_of(spec, elapsed_s=elapsed_s)
    return feasibility(profile, spec.target, work, facts, sized)


def _predicted(
    result: DryRunResult,
    target: CompletionTime,
    sized: Sized,
    p90_s: float | None,
    elapsed_s: float,
) -> DryRunResult:
    result = replace(result, predicted=sized.predicted, platforms=sorted(sized.platforms or ()))
    if p90_s is None:
        return replace(result, low=None, high=None, probability_met=None)
    run = [end - elapsed_s for end in (sized.predicted, sized.low, sized.high)]
    ends = _ends(elapsed_s, p90_s, run)
    low, high = np.quantile(ends, (0.05, 0.95)).tolist()
    is_met = ends <= target.seconds
    return replace(result, low=low, high=high, probability_met=float(np.mean(is_met)))


def _ends(p50_s: float, p90_s: float, run: Sequence[float]) -> Floats:
    """Return equally likely completion times of an independent start and run time.

    The start is normal, but not before now; the run time is log-normal.

    Parameters
    ----------
    run : seconds, and the ends of their 90 % interval
    """
    value, low, high = run
    starts = np.maximum(p50_s + (p90_s - p50_s) / _P90 * _DEVIATIONS, 0.0)
    deviation = math.log(high / low) / (2.0 * HALF_WIDTH_90)
    return np.add.outer(starts, value * np.exp(deviation * _DEVIATIONS)).ravel()


def _late(spec: JobSpec, result: DryRunResult) -> DryRunResult:
    """Return the result of a job that no size makes fast enough after its wait."""
    best = result.high or result.predicted or math.inf
    suggestions: Sequence[Suggestion] = tuple(easier(spec, best))
    return replace(
        result,
        feasible=False,
        summary=f"{result.summary} It would start too late to meet its target.",
        suggestions=suggestions,
    )
