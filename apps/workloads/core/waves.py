"""Task counts of a job, derived from its progress: tasks run in waves on its units."""

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TaskCounts:
    """Number of tasks by state; ``waves_left`` is None before the job has units."""

    total: int
    done: int
    running: int
    waiting: int
    waves_left: int | None


def count_tasks(*, total: int, progress: float, units: int | None, is_running: bool) -> TaskCounts:
    """Count a job's tasks.

    Parameters
    ----------
    total : tasks of the job, >= 1
    progress : share of the work done, 0-1
    units : resource units the job runs on
    is_running : True while it runs
    """
    done = total if progress >= 1.0 else math.floor(total * progress)
    running = min(total - done, units or 0) if is_running else 0
    waves = math.ceil((total - done) / units) if units else None
    return TaskCounts(total, done, running, total - done - running, waves)
