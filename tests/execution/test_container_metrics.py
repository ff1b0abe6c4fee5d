"""What containers were seen to use, read as arrays."""

from typing import Any
from uuid import uuid4

import numpy as np
import pytest

from apps.execution.backends.emulated.port import Counters, JobReport
from apps.execution.models import JobSample
from apps.execution.selectors import container_metrics, migrations, migrations_of, open_migrations
from apps.workloads.core.attainment import Performance
from apps.workloads.models import Job
from tests import factories
from tests.execution.moves_world import cluster, launch_of, moving, plane, report, running

pytestmark = pytest.mark.django_db


def seen(job: Job, at_s: float, memory: float | None, **values: Any) -> None:
    rest = {"network_wait": 0.5, "disk_wait": 0.25, "traffic_bps": 8e6}
    none = dict.fromkeys(rest)
    factories.sample(
        job, at_s, memory_rate=memory, **(rest if memory is not None else none), **values
    )


def test_reports_of_the_window_are_averaged_job_by_job() -> None:
    first, second = factories.job(state="running"), factories.job(state="running")
    seen(first, 99.0, 9e9)
    seen(first, 100.0, 1e7)
    seen(first, 150.0, 3e7)
    seen(first, 200.0, 9e9)
    seen(second, 150.0, 5e6)
    found = container_metrics(since_s=100.0, until_s=200.0)
    assert found.job_id == tuple(sorted([first.id, second.id]))
    place = found.job_id.index(first.id)
    assert found.memory_rate[place] == pytest.approx(2e7)
    assert found.memory_rate[1 - place] == pytest.approx(5e6)
    assert found.reports[[place, 1 - place]].tolist() == [2.0, 1.0]
    assert found.network_wait.tolist() == [0.5, 0.5]
    assert found.disk_wait.tolist() == [0.25, 0.25]
    assert found.traffic_bps.tolist() == [8e6, 8e6]


def test_what_no_monitor_told_is_not_a_number() -> None:
    silent, blind = factories.job(state="running"), factories.job(state="running")
    seen(blind, 150.0, None)
    found = container_metrics(since_s=100.0, until_s=200.0)
    assert set(found.job_id) == {silent.id, blind.id}
    assert np.isnan([found.memory_rate, found.network_wait, found.disk_wait]).all()
    assert found.reports.tolist() == [0.0, 0.0]


def test_reports_with_counters_alone_count() -> None:
    job = factories.job(state="running")
    seen(job, 120.0, None)
    seen(job, 150.0, 2e7)
    found = container_metrics(since_s=100.0, until_s=200.0)
    assert (found.memory_rate.tolist(), found.reports.tolist()) == ([2e7], [1.0])


def test_only_running_jobs_unless_others_are_named() -> None:
    ended = factories.job(state="succeeded")
    seen(ended, 150.0, 1e7)
    assert container_metrics(since_s=100.0, until_s=200.0).job_id == ()
    found = container_metrics([ended.id, uuid4()], since_s=100.0, until_s=200.0)
    assert (found.job_id, found.memory_rate.tolist()) == ((ended.id,), [1e7])


def test_nobody_asked_about_is_nobody_told() -> None:
    factories.job(state="running")
    assert container_metrics([], since_s=0.0, until_s=1.0).memory_rate.shape == (0,)


def test_the_emulator_s_counters_become_columns_of_the_sample() -> None:
    cluster()
    launch = launch_of(running([0, 1]))
    counters = Counters(2e7, 0.5, 0.25, 8e6)
    plane().report_jobs(7250.0, [JobReport(launch.id, Performance(0.5, 1e-3), 0.7, counters)])
    row = JobSample.objects.get()
    kept = Counters(
        row.memory_rate or 0, row.network_wait or 0, row.disk_wait or 0, row.traffic_bps or 0
    )
    assert (kept, row.cpu_share) == (counters, 0.7)


def test_migrations_are_read_by_state_id_and_job() -> None:
    cluster()
    job, other = running([0, 1]), running([4])
    first = moving(job, "a", "c")
    report(first, "started", "done")
    second, third = moving(job, "c", "b"), moving(other, "b", "c")
    assert list(open_migrations()) == [second, third]
    assert list(migrations_of(job.id)) == [second, first]
    assert migrations([first.id, 10**9]) == {first.id: first}
