"""Commands that are suspended: real processes, `./dev test -m agent`."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from apps.execution.backends.agent import supervisor
from apps.execution.backends.agent.supervisor import write_json
from apps.execution.backends.agent.suspension import descendants, is_stopped
from apps.execution.services.suspension import resume_job, suspend_job
from apps.inventory.models import Server
from apps.workloads.models import Job
from apps.workloads.services import cancel_jobs
from tests.execution.agents.conftest import ROOT, Site, eventually

pytestmark = pytest.mark.agent
# a child in a session of its own counts, and the command waits for it
COUNTS = "import time\nn = 0\nwhile True:\n    n += 1; open('n', 'w').write(str(n))\n"
SPAWNS = (
    "import subprocess, sys\n"
    "sys.exit(subprocess.run([sys.executable, '-c', sys.argv[1]], start_new_session=True)"
    ".returncode)\n"
)


def submitted(site: Site, **values: Any) -> Job:
    job = site.submit(sys.executable, "-c", SPAWNS, COUNTS, **values)
    return site.until(job, "running")


def until(site: Site, job: Job, suspension: str) -> Job:
    def is_there() -> bool:
        job.refresh_from_db()
        return job.suspension == suspension

    eventually(is_there, f"{suspension!r}, not {job.suspension!r}; {site.logs()}")
    return job


def ticks(directory: Path) -> int:
    """Return the clock ticks that all processes of a task have run."""
    total = 0
    claim = (directory / "supervisor.json").read_text()
    for process in descendants(int(claim.split('"pid": ')[1].split(",")[0])):
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total


def runs(directory: Path) -> None:
    """Wait until the processes of a task run on."""
    before = ticks(directory)
    eventually(lambda: ticks(directory) > before, "its processes run")


def test_a_suspended_command_stops_with_all_its_processes_and_continues(site: Site) -> None:
    machine = site.machine("box-1")
    job = submitted(site)
    directory = machine.file(job, "")
    eventually((directory / "work/n").exists)
    suspend_job(job.pk)
    until(site, job, "suspended")
    stopped = ticks(directory)
    assert (job.state, job.suspended_s is not None) == ("running", True)
    assert Server.objects.get(name="box-1").used_cores == 1
    resume_job(job.pk)
    assert ticks(directory) == stopped
    until(site, job, "")
    runs(directory)
    assert (job.attempts, job.suspended_for_s > 0.0) == (1, True)


def test_a_suspension_survives_the_death_of_the_agent(site: Site) -> None:
    machine = site.machine("box-1")
    job = submitted(site)
    directory = machine.file(job, "")
    suspend_job(job.pk)
    until(site, job, "suspended")
    machine.kill(signal.SIGKILL)
    stopped = ticks(directory)
    resume_job(job.pk)
    machine.start()
    until(site, job, "")
    runs(directory)
    assert ticks(directory) > stopped


def test_a_request_reaches_the_next_agent(site: Site) -> None:
    machine = site.machine("box-1")
    job = submitted(site)
    machine.kill(signal.SIGKILL)
    directory = machine.file(job, "")
    suspend_job(job.pk)
    runs(directory)
    machine.start()
    until(site, job, "suspended")
    stopped = ticks(directory)
    time.sleep(0.2)
    assert ticks(directory) == stopped


def test_a_suspended_command_is_cancelled(site: Site) -> None:
    machine = site.machine("box-1")
    job = submitted(site)
    suspend_job(job.pk)
    until(site, job, "suspended")
    cancel_jobs([job.pk])
    assert site.done(job).state == "cancelled"
    assert machine.file(job, "exit.json").exists()
    assert Server.objects.get(name="box-1").used_cores == 0


def test_the_end_of_the_lease_stops_a_suspended_task(site: Site) -> None:
    machine = site.machine("box-1")
    job = submitted(site)
    suspend_job(job.pk)
    until(site, job, "suspended")
    machine.kill(signal.SIGKILL)
    (machine.state / "lease").write_text("0")
    exit_file = machine.file(job, "exit.json")
    eventually(exit_file.exists)
    assert '"reason": "fenced"' in exit_file.read_text()


def supervised(directory: Path, **values: Any) -> "subprocess.Popen[bytes]":
    """Start a supervisor without control groups on a command that counts."""
    (directory / "work").mkdir()
    (directory / "lease").write_text("1e12")
    write_json(
        str(directory / "order.json"),
        {
            "command": [sys.executable, "-c", SPAWNS, COUNTS],
            "environment": {"PATH": os.environ["PATH"]},
            "working_directory": str(directory / "work"),
            "cpus": sorted(os.sched_getaffinity(0))[:1],
            "lease": str(directory / "lease"),
            "wake": str(directory / "wake"),
            **values,
        },
    )
    code = f"import sys; from {supervisor.__name__} import main; sys.exit(main(sys.argv[1]))"
    command = [sys.executable, "-c", code, str(directory)]
    return subprocess.Popen(command, cwd=ROOT)  # noqa: S603 - our own program


def test_without_a_freezer_signals_stop_the_processes(tmp_path: Path) -> None:
    with supervised(tmp_path) as process:
        try:
            eventually((tmp_path / "work/n").exists)
            (tmp_path / "suspend").touch()
            said = tmp_path / "suspension.json"
            eventually(lambda: said.exists() and '"is_suspended": true' in said.read_text())
            states = {state_of(each) for each in descendants(process.pid)}
            assert states == {"T"}
            (tmp_path / "suspend").unlink()
            eventually(lambda: '"is_suspended": false' in said.read_text())
            runs(tmp_path)
        finally:
            process.terminate()
    assert '"reason": "stopped"' in (tmp_path / "exit.json").read_text()


def state_of(process: int) -> str:
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]


def test_the_time_of_a_suspension_is_no_part_of_the_duration(tmp_path: Path) -> None:
    (tmp_path / "suspend").touch()
    with supervised(tmp_path, duration_s=0.0) as process:
        process.wait()
    assert '"reason": "duration"' in (tmp_path / "exit.json").read_text()
    task = supervisor.Task(str(tmp_path))
    task.order["duration_s"] = 10.0
    now_s = time.monotonic()
    task.suspended_s, task.suspended_before_s = now_s - 5.0, 90.0
    task._check_limits(begun_s=now_s - 100.0)  # it ran for 5 s
    assert task.reason == ""
    task.suspended_before_s = 84.0  # it ran for 11 s
    task._check_limits(begun_s=now_s - 100.0)
    assert task.reason == "duration"


def test_a_suspension_that_is_not_complete_is_taken_back(tmp_path: Path) -> None:
    freezer, events = tmp_path / "cgroup.freeze", tmp_path / "cgroup.events"
    events.write_text("populated 1\nfrozen 0\n")  # the kernel needs more time
    (tmp_path / "lease").write_text("1e12")
    order = {"wake": "", "freezers": [str(freezer)], "lease": str(tmp_path / "lease")}
    write_json(str(tmp_path / "order.json"), order)
    task = supervisor.Task(str(tmp_path))
    (tmp_path / "suspend").touch()
    task._check_limits(begun_s=time.monotonic())
    assert (freezer.read_text(), task.suspended_s) == ("1", None)
    assert not (tmp_path / "suspension.json").exists()
    (tmp_path / "suspend").unlink()
    task._check_limits(begun_s=time.monotonic())
    assert freezer.read_text() == "0"
    assert '"is_suspended": false' in (tmp_path / "suspension.json").read_text()


STARTS = "import ctypes, time\nif ctypes.CDLL(None).vfork() == 0:\n    time.sleep(1000)\n"


def test_a_process_that_starts_another_is_stopped_with_it() -> None:
    with subprocess.Popen([sys.executable, "-c", STARTS]) as parent:  # noqa: S603 - our own
        try:
            (child,) = eventually(lambda: descendants(parent.pid))
            parent.send_signal(signal.SIGSTOP)  # it cannot stop yet: it waits for its child
            eventually(lambda: state_of(child) == "S" and state_of(parent.pid) == "D")
            assert not is_stopped(parent.pid)
            os.kill(child, signal.SIGSTOP)
            eventually(lambda: is_stopped(parent.pid))
            assert state_of(parent.pid) == "D"
        finally:
            os.kill(child, signal.SIGKILL)
            parent.kill()
