"""Runs the progress command of a task repeatedly while its command runs.

It runs in the same directory and control groups, as the same user, one at a time. Its last line
in the protocol is written into the file that the agent reads. Standard library only, and no other
module of this project than `command` and the protocol.
"""

import os
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

from apps.execution.backends.agent.command import Command
from apps.execution.core.agent.usage import read_progress

LIMIT_S: Final = 10.0  # for one run
KEPT_BYTES: Final = 4096  # of its output
KILL_S: Final = 1.0  # to wait for the end of a run that was killed
_READ_BYTES: Final = 1 << 16
_READS: Final = 16


class ProgressCommand:
    """The progress command of one task."""

    def __init__(self, order: Mapping[str, Any], complain: Callable[[str], None]) -> None:
        """Take the order of the task, and what to do with the first failure."""
        self._order = {**order, "command": order["progress_command"]}
        self._file: str = order["progress"]
        self._every_s: float = order["progress_every_s"]
        self._complain: Callable[[str], None] | None = complain
        self._due_s = time.monotonic() + self._every_s
        self._until_s = 0.0
        self._process: Command | None = None
        self._said = b""
        self._is_killed = False

    def tick(self) -> None:
        """Begin a run that is due, and read one that runs. Takes some ms if one begins."""
        now_s = time.monotonic()
        if self._process is not None:
            self._follow(self._process, now_s)
        elif now_s >= self._due_s:
            self._due_s = now_s + self._every_s
            self._begin(now_s)

    def stop(self) -> None:
        """Kill the run that is under way."""
        if self._process is not None:
            _kill(self._process)
            self._process.has_ended_within(KILL_S)
            _close(self._process)
            self._process = None

    def _begin(self, now_s: float) -> None:
        process = None
        try:
            process = Command(self._order.get("cgroups") or [])
            process.begin(self._order)
        except (OSError, KeyError) as error:
            if process is not None:
                _kill(process)
                _close(process)
            self._fail(f"could not be started: {error}")
            return
        for pipe in (process.stdout, process.stderr):
            os.set_blocking(pipe, False)
        self._process, self._said, self._until_s = process, b"", now_s + LIMIT_S
        self._is_killed = False

    def _follow(self, process: Command, now_s: float) -> None:
        code = process.poll()  # first: then all of its output is there
        self._said = (self._said + _read(process.stdout))[-KEPT_BYTES:]
        _read(process.stderr)
        if code is None:
            if now_s > self._until_s and not self._is_killed:
                # a process whose directory hangs ends only when that answers: nobody waits for it
                self._is_killed = True
                _kill(process)
                self._fail(f"was stopped after {LIMIT_S:g} s")
            return
        failure = process.failure()
        _close(process)
        self._process = None
        if self._is_killed:
            return
        if failure:
            self._fail(f"could not be started: {failure}")
        elif code:
            self._fail(f"ended with exit code {code}")
        else:
            self._record(self._said.decode(errors="replace"))

    def _record(self, text: str) -> None:
        share = read_progress(text + "\n")
        if share is None:
            self._fail("printed no line that begins with a share such as 0.25 or 25%")
            return
        try:
            with open(self._file + ".new", "w") as stream:
                stream.write(f"{share}\n")
            os.rename(self._file + ".new", self._file)
        except OSError as error:  # a full disk
            self._fail(f"could not be recorded: {error}")

    def _fail(self, what: str) -> None:
        """Complain about the first failure; those that follow say the same."""
        if self._complain is not None:
            self._complain(f"berth: the progress command {what}\n")
            self._complain = None


def _read(pipe: int) -> bytes:
    """Return what is in a pipe: a full one at most, as a process may write without end."""
    data = b""
    with suppress(BlockingIOError):
        for _ in range(_READS):
            part = os.read(pipe, _READ_BYTES)
            if not part:
                break
            data = (data + part)[-KEPT_BYTES:]
    return data


def _kill(process: Command) -> None:
    for send, target in ((os.killpg, process.pid), (os.kill, process.pid)):
        with suppress(ProcessLookupError):
            send(target, signal.SIGKILL)


def _close(process: Command) -> None:
    for pipe in (process.stdout, process.stderr):
        os.close(pipe)
