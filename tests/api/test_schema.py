"""The OpenAPI schema is valid and complete, and responses conform to it."""

from functools import cache
from typing import Any

import jsonschema
import pytest
from django.urls import URLPattern, URLResolver, get_resolver
from drf_spectacular.drainage import GENERATOR_STATS
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.validation import validate_schema
from rest_framework.test import APIClient

from apps.accounts.models import AuditEntry, User
from apps.common.core.errors import InvalidInputError
from apps.common.core.problem_codes import ProblemCode
from apps.placement.core.problem.curves import Curve
from apps.placement.core.problem.examples import InstanceSpec, generate_instance
from apps.placement.core.problem.instance_file import instance_to_json
from apps.placement.services.objectives import add_objective
from apps.placement.services.preference.activations import activate
from apps.placement.services.rebalancing.previews import open_preview
from apps.workloads.core.spec import parse_job
from apps.workloads.models import Application, Job
from tests import factories
from tests.api.cluster import build_cluster, place
from tests.api.conftest import Speak
from tests.api.samples import JOB, short, submitted
from tests.placement.front_world import preference_set
from tests.placement.front_world import searched_front as a_front
from tests.placement.rebalancing_world import plan_to_move
from tests.testbed import lab_world


@cache
def schema() -> dict[str, Any]:
    generator: Any = SchemaGenerator  # untyped
    document: dict[str, Any] = generator().get_schema(request=None, public=True)
    return document


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


@pytest.fixture
def world(db: None, operator: User, admin: User, as_user: Speak) -> dict[str, Any]:
    """One row of every kind, and ids for URLs."""
    build_cluster()
    number = factories.library(("A", "B"))
    api = as_user(operator)
    job = submitted(api)
    decision = place(job)
    about = Application.objects.get(name="hadoop-17")
    factories.profile(about, platforms=("A", "B"))
    run = factories.profiling_run(about, state="done")
    batch = api.post("/api/v1/batches/", {"items": [short(), short(tasks=0)]}).json()
    a_front(
        operator,
        generate_instance(InstanceSpec(containers=60, nodes=60, nodes_per_rack=20, largest=8), 2),
    )
    array = api.post("/api/v1/arrays/", {**short(), "array": {"size": 2}}).json()
    plan_to_move(operator, Job.objects.get(pk=job))
    add_objective("money", Curve("Cost", "EUR", (24.0,), {"": (0.3,)}), weight=0.1, by=operator.pk)
    chosen = preference_set(operator, "night")
    in_force = activate(chosen.pk, message="m", expected=None, by=operator.pk)
    comparison = lab_world.finished(by=operator)
    shadow = factories.shadow()
    factories.shadow_decision(shadow, decision)
    waiting = factories.job("waits", priority=9)
    proposal = factories.preemption_proposal(waiting)
    return {
        "api": api,
        "root": as_user(admin),
        "entry_id": AuditEntry.objects.latest("id").pk,
        "index": 0,
        "set_id": str(chosen.pk),
        "activation_id": in_force.pk,
        "preview_id": str(open_preview(operator.pk)),
        "job_id": job,
        "decision_id": str(decision.pk),
        "scenario_id": str(comparison.scenario_id),
        "comparison_id": str(comparison.pk),
        "shadow_id": str(shadow.pk),
        "proposal_id": proposal.pk,
        "pair_id": str(factories.measured_pair().pk),
        "batch_id": batch["id"],
        "array_id": array["id"],
        "number": number,
        "run_id": str(run.pk),
        "name": "base_rate",
        "operation_id": batch["operation"],
        "platform_id": api.get("/api/v1/platforms/").json()["results"][0]["metadata"]["id"],
        "token_id": api.get("/api/v1/tokens/").json()["results"][0]["id"],
    }


def address(path: str, world: dict[str, Any]) -> str:
    """Fill the parameters of a path template with ids and the key of its resource."""
    by_key = {
        "applications": "hadoop-17",
        "servers": "srv-1",
        "fronts": "f-0001",
        "plans": "p-0001",
        "users": "olga",
        "projects": "default",
    }
    about = path.split("/")[3]
    name = "money" if about == "objectives" else world["name"]
    return path.format(**{**world, "name": name, "key": by_key.get(about, "")})


def check_answer(path: str, method: str, status: int, body: Any, *, absent: str = "Brief") -> None:
    """Validate a response against the schema of its operation.

    No part of it may be of a component whose name ends in `absent`.
    """
    response = schema()["paths"][path][method]["responses"][str(status)]
    declared = response["content"]["application/json"]["schema"]
    components: dict[str, Any] = {
        name: False if name.endswith(absent) else component
        for name, component in schema()["components"]["schemas"].items()
    }
    jsonschema.validate(
        body,
        {**declared, "components": {"schemas": components}},
        cls=jsonschema.Draft202012Validator,
        format_checker=jsonschema.FormatChecker(),
    )


NOT_JSON = {
    *("/api/v1/stream/", "/api/v1/schema/", "/api/v1/audit/export/"),
    "/api/v1/jobs/{job_id}/output/",
    "/api/v1/jobs/{job_id}/files/",
}
# of decisions by agents, which `tests/scheduling/test_counterfactuals.py` makes
NOT_MADE = {"/api/v1/decisions/{decision_id}/flips/"}
# only administrators read it
ADMINISTRATION = {"audit", "users", "report-keys", "blocked-sign-ins"}


def reader(path: str, world: dict[str, Any]) -> Any:
    """Return the client of a user who may read a resource."""
    return world["root" if path.split("/")[3] in ADMINISTRATION else "api"]


READS = sorted(
    path
    for path, item in schema()["paths"].items()
    if "get" in item and path not in NOT_JSON | NOT_MADE
)


@pytest.mark.parametrize("path", READS)
def test_read_responses_match_the_schema(path: str, world: dict[str, Any]) -> None:
    response = reader(path, world).get(address(path, world))
    assert response.status_code == 200, response.content
    check_answer(path, "get", 200, response.json())


LISTS = [
    path
    for path in READS
    if any(p["name"] == "brief" for p in schema()["paths"][path]["get"]["parameters"])
]


@pytest.mark.parametrize("path", LISTS)
def test_brief_rows_match_the_schema(path: str, world: dict[str, Any]) -> None:
    response = reader(path, world).get(address(path, world), {"brief": "true"})
    page = schema()["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]
    row = schema()["components"]["schemas"][page["schema"]["$ref"].rpartition("/")[2]]
    row_name = row["properties"]["results"]["items"]["anyOf"][0]["$ref"].rpartition("/")[2]
    check_answer(path, "get", 200, response.json(), absent=f"/{row_name}")
    brief = schema()["components"]["schemas"][row_name + "Brief"]
    assert brief["properties"]
    for given in response.json()["results"]:
        assert given.keys() == brief["properties"].keys()


@pytest.mark.parametrize("path", READS)
def test_304_is_declared_where_it_is_sent(path: str, world: dict[str, Any]) -> None:
    response = reader(path, world).get(address(path, world), headers={"If-None-Match": "*"})
    operation = schema()["paths"][path]["get"]
    assert ("304" in operation["responses"]) == (response.status_code == 304)
    names = {parameter["name"] for parameter in operation["parameters"]}
    assert ("If-None-Match" in names) == (response.status_code == 304)


@pytest.mark.parametrize("path", READS)
def test_every_accepted_query_parameter_is_declared(path: str, world: dict[str, Any]) -> None:
    refused = reader(path, world).get(address(path, world), {"no_such_parameter": "1"})
    assert refused.status_code == 400
    known = refused.json()["detail"].partition("known: ")[2].rstrip(".").split(", ")
    parameters = schema()["paths"][path]["get"]["parameters"]
    assert sorted(p["name"] for p in parameters if p["in"] == "query") == known


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


CORRECTION = {
    "cells": [{"matrix": "caused", "column": "l1i", "value": 20}],
    "reason": "measured on the bench",
}
DIRECT = {"front": "f-0001", "rule": "direct", "wanted": {"P": 1.0, "D": 2.0, "C": 0.5}}
PICKED = {"front": "f-0001", "picks": {screen: [0, 1, 2, 3] for screen in ("P-D", "P-C", "D-C")}}
A_FRONT = {
    "source": "instance",
    "instance": instance_to_json(generate_instance(InstanceSpec(8, nodes_per_rack=4), 0)),
}
WRITES = [
    ("/api/v1/fronts/", A_FRONT, 202),
    ("/api/v1/preference-sets/", {**DIRECT, "name": "day"}, 201),
    ("/api/v1/preference-sets/derive/", PICKED, 200),
    ("/api/v1/preference-sets/check/", PICKED, 200),
    ("/api/v1/preference-sets/between/", {"front": "f-0001", "points": [0, 5]}, 200),
    ("/api/v1/weights/activations/{activation_id}/revert/", {"message": "m"}, 201),
    ("/api/v1/jobs/", JOB, 201),
    ("/api/v1/batches/", {"items": [JOB]}, 202),
    ("/api/v1/arrays/", {**JOB, "array": {"indexes": "0-4:2", "limit": 1}}, 201),
    ("/api/v1/arrays/{array_id}/cancel/", None, 200),
    ("/api/v1/jobs/{job_id}/rerun/", None, 201),
    ("/api/v1/jobs/{job_id}/cancel/", None, 202),
    ("/api/v1/tokens/", {"name": "t"}, 201),
    ("/api/v1/users/", {"username": "newcomer"}, 201),
    ("/api/v1/users/{key}/reset-password/", None, 201),
    ("/api/v1/users/{key}/tokens/", {"name": "t"}, 201),
    ("/api/v1/projects/", {"name": "night"}, 201),
    ("/api/v1/projects/{key}/members/", {"username": "olga", "role": "viewer"}, 200),
    ("/api/v1/applications/", {"name": "new", "kind": "batch"}, 201),
    ("/api/v1/servers/{key}/drain/", None, 200),
    ("/api/v1/stream/tickets/", None, 201),
    ("/api/v1/revisions/", None, 202),
    ("/api/v1/applications/{key}/overrides/", CORRECTION, 201),
    ("/api/v1/applications/{key}/overrides/preview/", CORRECTION, 200),
]


@pytest.mark.parametrize(("path", "body", "status"), WRITES)
def test_write_responses_match_the_schema(
    path: str, body: Any, status: int, world: dict[str, Any]
) -> None:
    caller = world["root" if path.split("/")[3] in {"users", "projects"} else "api"]
    response = caller.post(address(path, world), body)
    assert response.status_code == status, response.content
    check_answer(path, "post", status, response.json())


def test_problems_match_the_schema(world: dict[str, Any]) -> None:
    body = world["api"].post("/api/v1/jobs/", short(tasks=0)).json()
    problem_schema = {"$ref": "#/components/schemas/Problem", "components": schema()["components"]}
    described = schema()["components"]["schemas"]["Problem"]
    assert set(described["required"]) == described["properties"].keys() == body.keys()
    assert body["errors"][0]["pointer"] == "/tasks"
    assert not list(jsonschema.Draft202012Validator(problem_schema).iter_errors(body))
