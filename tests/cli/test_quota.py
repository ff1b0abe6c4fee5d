"""The verbs of `berth quota`, and the shares that `berth queue` shows."""

import json
from typing import Any

import pytest

from apps.accounts.core.roles import Role
from apps.accounts.models import ProjectShare, User
from apps.accounts.services import create_user, ensure_project
from apps.scheduling.services.fair_share import update_shares
from controlplane.cli.errors import Exit
from tests import factories
from tests.cli.conftest import Berth


@pytest.fixture
def user(transactional_db: None) -> User:
    ensure_project("vision")
    return create_user(username="ann", password=None, role=Role.ADMIN)


def test_quotas_are_set_listed_and_cleared(berth: Berth) -> None:
    factories.cluster()
    assert berth("quota", "list")[1] == "No project has a quota.\n"
    assert berth("quota", "set", "vision")[0] == Exit.USAGE
    text = berth("quota", "set", "vision", "--units", "200", "--max", "400")[1]
    assert text == "vision: 200 units guaranteed, at most 400\n"
    (row,) = json.loads(berth("quota", "list", "--json")[1])
    assert (row["project"], row["guaranteed_units"], row["max_units"]) == ("vision", 200, 400)
    assert "GUARANTEED" in berth("quota", "list")[1]
    assert berth("quota", "clear", "vision")[1] == "vision has no quota\n"


def test_the_queue_shows_the_shares_of_projects(berth: Berth, settings: Any) -> None:
    factories.cluster()
    job = factories.job(state="queued", project=factories.project("vision"), name="train")
    assert "SHARE" not in berth("queue")[1]
    assert berth("queue", "--shares")[1].startswith("Jobs of equal priority start by age")
    settings.FAIR_SHARE_HALF_LIFE_S = 600.0
    update_shares()
    ProjectShare.objects.filter(project=job.project).update(dominant=0.25)
    heading, row = berth("queue")[1].splitlines()
    assert (heading.split()[-1], row.split()[-1]) == ("SHARE", "25%")
    table = berth("queue", "--shares")[1]
    assert table.split()[:4] == ["POSITION", "PROJECT", "SHARE", "OF"]
    assert "25%" in table
    rows = json.loads(berth("queue", "--shares", "--json")[1])
    assert {row["project"]: row["share"] for row in rows}["vision"] == 0.25
