"""Real agents as processes of this machine: `./dev test -m agent`."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from threading import Thread

import pytest
from django.db import connections

from apps.accounts.core.roles import Role
from apps.accounts.services import create_token, create_user, join_project
from apps.execution.backends.agent import supervisor
from apps.execution.core.agent.wire import KEPT_BYTES, MAX_CHUNK
from apps.execution.models import JobSample, Launch, OutputChunk, ServerAgent
from apps.execution.selectors.agents import output, output_tail
from apps.inventory.models import Server
from apps.workloads.models import Job
from apps.workloads.services import cancel_jobs
from controlplane.cli.main import main
from tests import factories
from tests.execution.agents.conftest import ROOT, Site, eventually
from tests.execution.agents.gate import gate_to

pytestmark = pytest.mark.agent


def test_a_command_runs_on_a_machine_and_its_output_comes_back(site: Site) -> None:
    machine = site.machine("box-1")
    server = Server.objects.get(name="box-1")
    assert (server.backend, server.cores) == ("agent", len(os.sched_getaffinity(0)))
    assert server.memory_bytes == 2**30
    job = site.done(site.submit("sh", "-c", "echo out $GREETING; echo err >&2; pwd; env",
                                environment={"GREETING": "hello"}))  # fmt: skip
    assert (job.state, job.exit_code, job.reason_message) == ("succeeded", 0, "")
    text = output(job, "stdout", start=0, limit=10_000).data.decode()
    assert text.startswith("out hello\n")
    assert f"BERTH_JOB_ID={job.pk}\n" in text
    assert "BERTH_SERVER=box-1\n" in text
    assert str(machine.file(job, "work")) in text
    assert "PYTHONPATH" not in text
    assert output(job, "stderr", start=0, limit=100).data == b"err\n"
    assert Server.objects.get(name="box-1").used_cores == 0


@pytest.mark.parametrize(
    ("command", "code", "message"),
    [
        (["sh", "-c", "exit 3"], 3, "exit code 3"),
        (["sh", "-c", "kill -9 $$"], -9, "killed by SIGKILL"),
        (["no-such-program"], 127, "could not be started"),
    ],
    ids=["exit", "signal", "missing"],
)
def test_a_failure_says_how_the_command_ended(
    site: Site, command: list[str], code: int, message: str
) -> None:
    site.machine("box-1")
    job = site.done(site.submit(*command))
    assert (job.state, job.exit_code) == ("failed", code)
    assert message in job.reason_message


def test_a_command_runs_on_the_cores_that_its_units_name(site: Site) -> None:
    machine = site.machine("box-1")
    job = site.until(site.submit("sleep", "60"), "running")
    started = eventually(lambda: machine.file(job, "started.json").exists())
    assert started
    pid = int(machine.file(job, "started.json").read_text().split('"pid": ')[1].split(",")[0])
    assert len(os.sched_getaffinity(pid)) == 1


def test_arguments_reach_the_program_without_a_shell(site: Site) -> None:
    site.machine("box-1")
    job = site.done(site.submit("printf", "%s\\n", "$HOME; `id`", "a b"))
    assert output(job, "stdout", start=0, limit=100).data == b"$HOME; `id`\na b\n"


def test_twenty_programs_run_on_three_machines(site: Site) -> None:
    for name in ("box-1", "box-2", "box-3"):
        site.machine(name)
    jobs = [site.submit("sh", "-c", f"echo program {n}; sleep 0.2") for n in range(20)]
    for job in jobs:
        site.done(job)
    assert {job.state for job in jobs} == {"succeeded"}
    texts = [output(job, "stdout", start=0, limit=100).data for job in jobs]
    assert texts == [f"program {n}\n".encode() for n in range(20)]
    used = {launch.order["parts"][0][0] for launch in Launch.objects.all()}
    assert len(used) == 3


def test_a_cancelled_command_and_what_it_started_are_stopped(site: Site) -> None:
    machine = site.machine("box-1")
    job = site.submit("sh", "-c", "setsid sleep 321 & echo $!; sleep 321")
    site.until(job, "running")
    text = eventually(lambda: output(job, "stdout", start=0, limit=100).data)
    cancel_jobs([job.pk])
    assert site.done(job).state == "cancelled"
    assert not Path(f"/proc/{int(text)}").exists()
    assert machine.file(job, "exit.json").exists()


def test_a_task_survives_the_death_of_its_agent_and_is_reported_by_the_next(site: Site) -> None:
    machine = site.machine("box-1")
    job = site.submit("sh", "-c", "echo one; while [ ! -e go ]; do sleep 0.05; done; echo two")
    site.until(job, "running")
    eventually(lambda: output(job, "stdout", start=0, limit=100).data == b"one\n")
    machine.kill(signal.SIGKILL)
    machine.file(job, "work/go").touch()
    eventually(machine.file(job, "exit.json").exists)
    job.refresh_from_db()
    assert job.state == "running"
    machine.start()
    job = site.done(job)
    assert (job.state, job.attempts) == ("succeeded", 1)
    assert output(job, "stdout", start=0, limit=100).data == b"one\ntwo\n"


def test_a_running_task_is_kept_by_the_next_agent(site: Site) -> None:
    machine = site.machine("box-1")
    job = site.submit("sh", "-c", "while [ ! -e go ]; do sleep 0.05; done; echo done")
    site.until(job, "running")
    machine.kill(signal.SIGKILL)
    machine.start()
    machine.file(job, "work/go").touch()
    assert site.done(job).state == "succeeded"
    assert Launch.objects.count() == 1


def test_an_agent_that_is_superseded_stops_its_tasks_and_itself(site: Site) -> None:
    machine = site.machine("box-1")
    job = site.submit("sleep", "321")
    site.until(job, "running")
    second = site.machines[0].state.parent / "copy"
    second.mkdir()
    (second / "credential").write_text((machine.state / "credential").read_text())
    copy = type(machine)("box-1", machine.url, second)
    site.machines.append(copy)
    copy.start()
    assert machine.process is not None
    assert machine.process.wait(timeout=60) == 5
    eventually(lambda: list(machine.state.glob("tasks/*/exit.json")), "its task is stopped")


def test_the_end_of_the_lease_stops_a_task_without_an_agent(site: Site) -> None:
    machine = site.machine("box-1")
    job = site.submit("sleep", "321")
    site.until(job, "running")
    machine.kill(signal.SIGKILL)
    (machine.state / "lease").write_text("0")
    exit_file = machine.file(job, "exit.json")
    eventually(exit_file.exists)
    assert '"reason": "fenced"' in exit_file.read_text()


def test_a_command_that_closes_its_output_is_still_watched(site: Site) -> None:
    machine = site.machine("box-1")
    job = site.submit("sh", "-c", "exec >&- 2>&-; sleep 321")
    site.until(job, "running")
    machine.kill(signal.SIGKILL)
    (machine.state / "lease").write_text("0")
    exit_file = machine.file(job, "exit.json")
    eventually(exit_file.exists)
    assert '"reason": "fenced"' in exit_file.read_text()


def test_a_job_stopped_with_the_lease_is_launched_again(site: Site) -> None:
    machine = site.machine("box-1")
    job = site.submit("sh", "-c", "test -e /proc/self/no-such-file; sleep 321")
    site.until(job, "running")
    machine.kill(signal.SIGKILL)
    exit_file = machine.file(job, "exit.json")
    (machine.state / "lease").write_text("0")
    eventually(exit_file.exists)
    machine.start()
    eventually(lambda: site.until(job, "running").attempts == 2)
    assert Launch.objects.get(attempt=1).outcome == "lost"


def test_a_second_supervisor_of_a_task_starts_nothing(site: Site) -> None:
    machine = site.machine("box-1")
    job = site.submit("sh", "-c", "echo started")
    site.done(job)
    directory = machine.file(job, "")
    code = f"import sys; from {supervisor.__name__} import main; sys.exit(main(sys.argv[1]))"
    command = [sys.executable, "-c", code, str(directory)]
    again = subprocess.run(command, cwd=ROOT, check=False)  # noqa: S603 - our own program
    assert again.returncode == 1
    assert output(job, "stdout", start=0, limit=100).data == b"started\n"


def test_a_task_longer_than_its_duration_is_stopped(site: Site) -> None:
    site.machine("box-1")
    job = site.done(site.submit("sleep", "321", duration_seconds=0.5))
    assert job.state == "failed"
    assert job.reason_message == "stopped after its duration of 0.5 s"


def test_nothing_is_lost_while_the_control_plane_is_away(site: Site) -> None:
    with gate_to(site.url) as gate:
        site.url = gate.url
        machine = site.machine("box-1")
        running = site.submit("sh", "-c", "while [ ! -e go ]; do sleep 0.05; done; echo done")
        site.until(running, "running")
        gate.close()
        eventually(lambda: "the control plane is away" in machine.log())
        machine.file(running, "work/go").touch()
        eventually(machine.file(running, "exit.json").exists)
        waiting = site.submit("echo", "later")
        gate.open()
        assert site.done(running).state == "succeeded"
        assert output(running, "stdout", start=0, limit=100).data == b"done\n"
        assert site.done(waiting).state == "succeeded"
        assert {launch.attempt for launch in Launch.objects.all()} == {1}
        machine.kill()


def test_a_command_beyond_its_memory_is_reported_as_out_of_memory(site: Site) -> None:
    site.machine("box-1")
    limits = ServerAgent.objects.get().facts["limits"]
    if limits["memory"] != "control group":
        pytest.skip(f"no right to create control groups here: {limits['memory']}")
    cores = Server.objects.get().cores
    job = site.done(site.submit(sys.executable, "-c", f"x = bytearray({2**31} // {cores})"))
    assert job.state == "failed"
    assert job.reason_message == (
        f"out of memory: killed by the kernel at the limit of {1024 // cores} MiB"
    )


def test_usage_and_progress_of_a_command_are_measured(
    site: Site, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    site.machine("box-1")
    code = (
        "import os, time\n"
        "kept, progress = bytearray(2**26), open(os.environ['BERTH_PROGRESS'], 'w', 1)\n"
        "print('1 %', file=progress)\n"
        "while not os.path.exists('go'):\n"
        "    time.sleep(0.02); print(0.25, 'of the work', file=progress)\n"
    )
    target = {"kind": "completion_time", "seconds": 1e6}
    job = site.submit(sys.executable, "-c", code, target=target)
    site.until(job, "running")
    # a sample at the start may have progress, but no rate yet
    rated = JobSample.objects.filter(job=job, progress=0.25, performance__isnull=False)
    sample = eventually(rated.first)
    assert 0 < sample.cpu_share < 1
    assert sample.blocked > 0.0
    assert sample.blocked + sample.run_wait > 0.2  # on a busy machine it waits for a core
    assert sample.memory_bytes > 2**26
    assert 0.0 <= sample.cpu_pressure <= 1.0
    assert sample.performance > 0.0
    assert sample.attainment == pytest.approx(1e6 / sample.performance)
    job.refresh_from_db()
    assert (job.progress, job.reason_code) == (0.25, "MeetsTarget")
    log_in(site, monkeypatch)
    assert main(["get", str(job.pk)]) == 0
    assert "of its cores; threads: " in capsys.readouterr().out
    site.machines[0].file(job, "work/go").touch()
    assert site.done(job).state == "succeeded"


def test_output_beyond_the_limit_keeps_its_end(site: Site) -> None:
    site.machine("box-1")
    job = site.done(site.submit("sh", "-c", "yes 1234567 | head -n 300000; echo the end"))
    last = output_tail(job, "stdout", limit=100)
    assert last.data.endswith(b"1234567\nthe end\n")
    assert last.end == 300_000 * 8 + 8
    first = output(job, "stdout", start=0, limit=100)
    assert 0 < first.start <= last.end - KEPT_BYTES
    kept = sum(len(data) for data in OutputChunk.objects.values_list("data", flat=True))
    assert kept <= KEPT_BYTES + MAX_CHUNK


def test_berth_run_returns_the_exit_code_and_copies_the_output(
    site: Site, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    site.machine("box-1")
    log_in(site, monkeypatch)
    placing = Thread(target=place_the_first_job, args=(site,))
    placing.start()
    code = main(["run", "--", "sh", "-c", "echo one; sleep 0.2; echo two >&2; exit 7"])
    placing.join()
    found = capfd.readouterr()
    assert (code, found.out) == (7, "one\n")
    assert "two\n" in found.err
    assert "the job has failed: exit code 7" in found.err


def log_in(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `berth` act as an administrator."""
    user = create_user(username="sue", password=None, role=Role.ADMIN)
    join_project(user=user, project=factories.project(), role=Role.SUBMITTER)
    monkeypatch.setenv("BERTH_URL", site.url)
    monkeypatch.setenv("BERTH_TOKEN", create_token(user=user, name="cli").secret)


def place_the_first_job(site: Site) -> None:
    """Let the scheduler place the job that another thread submits."""
    try:
        eventually(Job.objects.exists)
        site.scheduler.work(for_s=5.0)
    finally:
        connections.close_all()
