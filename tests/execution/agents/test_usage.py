"""What a task uses: shares of its threads' time, progress lines, and what is stored of them."""

import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from apps.accounts.selectors import token_digest
from apps.execution.backends.agent import limits
from apps.execution.backends.agent.usage import TaskMeter
from apps.execution.core.agent.usage import (
    ProgressRate,
    ThreadTimes,
    TimeShares,
    ran_s,
    read_progress,
    shares,
)
from apps.execution.core.agent.wire import TaskSample, read_sample
from apps.execution.core.diagnosis.remedies import RemedyKind
from apps.execution.core.diagnosis.text import NO_REPORT
from apps.execution.models import JobSample, ServerAgent
from apps.execution.selectors.diagnosis import diagnosis
from apps.execution.services.agents import SupersededError
from apps.execution.services.task_samples import record_samples
from apps.inventory.models import Server
from apps.inventory.selectors import cluster_now
from apps.inventory.services import start_clock
from apps.workloads.models import Job
from tests import factories
from tests.execution.agents.test_credentials import launched

SPEED = 2.0  # cluster seconds of a wall second
BEFORE = {1: ThreadTimes(10**9, 0), 2: ThreadTimes(0, 10**9), 3: ThreadTimes(5, 5)}
AFTER = {1: ThreadTimes(2 * 10**9, 10**9), 2: ThreadTimes(0, 2 * 10**9), 4: ThreadTimes(10**9, 0)}


def test_the_time_of_threads_is_split_into_running_waiting_and_blocked() -> None:
    # two threads for 4 s: one second ran, two waited, five blocked
    assert shares(BEFORE, AFTER, elapsed_s=4.0) == TimeShares(run_wait=0.25, blocked=0.625)
    assert shares({}, AFTER, elapsed_s=4.0) is None


def test_cpu_seconds_count_new_threads() -> None:
    assert ran_s(BEFORE, AFTER) == 2.0


@pytest.mark.parametrize(
    ("text", "progress"),
    [
        ("", None), ("0.5", None), ("0.5\n", 0.5), ("0.5\n0.7", 0.5), ("42 % done\n", None),
        ("42% done\n", 0.42), ("0.1\nloading\n", 0.1), ("0.1\n1.5\nnan\n-1\n", 0.1), ("1\n", 1.0),
    ],
    ids=["none", "incomplete", "line", "last-incomplete", "space", "percent", "text", "range",
         "whole"],
)  # fmt: skip
def test_progress_is_the_last_complete_line_that_says_one(
    text: str, progress: float | None
) -> None:
    assert read_progress(text) == progress


def test_the_rate_of_progress_counts_from_the_first_report() -> None:
    rate = ProgressRate(started_s=100.0)
    assert rate.per_s(110.0, 0.5) == 0.05
    assert rate.per_s(130.0, 0.6) == pytest.approx(0.005)  # it had begun with half of the work
    assert ProgressRate(started_s=100.0).per_s(110.0, 0.0) == 0.0


def meter(progress: Path) -> TaskMeter:
    order = {"cpus": [0], "progress": str(progress)}
    return TaskMeter(order, supervisor=os.getpid(), started_s=0.0)


def test_the_end_of_a_long_progress_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "progress"
    assert meter(path)._progress() is None
    path.write_text("0.1 begun\n" * 10_000 + "0.5\n0.6")
    assert meter(path)._progress() == 0.5


def test_a_pipe_in_place_of_the_progress_file_does_not_stop_the_agent(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "progress")
    assert meter(tmp_path / "progress")._progress() is None


def test_a_sample_is_read_as_it_was_written_and_wrong_fields_are_named() -> None:
    sample = TaskSample(3, 0.5, run_wait=0.25, memory_bytes=7, progress=0.5, progress_per_s=0.1)
    assert read_sample(asdict(sample)) == sample
    for name, value in (
        ("launch", True), ("cpu_share", None), ("cpu_share", 1.5), ("run_wait", "x"),
        ("memory_bytes", -1), ("progress", float("nan")), ("progress_per_s", -1.0),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=name):
            read_sample({**asdict(sample), name: value})


def unified(root: Path) -> None:
    """Make a directory look like control groups of version 2."""
    (root / "berth" / "a").mkdir(parents=True)
    (root / "cgroup.controllers").touch()


def test_the_counters_of_both_versions_of_control_groups_are_named(tmp_path: Path) -> None:
    unified(tmp_path)
    found = limits.limit("a", cpus=[0], memory_bytes=1, root=tmp_path).counters
    group = tmp_path / "berth" / "a"
    assert found == {
        "memory": str(group / "memory.current"),
        "cpu_stat": str(group / "cpu.stat"),
        "pressure": str(group),
    }


@pytest.fixture
def machine(db: None) -> tuple[Server, ServerAgent]:
    start_clock(speed=SPEED)
    server = factories.server("box-1", backend="agent")
    digest = token_digest("secret")
    agent = ServerAgent.objects.create(name="box-1", digest=digest, server=server, epoch=3)
    return server, agent


def test_samples_of_running_launches_of_the_own_server_are_stored(
    machine: tuple[Server, ServerAgent],
) -> None:
    server, agent = machine
    target = {"kind": "completion_time", "seconds": 100.0}
    values: dict[str, Any] = {"target": target, "target_kind": "completion_time"}
    own, other = launched(server, **values), launched(factories.server("box-2"), **values)
    for launch in (own, other):
        launch.state = launch.job.state = "running"
        launch.job.submitted_s = cluster_now() - 50.0
        launch.job.save()
        launch.save()
    silent = TaskSample(
        own.pk, 0.5, run_wait=0.1, blocked=0.4, memory_bytes=7, disk_wait=0.01, network_wait=0.5
    )
    record_samples(agent, 3, [silent, TaskSample(other.pk, 0.5)])
    (row,) = JobSample.objects.all()
    assert (row.job_id, row.progress, row.performance) == (own.job_id, None, None)
    assert (row.cpu_share, row.run_wait, row.blocked, row.memory_bytes) == (0.5, 0.1, 0.4, 7)
    assert row.disk_wait == pytest.approx(0.01 * server.cores)  # of a server full of such tasks
    assert (row.network_wait, row.memory_rate) == (1.0, None)
    record_samples(agent, 3, [TaskSample(own.pk, 0.5, progress=0.5, progress_per_s=0.01 * SPEED)])
    row = JobSample.objects.latest("id")
    assert row.progress == 0.5
    assert row.performance is not None
    elapsed_s = row.cluster_s - own.job.submitted_s
    assert row.performance == pytest.approx(elapsed_s + 50.0)  # half of the work is left
    assert row.attainment == pytest.approx(100.0 / row.performance)
    own.job.refresh_from_db()
    assert own.job.progress == 0.5
    with pytest.raises(SupersededError):
        record_samples(agent, 2, [silent])


def test_a_command_below_its_target_is_diagnosed_by_its_progress(
    machine: tuple[Server, ServerAgent],
) -> None:
    server, agent = machine
    target = {"kind": "completion_time", "seconds": 60.0}
    launch = launched(server, target=target, target_kind="completion_time")
    launch.state = launch.job.state = "running"
    launch.job.started_s = launch.job.submitted_s = cluster_now() - 50.0
    launch.job.save()
    launch.save()
    record_samples(agent, 3, [TaskSample(launch.pk, 0.5, memory_bytes=7)])
    assert diagnosis(launch.job, Job.objects.all()).summary == NO_REPORT
    for progress in (0.1, 0.2, 0.3):
        sample = TaskSample(launch.pk, 0.5, progress=progress, progress_per_s=0.001)
        record_samples(agent, 3, [sample])
    found = diagnosis(launch.job, Job.objects.all())
    assert found.dip is not None
    assert found.dip.reports == 3
    assert RemedyKind.PROFILE not in {remedy.kind for remedy in found.remedies}
