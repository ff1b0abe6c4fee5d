"""Forks the supervisors of an agent: a fork takes a few ms, a new interpreter fifty.

A small process that has loaded what a supervisor needs. Each line of its input is a task
directory, as JSON; it answers with the id of the supervisor. It ends with its input, which is when
the agent ends; the supervisors go on. Standard library only, besides the supervisor.
"""

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Final

from apps.execution.backends.agent import supervisor

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

    def fork(self, directory: Path) -> None:
        """Start the supervisor of a task. Start this process again if it has ended.

        A task that is given twice is started once: the first supervisor claims it.
        """
        line = json.dumps(str(directory)).encode() + b"\n"
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
    supervisor.preload()
    for line in lines:
        directory = json.loads(line)
        pid = os.fork()
        if pid == 0:
            _supervise(directory)
        os.write(1, b"%d\n" % pid)


def _supervise(directory: str) -> None:
    """Become the supervisor of a task, and end."""
    code = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()  # it outlives the agent
        log = os.open(f"{directory}/supervisor.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for source, target in ((nothing, 0), (log, 1), (log, 2)):
            os.dup2(source, target)
        os.close(log)
        os.close(nothing)
        code = supervisor.main(directory)
    except BaseException:  # noqa: BLE001 - nothing may return into the loop of the parent
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stderr.flush()
        os._exit(code)
