"""Tokens, roles and rates."""

import json
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.utils import timezone
from pytest_django import Settings
from rest_framework.test import APIClient

from apps.accounts.core.roles import Role
from apps.accounts.models import Project, Token, User
from apps.accounts.selectors import principal_by_token
from apps.accounts.services import (
    create_token,
    create_user,
    ensure_project,
    join_project,
    revoke_token,
)
from apps.common.core.errors import ConflictError
from apps.operations.models import IdempotencyKey
from tests.api.conftest import Speak
from tests.api.samples import JOB

TOKENS = "/api/v1/tokens/"


def speaking(secret: str) -> APIClient:
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {secret}")
    return client


def test_the_caller_is_told_its_roles(api: APIClient) -> None:
    me = api.get("/api/v1/me/").json()
    assert (me["username"], me["role"], me["authenticated_by"]) == ("sue", "submitter", "token")
    assert [(p["name"], p["role"]) for p in me["projects"]] == [("default", "submitter")]


def test_a_new_token_is_shown_once_and_works(api: APIClient) -> None:
    response = api.post(TOKENS, {"name": "ci"})
    secret = response.json()["token"]
    assert response.status_code == 201
    assert speaking(secret).get("/api/v1/me/").status_code == 200
    assert secret not in api.get(TOKENS).content.decode()
    assert secret.startswith(response.json()["prefix"])


def test_tokens_are_stored_as_digests(api: APIClient) -> None:
    secret = api.post(TOKENS, {"name": "ci"}).json()["token"]
    row = Token.objects.get(name="ci")
    assert secret.encode() not in bytes(row.digest)
    assert len(row.digest) == 32


def test_a_revoked_token_is_useless_at_once(api: APIClient) -> None:
    created = api.post(TOKENS, {"name": "ci"}).json()
    other = speaking(created["token"])
    assert api.delete(f"{TOKENS}{created['id']}/").status_code == 204
    assert other.get("/api/v1/me/").status_code == 401
    assert api.delete(f"{TOKENS}{created['id']}/").status_code == 404


def test_a_token_that_expires_in_the_past_names_its_time(api: APIClient) -> None:
    response = api.post(TOKENS, {"name": "t", "expires_at": "2020-01-02T00:00:00Z"})
    (problem,) = response.json()["errors"]
    assert problem["detail"] == "must be in the future, not 2020-01-02T00:00:00+00:00"


def test_an_expired_token_is_useless(api: APIClient, submitter: User) -> None:
    created = create_token(user=submitter, name="t", expires_at=timezone.now() + timedelta(days=1))
    Token.objects.filter(pk=created.token.pk).update(
        expires_at=timezone.now() - timedelta(hours=1)
    )
    assert speaking(created.secret).get("/api/v1/me/").status_code == 401


def test_a_token_of_an_inactive_user_is_useless(api: APIClient, submitter: User) -> None:
    User.objects.filter(pk=submitter.pk).update(is_active=False)
    assert api.get("/api/v1/me/").status_code == 401


@pytest.mark.parametrize("header", ["Bearer", "Bearer ", "Bearer berth_wrong", "Bearer \u00e9"])
def test_a_wrong_token_is_refused(db: None, header: str) -> None:
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=header)
    assert client.get("/api/v1/me/").status_code == 401


def test_the_last_use_is_noted(submitter: User) -> None:
    secret = create_token(user=submitter, name="t").secret
    speaking(secret).get("/api/v1/me/")
    assert Token.objects.get(name="t").last_used_at is not None


def test_a_limited_token_makes_no_stronger_one(submitter: User, as_user: Speak) -> None:
    weak = as_user(submitter, Role.VIEWER)
    assert weak.post(TOKENS, {"name": "t", "role": "submitter"}).status_code == 422
    created = weak.post(TOKENS, {"name": "t"}).json()
    assert created["role"] == "viewer"
    assert speaking(created["token"]).post("/api/v1/jobs/", JOB).status_code == 403


TOMORROW = timezone.now() + timedelta(days=1)
LATER = TOMORROW + timedelta(days=1)


def test_an_expiring_token_creates_no_longer_one(submitter: User) -> None:
    brief = speaking(create_token(user=submitter, name="brief", expires_at=TOMORROW).secret)
    response = brief.post(TOKENS, {"name": "t", "expires_at": LATER.isoformat()})
    assert response.json()["errors"][0] == {
        "pointer": "/expires_at",
        "code": "too_late",
        "detail": f"must not be after the expiry of this token, {TOMORROW.isoformat()}",
    }
    derived = brief.post(TOKENS, {"name": "t"}).json()
    assert Token.objects.get(pk=derived["id"]).expires_at == TOMORROW


@pytest.mark.parametrize("limits", [{"role": Role.VIEWER}, {"expires_at": TOMORROW}])
def test_a_limited_token_manages_only_itself_and_what_it_created(
    submitter: User, limits: dict[str, Any]
) -> None:
    other = create_token(user=submitter, name="other").token
    own = create_token(user=submitter, name="limited", **limits)
    limited = speaking(own.secret)
    child = limited.post(TOKENS, {"name": "child"}).json()
    grandchild = speaking(child["token"]).post(TOKENS, {"name": "grandchild"}).json()
    assert {token["name"] for token in limited.get(TOKENS).json()["results"]} == {
        *("limited", "child", "grandchild")
    }
    assert limited.get(f"{TOKENS}{other.pk}/").status_code == 404
    assert limited.delete(f"{TOKENS}{other.pk}/").status_code == 404
    assert speaking(child["token"]).delete(f"{TOKENS}{own.token.pk}/").status_code == 404
    assert limited.delete(f"{TOKENS}{grandchild['id']}/").status_code == 204


def test_what_a_limited_token_created_is_revoked_with_it(api: APIClient, submitter: User) -> None:
    parent = create_token(user=submitter, name="limited", role=Role.VIEWER)
    child = speaking(parent.secret).post(TOKENS, {"name": "child"}).json()["token"]
    grandchild = speaking(child).post(TOKENS, {"name": "grandchild"}).json()["token"]
    assert api.delete(f"{TOKENS}{parent.token.pk}/").status_code == 204
    assert speaking(child).get("/api/v1/me/").status_code == 401
    assert speaking(grandchild).get("/api/v1/me/").status_code == 401


def test_a_token_outlives_the_unlimited_token_that_created_it(submitter: User) -> None:
    old = create_token(user=submitter, name="old")
    renewed = speaking(old.secret).post(TOKENS, {"name": "new"}).json()["token"]
    assert speaking(renewed).delete(f"{TOKENS}{old.token.pk}/").status_code == 204
    assert speaking(renewed).get("/api/v1/me/").status_code == 200


def test_a_token_revoked_during_the_request_creates_none(submitter: User) -> None:
    limited = create_token(user=submitter, name="limited", role=Role.VIEWER)
    found = principal_by_token(limited.secret)
    assert found is not None
    revoke_token(user_id=submitter.pk, token_id=limited.token.pk)
    with pytest.raises(ConflictError):
        create_token(user=submitter, name="child", by=found[0])


CREDENTIALS = [
    ("post", "account/password/"),
    ("get", "account/sessions/"),
    ("delete", "account/sessions/"),
    ("delete", f"account/sessions/{UUID(int=1)}/"),
    ("post", "users/"),
    ("get", "users/ann/"),
    ("patch", "users/ann/"),
    ("post", "users/ann/reset-password/"),
    ("get", "users/ann/tokens/"),
    ("post", "users/ann/tokens/"),
    ("delete", f"users/ann/tokens/{UUID(int=1)}/"),
]


@pytest.mark.parametrize(("method", "route"), CREDENTIALS)
@pytest.mark.parametrize("limits", [{"role": Role.ADMIN}, {"expires_at": TOMORROW}])
def test_a_limited_token_manages_no_credentials(
    project: Project, method: str, route: str, limits: dict[str, Any]
) -> None:
    ann = create_user(username="ann", password=None, role=Role.ADMIN)
    limited = speaking(create_token(user=ann, name="t", **limits).secret)
    response = getattr(limited, method)(f"/api/v1/{route}", {})
    assert response.status_code == 403
    assert "without an expiry" in response.json()["detail"]


def test_an_expiring_token_still_administers_projects(project: Project) -> None:
    ann = create_user(username="ann", password=None, role=Role.ADMIN)
    brief = speaking(create_token(user=ann, name="t", expires_at=TOMORROW).secret)
    assert brief.post("/api/v1/projects/", {"name": "new"}).status_code == 201


def test_a_key_creates_one_token_for_another_user(project: Project) -> None:
    ann = create_user(username="ann", password=None, role=Role.ADMIN)
    create_user(username="bot", password=None, role=Role.VIEWER, service=True)
    admin = speaking(create_token(user=ann, name="t").secret)
    first, again = (
        admin.post(
            "/api/v1/users/bot/tokens/", {"name": "ci"}, headers={"Idempotency-Key": "k"}
        ).json()
        for _ in range(2)
    )
    assert first == again
    assert speaking(first["token"]).get("/api/v1/me/").json()["username"] == "bot"


def test_a_key_creates_one_token_and_shows_its_secret_again(api: APIClient) -> None:
    first, again = (
        api.post(TOKENS, {"name": "ci"}, headers={"Idempotency-Key": key}) for key in ("k", '"k"')
    )
    assert first.json() == again.json()
    assert again["Idempotency-Replayed"] == "true"
    assert Token.objects.filter(name="ci").count() == 1
    assert speaking(first.json()["token"]).get("/api/v1/me/").status_code == 200
    stored = IdempotencyKey.objects.get(key="k").response
    assert first.json()["token"] not in json.dumps(stored)


def test_a_key_with_another_body_creates_no_token(api: APIClient) -> None:
    key = {"Idempotency-Key": "k"}
    api.post(TOKENS, {"name": "ci"}, headers=key)
    response = api.post(TOKENS, {"name": "cd"}, headers=key)
    assert (response.status_code, response.json()["code"]) == (422, "key_reused")


def test_a_limited_token_cannot_repeat_the_request_of_another_one(
    api: APIClient, submitter: User, as_user: Speak
) -> None:
    key = {"Idempotency-Key": "k"}
    secret = api.post(TOKENS, {"name": "ci"}, headers=key).json()["token"]
    response = as_user(submitter, Role.VIEWER).post(TOKENS, {"name": "ci"}, headers=key)
    assert (response.status_code, response.json()["code"]) == (422, "key_reused")
    assert secret not in response.content.decode()


def test_the_same_key_of_two_users_creates_two_tokens(
    api: APIClient, viewer: User, as_user: Speak
) -> None:
    key = {"Idempotency-Key": "k"}
    mine = api.post(TOKENS, {"name": "ci"}, headers=key).json()
    theirs = as_user(viewer).post(TOKENS, {"name": "ci"}, headers=key).json()
    assert mine["token"] != theirs["token"]


def test_an_unknown_role_is_refused_with_the_accepted_ones(api: APIClient) -> None:
    (error,) = api.post(TOKENS, {"name": "t", "role": "root"}).json()["errors"]
    accepted = "Accepted: viewer, submitter, operator, admin."
    assert error["detail"] == f'"root" is not a valid choice. {accepted}'


def test_an_expiry_in_the_past_is_refused(api: APIClient) -> None:
    response = api.post(TOKENS, {"name": "t", "expires_at": "2020-01-01T00:00:00Z"})
    assert response.json()["errors"][0]["code"] == "in_the_past"


def test_tokens_of_others_are_not_shown(api: APIClient, viewer: User) -> None:
    created = create_token(user=viewer, name="theirs")
    assert api.get(f"{TOKENS}{created.token.pk}/").status_code == 404
    assert [t["name"] for t in api.get(TOKENS).json()["results"]] == ["test"]


def test_unknown_fields_of_a_token_are_refused(api: APIClient) -> None:
    response = api.post(TOKENS, {"name": "t", "scope": "all"})
    assert response.json()["errors"][0]["pointer"] == "/scope"


@pytest.mark.broker
@pytest.mark.usefixtures("one_rate_window")
def test_a_full_window_is_answered_with_when_to_come_back(
    api: APIClient, settings: Settings
) -> None:
    settings.BERTH_RATES = {"read": 2}
    answers = [api.get("/api/v1/me/") for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert answers[0]["RateLimit-Policy"] == '"read";q=2;w=60'
    assert answers[0]["RateLimit"].startswith('"read";r=1;t=')
    assert 1 <= int(answers[2]["Retry-After"]) <= 60
    assert answers[2].json()["code"] == "too_many_requests"


@pytest.mark.broker
@pytest.mark.usefixtures("one_rate_window")
def test_reading_does_not_use_up_submitting(api: APIClient, settings: Settings) -> None:
    settings.BERTH_RATES = {"read": 1, "submit": 1}
    api.get("/api/v1/me/")
    api.get("/api/v1/me/")
    assert api.post("/api/v1/jobs/", JOB).status_code == 201
    assert api.post("/api/v1/jobs/", JOB).status_code == 429


@pytest.mark.broker
@pytest.mark.usefixtures("one_rate_window", "sort")
def test_checks_and_previews_count_as_solvers(api: APIClient, settings: Settings) -> None:
    settings.BERTH_RATES = {"solver": 9, "submit": 9}
    urls = {
        "checks/": "solver",
        "jobs/?dry_run=true": "solver",
        "applications/sort/overrides/preview/": "solver",
        "jobs/?dry_run=false": "submit",
        "jobs/": "submit",
    }
    answers = {url: api.post(f"/api/v1/{url}", JOB) for url in urls}
    policies = {url: answer["RateLimit-Policy"] for url, answer in answers.items()}
    assert policies == {url: f'"{name}";q=9;w=60' for url, name in urls.items()}


@pytest.mark.broker
@pytest.mark.usefixtures("one_rate_window")
def test_rates_are_counted_per_user_with_all_tokens_and_sessions(
    api: APIClient, submitter: User, viewer: User, as_user: Speak, settings: Settings
) -> None:
    second, other, browser = as_user(submitter), as_user(viewer), APIClient()
    browser.force_login(submitter)
    settings.BERTH_RATES = {"read": 1}
    speaking = (api, second, browser, other)
    statuses = [client.get("/api/v1/me/").status_code for client in speaking]
    assert statuses == [200, 429, 429, 200]


def test_requests_pass_while_redis_is_away(api: APIClient, settings: Settings) -> None:
    settings.BERTH_RATES = {"read": 1}
    settings.REDIS_URL = "unix:///nowhere/at/all.sock"
    assert api.get("/api/v1/me/").status_code == 200


CLUSTER_WIDE = (
    "servers/s-1/drain/",
    "revisions/",
    "applications/sort/overrides/",
    "fronts/",
    "preference-sets/",
    f"preference-sets/{UUID(int=1)}/activate/",
    "weights/activations/1/revert/",
    "objectives/",
    "plans/",
    "previews/",
)


@pytest.mark.parametrize("route", CLUSTER_WIDE)
def test_a_role_held_in_one_project_changes_nothing_that_all_share(
    stranger: User, as_user: Speak, route: str
) -> None:
    mine = ensure_project("mine")
    join_project(user=stranger, project=mine, role=Role.ADMIN)
    refused = as_user(stranger).post(f"/api/v1/{route}", {}, format="json")
    assert refused.status_code == 403
    assert "in the whole cluster" in refused.json()["detail"]
