"""The profiler's end of one stressor process."""

import json
import os
import select
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from apps.execution.backends.profiler.counters import ThreadTimes, thread_times
from apps.execution.backends.profiler.scheduling import Priority
from apps.profiling.core.ramp import ProbeFailedError
from apps.profiling.core.stressors import Stressor

ROOT: Final = Path(__file__).resolve().parents[4]
READY_S: Final = 60.0
ANSWER_S: Final = 30.0
_ONE_THREAD: Final = dict.fromkeys(
    ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1"
)


@dataclass(frozen=True, slots=True)
class Account:
    """The pressing of a stressor between two orders.

    Attributes
    ----------
    pressed : share of the time in which it pressed
    speed : amount per second of pressing, relative to that when it was alone
    """

    pressed: float
    speed: float


class StressProcess:
    """A running stressor; a context manager that ends it."""

    def __init__(self, stressor: Stressor, cpu: int, directory: str, priority: Priority) -> None:
        self.stressor, self.cpu = stressor, cpu
        module = f"{__package__}.stress"
        self._process = subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, "-P", "-m", module, stressor.name, str(cpu), directory],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(ROOT), **_ONE_THREAD},
            start_new_session=True,
        )
        try:
            ready = self._answer(READY_S)
            self._alone_per_s = float(ready["alone_per_s"])
            self.alone = f"{self._alone_per_s:.3g} {ready['unit']}/s"
            self._is_timed_by_wall = bool(ready["is_timed_by_wall"])
            # while it is off or pauses, other programs must not get its core; a stressor that
            # waits leaves it to them in any case
            self._fills = (
                priority.is_realtime
                and cpu not in priority.program_cpus
                and not self._is_timed_by_wall
            )
            priority.raise_stressor(self._process.pid)
            self.off()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    @property
    def is_timed_by_wall(self) -> bool:
        """Whether it mostly waits, so that its CPU time does not confirm what it says."""
        return self._is_timed_by_wall

    @property
    def pid(self) -> int:
        """Id of its process."""
        return self._process.pid

    def on(self, intensity: int) -> None:
        """Press from now on."""
        self._order(intensity, self.stressor.max_share * intensity / 100.0)

    def off(self) -> Account:
        """Stop pressing, and return its account since the last order."""
        done = self._order(0, 0.0)
        pressed_s, elapsed_s = float(done["pressed_s"]), float(done["elapsed_s"])
        speed = float(done["amount"]) / pressed_s / self._alone_per_s if pressed_s else 0.0
        return Account(pressed_s / elapsed_s if elapsed_s else 0.0, speed)

    def times(self) -> ThreadTimes:
        """Return its CPU seconds and run-queue wait, as the kernel counts them."""
        return thread_times(self.pid)

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def _order(self, intensity: int, share: float) -> dict[str, Any]:
        assert self._process.stdin is not None  # noqa: S101 - a pipe was asked for
        try:
            os.write(self._process.stdin.fileno(), b"%d %f %d\n" % (intensity, share, self._fills))
        except BrokenPipeError:
            raise ProbeFailedError(f"the stressor {self.stressor.name} died") from None
        return self._answer(ANSWER_S)

    def _answer(self, seconds: float) -> dict[str, Any]:
        assert self._process.stdout is not None  # noqa: S101 - a pipe was asked for
        if not select.select([self._process.stdout], [], [], seconds)[0]:
            raise ProbeFailedError(f"the stressor {self.stressor.name} does not answer")
        line = self._process.stdout.readline()
        if not line:
            raise ProbeFailedError(f"the stressor {self.stressor.name} died")
        answer: dict[str, Any] = json.loads(line)
        return answer
