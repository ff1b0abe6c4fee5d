"""Who finds the preemption on the page of a job."""

import pytest
from django.test import Client

from apps.accounts.core.roles import Role
from apps.accounts.models import Membership
from tests import factories

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("state", "has_button", "has_dialog"),
    [("queued", True, True), ("running", False, True), ("cancelled", False, False)],
)
def test_operators_can_open_the_preview_of_a_waiting_job(
    as_operator: Client, state: str, has_button: bool, has_dialog: bool
) -> None:
    factories.cluster()
    page = as_operator.get(f"/jobs/{factories.job(state=state).id}/").content.decode()
    assert ("data-preempt=" in page, 'id="preempt-job"' in page) == (has_button, has_dialog)


def test_submitters_cannot(client: Client, db: None) -> None:
    factories.cluster()
    job, submitter = factories.job(state="queued"), factories.user("sue", role=Role.SUBMITTER)
    Membership.objects.create(user=submitter, project=job.project, role=Role.SUBMITTER.value)
    client.force_login(submitter)
    page = client.get(f"/jobs/{job.id}/").content.decode()
    assert 'data-job-action="hold"' in page
    assert "preempt" not in page.lower()
