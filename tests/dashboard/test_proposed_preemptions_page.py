"""Proposed preemptions on the Queues page and on the page of the waiting job."""

import pytest
from django.test import Client

from apps.accounts.core.roles import Role
from apps.accounts.models import Membership
from apps.execution.models import PreemptionProposal
from apps.workloads.models import Job
from tests import factories
from tests.factories import MOMENT
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


def test_operators_see_the_proposals_with_the_job_and_a_review(
    as_operator: Client, proposed: Job
) -> None:
    page = as_operator.get("/queues/").content.decode()
    assert "1 proposed" in page
    number = PreemptionProposal.objects.get().pk
    assert f'<a href="/jobs/{proposed.id}/">urgent-1</a>' in page
    review = f'data-proposal="{number}" aria-label="Review the preemption for urgent-1"'
    assert review in page
    assert 'id="review-proposal"' in page
    assert "1,240" in page


def test_the_page_of_the_job_says_what_is_proposed(as_operator: Client, proposed: Job) -> None:
    page = as_operator.get(f"/jobs/{proposed.id}/").content.decode()
    shown = "proposed: 2 jobs would be stopped, 1,240 unit-seconds lost, 1 target missed"
    assert shown in page
    PreemptionProposal.objects.update(state="withdrawn")
    assert shown not in as_operator.get(f"/jobs/{proposed.id}/").content.decode()


def test_decided_proposals_are_listed_with_their_outcome(
    as_operator: Client, proposed: Job
) -> None:
    limit = {"limit": "cooldown", "setting": "S", "message": "low-1 was preempted 5 s ago."}
    PreemptionProposal.objects.update(
        state="applied", decided_at=MOMENT, decided_by="olga", overridden=[limit]
    )
    page = as_operator.get("/queues/").content.decode()
    recent = page.split("Recent proposals")[1]
    assert "<td>applied</td><td>olga</td>" in recent
    assert "Limits overridden: low-1 was preempted 5 s ago." in recent
    assert "data-proposal=" not in page


def test_submitters_see_no_proposals(client: Client, proposed: Job) -> None:
    submitter = factories.user("sue", role=Role.SUBMITTER)
    Membership.objects.create(user=submitter, project=proposed.project, role="submitter")
    client.force_login(submitter)
    page = client.get("/queues/").content.decode()
    assert "Proposed preemptions" not in page
    assert "review-proposal" not in page
    assert "would be stopped" not in client.get(f"/jobs/{proposed.id}/").content.decode()
