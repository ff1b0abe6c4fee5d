"""Jobs of a trace of any format, as one table: what replays, generators and exports share."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, Final

import numpy as np

from apps.testbed.core.traces import Bools, Floats, Ints, TraceError


class TraceFormat(StrEnum):
    """Formats that `files.read_trace` recognises."""

    SWIM = "swim"
    GOOGLE_2011 = "google_2011"
    SWF = "swf"
    ALIBABA_GPU_2023 = "alibaba_gpu_2023"
    BERTH = "berth"  # jobs as Berth exports them: JSON Lines or Parquet


@dataclass(frozen=True, slots=True, eq=False)
class JobTable:
    """The jobs, n rows in the order of submission.

    Attributes
    ----------
    submit_s : (n,) since the start of the trace, >= 0, non-decreasing
    application : (n,) index into `TraceWorkload.applications`
    units : (n,) units that the job requests; 0 = unknown, sizing decides
    tasks : (n,) equal tasks that run in waves; 0 = the work divides freely
    work_s : (n,) unit-seconds of its work; infinite for a service, which runs for `seconds`
    seconds : (n,) from start to end as logged; NaN if unknown
    wait_s : (n,) from submission to start as logged; NaN if unknown
    target_s : (n,) completion time requested, from submission; infinite = none
    priority : (n,) higher is more urgent
    unit_memory_bytes : (n,) requested per unit; 0 = unknown
    gpus : (n,) GPUs requested, also parts of one
    queue : (n,) number of the queue to which the job was submitted; 0 = unknown
    """

    submit_s: Floats
    application: Ints
    units: Ints
    tasks: Ints
    work_s: Floats
    seconds: Floats
    wait_s: Floats
    target_s: Floats
    priority: Ints
    unit_memory_bytes: Floats
    gpus: Floats
    queue: Ints

    def __len__(self) -> int:
        return int(self.submit_s.size)

    def __post_init__(self) -> None:
        n = self.submit_s.shape
        wrong = [f.name for f in fields(self) if getattr(self, f.name).shape != n]
        if wrong or len(n) != 1:
            raise ValueError(f"{', '.join(wrong) or 'submit_s'} must have one value for each job")
        for problem, is_wrong in (
            ("submit_s must be finite, >= 0 and non-decreasing", self._is_out_of_order()),
            ("work_s must be > 0", ~(self.work_s > 0)),
            ("units, tasks, gpus and queue must be >= 0",
             _negative(self.units, self.tasks, self.gpus, self.queue)),
            ("target_s must be > 0", ~(self.target_s > 0)),
            ("seconds and wait_s must be >= 0 or NaN", _negative(self.seconds, self.wait_s)),
            ("a service needs units and seconds", self._is_bare_service()),
        ):  # fmt: skip
            if np.any(is_wrong):
                raise ValueError(problem)

    def _is_out_of_order(self) -> Bools:
        return ~np.isfinite(self.submit_s) | (np.diff(self.submit_s, prepend=0.0) < 0)

    def _is_bare_service(self) -> Bools:
        return np.isinf(self.work_s) & ((self.units == 0) | ~(self.seconds > 0))


def _negative(*columns: Floats | Ints) -> Bools:
    return np.logical_or.reduce([column < 0 for column in columns])


COLUMNS: Final = tuple(column.name for column in fields(JobTable))
_DEFAULTS: Final[dict[str, float]] = {
    "units": 0, "tasks": 0, "seconds": np.nan, "wait_s": np.nan, "target_s": np.inf,
    "priority": 0, "unit_memory_bytes": 0.0, "gpus": 0.0, "queue": 0,
}  # fmt: skip
INTEGERS: Final = frozenset({"application", "units", "tasks", "priority", "queue"})


Column = Sequence[float] | Floats | Ints


def job_table(
    submit_s: Column, application: Column, work_s: Column, **columns: Column
) -> JobTable:
    """Return a table; columns that are not given are unknown."""
    given: dict[str, Any] = {"submit_s": submit_s, "application": application, "work_s": work_s}
    given |= {name: np.full(len(submit_s), value) for name, value in _DEFAULTS.items()}
    given |= columns
    typed: dict[str, Any] = {
        name: np.asarray(values, dtype=np.int64 if name in INTEGERS else np.float64)
        for name, values in given.items()
    }
    return JobTable(**typed)


@dataclass(frozen=True, slots=True, eq=False)
class TraceWorkload:
    """A trace, read.

    Attributes
    ----------
    name : label of the trace
    format : of the file
    applications : names; jobs of one application are similar
    kinds : of the applications, as in `Application.kind`
    skipped : malformed lines that were left out; `problems` has the first ones
    notes : jobs left out and values assumed, one sentence each
    """

    name: str
    format: TraceFormat
    applications: tuple[str, ...]
    kinds: tuple[str, ...]
    jobs: JobTable
    skipped: int = 0
    problems: tuple[TraceError, ...] = ()
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.jobs)

    def __post_init__(self) -> None:
        if len(self.kinds) != len(self.applications):
            raise ValueError("every application must have a kind")
        index = self.jobs.application
        if index.size and not 0 <= index.min() <= index.max() < len(self.applications):
            raise ValueError("an application of a job does not exist")
