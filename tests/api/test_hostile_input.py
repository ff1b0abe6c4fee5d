"""Characters, times and addresses that once caused a 500, an HTML page or a forged log line."""

import json
import logging
from datetime import UTC, datetime
from typing import Any
from unittest.mock import patch

import pytest
from django.http import HttpRequest, HttpResponse
from django.test import Client, RequestFactory
from hypothesis import given
from hypothesis import strategies as st
from pytest_django import Settings
from rest_framework.test import APIClient

from apps.accounts.models import User
from apps.common.api.middleware import ApiProblemMiddleware, InputMiddleware
from tests import factories
from tests.api.samples import JOB, send_raw, short

PROBLEM = "application/problem+json"
EXTREME = ("0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59")


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/servers/a%00b/",
        "/api/v1/applications/a%00b/",
        "/api/v1/applications/a%00b/estimates/",
        "/api/v1/plans/%00/",
        "/api/v1/fronts/%00/",
        "/api/v1/objectives/%00/",
        "/api/v1/matrices/%00/cells/",
        "/api/v1/jobs/%0A2026-01-01 INFO forged",
        "/api/%00",
    ],
)
def test_a_path_with_a_control_character_is_refused(power: APIClient, path: str) -> None:
    response = power.get(path)
    assert (response.status_code, response["Content-Type"]) == (400, PROBLEM)
    assert response.json()["detail"] == "The path must not contain control characters."
    assert "Content-Security-Policy" in response


@pytest.mark.parametrize(
    "address",
    [
        "jobs/?name=%00",
        "jobs/?label=team:%00",
        "jobs/?application__in=a,%00",
        "jobs/?cursor=%00",
        "servers/?q=%00",
        "events/?subject=%00",
        "events/?kind=%00",
        "changes/?topics=%00",
        "profiling-runs/?application=%00",
        "me/?fields=%00",
        "stream/?ticket=%00",
    ],
)
def test_a_parameter_with_a_nul_is_named(api: APIClient, address: str) -> None:
    response = api.get(f"/api/v1/{address}")
    name = address.partition("?")[2].partition("=")[0]
    assert (response.status_code, response.json()["code"]) == (400, "invalid_parameter")
    assert response.json()["detail"] == f"{name} must not contain the character U+0000."
    assert response.json()["errors"][0]["pointer"] == name


@pytest.mark.parametrize(
    "address",
    ["/jobs/?q=%00", "/search/?q=%00", "/go/?q=%00", "/servers/%00/", "/applications/a%00b/",
     "/figures/pressure/?server=%00", "/login/?next=%00", "/plans/%00/"],
)  # fmt: skip
def test_a_page_is_refused_as_a_page(client: Client, operator: User, address: str) -> None:
    client.force_login(operator)
    response = client.get(address)
    assert response.status_code == 400
    assert "must not contain" in response.content.decode()


@pytest.mark.parametrize(
    ("part", "pointer"),
    [
        ({"metadata": {"labels": {"team": "\x00"}}, "spec": JOB["spec"]}, "/metadata/labels/team"),
        ({"metadata": {"name": "a\ud800"}, "spec": JOB["spec"]}, "/metadata/name"),
        ({"metadata": {"annotations": {"\x00": "x"}}}, "/metadata/annotations/\\u0000"),
    ],
)
def test_a_field_that_cannot_be_stored_is_named(
    api: APIClient, part: dict[str, Any], pointer: str
) -> None:
    body = json.dumps(part).encode()
    response = send_raw(api, "/api/v1/jobs/", body, content_type="application/json")
    assert (response.status_code, response.json()["code"]) == (422, "invalid_input")
    assert [error["pointer"] for error in response.json()["errors"]] == [pointer]


def test_a_line_that_cannot_be_stored_is_named(api: APIClient) -> None:
    lines = b'{"application": "a"}\n{"application": "b\\u0000"}\n'
    response = send_raw(api, "/api/v1/batches/", lines, content_type="application/x-ndjson")
    assert (response.status_code, response.json()["code"]) == (422, "invalid_input")
    assert response.json()["errors"][0]["pointer"] == "/1/application"


@pytest.mark.parametrize("name", ["X_REQUEST_ID", "IDEMPOTENCY_KEY", "IF_NONE_MATCH", "ACCEPT"])
def test_a_header_with_a_control_character_is_named(api: APIClient, name: str) -> None:
    response = api.get("/api/v1/me/", **{f"HTTP_{name}": "a\x00b"})  # type: ignore[arg-type]
    assert response.status_code == 400
    assert name.replace("_", "-").title() in response.json()["detail"]


def test_a_header_in_utf_8_passes(api: APIClient) -> None:
    written = "it\u2019s me".encode().decode("latin-1")
    assert api.get("/api/v1/me/", HTTP_USER_AGENT=written).status_code == 200


def test_a_cookie_that_hides_a_nul_is_refused(client: Client, db: None) -> None:
    for address in ("/", "/api/v1/me/"):
        response = client.get(address, headers={"Cookie": 'sessionid="a\\000b"'})
        assert response.status_code == 400
        assert "sessionid" in response.content.decode()


@pytest.mark.parametrize("moment", EXTREME)
@pytest.mark.parametrize(
    "parameter", ["jobs/?created_at__gte", "jobs/?finished_at__lt", "events/?at__gte"]
)
def test_a_time_that_is_no_time_in_utc_is_refused(
    api: APIClient, parameter: str, moment: str
) -> None:
    response = api.get(f"/api/v1/{parameter}={moment.replace('+', '%2B')}")
    assert (response.status_code, response.json()["code"]) == (400, "invalid_parameter")
    assert parameter.partition("?")[2] in response.json()["detail"]


@pytest.mark.parametrize("moment", EXTREME)
def test_an_extreme_expiry_is_refused(api: APIClient, moment: str) -> None:
    response = api.post("/api/v1/tokens/", {"name": "t", "expires_at": moment})
    assert response.status_code == 422
    assert response.json()["errors"][0]["pointer"] == "/expires_at"


@pytest.mark.parametrize(
    ("method", "route", "body", "pointer"),
    [
        ("patch", "placement-loop/", {"least_gain": True}, "/least_gain"),
        ("post", "shadows/", {"policy": "random", "share": True}, "/share"),
        ("post", "shadows/", {"policy": "expected", "parameters": {"width": True}, "share": 0.1},
         "/parameters/width"),
        ("post", "objectives/",
         {"name": "money", "label": "Money", "hours": [24], "curve": {"": [1]}, "weight": True},
         "/weight"),
        ("post", "applications/", {"name": "a", "kind": "batch", "labels": {"": "1"}}, "/labels/"),
        ("post", "applications/", {"name": "a", "kind": "batch", "labels": {"team": 1}},
         "/labels/team"),
        ("post", "applications/", {"name": "a", "kind": "batch", "labels": {"n" * 64: "x"}},
         f"/labels/{'n' * 64}"),
        ("post", "applications/",
         {"name": "a", "kind": "batch", "labels": {f"n{i}": "x" for i in range(65)}}, "/labels"),
    ],
)  # fmt: skip
def test_a_value_of_another_type_is_named(
    root: APIClient, method: str, route: str, body: dict[str, Any], pointer: str
) -> None:
    response = getattr(root, method)(f"/api/v1/{route}", body, HTTP_IF_MATCH='"g1"')
    assert response.status_code == 422, response.content
    assert [error["pointer"] for error in response.json()["errors"]] == [pointer]


def test_an_application_takes_the_labels_of_jobs(api: APIClient) -> None:
    labels = {"team/role": "", "n" * 63: "x" * 255}
    body = {"name": "a", "kind": "batch", "labels": labels}
    assert api.post("/api/v1/applications/", body).json()["labels"] == labels


def test_a_job_with_an_infinite_target_is_refused(api: APIClient) -> None:
    body = b'{"application": "a", "target": {"kind": "completion_time", "seconds": 1e400}}'
    response = send_raw(api, "/api/v1/jobs/", body, content_type="application/json")
    assert response.status_code == 422
    assert response.json()["errors"][0]["pointer"] == "/target/seconds"


def test_an_application_with_the_name_of_an_id_is_found_by_its_name(api: APIClient) -> None:
    name = "d41d8cd98f00b204e9800998ecf8427e"
    made = api.post("/api/v1/applications/", {"name": name, "kind": "batch"})
    assert api.get(f"/api/v1/applications/{name}/").json()["id"] == made.json()["id"]
    assert api.get(f"/api/v1/applications/{made.json()['id']}/").json()["name"] == name


@pytest.mark.parametrize(
    ("route", "body", "pointer"),
    [
        ("applications/", {"name": "sort/estimates", "kind": "batch"}, "/name"),
        ("jobs/", short(application="sort/estimates"), "/spec/application"),
        (
            "batches/",
            {"mode": "atomic", "items": [short(), short(application="sort/estimates")]},
            "/items/1/spec/application",
        ),
    ],
)
def test_a_new_application_has_an_address_of_its_own(
    api: APIClient, route: str, body: dict[str, Any], pointer: str
) -> None:
    response = api.post(f"/api/v1/{route}", body)
    assert response.status_code == 422
    assert response.json()["errors"] == [
        {
            "pointer": pointer,
            "code": "reserved",
            "detail": "must not end in /estimates, an address of the REST API,"
            " not 'sort/estimates'",
        }
    ]


def test_a_batch_rejects_only_the_jobs_of_an_application_without_an_address(
    api: APIClient,
) -> None:
    factories.application("known/estimates")
    names = ("sort", "sort/estimates", "known/estimates")
    items = [short(application=name, client_id=name) for name in names]
    response = api.post("/api/v1/batches/", {"items": items})
    assert response.status_code == 202, response.json()
    stored = api.get(f"/api/v1/batches/{response.json()['id']}/items/").json()["results"]
    assert [item["status"] for item in stored] == ["accepted", "rejected", "accepted"]
    (error,) = stored[1]["problem"]["errors"]
    assert error["pointer"] == "/items/1/spec/application"


def test_an_application_of_an_earlier_version_still_gets_jobs(api: APIClient) -> None:
    factories.application("sort/estimates")
    assert api.post("/api/v1/jobs/", short(application="sort/estimates")).status_code == 201


# ---- errors before the views of the API ----


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/api/", 404),
        ("GET", "/api/v2/jobs/", 404),
        ("POST", "/api/docs/", 405),
        ("DELETE", "/api/docs/", 405),
        ("GET", "/api", 404),
    ],
)
def test_errors_of_django_are_problems_under_api(
    api: APIClient, method: str, path: str, status: int
) -> None:
    response = api.generic(method, path)
    assert (response.status_code, response["Content-Type"]) == (status, PROBLEM)
    assert response.json()["status"] == status
    assert response.json()["instance"] == path
    assert response.json()["request_id"] == response["X-Request-ID"]


def test_a_wrong_method_keeps_its_allow_header(api: APIClient) -> None:
    assert api.post("/api/docs/")["Allow"] == "GET"


def test_an_unknown_host_is_a_problem(api: APIClient, settings: Settings) -> None:
    settings.ALLOWED_HOSTS = ["localhost"]
    response = api.get("/api/v1/me/", headers={"Host": "evil.example"})
    assert (response.status_code, response["Content-Type"]) == (400, PROBLEM)


def test_an_error_of_middleware_is_a_problem(settings: Settings) -> None:
    client = APIClient(raise_request_exception=False)
    broken = "django.contrib.sessions.middleware.SessionMiddleware.process_request"
    with patch(broken, side_effect=RuntimeError("secret")):
        response = client.get("/api/v1/version/")
    assert (response.status_code, response["Content-Type"]) == (500, PROBLEM)
    assert response.json()["code"] == "internal_error"
    assert "secret" not in response.content.decode()


def test_pages_keep_their_error_pages(client: Client, db: None) -> None:
    assert client.get("/nothing/")["Content-Type"].startswith("text/html")


@given(st.sampled_from(range(400, 600)), st.text())
def test_any_error_under_api_becomes_a_problem(status: int, body: str) -> None:
    def broken(request: HttpRequest) -> HttpResponse:
        return HttpResponse(body.encode("utf-8", "replace"), status=status)

    response = ApiProblemMiddleware(broken)(RequestFactory().get("/api/x"))
    assert response["Content-Type"] == PROBLEM
    assert response.status_code == status
    assert f'"status": {status}'.encode() in response.content


@given(st.text(st.characters(codec="latin-1"), max_size=20), st.sampled_from(["path", "query"]))
def test_what_passes_the_check_can_be_stored(text: str, where: str) -> None:
    passed: list[str] = []

    def store(request: HttpRequest) -> HttpResponse:
        passed.extend([request.path_info, *request.GET, *request.GET.dict().values()])
        return HttpResponse()

    request = RequestFactory().get("/api/x", {text: text} if where == "query" else None)
    request.path_info = f"/api/{text if where == 'path' else 'x'}"
    InputMiddleware(store)(request)
    assert "\x00" not in "".join(passed)


# ---- logs ----


def test_a_path_forges_no_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    forged = f"{datetime.now(UTC):%Y-%m-%d} INFO berth: forged"
    caplog.handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
    logging.getLogger("gunicorn.error").warning("Error handling request %s", f"/x\r\n{forged}")
    lines = caplog.handler.format(caplog.records[0]).splitlines()
    assert lines == [f"WARNING Error handling request /x\\x0d\\x0a{forged}"]
