"""The OpenAPI schema is valid and complete, and its limits are those that hold."""

from typing import Any

import pytest
from django.urls import URLPattern, URLResolver, get_resolver
from drf_spectacular.drainage import GENERATOR_STATS
from drf_spectacular.generators import EndpointEnumerator
from drf_spectacular.validation import validate_schema
from rest_framework.test import APIClient

from apps.common.api.views import ApiView
from apps.common.core.errors import InvalidInputError
from apps.common.core.problem_codes import ProblemCode
from apps.workloads.core.spec import parse_job
from tests.api.samples import short
from tests.api.schema import schema


def test_the_schema_is_valid_and_made_without_warnings(
    capsys: pytest.CaptureFixture[str],
) -> None:
    GENERATOR_STATS.reset()
    schema.cache_clear()
    validate_schema(schema())  # type: ignore[no-untyped-call]  # untyped package
    assert not GENERATOR_STATS
    assert schema()["openapi"] == "3.1.0"


def operations() -> list[tuple[str, str, dict[str, Any]]]:
    return [
        (path, method, operation)
        for path, item in schema()["paths"].items()
        for method, operation in item.items()
    ]


def test_every_operation_has_a_name_of_its_own_and_a_summary() -> None:
    names = [operation["operationId"] for _, _, operation in operations()]
    assert len(names) == len(set(names))
    assert [op["operationId"] for _, _, op in operations() if not op.get("summary")] == []


def test_every_operation_promises_problems() -> None:
    missing = [op["operationId"] for _, _, op in operations() if "default" not in op["responses"]]
    assert missing == []


CREATE_WITHOUT_KEY = {
    "/api/v1/stream/tickets/",  # each pass is good once
    "/api/v1/previews/",  # kept for minutes; a new one stops the one before
    "/api/v1/jobs/{job_id}/cancel/",  # creates nothing
    "/api/v1/jobs/{job_id}/suspend/",  # likewise, and so may be repeated
    "/api/v1/jobs/{job_id}/resume/",
    "/api/v1/agents/enrolment-tokens/",  # the response is a secret, which is not stored
    "/api/v1/agents/enrol/",  # likewise; an enrolment token is good once
    "/api/v1/agents/credential/",  # likewise; the credential before it is good until its use
    "/api/v1/comparisons/{comparison_id}/resume/",  # continues one
}


def test_every_request_that_creates_something_takes_an_idempotency_key() -> None:
    creating = {
        path: {header["name"] for header in operation.get("parameters", ())}
        for path, method, operation in operations()
        if method == "post" and {"201", "202"} & operation["responses"].keys()
    }
    assert len(creating) >= 18
    without = {path for path, names in creating.items() if "Idempotency-Key" not in names}
    assert without == CREATE_WITHOUT_KEY


def endpoints() -> Any:
    enumerator: Any = EndpointEnumerator  # untyped
    return enumerator().get_api_endpoints()


def test_a_write_without_a_body_in_the_schema_refuses_one() -> None:
    writes = [
        (path, method, callback.cls.takes_body)
        for path, _, method, callback in endpoints()
        if path.endswith("/") and method != "GET" and issubclass(callback.cls, ApiView)
    ]
    for path, method, takes_body in writes:
        declared = "requestBody" in schema()["paths"][path][method.lower()]
        assert declared == (takes_body and method != "DELETE"), (method, path)


def header(operation: dict[str, Any], name: str) -> dict[str, Any]:
    """Return a header that a request may have; empty if it may not."""
    found: list[dict[str, Any]] = [p for p in operation.get("parameters", ()) if p["name"] == name]
    return found[0] if found else {}


def test_every_edit_takes_the_version_that_was_read() -> None:
    edits = [op for _, method, op in operations() if method in {"patch", "put"}]
    assert len(edits) >= 10
    assert [op["operationId"] for op in edits if not header(op, "If-Match")] == []


def test_what_changes_the_whole_cluster_needs_the_version_that_was_read() -> None:
    needing = {
        operation["operationId"]
        for _, _, operation in operations()
        if header(operation, "If-Match").get("required")
    }
    assert needing == {
        "policies_default_replace",
        "plans_approve_create",
        "preference_sets_activate_create",
    }


def test_only_json_has_fields_to_select() -> None:
    others = {
        path: {parameter["name"] for parameter in operation.get("parameters", ())}
        for path, method, operation in operations()
        if method == "get"
        and "application/json" not in operation["responses"]["200"].get("content", ())
    }
    assert "/api/v1/jobs/{job_id}/output/" in others
    assert [path for path, names in others.items() if names & {"fields", "omit"}] == []


def test_the_codes_of_problems_are_listed() -> None:
    codes = schema()["components"]["schemas"]["ProblemCodeEnum"]["enum"]
    assert set(codes) == {code.value for code in ProblemCode}


def api_routes(patterns: Any, prefix: str = "") -> list[str]:
    routes: list[str] = []
    for pattern in patterns:
        if isinstance(pattern, URLResolver):
            routes += api_routes(pattern.url_patterns, prefix + str(pattern.pattern))
        elif isinstance(pattern, URLPattern) and pattern.name:
            routes.append(prefix + str(pattern.pattern))
    return routes


def test_every_address_of_the_api_is_in_the_schema() -> None:
    routes = {r for r in api_routes(get_resolver().url_patterns) if r.startswith("api/v1/")}
    routes -= {"api/v1/", "api/v1/schema/"}  # the catch-all, and the schema itself
    assert len(routes) == len(schema()["paths"])


@pytest.mark.parametrize("url", ["/api/v1/schema/", "/api/v1/schema/?format=json"])
def test_the_schema_is_served_to_everybody(url: str) -> None:
    assert APIClient().get(url).status_code == 200


def test_the_docs_page_loads_nothing_from_elsewhere() -> None:
    response = APIClient().get("/api/docs/")
    page = response.content.decode()
    assert response.status_code == 200
    assert "http://" not in page
    assert "https://" not in page
    assert "<script>" not in page
    assert "style=" not in page


def unlimited(part: dict[str, Any], where: str, open_: frozenset[str]) -> list[str]:
    """Return the places of a request schema whose numbers, texts or lists have no limit."""
    if "$ref" in part:
        name = part["$ref"].rpartition("/")[2]
        target = schema()["components"]["schemas"][name]
        return [] if name in open_ else unlimited(target, where, open_ | {name})
    types = part.get("type", [])
    kinds = set(types if isinstance(types, list) else [types])
    limits = {
        "integer": {"minimum", "maximum"},
        "number": {"minimum", "maximum"},
        "array": {"maxItems"},
    }
    missing = any(not needed <= part.keys() for kind, needed in limits.items() if kind in kinds)
    closed = {"maxLength", "enum", "const", "format", "pattern"} & part.keys()
    found = [where] if missing or ("string" in kinds and not closed) else []
    for name, child in part.get("properties", {}).items():
        found += unlimited(child, f"{where}/{name}", open_)
    for child in [*part.get("allOf", []), *part.get("anyOf", []), *part.get("oneOf", [])]:
        found += unlimited(child, where, open_)
    return found + (unlimited(part["items"], f"{where}/0", open_) if "items" in part else [])


@pytest.mark.parametrize(
    "operation",
    [operation for _, _, operation in operations() if "requestBody" in operation],
    ids=lambda operation: operation["operationId"],
)
def test_every_field_of_a_request_has_its_limits(operation: dict[str, Any]) -> None:
    for content in operation["requestBody"]["content"].values():
        assert unlimited(content["schema"], "", frozenset()) == []


def number_fields(name: str) -> list[tuple[str, float, float]]:
    fields = schema()["components"]["schemas"][name]["properties"]
    return [(key, f["minimum"], f["maximum"]) for key, f in fields.items() if "minimum" in f]


KIND_OF: dict[str, dict[str, Any]] = {
    "seconds": {"kind": "completion_time"},
    "qps": {"kind": "throughput_latency", "latency_seconds": 1.0},
    "latency_seconds": {"kind": "throughput_latency", "qps": 1.0},
    "percentile": {"kind": "throughput_latency", "qps": 1.0, "latency_seconds": 1.0},
    "ips": {"kind": "ips"},
}
NEEDED_BY: dict[str, dict[str, Any]] = {
    "progress_every_seconds": {"command": ["true"], "progress_command": ["true"]}
}


@pytest.mark.parametrize(("name", "low", "high"), number_fields("TargetRequest"))
def test_the_limits_of_a_target_are_those_that_hold(name: str, low: float, high: float) -> None:
    for value in (low, high):
        parse_job(short(target={**KIND_OF[name], name: value}))
    for value in (low * 0.99, high * 1.01):
        with pytest.raises(InvalidInputError, match=name):
            parse_job(short(target={**KIND_OF[name], name: value}))


@pytest.mark.parametrize(("name", "low", "high"), number_fields("JobSpecRequest"))
def test_the_limits_of_a_job_are_those_that_hold(name: str, low: float, high: float) -> None:
    step = 1 if isinstance(low, int) else 1e-6
    needed = NEEDED_BY.get(name, {})
    for value in (low, high):
        parse_job(short(**needed, **{name: value}))
    for value in (low - step, high + (1 if step == 1 else 1e3)):
        with pytest.raises(InvalidInputError, match=name):
            parse_job(short(**needed, **{name: value}))
