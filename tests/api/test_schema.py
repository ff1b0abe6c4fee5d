"""The published schema is valid, complete, and what the answers really look like."""

from functools import cache
from typing import Any

import jsonschema
import pytest
from django.urls import URLPattern, URLResolver, get_resolver
from drf_spectacular.drainage import GENERATOR_STATS
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.validation import validate_schema
from rest_framework.test import APIClient

from apps.accounts.models import User
from apps.common.core.problem_codes import ProblemCode
from apps.placement.core.curves import Curve
from apps.placement.core.examples import Draw, draw
from apps.placement.core.instance_file import written
from apps.placement.services.activations import activate
from apps.placement.services.objectives import add_objective
from apps.placement.services.previews import open_preview
from apps.workloads.models import Application, Job
from tests import factories
from tests.api.cluster import build_cluster, place
from tests.api.conftest import Speak
from tests.api.samples import JOB, short, submitted
from tests.placement.made import a_set
from tests.placement.made import found as a_front
from tests.placement.plans.world import planned


@cache
def schema() -> dict[str, Any]:
    generator: Any = SchemaGenerator  # untyped
    made: dict[str, Any] = generator().get_schema(request=None, public=True)
    return made


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


def test_the_codes_of_problems_are_listed() -> None:
    codes = schema()["components"]["schemas"]["ProblemCodeEnum"]["enum"]
    assert set(codes) == {code.value for code in ProblemCode}


def api_routes(patterns: Any, prefix: str = "") -> list[str]:
    found: list[str] = []
    for pattern in patterns:
        if isinstance(pattern, URLResolver):
            found += api_routes(pattern.url_patterns, prefix + str(pattern.pattern))
        elif isinstance(pattern, URLPattern) and pattern.name:
            found.append(prefix + str(pattern.pattern))
    return found


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
def world(db: None, operator: User, as_user: Speak) -> dict[str, Any]:
    """One of everything, and ids to put into addresses."""
    build_cluster()
    number = factories.library(("A", "B"))
    api = as_user(operator)
    job = submitted(api)
    decision = place(job)
    about = Application.objects.get(name="hadoop-17")
    factories.profile(about, platforms=("A", "B"))
    run = factories.profiling_run(about, state="done")
    batch = api.post("/api/v1/batches/", {"items": [short(), short(tasks=0)]}).json()
    a_front(operator, draw(Draw(containers=60, nodes=60, nodes_per_rack=20, largest=8), 2))
    planned(operator, Job.objects.get(pk=job))
    add_objective("money", Curve("Cost", "EUR", (24.0,), {"": (0.3,)}), weight=0.1, by=operator.pk)
    chosen = a_set(operator, "night")
    in_force = activate(chosen.pk, message="m", expected=None, by=operator.pk)
    return {
        "api": api,
        "index": 0,
        "set_id": str(chosen.pk),
        "activation_id": in_force.pk,
        "preview_id": str(open_preview(operator.pk)),
        "job_id": job,
        "decision_id": str(decision.pk),
        "batch_id": batch["id"],
        "number": number,
        "run_id": str(run.pk),
        "name": "base_rate",
        "operation_id": batch["operation"],
        "platform_id": api.get("/api/v1/platforms/").json()["results"][0]["metadata"]["id"],
        "token_id": api.get("/api/v1/tokens/").json()["results"][0]["id"],
    }


def address(path: str, world: dict[str, Any]) -> str:
    """Put ids, and the key of what the address is about, into an address."""
    by_key = {
        "applications": "hadoop-17",
        "servers": "srv-1",
        "fronts": "f-0001",
        "plans": "p-0001",
    }
    about = path.split("/")[3]
    name = "money" if about == "objectives" else world["name"]
    return path.format(**{**world, "name": name, "key": by_key.get(about, "")})


def check_answer(path: str, method: str, status: int, body: Any) -> None:
    """Hold an answer against the schema of its operation."""
    response = schema()["paths"][path][method]["responses"][str(status)]
    wanted = response["content"]["application/json"]["schema"]
    jsonschema.validate(
        body,
        {**wanted, "components": schema()["components"]},
        cls=jsonschema.Draft202012Validator,
        format_checker=jsonschema.FormatChecker(),
    )


READS = sorted(
    path
    for path, item in schema()["paths"].items()
    if "get" in item and path not in {"/api/v1/stream/", "/api/v1/schema/"}
)


@pytest.mark.parametrize("path", READS)
def test_what_is_read_is_what_the_schema_says(path: str, world: dict[str, Any]) -> None:
    response = world["api"].get(address(path, world))
    assert response.status_code == 200, response.content
    check_answer(path, "get", 200, response.json())


CORRECTION = {
    "cells": [{"matrix": "caused", "column": "l1i", "value": 20}],
    "reason": "measured on the bench",
}
DIRECT = {"front": "f-0001", "rule": "direct", "wanted": {"P": 1.0, "D": 2.0, "C": 0.5}}
PICKED = {"front": "f-0001", "picks": {screen: [0, 1, 2, 3] for screen in ("P-D", "P-C", "D-C")}}
A_FRONT = {"source": "instance", "instance": written(draw(Draw(8, nodes_per_rack=4), 0))}
WRITES = [
    ("/api/v1/fronts/", A_FRONT, 202),
    ("/api/v1/preference-sets/", {**DIRECT, "name": "day"}, 201),
    ("/api/v1/preference-sets/derive/", PICKED, 200),
    ("/api/v1/preference-sets/check/", PICKED, 200),
    ("/api/v1/preference-sets/between/", {"front": "f-0001", "points": [0, 5]}, 200),
    ("/api/v1/weights/activations/{activation_id}/revert/", {"message": "m"}, 201),
    ("/api/v1/jobs/", JOB, 201),
    ("/api/v1/batches/", {"items": [JOB]}, 202),
    ("/api/v1/jobs/{job_id}/rerun/", None, 201),
    ("/api/v1/jobs/{job_id}/cancel/", None, 202),
    ("/api/v1/tokens/", {"name": "t"}, 201),
    ("/api/v1/applications/", {"name": "new", "kind": "batch"}, 201),
    ("/api/v1/servers/{key}/drain/", None, 200),
    ("/api/v1/stream/tickets/", None, 201),
    ("/api/v1/revisions/", None, 202),
    ("/api/v1/applications/{key}/overrides/", CORRECTION, 201),
    ("/api/v1/applications/{key}/overrides/preview/", CORRECTION, 200),
]


@pytest.mark.parametrize(("path", "body", "status"), WRITES)
def test_what_writes_answer_is_what_the_schema_says(
    path: str, body: Any, status: int, world: dict[str, Any]
) -> None:
    response = world["api"].post(address(path, world), body)
    assert response.status_code == status, response.content
    check_answer(path, "post", status, response.json())


def test_a_problem_is_what_the_schema_says(world: dict[str, Any]) -> None:
    body = world["api"].post("/api/v1/jobs/", short(tasks=0)).json()
    wanted = {"$ref": "#/components/schemas/Problem", "components": schema()["components"]}
    jsonschema.validate(body, wanted, cls=jsonschema.Draft202012Validator)
