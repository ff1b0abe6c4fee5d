"""Output on its way to the control plane: only what it keeps, and never before a heartbeat."""

import base64
import errno
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from apps.execution.backends.agent import agent as agents
from apps.execution.backends.agent import sending
from apps.execution.backends.agent.agent import Agent
from apps.execution.backends.agent.link import AwayError
from apps.execution.backends.agent.machine import Machine
from apps.execution.backends.agent.task import Task
from apps.execution.backends.agent.tasks import Tasks
from apps.execution.backends.agent.wakes import Wakes
from apps.execution.core.agent.wire import KEPT_BYTES, MAX_CHUNK

BEAT_S = 0.1
SEND_S = 0.03


def ended_task(state: Path, launch: int, output: bytes) -> None:
    """Write what the supervisor of an ended task leaves."""
    directory = state / "tasks" / str(launch)
    directory.mkdir(parents=True)
    known = {"launch": launch, "known_s": time.monotonic(), "boot": "b"}
    (directory / "order.json").write_text(json.dumps(known))
    end = {"at_s": time.monotonic(), "code": 0, "message": "", "reason": ""}
    (directory / "exit.json").write_text(json.dumps(end))
    (directory / "stdout.0").write_bytes(output)


class Plane:
    """A control plane that an agent talks to, in place of `Link`; `requests` holds all of them."""

    url = "http://berth.test"

    def __init__(self, answer: Callable[["Plane", str, dict[str, Any]], None]) -> None:
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self._answer = answer

    def post(self, path: str, body: dict[str, Any], *, wait_s: float = 0.0) -> dict[str, Any]:
        self.requests.append((path, body))
        self._answer(self, path, body)
        return {"lease_s": 90.0, "orders": []}

    def paths(self) -> list[str]:
        return [path for path, _ in self.requests]

    def ended(self) -> list[int]:
        """Return the launches whose ends were reported."""
        return [r["launch"] for path, body in self.requests if path == "sync"
                for r in body["reports"]]  # fmt: skip

    def sent(self, launch: int) -> bytes:
        """Return the output that came."""
        return b"".join(
            base64.b64decode(body["chunk"]) for path, body in self.requests
            if path == "output" and body["launch"] == launch
        )  # fmt: skip


@pytest.fixture
def reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Callable[[Plane, str, dict[str, Any]], None]], Plane]:
    """Return what lets an agent report all tasks of its directory to a control plane."""
    monkeypatch.setattr(Tasks, "prepare", lambda _: None)
    monkeypatch.setattr(agents, "HEARTBEAT_S", BEAT_S)
    monkeypatch.setattr(agents, "AWAY_S", 0.01)

    def report(answer: Callable[[Plane, str, dict[str, Any]], None]) -> Plane:
        wanted = {int(path.name) for path in (tmp_path / "tasks").iterdir()}
        plane = Plane(answer)
        agent = Agent(plane, Machine("box-1", tmp_path, (0,)))  # type: ignore[arg-type]
        until_s = time.monotonic() + 10.0

        post = plane.post

        def step(*given: Any, **more: Any) -> dict[str, Any]:
            try:
                return post(*given, **more)
            finally:
                if wanted <= set(plane.ended()) or time.monotonic() > until_s:
                    agent.stop.set()

        monkeypatch.setattr(plane, "post", step)
        agent._guarded(agent._report)
        assert wanted <= set(plane.ended())
        return plane

    return report


def test_only_the_output_that_the_control_plane_keeps_is_sent(
    tmp_path: Path, reported: Callable[..., Plane]
) -> None:
    output = bytes(range(256)) * (3 * KEPT_BYTES // 256)
    ended_task(tmp_path, 1, output)
    plane = reported(lambda *_: None)
    assert plane.sent(1) == output[-KEPT_BYTES:]


def test_a_heartbeat_comes_between_the_chunks_of_a_backlog(
    tmp_path: Path, reported: Callable[..., Plane]
) -> None:
    for launch in (1, 2):
        ended_task(tmp_path, launch, b"x" * KEPT_BYTES)
    plane = reported(lambda _, path, __: time.sleep(SEND_S if path == "output" else 0.0))
    runs = "".join("o" if path == "output" else " " for path in plane.paths()).split()
    assert sum(map(len, runs)) == 2 * KEPT_BYTES // MAX_CHUNK
    # one begins before the heartbeat is due, and sleeps may take longer, never shorter
    assert max(map(len, runs)) <= BEAT_S / SEND_S + 1


def test_output_that_is_refused_stops_no_heartbeat(
    tmp_path: Path, reported: Callable[..., Plane]
) -> None:
    ended_task(tmp_path, 1, b"text")

    def answer(plane: Plane, path: str, _: dict[str, Any]) -> None:
        if path == "output" and plane.paths().count("sync") < 3:
            raise AwayError("500: it cannot be stored")

    assert reported(answer).sent(1).endswith(b"text")


def test_small_output_is_gathered_for_a_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tasks/1").mkdir(parents=True)
    output = tmp_path / "tasks/1/stdout.0"
    plane, wakes = Plane(lambda *_: None), Wakes(tmp_path / "wake")
    task = Task(1, tmp_path / "tasks/1", 0.0, "b", "", {"stdout": 0, "stderr": 0})
    sender = sending.Sending(plane, wakes)  # type: ignore[arg-type]

    def write(text: bytes, *, is_last: bool = False) -> bool:
        with output.open("ab") as stream:
            stream.write(text)
        return sender.send(task, 1, is_last=is_last, until_s=time.monotonic() + 9.0)

    assert write(b"first")
    assert not write(b" a") and not write(b" b")  # noqa: PT018 - two calls
    assert plane.sent(1) == b"first"
    assert not wakes.wait(0.0)  # the next tick sends it
    monkeypatch.setattr(sending, "GATHERED_S", 0.0)
    assert write(b" c")
    assert len(plane.requests) == 2
    monkeypatch.setattr(sending, "GATHERED_S", 9.0)
    assert not write(b" d")
    assert write(b"x" * sending.FULL)
    assert write(b" end", is_last=True)
    assert plane.sent(1) == b"first a b c d" + b"x" * sending.FULL + b" end"


def test_an_agent_on_a_full_disk_keeps_its_lease_and_gives_new_orders_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plane = Plane(lambda *_: None)
    agent = Agent(plane, Machine("box-1", tmp_path, (0,)))  # type: ignore[arg-type]
    (tmp_path / "lease").write_text(f"{1.0:020.3f}")

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "no space")

    for name in ("mkdir", "write_text"):
        monkeypatch.setattr(Path, name, refuse)
    agent._renew(time.monotonic())
    assert float((tmp_path / "lease").read_text()) > time.monotonic() - 1.0
    order = {
        "launch": 7, "job": "j", "name": "n", "is_running": False, "stop": False, "cores": [0],
        "memory_bytes": 2**20, "command": ["true"],
    }  # fmt: skip
    agent._obey({"orders": [order]}, time.monotonic())
    (report,) = agent._answers
    assert (report.launch, report.state) == (7, "lost")
    assert "no space" in report.message
    assert not list((tmp_path / "tasks").iterdir())
