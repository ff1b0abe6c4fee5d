"""The verbs of `berth quota`."""

import json

import pytest

from apps.accounts.core.roles import Role
from apps.accounts.models import User
from apps.accounts.services import create_user, ensure_project
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
