"""Agents as processes of this machine, against a real server of this process."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from django.db import connections
from pytest_django import Settings
from pytest_django.live_server_helper import LiveServer

from apps.accounts.core.roles import Role
from apps.accounts.services import create_user, ensure_project
from apps.execution.services import agents
from apps.execution.services.agent_credentials import create_enrolment, enrol
from apps.inventory.models import Server
from apps.inventory.services import start_clock
from apps.scheduling.services.agent import SchedulingAgent, make_agent
from apps.workloads.core.spec import parse_job
from apps.workloads.models import Job
from apps.workloads.services import submit_jobs
from tests import factories

ROOT = Path(__file__).parents[3]
TIMEOUT_S = 60.0  # of a busy machine
SHORT_WAIT_S = 0.5


def eventually(holds: Callable[[], Any], what: str = "") -> Any:
    """Wait until something is true, and return it."""
    until = time.monotonic() + TIMEOUT_S
    while time.monotonic() < until:
        found = holds()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError(f"did not happen within {TIMEOUT_S:.0f} s: {what or holds}")


@dataclass
class Machine:
    """One machine: its agent's directory, and the process that runs now."""

    name: str
    url: str
    state: Path
    process: "subprocess.Popen[bytes] | None" = None
    prefix: tuple[str, ...] = ()  # of the command of the agent
    options: tuple[str, ...] = ()  # further ones of the agent

    def start(self, *more: str) -> None:
        """Start the agent and wait until it is registered."""
        log = (self.state / "agent.log").open("ab")
        with log:
            self.process = subprocess.Popen(  # noqa: S603 - our own program
                [
                    *(*self.prefix, sys.executable, "-m", "controlplane.cli.main", "agent"),
                    *("--server", self.name, "--state", str(self.state), "--url", self.url),
                    *("--user", "root" if os.geteuid() == 0 else "", "--memory", "1Gi"),
                    *(*self.options, *more),
                ],
                cwd=ROOT, stdout=log, stderr=log, env={"PATH": os.environ["PATH"]},
            )  # fmt: skip

        def is_registered() -> bool:
            assert self.process is not None
            assert self.process.poll() is None, self.log()
            return f"registered {self.name}" in self.log()

        eventually(is_registered, f"{self.name} registers")

    def kill(self, number: int = signal.SIGKILL) -> None:
        """End the agent; its tasks go on."""
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait()
            self.process = None
        (self.state / "agent.log").write_text("")

    def stop_everything(self) -> None:
        """End the agent, and let the supervisors stop the tasks."""
        self.kill()
        (self.state / "lease").write_text("0")
        for directory in (self.state / "tasks").glob("*"):
            if (directory / "supervisor.json").exists():
                eventually((directory / "exit.json").exists, f"{directory} ends")

    def log(self) -> str:
        """Return what the agent has written."""
        return (self.state / "agent.log").read_text()

    def file(self, job: Job, name: str) -> Path:
        """Return a file of the only launch of a job."""
        launch = job.launches.get()
        return self.state / "tasks" / str(launch.pk) / name


@dataclass
class Site:
    """The control plane, and machines that can be enrolled."""

    url: str
    directory: Path
    scheduler: SchedulingAgent
    machines: list[Machine] = field(default_factory=list)

    def machine(
        self, name: str, *, is_started: bool = True, more: tuple[str, ...] = ()
    ) -> Machine:
        """Enrol a machine and start its agent."""
        state = self.directory / name
        state.mkdir()
        admin = create_user(username=f"admin-{name}", password=None, role=Role.ADMIN)
        permit = create_enrolment(server_name=name, user=admin)
        (state / "credential").write_text(enrol(permit.secret).secret)
        machine = Machine(name, self.url, state)
        self.machines.append(machine)
        if is_started:
            machine.start(*more)
        return machine

    def submit(self, *command: str, **values: Any) -> Job:
        """Submit a command, and let it be placed."""
        (job,) = submit_jobs(
            [parse_job({"command": list(command), **values})],
            project=factories.project(),
            user=factories.user(),
            correlation_id="request",
        )
        self.scheduler.work(for_s=5.0)
        return job

    def until(self, job: Job, *states: str) -> Job:
        """Wait until a job is in one of the states."""

        def is_there() -> bool:
            self.scheduler.work(for_s=1.0)
            job.refresh_from_db()
            return job.state in states

        eventually(is_there, f"{states}, not {job.state}; agents: {self.logs()}")
        return job

    def done(self, job: Job) -> Job:
        """Wait until a job has ended."""
        return self.until(job, "succeeded", "failed", "cancelled")

    def logs(self) -> list[str]:
        """Return the logs of all agents."""
        return [machine.log()[-2000:] for machine in self.machines]


@pytest.fixture
def site(
    transactional_db: None,
    live_server: LiveServer,
    settings: Settings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Site]:
    """A control plane without servers; its clock runs as the wall clock does."""
    settings.BERTH_RATES = {}
    wait = agents.wait_for_orders
    # requests of agents that are killed end soon: none may read the database after the test
    monkeypatch.setattr(
        agents, "wait_for_orders", lambda *a, wait_s: wait(*a, wait_s=min(wait_s, SHORT_WAIT_S))
    )
    earlier = requests_in_flight()  # connections that other tests left open, and that are idle
    ensure_project("default")
    start_clock(speed=1.0)
    tmp_path.chmod(0o711)
    found = Site(live_server.url, tmp_path, make_agent("scheduler-1"))
    yield found
    for machine in found.machines:
        machine.stop_everything()
    eventually(lambda: requests_in_flight() <= earlier, "no request is in flight")
    Server.objects.all().delete()
    connections.close_all()


@pytest.fixture
def open_directory() -> Iterator[Path]:
    """A directory that every user can reach, unlike those of pytest."""
    with TemporaryDirectory() as name:
        Path(name).chmod(0o711)
        yield Path(name)


def requests_in_flight() -> set[threading.Thread]:
    """Return the threads of the live server that answer a request or keep a connection."""
    return {t for t in threading.enumerate() if "process_request_thread" in t.name}
