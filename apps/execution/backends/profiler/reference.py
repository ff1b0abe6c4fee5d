"""The speed of a core itself: fixed work every 8 ms, timed in CPU seconds.

Other guests of the host slow a virtual core down, by its sibling thread or by taking it away
without steal time; no counter of the machine shows it. The process
`python -m apps.execution.backends.profiler.reference CPU FILE` therefore runs a short loop on the
core of the program, about 2 % of its time, and writes how long it took. A sample is the faster of
two loops after a first one, so that caches that a stressor has emptied do not count. The mean of
the samples counts: a guest that is busy a third of the time slows the program down by its share,
but does not move the median.
"""

import mmap
import os
import struct
import subprocess
import sys
import tempfile
import time
from statistics import fmean
from typing import Final, Self

from apps.execution.backends.profiler.counters import ThreadTimes, thread_times
from apps.execution.backends.profiler.scheduling import Priority
from apps.execution.backends.profiler.stressor import ROOT
from apps.profiling.core.ramp import ProbeFailedError

INTERVAL_S: Final = 0.008
LOOPS: Final = 1000
SLOTS: Final = 4096  # the last 30 s
_COUNT: Final = struct.Struct("<q")
_SAMPLE: Final = struct.Struct("<d")
READY_S: Final = 10.0


class ReferenceProcess:
    """Measures the speed of a core while it is open."""

    def __init__(self, cpu: int, priority: Priority) -> None:
        self._file = tempfile.NamedTemporaryFile(prefix="berth-reference-")  # noqa: SIM115
        self._file.truncate(_COUNT.size + SLOTS * _SAMPLE.size)
        self._memory = mmap.mmap(self._file.fileno(), 0)
        self._process = subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, "-P", "-m", __name__, str(cpu), self._file.name],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            start_new_session=True,
        )
        until_s = time.monotonic() + READY_S
        while not self.count():
            if time.monotonic() > until_s:
                self.close()
                raise ProbeFailedError("the reference of the core's speed did not start")
            time.sleep(INTERVAL_S)
        priority.raise_reference(self._process.pid)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def count(self) -> int:
        """Return the number of samples so far."""
        return int(_COUNT.unpack_from(self._memory)[0])

    def loop_s(self, first: int, end: int) -> float | None:
        """Return the mean CPU seconds of the loop over some samples; None without any.

        Parameters
        ----------
        first, end : values of `count`, at most `SLOTS` apart
        """
        samples = [
            _SAMPLE.unpack_from(self._memory, _COUNT.size + number % SLOTS * _SAMPLE.size)[0]
            for number in range(max(first, end - SLOTS), end)
        ]
        return fmean(samples) if samples else None

    def times(self) -> ThreadTimes:
        """Return its CPU seconds and run-queue wait."""
        return thread_times(self._process.pid)

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()
        self._memory.close()
        self._file.close()


def _spin_s() -> float:
    begun_s = time.thread_time()
    for _ in range(LOOPS):
        pass
    return time.thread_time() - begun_s


def main(cpu: int, path: str) -> None:
    """Write samples until the parent ends."""
    os.sched_setaffinity(0, {cpu})
    parent, count = os.getppid(), 0
    with open(path, "r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
        while os.getppid() == parent:
            _spin_s()
            taken_s = min(_spin_s(), _spin_s())
            _SAMPLE.pack_into(memory, _COUNT.size + count % SLOTS * _SAMPLE.size, taken_s)
            count += 1
            _COUNT.pack_into(memory, 0, count)
            time.sleep(INTERVAL_S)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
