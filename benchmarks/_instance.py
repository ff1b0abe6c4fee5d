"""An instance of Berth in its own directory, started and stopped as by a user."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

PROJECT: Final = Path(__file__).resolve().parent.parent
START_TIMEOUT_S: Final = 300.0  # the first start of a checkout compiles kernels
STOP_TIMEOUT_S: Final = 15.0
OURS: Final = ("DATABASE_URL", "REDIS_URL", "BERTH_")


# text in the command line: part
PARTS: Final = {
    "gunicorn": "web",
    "uvicorn": "stream",
    "--queues agents": "agents",
    "--queues default": "default worker",
    "--queues placement": "placement workers",
    "--queues upkeep": "upkeep worker",
    "controlplane beat": "beat",
    "run_emulator": "emulator",
    "postgres": "PostgreSQL",
    "valkey": "Valkey",
}


class InstanceError(Exception):
    """The instance did not start, or ended by itself."""


def free_ports() -> int:
    """Find two adjacent free ports."""
    while True:
        with socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", 0))
            port = int(first.getsockname()[1])
            try:
                second.bind(("127.0.0.1", port + 1))
            except OSError:
                continue
            return port


def _children() -> dict[int, list[int]]:
    """Process ids by their parent's."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # the process has just ended
        children.setdefault(int(fields[1]), []).append(int(entry.name))
    return children


def _descendants(pid: int) -> list[int]:
    """Find all descendants of a process."""
    started = _children()
    pids = list(started.get(pid, ()))
    for child in pids:
        pids += started.get(child, ())
    return pids


def _command(pid: int) -> str:
    """Read a command line; empty when the process has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


@dataclass(slots=True)
class RunningInstance:
    """``./dev run`` as a child process.

    Attributes
    ----------
    options : given to every start
    variables : of its environment, such as BERTH_AGENTS
    home : its directory; made fresh, removed by ``discard``
    """

    options: tuple[str, ...] = ()
    home: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="bi-")))
    port: int = field(default_factory=free_ports)
    process: "subprocess.Popen[bytes] | None" = None
    variables: Mapping[str, str] = field(default_factory=dict)

    @property
    def url(self) -> str:
        """Address of the pages and the API, without a slash at the end."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def log(self) -> Path:
        """Path of the output of all starts."""
        return self.home / "run.log"

    @property
    def environment(self) -> dict[str, str]:
        """Return our environment without variables of other instances, with its directory."""
        environment = {k: v for k, v in os.environ.items() if not k.startswith(OURS)}
        ours = {"BERTH_HOME": str(self.home), "PYTHONPATH": str(PROJECT)}
        return {**environment, **ours, **self.variables}

    def start(self, *more: str) -> None:
        """Start it and wait until its pages answer.

        Raises
        ------
        InstanceError : it ended, or did not answer in time.
        """
        self.process = self._spawn("run", "--port", str(self.port), *self.options, *more)
        deadline = time.monotonic() + START_TIMEOUT_S
        while not (self.run_facts().get("url") and self._answers()):
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise InstanceError(f"no start: {self.output()[-2000:]}")
            time.sleep(0.1)

    def output(self) -> str:
        """Return the output of all starts."""
        return self.log.read_text()

    def run_facts(self) -> dict[str, Any]:
        """Return the pid, url and environment of the launcher; empty if it is not running."""
        try:
            facts: dict[str, Any] = json.loads((self.home / "run.json").read_text())
        except (FileNotFoundError, json.JSONDecodeError):
            return {}
        return facts

    def variable(self, name: str) -> str:
        """Look up one variable of the environment its processes have."""
        return str(self.run_facts()["environment"][name])

    def manage(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """Run a management command in its environment."""
        return subprocess.run(  # noqa: S603 - our own program
            [sys.executable, "-m", "controlplane.embedded", "manage", *arguments],
            cwd=PROJECT,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )

    def stop(self) -> int:
        """Press Ctrl-C and wait for the exit code."""
        if self.process is None:
            return 0
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        return self.await_end()

    def await_end(self) -> int:
        """Wait until it has ended; its exit code.

        Raises
        ------
        InstanceError : it is still there after fifteen seconds.
        """
        assert self.process is not None  # noqa: S101 - started before
        try:
            return self.process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired as error:
            self.process.kill()
            raise InstanceError("it did not end within 15 s") from error

    def discard(self) -> None:
        """Stop it and remove its directory."""
        try:
            self.stop()
        finally:
            shutil.rmtree(self.home, ignore_errors=True)

    def children(self) -> dict[int, str]:
        """Command lines of the processes the launcher has started itself, by process id."""
        launcher = self.process.pid if self.process else 0
        return {pid: _command(pid) for pid in _children().get(launcher, ())}

    def descendants(self) -> dict[int, str]:
        """Command lines of all processes below the launcher, by process id."""
        return {
            pid: _command(pid) for pid in _descendants(self.process.pid if self.process else 0)
        }

    def cpu_seconds(self) -> dict[str, float]:
        """Return the CPU seconds of each part, its child processes included."""
        used = dict.fromkeys(PARTS.values(), 0.0)
        for pid in _descendants(self.process.pid if self.process else 0):
            try:
                fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue  # the process has just ended
            command = _command(pid)
            part = next((name for text, name in PARTS.items() if text in command), None)
            if part:
                # with those of ended children: PostgreSQL forks a process for each connection
                used[part] += sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
        return used

    def _spawn(self, *arguments: str) -> "subprocess.Popen[bytes]":
        with self.log.open("ab") as log:
            return subprocess.Popen(  # noqa: S603 - our own program
                [sys.executable, "-m", "controlplane.embedded", *arguments],
                cwd=PROJECT,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(  # noqa: S310 - http, this machine
                f"{self.url}/healthz", timeout=2.0
            ) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False
