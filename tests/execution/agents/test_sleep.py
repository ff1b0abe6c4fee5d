"""A machine that sleeps: its lease goes on meanwhile."""

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from apps.execution.backends.agent.agent import Agent
from apps.execution.backends.agent.machine import Machine
from apps.execution.backends.agent.supervisor import Task
from tests.execution.agents.test_sending import Plane

SLEPT_S = 3600.0
LEASE_S = 90.0


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> Callable[[], float]:
    """A machine that has slept for an hour; returns the seconds since it was started."""
    clock_gettime = time.clock_gettime

    def since_boot(clock: int) -> float:
        return clock_gettime(clock) + (SLEPT_S if clock == time.CLOCK_BOOTTIME else 0.0)

    monkeypatch.setattr(time, "clock_gettime", since_boot)
    return lambda: since_boot(time.CLOCK_BOOTTIME)


@pytest.mark.parametrize(("left_s", "reason"), [(LEASE_S, ""), (LEASE_S - SLEPT_S, "fenced")])
def test_a_supervisor_counts_the_time_in_which_the_machine_slept(
    tmp_path: Path, slept: Callable[[], float], left_s: float, reason: str
) -> None:
    lease = tmp_path / "lease"
    lease.write_text(str(slept() + left_s))
    order = {"lease": str(lease), "wake": str(tmp_path / "wake")}
    (tmp_path / "order.json").write_text(json.dumps(order))
    task = Task(str(tmp_path))
    task._check_limits(time.monotonic())
    assert task.reason == reason


def test_an_agent_renews_its_lease_from_when_it_asked(
    tmp_path: Path, slept: Callable[[], float]
) -> None:
    agent = Agent(Plane(lambda *_: None), Machine("box-1", tmp_path, (0,)))  # type: ignore[arg-type]
    agent.lease_s = LEASE_S
    before_s = slept()
    agent._exchange({"usage": {}})
    until_s = float((tmp_path / "lease").read_text())
    # written in ms
    assert before_s + LEASE_S - 0.001 <= until_s <= slept() + LEASE_S + 0.001
