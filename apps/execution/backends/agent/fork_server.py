"""Forks the supervisors of an agent: a fork takes a few ms, a new interpreter fifty.

A small process that has loaded what a supervisor needs. Each line of its input is JSON: the
control groups of the next task, whose supervisor is forked ahead, or the directory of a task. It
answers with the id of the supervisor. It ends with its input, which is when the agent ends; the
supervisors go on. Standard library only, besides the supervisor.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, Final

from apps.execution.backends.agent import supervisor
from apps.execution.backends.agent.command import Command, preload

ROOT: Final = str(Path(__file__).parents[4])  # a directory or an archive with this package
_CODE: Final = (
    "import sys; sys.path.insert(0, sys.argv[1]);"
    " from apps.execution.backends.agent.fork_server import serve; serve(sys.stdin.buffer)"
)


class ForkServer:
    """The process that forks supervisors, as the agent sees it; started when it is needed."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the process, so that the first task need not wait for it."""
        self._process = subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, "-I", "-S", "-c", _CODE, ROOT],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C in a terminal ends the agent, and this process by it
            env={},
        )

    def prepare(self, groups: list[str]) -> None:
        """Fork a supervisor ahead, and a process that joins the groups of these files."""
        self._ask({"groups": groups})

    def fork(self, directory: Path, *, is_prepared: bool = False) -> None:
        """Start the supervisor of a task; the one that was prepared, if it is still there.

        A task that is given twice is started once: the first supervisor claims it.
        """
        self._ask({"directory": str(directory), "is_prepared": is_prepared})

    def _ask(self, asked: dict[str, Any]) -> None:
        """Send a request. Start the process again if it has ended."""
        line = json.dumps(asked).encode() + b"\n"
        if self._process is None:
            self.start()
        if not self._asked(line):
            self.stop()
            self.start()
            if not self._asked(line):
                raise RuntimeError("the process that forks supervisors cannot be started")

    def stop(self) -> None:
        """End the process; the supervisors that it has forked go on."""
        if self._process is None:
            return
        with suppress(BrokenPipeError):
            self._process.communicate()

    def _asked(self, line: bytes) -> bool:
        """Ask for a supervisor; return False if the process has ended."""
        process = self._process
        assert process is not None and process.stdin and process.stdout  # noqa: S101, PT018
        try:
            process.stdin.write(line)
            process.stdin.flush()
        except BrokenPipeError:
            return False
        return bool(process.stdout.readline())


def serve(lines: BinaryIO) -> None:
    """Fork a supervisor for each line until the input ends."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps them
    preload()
    prepared: Prepared | None = None
    for line in lines:
        asked = json.loads(line)
        if "groups" in asked:
            prepared = Prepared(asked["groups"], prepared)
            pid = prepared.pid
        elif asked["is_prepared"] and prepared is not None:
            chosen, prepared = prepared, None
            pid = chosen.give(asked["directory"]) or _forked(
                _supervise, asked["directory"], others=None
            )
        else:
            other = None if prepared is None else prepared.descriptor
            pid = _forked(_supervise, asked["directory"], others=other)
        os.write(1, b"%d\n" % pid)


class Prepared:
    """A supervisor that waits for the directory of its task; it ends when nobody can give one.

    Attributes
    ----------
    pid : of the supervisor
    """

    def __init__(self, groups: list[str], before: "Prepared | None") -> None:
        """Fork it; it replaces the one before."""
        if before is not None:
            os.close(before.descriptor)
        self.descriptor: int
        directories, self.descriptor = os.pipe()
        self.pid = _forked(_await_task, groups, directories, others=self.descriptor)
        os.close(directories)

    def give(self, directory: str) -> int:
        """Start the task; return the supervisor, or 0 if it has ended."""
        with open(self.descriptor, "wb", buffering=0) as stream, suppress(BrokenPipeError):
            stream.write(directory.encode())
            return self.pid
        return 0


def _forked(run: Callable[..., int], *arguments: Any, others: int | None) -> int:
    """Run a function in a new process that outlives the agent; return its id.

    Parameters
    ----------
    others : descriptor that the process must not hold open
    """
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        if others is not None:
            os.close(others)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        code = run(*arguments)
    except BaseException:  # noqa: BLE001 - nothing may return into the loop of the parent
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stderr.flush()
        os._exit(code)


def _await_task(groups: list[str], directories: int) -> int:
    """Be the supervisor of the task that comes next, if one comes."""
    _log_to(os.devnull)
    process = Command(groups)
    with open(directories) as stream:
        directory = stream.read()
    return _supervise(directory, process) if directory else 0


def _supervise(directory: str, process: Command | None = None) -> int:
    """Be the supervisor of a task."""
    _log_to(f"{directory}/supervisor.log")
    return supervisor.main(directory, process)


def _log_to(path: str) -> None:
    """Let go of the pipes of the agent, and print into a file."""
    try:
        log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    except OSError:  # a full disk
        log = os.open(os.devnull, os.O_WRONLY)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    os.close(log)
    os.close(nothing)
