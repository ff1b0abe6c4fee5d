"""Run training jobs in rounds on accelerators of several types, under one policy.

At the start of each round the policy assigns types and numbers. A job that starts, or continues
on another type or number, first loses `restart_s`. A job that ends frees its accelerators for the
next round. The accelerators of a type are one pool: speeds are those measured within one server.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from apps.testbed.core.accelerators.jobs import (
    NONE,
    AcceleratorError,
    Assignment,
    RoundPolicy,
    RoundState,
    TrainingJobs,
    check_assignment,
    check_jobs,
    equal_share_speed,
    speed_as_requested,
)
from apps.testbed.core.traces import Floats, Ints

ROUND_S: Final = 360.0  # Gavel's
RESTART_S: Final = 30.0  # Sia measured 25 s to 250 s
MAX_ROUNDS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class RoundSettings:
    """Length of a round, and what a start on other accelerators costs."""

    round_s: float = ROUND_S
    restart_s: float = RESTART_S


@dataclass(frozen=True, slots=True, eq=False)
class RoundsResult:
    """Outcome of a run, by job.

    Attributes
    ----------
    completion_s : (n,) from submission to the end
    restarts : (n,) starts after the first
    share : (n,) steps done over those of an equal division: in every round, as many
        accelerator-seconds for each active job, spread equally over all accelerators
    rounds : rounds in which jobs were active
    """

    completion_s: Floats
    restarts: Ints
    share: Floats
    rounds: int


def run_rounds(
    jobs: TrainingJobs, available: Ints, policy: RoundPolicy, settings: RoundSettings
) -> RoundsResult:
    """Run until every job has ended.

    Raises
    ------
    AcceleratorError : a job that cannot run, an assignment that is not possible, or jobs that
        do not end.
    """
    check_jobs(jobs, available)
    run = _Run(jobs, available, settings)
    while run.continues():
        if run.rounds == MAX_ROUNDS:
            raise AcceleratorError(f"jobs did not end within {MAX_ROUNDS} rounds")
        state = run.state()
        chosen = policy.assign(state)
        check_assignment(state, chosen)
        run.advance(state, chosen)
    share = jobs.steps / run.entitled
    return RoundsResult(run.ended_s - jobs.submit_s, run.restarts, share, run.rounds)


class _Run:
    """State of a run; arrays over all jobs."""

    def __init__(self, jobs: TrainingJobs, available: Ints, settings: RoundSettings) -> None:
        n = len(jobs)
        self._jobs, self._available, self._settings = jobs, available, settings
        self._left = jobs.steps.astype(np.float64)
        self._now_s = 0.0
        self._active = np.zeros(0, dtype=np.int64)
        self._on_type, self._on_count = np.full(n, NONE), np.zeros(n, dtype=np.int64)
        self._has_run = np.zeros(n, dtype=np.bool_)
        speed = speed_as_requested(jobs.speed, jobs.count, jobs.counts, available)
        self._equal = equal_share_speed(speed, available)
        self.ended_s, self.entitled = np.full(n, np.nan), np.zeros(n)
        self.restarts, self.rounds = np.zeros(n, dtype=np.int64), 0

    def continues(self) -> bool:
        """Find the active jobs of the next round with any; False when all have ended."""
        waits = np.isnan(self.ended_s)
        if not waits.any():
            return False
        first_s = float(self._jobs.submit_s[np.argmax(waits)])
        if first_s > self._now_s:
            length = self._settings.round_s
            self._now_s = float(np.ceil(first_s / length)) * length
        self._active = np.flatnonzero(waits & (self._jobs.submit_s <= self._now_s))
        return True

    def state(self) -> RoundState:
        """Return what the policy sees."""
        jobs, at = self._jobs, self._active
        return RoundState(
            available=self._available,
            restart_s=self._settings.restart_s,
            jobs=at,
            count=jobs.count[at],
            counts=jobs.counts,
            speed=jobs.speed[at],
            age_s=self._now_s - jobs.submit_s[at],
            restarts=self.restarts[at],
            on_type=self._on_type[at],
            on_count=self._on_count[at],
        )

    def advance(self, state: RoundState, chosen: Assignment) -> None:
        """Run one round."""
        at, length = self._active, self._settings.round_s
        runs = chosen.types != NONE
        starts = runs & ((chosen.types != state.on_type) | (chosen.counts != state.on_count))
        lost_s = np.where(starts, self._settings.restart_s, 0.0)
        option = np.searchsorted(state.counts, np.where(runs, chosen.counts, state.counts[0]))
        speed = np.where(runs, state.speed[np.arange(at.size), chosen.types, option], 0.0)
        with np.errstate(divide="ignore"):
            needed_s = lost_s + self._left[at] / speed
        ends = needed_s <= length
        self._entitle(at, state.count, np.minimum(needed_s, length))
        self._left[at] -= speed * np.maximum(length - lost_s, 0.0)
        self.ended_s[at[ends]] = self._now_s + needed_s[ends]
        self.restarts[at] += starts & self._has_run[at]
        self._has_run[at] |= runs
        self._on_type[at], self._on_count[at] = chosen.types, chosen.counts
        self._now_s += length
        self.rounds += 1

    def _entitle(self, at: Ints, count: Ints, seconds: Floats) -> None:
        """Add what an equal division would have done while the jobs were active."""
        part = np.minimum(1.0, self._available.sum() / at.size / count)
        self.entitled[at] += self._equal[at] * part * seconds
