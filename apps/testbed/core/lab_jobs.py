"""Single jobs that gain or lose under a setting, paired by job and seed."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

Singles = NDArray[np.float32]
SMALLEST: Final = 0.005  # of a change of performance: half a point, below which nothing is counted


class Direction(StrEnum):
    """Which jobs to return."""

    ALL = "all"
    GAINS = "gains"
    LOSSES = "losses"


@dataclass(frozen=True, slots=True)
class JobChange:
    """One job under a setting and under the baseline, means over seeds.

    Attributes
    ----------
    place : of the job in the trace, from 0
    before, after : performance under the baseline and under the setting, 0 = unfinished
    seeds_gained, seeds_lost : seeds in which it changes by at least half a point
    """

    place: int
    before: float
    after: float
    seeds_gained: int
    seeds_lost: int

    @property
    def change(self) -> float:
        """Difference of the means."""
        return self.after - self.before


@dataclass(frozen=True, slots=True)
class JobChanges:
    """The jobs that change most.

    Attributes
    ----------
    rows : largest change first
    gained, lost : jobs that gain, or lose, at least half a point in every seed
    jobs, seeds : that were compared
    """

    rows: tuple[JobChange, ...]
    gained: int
    lost: int
    jobs: int
    seeds: int


def changed_jobs(
    before: Singles, after: Singles, *, direction: Direction = Direction.ALL, limit: int
) -> JobChanges:
    """Compare each job with itself.

    Parameters
    ----------
    before, after : (seeds, n) performance under the baseline and under the setting, seeds in the
        same order
    """
    seeds, jobs = before.shape
    change = after.astype(np.float64) - before
    gains, losses = (change >= SMALLEST).sum(axis=0), (change <= -SMALLEST).sum(axis=0)
    mean = change.mean(axis=0)
    wanted = {
        Direction.ALL: np.abs(mean) >= SMALLEST,
        Direction.GAINS: mean >= SMALLEST,
        Direction.LOSSES: mean <= -SMALLEST,
    }[direction]
    chosen = np.flatnonzero(wanted)
    # equal changes in the order of the trace
    order = chosen[np.argsort(-np.abs(mean[chosen]), kind="stable")][:limit]
    was, now = before.mean(axis=0, dtype=np.float64), after.mean(axis=0, dtype=np.float64)
    rows = tuple(
        JobChange(int(i), float(was[i]), float(now[i]), int(gains[i]), int(losses[i]))
        for i in order
    )
    return JobChanges(rows, int((gains == seeds).sum()), int((losses == seeds).sum()), jobs, seeds)
