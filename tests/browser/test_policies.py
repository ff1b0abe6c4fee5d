"""The page of policies: an administrator applies one, and goes back to the setting."""

from collections.abc import Iterator
from contextlib import closing

import pytest
from playwright.sync_api import Browser, BrowserContext, expect

from apps.accounts.core.roles import Role
from apps.accounts.models import AuditEntry
from apps.scheduling.core.registry import DEFAULT
from apps.scheduling.selectors.default_policy import policy_in_use
from apps.scheduling.services.default_policy import apply_policy
from tests import factories
from tests.browser.chromium import signed_in
from tests.browser.conftest import Site, visitor_of
from tests.browser.world import PASSWORD


@pytest.fixture(scope="module")
def administrator(chromium: Browser, site: Site) -> Iterator[BrowserContext]:
    factories.user("chief", role=Role.ADMIN, password=PASSWORD)
    with closing(signed_in(chromium, site.url, name="chief", password=PASSWORD)) as context:
        yield context
    apply_policy("", reason="end of the tests", by=None)


def test_a_policy_is_applied_with_a_reason_and_the_setting_is_used_again(
    administrator: BrowserContext, site: Site
) -> None:
    apply_policy("", reason="before the test", by=None)
    visitor = visitor_of(administrator, site)
    page = visitor.visit("/policies/")
    page.locator("#policy-tarcil").get_by_role("button", name="Apply…").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Agents decide by tarcil from their next turn on")
    assert visitor.serious_findings() == []
    dialog.get_by_role("button", name="Apply", exact=True).click()
    expect(dialog.get_by_role("alert")).to_be_visible()
    dialog.get_by_label("Reason").fill("short jobs first")
    dialog.get_by_role("button", name="Apply", exact=True).click()
    expect(page.locator("#toasts")).to_contain_text("tarcil is the policy of the cluster.")
    expect(page.locator("#policy-lead")).to_contain_text("chief applied it")
    expect(page.locator("#policy-tarcil")).to_contain_text("in use")
    assert (policy_in_use(), AuditEntry.objects.latest("id").message) == (
        *("tarcil", "short jobs first"),
    )
    page.get_by_role("button", name="Use the setting again…").click()
    expect(dialog).to_contain_text(f"Apply {DEFAULT} to the cluster?")
    dialog.get_by_label("Reason").fill("back")
    dialog.get_by_role("button", name="Apply", exact=True).click()
    expect(page.locator("#policy-lead")).to_contain_text("It is the setting BERTH_POLICY")
    assert policy_in_use() == DEFAULT
    page.close()


def test_a_policy_that_somebody_else_has_changed_is_not_applied(
    administrator: BrowserContext, site: Site
) -> None:
    apply_policy("", reason="before the test", by=None)
    page = visitor_of(administrator, site).visit("/policies/")
    apply_policy("random", reason="meanwhile", by=None)
    page.locator("#policy-tarcil").get_by_role("button", name="Apply…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Reason").fill("short jobs first")
    dialog.get_by_role("button", name="Apply", exact=True).click()
    expect(dialog.get_by_role("alert")).to_be_visible()
    assert policy_in_use() == "random"
    page.close()
