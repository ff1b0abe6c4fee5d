"""How close a live run is to the offline run of the same scenario (Khaneja 2015 §4.7, K6)."""

from dataclasses import dataclass

import numpy as np

from apps.testbed.core.reservation.model import RunResult, Workload
from apps.testbed.core.traces import Floats


@dataclass(frozen=True, slots=True)
class Fidelity:
    """Distances between the distributions of two runs.

    Attributes
    ----------
    waiting : Kolmogorov-Smirnov distance of the times from submission to the first start of a job
    completion : the same from submission to the last end of a job
    failed, other_failed : jobs given up, in percent of all jobs
    """

    waiting: float
    completion: float
    failed: float
    other_failed: float


def fidelity(workload: Workload, run: RunResult, other: RunResult) -> Fidelity:
    """Compare two runs of a workload; tasks that run at the start do not count.

    Jobs are compared, as the tasks of one job share their time on the network.
    """
    return Fidelity(
        waiting=distance(waiting_s(workload, run), waiting_s(workload, other)),
        completion=distance(completion_s(workload, run), completion_s(workload, other)),
        failed=100.0 * run.failed_jobs(workload) / workload.jobs,
        other_failed=100.0 * other.failed_jobs(workload) / workload.jobs,
    )


def waiting_s(workload: Workload, run: RunResult) -> Floats:
    """(n,) from submission to the first start of a job; NaN if no task of it was started."""
    starts = np.where(workload.machine < 0, run.started_s, np.nan)
    first = np.fmin.reduceat(starts, workload.first_task[:-1])
    return first - workload.submit_s


def completion_s(workload: Workload, run: RunResult) -> Floats:
    """(n,) from submission to the last end of a job; NaN if any task of it has not ended."""
    ends = np.where(workload.machine < 0, run.ended_s, np.nan)
    return np.maximum.reduceat(ends, workload.first_task[:-1]) - workload.submit_s


def distance(values: Floats, others: Floats) -> float:
    """Largest difference between two empirical distributions; NaN values do not count.

    1 if only one of them has values, 0 if none has.
    """
    first, second = (np.sort(part[~np.isnan(part)]) for part in (values, others))
    if not first.size or not second.size:
        return float(first.size != second.size)
    at = np.concatenate([first, second])
    below = [np.searchsorted(part, at, side="right") / part.size for part in (first, second)]
    return float(np.abs(below[0] - below[1]).max())
