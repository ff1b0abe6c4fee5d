"""Every error response is a problem document."""

from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import pytest
from django.db import OperationalError
from rest_framework import serializers
from rest_framework.test import APIClient

from apps.accounts.models import User
from apps.common.api.inputs import validated
from apps.common.core.errors import InvalidInputError
from apps.common.core.problem_codes import CATALOGUE, ProblemCode
from apps.inventory.selectors import LAYERS
from apps.operations.core.states import Topic
from tests.api.samples import JOB, send_raw, short, submitted

JSON = "application/json"
STATUSES = {kind.status for kind in CATALOGUE.values()}


def test_every_code_has_a_catalogue_entry() -> None:
    assert set(CATALOGUE) == set(ProblemCode)


@pytest.mark.parametrize("code", list(ProblemCode))
def test_every_code_says_what_to_do(code: ProblemCode) -> None:
    kind = CATALOGUE[code]
    assert 400 <= kind.status < 600
    assert not kind.title.endswith(".")
    assert kind.advice.endswith(".")


def test_the_catalogue_is_served_to_everybody() -> None:
    problem_types = APIClient().get("/api/v1/errors/").json()["results"]
    assert [entry["code"] for entry in problem_types] == [code.value for code in ProblemCode]


@pytest.mark.parametrize(
    ("method", "url", "status", "code"),
    [
        ("get", "/api/v1/nothing/", 404, "not_found"),
        ("post", "/api/v1/nothing/at/all", 404, "not_found"),
        ("get", "/api/v1/jobs/01890000-0000-7000-8000-000000000000/", 404, "not_found"),
        ("get", "/api/v1/jobs/7/", 404, "not_found"),
        ("get", "/api/v1/servers/nope/", 404, "not_found"),
        ("get", "/api/v1/applications/nope/", 404, "not_found"),
        ("get", "/api/v1/applications/nope/classification/", 404, "not_found"),
        ("delete", "/api/v1/jobs/", 405, "method_not_allowed"),
        ("put", "/api/v1/me/", 405, "method_not_allowed"),
        ("get", "/api/v1/me/?verbose=1", 400, "unknown_parameter"),
        ("get", "/api/v1/me/?brief=true", 400, "unknown_parameter"),
        ("post", "/api/v1/jobs/?limit=1", 400, "unknown_parameter"),
    ],
)
def test_wrong_addresses_and_methods_are_problems(
    api: APIClient, method: str, url: str, status: int, code: str
) -> None:
    response = getattr(api, method)(url)
    body = response.json()
    assert (response.status_code, body["code"]) == (status, code)
    assert response["Content-Type"] == "application/problem+json"
    assert body["status"] == status
    assert body["request_id"] == response["X-Request-ID"]
    assert body["instance"] == url.split("?", maxsplit=1)[0]


def test_a_wrong_method_is_answered_with_the_right_ones(api: APIClient) -> None:
    assert "POST" in api.delete("/api/v1/jobs/")["Allow"]


@pytest.mark.parametrize(
    ("body", "content_type", "status", "code"),
    [
        ("{", "application/json", 400, "malformed_json"),
        ('{"a": NaN}', "application/json", 400, "malformed_json"),
        (b"\xff", "application/json", 400, "malformed_json"),
        ("[" * 100_000, "application/json", 400, "malformed_json"),
        ("9" * 5000, "application/json", 400, "malformed_json"),
        ("a=b", "application/x-www-form-urlencoded", 415, "unsupported_media_type"),
        (" " * (2 << 20) + "{}", "application/json", 413, "body_too_large"),
        ("[]", "application/json", 422, "invalid_input"),
    ],
)
def test_wrong_bodies_are_problems(
    api: APIClient, body: str | bytes, content_type: str, status: int, code: str
) -> None:
    content = body.encode() if isinstance(body, str) else body
    response = send_raw(api, "/api/v1/jobs/", content, content_type=content_type)
    assert (response.status_code, response.json()["code"]) == (status, code)


def test_routes_without_files_take_a_smaller_body(api: APIClient) -> None:
    body = b" " * (1 << 20) + b"{}"
    refused = send_raw(api, "/api/v1/preference-sets/derive/", body, content_type=JSON)
    assert (refused.status_code, refused.json()["code"]) == (413, "body_too_large")
    taken = send_raw(api, "/api/v1/jobs/", body, content_type=JSON)
    assert taken.status_code == 422


def test_broken_json_is_located(api: APIClient) -> None:
    response = send_raw(api, "/api/v1/jobs/", b'{"a":\n oops}', content_type="application/json")
    assert "line 2, column 2" in response.json()["detail"]


def test_a_body_that_is_wrong_as_a_whole_is_told_by_the_root(api: APIClient) -> None:
    response = send_raw(api, "/api/v1/jobs/", b"[]", content_type="application/json")
    assert response.json()["detail"] == "/: a job must be an object"


class Inner(serializers.Serializer[Any]):
    share = serializers.FloatField()


class Outer(serializers.Serializer[Any]):
    """Fields of every kind."""

    count = serializers.IntegerField(required=False)
    name = serializers.CharField(max_length=3, required=False)
    new_password = serializers.CharField(max_length=3, required=False)
    names = serializers.ListField(child=serializers.CharField(max_length=3), required=False)
    parts = Inner(many=True, required=False)
    numbers = serializers.DictField(child=serializers.FloatField(), required=False)
    free = serializers.JSONField(required=False)


@pytest.mark.parametrize(
    ("body", "pointer", "detail"),
    [
        ({"count": "x"}, "/count", 'A valid integer is required. Given: "x".'),
        ({"count": True}, "/count", "A valid integer is required. Given: true."),
        ({"name": "x" * 99}, "/name",
         "Ensure this field has no more than 3 characters. Given: " + '"' + "x" * 59 + "."),
        ({"name": {"a": "b"}}, "/name", "Not a valid string."),
        ({"name": None}, "/name", "This field may not be null."),
        ({"name": ""}, "/name", "must not be empty"),
        ({"new_password": "secret"}, "/new_password",
         "Ensure this field has no more than 3 characters."),
        ({"names": ["a", "abcd"]}, "/names/1",
         'Ensure this field has no more than 3 characters. Given: "abcd".'),
        ({"parts": [{"share": 1}, {"share": "x"}]}, "/parts/1/share",
         'A valid number is required. Given: "x".'),
        ({"parts": [{"share": True}]}, "/parts/0/share",
         "A valid number is required. Given: true."),
        ({"numbers": {"a": False}}, "/numbers/a", "A valid number is required. Given: false."),
        ({"other": 1}, "/other",
         "unknown field; accepted: count, name, new_password, names, parts, numbers, free"),
    ],
)  # fmt: skip
def test_a_problem_names_the_value_unless_it_is_secret(
    body: dict[str, Any], pointer: str, detail: str
) -> None:
    with pytest.raises(InvalidInputError) as raised:
        validated(Outer, body)
    (problem,) = raised.value.problems
    assert (problem.pointer, problem.detail) == (pointer, detail)


def test_a_field_of_any_json_may_hold_booleans() -> None:
    body = {"free": [True, {"share": False}]}
    assert validated(Outer, body) == body


@pytest.mark.parametrize(
    ("url", "parameter", "sentence"),
    [
        ("jobs/?held=x", "held", "must be true or false, not 'x'"),
        ("jobs/?limit=0", "limit", "must be within 1 and 500, not '0'"),
        ("jobs/?ordering=age", "ordering", "must be one of -created_at, created_at, not 'age'"),
        ("jobs/?created_at__gte=noon", "created_at__gte",
         "must be an RFC 3339 time such as 2026-01-31T08:00:00Z, not 'noon'"),
        ("changes/?topics=jobs,x", "topics", f"must be among {', '.join(Topic)}, not 'jobs,x'"),
        ("jobs/?limit=1&limit=2", "limit", "must be given once, not 2 times"),
        ("jobs/?fields=a&fields=b", "fields", "must be given once, not 2 times"),
        ("queues/?project=a&project=b", "project", "must be given once, not 2 times"),
        ("cluster/map/?layer=cpu&layer=cpu", "layer", "must be given once, not 2 times"),
        ("cluster/map/?layer=x", "layer",
         f"must be one of {', '.join(LAYERS)}, not 'x'"),
    ],
)  # fmt: skip
def test_a_wrong_parameter_is_named_with_its_value(
    api: APIClient, url: str, parameter: str, sentence: str
) -> None:
    response = api.get(f"/api/v1/{url}")
    assert (response.status_code, response.json()["code"]) == (400, "invalid_parameter")
    assert response.json()["detail"] == f"{parameter} {sentence}."
    assert response.json()["errors"] == [
        {"pointer": parameter, "code": "invalid", "detail": sentence}
    ]


def test_a_shown_value_is_short(api: APIClient) -> None:
    (error,) = api.get(f"/api/v1/jobs/?held={'x' * 999}").json()["errors"]
    assert error["detail"] == f"must be true or false, not '{'x' * 59}"


def test_an_unknown_parameter_is_in_the_errors(api: APIClient) -> None:
    body = api.get("/api/v1/jobs/?verbose=1").json()
    assert [error["pointer"] for error in body["errors"]] == ["verbose"]


@pytest.mark.parametrize(
    "url",
    [
        "jobs/?label=a:b&label=c:d",
        "servers/?label=a:b&label=c:d",
        "applications/?label=a:&label=b:",
    ],
)
def test_labels_may_be_repeated(api: APIClient, url: str) -> None:
    assert api.get(f"/api/v1/{url}").status_code == 200


def test_jobs_are_cancelled_by_several_labels(api: APIClient) -> None:
    submitted(api, labels={"a": "b", "c": "d"})
    submitted(api, labels={"a": "b"})
    response = api.post("/api/v1/jobs/cancel/?label=a:b&label=c:d", {"expect": 1})
    assert response.json()["cancelled"] == 1


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b'{"priority": 5}', 422, "invalid_input"),
        (b"[]", 422, "invalid_input"),
        (b"{", 400, "malformed_json"),
        (b"{}", 201, None),
        (b"", 201, None),
    ],
)
def test_a_body_that_a_route_would_ignore_is_refused(
    api: APIClient, body: bytes, status: int, code: str | None
) -> None:
    url = f"/api/v1/jobs/{submitted(api)}/rerun/"
    response = send_raw(api, url, body, content_type=JSON)
    assert (response.status_code, response.json().get("code")) == (status, code)


def test_a_deletion_takes_no_body(api: APIClient) -> None:
    url = f"/api/v1/jobs/{submitted(api)}/"
    api.post(f"{url}cancel/")
    (error,) = api.delete(url, {"force": True}).json()["errors"]
    assert (error["pointer"], error["detail"]) == ("/force", "unknown field; accepted: none")
    assert api.delete(url, {}).status_code == 204


def test_an_unknown_format_is_refused(api: APIClient) -> None:
    response = api.get("/api/v1/me/", HTTP_ACCEPT="image/png")
    assert (response.status_code, response.json()["code"]) == (406, "not_acceptable")


def test_requests_without_credentials_are_refused(db: None) -> None:
    response = APIClient().get("/api/v1/jobs/")
    assert (response.status_code, response.json()["code"]) == (401, "not_authenticated")
    assert response["WWW-Authenticate"] == 'Bearer realm="berth"'


def test_a_session_may_read_and_must_prove_itself_to_write(submitter: User) -> None:
    browser = APIClient(enforce_csrf_checks=True)
    browser.force_login(submitter)
    assert browser.get("/api/v1/me/").json()["authenticated_by"] == "session"
    response = browser.post("/api/v1/jobs/", JOB)
    assert (response.status_code, response.json()["code"]) == (403, "csrf_failed")


def test_a_session_with_its_csrf_token_may_write(submitter: User) -> None:
    browser = APIClient(enforce_csrf_checks=True)
    browser.force_login(submitter)
    browser.cookies["csrftoken"] = token = "a" * 32
    assert browser.post("/api/v1/jobs/", JOB, HTTP_X_CSRFTOKEN=token).status_code == 201


@pytest.fixture
def database_away() -> Iterator[None]:
    """Make every database statement fail."""
    broken = OperationalError("the connection is lost")
    with patch(
        "django.db.backends.utils.CursorWrapper._execute_with_wrappers", side_effect=broken
    ):
        yield


def test_an_unavailable_database_returns_503(
    api: APIClient, request: pytest.FixtureRequest
) -> None:
    request.getfixturevalue("database_away")
    response = api.post("/api/v1/jobs/", short())
    assert (response.status_code, response.json()["code"]) == (503, "service_unavailable")
    assert response["Retry-After"] == "2"
    assert response.json()["retryable"] is True
    assert "lost" not in response.json()["detail"]


def test_a_bug_is_logged_and_not_shown(api: APIClient, caplog: pytest.LogCaptureFixture) -> None:
    with patch("apps.workloads.api.job_views.submit_jobs", side_effect=RuntimeError("secret")):
        response = api.post("/api/v1/jobs/", short())
    assert (response.status_code, response.json()["code"]) == (500, "internal_error")
    assert "secret" not in response.content.decode()
    assert "secret" in caplog.text


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"X-Request-ID": "mine-1"}, "mine-1"),
        ({"traceparent": f"00-{'ab' * 16}-{'cd' * 8}-01"}, "ab" * 16),
    ],
)
def test_the_callers_own_id_is_kept(
    api: APIClient, headers: dict[str, str], expected: str
) -> None:
    assert api.get("/api/v1/me/", headers=headers)["X-Request-ID"] == expected


@pytest.mark.parametrize("request_id", ["", "a b", "x" * 65, "a\u00e9", "a;b"])
def test_an_id_that_would_spoil_the_log_is_replaced(api: APIClient, request_id: str) -> None:
    assert len(api.get("/api/v1/me/", HTTP_X_REQUEST_ID=request_id)["X-Request-ID"]) == 36


def test_every_answer_says_version_timing_and_policy(api: APIClient) -> None:
    response = api.get("/api/v1/nothing/")
    assert response["API-Version"] == "1.0"
    assert response["Server-Timing"].startswith("app;dur=")
    policy = response["Content-Security-Policy"]
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy
