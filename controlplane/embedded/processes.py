"""Child processes: started tethered to this one, watched, and stopped in order."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from apps.common.core.errors import ControlPlaneError

TETHER = Path(__file__).with_name("tether.py")
POLL_S = 0.05
GROUP_PATIENCE_S = 0.5


class LauncherError(ControlPlaneError):
    """Something the person who started Berth should read: one sentence, no traceback."""


class StopRequestedError(LauncherError):
    """Ctrl-C or SIGTERM arrived while something was being started."""


def tethered(
    command: Sequence[str], *, death_signal: signal.Signals = signal.SIGTERM
) -> list[str]:
    """Wrap `command` so that it receives `death_signal` when this process ends."""
    wrapper = [sys.executable, "-I", "-S", str(TETHER)]
    return [*wrapper, str(os.getpid()), str(int(death_signal)), *command]


@dataclass(slots=True)
class Child:
    """A running program of ours; its output goes to `log`."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path
    stop_signals: tuple[signal.Signals, ...] = (signal.SIGTERM,)

    @property
    def exit_code(self) -> int | None:
        """None while it runs; negative when a signal ended it."""
        return self.process.poll()

    def send(self, number: signal.Signals) -> None:
        """Deliver a signal; a child that has just ended is no error."""
        if self.process.poll() is None:
            self.process.send_signal(number)

    def kill_group(self) -> bool:
        """Kill what is left of the child and of what it started; False when nothing was."""
        self.process.poll()
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            return False
        return True

    def describe_end(self) -> str:
        """Say how it ended, and, unless it was killed, the last line it wrote."""
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
    """Start a child in a session of its own, so that Ctrl-C reaches only the launcher.

    `command` is already `tethered`, or ties itself to this process by other means.
    """
    with log.open("ab") as output:
        process = subprocess.Popen(  # noqa: S603  (our own command)
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=dict(environment),
            start_new_session=True,
        )
    return Child(name=name, process=process, log=log, stop_signals=stop_signals)


def stop_all(children: Sequence[Child], *, patience_s: float) -> None:
    """Ask every child to end, ask harder at equal intervals, kill what is left."""
    rounds = max((len(child.stop_signals) for child in children), default=0)
    for attempt in range(rounds):
        for child in children:
            child.send(child.stop_signals[min(attempt, len(child.stop_signals) - 1)])
        if wait_all(children, timeout_s=patience_s / rounds):
            break
    deadline = time.monotonic() + GROUP_PATIENCE_S
    while [child for child in children if child.kill_group()] and time.monotonic() < deadline:
        time.sleep(POLL_S)
    wait_all(children, timeout_s=GROUP_PATIENCE_S)


def wait_all(children: Sequence[Child], *, timeout_s: float) -> bool:
    """Wait until every child has ended; False when the time is up first."""
    deadline = time.monotonic() + timeout_s
    while any(child.exit_code is None for child in children):
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_S)
    return True


def last_line(log: Path, *, tail_bytes: int = 4096) -> str:
    """Return the last line of a log that says something; empty when there is none.

    What Django puts before the sentence of a failed management command is left out.
    """
    if not log.exists():
        return ""
    with log.open("rb") as stream:
        stream.seek(max(0, log.stat().st_size - tail_bytes))
        text = stream.read().decode(errors="replace")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1].removeprefix("CommandError: ") if lines else ""


def alive(pid: int) -> bool:
    """Say whether a process with this id exists and is no zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return fields[0] not in {"Z", "X"}
