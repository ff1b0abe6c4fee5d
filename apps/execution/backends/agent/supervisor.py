"""Runs one command and outlives the agent; `fork_server` forks it.

The directory holds ``order.json``. The supervisor writes, each file complete or absent:

* ``supervisor.json``: who it is. Created exclusively, so that one order starts one process. The
  agent creates it empty to claim a task that it reports as lost: none starts afterwards;
* ``started.json``: the command runs, and which limits are enforced;
* ``stdout.N``, ``stderr.N``: segments of the output, named by the position of their first byte.
  The oldest are deleted, so that a task never fills the disk;
* ``suspension.json``: whether its processes are suspended, as the file ``suspend`` requests;
* ``exit.json``: how it ended.

It writes a byte into the named pipe ``wake`` of the state directory when there is something to
read, and does without if nobody listens. SIGTERM stops the command, and so does the end of the
lease that the agent renews in the file ``lease`` of the state directory. Standard library only,
and no other module of this project than `command`, `leases`, `progress`, `segments` and
`suspension`.
"""

import json
import os
import selectors
import signal
import time
from contextlib import suppress
from types import FrameType
from typing import Any

from apps.execution.backends.agent.command import NOT_STARTED, Command, preload
from apps.execution.backends.agent.leases import lease_clock_s, read_lease
from apps.execution.backends.agent.progress import ProgressCommand
from apps.execution.backends.agent.segments import Segments
from apps.execution.backends.agent.suspension import continue_processes, send, stop_processes

READ_BYTES = 1 << 16
LEASE_CHECK_S = 0.5
AGAIN_S = 1.0  # between two attempts to write a file on a full disk
TERMINATE_S = 5.0  # from SIGTERM to SIGKILL
PR_SET_NAME, PR_SET_CHILD_SUBREAPER = 15, 36
SUSPEND = "suspend"  # file that requests the suspension, while it is there


class Task:
    """One command from its start to its end.

    Attributes
    ----------
    process : becomes the command; None until it starts, unless it was forked ahead
    """

    def __init__(self, directory: str, process: Command | None = None) -> None:
        self.directory = directory
        with open(os.path.join(directory, "order.json")) as stream:
            self.order: dict[str, Any] = json.load(stream)
        self.reason = ""  # why it is stopped
        self.process = process
        self.enforced: dict[str, str] = {}
        self.wake: str = self.order["wake"]
        self.suspended_s: float | None = None  # when its processes had stopped; None: they run
        self.suspended_before_s = 0.0
        self._is_held = False  # its processes were told to stop; some may need more time
        self._unwritten: dict[str, Any] = {}  # files that a full disk did not take yet

    def run(self) -> None:
        """Start the command, copy its output, and write how it ended."""
        begun_s = time.monotonic()
        try:
            process = self._start()
        except (OSError, KeyError) as error:
            self._end(NOT_STARTED, f"the command could not be started: {error}")
            return
        if process is None:
            kill_children()  # one that was forked ahead
            self._end(None, "stopped before the command started")
            return
        self._write("started", {"at_s": begun_s, "pid": process.pid, "enforced": self.enforced})
        self._copy_output(process, begun_s)
        code = process.wait()
        if self._is_held:
            self._resume()  # what is left of it cannot be killed while it is frozen
        kill_children()
        self._end(code, self._message(code))

    def stop(self, reason: str) -> None:
        """Stop the command: SIGTERM to its processes, then SIGKILL."""
        if not self.reason:
            self.reason = reason
            signal_group(self.process, signal.SIGTERM)

    def _start(self) -> Command | None:
        """Start the command; None if it was stopped before."""
        order = self.order
        os.sched_setaffinity(0, set(order["cpus"]))
        self.enforced = {**order.get("enforced", {}), "affinity": "set"}
        if self.process is None or self.process.poll() is not None:
            self.process = Command(order.get("cgroups") or [])
        if self.reason:
            return None
        self.process.run(order)
        return self.process

    def _copy_output(self, process: Command, begun_s: float) -> None:
        """Copy both streams until the command has ended; stop it if it must not go on."""
        killed_s, streams = None, {}
        with selectors.DefaultSelector() as poll:
            for name, pipe in (("stdout", process.stdout), ("stderr", process.stderr)):
                os.set_blocking(pipe, False)
                streams[name] = Segments(self.directory, name)
                poll.register(pipe, selectors.EVENT_READ, streams[name])
            progress = self._progress_command(streams["stderr"])
            # a command may close its output and go on, and what it started may keep it open
            while not self._is_over(poll, process):
                self._check_limits(begun_s)
                if progress is not None and not self.reason and self.suspended_s is None:
                    progress.tick()
                if self.reason and killed_s is None:
                    killed_s = time.monotonic() + TERMINATE_S
                if killed_s is not None and time.monotonic() > killed_s:
                    signal_group(process, signal.SIGKILL)

    def _progress_command(self, errors: Segments) -> ProgressCommand | None:
        """Return what runs the progress command; None without one."""
        if not self.order.get("progress_command"):
            return None
        return ProgressCommand(self.order, lambda text: errors.write(text.encode()))

    def _is_over(self, poll: selectors.BaseSelector, process: Command) -> bool:
        """Copy what is there, or wait a little; return True if the command has ended."""
        if not poll.get_map():
            return process.has_ended_within(LEASE_CHECK_S)
        has_ended = process.poll() is not None
        ready = poll.select(0.05 if has_ended else LEASE_CHECK_S)
        for key, _ in ready:
            data = os.read(key.fd, READ_BYTES)
            if data:
                key.data.write(data)
                wake_agent(self.wake)
            else:
                poll.unregister(key.fileobj)
        return has_ended and not ready

    def _check_limits(self, begun_s: float) -> None:
        self._write_left()
        now_s, duration_s = time.monotonic(), self.order.get("duration_s")
        ran_s = (self.suspended_s or now_s) - begun_s - self.suspended_before_s
        if duration_s is not None and ran_s > duration_s:
            self.stop("duration")
        if not self.reason and lease_clock_s() > read_lease(self.order["lease"]):
            self.stop("fenced")
        # one that is stopped must run to be terminated
        suspend = not self.reason and os.path.exists(os.path.join(self.directory, SUSPEND))
        if suspend and self.suspended_s is None:
            self._suspend()
        elif not suspend and self._is_held:
            self._resume()

    def _suspend(self) -> None:
        """Stop the processes; if they need more time to stop, the next check repeats it."""
        self._is_held = True
        if stop_processes(self.order.get("freezers", [])):
            self.suspended_s = time.monotonic()
            self._tell_suspension(self.suspended_s)

    def _resume(self) -> None:
        """Continue the processes."""
        continue_processes(self.order.get("freezers", []))
        now_s = time.monotonic()
        self.suspended_before_s += now_s - (self.suspended_s or now_s)
        self.suspended_s, self._is_held = None, False
        self._tell_suspension(now_s)

    def _tell_suspension(self, at_s: float) -> None:
        self._write(
            "suspension",
            {
                "is_suspended": self.suspended_s is not None,
                "at_s": at_s,
                "before_s": self.suspended_before_s,
            },
        )

    def _message(self, code: int) -> str:
        kills = sum(count_kills(path) for path in self.order.get("oom_files", ()))
        if code != 0 and kills:
            limit = self.order.get("memory_bytes", 0) // 2**20
            return f"out of memory: killed by the kernel at the limit of {limit} MiB"
        if self.reason == "duration":
            return f"stopped after its duration of {self.order['duration_s']:g} s"
        if code < 0:
            with suppress(ValueError):
                return f"killed by {signal.Signals(-code).name}"
            return f"killed by signal {-code}"
        return f"exit code {code}" if code else ""

    def _end(self, code: int | None, message: str) -> None:
        at_s = time.monotonic()
        self._write(
            "exit", {"at_s": at_s, "code": code, "message": message, "reason": self.reason}
        )
        while self._unwritten:
            time.sleep(AGAIN_S)
            self._write_left()

    def _write(self, name: str, value: Any) -> None:
        """Write a file for the agent now, or as soon as the disk takes it."""
        self._unwritten[name] = value
        self._write_left()

    def _write_left(self) -> None:
        for name, value in list(self._unwritten.items()):
            try:
                write_json(os.path.join(self.directory, f"{name}.json"), value)
            except OSError:
                return
            del self._unwritten[name]
            wake_agent(self.wake)


def wake_agent(path: str) -> None:
    """Wake the agent, if it runs, to read the state of its tasks."""
    with suppress(OSError):  # no pipe, no reader, or a full pipe: it polls anyway
        pipe = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
        try:
            os.write(pipe, b".")
        finally:
            os.close(pipe)


def write_json(path: str, value: Any) -> None:
    """Write a file that is complete or absent, also if this process is killed.

    Only its own account reads it: orders hold commands and environments of jobs.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    with open(os.open(path + ".new", flags, 0o600), "w") as stream:
        json.dump(value, stream)
    os.rename(path + ".new", path)


def count_kills(path: str) -> int:
    """Return the number of out-of-memory kills that a file of the kernel counts."""
    with suppress(OSError, ValueError), open(path) as stream:
        for line in stream:
            name, _, value = line.partition(" ")
            if name == "oom_kill":
                return int(value)
    return 0


def signal_group(process: Command | None, number: signal.Signals) -> None:
    """Send a signal to the session of the command, and to processes that have left it."""
    if process is None:
        return
    with suppress(ProcessLookupError):
        os.killpg(process.pid, number)
    for child in children():
        send(child, number)


def children() -> list[int]:
    """Return the children of this process; orphans of the command are among them."""
    try:
        with open(f"/proc/self/task/{os.getpid()}/children") as stream:
            return [int(pid) for pid in stream.read().split()]
    except OSError:
        return []


def kill_children() -> None:
    """Kill what the command has left behind."""
    until = time.monotonic() + TERMINATE_S
    while time.monotonic() < until:
        left = children()
        if not left:
            return
        for child in left:
            send(child, signal.SIGKILL)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(0.005)


def start_ticks(pid: int) -> int:
    """Return when a process started, which tells it from a later one with its id."""
    with open(f"/proc/{pid}/stat") as stream:
        return int(stream.read().rpartition(")")[2].split()[19])


def main(directory: str, process: Command | None = None) -> int:
    """Run the task of a directory unless a supervisor has done so before.

    Parameters
    ----------
    process : forked ahead; None = fork it now
    """
    task = Task(directory, process)
    _catch_signals(task)  # before the agent can read its id
    claim = os.path.join(directory, "supervisor.json")
    write_json(f"{claim}.{os.getpid()}", {"pid": os.getpid(), "ticks": start_ticks(os.getpid())})
    try:
        os.link(f"{claim}.{os.getpid()}", claim)
    except FileExistsError:
        return 1
    finally:
        os.unlink(f"{claim}.{os.getpid()}")
    preload().prctl(PR_SET_NAME, b"berth-task", 0, 0, 0)
    preload().prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    task.run()
    return 0


def _catch_signals(task: Task) -> None:
    """Let SIGTERM stop a task."""
    supervisor = os.getpid()

    def on_stop(_number: int, _frame: FrameType | None) -> None:
        if os.getpid() != supervisor:
            os._exit(NOT_STARTED)  # the process that was to become the command
        task.stop("stopped")

    signal.signal(signal.SIGTERM, on_stop)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
