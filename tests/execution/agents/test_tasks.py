"""What an agent finds in its state directory, and what it prepares for the next task."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from apps.execution.backends.agent import limits
from apps.execution.backends.agent.accounts import Accounts
from apps.execution.backends.agent.tasks import Tasks
from apps.execution.core.port import CommandOrder
from tests.execution.agents.conftest import eventually

pytestmark = pytest.mark.agent
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
