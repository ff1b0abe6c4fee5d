"""What is kept of counters, and reads of migrations."""

import pytest

from apps.execution.backends.emulated.port import Counters, JobReport
from apps.execution.models import JobSample
from apps.execution.selectors import migrations, migrations_of
from apps.workloads.core.attainment import Performance
from controlplane.metrics import collect
from tests.execution.moves_world import cluster, launch_of, moving, plane, report, running

pytestmark = pytest.mark.django_db


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


def test_migrations_are_read_by_id_and_job() -> None:
    cluster()
    job, other = running([0, 1]), running([4])
    first = moving(job, "a", "c")
    report(first, "started", "done")
    second = moving(job, "c", "b")
    moving(other, "b", "c")
    assert list(migrations_of(job.id)) == [second, first]
    assert migrations([first.id, 10**9]) == {first.id: first}


def test_moves_are_counted_by_state_for_prometheus() -> None:
    cluster()
    job = running([0, 1])
    report(moving(job, "a", "c"), "started", "done")
    moving(job, "c", "b")
    counted = {metric.name: metric.samples for metric in collect("1")}
    assert counted["berth_migrations"] == [
        ((("state", "done"),), 1),
        ((("state", "requested"),), 1),
    ]
