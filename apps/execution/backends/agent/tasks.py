"""The tasks of an agent: one directory each, which is also the journal that survives the agent.

``tasks/LAUNCH/`` holds what the supervisor writes (see `supervisor`), ``order.json``, what of
the output was sent (``sent.json``), and ``reported`` once its end was reported. The directory of
an ended task stays for an hour, so that an order that comes again is not started again.
"""

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from pwd import struct_passwd
from tempfile import mkdtemp
from typing import Final

from apps.execution.backends.agent import limits, probing
from apps.execution.backends.agent.accounts import Accounts
from apps.execution.backends.agent.command import NOT_STARTED
from apps.execution.backends.agent.files import give, unpack
from apps.execution.backends.agent.fork_server import ForkServer
from apps.execution.backends.agent.machine import boot_id
from apps.execution.backends.agent.supervisor import write_json
from apps.execution.backends.agent.task import Task, known_task
from apps.execution.core.agent.reconcile import TaskFacts
from apps.execution.core.port import CommandOrder

KEPT_S: Final = 3600.0
PATH: Final = "/usr/local/bin:/usr/bin:/bin"


class Tasks:
    """All tasks in the state directory of one agent."""

    def __init__(
        self, state: Path, cpus: tuple[int, ...], *, server: str, accounts: Accounts
    ) -> None:
        self.state, self._cpus, self._server, self._accounts = state, cpus, server, accounts
        self._fork_server = ForkServer()
        self._prepared = ""  # control groups that a process has joined for the next task
        self._tasks: dict[int, Task] = {}
        (state / "tasks").mkdir(exist_ok=True, mode=0o711)
        for directory in (state / "tasks").iterdir():
            task = known_task(directory)
            if task is not None:
                self._tasks[task.launch] = task

    def __iter__(self) -> Iterator[Task]:
        return iter(list(self._tasks.values()))

    def facts(self) -> dict[int, TaskFacts]:
        """Return what the orders are compared with."""
        return {
            task.launch: TaskFacts(
                task.known_s,
                has_ended=task.has_ended(),
                suspend=task.is_to_suspend(),
            )
            for task in self
        }

    def get(self, launch: int) -> Task:
        """Return a task."""
        return self._tasks[launch]

    def begin(self) -> None:
        """Remove the control groups that an agent has left, and prepare for orders."""
        known = {self._group_of(task) for task in self}
        for group in limits.names(self._group("")) - known:
            limits.remove(group)
        shutil.rmtree(self.state / "unpacked", ignore_errors=True)
        self._fork_server.start()
        self.prepare()

    def end(self) -> None:
        """Take no further orders; the tasks keep running."""
        self._fork_server.stop()
        if self._prepared:
            limits.remove(self._prepared)

    def prepare(self) -> None:
        """Let a process join the control groups of the next task, unless one has."""
        if self._prepared:
            return
        self._prepared = self._group(f"next-{time.monotonic_ns()}")
        group = limits.limit(self._prepared, cpus=self._cpus, memory_bytes=None)
        self._fork_server.prepare(group.joined)

    def start(self, order: CommandOrder, files: Path | None = None) -> None:
        """Store the order, then start its supervisor, which starts the command once.

        Parameters
        ----------
        files : directory of `unpack`, which becomes the working directory; None = an empty one

        Raises
        ------
        OSError, LookupError : it cannot be written, or the machine is not as the order says;
            nothing is left of it.
        """
        directory = self.state / "tasks" / str(order.launch)
        prepared, self._prepared = self._prepared, ""
        group = prepared or self._group(order.launch)
        try:
            self._write_order(order, directory, group, files)
        except BaseException:
            shutil.rmtree(directory, ignore_errors=True)
            limits.remove(group)
            raise
        self._know(directory)
        self._fork_server.fork(directory, is_prepared=bool(prepared))

    def _prepare_directory(
        self, directory: Path, files: Path | None, account: struct_passwd
    ) -> None:
        """Make the directory of a task, with what belongs to the account that runs it."""
        work, progress = directory / "work", directory / "progress"
        directory.mkdir(mode=0o711)
        if files is None:
            work.mkdir(mode=0o700)
        else:
            files.rename(work)
        directory.chmod(0o711)
        progress.touch(0o600)
        if account.pw_uid != os.geteuid():
            for path in (work, progress):
                give(path, account.pw_uid, account.pw_gid)

    def _write_order(
        self, order: CommandOrder, directory: Path, name: str, files: Path | None
    ) -> None:
        known_s, account = time.monotonic(), self._accounts.of(order.user)
        self._prepare_directory(directory, files, account)
        cpus = [self._cpus[core] for core in order.cores]
        group = limits.limit(name, cpus=cpus, memory_bytes=order.memory_bytes)
        command, user = list(order.command), account.pw_name
        environment = self._environment(order, cpus, directory)
        working_directory = order.working_directory or str(directory / "work")
        if order.probe is not None:
            profiled = probing.task_of(order, environment, working_directory, user)
            write_json(str(directory / "probe.json"), profiled)
            # the profiler runs as the agent, where no user can write, and the copy as the user
            command, user = probing.command_of(directory / "probe.json"), ""
            environment = probing.environment_of(environment)
            working_directory = str(directory)
        said = directory / ("said" if order.progress_command else "progress")
        write_json(
            str(directory / "order.json"),
            {
                "launch": order.launch,
                "known_s": known_s,
                "boot": boot_id(),
                "command": command,
                "environment": environment,
                "working_directory": working_directory,
                "cpus": cpus,
                "memory_bytes": order.memory_bytes,
                "duration_s": order.duration_s,
                "user": user,
                "lease": str(self.state / "lease"),
                "wake": str(self.state / "wake"),
                "group": name,
                "cgroups": group.joined,
                "oom_files": group.oom_files,
                "enforced": group.enforced,
                "counters": group.counters,
                "progress": str(said),
                "progress_command": list(order.progress_command),
                "progress_every_s": order.progress_every_s,
                "freezers": group.freezers,
            },
        )

    def unpack(self, data: bytes) -> Path:
        """Return a new directory with the members of an archive.

        Raises
        ------
        ArchiveError : the archive is not accepted.
        OSError : it cannot be written.
        """
        folder = self.state / "unpacked"
        folder.mkdir(exist_ok=True, mode=0o700)
        directory = Path(mkdtemp(dir=folder))
        try:
            unpack(data, directory)
        except BaseException:
            shutil.rmtree(directory, ignore_errors=True)
            raise
        return directory

    def refusal(self, order: CommandOrder) -> str:
        """Return why an order cannot be started here; empty if it can."""
        return self._accounts.refusal(order.user)

    def refuse(self, order: CommandOrder, reason: str) -> None:
        """Let an order be a task that has ended before its command was started.

        Raises
        ------
        OSError : it cannot be written.
        """
        directory = self.state / "tasks" / str(order.launch)
        directory.mkdir(mode=0o711)
        now_s = time.monotonic()
        ended = {"at_s": now_s, "code": NOT_STARTED, "message": reason, "reason": ""}
        write_json(str(directory / "exit.json"), ended)
        known = {"launch": order.launch, "known_s": now_s, "boot": boot_id()}
        write_json(str(directory / "order.json"), known)
        self._know(directory)

    def forget(self) -> None:
        """Delete the directories of tasks that ended long ago."""
        for task in self:
            if task.is_end_reported:
                task.has_group = task.has_group and not limits.remove(self._group_of(task))
                age_s = time.time() - (task.directory / "reported").stat().st_mtime
                if age_s > KEPT_S:
                    shutil.rmtree(task.directory, ignore_errors=True)
                    del self._tasks[task.launch]

    def limits(self) -> dict[str, str]:
        """Return which limits can be enforced here, and why others cannot."""
        name = self._group(0)
        found = limits.limit(name, cpus=self._cpus, memory_bytes=1 << 30).enforced
        limits.remove(name)
        return found

    def _know(self, directory: Path) -> None:
        task = known_task(directory)
        if task is None:
            raise RuntimeError(f"the order of {directory} was not written")
        self._tasks[task.launch] = task

    def _group(self, task: object) -> str:
        return f"{self._server}-{self.state.stat().st_ino}-{task}"

    def _group_of(self, task: Task) -> str:
        return task.group or self._group(task.launch)

    def _environment(
        self, order: CommandOrder, cpus: list[int], directory: Path
    ) -> dict[str, str]:
        """Return the variables of a command: nothing of the agent's own environment."""
        account = self._accounts.of(order.user)
        return {
            "PATH": PATH,
            "HOME": str(directory / "work"),
            "USER": account.pw_name,
            "LOGNAME": account.pw_name,
            "LANG": "C.UTF-8",
            **order.environment,
            "BERTH_JOB_ID": order.job,
            "BERTH_JOB_NAME": order.name,
            "BERTH_SERVER": self._server,
            "BERTH_CORES": ",".join(str(cpu) for cpu in cpus),
            "BERTH_PROGRESS": str(directory / "progress"),
        }
