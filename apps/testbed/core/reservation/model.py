"""Value types of the reservation engine: tasks, machines, a scheduler, and the result of a run.

A machine holds tasks up to its cores and memory; nothing slows a task down (systems K1, K2, K4).
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

import numpy as np

from apps.common.core.errors import ControlPlaneError
from apps.testbed.core.traces import Floats, Ints

SCALE: Final = 1_000_000  # integer resource units of one largest machine: sums are exact
NOWHERE: Final = -1  # no machine
MAX_KINDS: Final = 62  # attribute kinds that fit into one word


class WorkloadError(ControlPlaneError):
    """Tasks, machines or settings that no run accepts; names the field and the value."""


class Algorithm(StrEnum):
    """How a monolithic scheduler chooses the machine of a task (Khaneja 2015 §4.5, K4)."""

    RANDOM_BLIND = "random_blind"
    TEN_TRIES = "ten_tries"
    CHECK_ALL = "check_all"


class TaskState(StrEnum):
    """State of a task at the end of a run; the order is that of the kernel's codes."""

    WAITING = "waiting"
    RUNNING = "running"
    ENDED = "ended"
    NO_MACHINE = "no machine seen with room"
    TOO_MANY_ATTEMPTS = "rejected too often"


@dataclass(frozen=True, slots=True, eq=False)
class Workload:
    """Jobs with their tasks.

    Attributes
    ----------
    submit_s : (n,) seconds since the start of the run, non-decreasing
    first_task : (n + 1,) tasks of job j are `first_task[j]` to `first_task[j + 1] - 1`
    cpu, memory : (t,) request, in parts of `SCALE` of the largest machine
    seconds : (t,) run time; infinite for a task that does not end
    needs : (t,) attribute kinds that the machine must have, one bit each
    machine : (t,) machine that runs the task at the start, without a decision; else `NOWHERE`
    """

    submit_s: Floats
    first_task: Ints
    cpu: Ints
    memory: Ints
    seconds: Floats
    needs: Ints
    machine: Ints

    @property
    def jobs(self) -> int:
        """Number of jobs."""
        return int(self.submit_s.size)

    @property
    def tasks(self) -> int:
        """Number of tasks."""
        return int(self.cpu.size)


@dataclass(frozen=True, slots=True, eq=False)
class Machines:
    """Machines and their changes.

    Attributes
    ----------
    cpu, memory : (m,) capacity at the start, in parts of `SCALE`; 0 for a machine added later
    attributes : (m,) attribute kinds, one bit each
    change_s : (c,) times of changes, non-decreasing
    change_machine : (c,) machine that changes
    change_cpu, change_memory : (c,) capacity from then on; 0 and 0 remove the machine, which ends
        its tasks: they are submitted again and start from the beginning
    """

    cpu: Ints
    memory: Ints
    attributes: Ints
    change_s: Floats = field(default_factory=lambda: np.zeros(0))
    change_machine: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    change_cpu: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    change_memory: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    def __len__(self) -> int:
        return int(self.cpu.size)


@dataclass(frozen=True, slots=True)
class Scheduler:
    """A monolithic scheduler (Khaneja 2015 §4.1-4.5, K4).

    Attributes
    ----------
    algorithm : how it chooses a machine
    tries : machines that `TEN_TRIES` looks at before it gives a task up
    attempts : rejections by machines after which it gives a task up
    heartbeat_s : interval at which a machine reports its free resources. A report replaces what
        the scheduler knew, decisions on their way included
    path_limit : jobs that are decided concurrently; 0 = no limit
    probe_s : processing time of looking at one machine
    network_s : time from a decision to its machine, and back
    network_spread : each of these times is drawn between ``network_s`` less and plus this share
    """

    algorithm: Algorithm = Algorithm.TEN_TRIES
    tries: int = 10
    attempts: int = 1000
    heartbeat_s: float = 5.0
    path_limit: int = 100
    probe_s: float = 2e-6
    network_s: float = 0.01
    network_spread: float = 0.0

    def __post_init__(self) -> None:
        for name, low, high in (
            ("tries", 1, 1_000_000),
            ("attempts", 1, 1_000_000),
            ("heartbeat_s", 0.001, 1e6),
            ("path_limit", 0, 1_000_000_000),
            ("probe_s", 0.0, 60.0),
            ("network_s", 0.0, 60.0),
            ("network_spread", 0.0, 1.0),
        ):
            value = getattr(self, name)
            if not low <= value <= high:
                raise WorkloadError(f"{name} is {value}; expected {low} to {high}")


@dataclass(frozen=True, slots=True, eq=False)
class RunResult:
    """What happened to each task and job.

    Attributes
    ----------
    state : (t,) index into `TaskState`
    started_s, ended_s : (t,) NaN for a time not reached
    ran_on : (t,) machine of the last start, or `NOWHERE`
    attempts : (t,) decisions rejected by machines
    delay_s : (n,) from submission to the last reply about a task; NaN while undecided, and for
        jobs without a decision
    probes : machines looked at
    events : submissions and ends of tasks, and changes of machines
    evictions : tasks ended by the removal of their machine
    ended_at_s : time of the last event
    busy_cpu : (b,) mean cores in use during each bin, as a share of all cores at the start
    bin_s : width of a bin
    """

    state: Ints
    started_s: Floats
    ended_s: Floats
    ran_on: Ints
    attempts: Ints
    delay_s: Floats
    probes: int
    events: int
    evictions: int
    ended_at_s: float
    busy_cpu: Floats
    bin_s: float

    def tasks_in(self, *states: TaskState) -> int:
        """Count the tasks in any of these states."""
        codes = [list(TaskState).index(state) for state in states]
        return int(np.isin(self.state, codes).sum())

    def failed_jobs(self, workload: Workload) -> int:
        """Count the jobs of which at least one task was given up (Khaneja 2015 §4.2)."""
        failed = np.isin(self.state, [FAILED_FIRST, FAILED_FIRST + 1]).astype(np.int64)
        total = np.concatenate([[0], np.cumsum(failed)])
        return int(np.count_nonzero(np.diff(total[workload.first_task])))


FAILED_FIRST: Final = list(TaskState).index(TaskState.NO_MACHINE)

SCHEDULERS: Final = {
    "random_blind": Scheduler(Algorithm.RANDOM_BLIND, attempts=1),
    "ten_tries": Scheduler(Algorithm.TEN_TRIES),
    "check_all": Scheduler(Algorithm.CHECK_ALL),
}
