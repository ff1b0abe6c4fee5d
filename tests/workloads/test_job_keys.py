"""The keys of a request follow every change of it, and updates do not pay for them."""

from typing import Any
from uuid import UUID

import pytest
from django.db import connection

from apps.workloads.core.shapes import AGE_SHARE, MIN_AGE_S
from apps.workloads.core.spec import parse_job
from apps.workloads.models import Job
from apps.workloads.services import submit_jobs
from tests import factories

pytestmark = pytest.mark.django_db


def keys(job: Job) -> tuple[UUID, UUID]:
    return Job.objects.values_list("shape_key", "flow_key").get(pk=job.pk)


def test_a_new_job_has_its_keys_at_once() -> None:
    job = factories.job()
    assert (job.shape_key, job.flow_key) == keys(job)
    assert UUID(int=0) not in keys(job)


def test_jobs_of_one_request_have_the_keys_of_a_job_submitted_alone() -> None:
    factories.cluster()
    user, project = factories.user(), factories.project()
    spec = parse_job({"application": "sort", "target": {"kind": "best_effort"}})
    many = submit_jobs([spec, spec], project=project, user=user, correlation_id="r")
    (alone,) = submit_jobs([spec], project=project, user=user, correlation_id="s")
    assert {keys(job) for job in many} == {keys(alone)}
    assert UUID(int=0) not in keys(alone)


@pytest.mark.parametrize(
    ("change", "is_new_flow"),
    [
        ({"priority": 3}, False),
        ({"unit_memory_bytes": 1 << 30}, True),
        ({"backend": "slurm"}, False),
    ],
)
def test_keys_follow_a_change_of_the_request(change: dict[str, Any], is_new_flow: bool) -> None:
    job = factories.job()
    shape, flow = keys(job)
    Job.objects.filter(pk=job.pk).update(**change)
    assert keys(job)[0] != shape
    assert (keys(job)[1] != flow) is is_new_flow


def test_a_saved_job_keeps_keys_that_belong_to_its_request() -> None:
    job = factories.job()
    before = keys(job)
    job.shape_key = job.flow_key = UUID(int=7)
    job.save()
    assert keys(job) == before


def test_a_change_of_the_state_does_not_change_the_keys() -> None:
    job = factories.job(state="queued")
    before = keys(job)
    Job.objects.filter(pk=job.pk).update(state="starting")
    assert keys(job) == before


def test_the_age_of_a_shape_is_that_of_the_rules() -> None:
    target = {"kind": "completion_time", "seconds": 10_000.0}
    step_s = AGE_SHARE * 10_000.0
    assert step_s > MIN_AGE_S
    owner, about = factories.user(), factories.application()
    first, same, later = (
        factories.job(target=target, submitted_s=at_s, application=about, created_by=owner)
        for at_s in (0.0, step_s - 1.0, step_s)
    )
    assert first.shape_key == same.shape_key != later.shape_key


def test_jobs_have_no_generated_column() -> None:
    # PostgreSQL 18 reads the text of its expression again for each row of an update
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT attname FROM pg_attribute"
            " WHERE attrelid = 'workloads_job'::regclass AND attgenerated <> ''"
        )
        assert cursor.fetchall() == []
