"""POST /decisions/{id}/replay/."""

import pytest
from rest_framework.test import APIClient

from apps.accounts.core.roles import Role
from apps.accounts.models import Membership
from apps.scheduling.models import Decision, DecisionBatch
from apps.scheduling.services.agent import make_agent
from apps.workloads.models import Job
from tests import factories
from tests.scheduling.world import build, known, waiting, work

pytestmark = pytest.mark.django_db


@pytest.fixture
def decided() -> Decision:
    factories.cluster(seen_cluster_s=3000.0)
    build(*"abcd")
    application = known()
    jobs = [
        waiting(application, units_requested=1, target={"kind": "best_effort"}) for _ in range(3)
    ]
    work(make_agent("agent-1"))
    return Decision.objects.get(job=jobs[2])


def client_of(role: Role) -> APIClient:
    client = APIClient()
    client.force_login(factories.user(role=role))
    return client


def test_a_replay_says_that_every_field_is_identical(decided: Decision) -> None:
    response = client_of(Role.OPERATOR).post(f"/api/v1/decisions/{decided.pk}/replay/")
    assert response.status_code == 200
    body = response.json()
    assert body.pop("changes") >= 0
    assert body == {
        "decision": str(decided.pk),
        "verdict": "identical",
        "detail": "",
        "differences": [],
        "changed": [],
        "jobs": 3,
        "position": 2,
        "checkpoint": 0,
    }


def test_a_replay_writes_nothing_and_names_no_other_job(decided: Decision) -> None:
    Decision.objects.filter(pk=decided.pk).update(eligible=1)
    counts = [model.objects.count() for model in (Decision, DecisionBatch, Job)]
    response = client_of(Role.OPERATOR).post(f"/api/v1/decisions/{decided.pk}/replay/")
    others = Job.objects.exclude(pk=decided.job_id)
    assert response.json()["differences"] == [{"field": "eligible", "stored": 1, "now": 14}]
    assert not [job for job in others if str(job.pk) in response.content.decode()]
    assert [model.objects.count() for model in (Decision, DecisionBatch, Job)] == counts


def test_a_viewer_of_the_project_may_replay_and_others_do_not_find_it(decided: Decision) -> None:
    reader = factories.user(role=Role.VIEWER)
    Membership.objects.create(user=reader, project=decided.job.project)
    client = APIClient()
    client.force_login(reader)
    address = f"/api/v1/decisions/{decided.pk}/replay/"
    assert client.post(address).status_code == 200
    assert client_of(Role.VIEWER).post(address).status_code == 404
