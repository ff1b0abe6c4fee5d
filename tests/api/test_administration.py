"""Users, projects, memberships and tokens, as administrators change them."""

from typing import Any
from uuid import UUID

import pytest
from pytest_django import Settings
from rest_framework.test import APIClient

from apps.accounts.core.roles import Role
from apps.accounts.models import (
    AuditEntry,
    Membership,
    Project,
    ProjectShare,
    SignInFailures,
    User,
)
from apps.accounts.services import Blocked, Verified, verify_password
from apps.operations.models import IdempotencyKey
from apps.workloads.models import Job
from tests.api.conftest import Speak
from tests.api.samples import JOB

USERS = "/api/v1/users/"
PROJECTS = "/api/v1/projects/"
HERE = "192.0.2.1"
UNKNOWN = UUID(int=0)


def speaking(secret: str) -> APIClient:
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {secret}")
    return client


def audited(action: str) -> AuditEntry:
    return AuditEntry.objects.filter(action=action).latest("id")


def test_an_administrator_adds_a_person(root: APIClient, project: Project) -> None:
    made = root.post(USERS, {"username": "new", "role": "operator"})
    body = made.json()
    assert made.status_code == 201
    assert made["Location"] == f"{USERS}{body['id']}/"
    assert (body["role"], body["must_change_password"]) == ("operator", True)
    assert [row["name"] for row in body["projects"]] == ["default"]
    outcome = verify_password("new", body["one_time_password"], address=HERE)
    assert isinstance(outcome, Verified)
    assert speaking(body["token"]).get("/api/v1/me/").json()["username"] == "new"
    entry = audited("user.created")
    assert (entry.username, entry.object_name) == ("ada", "new")
    assert entry.after == {"role": "operator", "is_service": False, "projects": ["default"]}


def test_an_edit_of_an_older_version_of_a_user_is_refused(
    root: APIClient, submitter: User
) -> None:
    url = f"{USERS}{submitter.pk}/"
    old = root.get(url)["ETag"]
    changed = root.patch(url, {"role": "viewer"}, HTTP_IF_MATCH=old)
    late = root.patch(url, {"role": "operator"}, HTTP_IF_MATCH=old)
    assert (changed.status_code, late.status_code) == (200, 412)
    assert root.patch(url, {"is_active": False}, HTTP_IF_MATCH=changed["ETag"]).status_code == 200
    submitter.refresh_from_db()
    assert (submitter.role, submitter.is_active) == ("viewer", False)


def test_secrets_are_shown_once_and_never_audited(root: APIClient) -> None:
    body = root.post(USERS, {"username": "new"}).json()
    again = root.get(f"{USERS}new/").json()
    assert {"one_time_password", "token"} & again.keys() == set()
    log = root.get("/api/v1/audit/?limit=500").content.decode()
    assert body["one_time_password"] not in log
    assert body["token"] not in log


KEY: dict[str, Any] = {"HTTP_IDEMPOTENCY_KEY": "k1"}


def test_a_key_adds_one_user_and_shows_its_secrets_again(
    root: APIClient, project: Project
) -> None:
    body = {"username": "new"}
    first, again = (root.post(USERS, body, **KEY) for _ in range(2))
    assert (first.status_code, again.status_code) == (201, 201)
    assert first.json() == again.json()
    assert again["Location"] == first["Location"]
    assert again["Idempotency-Replayed"] == "true"
    assert User.objects.filter(username="new").count() == 1
    shown = again.json()
    assert isinstance(verify_password("new", shown["one_time_password"], address=HERE), Verified)
    assert speaking(shown["token"]).get("/api/v1/me/").json()["username"] == "new"
    stored = str(IdempotencyKey.objects.get(key="k1").response)
    assert shown["token"] not in stored
    assert shown["one_time_password"] not in stored


def test_a_key_adds_one_service_account_without_a_password(root: APIClient) -> None:
    body = {"username": "nightly", "is_service": True, "projects": []}
    first, again = (root.post(USERS, body, **KEY).json() for _ in range(2))
    assert first == again
    assert first["one_time_password"] is None


def test_a_key_with_another_user_is_refused(root: APIClient, project: Project) -> None:
    root.post(USERS, {"username": "new"}, **KEY)
    other = root.post(USERS, {"username": "newer"}, **KEY)
    assert (other.status_code, other.json()["code"]) == (422, "key_reused")
    assert not User.objects.filter(username="newer").exists()


def test_a_key_resets_a_password_once(root: APIClient, operator: User) -> None:
    url = f"{USERS}olga/reset-password/"
    first, again = (root.post(url, **KEY) for _ in range(2))
    password = first.json()["one_time_password"]
    assert first.json() == again.json() == {"one_time_password": password}
    assert isinstance(verify_password("olga", password, address=HERE), Verified)
    assert AuditEntry.objects.filter(action="user.password_reset").count() == 1


def test_a_key_used_again_after_a_day_gives_another_password(
    root: APIClient, operator: User
) -> None:
    url = f"{USERS}olga/reset-password/"
    first = root.post(url, **KEY).json()
    IdempotencyKey.objects.all().delete()
    assert root.post(url, **KEY).json() != first


def test_a_key_creates_one_project(root: APIClient) -> None:
    first, again = (root.post(PROJECTS, {"name": "new"}, **KEY) for _ in range(2))
    assert (first.status_code, again.status_code) == (201, 201)
    assert first.json() == again.json()
    assert again["Idempotency-Replayed"] == "true"
    assert AuditEntry.objects.filter(action="project.created").count() == 1


def test_a_key_sets_a_membership_once(root: APIClient, project: Project, operator: User) -> None:
    url, body = f"{PROJECTS}default/members/", {"username": "olga", "role": "submitter"}
    first = root.post(url, body, **KEY)
    Membership.objects.all().delete()
    again = root.post(url, body, **KEY)
    assert (again.status_code, again.json()) == (200, first.json())
    assert again["Idempotency-Replayed"] == "true"
    assert not Membership.objects.exists()


def test_a_service_account_has_no_password(root: APIClient) -> None:
    body = root.post(USERS, {"username": "nightly", "is_service": True, "projects": []}).json()
    assert (body["one_time_password"], body["projects"]) == (None, [])
    assert root.post(f"{USERS}nightly/reset-password/").status_code == 409


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, "/username"),
        ({"username": "a b"}, "/username"),
        ({"username": "x", "role": "king"}, "/role"),
        ({"username": "x", "projects": ["nowhere"]}, "/projects"),
        ({"username": "x", "colour": "red"}, "/colour"),
    ],
)
def test_an_invalid_user_is_refused(root: APIClient, body: dict[str, Any], pointer: str) -> None:
    refused = root.post(USERS, body)
    assert refused.status_code == 422
    assert [error["pointer"] for error in refused.json()["errors"]] == [pointer]


def test_a_user_name_is_given_once(root: APIClient) -> None:
    assert root.post(USERS, {"username": "ada"}).status_code == 409


def test_changing_a_role_takes_effect_and_is_audited(
    root: APIClient, power: APIClient, operator: User
) -> None:
    assert root.patch(f"{USERS}olga/", {"role": "viewer"}).json()["role"] == "viewer"
    assert power.get("/api/v1/me/").json()["role"] == "viewer"
    entry = audited("user.updated")
    assert (entry.before, entry.after) == (
        {"role": "operator", "is_active": True},
        {"role": "viewer", "is_active": True},
    )


def test_a_deactivated_user_is_refused_until_reactivated(
    root: APIClient, api: APIClient, submitter: User
) -> None:
    root.patch(f"{USERS}{submitter.pk}/", {"is_active": False})
    assert api.get("/api/v1/me/").status_code == 401
    root.patch(f"{USERS}{submitter.pk}/", {"is_active": True})
    assert api.get("/api/v1/me/").status_code == 200


@pytest.mark.parametrize("change", [{"role": "operator"}, {"is_active": False}])
def test_the_last_administrator_stays(root: APIClient, change: dict[str, Any]) -> None:
    assert root.patch(f"{USERS}ada/", change).status_code == 409
    user = User.objects.get(username="ada")
    assert (user.role, user.is_active) == ("admin", True)


def test_one_of_two_administrators_may_step_down(root: APIClient) -> None:
    root.post(USERS, {"username": "second", "role": "admin"})
    assert root.patch(f"{USERS}ada/", {"role": "operator"}).status_code == 200


def test_a_password_reset_returns_a_one_time_password(root: APIClient, operator: User) -> None:
    password = root.post(f"{USERS}olga/reset-password/").json()["one_time_password"]
    outcome = verify_password("olga", password, address=HERE)
    assert isinstance(outcome, Verified)
    assert outcome.user.must_change_password
    assert audited("user.password_reset").object_name == "olga"


def test_users_are_filtered_by_name_role_and_state(
    root: APIClient, operator: User, submitter: User
) -> None:
    def names(query: str) -> list[str]:
        return [row["username"] for row in root.get(f"{USERS}?{query}").json()["results"]]

    assert names("") == ["ada", "olga", "sue"]
    assert names("q=ol") == ["olga"]
    assert names("role=submitter") == ["sue"]
    assert names("is_active=false") == []


def test_tokens_of_a_service_account_are_managed_for_it(root: APIClient) -> None:
    root.post(USERS, {"username": "nightly", "is_service": True})
    made = root.post(f"{USERS}nightly/tokens/", {"name": "cron", "role": "viewer"}).json()
    assert made["role"] == "viewer"
    assert speaking(made["token"]).get("/api/v1/me/").json()["username"] == "nightly"
    entry = audited("token.created")
    assert (entry.username, entry.object_name) == ("ada", "cron")
    assert (entry.after or {})["user"] == "nightly"
    names = [row["name"] for row in root.get(f"{USERS}nightly/tokens/").json()["results"]]
    assert names == ["cron", "first"]
    url = f"{USERS}nightly/tokens/{made['id']}/"
    assert root.delete(url).status_code == 204
    assert root.delete(url).status_code == 404
    assert speaking(made["token"]).get("/api/v1/me/").status_code == 401
    assert audited("token.revoked").object_name == "cron"


def test_a_limited_administrator_makes_no_stronger_token(
    admin: User, operator: User, as_user: Speak
) -> None:
    limited = as_user(admin, Role.OPERATOR)
    assert limited.get(USERS).status_code == 403
    assert limited.post(f"{USERS}olga/tokens/", {"name": "t"}).status_code == 403


def test_an_administrator_unblocks_a_sign_in(root: APIClient, operator: User) -> None:
    for _ in range(6):
        verify_password("olga", "wrong", address=HERE)
    assert isinstance(verify_password("olga", "wrong", address=HERE), Blocked)
    (row,) = root.get("/api/v1/blocked-sign-ins/").json()["results"]
    assert (row["subject"], row["name"], row["failures"]) == ("account", "olga", 6)
    assert root.delete(f"/api/v1/blocked-sign-ins/{row['id']}/").status_code == 204
    assert not SignInFailures.objects.filter(subject="account").exists()
    assert not isinstance(verify_password("olga", "wrong", address=HERE), Blocked)
    assert audited("sign_in.unblocked").object_name == "olga"
    assert root.delete(f"/api/v1/blocked-sign-ins/{UNKNOWN}/").status_code == 404


def test_a_project_is_created_renamed_and_labelled(root: APIClient) -> None:
    made = root.post(PROJECTS, {"name": "night", "labels": {"team": "search"}})
    assert made.status_code == 201
    assert made.json()["requires_key"] is False
    changed = root.patch(
        f"{PROJECTS}night/", {"name": "day", "labels": {}, "requires_key": True}
    ).json()
    assert (changed["name"], changed["labels"], changed["requires_key"]) == ("day", {}, True)
    assert Project.objects.get(name="day").key_optional is False
    entry = audited("project.updated")
    assert (entry.object_name, (entry.before or {})["name"]) == ("night", "night")
    assert (entry.after or {})["name"] == "day"


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"name": "a b"},
        {"name": "x" * 64},
        {"name": "x", "labels": {"": "y"}},
        {"name": "x", "labels": {f"l{i}": "" for i in range(65)}},
    ],
)
def test_an_invalid_project_is_refused(root: APIClient, body: dict[str, Any]) -> None:
    assert root.post(PROJECTS, body).status_code == 422


def test_a_wrong_project_name_is_told_what_is_accepted(root: APIClient) -> None:
    (error,) = root.post("/api/v1/projects/", {"name": "Bad Name!"}).json()["errors"]
    assert error["pointer"] == "/name"
    assert error["detail"].startswith("Only letters without accents, digits, hyphens and")


def test_an_edit_of_an_older_version_of_a_project_is_refused(root: APIClient) -> None:
    root.post(PROJECTS, {"name": "night"})
    url = f"{PROJECTS}night/"
    old = root.get(url)["ETag"]
    quota = root.patch(url, {"guaranteed_units": 50})
    edit = {"description": "at night", "guaranteed_units": None}
    late = root.patch(url, edit, HTTP_IF_MATCH=old)
    assert (quota.status_code, late.status_code) == (200, 412)
    assert root.delete(url, HTTP_IF_MATCH=old).status_code == 412
    assert root.get(url).json()["guaranteed_units"] == 50
    again = root.patch(url, {"description": "at night"}, HTTP_IF_MATCH=late["ETag"])
    assert again.json()["guaranteed_units"] == 50
    assert root.delete(url, HTTP_IF_MATCH=again["ETag"]).status_code == 204


def test_a_new_fair_share_is_no_edit_of_a_project(
    root: APIClient, project: Project, settings: Settings
) -> None:
    settings.FAIR_SHARE_HALF_LIFE_S = 3600.0
    url = f"{PROJECTS}default/"
    tag = root.get(url)["ETag"]
    ProjectShare.objects.create(
        project=project, half_life_s=3600.0, cluster_s=1.0, sequence=1, settled=[0.0] * 4,
        shares=[0.5] * 4, dominant=0.5, resource="units", position=1,
    )  # fmt: skip
    assert root.get(url)["ETag"] != tag
    assert root.patch(url, {"max_units": 9}, HTTP_IF_MATCH=tag).status_code == 200


def test_a_project_name_is_given_once(root: APIClient) -> None:
    root.post(PROJECTS, {"name": "night"})
    assert root.post(PROJECTS, {"name": "night"}).status_code == 409
    assert root.patch(f"{PROJECTS}night/", {"name": "default"}).status_code == 409


def test_an_archived_project_accepts_no_jobs_and_shows_its_old_ones(
    root: APIClient, api: APIClient
) -> None:
    job = api.post("/api/v1/jobs/", JOB).json()["metadata"]["id"]
    assert root.patch(f"{PROJECTS}default/", {"archived": True}).json()["archived_at"]
    refused = api.post("/api/v1/jobs/", JOB)
    assert refused.status_code == 409
    assert "The project default is archived" in refused.json()["detail"]
    assert api.post(f"/api/v1/jobs/{job}/rerun/").status_code == 409
    assert api.get(f"/api/v1/jobs/{job}/").status_code == 200
    assert Job.objects.count() == 1
    root.patch(f"{PROJECTS}default/", {"archived": False})
    assert api.post("/api/v1/jobs/", JOB).status_code == 201


def test_only_a_project_without_jobs_is_deleted(root: APIClient, api: APIClient) -> None:
    api.post("/api/v1/jobs/", JOB)
    refused = root.delete(f"{PROJECTS}default/")
    assert refused.status_code == 409
    assert "archive it instead" in refused.json()["detail"]
    root.post(PROJECTS, {"name": "night"})
    assert root.delete(f"{PROJECTS}night/").status_code == 204
    assert audited("project.deleted").object_name == "night"


def test_members_are_added_promoted_and_removed(root: APIClient, stranger: User) -> None:
    url = f"{PROJECTS}default/members/"
    for role in ("viewer", "submitter", "submitter"):
        assert root.post(url, {"username": "ned", "role": role}).json()["role"] == role
    names = [(row["username"], row["role"]) for row in root.get(url).json()["results"]]
    assert ("ned", "submitter") in names
    assert root.delete(f"{url}ned/").status_code == 204
    assert root.delete(f"{url}ned/").status_code == 404
    assert not Membership.objects.filter(user=stranger, project__name="default").exists()
    told = AuditEntry.objects.filter(object_kind="membership").order_by("id")
    assert [(entry.action, entry.before, entry.after) for entry in told] == [
        ("membership.created", None, {"role": "viewer"}),
        ("membership.updated", {"role": "viewer"}, {"role": "submitter"}),
        ("membership.removed", {"role": "submitter"}, None),
    ]


def test_an_unknown_member_is_named(root: APIClient) -> None:
    refused = root.post(f"{PROJECTS}default/members/", {"username": "no", "role": "viewer"})
    assert refused.json()["errors"][0]["detail"] == "There is no user no."


def test_members_see_their_projects_only(api: APIClient, stranger: User) -> None:
    assert [row["name"] for row in api.get(PROJECTS).json()["results"]] == ["default"]
    assert api.get(f"{PROJECTS}elsewhere/").status_code == 404
    assert api.get(f"{PROJECTS}elsewhere/members/").status_code == 404


CHANGES = [
    ("get", USERS),
    ("post", USERS),
    ("get", f"{USERS}ada/"),
    ("patch", f"{USERS}ada/"),
    ("post", f"{USERS}ada/reset-password/"),
    ("get", f"{USERS}ada/tokens/"),
    ("post", f"{USERS}ada/tokens/"),
    ("delete", f"{USERS}ada/tokens/{UNKNOWN}/"),
    ("get", "/api/v1/blocked-sign-ins/"),
    ("delete", f"/api/v1/blocked-sign-ins/{UNKNOWN}/"),
    ("post", PROJECTS),
    ("patch", f"{PROJECTS}default/"),
    ("delete", f"{PROJECTS}default/"),
    ("post", f"{PROJECTS}default/members/"),
    ("delete", f"{PROJECTS}default/members/sue/"),
    ("get", "/api/v1/audit/"),
    ("get", "/api/v1/audit/1/"),
    ("get", "/api/v1/audit/export/?as=csv"),
]


@pytest.mark.parametrize(("method", "path"), CHANGES)
def test_only_administrators_administer(power: APIClient, method: str, path: str) -> None:
    assert getattr(power, method)(path).status_code == 403


def test_a_list_of_users_takes_as_many_queries_as_one_user(
    root: APIClient, operator: User, submitter: User, django_assert_num_queries: Any
) -> None:
    with django_assert_num_queries(3):  # the caller, the users, their memberships
        root.get(USERS)
