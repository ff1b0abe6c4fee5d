"""What an agent finds in its state directory, and what it prepares for the next task."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from apps.execution.backends.agent import limits
from apps.execution.backends.agent.accounts import Accounts
from apps.execution.backends.agent.agent import Agent
from apps.execution.backends.agent.fork_server import ForkServer
from apps.execution.backends.agent.machine import Machine
from apps.execution.backends.agent.task import STARTING_S, Task
from apps.execution.backends.agent.tasks import Tasks
from apps.execution.core.agent.reconcile import reconcile
from apps.execution.core.agent.wire import LOST, STARTED
from apps.execution.core.port import CommandOrder
from tests.execution.agents.conftest import eventually
from tests.execution.agents.test_sending import Plane

pytestmark = pytest.mark.agent
SUPERVISE = """
import sys
from apps.execution.backends.agent.supervisor import main
sys.exit(main(sys.argv[1]))
"""
PROBE = {"stressors": [], "window_s": 0.1}


@pytest.fixture
def tasks(tmp_path: Path) -> Iterator[Tasks]:
    """The tasks of an agent without a control plane, on one core."""
    (tmp_path / "lease").write_text(str(time.monotonic() + 600.0))
    found = Tasks(tmp_path, (0,), server="box-1", accounts=Accounts())
    found.begin()
    yield found
    found.end()


def order(*command: str, **values: Any) -> CommandOrder:
    return CommandOrder(
        launch=1, job="j", name="n", is_running=False, stop=False, cores=(0,),
        memory_bytes=2**26, command=command, **values,
    )  # fmt: skip


def test_groups_are_found_by_their_prefix_in_every_hierarchy(tmp_path: Path) -> None:
    for path in ("memory/berth/box-1-7-1", "freezer/berth/box-1-7-1", "cpuset/berth/box-1-7-2",
                 "memory/berth/box-2-8-1", "berth/box-1-7-3"):  # fmt: skip
        (tmp_path / path).mkdir(parents=True)
    (tmp_path / "memory/berth/box-1-7-file").touch()
    assert limits.names("box-1-7-", root=tmp_path) == {"box-1-7-1", "box-1-7-2", "box-1-7-3"}


def test_files_that_a_loss_of_power_has_emptied_are_absent(tmp_path: Path) -> None:
    directory = tmp_path / "tasks/5"
    directory.mkdir(parents=True)
    (directory / "order.json").write_text('{"launch": 5, "known_s": 1.0, "boot": "before"}')
    for name in ("sent", "supervisor", "started", "exit", "suspension"):
        (directory / f"{name}.json").touch()
    tasks = Tasks(tmp_path, (0,), server="box-1", accounts=Accounts())
    (task,) = tasks
    assert task.sent == {"stdout": 0, "stderr": 0}
    assert (task.read("exit"), task.has_supervisor()) == (None, False)
    assert not task.suspension().is_suspended
    assert not tasks.facts()[5].has_ended


def test_what_a_killed_supervisor_has_left_is_killed(tasks: Tasks, tmp_path: Path) -> None:
    if tasks.limits()["memory"] != "control group":
        pytest.skip("no right to make control groups")
    tasks.start(order("sh", "-c", "sleep 600 & echo $! > left; wait"))
    task = tasks.get(1)
    left = task.directory / "work/left"
    eventually(lambda: left.exists() and left.read_text().strip(), "the child has started")
    claim = task.read("supervisor")
    assert claim is not None
    os.kill(claim["pid"], signal.SIGKILL)
    eventually(lambda: not task.has_supervisor(), "the supervisor is gone")
    child = Path(f"/proc/{left.read_text().strip()}/cmdline")
    assert child.read_bytes().startswith(b"sleep")
    task.kill_left()
    eventually(lambda: not child.exists() or not child.read_bytes(), "the child is gone")


def test_groups_that_a_killed_agent_has_left_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefix = f"box-1-{tmp_path.stat().st_ino}-"
    there = {f"{prefix}5", f"{prefix}next-9"}
    removed: list[str] = []
    monkeypatch.setattr(limits, "names", lambda asked: {n for n in there if n.startswith(asked)})
    monkeypatch.setattr(limits, "remove", removed.append)
    directory = tmp_path / "tasks/5"
    directory.mkdir(parents=True)
    (directory / "order.json").write_text('{"launch": 5, "known_s": 1.0, "boot": "b"}')
    tasks = Tasks(tmp_path, (0,), server="box-1", accounts=Accounts())
    tasks.begin()
    assert removed == [f"{prefix}next-9"]  # its task 5 is known, and may run
    tasks.end()
    assert len(removed) == 2  # with what was prepared and not needed


def test_one_process_is_prepared_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []

    def limit(name: str, **_: object) -> limits.Limits:
        made.append(name)
        return limits.Limits()

    monkeypatch.setattr(limits, "limit", limit)
    tasks = Tasks(tmp_path, (0,), server="box-1", accounts=Accounts())
    tasks.begin()
    tasks.prepare()
    tasks.end()
    assert len(made) == 1


def test_an_agent_that_has_nothing_prepared_removes_no_group_at_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    removed: list[str] = []
    monkeypatch.setattr(limits, "remove", removed.append)
    Tasks(tmp_path, (0,), server="box-1", accounts=Accounts()).end()
    assert removed == []


@pytest.mark.parametrize("is_own", [True, False], ids=["files", "working directory"])
def test_a_profiler_imports_nothing_from_the_directory_of_its_command(
    tasks: Tasks, tmp_path: Path, is_own: bool
) -> None:
    directory = tmp_path / "given"
    (directory / "apps").mkdir(parents=True)
    imported = tmp_path / "imported"
    (directory / "apps/__init__.py").write_text(f"open({str(imported)!r}, 'w')")
    where = {} if is_own else {"working_directory": str(directory)}
    tasks.start(order("no-such-program", probe=PROBE, **where), directory if is_own else None)
    eventually((tmp_path / "tasks/1/exit.json").exists)
    assert not imported.exists()
    said = (tmp_path / "tasks/1/stderr.0").read_text()
    assert "the command could not be started: " in said


def test_no_other_account_reads_the_orders_of_jobs(tasks: Tasks, tmp_path: Path) -> None:
    tasks.start(order("no-such-program", environment={"KEY": "secret"}, probe=PROBE))
    directory = tmp_path / "tasks/1"
    eventually((directory / "exit.json").exists)
    modes = {path.name: path.stat().st_mode & 0o777 for path in directory.glob("*.json")}
    assert {"order.json", "probe.json", "exit.json"} <= modes.keys()
    assert set(modes.values()) == {0o600}


def test_the_groups_of_an_ended_task_are_removed_once(
    tasks: Tasks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    removed: list[str] = []
    tasks.refuse(order("true"), "refused")
    tasks.get(1).confirm_end()

    def remove(name: str) -> bool:
        removed.append(name)
        return len(removed) == 2  # a process of the first time was still there

    monkeypatch.setattr(limits, "remove", remove)
    for _ in range(3):
        tasks.forget()
    assert len(removed) == 2
    assert (tmp_path / "tasks/1").exists()


def held_back(tasks: Tasks, monkeypatch: pytest.MonkeyPatch, *command: str) -> Task:
    """Write an order down whose supervisor has not begun when it must have."""
    with monkeypatch.context() as patched:
        patched.setattr(ForkServer, "fork", lambda *_, **__: None)
        tasks.start(order(*command))
    task = tasks.get(1)
    assert task.has_supervisor()
    task.known_s -= STARTING_S
    assert not task.has_supervisor()
    return task


def test_a_supervisor_that_begins_after_its_task_was_reported_as_lost_starts_nothing(
    tasks: Tasks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = held_back(tasks, monkeypatch, "true")
    agent = Agent(Plane(lambda *_: None), Machine("box-1", tmp_path, (0,)))  # type: ignore[arg-type]
    for _ in range(2):  # until the control plane has answered
        report = agent._change(task, time.monotonic())
        assert report is not None
        assert report.state == LOST
    late = [sys.executable, "-c", SUPERVISE, str(task.directory)]
    assert subprocess.run(late, check=False).returncode == 1  # noqa: S603 - our own program
    assert task.read("started") is None
    task.confirm_end()
    assert tasks.facts()[1].has_ended


def test_a_task_whose_supervisor_begins_late_is_not_reported_as_lost(
    tasks: Tasks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = held_back(tasks, monkeypatch, "sleep", "600")
    agent = Agent(Plane(lambda *_: None), Machine("box-1", tmp_path, (0,)))  # type: ignore[arg-type]
    give_up = Task.give_up

    def begins_first(late: Task) -> bool:
        tasks._fork_server.fork(late.directory)
        eventually((late.directory / "started.json").exists)
        return give_up(late)

    monkeypatch.setattr(Task, "give_up", begins_first)
    report = agent._change(task, time.monotonic())
    assert report is not None
    assert report.state == STARTED
    task.stop()
    eventually((task.directory / "exit.json").exists)


def test_a_task_that_runs_after_it_was_reported_as_lost_is_stopped(tasks: Tasks) -> None:
    tasks.start(order("sleep", "600"))
    task = tasks.get(1)
    eventually((task.directory / "started.json").exists)
    task.confirm_end()
    for _ in range(2):
        actions = reconcile([], tasks.facts(), asked_s=time.monotonic())
        assert actions.stop == [1]
    task.stop()
    eventually((task.directory / "exit.json").exists)
    assert reconcile([], tasks.facts(), asked_s=time.monotonic()).stop == []
