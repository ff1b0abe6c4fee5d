"""Value types of traces: jobs with arrival times and sizes."""

from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from apps.common.core.errors import ControlPlaneError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

DAY_S: Final = 86_400.0


class TraceError(ControlPlaneError):
    """A trace cannot be read; names the place and the expected content."""

    def __init__(self, path: str, line: int, detail: str) -> None:
        place = f"{path}, line {line}" if line > 0 else path
        super().__init__(f"{place}: {detail}")
        self.path = path
        self.line = line  # 1-based; 0 = the file as a whole
        self.detail = detail


class UnreadableTraceError(TraceError):
    """The file of a trace does not exist or cannot be opened."""


@dataclass(frozen=True, slots=True)
class SwimTrace:
    """Hadoop jobs with their sizes, in the format of the SWIM project.

    Attributes
    ----------
    name : label of the trace, e.g. the file name without its extensions
    submit_s : (n,) seconds since the start of the trace, non-decreasing
    input_bytes, shuffle_bytes, output_bytes : (n,) read, sent from map to reduce, written; >= 0
    notes : corrections made while reading, one sentence each
    """

    name: str
    submit_s: Floats
    input_bytes: Floats
    shuffle_bytes: Floats
    output_bytes: Floats
    notes: tuple[str, ...] = field(default=())

    def __len__(self) -> int:
        return int(self.submit_s.size)


@dataclass(frozen=True, slots=True)
class GoogleTrace:
    """Jobs of a Google 2011 cell, grouped from their task events.

    Attributes
    ----------
    name : label of the trace
    job_id : (n,) ids of the source
    submit_s : (n,) seconds since recording began (time stamp 600 s), non-decreasing
    tasks : (n,) tasks submitted, >= 1
    cpu_request, memory_request : (n,) mean request of a task as a share of the largest machine,
        0-1; NaN if the source omits it
    task_seconds : (n,) mean seconds from SCHEDULE to FINISH of its finished tasks; NaN if none
        finished
    scheduling_class : (n,) 0 batch .. 3 latency-sensitive
    priority : (n,) 0 .. 11, 9 and above is production
    notes : rows left out or corrected
    """

    name: str
    job_id: Ints
    submit_s: Floats
    tasks: Ints
    cpu_request: Floats
    memory_request: Floats
    task_seconds: Floats
    scheduling_class: Ints
    priority: Ints
    notes: tuple[str, ...] = field(default=())

    def __len__(self) -> int:
        return int(self.submit_s.size)


Trace = SwimTrace | GoogleTrace
