"""REST API of objectives, and the effect of a custom one on the running cluster."""

from typing import Any

import pytest
from rest_framework.test import APIClient

from apps.accounts.core.roles import Role
from apps.accounts.models import User
from apps.accounts.services import create_user
from apps.placement.core.rebalancing import cluster as live
from apps.placement.models import CurveObjective
from apps.placement.selectors.cluster import read_cluster
from apps.placement.selectors.objectives import effective_weights
from tests import factories
from tests.api.conftest import Speak

pytestmark = pytest.mark.django_db
MONEY: dict[str, Any] = {
    "name": "money",
    "label": "Energy cost",
    "unit": "EUR",
    "hours": [8, 16],
    "curve": {"": [0.1, 0.3], "rack-b": [0.2, 0.2]},
    "weight": 0.5,
}


@pytest.fixture
def admin(as_user: Speak) -> APIClient:
    factories.cluster()
    factories.server("s0", rack="rack-a")
    factories.server("s1", rack="rack-b")
    return as_user(create_user(username="ada", password=None, role=Role.ADMIN))


def post(who: APIClient, body: dict[str, Any]) -> Any:
    return who.post("/api/v1/objectives/", body, format="json")


def test_built_in_objectives_are_listed_before_custom_ones(admin: APIClient) -> None:
    assert post(admin, MONEY).status_code == 201
    results = admin.get("/api/v1/objectives/").json()["results"]
    assert [row["name"] for row in results] == ["P", "D", "C", "M", "money"]
    assert [row["is_built_in"] for row in results] == [True] * 4 + [False]
    assert results[-1]["curve"] == {"": [0.1, 0.3], "rack-b": [0.2, 0.2]}
    assert results[0]["weight"] is None


def test_a_custom_objective_prices_the_power_of_the_running_cluster(admin: APIClient) -> None:
    post(admin, MONEY)
    job = factories.job(state="running", started_s=3600.0)
    factories.allocation(job, factories.server("s2", rack="rack-b"))
    cluster = read_cluster()
    metrics = live.metrics_json(
        cluster, cluster.assignment, effective_weights({"P": 1.0, "D": 0.0, "C": 0.0})
    )
    # 40 W idle and a quarter of 80 more, 24 h at 0.2 a kilowatt-hour
    assert metrics["charged"] == {"money": pytest.approx(0.06 * 24 * 0.2)}
    upper_limit = (0.12 * (0.8 + 4.8)) + 2 * 0.12 * 4.8
    assert metrics["F"] == pytest.approx(
        60.0 / 360.0 + 0.5 * metrics["charged"]["money"] / upper_limit
    )


def test_changing_a_weight_requires_the_current_version(admin: APIClient) -> None:
    post(admin, MONEY)
    there = "/api/v1/objectives/money/"
    tag = admin.get(there)["ETag"]
    assert admin.patch(there, {"weight": 0.0}, format="json", HTTP_IF_MATCH=tag).status_code == 200
    assert admin.patch(there, {"weight": 1}, format="json", HTTP_IF_MATCH=tag).status_code == 412
    assert effective_weights({"P": 1.0}) == {"P": 1.0}
    assert CurveObjective.objects.get().weight == 0.0


def test_an_objective_is_removed(admin: APIClient) -> None:
    post(admin, MONEY)
    assert admin.delete("/api/v1/objectives/money/").status_code == 204
    assert admin.get("/api/v1/objectives/money/").status_code == 404
    assert admin.delete("/api/v1/objectives/money/").status_code == 404


def test_a_name_is_unique(admin: APIClient) -> None:
    post(admin, MONEY)
    assert post(admin, MONEY).status_code == 409


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"name": "Money"}, "/name"),
        ({"name": 7}, ""),
        ({"hours": [24]}, "/curve/"),
        ({"curve": {"rack-a": [1, 1]}}, "/curve"),
        ({"curve": {"": [1, "x"]}}, "/curve//1"),
        ({"price": 3}, "/price"),
        ({"weight": -1}, "/weight"),
    ],
)
def test_invalid_fields_of_an_objective_are_named(
    admin: APIClient, change: dict[str, Any], pointer: str
) -> None:
    answer = post(admin, {**MONEY, **change})
    assert answer.status_code == 422
    assert pointer in [error["pointer"] for error in answer.json()["errors"]]


def test_only_administrators_add_objectives(
    admin: APIClient, power: APIClient, viewer: User, as_user: Speak
) -> None:
    assert post(power, MONEY).status_code == 403
    assert as_user(viewer).get("/api/v1/objectives/").status_code == 200
