"""Usage and progress of a task, from readings of the kernel and of its progress file.

Pure; the agent runs this module too, so it imports the standard library only.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

TAIL_BYTES: Final = 4096  # of a progress file that are read
MAX_LINE: Final = 200


class ThreadTimes(NamedTuple):
    """Nanoseconds that a thread has run, and has waited for a core while it could run."""

    ran_ns: int
    waited_ns: int


@dataclass(frozen=True, slots=True)
class TimeShares:
    """Where the time of all threads of a task went, as shares of it; the rest it ran."""

    run_wait: float
    blocked: float


def shares(
    before: Mapping[int, ThreadTimes], after: Mapping[int, ThreadTimes], *, elapsed_s: float
) -> TimeShares | None:
    """Split the time between two readings of ``/proc/PID/task/TID/schedstat``.

    Threads that began or ended meanwhile are left out; None if no other is there.
    """
    both = before.keys() & after.keys()
    whole_ns = len(both) * elapsed_s * 1e9
    if whole_ns <= 0.0:
        return None
    ran = sum(after[thread].ran_ns - before[thread].ran_ns for thread in both) / whole_ns
    waited = sum(after[thread].waited_ns - before[thread].waited_ns for thread in both) / whole_ns
    run_wait = min(1.0, max(0.0, waited))
    return TimeShares(run_wait, min(1.0, max(0.0, 1.0 - ran - run_wait)))


def ran_s(before: Mapping[int, ThreadTimes], after: Mapping[int, ThreadTimes]) -> float:
    """Return the CPU seconds between two readings; threads that have ended are missing."""
    none = ThreadTimes(0, 0)
    ran = sum(times.ran_ns - before.get(thread, none).ran_ns for thread, times in after.items())
    return max(0, ran) / 1e9


def read_progress(text: str) -> float | None:
    """Return the share of the work done: the last line of a progress file that says one.

    A line is a number from 0 to 1, or a percentage, and may go on after a space. A line without
    its end is being written, and does not count.
    """
    for line in reversed(text.split("\n")[:-1]):
        word = line[:MAX_LINE].strip().partition(" ")[0]
        scale = 100.0 if word.endswith("%") else 1.0
        try:
            value = float(word.removesuffix("%")) / scale
        except ValueError:
            continue
        if math.isfinite(value) and 0.0 <= value <= 1.0:
            return value
    return None


@dataclass(slots=True)
class ProgressRate:
    """Work per second, from the first report on: a command may continue an earlier run.

    Attributes
    ----------
    started_s : when the command started
    first : time and progress of the first report; None before it
    """

    started_s: float
    first: tuple[float, float] | None = None

    def per_s(self, at_s: float, progress: float) -> float:
        """Return the share of the work done per second until a report."""
        if self.first is None:
            self.first = (at_s, progress)
        first_s, before = self.first
        if progress > before and at_s > first_s:
            return (progress - before) / (at_s - first_s)
        return before / (first_s - self.started_s) if first_s > self.started_s else 0.0
