"""Jobs in the Standard Workload Format."""

from collections.abc import Iterator
from typing import Final

import numpy as np

from apps.testbed.core.trace_workload import TraceWorkload

UNKNOWN: Final = -1
COMPLETED: Final = 1
KILOBYTE: Final = 1024


def swf_lines(trace: TraceWorkload) -> Iterator[str]:
    """Yield header and jobs; times are whole seconds, and applications are executables.

    A job of unknown size has as many processors as tasks, at least one. A job without a logged
    time runs for its work over its processors.
    """
    jobs = trace.jobs
    processors = np.where(jobs.units > 0, jobs.units, np.maximum(jobs.tasks, 1))
    ideal = np.where(np.isinf(jobs.work_s), np.nan, jobs.work_s / processors)
    seconds = np.where(np.isnan(jobs.seconds), ideal, jobs.seconds)
    yield "; Version: 2.2"
    yield f"; Computer: {trace.name}"
    yield f"; MaxJobs: {len(trace)}"
    yield f"; MaxProcs: {processors.max() if len(trace) else 0}"
    for number, name in enumerate(trace.applications):
        yield f"; Executable: {number} {name}"
    memory = jobs.unit_memory_bytes / KILOBYTE
    for i in range(len(trace)):
        requested = _whole(jobs.target_s[i])
        used = _whole(memory[i]) if memory[i] else UNKNOWN
        yield (
            f"{i + 1} {_whole(jobs.submit_s[i])} {_whole(jobs.wait_s[i])} {_whole(seconds[i])}"
            f" {processors[i]} -1 -1 {processors[i]} {requested} {used} {COMPLETED} -1 -1"
            f" {jobs.application[i]} {jobs.queue[i] or UNKNOWN} -1 -1 -1"
        )


def _whole(value: float) -> int:
    return round(value) if np.isfinite(value) else UNKNOWN
