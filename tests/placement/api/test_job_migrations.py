"""REST API of plans that migrate one job."""

from typing import Any

from rest_framework.test import APIClient

from apps.placement.services.rebalancing.plan_requests import process_plan_requests
from tests.placement import rebalancing_world as world
from tests.placement.conftest import Stage

PLANS = "/api/v1/plans/"


def migrate(client: APIClient, stage: Stage, **headers: str) -> Any:
    body = {
        "migration": {"job": str(stage.one.pk), "from_server": "s0", "to_server": "s2"},
        "approve": True,
    }
    return client.post(PLANS, body, format="json", headers=headers)


def test_a_plan_migrates_one_job_on_request(power: APIClient, stage: Stage) -> None:
    first = migrate(power, stage, **{"Idempotency-Key": "once"})
    again = migrate(power, stage, **{"Idempotency-Key": "once"})
    assert (first.status_code, again["Idempotency-Replayed"]) == (202, "true")
    process_plan_requests()
    plan = power.get(f"{PLANS}p-0001/").json()
    assert (plan["cause"], plan["state"]) == ("migrate", "approved")
    (step,) = power.get(f"{PLANS}p-0001/steps/").json()["results"]
    assert (step["purpose"], step["to_server"]) == ("target", "s2")


def test_a_migration_of_nothing_is_refused(power: APIClient, stage: Stage) -> None:
    world.end_job(stage.one)
    assert migrate(power, stage).status_code == 409
    unknown = {"migration": {"job": str(stage.one.pk), "from_server": "s8", "to_server": "s2"}}
    response = power.post(PLANS, unknown, format="json")
    assert [e["pointer"] for e in response.json()["errors"]] == ["/migration/from_server"]
    assert power.post(PLANS, {"approve": True}, format="json").status_code == 422


def test_only_operators_may_migrate_a_job(api: APIClient, stage: Stage) -> None:
    assert migrate(api, stage).status_code == 403
