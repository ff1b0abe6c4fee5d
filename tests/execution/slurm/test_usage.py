"""What sstat says of jobs becomes their samples."""

import pytest
from rest_framework.test import APIClient

from apps.accounts.core.roles import Role
from apps.accounts.services import create_token
from apps.dashboard.selectors.jobs import performance
from apps.execution.core.slurm.usage import Usage
from apps.execution.models import JobSample
from apps.execution.models import SlurmJob as SlurmRow
from apps.execution.services.slurm_usage import record_usage
from apps.inventory.models import Cluster
from apps.workloads.models import Job
from tests import factories

pytestmark = pytest.mark.django_db


@pytest.fixture
def job() -> Job:
    """A job of Slurm that has run with two units since second 3,000."""
    factories.cluster(seen_cluster_s=3000.0)
    found = factories.job("train", state="running", started_s=3000.0)
    factories.allocation(found, factories.server("n1"), cores=2)
    SlurmRow.objects.create(slurm_id=7, job=found)
    return found


def report(at_s: float, cpu_s: float) -> None:
    Cluster.objects.update(seen_cluster_s=at_s)
    record_usage({7: Usage(cpu_s, 2**20)})


def shares(job: Job) -> list[tuple[float, float]]:
    rows = JobSample.objects.filter(job=job).order_by("cluster_s")
    return [(row.cluster_s, round(row.cpu_share, 6)) for row in rows]


def test_a_sample_is_the_use_of_its_cores_since_the_last_one(job: Job) -> None:
    report(3010.0, 10.0)
    report(3030.0, 40.0)
    # 10 of 20 CPU seconds, then 30 of 40
    assert shares(job) == [(3010.0, 0.5), (3030.0, 0.75)]
    assert JobSample.objects.filter(memory_bytes=2**20).count() == 2
    assert SlurmRow.objects.get().cpu_s == 40.0


def test_a_sum_that_slurm_repeats_is_no_sample_at_first(job: Job) -> None:
    report(3010.0, 10.0)
    report(3030.0, 10.0)
    assert shares(job) == [(3010.0, 0.5)]
    report(3040.0, 40.0)
    report(3100.0, 40.0)
    assert shares(job)[1:] == [(3040.0, 0.5), (3100.0, 0.0)]


def test_a_job_that_was_requeued_counts_from_its_new_start(job: Job) -> None:
    report(3010.0, 10.0)
    Job.objects.update(started_s=3050.0)
    report(3060.0, 5.0)
    assert shares(job) == [(3010.0, 0.5), (3060.0, 0.25)]


def test_a_job_that_does_not_run_in_berth_has_no_sample(job: Job) -> None:
    Job.objects.update(state="starting")
    report(3010.0, 10.0)
    assert shares(job) == []
    assert SlurmRow.objects.get().cpu_s == 10.0


def test_usage_is_in_the_metrics_and_the_charts_of_the_job(job: Job) -> None:
    report(3010.0, 10.0)
    viewer = factories.user(role=Role.ADMIN)
    client = APIClient()
    secret = create_token(user=viewer, name="test").secret
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {secret}")
    (row,) = client.get(f"/api/v1/jobs/{job.pk}/metrics/").json()["results"]
    assert (row["cpu_share"], row["memory_bytes"], row["progress"]) == (0.5, 2**20, None)
    shown = performance(job)
    assert (list(shown.cpu), list(shown.memory_bytes)) == ([0.5], [2.0**20])
