"""Account, users, projects and the audit log."""

import pytest
from django.test import Client
from django.urls import reverse

from apps.accounts.core.roles import Role
from apps.accounts.models import User
from apps.accounts.services import (
    create_token,
    join_project,
    update_project,
    update_user,
    verify_password,
)
from apps.dashboard.core.audit_text import FieldChange, action_text, changes, object_url
from apps.dashboard.selectors.administration import jobs_by_project
from apps.workloads.models import Job
from tests import factories

pytestmark = pytest.mark.django_db


@pytest.fixture
def ada() -> User:
    return factories.user("ada", role=Role.ADMIN)


@pytest.fixture
def root(client: Client, ada: User) -> Client:
    client.force_login(ada)
    return client


def content(client: Client, name: str, *key: str, query: str = "") -> str:
    response = client.get(reverse(name, args=key) + query)
    assert response.status_code == 200
    return response.content.decode()


@pytest.mark.parametrize("name", ["users", "projects", "audit", "account"])
def test_pages_of_administrators_open_on_an_empty_database(root: Client, name: str) -> None:
    assert "Berth" in content(root, name)


@pytest.mark.parametrize("url", ["/users/", "/users/olga/", "/audit/"])
def test_operators_do_not_administer(as_operator: Client, url: str) -> None:
    assert as_operator.get(url).status_code == 403


@pytest.fixture
def operator_client() -> Client:
    factories.cluster()
    client = Client()
    client.force_login(factories.user("oscar", role=Role.OPERATOR))
    return client


def test_the_navigation_shows_administration_to_administrators_only(
    root: Client, operator_client: Client
) -> None:
    assert 'href="/users/"' in content(root, "overview")
    assert 'href="/users/"' not in content(operator_client, "overview")


def test_users_are_listed_with_their_state(root: Client, ada: User) -> None:
    factories.user("new", must_change_password=True)
    gone = factories.user("gone")
    update_user(gone.pk, is_active=False, by=ada.pk)
    page = content(root, "users")
    assert "one-time password" in page
    assert "deactivated" in page
    assert "gone" not in content(root, "users", query="?q=new").split("user-list")[1]


def test_a_blocked_sign_in_can_be_unblocked_from_the_page(root: Client) -> None:
    factories.user("olga")
    for _ in range(6):
        verify_password("olga", "wrong", address="192.0.2.1")
    page = content(root, "users")
    assert "Sign-ins of olga are blocked" in page
    assert 'aria-label="Unblock olga"' in page


def test_a_user_has_a_page_with_projects_and_tokens(root: Client) -> None:
    olga = factories.user("olga")
    join_project(user=olga, project=factories.project("night"))
    create_token(user=olga, name="laptop")
    page = content(root, "user", "olga")
    assert "Remove from night" in page
    assert "Revoke token laptop" in page
    assert root.get("/users/nobody/").status_code == 404


def test_administrators_cannot_deactivate_themselves_from_the_page(root: Client) -> None:
    assert ">Deactivate<" not in content(root, "user", "ada")


def test_a_project_shows_its_members(root: Client, operator_client: Client) -> None:
    night = factories.project("night")
    join_project(user=factories.user("ned"), project=night, role=Role.VIEWER)
    assert "Role of ned" in content(root, "project", "night")
    assert "Role of ned" not in content(operator_client, "project", "night")
    assert "ned" in content(operator_client, "project", "night")


def test_projects_of_others_do_not_exist(client: Client) -> None:
    factories.project("night")
    client.force_login(factories.user("vic", role=Role.VIEWER))
    assert client.get("/projects/night/").status_code == 404
    assert "night" not in content(client, "projects")


def test_the_active_jobs_of_visible_projects_are_drawn(ada: User) -> None:
    mine, other = factories.project("mine"), factories.project("other")
    for state in ("running", "queued", "succeeded"):
        factories.job(project=mine, state=state)
    factories.job(project=other, state="running")
    drawn = jobs_by_project(Job.objects.filter(project=mine))
    assert (list(drawn.names), dict(drawn.series)) == (
        ["mine"],
        {"Running": (1,), "Waiting": [1]},
    )
    assert drawn.heading == "1 job running, 1 waiting"


def test_labels_of_any_name_are_listed(root: Client) -> None:
    night = factories.project("night")
    update_project(night.pk, {"labels": {"items": "x", "a": "<b>"}})
    assert "a=&lt;b&gt;, items=x" in content(root, "projects")


def test_an_archived_project_says_so(root: Client) -> None:
    night = factories.project("night")
    update_project(night.pk, {"is_archived": True})
    assert "accepts no jobs since" in content(root, "project", "night")


def test_the_audit_log_shows_changes_and_exports_its_filters(root: Client) -> None:
    night = factories.project("night")
    update_project(night.pk, {"name": "day"})
    page = content(root, "audit", query="?kind=project&name=night")
    assert "project updated" in page
    assert "night → day" in page
    assert "as=csv&amp;object_kind=project&amp;object_name=night" in page
    assert "No action matches" in content(root, "audit", query="?kind=plan")


def test_days_of_the_audit_log_include_both_ends(root: Client) -> None:
    update_project(factories.project("night").pk, {"name": "day"})
    page = content(root, "audit", query="?since=2020-01-01&until=2020-01-02")
    assert "No action matches" in page
    assert "at__lt=2020-01-03T00%3A00%3A00%2B00%3A00" in page
    assert "project updated" in content(root, "audit", query="?since=2020-01-01&until=nonsense")


def test_changes_name_only_what_differs() -> None:
    before, after = {"a": 1, "b": "x", "c": [1]}, {"a": 1, "b": "y", "d": None}
    assert changes(before, after) == [
        FieldChange("b", "x", "y"),
        FieldChange("c", "[1]", ""),
        FieldChange("d", "", "null"),
    ]
    assert changes(None, None) == []


def test_actions_are_words_and_objects_have_pages() -> None:
    assert action_text("server.state_changed") == "server state changed"
    assert object_url("server", "srv-1") == "/servers/srv-1/"
    assert object_url("plan", "p-0001") == ""


def test_a_refused_page_is_one_line_of_the_log(
    operator_client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    assert operator_client.get("/users/").status_code == 403
    (record,) = [each for each in caplog.records if each.name == "django.request"]
    assert record.getMessage() == "Forbidden (Permission denied): /users/"
    assert record.exc_info is None
