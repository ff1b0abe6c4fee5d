"""Changes of waiting jobs by the backend that they were submitted to."""

import pytest

from apps.operations.models import Event
from apps.workloads import services
from apps.workloads.core.constraints import Constraints
from apps.workloads.core.lifecycle import JobState
from apps.workloads.core.reasons import Reason
from tests import factories

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def cluster(db: None) -> None:
    """A cluster without servers."""
    factories.cluster()


def test_a_waiting_job_gets_other_constraints_and_is_evaluated_again() -> None:
    job = factories.job(claimed_by="agent-1")
    factories.waiting_shape(job)
    assert services.set_constraints(job.pk, Constraints(labels={"slurm-node": "n3"}))
    job.refresh_from_db()
    assert job.constraints["labels"] == {"slurm-node": "n3"}
    assert (job.claimed_by, job.shape) == ("", None)
    assert Event.objects.filter(kind="job.updated", subject=str(job.pk)).count() == 1


def test_a_started_job_keeps_its_constraints() -> None:
    job = factories.job(state="running")
    assert not services.set_constraints(job.pk, Constraints(labels={"slurm-node": "n3"}))
    job.refresh_from_db()
    assert job.constraints == factories.job().constraints


@pytest.mark.parametrize("state", ["submitted", "profiling", "queued"])
def test_a_waiting_job_that_its_backend_has_run_ends(state: str) -> None:
    job = factories.job(state=state)
    end = services.JobEnd(job.pk, JobState.SUCCEEDED, 99.0, Reason.SUCCEEDED, "", None, 0)
    assert [row[0] for row in services.end_unplaced([end])] == [job.pk]
    job.refresh_from_db()
    assert (job.state, job.exit_code, job.finished_s) == ("succeeded", 0, 99.0)


def test_only_waiting_jobs_end_unplaced_and_only_started_ones_end_otherwise() -> None:
    waits, runs = factories.job(), factories.job(state="running")
    ends = [
        services.JobEnd(job.pk, JobState.FAILED, 99.0, Reason.JOB_FAILED) for job in (waits, runs)
    ]
    assert [row[0] for row in services.end_unplaced(ends[1:])] == []
    assert [row[0] for row in services.end_jobs(ends[:1])] == []


def test_a_job_that_ends_unplaced_leaves_its_shape() -> None:
    job = factories.job()
    factories.waiting_shape(job)
    services.end_unplaced([services.JobEnd(job.pk, JobState.CANCELLED, 99.0, Reason.CANCELLED)])
    job.refresh_from_db()
    assert (job.state, job.shape) == ("cancelled", None)
