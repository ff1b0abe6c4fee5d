"""The program whose sensitivity is measured: one long run, or repeated short ones.

A long run says its progress in the file that `BERTH_PROGRESS` names; a window begins and ends when
that file changes, so that it holds whole steps. A program that says none is run again and again,
and the work of a window is the number of its runs.
"""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from apps.execution.backends.agent.command import preload
from apps.execution.backends.profiler.accounts import Account
from apps.execution.backends.profiler.counters import TreeTimes, thread_times, tree_times
from apps.execution.backends.profiler.sandbox import Place
from apps.execution.backends.profiler.scheduling import Priority
from apps.execution.core.agent.usage import TAIL_BYTES, read_progress
from apps.profiling.core.ramp import ProbeFailedError
from apps.profiling.core.windows import Fault

POLL_S: Final = 0.001
ONE_THREAD: Final = 1.05  # of a run's CPU time over that of its first thread
Mark = Callable[[], None]


class NoProgressError(Exception):
    """The program can be measured in neither way; the message says why."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """Work and times of a program in one window; `fault` if it does not count."""

    wall_s: float
    work: float
    cpu_s: float
    wait_s: float | None
    fault: Fault | None = None


class Program(Protocol):
    """A program that can be measured; `place` is where it runs."""

    way: str
    place: Place

    def stretch(self, seconds: float, mark: Mark) -> Stretch:
        """Let it run for about so long; call `mark` at both ends of the window."""
        ...

    def close(self) -> None:
        """End it."""
        ...


@dataclass(frozen=True, slots=True)
class Launcher:
    """Starts the command at its place and on its cores; its output is discarded.

    Attributes
    ----------
    progress : file in which its progress arrives
    environment : of the command; None = that of the profiler
    account : that runs the command; None = that of the profiler
    """

    command: Sequence[str]
    priority: Priority
    place: Place
    progress: Path
    environment: Mapping[str, str] | None = None
    account: Account | None = None

    def start(self) -> subprocess.Popen[bytes]:
        """Start it once.

        Raises
        ------
        NoProgressError : it cannot be started.
        """
        self.progress.write_text("")
        if self.account is not None:
            os.chown(self.progress, self.account.user, self.account.group)
        environment = os.environ if self.environment is None else self.environment
        preload()
        try:
            with self.place.prepared() as directory, self.priority.handed_down():
                return subprocess.Popen(  # noqa: S603 - running the command is what it is for
                    list(self.command),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    cwd=directory,
                    env={**environment, "BERTH_PROGRESS": self.place.progress},
                    start_new_session=True,
                    preexec_fn=self._prepare_process,  # noqa: PLW1509 - one thread
                )
        except (OSError, subprocess.SubprocessError) as error:
            raise NoProgressError(f"the command could not be started: {error}") from error

    def _prepare_process(self) -> None:
        self.place.enter()
        self.priority.apply_to_program()
        if self.account is not None:
            self.account.assume()


def prepare(launcher: Launcher, *, patience_s: float) -> Program:
    """Start the command and find out how it can be measured.

    Parameters
    ----------
    patience_s : max time until it must have ended once, or said its progress twice

    Raises
    ------
    NoProgressError : it did neither, or failed.
    """
    process = launcher.start()
    until_s, seen = time.monotonic() + patience_s, set[float]()
    while time.monotonic() < until_s and len(seen) < 2:
        if process.poll() is not None:
            _require_success(process.returncode)
            return RepeatedProgram(launcher, patience_s)
        value = _read(launcher.progress)
        if value is not None:
            seen.add(value)
        time.sleep(POLL_S)
    if len(seen) == 2:
        return ReportingProgram(launcher, process)
    _end(process)
    raise NoProgressError(
        f"the command neither ended within {patience_s:g} s nor wrote its progress into"
        " BERTH_PROGRESS; use a smaller input, or let it say its progress"
    )


class ReportingProgram:
    """A long run that says its progress; it is started again when it ends."""

    way = "progress"

    def __init__(self, launcher: Launcher, process: subprocess.Popen[bytes]) -> None:
        self._launcher, self._process, self.place = launcher, process, launcher.place

    def stretch(self, seconds: float, mark: Mark) -> Stretch:
        """Let it run for about so long."""
        try:
            return self._stretch(seconds, mark)
        except (_EndedError, OSError):
            code = self._process.wait()
            _require_success(code)
            self._process = self._launcher.start()
            return Stretch(0.0, 0.0, 0.0, None, Fault.ENDED)

    def _stretch(self, seconds: float, mark: Mark) -> Stretch:
        begin = self._next_step(3.0 * seconds)
        mark()
        before, begun_s = tree_times(self._process.pid), time.monotonic()
        time.sleep(seconds)
        end = self._next_step(3.0 * seconds)
        after, ended_s = tree_times(self._process.pid), time.monotonic()
        mark()
        if begin is None or end is None:
            return Stretch(ended_s - begun_s, 0.0, 0.0, None, Fault.NO_PROGRESS)
        return Stretch(
            ended_s - begun_s, end - begin, after.cpu_s - before.cpu_s, _wait(before, after)
        )

    def _next_step(self, patience_s: float) -> float | None:
        """Wait until the progress changes, and return it; None if it does not."""
        until_s, last = time.monotonic() + patience_s, _read(self._launcher.progress)
        while time.monotonic() < until_s:
            if self._process.poll() is not None:
                raise _EndedError
            value = _read(self._launcher.progress)
            if value is not None and last is not None and value != last:
                return value
            last = value if last is None else last
            time.sleep(POLL_S)
        return None

    def close(self) -> None:
        """End it."""
        _end(self._process)


class RepeatedProgram:
    """A short command that is run again and again."""

    way = "repeated runs"

    def __init__(self, launcher: Launcher, patience_s: float) -> None:
        self._launcher, self._patience_s, self.place = launcher, patience_s, launcher.place

    def stretch(self, seconds: float, mark: Mark) -> Stretch:
        """Run it until so much time has passed; a run that began is finished."""
        runs: list[TreeTimes] = []
        mark()
        begun_s = time.monotonic()
        while time.monotonic() < begun_s + seconds:
            runs.append(self._run())
        ended_s = time.monotonic()
        mark()
        waits = [run.wait_s for run in runs if run.wait_s is not None]
        return Stretch(
            wall_s=ended_s - begun_s,
            work=float(len(runs)),
            cpu_s=sum(run.cpu_s for run in runs),
            wait_s=sum(waits) if len(waits) == len(runs) else None,
        )

    def _run(self) -> TreeTimes:
        process = self._launcher.start()
        timer = _Alarm(process, self._patience_s)
        with timer:
            # its counters can be read until it is reaped
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
            first = thread_times(process.pid)
            _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if timer.has_rung:
            raise ProbeFailedError(f"a run took longer than {self._patience_s:g} s")
        _require_success(process.returncode)
        cpu_s = usage.ru_utime + usage.ru_stime
        is_alone = cpu_s <= ONE_THREAD * first.ran_s + POLL_S
        return TreeTimes(cpu_s, first.waited_s if is_alone else None)

    def close(self) -> None:
        """Do nothing: it does not run between windows."""


class _EndedError(Exception):
    """The program ended within a window."""


class _Alarm:
    """Kills a process that runs too long, by SIGALRM in this process."""

    def __init__(self, process: subprocess.Popen[bytes], seconds: float) -> None:
        self._process, self._seconds, self.has_rung = process, seconds, False

    def __enter__(self) -> None:
        self._before = signal.signal(signal.SIGALRM, self._ring)
        signal.setitimer(signal.ITIMER_REAL, self._seconds)

    def __exit__(self, *_error: object) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, self._before)

    def _ring(self, *_signal: object) -> None:
        self.has_rung = True
        os.killpg(self._process.pid, signal.SIGKILL)


def _wait(before: TreeTimes, after: TreeTimes) -> float | None:
    if before.wait_s is None or after.wait_s is None:
        return None
    return after.wait_s - before.wait_s


def _read(progress: Path) -> float | None:
    with suppress(OSError), progress.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - TAIL_BYTES))
        return read_progress(file.read().decode(errors="replace"))
    return None


def _end(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _require_success(code: int) -> None:
    if code != 0:
        raise NoProgressError(f"the command failed with exit code {code}")
