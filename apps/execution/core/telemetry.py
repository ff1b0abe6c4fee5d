"""Measured work per second of a job, in the units of its profile (Q5, P4).

    completion time, best effort   input bytes per second: share of the work done x input / time
    instructions per second        as measured
    queries within a latency       capacity of the units: the inverse of the queueing formula that
                                   sizing uses, at the measured latency percentile and load

A job without input has no rate in bytes per second, so it is not observed.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from apps.classification.core.feedback import BYTES, METRIC
from apps.scheduling.core.sizing.response_time import capacity_at
from apps.workloads.core.targets import (
    InstructionRate,
    Target,
    TargetKind,
    ThroughputLatency,
)

# relative deviation of monitor readings: of the progress, and of one reading of a metric
PROGRESS_DEVIATION: Final = 0.01
METRIC_DEVIATION: Final = 0.02
# of a capacity inferred from latencies: typical, as the load is unknown
CAPACITY_DEVIATION: Final = 0.1
# cluster seconds before the first observation of a job, min at its end, and between observations
FIRST_S: Final = 120.0
MIN_S: Final = 30.0
EVERY_S: Final = 1800.0
# where the load of a service is unknown: its target states the peak, the minimum may be a third
MIN_LOAD: Final = 1.0 / 3.0
# a capacity that depends on the unknown load by more than this (deviation) is not used
MAX_UNCERTAINTY: Final = 0.15
TIMEOUT_S: Final = 9.5  # latency readings above this are client timeouts


class Sample(NamedTuple):
    """One report.

    performance : in the target's unit
    progress : 0-1
    offered_qps : queries/s that a service received; NaN if not reported
    """

    at_s: float
    progress: float
    performance: float
    offered_qps: float = math.nan


@dataclass(frozen=True, slots=True)
class ObservedRun:
    """One run of a job and the period to observe.

    Attributes
    ----------
    is_first_run : it started at ``started_s`` with no work done
    is_service : it answers queries
    duration_s : cluster seconds after which it ends even with work left; None = no limit
    started_s : start of the run
    since_s : end of the previous observation, or the start
    finished_s : time of its success; None while it runs
    """

    target: Target
    input_bytes: float
    units: int
    duration_s: float | None
    is_service: bool
    is_first_run: bool
    started_s: float
    since_s: float
    finished_s: float | None


class ObservedRate(NamedTuple):
    """Work per second of a whole job until ``at_s``; ``column`` names its base rate."""

    at_s: float
    column: str
    per_s: float
    deviation: float


def rate(run: ObservedRun, samples: Sequence[Sample]) -> ObservedRate | None:
    """Work per second since the previous observation; None if there are too few reports.

    Parameters
    ----------
    samples : of this run since ``since_s``, oldest first
    """
    match run.target:
        case ThroughputLatency() as target:
            return _capacity(run, target, samples) if run.is_service else None
        case InstructionRate():
            return None if run.is_service else _metric(run, samples)
        case _:
            return None if run.is_service or run.input_bytes <= 0 else _by_progress(run, samples)


def column_of(kind: str) -> tuple[str, float]:
    """Base-rate column of observations for a kind of target, and their relative deviation."""
    match kind:
        case TargetKind.THROUGHPUT_LATENCY:
            return METRIC, CAPACITY_DEVIATION
        case TargetKind.IPS:
            return METRIC, METRIC_DEVIATION
        case _:
            return BYTES, PROGRESS_DEVIATION


def busy_share(tasks: int, units: int) -> float:
    """Share of the units that equal tasks in waves keep busy: T / (m · ceil(T / m)).

    Parameters
    ----------
    tasks : 1 = the work divides freely
    """
    return 1.0 if tasks <= 1 else tasks / (units * math.ceil(tasks / units))


def _by_progress(run: ObservedRun, samples: Sequence[Sample]) -> ObservedRate | None:
    points = [(sample.at_s, sample.progress) for sample in samples if sample.progress < 1.0]
    if run.is_first_run and run.since_s <= run.started_s:
        points.insert(0, (run.started_s, 0.0))
    if run.finished_s is not None and not _was_cut_short(run, run.finished_s):
        points.append((run.finished_s, 1.0))
    if len(points) < 2:
        return None
    (begin_s, before), (end_s, after) = points[0], points[-1]
    if end_s - begin_s < _min_s(run) or after <= before:
        return None
    per_s = run.input_bytes * (after - before) / (end_s - begin_s)
    return ObservedRate(end_s, BYTES, per_s, PROGRESS_DEVIATION)


def _was_cut_short(run: ObservedRun, finished_s: float) -> bool:
    """Whether the job ended because of its duration limit."""
    return run.duration_s is not None and finished_s - run.started_s >= run.duration_s - 1.0


def _metric(run: ObservedRun, samples: Sequence[Sample]) -> ObservedRate | None:
    values = [sample.performance for sample in samples if sample.performance > 0.0]
    if not values or not _is_long_enough(run, samples):
        return None
    return ObservedRate(
        samples[-1].at_s, METRIC, _mean(values), METRIC_DEVIATION / len(values) ** 0.5
    )


def _capacity(
    run: ObservedRun, target: ThroughputLatency, samples: Sequence[Sample]
) -> ObservedRate | None:
    values = [s.performance for s in samples if 0.0 < s.performance < TIMEOUT_S]
    if not values or len(values) < len(samples) or not _is_long_enough(run, samples):
        return None
    share = target.percentile / 100.0
    offered = np.array([sample.offered_qps for sample in samples])
    if (offered > 0.0).all():
        logs = np.log(capacity_at(run.units, np.array(values), offered, share))
        deviation = METRIC_DEVIATION / len(values) ** 0.5
        return ObservedRate(samples[-1].at_s, METRIC, float(np.exp(logs.mean())), deviation)
    loads = np.array([MIN_LOAD, 1.0]) * target.qps
    low, high = np.log(capacity_at(run.units, _mean(values), loads, share)).tolist()
    uncertainty = abs(high - low) / math.sqrt(12.0)  # uniform between the bounds
    if uncertainty > MAX_UNCERTAINTY:
        return None
    deviation = math.hypot(uncertainty, METRIC_DEVIATION / len(values) ** 0.5)
    return ObservedRate(samples[-1].at_s, METRIC, math.exp((low + high) / 2.0), deviation)


def _is_long_enough(run: ObservedRun, samples: Sequence[Sample]) -> bool:
    return samples[-1].at_s - run.since_s >= _min_s(run)


def _min_s(run: ObservedRun) -> float:
    return FIRST_S if run.finished_s is None else MIN_S


def _mean(values: Sequence[float]) -> float:
    """Geometric mean, as errors are relative."""
    return math.exp(math.fsum(map(math.log, values)) / len(values))
