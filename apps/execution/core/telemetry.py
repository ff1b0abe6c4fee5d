"""From what monitors report of a job to its work per second, which profiles predict (Q5, P4).

    completion time, best effort   input bytes per second: share of the work done x input / time
    instructions per second        as measured
    queries within a latency       what the units could serve: the latency at the percentile,
                                   through the queueing formula that sizing uses, the other way
                                   round. Not the queries answered: those are bounded by the load.

What a job without input does per second cannot be said in bytes, so it is not observed.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from apps.classification.core.feedback import BYTES, METRIC
from apps.scheduling.core.waiting import capacity_at
from apps.workloads.core.targets import (
    InstructionRate,
    Target,
    TargetKind,
    ThroughputLatency,
)

# relative deviation of what monitors say: of a share of work, and of one reading of a metric
PROGRESS_DEVIATION: Final = 0.01
METRIC_DEVIATION: Final = 0.02
# of a capacity inferred from latencies: what the unknown load leaves open, typically
CAPACITY_DEVIATION: Final = 0.1
# how long a job is seen before its first observation, at its end, and between two of long runners
FIRST_S: Final = 120.0
LEAST_S: Final = 30.0
EVERY_S: Final = 1800.0
# the load of a service is not reported: its target names the peak, and at night it may be a third
LEAST_LOAD: Final = 1.0 / 3.0
# a capacity that depends on the unknown load by more than this (deviation) tells nothing
VAGUE: Final = 0.15
GIVEN_UP_S: Final = 9.5  # what is read of services that answer late or never


class Sample(NamedTuple):
    """One report: ``performance`` in the target's unit, ``progress`` 0-1."""

    at_s: float
    progress: float
    performance: float


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a job, and since when it is to be observed.

    Attributes
    ----------
    is_first_run : it began at ``started_s`` with nothing done
    is_service : it answers queries
    duration_s : it ends after this long even with work left; None = it does not
    started_s, since_s : since when it runs, and until when it was observed before
    finished_s : when it succeeded; None while it runs
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


class Rate(NamedTuple):
    """Work per second of a whole job until ``at_s``; ``column`` of the base rate it counts in."""

    at_s: float
    column: str
    per_s: float
    deviation: float


def rate(run: Run, samples: Sequence[Sample]) -> Rate | None:
    """Work per second since the run was observed last; None where the reports do not tell yet.

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
    """Which base rate the observations of a kind of target are in, and how exact they are."""
    match kind:
        case TargetKind.THROUGHPUT_LATENCY:
            return METRIC, CAPACITY_DEVIATION
        case TargetKind.IPS:
            return METRIC, METRIC_DEVIATION
        case _:
            return BYTES, PROGRESS_DEVIATION


def busy_share(tasks: int, units: int) -> float:
    """Share of the units that equal tasks in waves keep at work: T / (m · ceil(T / m)).

    Parameters
    ----------
    tasks : 1 = the work divides freely
    """
    return 1.0 if tasks <= 1 else tasks / (units * math.ceil(tasks / units))


def _by_progress(run: Run, samples: Sequence[Sample]) -> Rate | None:
    points = [(sample.at_s, sample.progress) for sample in samples if sample.progress < 1.0]
    if run.is_first_run and run.since_s <= run.started_s:
        points.insert(0, (run.started_s, 0.0))
    if run.finished_s is not None and not _was_cut_short(run, run.finished_s):
        points.append((run.finished_s, 1.0))
    if len(points) < 2:
        return None
    (begin_s, before), (end_s, after) = points[0], points[-1]
    if end_s - begin_s < _least_s(run) or after <= before:
        return None
    per_s = run.input_bytes * (after - before) / (end_s - begin_s)
    return Rate(end_s, BYTES, per_s, PROGRESS_DEVIATION)


def _was_cut_short(run: Run, finished_s: float) -> bool:
    """Whether the job ended because its time was over, work or no work."""
    return run.duration_s is not None and finished_s - run.started_s >= run.duration_s - 1.0


def _metric(run: Run, samples: Sequence[Sample]) -> Rate | None:
    values = [sample.performance for sample in samples if sample.performance > 0.0]
    if not values or not _is_long_enough(run, samples):
        return None
    return Rate(samples[-1].at_s, METRIC, _mean(values), METRIC_DEVIATION / len(values) ** 0.5)


def _capacity(run: Run, target: ThroughputLatency, samples: Sequence[Sample]) -> Rate | None:
    values = [s.performance for s in samples if 0.0 < s.performance < GIVEN_UP_S]
    if not values or len(values) < len(samples) or not _is_long_enough(run, samples):
        return None
    loads = np.array([LEAST_LOAD, 1.0]) * target.qps
    least, most = np.log(
        capacity_at(run.units, _mean(values), loads, target.percentile / 100.0)
    ).tolist()
    vague = abs(most - least) / math.sqrt(12.0)  # the load lies anywhere between
    if vague > VAGUE:
        return None
    deviation = math.hypot(vague, METRIC_DEVIATION / len(values) ** 0.5)
    return Rate(samples[-1].at_s, METRIC, math.exp((least + most) / 2.0), deviation)


def _is_long_enough(run: Run, samples: Sequence[Sample]) -> bool:
    return samples[-1].at_s - run.since_s >= _least_s(run)


def _least_s(run: Run) -> float:
    return FIRST_S if run.finished_s is None else LEAST_S


def _mean(values: Sequence[float]) -> float:
    """Geometric, as errors are relative."""
    return math.exp(math.fsum(map(math.log, values)) / len(values))
