"""What follows from the Lab: an applied policy, and weights of Calibrate as a setting."""

from collections.abc import Iterator
from contextlib import closing

import pytest
from playwright.sync_api import Browser, BrowserContext, expect

from apps.accounts.core.roles import Role
from apps.accounts.models import AuditEntry, User
from apps.placement.models import PreferenceSet
from apps.scheduling.core.registry import DEFAULT
from apps.scheduling.selectors.default_policy import policy_in_use
from apps.scheduling.services.default_policy import apply_policy
from apps.testbed.models import LabComparison
from tests import factories
from tests.browser.chromium import signed_in
from tests.browser.conftest import Site, Visitor, visitor_of
from tests.browser.world import PASSWORD
from tests.placement.front_world import preference_set
from tests.testbed import lab_world


@pytest.fixture(scope="module")
def winning(site: Site) -> Iterator[str]:
    """Return the page of a comparison in which tarcil beats random, which is in use."""
    apply_policy("random", reason="before the tests", by=None)
    yield f"/lab/{lab_world.finished().pk}/"
    apply_policy("", reason="end of the tests", by=None)


@pytest.fixture(scope="module")
def administrator(chromium: Browser, site: Site) -> Iterator[BrowserContext]:
    factories.user("boss", role=Role.ADMIN, password=PASSWORD)
    with closing(signed_in(chromium, site.url, name="boss", password=PASSWORD)) as context:
        yield context


def test_the_winner_of_a_comparison_is_applied_with_a_reason(
    administrator: BrowserContext, site: Site, winning: str
) -> None:
    visitor = visitor_of(administrator, site)
    page = visitor.visit(winning)
    page.get_by_role("button", name="Apply policy…").click()
    dialog = page.locator("#lab-apply")
    expect(dialog).to_contain_text("Agents decide by tarcil instead of random")
    assert visitor.serious_findings() == []
    dialog.get_by_label("Reason").fill("")
    dialog.get_by_role("button", name="Apply", exact=True).click()
    expect(dialog.get_by_role("alert")).to_be_visible()
    dialog.get_by_label("Reason").fill("won in the Lab")
    dialog.get_by_role("button", name="Apply", exact=True).click()
    expect(page.locator("#toasts")).to_contain_text("tarcil is the policy of the cluster.")
    expect(page.get_by_role("button", name="Apply policy…")).to_have_count(0)
    assert policy_in_use() == "tarcil"
    assert AuditEntry.objects.latest("id").message == "won in the Lab"
    shown = visitor.visit("/system/").locator("#policy-in-use")
    expect(shown).to_contain_text("applied by boss")
    page.close()


def test_a_policy_that_somebody_else_has_changed_is_not_applied(
    administrator: BrowserContext, site: Site, winning: str
) -> None:
    apply_policy("random", reason="before the test", by=None)
    visitor = visitor_of(administrator, site)
    page = visitor.visit(winning)
    apply_policy("random", reason="meanwhile, for another reason", by=None)
    page.get_by_role("button", name="Apply policy…").click()
    dialog = page.locator("#lab-apply")
    dialog.get_by_role("button", name="Apply", exact=True).click()
    expect(dialog.get_by_role("alert")).to_be_visible()
    assert policy_in_use() == "random"
    page.close()


@pytest.fixture
def saved_weights(site: Site) -> Iterator[PreferenceSet]:
    apply_policy("", reason="the setting decides", by=None)
    made = preference_set(User.objects.get(username="ops-admin"), "quiet nights")
    yield made
    PreferenceSet.objects.filter(pk=made.pk).delete()


def test_weights_of_calibrate_become_a_setting(
    visitor: Visitor, saved_weights: PreferenceSet
) -> None:
    scenario = lab_world.comparison().scenario
    page = visitor.visit(f"/lab/?scenario={scenario.pk}&weights=quiet+nights")
    assert visitor.serious_findings() == []
    page.get_by_label("Add a bound").uncheck()
    page.get_by_role("button", name="Start").click()
    page.wait_for_url("**/lab/*/")
    made = LabComparison.objects.latest("created_at")
    assert {each["name"]: each["options"] for each in made.grid} == {
        DEFAULT: {"policy": DEFAULT},
        f"{DEFAULT}, weights quiet nights": {
            "policy": DEFAULT,
            "weights": {"P": 1.0, "D": 1.0, "C": 1.0},
        },
    }
