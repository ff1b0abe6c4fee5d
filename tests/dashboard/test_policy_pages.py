"""The page of policies."""

import pytest
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from apps.accounts.core.roles import Role
from apps.accounts.models import User
from apps.inventory.selectors import applied_policy
from apps.scheduling.core import registry
from apps.scheduling.core.registry import POLICIES, Entry
from apps.scheduling.services.default_policy import apply_policy
from apps.testbed.core.accelerators.registry import ROUND_POLICIES
from apps.testbed.core.replay.queueing.registry import TESTBED_POLICIES
from tests import factories

pytestmark = pytest.mark.django_db


@pytest.fixture
def as_admin(client: Client) -> Client:
    client.force_login(factories.user("ada", role=Role.ADMIN))
    return client


def shown(client: Client, query: str = "", page: str = "policies") -> str:
    response = client.get(reverse(page) + query)
    assert response.status_code == 200
    return response.content.decode()


def test_every_policy_is_listed_with_its_parameters(as_viewer: Client) -> None:
    text = shown(as_viewer)
    assert [f'id="policy-{name}"' in text for name in POLICIES] == [True] * len(POLICIES)
    assert f"{len(POLICIES)} policies that jobs may name" in text
    assert "weight of the loss of the neighbours; 0 to 10" in text
    assert "number of the share that is preferred" not in text  # the agent sets it


def test_policies_of_replays_are_listed_apart(as_viewer: Client) -> None:
    agents, replays = shown(as_viewer).split("of replays only</h2>")
    for name in (*TESTBED_POLICIES, *ROUND_POLICIES):
        assert f"<td>{name}</td>" in replays
        assert f"policy-{name}" not in agents


def test_the_policy_in_use_is_the_setting_until_one_is_applied(
    as_admin: Client, settings: Settings
) -> None:
    settings.DEFAULT_POLICY = "tarcil"
    assert "<b>tarcil</b> decides on jobs" in shown(as_admin)
    assert "It is the setting" in shown(as_admin)
    apply_policy("quasar", reason="fewer units", by=User.objects.get(username="ada"))
    text = shown(as_admin)
    assert "<b>quasar</b> decides on jobs" in text
    assert "ada applied it" in text
    assert "fewer units" in text
    assert "Use the setting again" in text


def test_administrators_apply_other_policies_than_the_one_in_use(as_admin: Client) -> None:
    text = shown(as_admin)
    assert 'data-apply="tarcil"' in text
    assert 'data-apply="expected"' not in text
    generation = applied_policy().generation
    assert f'data-generation="{generation}"' in text


@pytest.mark.parametrize(("role", "links"), [("as_viewer", False), ("as_operator", True)])
def test_only_operators_are_offered_comparisons_and_shadows(
    role: str, links: bool, request: pytest.FixtureRequest
) -> None:
    text = shown(request.getfixturevalue(role))
    assert ("/shadows/?policy=tarcil" in text) is links
    assert ("policy=expected&amp;policy=tarcil" in text) is links
    assert "data-apply" not in text


def test_a_policy_whose_package_fails_is_marked_and_cannot_be_applied(
    as_admin: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> None:
        raise RuntimeError("no model file")

    monkeypatch.setitem(registry.POLICIES, "broken", Entry(broken, "a package", "its model"))  # type: ignore[arg-type]
    text = shown(as_admin)
    row = text.split('id="policy-broken"')[1].split("</tr>")[0]
    assert "fails" in row
    assert "data-apply" not in row


def test_the_shadow_page_chooses_the_policy_of_its_address(as_operator: Client) -> None:
    text = shown(as_operator, "?policy=tarcil", "shadows")
    assert '<option value="tarcil" selected>' in text
    assert '<option value="random" selected>' in shown(as_operator, page="shadows")
