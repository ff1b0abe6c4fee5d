"""Child processes that end with this process: start, describe and stop them."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from apps.common.core.errors import ControlPlaneError

BIND_SCRIPT = Path(__file__).with_name("bind_to_parent.py")
POLL_S = 0.05
GROUP_STOP_TIMEOUT_S = 0.5


class LauncherError(ControlPlaneError):
    """An error shown to the user as one sentence, without a traceback."""


class StopRequestedError(LauncherError):
    """Ctrl-C, SIGTERM or SIGHUP was received."""


def bound_to_parent(
    command: Sequence[str], *, death_signal: signal.Signals = signal.SIGTERM
) -> list[str]:
    """Wrap `command` so that it receives `death_signal` when this process ends."""
    wrapper = [sys.executable, "-I", "-S", str(BIND_SCRIPT)]
    return [*wrapper, str(os.getpid()), str(int(death_signal)), *command]


@dataclass(slots=True)
class Child:
    """A child process with its output in `log`."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path
    stop_signals: tuple[signal.Signals, ...] = (signal.SIGTERM,)

    @property
    def exit_code(self) -> int | None:
        """Exit code; None while it runs, negative if ended by a signal."""
        return self.process.poll()

    def send(self, number: signal.Signals) -> None:
        """Send a signal unless the child has ended."""
        if self.process.poll() is None:
            self.process.send_signal(number)

    def set_niceness(self, niceness: int) -> None:
        """Set the niceness of the child and of the processes that it starts from now on."""
        if self.process.poll() is None:
            os.setpriority(os.PRIO_PROCESS, self.process.pid, niceness)

    def kill_group(self) -> bool:
        """Kill the process group of the child; return False if it has no processes left."""
        self.process.poll()
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            return False
        return True

    def describe_end(self) -> str:
        """Return how it ended, with its last output line unless it was killed."""
        code = self.process.poll()
        if code is None:
            return f"{self.name} is still running"
        if code < 0:
            return f"{self.name} was killed by {signal.Signals(-code).name}"
        last = last_line(self.log)
        return f"{self.name} ended with code {code}" + (f": {last}" if last else "")


def start(
    name: str,
    command: Sequence[str],
    *,
    log: Path,
    environment: Mapping[str, str],
    stop_signals: tuple[signal.Signals, ...] = (signal.SIGTERM,),
) -> Child:
    """Start a child in its own session, so that Ctrl-C reaches only the launcher.

    `command` must end with this process, usually by `bound_to_parent`.
    """
    with log.open("ab") as output:
        process = subprocess.Popen(  # noqa: S603  (fixed command)
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=dict(environment),
            start_new_session=True,
        )
    return Child(name=name, process=process, log=log, stop_signals=stop_signals)


def stop_all(children: Sequence[Child], *, timeout_s: float) -> None:
    """Send each child its stop signals at equal intervals, then kill the remaining processes."""
    rounds = max((len(child.stop_signals) for child in children), default=0)
    for attempt in range(rounds):
        for child in children:
            child.send(child.stop_signals[min(attempt, len(child.stop_signals) - 1)])
        if wait_all(children, timeout_s=timeout_s / rounds):
            break
    deadline = time.monotonic() + GROUP_STOP_TIMEOUT_S
    while [child for child in children if child.kill_group()] and time.monotonic() < deadline:
        time.sleep(POLL_S)
    wait_all(children, timeout_s=GROUP_STOP_TIMEOUT_S)


def wait_all(children: Sequence[Child], *, timeout_s: float) -> bool:
    """Wait until every child has ended; return False on time-out."""
    deadline = time.monotonic() + timeout_s
    while any(child.exit_code is None for child in children):
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_S)
    return True


def last_line(log: Path, *, tail_bytes: int = 4096) -> str:
    """Return the last non-blank line of a log, or an empty string.

    Django's prefix of errors of management commands is removed.
    """
    if not log.exists():
        return ""
    with log.open("rb") as stream:
        stream.seek(max(0, log.stat().st_size - tail_bytes))
        text = stream.read().decode(errors="replace")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1].removeprefix("CommandError: ") if lines else ""


def alive(pid: int) -> bool:
    """Whether a process with this id exists and is not a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return fields[0] not in {"Z", "X"}
