"""Responses conform to the OpenAPI schema."""

from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest
from pytest_django import DjangoDbBlocker

from apps.accounts.core.roles import Role
from apps.accounts.models import AuditEntry
from apps.accounts.services import create_user, ensure_project
from apps.placement.core.problem.curves import Curve
from apps.placement.core.problem.examples import InstanceSpec, generate_instance
from apps.placement.core.problem.instance_file import instance_to_json
from apps.placement.services.objectives import add_objective
from apps.placement.services.preference.activations import activate
from apps.placement.services.rebalancing.previews import open_preview
from apps.workloads.models import Application, Job
from tests import factories
from tests.api.cluster import build_cluster, place
from tests.api.conftest import client_of
from tests.api.samples import JOB, short, submitted
from tests.api.schema import check_answer, schema
from tests.placement.front_world import preference_set
from tests.placement.front_world import searched_front as a_front
from tests.placement.rebalancing_world import plan_to_move
from tests.rollback import rolled_back
from tests.scheduling import shadow_rows
from tests.testbed import lab_world


@pytest.fixture(scope="module")
def db(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """Keep one transaction for all tests; pytest-django's own ends with each test."""
    with django_db_blocker.unblock(), rolled_back():
        yield


@pytest.fixture(autouse=True)
def undone(world: dict[str, Any]) -> Iterator[None]:
    """Undo what a test writes."""
    with rolled_back():
        yield


@pytest.fixture(scope="module")
def world(db: None) -> dict[str, Any]:
    """One row of every kind, and ids for URLs."""
    ensure_project("default")
    operator = create_user(username="olga", password=None, role=Role.OPERATOR)
    admin = create_user(username="ada", password=None, role=Role.ADMIN)
    build_cluster()
    number = factories.library(("A", "B"))
    api = client_of(operator)
    job = submitted(api)
    decision = place(job)
    factories.sample(Job.objects.get(pk=job), 60.0)
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
    shadow = shadow_rows.shadow()
    shadow_rows.shadow_decision(shadow, decision)
    waiting = factories.job("waits", priority=9)
    proposal = factories.preemption_proposal(waiting)
    return {
        "api": api,
        "root": client_of(admin),
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


MATCHED = sorted(
    (path, method)
    for path, item in schema()["paths"].items()
    for method, operation in item.items()
    if any(each["name"] == "If-Match" for each in operation.get("parameters", ()))
)
EDITS: dict[str, Any] = {
    "/api/v1/arrays/{array_id}/": {"limit": 1},
    "/api/v1/objectives/{name}/": {"weight": 0.2},
    "/api/v1/plans/{key}/steps/": {"skip": [1]},
    "/api/v1/policies/default/": {"policy": "random", "reason": "r"},
    "/api/v1/preference-sets/{set_id}/activate/": {"message": "m"},
}


@pytest.mark.parametrize(("path", "method"), MATCHED)
def test_an_operation_that_takes_if_match_refuses_an_older_version(
    path: str, method: str, world: dict[str, Any]
) -> None:
    send = getattr(world["root"], method)
    response = send(address(path, world), EDITS.get(path, {}), HTTP_IF_MATCH='"g0"')
    assert response.status_code == 412, response.content


def test_problems_match_the_schema(world: dict[str, Any]) -> None:
    body = world["api"].post("/api/v1/jobs/", short(tasks=0)).json()
    problem_schema = {"$ref": "#/components/schemas/Problem", "components": schema()["components"]}
    described = schema()["components"]["schemas"]["Problem"]
    assert set(described["required"]) == described["properties"].keys() == body.keys()
    assert body["errors"][0]["pointer"] == "/tasks"
    assert not list(jsonschema.Draft202012Validator(problem_schema).iter_errors(body))
