"""Files that cannot be fetched: the order is given back, and nothing waits for it for ever."""

import time
from base64 import b64encode
from collections.abc import Callable
from errno import ENOSPC
from pathlib import Path
from typing import Any

import pytest

from apps.execution.backends.agent.agent import Agent
from apps.execution.backends.agent.machine import Machine
from apps.execution.backends.agent.tasks import Tasks
from apps.execution.core.agent.wire import LOST
from apps.workloads.core.archives import digest_of
from tests.execution.agents.conftest import eventually
from tests.workloads import archives

ARCHIVE = archives.tar_of({"a": b"1"})
ORDER = {
    "launch": 7, "job": "j", "name": "n", "is_running": False, "stop": False, "cores": [0],
    "memory_bytes": 2**20, "command": ["true"], "files": digest_of(ARCHIVE),
}  # fmt: skip


class Files:
    """A control plane that answers requests for files."""

    url = "http://berth.test"

    def __init__(self, answer: Callable[[], dict[str, Any]]) -> None:
        self._answer = answer

    def post(self, path: str, body: dict[str, Any], *, wait_s: float = 0.0) -> dict[str, Any]:
        return self._answer()


def broken() -> dict[str, Any]:
    """Break as no code expects."""
    raise TypeError("unexpected")


@pytest.mark.parametrize(
    "answer",
    [dict, lambda: {"archive": "a"}, lambda: {"archive": None}, broken],
    ids=["no field", "no base64", "null", "unexpected"],
)
def test_an_order_whose_files_do_not_come_is_given_back(
    tmp_path: Path, answer: Callable[[], dict[str, Any]]
) -> None:
    agent = Agent(Files(answer), Machine("box-1", tmp_path, (0,)))  # type: ignore[arg-type]
    agent._obey({"orders": [ORDER]}, time.monotonic())
    eventually(lambda: agent._answers)
    (report,) = agent._answers
    assert (report.launch, report.state) == (7, LOST)
    assert report.message.startswith("its agent could not start it: ")
    assert not agent._fetching._wanted


def test_an_order_that_cannot_be_started_with_its_files_is_given_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("no supervisor")

    monkeypatch.setattr(Tasks, "start", refuse)
    answer = {"archive": b64encode(ARCHIVE).decode()}
    agent = Agent(Files(lambda: answer), Machine("box-1", tmp_path, (0,)))  # type: ignore[arg-type]
    agent._obey({"orders": [ORDER]}, time.monotonic())
    eventually(lambda: agent._answers)
    assert [report.state for report in agent._answers] == [LOST]
    assert "no supervisor" in agent._answers[0].message
    assert not agent._fetching._wanted
    assert not list((tmp_path / "unpacked").iterdir())


def test_an_order_whose_files_find_no_room_is_given_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(ENOSPC, "No space left on device")

    monkeypatch.setattr(Tasks, "unpack", full)
    answer = {"archive": b64encode(ARCHIVE).decode()}
    agent = Agent(Files(lambda: answer), Machine("box-1", tmp_path, (0,)))  # type: ignore[arg-type]
    agent._obey({"orders": [ORDER]}, time.monotonic())
    eventually(lambda: agent._answers)
    (report,) = agent._answers
    assert report.state == LOST
    assert "No space left on device" in report.message
