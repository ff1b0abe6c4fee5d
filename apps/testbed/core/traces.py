"""What a trace is once it is read: jobs with arrival times and sizes."""

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
    """A trace that cannot be read: where it broke, and what would be right."""

    def __init__(self, path: str, line: int, detail: str) -> None:
        place = f"{path}, line {line}" if line > 0 else path
        super().__init__(f"{place}: {detail}")
        self.path = path
        self.line = line  # 1-based; 0 = the file as a whole
        self.detail = detail


@dataclass(frozen=True, slots=True)
class SwimTrace:
    """Hadoop jobs by their sizes: the format of the SWIM project.

    Attributes
    ----------
    name : label of the trace, e.g. the file name without its endings
    submit_s : (n,) seconds since the start of the trace, non-decreasing
    input_bytes, shuffle_bytes, output_bytes : (n,) read, moved from map to reduce, written; >= 0
    notes : what the reader had to put right, one sentence each
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
    """Jobs of a Google 2011 cell, folded from their task events.

    Attributes
    ----------
    name : label of the trace
    job_id : (n,) ids of the source
    submit_s : (n,) seconds since the trace began to record (its 600 s mark), non-decreasing
    tasks : (n,) tasks submitted, >= 1
    cpu_request, memory_request : (n,) mean request of a task as a share of the largest machine,
        0-1; NaN where the source withholds it
    task_seconds : (n,) mean seconds from SCHEDULE to FINISH of its finished tasks; NaN: none did
    scheduling_class : (n,) 0 batch .. 3 latency-sensitive
    priority : (n,) 0 .. 11, 9 and above is production
    notes : what the reader left out or put right
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
