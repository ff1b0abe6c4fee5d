"""Proposed preemptions on the Queues page and on the page of the waiting job."""

import pytest
from django.test import Client

from apps.accounts.core.roles import Role
from apps.accounts.models import Membership
from apps.execution.models import PreemptionProposal
from apps.workloads.models import Job
from tests import factories
from tests.scheduling.shapes import shaped

pytestmark = pytest.mark.django_db


@pytest.fixture
def proposed() -> Job:
    """A waiting job with a proposal of two victims."""
    factories.cluster()
    job = shaped(name="urgent-1", units_requested=2, priority=7)
    PreemptionProposal.objects.create(
        job_id=job.id, is_automatic=False, cluster_s=7200.0, basis="", victims=2, lost=1240,
        broken=1, preview=[],
    )  # fmt: skip
    return job


def test_operators_see_the_proposals_with_a_link_to_the_job(
    as_operator: Client, proposed: Job
) -> None:
    page = as_operator.get("/queues/").content.decode()
    assert "1 proposed" in page
    assert f'href="/jobs/{proposed.id}/" aria-label="Review the preemption for urgent-1"' in page
    assert "1,240" in page


def test_the_page_of_the_job_says_what_is_proposed(as_operator: Client, proposed: Job) -> None:
    page = as_operator.get(f"/jobs/{proposed.id}/").content.decode()
    shown = "proposed: 2 jobs would be stopped, 1,240 unit-seconds lost, 1 target missed"
    assert shown in page
    PreemptionProposal.objects.update(state="withdrawn")
    assert shown not in as_operator.get(f"/jobs/{proposed.id}/").content.decode()


def test_submitters_see_no_proposals(client: Client, proposed: Job) -> None:
    submitter = factories.user("sue", role=Role.SUBMITTER)
    Membership.objects.create(user=submitter, project=proposed.project, role="submitter")
    client.force_login(submitter)
    assert "Proposed preemptions" not in client.get("/queues/").content.decode()
    assert "would be stopped" not in client.get(f"/jobs/{proposed.id}/").content.decode()
