"""Tokens, roles and rates."""

from datetime import timedelta
from uuid import UUID

import pytest
from django.utils import timezone
from pytest_django import Settings
from rest_framework.test import APIClient

from apps.accounts.core.roles import Role
from apps.accounts.models import Token, User
from apps.accounts.services import create_token, ensure_project, join_project
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
    made = api.post(TOKENS, {"name": "ci"})
    secret = made.json()["token"]
    assert made.status_code == 201
    assert speaking(secret).get("/api/v1/me/").status_code == 200
    assert secret not in api.get(TOKENS).content.decode()
    assert secret.startswith(made.json()["prefix"])


def test_tokens_are_stored_as_digests(api: APIClient) -> None:
    secret = api.post(TOKENS, {"name": "ci"}).json()["token"]
    row = Token.objects.get(name="ci")
    assert secret.encode() not in bytes(row.digest)
    assert len(row.digest) == 32


def test_a_revoked_token_is_useless_at_once(api: APIClient) -> None:
    made = api.post(TOKENS, {"name": "ci"}).json()
    other = speaking(made["token"])
    assert api.delete(f"{TOKENS}{made['id']}/").status_code == 204
    assert other.get("/api/v1/me/").status_code == 401
    assert api.delete(f"{TOKENS}{made['id']}/").status_code == 404


def test_an_expired_token_is_useless(api: APIClient, submitter: User) -> None:
    made = create_token(user=submitter, name="t", expires_at=timezone.now() + timedelta(days=1))
    Token.objects.filter(pk=made.token.pk).update(expires_at=timezone.now() - timedelta(hours=1))
    assert speaking(made.secret).get("/api/v1/me/").status_code == 401


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
    made = weak.post(TOKENS, {"name": "t"}).json()
    assert made["role"] == "viewer"
    assert speaking(made["token"]).post("/api/v1/jobs/", JOB).status_code == 403


def test_an_expiry_in_the_past_is_refused(api: APIClient) -> None:
    response = api.post(TOKENS, {"name": "t", "expires_at": "2020-01-01T00:00:00Z"})
    assert response.json()["errors"][0]["code"] == "in_the_past"


def test_tokens_of_others_are_not_shown(api: APIClient, viewer: User) -> None:
    made = create_token(user=viewer, name="theirs")
    assert api.get(f"{TOKENS}{made.token.pk}/").status_code == 404
    assert [t["name"] for t in api.get(TOKENS).json()["results"]] == ["test"]


def test_unknown_fields_of_a_token_are_refused(api: APIClient) -> None:
    response = api.post(TOKENS, {"name": "t", "scope": "all"})
    assert response.json()["errors"][0]["pointer"] == "/scope"


@pytest.mark.broker
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
def test_reading_does_not_use_up_submitting(api: APIClient, settings: Settings) -> None:
    settings.BERTH_RATES = {"read": 1, "submit": 1}
    api.get("/api/v1/me/")
    api.get("/api/v1/me/")
    assert api.post("/api/v1/jobs/", JOB).status_code == 201
    assert api.post("/api/v1/jobs/", JOB).status_code == 429


@pytest.mark.broker
def test_rates_are_counted_per_token(
    api: APIClient, submitter: User, as_user: Speak, settings: Settings
) -> None:
    other = as_user(submitter)
    settings.BERTH_RATES = {"read": 1}
    api.get("/api/v1/me/")
    assert other.get("/api/v1/me/").status_code == 200


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
