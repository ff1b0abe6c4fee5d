"""The Lab over REST."""

import json
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from rest_framework.test import APIClient

from apps.accounts.core.roles import Role
from apps.testbed.core.lab_bundle import rerun
from apps.testbed.core.lab_estimates import run_seconds
from apps.testbed.core.lab_runs import run_setting
from apps.testbed.models import LabComparison, LabRun, LabScenario
from apps.testbed.selectors.lab import compressed, slowness
from apps.testbed.services import lab_requests
from apps.testbed.services.lab_requests import estimate
from apps.testbed.services.lab_runs import run_open_comparison
from tests import factories
from tests.testbed import lab_world
from tests.testbed.lab_world import fake_runs, nothing

pytestmark = pytest.mark.django_db
SMALL = {
    "name": "small",
    "cluster": {"kind": "synthetic", "servers": 5},
    "workload": {"kind": "facebook", "jobs": 20},
}


def api(role: Role = Role.OPERATOR) -> APIClient:
    client = APIClient()
    client.force_login(factories.user("olga", role=role))
    return client


def test_the_lab_works_over_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_runs(monkeypatch, nothing)
    client = api()
    made = client.post(
        "/api/v1/scenarios/",
        SMALL | {"world": "measured", "failures": {"per_day": 2}},
        format="json",
    )
    assert made.status_code == 201
    assert made.json().items() >= {"jobs": 20, "servers": 5, "world": "measured"}.items()
    assert made.json()["origin"]["failures"] == {"per_day": 2.0, "repair_s": 3600.0}
    body = {
        "name": "three",
        "scenario": made.json()["id"],
        "settings": lab_world.SETTINGS,
        "seeds": [1, 2, 3],
        "baseline": "random",
        "bound": "truth",
    }
    begun = client.post("/api/v1/comparisons/", body, format="json")
    assert (begun.status_code, begun.json()["operation"]["total"]) == (202, 9)
    assert run_open_comparison()
    location = begun["Location"]
    shown = client.get(location).json()
    assert shown["runs_done"] == 9
    assert shown["result"]["verdict"].startswith("tarcil beats random")
    assert len(client.get(f"{location}runs/").json()["results"]) == 9
    listed = client.get("/api/v1/comparisons/").json()["results"]
    assert [row["id"] for row in listed] == [shown["id"]]
    assert "result" not in listed[0]
    assert client.delete(location).status_code == 204
    assert client.delete(made["Location"]).status_code == 204
    assert not LabScenario.objects.exists()


def test_a_comparison_resumes_over_rest() -> None:
    begun = lab_world.comparison()
    client = api()
    client.post(f"/api/v1/operations/{begun.operation_id}/cancel/", {}, format="json")
    resumed = client.post(f"/api/v1/comparisons/{begun.pk}/resume/", {}, format="json")
    assert (resumed.status_code, resumed.json()["operation"]["status"]) == (202, "pending")
    again = client.post(f"/api/v1/comparisons/{begun.pk}/resume/", {}, format="json")
    assert again.status_code == 409


@pytest.mark.parametrize(
    ("change", "pointer", "detail"),
    [
        ({"baseline": "x"}, "/baseline", "must be the name of a setting, not 'x'"),
        ({"bound": "x"}, "/bound", "must be the name of a setting, not 'x'"),
        ({"bound": "a"}, "/bound", "must be another setting than the baseline 'a'"),
        ({"seeds": [1, 1]}, "/seeds/1", "1 is there twice"),
        ({"options": {"policy": "x"}}, "policy", "must be one of expected, tarcil, "),
        ({"options": {"colour": 1}}, "colour", "unknown option; accepted: policy, profiles"),
        ({"options": {"world": "paper"}}, "world", "unknown option; accepted: policy, profiles"),
        ({"options": {"agents": 0}}, "agents", "must be a whole number from 1 to 64, not 0"),
        ({"options": {"agents": 1.5}}, "agents", "a whole number from 1 to 64, not 1.5"),
        ({"options": {"agents": "many"}}, "agents", "from 1 to 64, not 'many'"),
        ({"options": {"agents": True}}, "agents", "from 1 to 64, not True"),
        ({"options": {"retries": -1}}, "retries", "must be a whole number from 0 to 100, not -1"),
        ({"options": {"sync_s": None}}, "sync_s", "must be a number from 0 to 3600, not None"),
        ({"options": {"profiles": "x"}}, "profiles", "one of inferred, true, none, not 'x'"),
        ({"options": {"servers_share": 0}}, "servers_share", "a number from 0.05 to 1, not 0"),
        ({"options": {"arrival_scale": 11}}, "arrival_scale", "a number from 0.1 to 10, not 11"),
        (
            {"options": {"policy": "expected", "parameters": {"width": 0}}},
            "parameters/width",
            "width must be a number in 0.001 .. 1, not 0",
        ),
        (
            {"options": {"policy": "tarcil", "parameters": {"kept": 1}}},
            "parameters/kept",
            "tarcil has no parameters, so 'kept' cannot be set",
        ),
        ({"options": {"policy": []}}, "policy", "must be one of expected, tarcil, "),
        ({"options": {"parameters": 1}}, "parameters", "must be an object with parameters"),
        ({"options": {"admission": []}}, "admission", "must be one of shapes, fifo, count, tarc"),
        ({"options": {"weights": {"P": -1}}}, "weights", "must be weights of P, D and C of at l"),
        ({"options": {"weights": {}}}, "weights", "must be weights of P, D and C of at least 0"),
        ({"options": {"weights": 1}}, "weights", "must be weights of P, D and C of at least 0"),
        ({"options": {"rebalance_s": 1}}, "rebalance_s", "a number from 60 to 86400, not 1"),
    ],
    ids=[
        "baseline", "bound", "same", "seeds", "policy", "option", "world", "low", "part", "text",
        "boolean", "retries", "null", "profiles", "share", "load", "width", "unweighted",
        "listed", "object", "list", "negative", "no weights", "number", "interval",
    ],
)  # fmt: skip
def test_an_error_names_field_value_and_what_is_accepted(
    change: dict[str, Any], pointer: str, detail: str
) -> None:
    scenario = lab_world.comparison().scenario
    options = change.pop("options", None)
    if options is not None:
        change["settings"] = [{"name": "a", "options": options}]
        pointer = f"/settings/0/options/{pointer}"
    body = {
        "name": "n",
        "scenario": str(scenario.pk),
        "settings": [{"name": "a", "options": {"policy": "tarcil"}}],
        "seeds": [1, 2],
        "baseline": "a",
    }
    answer = api().post("/api/v1/comparisons/", body | change, format="json")
    assert answer.status_code == 422
    (error,) = answer.json()["errors"]
    assert error["pointer"] == pointer
    assert detail in error["detail"]
    assert LabComparison.objects.count() == 1


def test_jobs_that_cannot_be_read_are_named() -> None:
    scenario = lab_world.comparison().scenario
    LabScenario.objects.update(jobs=compressed(["{}"]))
    body = {
        "name": "n", "scenario": str(scenario.pk), "settings": lab_world.SETTINGS,
        "seeds": [1], "baseline": "random",
    }  # fmt: skip
    answer = api().post("/api/v1/comparisons/", body, format="json")
    assert answer.status_code == 409
    assert "cannot be read" in answer.json()["detail"]


def test_an_estimate_over_rest() -> None:
    body = {"jobs": 100, "servers": 10, "settings": 2, "seeds": 3}
    found = api().post("/api/v1/comparisons/estimate/", body, format="json").json()
    assert found["runs"] == 6
    assert found["seconds"] == pytest.approx(6 * run_seconds(100, 10))


def test_the_estimate_follows_the_measured_runs() -> None:
    before = estimate(jobs=1_000, servers=100, settings_count=4, seeds=5)
    assert (before.runs, slowness()) == (20, 1.0)
    lab_world.finished()
    LabRun.objects.update(wall_seconds=3.0 * run_seconds(20, 6))  # 20 jobs, 6 servers
    assert slowness() == pytest.approx(3.0)
    after = estimate(jobs=1_000, servers=100, settings_count=4, seeds=5)
    assert after.seconds == pytest.approx(3.0 * before.seconds)


def test_a_repeated_request_begins_one_comparison() -> None:
    scenario = lab_world.comparison().scenario
    client, body = api(), {
        "name": "n", "scenario": str(scenario.pk), "settings": lab_world.SETTINGS,
        "seeds": [1], "baseline": "random",
    }  # fmt: skip
    for _ in range(2):
        client.post("/api/v1/comparisons/", body, format="json", HTTP_IDEMPOTENCY_KEY="k1")
    assert LabComparison.objects.count() == 2


@pytest.mark.parametrize("path", ["scenarios", "comparisons"], ids=["scenario", "comparison"])
def test_an_unknown_id_is_not_found(path: str) -> None:
    client, url = api(), f"/api/v1/{path}/{uuid4()}/"
    assert (client.get(url).status_code, client.delete(url).status_code) == (404, 404)


def test_a_list_of_comparisons_needs_no_query_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lab_requests, "MAX_OPEN", 20)
    client = api()

    def queries() -> int:
        with CaptureQueriesContext(
            connection,
        ) as made:
            assert client.get("/api/v1/comparisons/").status_code == 200
        return len(made)

    lab_world.comparison(by=factories.user("first"))
    before = queries()
    for name in ("second", "third"):
        lab_world.comparison(by=factories.user(name))
    assert queries() == before


def test_a_bundle_repeats_its_records_bit_for_bit() -> None:
    begun = lab_world.comparison(seeds=(1,))
    assert run_open_comparison()
    response = api().get(f"/api/v1/comparisons/{begun.pk}/bundle/")
    assert "attachment" in response["Content-Disposition"]
    content = json.loads(response.content)
    again = rerun(content, lambda plan, setting, seed: run_setting(plan, setting, seed).record)
    assert (again.compared, again.differing) == (3, ())
