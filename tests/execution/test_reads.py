"""Stored counters, and reads of migrations."""

import pytest

from apps.execution.backends.emulated.port import Counters, JobReport
from apps.execution.models import JobSample
from apps.execution.selectors import migrations, migrations_of
from apps.workloads.core.attainment import Performance
from controlplane.metrics import InstallationCollector
from tests.execution.migration_world import cluster, launch_of, moving, plane, report, running

pytestmark = pytest.mark.django_db


def test_the_emulator_s_counters_become_columns_of_the_sample() -> None:
    cluster()
    launch = launch_of(running([0, 1]))
    counters = Counters(2e7, 0.5, 0.25, 8e6)
    plane().report_jobs(7250.0, [JobReport(launch.id, Performance(0.5, 1e-3), 0.7, counters)])
    row = JobSample.objects.get()
    reported = Counters(
        row.memory_rate or 0, row.network_wait or 0, row.disk_wait or 0, row.traffic_bps or 0
    )
    assert (reported, row.cpu_share) == (counters, 0.7)


def test_the_offered_and_the_served_load_become_columns_of_the_sample() -> None:
    cluster()
    launch = launch_of(running([0, 1]))
    loaded = Performance(0.5, 1e-3, qps=20.0, offered_qps=30.0)
    plane().report_jobs(7250.0, [JobReport(launch.id, loaded, 0.7)])
    row = JobSample.objects.get()
    assert (row.offered_qps, row.served_qps, row.memory_rate) == (30.0, 20.0, None)
    plane().report_jobs(7255.0, [JobReport(launch.id, Performance(0.5, 1e-3), 0.7)])
    row = JobSample.objects.latest("cluster_s")
    assert (row.offered_qps, row.served_qps) == (None, None)


def test_migrations_are_read_by_id_and_job() -> None:
    cluster()
    job, other = running([0, 1]), running([4])
    first = moving(job, "a", "c")
    report(first, "started", "done")
    second = moving(job, "c", "b")
    moving(other, "b", "c")
    assert list(migrations_of(job.id)) == [second, first]
    assert migrations([first.id, 10**9]) == {first.id: first}


def test_prometheus_counts_migrations_by_state() -> None:
    cluster()
    job = running([0, 1])
    report(moving(job, "a", "c"), "started", "done")
    moving(job, "c", "b")
    families = {family.name: family.samples for family in InstallationCollector("1").collect()}
    counted = [(sample.labels, sample.value) for sample in families["berth_migrations"]]
    assert counted == [({"state": "done"}, 1), ({"state": "requested"}, 1)]
