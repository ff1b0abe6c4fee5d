"""The progress command: it runs beside the command of a job, and its last line counts."""

import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from apps.execution.backends.agent import command, progress
from apps.execution.backends.agent.progress import ProgressCommand
from apps.execution.models import Launch, ServerAgent
from apps.execution.selectors.agents import output
from apps.inventory.models import Server
from apps.workloads.models import Job
from tests import factories
from tests.execution.agents.conftest import Site, eventually
from tests.execution.agents.test_credentials import launched, registered, sync

EVERY_S = 0.05
PROGRAM: dict[str, Any] = {"command": ["true"], "environment": {}, "working_directory": None}


@pytest.fixture
def failures() -> list[str]:
    return []


@pytest.fixture
def running(tmp_path: Path, failures: list[str]) -> Iterator[Callable[[str], ProgressCommand]]:
    """Return a maker of progress commands of a shell."""
    made: list[ProgressCommand] = []

    def make(script: str) -> ProgressCommand:
        order = {
            "progress_command": ["sh", "-c", script], "progress_every_s": EVERY_S,
            "progress": str(tmp_path / "said"), "working_directory": str(tmp_path),
            "environment": {"PATH": "/usr/bin:/bin"}, "user": "",
            "cpus": sorted(os.sched_getaffinity(0)),
        }  # fmt: skip
        made.append(ProgressCommand(order, failures.append))
        return made[-1]

    yield make
    for each in made:
        each.stop()


def ticking(command: ProgressCommand, holds: Callable[[], object]) -> None:
    """Tick, as a supervisor does, until something is true."""

    def is_true() -> object:
        command.tick()
        return holds()

    eventually(is_true)


def test_the_last_line_in_the_protocol_counts(
    tmp_path: Path, running: Callable[[str], ProgressCommand]
) -> None:
    (tmp_path / "log").write_text("0.5")
    command = running("echo 10%; cat log; echo; echo step 7")
    ticking(command, (tmp_path / "said").exists)
    assert (tmp_path / "said").read_text() == "0.5\n"
    (tmp_path / "log").write_text("75%")
    ticking(command, lambda: (tmp_path / "said").read_text() == "0.75\n")


def test_a_run_is_stopped_at_its_limit_and_the_next_one_begins(
    tmp_path: Path,
    running: Callable[[str], ProgressCommand],
    failures: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(progress, "LIMIT_S", 0.5)
    command = running("[ -e second ] && echo 1 && exit; touch second; sleep 60")
    ticking(command, lambda: failures)
    monkeypatch.setattr(progress, "LIMIT_S", 10.0)
    ticking(command, (tmp_path / "said").exists)
    assert failures == ["berth: the progress command was stopped after 0.5 s\n"]


def test_much_output_does_not_stop_a_run(
    tmp_path: Path, running: Callable[[str], ProgressCommand]
) -> None:
    command = running("yes word | head -n 100000; yes error | head -n 100000 >&2; echo 1%")
    ticking(command, (tmp_path / "said").exists)
    assert (tmp_path / "said").read_text() == "0.01\n"


@pytest.mark.parametrize(
    ("script", "reason"),
    [("exit 3", "ended with exit code 3"), ("echo no number", "printed no line that begins")],
    ids=["exit", "words"],
)
def test_the_first_failure_is_said_once(
    tmp_path: Path,
    running: Callable[[str], ProgressCommand],
    failures: list[str],
    script: str,
    reason: str,
) -> None:
    runs = tmp_path / "runs"
    runs.touch()
    command = running(f"echo x >> runs; {script}")
    ticking(command, lambda: len(runs.read_text()) > 4)
    (text,) = failures
    assert text.startswith(f"berth: the progress command {reason}")
    assert not (tmp_path / "said").exists()


def test_a_directory_that_hangs_does_not_stop_the_supervisor(
    running: Callable[[str], ProgressCommand],
    failures: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(progress, "LIMIT_S", 0.5)
    monkeypatch.setattr(command, "_execute", lambda order: time.sleep(5.0))  # in the fork
    waiting, longest_s = running("echo 1"), 0.0

    def has_failed() -> bool:
        nonlocal longest_s
        begun_s = time.monotonic()
        waiting.tick()
        longest_s = max(longest_s, time.monotonic() - begun_s)
        return bool(failures)

    eventually(has_failed)
    assert failures == ["berth: the progress command was stopped after 0.5 s\n"]
    assert longest_s < 2.0


def test_a_process_that_cannot_be_forked_does_not_stop_the_supervisor(
    running: Callable[[str], ProgressCommand],
    failures: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refused(groups: object) -> None:
        raise OSError("no process is left")

    monkeypatch.setattr(progress, "Command", refused)
    ticking(running("echo 1"), lambda: failures)
    assert failures == ["berth: the progress command could not be started: no process is left\n"]


def test_output_without_end_is_read_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    parts: list[bytes] = []

    def read(pipe: int, size: int) -> bytes:
        assert len(parts) < 1000
        parts.append(b"x" * size)
        return parts[-1]

    monkeypatch.setattr(os, "read", read)
    assert progress._read(0) == b"x" * progress.KEPT_BYTES


@pytest.mark.django_db
def test_an_agent_that_is_too_old_for_progress_commands_gets_none() -> None:
    factories.cluster()
    caller = registered()
    server = Server.objects.get(name="box-1")
    running, waiting = launched(server), launched(server)
    Launch.objects.filter(pk=running.pk).update(state="running")
    for launch in (running, waiting):
        program = {**PROGRAM, "progress_command": ["date"], "progress_every_seconds": 30}
        Job.objects.filter(pk=launch.job_id).update(program=program)
    ServerAgent.objects.update(facts={"protocol": 3})
    (order,) = sync(caller).json()["orders"]
    assert order["launch"] == running.pk
    assert not {"progress_command", "progress_every_s"} & order.keys()
    job = Job.objects.get(pk=waiting.job_id)
    assert job.state == "failed"
    assert "agent of box-1 is too old for progress commands" in job.reason_message
    ServerAgent.objects.update(facts={"protocol": 4})
    (order,) = sync(caller).json()["orders"]
    assert (order["progress_command"], order["progress_every_s"]) == (["date"], 30)


@pytest.mark.agent
def test_a_job_has_the_progress_that_its_progress_command_prints(site: Site) -> None:
    machine = site.machine("box-1")
    job = site.submit(
        "sh", "-c", "while [ ! -e go ]; do sleep 0.05; done",
        progress_command=["sh", "-c", "cat /proc/self/cgroup > group; echo 25% of $BERTH_JOB_ID"],
        progress_every_seconds=1,
    )  # fmt: skip
    site.until(job, "running")

    def has_progress() -> bool:
        job.refresh_from_db()
        return job.progress == 0.25

    eventually(has_progress)
    command = json.loads(machine.file(job, "started.json").read_text())["pid"]
    own = Path(f"/proc/{command}/cgroup").read_text()
    eventually(lambda: machine.file(job, "work/group").read_text() == own)
    machine.file(job, "work/go").touch()
    assert site.done(job).state == "succeeded"


@pytest.mark.agent
def test_a_progress_command_that_cannot_start_is_said_and_the_job_goes_on(site: Site) -> None:
    machine = site.machine("box-1")
    job = site.submit(
        "sh", "-c", "while [ ! -e go ]; do sleep 0.05; done",
        progress_command=["no-such-program"], progress_every_seconds=1,
    )  # fmt: skip
    site.until(job, "running")
    text = eventually(lambda: output(job, "stderr", start=0, limit=1000).text)
    assert text.startswith("berth: the progress command could not be started: ")
    assert "no-such-program" in text
    machine.file(job, "work/go").touch()
    assert site.done(job).state == "succeeded"


@pytest.mark.agent
def test_a_progress_command_ends_with_the_command(site: Site) -> None:
    machine = site.machine("box-1")
    job = site.submit(
        "sh", "-c", "while [ ! -s pid ]; do sleep 0.05; done",
        progress_command=["sh", "-c", "echo $$ > pid; exec sleep 300"],
        progress_every_seconds=1,
    )  # fmt: skip
    assert site.done(job).state == "succeeded"
    process = Path("/proc") / machine.file(job, "work/pid").read_text().strip()
    assert not process.exists()
