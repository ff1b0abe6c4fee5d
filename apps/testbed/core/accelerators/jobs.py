"""Training jobs, accelerators of several types, and what a policy of rounds sees and decides."""

from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np

from apps.common.core.errors import ControlPlaneError
from apps.testbed.core.traces import Bools, Floats, Ints

NONE: Final = -1  # the type of a job that does not run


class AcceleratorError(ControlPlaneError):
    """Jobs that cannot run, or an assignment that is not possible; names the job and the value."""


@dataclass(frozen=True, slots=True, eq=False)
class TrainingJobs:
    """Jobs in the order of their submission; n jobs, J types, K numbers of accelerators.

    Attributes
    ----------
    submit_s : (n,) non-decreasing
    steps : (n,) training steps until the job ends, > 0
    count : (n,) accelerators that the user requested, one of `counts`
    counts : (K,) numbers of accelerators that were measured, ascending
    speed : (n, J, K) steps per second by type and number; 0 = the job cannot run so
    """

    submit_s: Floats
    steps: Floats
    count: Ints
    counts: Ints
    speed: Floats

    def __len__(self) -> int:
        return int(self.submit_s.size)


@dataclass(frozen=True, slots=True, eq=False)
class RoundState:
    """What a policy sees at the start of a round; a active jobs in the order of submission.

    Attributes
    ----------
    available : (J,) accelerators of each type
    restart_s : time that a job loses when it starts on other accelerators than in the last round
    jobs : (a,) numbers of the jobs, which they keep until they end
    count, speed, counts : as in `TrainingJobs`, of the active jobs
    age_s : (a,) since submission
    restarts : (a,) times that the job has started, without the first
    on_type, on_count : (a,) assignment of the last round; `NONE` and 0 without
    """

    available: Ints
    restart_s: float
    jobs: Ints
    count: Ints
    counts: Ints
    speed: Floats
    age_s: Floats
    restarts: Ints
    on_type: Ints
    on_count: Ints

    @property
    def as_requested(self) -> Floats:
        """(a, J) speed with the requested number; 0 where the job cannot run."""
        return speed_as_requested(self.speed, self.count, self.counts, self.available)


@dataclass(frozen=True, slots=True, eq=False)
class Assignment:
    """Accelerators of one round.

    Attributes
    ----------
    types : (a,) type of each job; `NONE` = it does not run. One job never has two types
    counts : (a,) number of accelerators; 0 = it does not run
    """

    types: Ints
    counts: Ints


class RoundPolicy(Protocol):
    """A policy that reassigns all accelerators in every round; an instance serves one run."""

    def assign(self, state: RoundState) -> Assignment:
        """Assign accelerators to the active jobs."""
        ...


def speed_as_requested(speed: Floats, count: Ints, counts: Ints, available: Ints) -> Floats:
    """(n, J) speed of jobs with the number that they requested; 0 if a type has too few."""
    chosen = speed[np.arange(count.size), :, np.searchsorted(counts, count)]
    return np.where(count[:, None] <= available, chosen, 0.0)


def equal_share_speed(speed: Floats, available: Ints) -> Floats:
    """(n,) speed of a job that spends its time equally on every accelerator of the cluster.

    Gavel §4.1: throughput(m, X_equal), with X_equal the share of each type in all accelerators.
    """
    result: Floats = speed @ (available / available.sum())
    return result


def check_jobs(jobs: TrainingJobs, available: Ints) -> None:
    """Check that every job can run with the number of accelerators that it requested.

    Raises
    ------
    AcceleratorError : names the first job that cannot.
    """
    for name, is_wrong in (
        ("submit_s", np.asarray(np.diff(jobs.submit_s, prepend=0.0) < 0.0)),
        ("steps", ~(jobs.steps > 0.0)),
        ("count", ~np.isin(jobs.count, jobs.counts)),
    ):
        _refuse(is_wrong, f"{name} is not valid")
    speed = speed_as_requested(jobs.speed, jobs.count, jobs.counts, available)
    _refuse((speed > 0.0).sum(axis=1) == 0, "it runs on no type with the number it requested")


def check_assignment(state: RoundState, chosen: Assignment) -> None:
    """Check an assignment against the accelerators and the speeds.

    Raises
    ------
    AcceleratorError : names the type or the job.
    """
    runs = chosen.types != NONE
    used = np.bincount(chosen.types[runs], chosen.counts[runs], minlength=state.available.size)
    if (used > state.available).any():
        at = int(np.flatnonzero(used > state.available)[0])
        raise AcceleratorError(
            f"{used[at]:.0f} accelerators of type {at} assigned; there are {state.available[at]}"
        )
    _refuse(runs & ~np.isin(chosen.counts, state.counts), "the number assigned was not measured")
    option = np.searchsorted(state.counts, np.where(runs, chosen.counts, state.counts[0]))
    speed = state.speed[np.arange(runs.size), chosen.types, option]
    _refuse(runs & ~(speed > 0.0), "it cannot run on what it was assigned")


def _refuse(is_wrong: Bools, text: str) -> None:
    if is_wrong.any():
        raise AcceleratorError(f"job {int(np.flatnonzero(is_wrong)[0])}: {text}")
