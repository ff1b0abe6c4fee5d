"""Account, users, projects and the audit log in a browser."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from apps.accounts.core.roles import Role
from apps.accounts.core.sign_in import Subject, account_key
from apps.accounts.models import Membership, Project, SignInFailures, Token, User
from apps.accounts.services import add_user, create_token, verify_password
from tests import factories
from tests.browser.chromium import PHONE, signed_in
from tests.browser.conftest import Site, Visitor, visitor_of
from tests.browser.world import PASSWORD

PATHS = {
    "account": "/account/",
    "users": "/users/",
    "user": "/users/looker/",
    "projects": "/projects/",
    "project": "/projects/web-store/",
    "audit": "/audit/",
    "audit-none": "/audit/?kind=plan&name=nothing",
}


@pytest.fixture(scope="module")
def root(site: Site) -> User:
    """An administrator, a blocked sign-in and some tokens."""
    ada = factories.user("ada", role=Role.ADMIN, password=PASSWORD)
    create_token(user=User.objects.get(username="looker"), name="laptop", role=Role.VIEWER)
    for _ in range(6):
        verify_password("looker", "wrong", address="192.0.2.1")
    return ada


def admin_visitor(chromium: Browser, site: Site, **options: Any) -> Iterator[Visitor]:
    context = signed_in(chromium, site.url, name="ada", password=PASSWORD, **options)
    with closing(context):
        yield visitor_of(context, site)


@pytest.fixture(scope="module")
def admin(chromium: Browser, site: Site, root: User) -> Iterator[Visitor]:
    yield from admin_visitor(chromium, site)


@pytest.fixture(scope="module")
def admin_at_night(chromium: Browser, site: Site, root: User) -> Iterator[Visitor]:
    yield from admin_visitor(chromium, site, theme="dark")


@pytest.fixture(scope="module")
def admin_on_phone(chromium: Browser, site: Site, root: User) -> Iterator[Visitor]:
    yield from admin_visitor(chromium, site, size=PHONE)


@pytest.mark.parametrize("name", PATHS)
def test_a_page_has_no_errors_and_no_serious_findings(admin: Visitor, name: str) -> None:
    admin.visit(PATHS[name])
    assert admin.serious_findings() == []
    assert admin.errors == []


@pytest.mark.parametrize("name", PATHS)
def test_a_page_passes_in_the_dark(admin_at_night: Visitor, name: str) -> None:
    admin_at_night.visit(PATHS[name])
    assert admin_at_night.serious_findings() == []
    assert admin_at_night.errors == []


@pytest.mark.parametrize("name", PATHS)
def test_a_phone_shows_the_page_without_scrolling_sideways(
    admin_on_phone: Visitor, name: str
) -> None:
    page = admin_on_phone.visit(PATHS[name])
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    assert admin_on_phone.serious_findings() == []
    assert admin_on_phone.errors == []


def new_page(chromium: Browser, site: Site) -> tuple[BrowserContext, Page]:
    context = chromium.new_context()
    return context, visitor_of(context, site).page


def test_a_new_user_signs_in_once_and_chooses_a_password(
    admin: Visitor, chromium: Browser, site: Site
) -> None:
    page = admin.visit("/users/")
    page.get_by_role("button", name="New user").press("Enter")
    dialog = page.get_by_role("dialog", name="New user")
    dialog.get_by_label("User name").fill("newcomer")
    assert admin.serious_findings() == []
    dialog.get_by_role("button", name="Create").press("Enter")
    shown = page.get_by_role("dialog", name="Copy it now")
    password = shown.locator("#adm-one_time_password").inner_text()
    assert admin.serious_findings() == []
    shown.get_by_role("button", name="Done").click()
    expect(page.locator("#user-list")).to_contain_text("newcomer")
    context, other = new_page(chromium, site)
    with closing(context):
        other.goto(f"{site.url}/login/")
        other.fill("#id_username", "newcomer")
        other.fill("#id_password", password)
        other.keyboard.press("Enter")
        expect(other.get_by_role("heading", name="Choose a password")).to_be_visible()
        other.fill("#new-password", "sufficiently-long-1")
        other.fill("#repeat-password", "sufficiently-long-2")
        other.get_by_role("button", name="Set password").click()
        expect(other.get_by_role("alert")).to_have_text("The two passwords differ.")
        other.fill("#repeat-password", "sufficiently-long-1")
        other.get_by_role("button", name="Set password").click()
        other.wait_for_url(f"{site.url}/")
    assert not User.objects.get(username="newcomer").must_change_password


def test_the_page_to_choose_a_password_passes(chromium: Browser, site: Site) -> None:
    password = add_user(username="fresh", role=Role.VIEWER).password or ""
    context = chromium.new_context()
    visitor = visitor_of(context, site)
    with closing(context):
        page = visitor.visit("/login/")
        page.fill("#id_username", "fresh")
        page.fill("#id_password", password)
        page.keyboard.press("Enter")
        page.wait_for_url(f"{site.url}/account/password/")
        assert visitor.serious_findings() == []
        page.fill("#new-password", "short")
        page.fill("#repeat-password", "short")
        page.get_by_role("button", name="Set password").click()
        expect(page.locator("#new-password-error")).to_contain_text("too short")
        assert visitor.serious_findings() == []


def fail_often(name: str) -> None:
    """Add an account whose next failure blocks it for 15 minutes, longer than a page takes."""
    factories.user(name, password=PASSWORD)
    verify_password(name, "wrong", address="192.0.2.77")
    account = SignInFailures.objects.filter(subject=Subject.ACCOUNT, key=account_key(name))
    assert account.update(failures=20) == 1


def test_too_many_failures_are_explained(chromium: Browser, site: Site) -> None:
    fail_often("clumsy")
    context, page = new_page(chromium, site)
    with closing(context):
        for _ in range(2):
            page.goto(f"{site.url}/login/")
            page.fill("#id_username", "clumsy")
            page.fill("#id_password", "wrong")
            with page.expect_response(lambda response: response.request.method == "POST"):
                page.click("button[type=submit]")
        expect(page.get_by_role("alert")).to_contain_text("Too many failed attempts")
        expect(page.get_by_role("alert")).to_contain_text("Try again in")


def test_a_user_is_unblocked(admin: Visitor) -> None:
    fail_often("stuck")
    verify_password("stuck", "wrong", address="192.0.2.77")
    page = admin.visit("/users/")
    page.get_by_role("button", name="Unblock stuck").press("Enter")
    expect(page.get_by_role("button", name="Unblock stuck")).to_have_count(0)


def test_a_token_is_created_shown_once_and_revoked(admin: Visitor) -> None:
    page = admin.visit("/account/")
    page.get_by_role("button", name="New token").click()
    dialog = page.get_by_role("dialog", name="New token")
    dialog.get_by_label("Name").fill("ci")
    dialog.get_by_label("Role limit").select_option("viewer")
    dialog.get_by_role("button", name="Create").click()
    shown = page.get_by_role("dialog", name="Copy it now")
    expect(shown.locator("#adm-token")).to_contain_text("berth_")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Revoke token ci").press("Enter")
    confirm = page.get_by_role("dialog", name="Revoke?")
    expect(confirm).to_contain_text("Programs that use it are refused immediately.")
    assert admin.serious_findings() == []
    confirm.get_by_role("button", name="Revoke").press("Enter")
    expect(page.get_by_role("button", name="Revoke token ci")).to_have_count(0)
    token = Token.objects.get(name="ci")
    assert (token.role, token.revoked_at is None) == ("viewer", False)
    assert token.expires_at is not None


def test_a_wrong_field_is_named_at_the_field(admin: Visitor) -> None:
    page = admin.visit("/projects/")
    page.get_by_role("button", name="New project").click()
    page.get_by_label("Name", exact=True).fill("not a name")
    page.get_by_role("button", name="Create").click()
    expect(page.locator("#project-name-error")).to_be_visible()
    expect(page.locator("#project-name")).to_be_focused()


def test_saving_a_project_keeps_the_quota_that_was_set_meanwhile(admin: Visitor) -> None:
    quay = factories.project("quay")
    page = admin.visit("/projects/quay/")
    Project.objects.filter(pk=quay.pk).update(guaranteed_units=50, max_units=80)
    page.get_by_label("Description").fill("the quay")
    page.get_by_label("Max units").fill("90")
    page.get_by_role("checkbox", name="Service accounts must send an Idempotency-Key").check()
    page.get_by_role("button", name="Save").click()
    expect(page.locator("#project-lead")).to_contain_text("the quay")
    quay.refresh_from_db()
    assert (quay.guaranteed_units, quay.max_units) == (50, 90)
    assert not quay.key_optional
    page.get_by_label("Max units").fill("")
    page.get_by_role("button", name="Save").click()
    page.wait_for_load_state("networkidle")
    quay.refresh_from_db()
    assert (quay.guaranteed_units, quay.max_units) == (50, None)


def test_a_project_is_created_labelled_staffed_and_archived(admin: Visitor) -> None:
    page = admin.visit("/projects/")
    page.get_by_role("button", name="New project").click()
    page.get_by_label("Name", exact=True).fill("night")
    page.get_by_role("button", name="Create").click()
    page.wait_for_url("**/projects/night/")
    page.get_by_label("Labels, one NAME=VALUE a line").fill("team=search\nsite = north\n")
    page.get_by_role("button", name="Save").click()
    page.wait_for_load_state("networkidle")
    expect(page.locator("#project-labels")).to_have_value("site=north\nteam=search")
    page.get_by_label("Add a user").fill("looker")
    page.get_by_role("button", name="Add", exact=True).click()
    role = page.get_by_label("Role of looker")
    expect(role).to_have_value("submitter")
    role.select_option("viewer")
    expect(page.get_by_text("Role of looker changed.")).to_be_visible()
    page.get_by_role("button", name="Archive").click()
    page.get_by_role("dialog").get_by_role("button", name="Archive").click()
    expect(page.locator("#project-lead")).to_contain_text("accepts no jobs since")
    night = Project.objects.get(name="night")
    assert night.labels == {"team": "search", "site": "north"}
    assert Membership.objects.get(project=night).role == "viewer"
