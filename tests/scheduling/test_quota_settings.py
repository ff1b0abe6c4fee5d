"""Quotas are set by administrators, and shown with the units that are lent."""

from typing import Any

import pytest
from django.db import IntegrityError, transaction
from django.test import Client

from apps.accounts.core.roles import Role
from apps.accounts.models import AuditEntry, Membership
from apps.inventory.models import Server
from apps.scheduling.selectors.quotas import quota_rows
from apps.scheduling.services.agent import make_agent
from tests import factories
from tests.scheduling.test_quotas import placed, project
from tests.scheduling.world import build, known

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def clock(db: None) -> None:
    factories.cluster(seen_cluster_s=3000.0)


def test_administrators_set_quotas_with_an_audit_entry(client: Client) -> None:
    vision = project("vision")
    client.force_login(factories.user(role=Role.ADMIN))
    url = f"/api/v1/projects/{vision.name}/"

    def patch(**body: Any) -> Any:
        return client.patch(url, body, content_type="application/json")

    row = patch(guaranteed_units=200, max_units=400).json()
    assert (row["guaranteed_units"], row["max_units"]) == (200, 400)
    entry = AuditEntry.objects.latest("id")
    assert entry.action == "project.updated"
    problem = patch(max_units=100)
    assert problem.status_code == 422
    assert "must be at least the 200 guaranteed units, not 100" in problem.content.decode()
    assert patch(guaranteed_units=-1).status_code == 422
    assert patch(guaranteed_units=None, max_units=None).json()["max_units"] is None


def test_nothing_is_lent_while_units_that_nobody_is_guaranteed_suffice() -> None:
    """Web is guaranteed two of eight units: vision borrows the six others first."""
    build("a", "b")
    of, by = known(), make_agent("agent-1")
    vision, web = project("vision"), project("web", 2)
    placed(of, vision, 6, by)
    found = {row.standing.name: row for row in quota_rows(None) or []}
    assert (found["vision"].standing.borrowed, found[web.name].lent) == (6, 0)
    placed(of, vision, 1, by)
    found = {row.standing.name: row for row in quota_rows(None) or []}
    assert found[web.name].lent == 1
    Server.objects.filter(used_cores__lt=4).update(state="draining")
    found = {row.standing.name: row for row in quota_rows(None) or []}
    assert found[web.name].lent == 2


def test_the_database_refuses_a_guarantee_above_the_maximum() -> None:
    with pytest.raises(IntegrityError), transaction.atomic():
        project("vision", 3, 2)


def test_viewers_see_the_quotas_of_their_projects(client: Client) -> None:
    vision, web = project("vision", 2, 9), project("web", 6)
    reader = factories.user(role=Role.VIEWER)
    Membership.objects.create(user=reader, project=vision, role=Role.VIEWER.value)
    client.force_login(reader)
    assert client.get("/api/v1/queues/").json()["quotas"] == [
        {
            "project": "vision",
            "guaranteed_units": 2,
            "max_units": 9,
            "used": 0,
            "borrowed": 0,
            "lent": 0,
            "waiting": 0,
        }
    ]
    shown = client.get("/queues/").content.decode()
    assert "units of projects" in shown
    assert web.name not in shown
