"""Processes that end are started again, each with its own back-off."""

import os
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from controlplane.embedded.processes import Child, LauncherError, start, wait_all
from controlplane.embedded.supervisor import Supervisor


@dataclass
class Clock:
    now_s: float = 0.0

    def __call__(self) -> float:
        return self.now_s


@dataclass
class Fleet:
    """Processes that end at once, and what was reported of them."""

    log: Path
    clock: Clock = field(default_factory=Clock)
    starts_s: list[float] = field(default_factory=list)
    reports: list[str] = field(default_factory=list)

    def launch(self) -> Child:
        self.starts_s.append(self.clock())
        command = [sys.executable, "-c", "raise SystemExit('no room')"]
        child = start("agent", command, log=self.log, environment=os.environ)
        assert wait_all([child], timeout_s=20.0)
        return child


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    return Fleet(tmp_path / "log")


@pytest.fixture
def supervisor(fleet: Fleet) -> Supervisor:
    made = Supervisor(fleet.reports.append, fleet.clock)
    made.add(fleet.launch(), fleet.launch)
    return made


def passes(supervisor: Supervisor, clock: Clock, *, until_s: float) -> None:
    while clock.now_s < until_s:
        clock.now_s += 0.5
        supervisor.check()


def test_the_delay_doubles_with_every_end(fleet: Fleet, supervisor: Supervisor) -> None:
    passes(supervisor, fleet.clock, until_s=20.0)
    assert fleet.starts_s == [0.0, 1.5, 4.0, 8.5, 17.0]
    assert fleet.reports[0] == "agent ended with code 1: no room; it starts again in 1 s."
    assert fleet.reports[3].endswith("it starts again in 8 s.")


def test_the_delay_is_at_most_a_minute(fleet: Fleet, supervisor: Supervisor) -> None:
    passes(supervisor, fleet.clock, until_s=400.0)
    assert fleet.reports[-1].endswith("it starts again in 60 s.")
    assert fleet.starts_s[-1] - fleet.starts_s[-2] == 60.5


def test_the_delay_starts_over_after_a_minute_without_an_end(
    fleet: Fleet, supervisor: Supervisor
) -> None:
    passes(supervisor, fleet.clock, until_s=8.5)
    fleet.clock.now_s += 60.0
    supervisor.check()
    assert fleet.reports[-1].endswith("it starts again in 1 s.")


def test_the_new_process_replaces_the_old_one(fleet: Fleet, supervisor: Supervisor) -> None:
    (old,) = supervisor.children
    passes(supervisor, fleet.clock, until_s=2.0)
    (new,) = supervisor.children
    assert new is not old


def test_a_report_that_raises_stops_the_instance(fleet: Fleet) -> None:
    def is_full(_: str) -> None:
        raise LauncherError("The disk is full.")

    supervisor = Supervisor(is_full, fleet.clock)
    supervisor.add(fleet.launch(), fleet.launch)
    with pytest.raises(LauncherError, match="disk is full"):
        supervisor.check()
