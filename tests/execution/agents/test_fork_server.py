"""The process that forks supervisors: tasks outlive it, and it is started again."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from apps.execution.backends.agent.fork_server import ForkServer
from apps.execution.backends.agent.wakes import Wakes
from tests.execution.agents.conftest import ROOT, eventually

pytestmark = pytest.mark.agent
STOPPED_EARLY = """
import sys
from apps.execution.backends.agent.command import Command
from apps.execution.backends.agent.supervisor import Task

task = Task(sys.argv[1], Command([]) if sys.argv[2] == "prepared" else None)
task.stop("stopped")
task.run()
"""
ENDED_EARLY = """
import sys
from apps.execution.backends.agent.command import Command

command = Command([sys.argv[1]])
command.wait()
order = {"command": ["true"], "environment": {}, "working_directory": "/", "cpus": [0]}
try:
    command.run(order)
except OSError as error:
    print(error)
"""


@pytest.fixture
def state(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "lease").write_text(str(time.monotonic() + 600))
    yield tmp_path
    (tmp_path / "lease").write_text("0")  # the supervisors stop their tasks
    for directory in tmp_path.glob("task-*"):
        if (directory / "supervisor.json").exists():
            eventually((directory / "exit.json").exists)


def task(state: Path, *command: str, groups: Sequence[str] = ()) -> Path:
    directory = state / f"task-{len(list(state.glob('task-*')))}"
    directory.mkdir()
    order = {
        "command": list(command),
        "environment": {"PATH": os.environ["PATH"]},
        "working_directory": str(directory),
        "cpus": sorted(os.sched_getaffinity(0)),
        "cgroups": groups,
        "duration_s": None,
        "lease": str(state / "lease"),
        "wake": str(state / "wake"),
    }
    (directory / "order.json").write_text(json.dumps(order))
    return directory


def read(directory: Path, name: str) -> dict[str, Any]:
    path = directory / f"{name}.json"
    eventually(path.exists, f"{path}: {list(directory.iterdir())}")
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


@pytest.fixture
def server() -> Iterator[ForkServer]:
    server = ForkServer()
    yield server
    server.stop()


def test_a_supervisor_is_a_fork_in_a_session_of_its_own(state: Path, server: ForkServer) -> None:
    tasks = [task(state, "sleep", "600") for _ in range(2)]
    for directory in tasks:
        server.fork(directory)
    pids = [read(directory, "supervisor")["pid"] for directory in tasks]
    assert len({parent_of(pid) for pid in pids}) == 1
    assert [os.getsid(pid) for pid in pids] == pids
    assert Path(f"/proc/{pids[0]}/comm").read_text() == "berth-task\n"


def test_tasks_outlive_the_process_that_forked_them_and_it_is_started_again(
    state: Path, server: ForkServer
) -> None:
    first = task(state, "sh", "-c", "while [ ! -e go ]; do sleep 0.05; done; echo done")
    server.fork(first)
    before = parent_of(read(first, "supervisor")["pid"])
    read(first, "started")
    os.kill(before, signal.SIGKILL)
    second = task(state, "sh", "-c", "exit 3")
    server.fork(second)
    assert read(second, "exit")["code"] == 3
    (first / "go").touch()
    assert read(first, "exit")["code"] == 0
    assert (first / "stdout.0").read_bytes() == b"done\n"


def test_a_start_and_an_end_wake_the_agent(state: Path, server: ForkServer) -> None:
    wakes = Wakes(state / "wake")
    assert not wakes.wait(0.0)
    directory = task(state, "sh", "-c", "while [ ! -e go ]; do sleep 0.05; done")
    server.fork(directory)
    assert wakes.wait(60.0)
    read(directory, "started")
    (directory / "go").touch()
    assert wakes.wait(60.0)
    read(directory, "exit")
    wakes.close()


def test_a_prepared_supervisor_runs_the_task_that_comes_next(
    state: Path, server: ForkServer
) -> None:
    joined = state / "cgroup.procs"
    server.prepare([str(joined)])
    eventually(lambda: joined.exists() and joined.read_text())
    first, second = task(state, "sh", "-c", "echo $$; exit 3"), task(state, "sh", "-c", "echo $$")
    server.fork(first, is_prepared=True)
    server.fork(second, is_prepared=True)  # nothing is prepared for it
    assert read(first, "exit")["code"] == 3
    assert (first / "stdout.0").read_text().strip() == joined.read_text()
    assert read(second, "exit")["code"] == 0
    assert (second / "stdout.0").read_text().strip() != joined.read_text()


def has_ended(process: int) -> bool:
    """Whether a process is gone, or only its parent has not been told yet."""
    status = Path(f"/proc/{process}/status")
    return not status.exists() or "\nState:\tZ" in status.read_text()


def test_a_prepared_process_that_was_killed_is_replaced(state: Path, server: ForkServer) -> None:
    joined = state / "cgroup.procs"
    server.prepare([str(joined)])
    eventually(lambda: joined.exists() and joined.read_text())
    process = int(joined.read_text())
    os.kill(process, signal.SIGKILL)
    eventually(lambda: has_ended(process))
    directory = task(state, "sh", "-c", "exit 3")
    server.fork(directory, is_prepared=True)
    assert read(directory, "exit")["code"] == 3


def test_a_prepared_supervisor_that_was_killed_is_replaced(
    state: Path, server: ForkServer
) -> None:
    joined = state / "cgroup.procs"
    server.prepare([str(joined)])
    eventually(lambda: joined.exists() and joined.read_text())
    process = int(joined.read_text())
    os.kill(parent_of(process), signal.SIGKILL)
    eventually(lambda: not Path(f"/proc/{process}").exists(), "its process ends with it")
    directory = task(state, "sh", "-c", "exit 3")
    server.fork(directory, is_prepared=True)
    assert read(directory, "exit")["code"] == 3


def test_what_is_prepared_ends_with_its_server_and_no_task_prevents_that(state: Path) -> None:
    server, joined = ForkServer(), state / "cgroup.procs"
    server.prepare([str(joined)])
    eventually(lambda: joined.exists() and joined.read_text())
    running = task(state, "sleep", "600")
    server.fork(running)
    read(running, "started")
    server.stop()
    process = int(joined.read_text())
    eventually(lambda: not Path(f"/proc/{process}").exists(), "nobody can give it a task")
    assert not (running / "exit.json").exists()


def test_a_group_that_cannot_be_joined_is_said(state: Path, server: ForkServer) -> None:
    missing = str(state / "no-such-group/cgroup.procs")
    server.prepare([missing])
    directory = task(state, "true", groups=[missing])
    server.fork(directory, is_prepared=True)
    said = read(directory, "exit")
    assert (said["code"], said["message"]) == (
        127,
        f"the command could not be started: [Errno 2] No such file or directory: '{missing}'",
    )


def test_a_process_that_has_ended_before_its_order_says_why(tmp_path: Path) -> None:
    missing = tmp_path / "no-such-group/cgroup.procs"
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", ENDED_EARLY, missing],
        check=True,
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.stdout == f"[Errno 2] No such file or directory: '{missing}'\n"


@pytest.mark.parametrize("process", ["prepared", "not prepared"])
def test_a_task_that_is_stopped_before_its_start_never_runs_its_command(
    state: Path, process: str
) -> None:
    directory = task(state, "touch", "it-ran")
    begun_s = time.monotonic()
    subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", STOPPED_EARLY, directory, process], check=True, cwd=ROOT
    )
    said = read(directory, "exit")
    assert (said["code"], said["reason"]) == (None, "stopped")
    assert said["message"] == "stopped before the command started"
    assert said["at_s"] - begun_s < 4.0  # not after the time between SIGTERM and SIGKILL
    assert not (directory / "started.json").exists()
    assert not (directory / "it-ran").exists()
