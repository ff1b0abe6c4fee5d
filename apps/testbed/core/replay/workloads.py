"""The workload of a replay: n jobs in order of arrival, by column."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from apps.inventory.core.snapshot import Bools, Floats, Ints
from apps.testbed.core.replay.errors import ReplayError

NO_TARGET: Final = np.inf  # best effort
NO_LIMIT: Final = np.inf  # runs until its work is done
SIZED: Final = 0  # units: as many as production's sizing gives
DIVISIBLE: Final = 0  # tasks: the work divides freely


@dataclass(frozen=True, slots=True)
class Application:
    """A program of the workload; its kind is one of `emulation.core.draws.KINDS`."""

    name: str
    kind: str


@dataclass(frozen=True, slots=True, eq=False)
class Workload:
    """Jobs in order of arrival; build one with `workload`, which fills in defaults.

    Attributes
    ----------
    name : label, such as the name of a trace
    applications : A programs
    arrival_s : (n,) seconds since the start, non-decreasing
    application : (n,) index into ``applications``
    work_s : (n,) unit-seconds of the highest-end platform; infinite for a service
    tasks : (n,) equal tasks that run in waves; `DIVISIBLE` = 0
    units : (n,) resource units requested; `SIZED` = 0
    target_s : (n,) completion time requested, from the arrival; `NO_TARGET` = infinite
    duration_s : (n,) seconds after which a job ends even with work left; `NO_LIMIT` = infinite
    priority : (n,) higher is more urgent
    unit_memory_bytes : (n,) requested per unit; 0 = an equal share
    gang : (n,) True if a job starts with all its units or not at all
    queue : (n,) number of its queue, for policies with queues of shares
    """

    name: str
    applications: tuple[Application, ...]
    arrival_s: Floats
    application: Ints
    work_s: Floats
    tasks: Ints
    units: Ints
    target_s: Floats
    duration_s: Floats
    priority: Ints
    unit_memory_bytes: Floats
    gang: Bools
    queue: Ints

    def __len__(self) -> int:
        return int(self.arrival_s.size)

    def __post_init__(self) -> None:
        columns = (self.application, self.work_s, self.tasks, self.units, self.target_s,
                   self.duration_s, self.priority, self.unit_memory_bytes, self.gang,
                   self.queue)  # fmt: skip
        if any(column.shape != self.arrival_s.shape for column in columns):
            raise ReplayError("the columns of a workload must have one value for each job")
        for problem, is_wrong in (
            ("arrivals must be finite and non-decreasing, from 0",
             not np.isfinite(self.arrival_s).all() or (np.diff(self.arrival_s, prepend=0.0) < 0)),
            ("work must be > 0", ~(self.work_s > 0)),
            ("targets and durations must be > 0", ~((self.target_s > 0) & (self.duration_s > 0))),
            ("units, tasks, memory and queue must not be negative",
             (self.units < 0) | (self.tasks < 0) | (self.queue < 0)
             | ~(self.unit_memory_bytes >= 0)),
            ("an application does not exist",
             (self.application < 0) | (self.application >= len(self.applications))),
            ("a service needs a number of units", np.isinf(self.work_s) & (self.units == SIZED)),
        ):  # fmt: skip
            if np.any(is_wrong):
                raise ReplayError(f"workload {self.name}: {problem}")

    def part(self, jobs: slice) -> "Workload":
        """Return some of the jobs, with the same arrival times."""
        return Workload(
            self.name, self.applications, self.arrival_s[jobs], self.application[jobs],
            self.work_s[jobs], self.tasks[jobs], self.units[jobs], self.target_s[jobs],
            self.duration_s[jobs], self.priority[jobs], self.unit_memory_bytes[jobs],
            self.gang[jobs], self.queue[jobs],
        )  # fmt: skip


def workload(
    name: str,
    applications: Sequence[Application],
    arrival_s: Floats,
    application: Ints,
    work_s: Floats,
    **columns: Any,
) -> Workload:
    """Return a workload; columns that are not given get the defaults of `JobSpec`.

    Raises
    ------
    ReplayError : a column is invalid; names the condition.
    """
    n = len(arrival_s)
    defaults: dict[str, tuple[float, type]] = {
        "tasks": (DIVISIBLE, np.int64),
        "units": (SIZED, np.int64),
        "target_s": (NO_TARGET, np.float64),
        "duration_s": (NO_LIMIT, np.float64),
        "priority": (0, np.int64),
        "unit_memory_bytes": (0.0, np.float64),
        "gang": (True, np.bool_),
        "queue": (0, np.int64),
    }
    if unknown := columns.keys() - defaults.keys():
        raise ReplayError(f"a workload has no column {', '.join(sorted(unknown))}")
    filled: dict[str, Any] = {
        column: np.asarray(columns.get(column, np.full(n, value)), dtype=kind)
        for column, (value, kind) in defaults.items()
    }
    return Workload(
        name=name,
        applications=tuple(applications),
        arrival_s=np.asarray(arrival_s, dtype=np.float64),
        application=np.asarray(application, dtype=np.int64),
        work_s=np.asarray(work_s, dtype=np.float64),
        **filled,
    )
