"""Agents that profile a copy of a command before its first job is placed."""

import json
from contextlib import suppress
from pathlib import Path

import pytest
from pytest_django import Settings

from apps.execution.models import OutputStream
from apps.execution.selectors.agents import output
from apps.execution.services.probes import advance_probes
from apps.operations.core.states import OperationStatus
from apps.operations.services import cancel_operation
from apps.profiling.models import ImportedReport, ProfilingRun, RunState
from apps.workloads.models import Job
from tests.execution.agents.conftest import Site, eventually

pytestmark = pytest.mark.agent
SHORT = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"


@pytest.fixture(autouse=True)
def one_stressor(settings: Settings) -> None:
    settings.PROBE_STRESSORS = ["core"]


def submit(site: Site, script: str, directory: Path) -> Job:
    """Submit a copyable script of a shell; it waits for its profile."""
    directory.mkdir(exist_ok=True)
    job = site.submit(
        "sh", "-c", script, copyable=True, application="app", working_directory=str(directory)
    )
    job.refresh_from_db()
    assert job.state == "profiling"
    advance_probes()
    return job


def done(site: Site, job: Job) -> Job:
    """Wait until a job has ended."""

    def has_ended() -> bool:
        advance_probes()
        site.scheduler.work(for_s=0.5)
        job.refresh_from_db()
        return job.state in {"succeeded", "failed", "cancelled"}

    eventually(has_ended, f"the end of {job.name}; agents: {site.logs()}")
    return job


def test_a_copy_is_profiled_before_the_job_runs(site: Site, tmp_path: Path) -> None:
    site.machine("box-1")
    script = f"{SHORT}; echo said; echo $$ > made.$$"
    job = done(site, submit(site, script, tmp_path / "data"))
    run = ProfilingRun.objects.get()
    assert (job.state, run.state) == ("succeeded", RunState.DONE), run.message
    report = ImportedReport.objects.get()
    assert report.key_name == "agent box-1"
    assert report.report["command"] == ["sh", "-c", script]
    assert [source["stressor"] for source in report.report["sources"]] == ["core"]
    assert run.operation is not None
    assert run.operation.status == OperationStatus.SUCCEEDED
    # all files of the copies are gone, and their output is in nobody's
    assert len(list((tmp_path / "data").iterdir())) == 1
    assert output(job, OutputStream.STDOUT, start=0, limit=100).text == "said\n"
    probe = Job.objects.get(pk=run.pk)
    found = json.loads(output(probe, OutputStream.STDOUT, start=0, limit=1 << 20).text)
    assert found["digest"] == report.digest
    # a second job starts at once: its application was measured
    second = site.submit("true", copyable=True, application="app")
    second.refresh_from_db()
    assert second.state == "starting"
    site.done(second)


def test_no_other_job_runs_on_the_cores_of_a_profile(site: Site, tmp_path: Path) -> None:
    site.machine("box-1", more=("--cores", "0,1"))
    job = submit(site, SHORT, tmp_path / "data")
    run = ProfilingRun.objects.get()
    probe = site.until(Job.objects.get(pk=run.pk), "running")
    assert len(probe.allocations.get().unit_ids) == 2
    other = site.submit("true")
    site.scheduler.work(for_s=1.0)
    other.refresh_from_db()
    assert other.state == "queued"
    # nobody waits for it any more once it is cancelled, and the job runs without a profile
    assert run.operation is not None
    cancel_operation(run.operation.pk)
    advance_probes()
    run.refresh_from_db()
    assert run.state == RunState.CANCELLED
    assert done(site, job).state == "succeeded"
    assert site.done(probe).state == "cancelled"
    assert site.done(other).state == "succeeded"
    assert not ImportedReport.objects.exists()


def in_progress(site: Site, run: ProfilingRun) -> Job:
    """Wait until the job of a run measures copies."""
    probe = site.until(Job.objects.get(pk=run.pk), "running")
    eventually(copies, "a copy of the command runs")
    return probe


def copies() -> list[str]:
    """Return the processes that run `SHORT`."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(FileNotFoundError, ProcessLookupError):
            if SHORT.encode() in (process / "cmdline").read_bytes():
                found.append(process.name)
    return found


def test_a_profile_survives_the_death_of_its_agent(site: Site, tmp_path: Path) -> None:
    machine = site.machine("box-1")
    job = submit(site, f"{SHORT}; true", tmp_path / "data")
    run = ProfilingRun.objects.get()
    probe = in_progress(site, run)
    machine.kill()
    machine.start()
    assert done(site, job).state == "succeeded"
    run.refresh_from_db()
    assert run.state == RunState.DONE, run.message
    assert probe.launches.count() == 1
    assert copies() == []


def test_a_profile_that_ended_with_its_machine_is_taken_again(site: Site, tmp_path: Path) -> None:
    machine = site.machine("box-1")
    job = submit(site, f"{SHORT}; true", tmp_path / "data")
    run = ProfilingRun.objects.get()
    probe = in_progress(site, run)
    machine.stop_everything()
    assert copies() == []
    machine.start()
    assert done(site, job).state == "succeeded"
    run.refresh_from_db()
    assert run.state == RunState.DONE, run.message
    outcomes = probe.launches.order_by("attempt").values_list("outcome", flat=True)
    assert list(outcomes) == ["lost", "finished"]
    assert ImportedReport.objects.count() == 1


def test_a_command_that_cannot_be_profiled_runs_as_it_is(site: Site, tmp_path: Path) -> None:
    site.machine("box-1")
    # fails where the file is missing, which only the job itself finds
    (tmp_path / "data").mkdir()
    script = "test ! -e /dev/berth-progress && test $HOME != ''"
    job = done(site, submit(site, script, tmp_path / "data"))
    run = ProfilingRun.objects.get()
    assert job.state == "succeeded"
    assert run.state == RunState.FAILED
    assert "exit code 1: the command failed with exit code 1" in run.message
    assert not ImportedReport.objects.exists()
