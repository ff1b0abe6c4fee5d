"""A submission stores a job as it returns it."""

import pytest

from apps.workloads.core.spec import parse_job
from apps.workloads.models import Job
from apps.workloads.services import Submission, store_jobs, submit_jobs
from tests import factories

pytestmark = pytest.mark.django_db
BY_TRIGGER = {"shape_key", "flow_key"}
BEST_EFFORT = {"kind": "best_effort"}
DETAILED = {
    "name": "nightly",
    "input_bytes": 1 << 30,
    "tasks": 3,
    "units": 2,
    "duration_seconds": 60.0,
    "priority": 7,
    "gang": False,
    "guarantee": {"rank_threshold": 0.9, "probability": 0.01},
    "held": True,
    "constraints": {"platforms": ["a"], "locality": "server"},
    "labels": {"team": "blue"},
    "annotations": {"large": 1 << 70, "text": "\t\\N\n\"'"},
    "unit_memory_bytes": 1 << 20,
}
STORED = {
    "name": "nightly",
    "target": BEST_EFFORT,
    "target_kind": "best_effort",
    "input_bytes": 1 << 30,
    "tasks_total": 3,
    "units_requested": 2,
    "duration_s": 60.0,
    "priority": 7,
    "gang": False,
    "guarantee": {"rank_threshold": 0.9, "probability": 0.01},
    "held": True,
    "reason_code": "Held",
    "labels": {"team": "blue"},
    "annotations": {"large": 1 << 70, "text": "\t\\N\n\"'"},
    "unit_memory_bytes": 1 << 20,
    "correlation_id": "r",
    "state": "submitted",
}


@pytest.mark.parametrize("fields", [{}, DETAILED], ids=["plain", "detailed"])
def test_the_returned_job_is_the_stored_one(fields: dict[str, object]) -> None:
    factories.cluster()
    spec = parse_job({"application": "sort", "target": BEST_EFFORT, **fields})
    (job,) = submit_jobs(
        [spec], project=factories.project(), user=factories.user(), correlation_id="r"
    )
    stored = Job.objects.get(pk=job.pk)
    for field in Job._meta.concrete_fields:
        if field.attname not in BY_TRIGGER:
            assert getattr(job, field.attname) == getattr(stored, field.attname), field.name
    assert job.application == stored.application


def test_the_fields_of_a_submission_are_stored() -> None:
    factories.cluster()
    spec = parse_job({"application": "sort", "target": BEST_EFFORT, **DETAILED})
    store_jobs([spec], Submission(factories.project(), factories.user(), "r"))
    job = Job.objects.get()
    assert {name: getattr(job, name) for name in STORED} == STORED
    assert job.constraints["platforms"] == ["a"]
    assert job.constraints["locality"] == "server"


def test_jobs_of_one_request_are_told_apart_by_a_number() -> None:
    factories.cluster()
    spec = parse_job({"application": "sort", "target": BEST_EFFORT})
    jobs = store_jobs([spec] * 3, Submission(factories.project(), factories.user(), "r"))
    assert [job.correlation_id for job in jobs] == ["r.0", "r.1", "r.2"]
    rows = Job.objects.in_bulk([job.id for job in jobs])
    for job in jobs:
        row = rows[job.id]
        assert (row.name, row.project_id, row.correlation_id) == job[1:4]
