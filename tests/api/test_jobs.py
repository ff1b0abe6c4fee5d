"""Submitting, listing, changing and ending jobs over REST."""

import pytest
from rest_framework.test import APIClient

from apps.workloads.models import Job

JOB = {
    "metadata": {"name": "nightly", "labels": {"team": "ml"}},
    "spec": {
        "application": "hadoop-17",
        "target": {"kind": "completion_time", "seconds": 600},
        "input_bytes": 1 << 30,
        "tasks": 8,
    },
}


def test_a_submitted_job_is_answered_with_its_representation(api: APIClient) -> None:
    response = api.post("/api/v1/jobs/", JOB)
    assert response.status_code == 201, response.content
    body = response.json()
    assert body["spec"]["target"] == {"kind": "completion_time", "seconds": 600.0}
    assert body["status"]["state"] == "submitted"
    assert response["Location"] == f"/api/v1/jobs/{body['metadata']['id']}/"
    print(body)
