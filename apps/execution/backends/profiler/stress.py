"""The process of one stressor: `python -m apps.execution.backends.profiler.stress KERNEL ...`.

It prints a line when it is ready: the unit, and the amount per second that it achieves alone. Then
it reads lines ``INTENSITY SHARE FILL`` and answers each with its account since the last one. At
intensity 0 it sleeps; otherwise it presses for that share of every 20 ms. With FILL it computes in
registers instead of sleeping, so that no other program gets its core. It ends with its input.
"""

import json
import os
import select
import sys
import time
from typing import Final

from apps.execution.backends.profiler.kernels import Kernel, make
from apps.execution.backends.profiler.machine import caches

PERIOD_S: Final = 0.02
CALIBRATION_S: Final = 0.1  # of CPU time


class Stress:
    """One kernel and its account."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._clock = time.monotonic if kernel.is_timed_by_wall else time.thread_time
        self._intensity, self._share, self._fill = 0, 0.0, False
        self._reset()

    def _reset(self) -> None:
        self._amount = self._pressed_s = 0.0
        self._since_s = time.monotonic()

    def calibrate(self) -> float:
        """Return the amount per second that the kernel achieves."""
        self._kernel.set_intensity(1)
        self._rate()  # the first time is slower: caches, page tables and clocks
        rate = self._rate()
        self._kernel.set_intensity(0)
        return rate

    def _rate(self) -> float:
        amount, begun_s = 0.0, self._clock()
        while self._clock() < begun_s + CALIBRATION_S:
            amount += self._kernel.press()
        return amount / (self._clock() - begun_s)

    def serve(self) -> None:
        """Apply the ordered pressure until the input ends."""
        while True:
            if self._wait(None if self._is_idle else 0.0) and not self._obey():
                return
            if not self._is_idle:
                self._period()

    @property
    def _is_idle(self) -> bool:
        return self._intensity == 0 and not self._fill

    def _wait(self, seconds: float | None) -> bool:
        return bool(select.select([0], [], [], seconds)[0])

    def _obey(self) -> bool:
        line = _read_line()
        if not line:
            return False
        intensity, share, fill = line.split()
        if int(intensity) != self._intensity:
            self._kernel.set_intensity(int(intensity))
        report = {
            "amount": self._amount,
            "pressed_s": self._pressed_s,
            "elapsed_s": time.monotonic() - self._since_s,
        }
        self._intensity, self._share, self._fill = int(intensity), float(share), fill == b"1"
        self._reset()
        sys.stdout.write(json.dumps(report) + "\n")
        sys.stdout.flush()
        return True

    def _period(self) -> None:
        """Press for the share of one period, then sleep or fill the rest of it."""
        end_s = time.monotonic() + PERIOD_S
        # make up for the time that earlier periods did not press, as far as one period can
        due_s = self._share * (time.monotonic() - self._since_s + PERIOD_S) - self._pressed_s
        begun_s, used_s = self._clock(), 0.0
        while self._intensity and used_s < min(due_s, PERIOD_S):
            self._amount += self._kernel.press()
            used_s = self._clock() - begun_s
        self._pressed_s += used_s
        while self._fill and time.monotonic() < end_s:
            pass
        rest_s = end_s - time.monotonic()
        if rest_s > 0.0:
            self._wait(rest_s)


def _read_line() -> bytes:
    """Read one line without a buffer, which would hide the next one from `select`."""
    line = b""
    while not line.endswith(b"\n"):
        byte = os.read(0, 1)
        if not byte:
            return b""
        line += byte
    return line


def main(name: str, cpu: int, directory: str) -> None:
    """Serve one kernel on a core."""
    os.sched_setaffinity(0, {cpu})
    kernel = make(name, caches(cpu), directory)
    stress = Stress(kernel)
    ready = {
        "unit": kernel.unit,
        "alone_per_s": stress.calibrate(),
        "is_timed_by_wall": kernel.is_timed_by_wall,
    }
    sys.stdout.write(json.dumps(ready) + "\n")
    sys.stdout.flush()
    stress.serve()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
