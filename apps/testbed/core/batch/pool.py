"""Rigid parallel jobs that wait for processors of a pool: FCFS, EASY and conservative backfill.

A job holds its processors for its run time; the scheduler knows an estimate that is at least as
long. Sources: FCFS and EASY (Lifka, JSSPP 1995; Mu'alem and Feitelson, IEEE TPDS 12(6), 2001,
which also defines bounded slowdown and conservative backfill with compression).
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np

from apps.common.core.errors import ControlPlaneError
from apps.testbed.core.batch.disciplines import run_conservative, run_easy
from apps.testbed.core.batch.jobs import ParallelJobs
from apps.testbed.core.traces import Floats

SHORT_S: Final = 10.0  # run time below which slowdown is not measured (Mu'alem and Feitelson)


class PoolError(ControlPlaneError):
    """Jobs that no pool runs; names the job, the field and the value."""


class Discipline(StrEnum):
    """Which waiting job starts first."""

    FCFS = "fcfs"
    EASY = "easy"
    CONSERVATIVE = "conservative"


@dataclass(frozen=True, slots=True, eq=False)
class PoolResult:
    """Starts of the jobs of a run.

    Attributes
    ----------
    started_s : (n,)
    promised_s : (n,) latest start known when the job was submitted; infinite without reservation
    """

    jobs: ParallelJobs
    started_s: Floats
    promised_s: Floats

    @property
    def wait_s(self) -> Floats:
        """(n,) seconds from submission to start."""
        return self.started_s - self.jobs.submit_s

    @property
    def bounded_slowdown(self) -> Floats:
        """(n,) response time over run time, of at least ten seconds and at least 1."""
        run_s = np.maximum(self.jobs.seconds, SHORT_S)
        return np.maximum(1.0, (self.wait_s + self.jobs.seconds) / run_s)

    def used_share(self, processors: int) -> float:
        """Processor-seconds of the jobs over those of the pool until the last job ends."""
        ends = self.started_s + self.jobs.seconds
        span_s = float(ends.max() - self.jobs.submit_s[0])
        return float((self.jobs.processors * self.jobs.seconds).sum()) / (processors * span_s)


def run_pool(jobs: ParallelJobs, processors: int, discipline: Discipline) -> PoolResult:
    """Run all jobs. O(n (w + log n)) with w waiting jobs; conservative backfill O(n w²).

    Raises
    ------
    PoolError : a job can never start, or a value is out of range.
    """
    _check(jobs, processors)
    columns = (
        np.asarray(jobs.submit_s, dtype=np.float64),
        np.asarray(jobs.processors, dtype=np.int64),
        np.asarray(jobs.seconds, dtype=np.float64),
        np.asarray(jobs.estimate_s, dtype=np.float64),
    )
    if discipline is Discipline.CONSERVATIVE:
        started, promised = run_conservative(*columns, processors)
    else:
        started, promised = run_easy(*columns, processors, discipline is Discipline.EASY)
    return PoolResult(jobs, started, promised)


def _check(jobs: ParallelJobs, processors: int) -> None:
    def refuse(
        name: str, is_wrong: "np.ndarray[tuple[int], np.dtype[np.bool_]]", text: str
    ) -> None:
        if is_wrong.any():
            at = int(np.flatnonzero(is_wrong)[0])
            raise PoolError(f"{name} of job {at} is {getattr(jobs, name)[at]}; expected {text}")

    for name in ("processors", "seconds", "estimate_s"):
        if getattr(jobs, name).size != len(jobs):
            raise PoolError(f"{name} has {getattr(jobs, name).size} entries; expected {len(jobs)}")
    refuse("submit_s", ~np.isfinite(jobs.submit_s), "a finite time")
    late = np.concatenate([[False], np.diff(jobs.submit_s) < 0.0])
    refuse("submit_s", late, "at least that of the job before")
    is_possible = (jobs.processors >= 1) & (jobs.processors <= processors)
    refuse("processors", ~is_possible, f"1 to {processors}")
    refuse("seconds", ~((jobs.seconds >= 0.0) & np.isfinite(jobs.seconds)), "0 or more, finite")
    is_known = (jobs.estimate_s >= jobs.seconds) & np.isfinite(jobs.estimate_s)
    refuse("estimate_s", ~(is_known & (jobs.estimate_s > 0.0)), "at least the run time, above 0")
