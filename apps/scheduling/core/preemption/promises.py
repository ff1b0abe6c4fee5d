"""Promises of running jobs that a preemption would break, and the work that it would lose."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from apps.inventory.core.snapshot import Bools, Floats, Ints
from apps.scheduling.core.reservations.gangs import MARGIN
from apps.workloads.core.targets import TargetKind

MIN_PROGRESS: Final = 0.05  # less says little about the rest of the run time


@dataclass(frozen=True, slots=True)
class RunningJob:
    """A running job; times in cluster seconds.

    Attributes
    ----------
    units : that it holds
    saved_s : up to when its work is kept if it stops now; its start, if nothing is
    progress : share done of the work that it began with at `started_s`
    run_high_s : pessimistic predicted run time of this work; None = unknown
    """

    target: Mapping[str, Any]
    units: int
    submitted_s: float
    started_s: float
    saved_s: float
    progress: float
    run_high_s: float | None

    def lost(self, now_s: float) -> int:
        """Return the unit-seconds of work that it loses if it stops now."""
        return round(self.units * max(0.0, now_s - self.saved_s))

    def rest_s(self, now_s: float) -> float | None:
        """Return how long it would still run after it stopped now, pessimistically."""
        ran_s, known = max(0.0, now_s - self.started_s), []
        if self.progress >= MIN_PROGRESS:
            known.append(MARGIN * ran_s * (1.0 - self.progress) / self.progress)
        if self.run_high_s is not None:
            known.append(max(0.0, self.run_high_s - ran_s))
        return max(known) + max(0.0, now_s - self.saved_s) if known else None


@dataclass(frozen=True, slots=True)
class Promise:
    """Whether a preemption breaks the promise of a job, and why."""

    breaks: bool
    reason: str


def promise(job: RunningJob, now_s: float, away_s: float | None) -> Promise:
    """Return whether a job breaks its promise if it stops now and waits ``away_s``.

    A deadline is broken unless the job meets it for certain: it waits until the units are free
    again, at the pessimistic end of the run time of the job that takes them.

    Parameters
    ----------
    away_s : pessimistic run time of that job in cluster seconds; None = unknown
    """
    match job.target["kind"]:
        case TargetKind.BEST_EFFORT:
            return Promise(breaks=False, reason="it has no target")
        case TargetKind.COMPLETION_TIME:
            return _deadline(job, now_s, away_s)
        case kind:
            unit = "queries" if kind == TargetKind.THROUGHPUT_LATENCY else "instructions"
            return Promise(breaks=True, reason=f"its target of {unit} per second is missed")


def _deadline(job: RunningJob, now_s: float, away_s: float | None) -> Promise:
    left_s = job.submitted_s + float(job.target["seconds"]) - now_s
    if left_s <= 0.0:
        return Promise(breaks=False, reason="it has already missed its deadline")
    rest_s = job.rest_s(now_s)
    if rest_s is None or away_s is None:
        return Promise(breaks=True, reason="it is not known whether it still meets its deadline")
    spare_s = left_s - away_s - rest_s
    if spare_s < 0.0:
        return Promise(breaks=True, reason=f"it may miss its deadline by {-spare_s:.0f} s")
    return Promise(breaks=False, reason=f"it meets its deadline with {spare_s:.0f} s to spare")


NO_TARGET: Final = 0
DEADLINE: Final = 1
RATE: Final = 2  # queries or instructions per second


class RunningJobs(NamedTuple):
    """Running jobs as arrays of (C,); see `RunningJob`. NaN in ``run_high_s`` = unknown.

    Attributes
    ----------
    kind : `NO_TARGET`, `DEADLINE` or `RATE`
    seconds : from submission to the deadline; any number for other kinds
    """

    kind: Ints
    seconds: Floats
    units: Ints
    submitted_s: Floats
    started_s: Floats
    saved_s: Floats
    progress: Floats
    run_high_s: Floats

    def lost(self, now_s: float) -> Ints:
        """(C,) as `RunningJob.lost`."""
        return np.rint(self.units * np.maximum(0.0, now_s - self.saved_s)).astype(np.int64)

    def breaks(self, now_s: float, away_s: float | None) -> Bools:
        """(C,) as `promise`."""
        left_s = self.submitted_s + self.seconds - now_s
        ran_s = np.maximum(0.0, now_s - self.started_s)
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            by_progress = MARGIN * ran_s * (1.0 - self.progress) / self.progress
        by_progress = np.where(self.progress >= MIN_PROGRESS, by_progress, np.nan)
        rest_s = np.fmax(by_progress, np.maximum(0.0, self.run_high_s - ran_s))
        rest_s += np.maximum(0.0, now_s - self.saved_s)
        is_met = left_s - (np.nan if away_s is None else away_s) - rest_s >= 0.0
        is_missed = (left_s > 0.0) & ~is_met  # also if NaN
        broken: Bools = (self.kind == RATE) | ((self.kind == DEADLINE) & is_missed)
        return broken
