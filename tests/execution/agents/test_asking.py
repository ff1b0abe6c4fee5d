"""Where an agent asks for its orders while the stream process does not answer."""

import types
from pathlib import Path
from typing import Any

import pytest

from apps.execution.backends.agent import agent as agent_module
from apps.execution.backends.agent.agent import Agent
from apps.execution.backends.agent.link import AwayError
from apps.execution.backends.agent.machine import Machine

pytestmark = pytest.mark.agent
STREAM = "http://127.0.0.1:2/orders"


class Plane:
    """A control plane whose stream process is away until a second of its clock."""

    url = "http://127.0.0.1:1/"

    def __init__(self) -> None:
        self.now_s, self.back_s = 1000.0, float("inf")
        self.asked_s: list[float] = []

    def post(self, path: str, _body: dict[str, Any], *, wait_s: float = 0.0) -> dict[str, Any]:
        if path == STREAM:
            self.asked_s.append(self.now_s)
            if self.now_s < self.back_s:
                raise AwayError("no answer")
        return {"orders": []}


def test_the_stream_is_asked_again_soon_and_then_less_often(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plane = Plane()
    clock = types.SimpleNamespace(monotonic=lambda: plane.now_s)
    monkeypatch.setattr(agent_module, "time", clock)
    agent = Agent(plane, Machine("box-1", tmp_path, (0,)))  # type: ignore[arg-type]
    agent._orders_url = STREAM

    def ask_until(now_s: float) -> list[float]:
        plane.asked_s.clear()
        while plane.now_s < now_s:
            agent._awaited({})
            plane.now_s += 0.5
        return list(plane.asked_s)

    assert ask_until(1100.0) == [1000.0, 1001.0, 1003.0, 1007.0, 1015.0, 1031.0, 1061.0, 1091.0]
    plane.back_s = 1121.0
    assert ask_until(1122.0) == [1121.0, 1121.5]  # it answers: every time
    plane.back_s = float("inf")
    assert ask_until(1124.0) == [1122.0, 1123.0]
