"""REST API of plans, previews and the loop: bodies, errors and permissions."""

from typing import Any

import pytest
from rest_framework.test import APIClient

from apps.placement.models import Plan
from apps.placement.services.rebalancing.evaluation import evaluate_plan
from apps.placement.services.rebalancing.executor import execute_plans
from apps.placement.services.rebalancing.plan_requests import process_plan_requests
from apps.placement.services.rebalancing.planner import measure_effect
from tests.placement import rebalancing_world as world
from tests.placement.conftest import Stage
from tests.placement.rebalancing_world import create_plan, new_migration

PLANS = "/api/v1/plans/"
LOOP = "/api/v1/placement-loop/"
PREVIEWS = "/api/v1/previews/"


def proposed(stage: Stage) -> Plan:
    return create_plan(
        new_migration(0, stage.one, stage.servers[2], bundle=0),
        new_migration(1, stage.two, stage.servers[2], bundle=1),
    )


def tag(client: APIClient, plan: Plan) -> str:
    return str(client.get(f"{PLANS}{plan.pk}/")["ETag"])


def post(client: APIClient, plan: Plan, action: str, match: str = "") -> Any:
    named: dict[str, Any] = {"HTTP_IF_MATCH": match} if match else {}
    return client.post(f"{PLANS}{plan.pk}/{action}/", {}, format="json", **named)


# ---- reading ----


def test_a_plan_is_shown_with_all_fields(power: APIClient, stage: Stage) -> None:
    plan = proposed(stage)
    body = power.get(f"{PLANS}{plan.pk}/").json()
    assert body["name"] == "p-0001"
    assert body["state"] == "proposed"
    assert body["actions"] == ["approve", "cancel"]
    assert body["weights"] == world.WEIGHTS
    assert body["moves"] == {
        "total": 2, "waiting": 2, "moving": 0, "done": 0, "skipped": 0, "failed": 0,
        "cancelled": 0, "left_out": 0,
    }  # fmt: skip
    assert body["predicted"]["before"] == world.BEFORE
    assert body["realised"] is None


def test_a_plan_is_found_by_name(power: APIClient, stage: Stage) -> None:
    plan = proposed(stage)
    assert power.get(f"{PLANS}p-0001/").json()["id"] == str(plan.pk)


@pytest.mark.parametrize("key", ["p-0099", "nope", "01890000-0000-7000-8000-000000000000"])
def test_an_unknown_plan_is_not_found(power: APIClient, stage: Stage, key: str) -> None:
    assert power.get(f"{PLANS}{key}/").status_code == 404


def test_plans_are_listed_newest_first_and_by_state(power: APIClient, stage: Stage) -> None:
    proposed(stage)
    proposed(stage)
    names = [plan["name"] for plan in power.get(PLANS).json()["results"]]
    waiting = power.get(f"{PLANS}?state=proposed").json()["results"]
    assert names == ["p-0002", "p-0001"]
    assert [plan["name"] for plan in waiting] == ["p-0002"]
    assert "jobs" not in waiting[0]["predicted"]


def test_the_number_of_queries_does_not_depend_on_the_number_of_plans(
    power: APIClient, stage: Stage, django_assert_max_num_queries: Any
) -> None:
    for _ in range(4):
        proposed(stage)
    with django_assert_max_num_queries(4):
        power.get(PLANS)


def test_steps_name_jobs_and_servers(power: APIClient, stage: Stage) -> None:
    plan = proposed(stage)
    first, second = power.get(f"{PLANS}{plan.pk}/steps/").json()["results"]
    assert (first["ordinal"], second["ordinal"]) == (0, 1)
    assert first["job"] == {"id": str(stage.one.pk), "name": "one"}
    assert (first["from_server"], first["to_server"], first["units"]) == ("s0", "s2", 2)
    assert (first["state"], first["purpose"]) == ("waiting", "empty")


@pytest.mark.parametrize("address", [PLANS, LOOP])
def test_a_project_operator_cannot_read_plans(
    viewer: Any, as_user: Any, stage: Stage, address: str
) -> None:
    response = as_user(viewer).get(address)
    assert (response.status_code, response.json()["code"]) == (403, "permission_denied")


def test_a_submitter_cannot_request_a_plan(api: APIClient, stage: Stage) -> None:
    assert api.post(PLANS, {}, format="json").status_code == 403


# ---- creation ----


def test_a_worker_processes_a_plan_request(power: APIClient, stage: Stage) -> None:
    world.running_job("stays", (stage.servers[2], 1))
    response = power.post(PLANS, {}, format="json")
    assert response.status_code == 202
    operation = response.json()["id"]
    assert response["Location"] == f"/api/v1/operations/{operation}/"
    process_plan_requests()
    done = power.get(f"/api/v1/operations/{operation}/").json()
    assert (done["status"], done["result"]["name"]) == ("succeeded", "p-0001")


def test_an_idempotency_key_creates_one_operation(power: APIClient, stage: Stage) -> None:
    first, again = (
        power.post(PLANS, {}, format="json", HTTP_IDEMPOTENCY_KEY="k1") for _ in range(2)
    )
    assert first.json()["id"] == again.json()["id"]
    assert again["Idempotency-Replayed"] == "true"


def test_a_plan_request_needs_weights_in_force(power: APIClient, stage: Stage) -> None:
    world.deactivate()
    response = power.post(PLANS, {}, format="json")
    assert (response.status_code, response.json()["code"]) == (409, "state_conflict")


# ---- actions ----


def test_an_approval_requires_the_current_version(power: APIClient, stage: Stage) -> None:
    plan = proposed(stage)
    bare = post(power, plan, "approve")
    assert (bare.status_code, bare.json()["code"]) == (428, "precondition_required")
    stale = post(power, plan, "approve", '"g99"')
    assert (stale.status_code, stale.json()["code"]) == (412, "precondition_failed")
    done = post(power, plan, "approve", tag(power, plan))
    assert (done.status_code, done.json()["state"]) == (200, "approved")
    assert done.json()["approved_by"] == "olga"


def test_an_approval_says_what_changed_since_the_proposal(power: APIClient, stage: Stage) -> None:
    world.running_job("stays", (stage.servers[2], 1))
    promised = {"before": {"watts": 260.0, "F": 0.7}, "after": {"watts": 220.0, "F": 0.6}}
    plan = create_plan(
        new_migration(0, stage.one, stage.servers[2], bundle=0),
        new_migration(1, stage.two, stage.servers[2], bundle=1),
        predicted=promised,
    )
    match = tag(power, plan)
    body = power.get(f"{PLANS}{plan.pk}/").json()
    assert (body["rebased_at"], body["changes"], body["difference"]) == (None, [], "")
    world.end_job(stage.two)
    body = post(power, plan, "approve", match).json()
    assert body["state"] == "approved"
    assert body["rebased_at"] is not None
    assert body["rebased_cluster_seconds"] == world.NOW_S
    assert body["changes"] == [
        {
            "bundle": 1,
            "change": "dropped",
            "reason": "two ended",
            "purpose": "empty",
            "about": "s0",
            "gain": 0.05,
            "cluster_seconds": world.NOW_S,
        }
    ]
    assert body["proposed"] == {**promised, "moves": 2, "bundles": 2}
    assert body["gain_left"] == pytest.approx((40.0 / 360.0) / 0.1)
    assert body["difference"] == (
        "1 of 2 bundles dropped; 111 % of the proposed gain is left; saves 40 W instead of 40 W."
    )
    assert body["moves"]["left_out"] == 1


def test_approving_a_superseded_plan_has_its_own_code(power: APIClient, stage: Stage) -> None:
    plan = proposed(stage)
    match = tag(power, plan)
    world.end_job(stage.one)
    world.end_job(stage.two)
    response = post(power, plan, "approve", match)
    assert (response.status_code, response.json()["code"]) == (409, "plan_superseded")
    assert (
        response.json()["detail"]
        == "p-0001 is superseded: all of its 2 bundles were dropped: one ended; two ended."
    )
    assert power.get(f"{PLANS}p-0001/").json()["state"] == "superseded"


def test_a_plan_is_paused_resumed_and_cancelled(power: APIClient, stage: Stage) -> None:
    plan = proposed(stage)
    post(power, plan, "approve", tag(power, plan))
    execute_plans()
    states = [
        post(power, plan, action).json()["state"] for action in ("pause", "resume", "cancel")
    ]
    assert states == ["paused", "running", "cancelled"]


@pytest.mark.parametrize("action", ["pause", "resume"])
def test_a_proposed_plan_cannot_be_paused(power: APIClient, stage: Stage, action: str) -> None:
    response = post(power, proposed(stage), action)
    assert (response.status_code, response.json()["code"]) == (409, "state_conflict")


@pytest.mark.parametrize("action", ["approve", "pause", "resume", "cancel", "rollback"])
def test_a_submitter_cannot_change_a_plan(api: APIClient, stage: Stage, action: str) -> None:
    assert post(api, proposed(stage), action, '"g1"').status_code == 403


# ---- exclusion of migrations ----


def approve(client: APIClient, plan: Plan, skipped: list[int]) -> Any:
    return client.post(
        f"{PLANS}{plan.pk}/approve/",
        {"skipped": skipped},
        format="json",
        HTTP_IF_MATCH=tag(client, plan),
    )


def left_out(client: APIClient, plan: Plan, *ordinals: int) -> None:
    client.patch(f"{PLANS}{plan.pk}/steps/", {"skip": ordinals}, format="json")


def test_an_approval_is_refused_if_a_bundle_shown_as_left_out_is_included(
    power: APIClient, stage: Stage
) -> None:
    plan = proposed(stage)
    response = approve(power, plan, [1])
    assert (response.status_code, response.json()["code"]) == (409, "state_conflict")
    assert response.json()["detail"] == (
        "p-0001 differs from what you see: 1 bundle shown as left out would be carried out. "
        "Recompute it first."
    )
    assert power.get(f"{PLANS}p-0001/").json()["state"] == "proposed"


def test_an_approval_is_refused_if_a_bundle_shown_as_included_is_left_out(
    power: APIClient, stage: Stage
) -> None:
    plan = proposed(stage)
    left_out(power, plan, 1)
    response = approve(power, plan, [])
    assert response.status_code == 409
    assert "1 bundle shown as included would be left out" in response.json()["detail"]


def test_a_plan_approved_as_shown_is_executed(power: APIClient, stage: Stage) -> None:
    plan = proposed(stage)
    left_out(power, plan, 1)
    response = approve(power, plan, [1])
    assert (response.status_code, response.json()["state"]) == (200, "approved")


def test_an_approval_with_an_unknown_ordinal_is_refused(power: APIClient, stage: Stage) -> None:
    response = approve(power, proposed(stage), [7])
    assert response.status_code == 422
    assert response.json()["errors"][0] == {
        "pointer": "/skipped", "code": "unknown", "detail": "there is no migration 7"
    }  # fmt: skip


def test_migrations_are_left_out(power: APIClient, stage: Stage) -> None:
    plan = proposed(stage)
    response = power.patch(f"{PLANS}{plan.pk}/steps/", {"skip": [1]}, format="json")
    body = response.json()
    assert (response.status_code, body["skipped"], body["notes"]) == (200, [1], [])
    assert body["plan"]["moves"]["skipped"] == 1
    assert body["plan"]["predicted"]["moves"] == 1
    assert response["ETag"].startswith('"g2-')


def test_an_unknown_ordinal_is_named(power: APIClient, stage: Stage) -> None:
    plan = proposed(stage)
    response = power.patch(f"{PLANS}{plan.pk}/steps/", {"skip": [7]}, format="json")
    assert response.status_code == 422
    assert response.json()["errors"][0]["pointer"] == "/skip"


def test_leaving_out_requires_the_current_version(power: APIClient, stage: Stage) -> None:
    plan = proposed(stage)
    response = power.patch(
        f"{PLANS}{plan.pk}/steps/", {"skip": [1]}, format="json", HTTP_IF_MATCH='"g7"'
    )
    assert response.status_code == 412


def test_a_plan_whose_containers_all_ended_cannot_be_trimmed(
    power: APIClient, stage: Stage
) -> None:
    plan = proposed(stage)
    world.end_job(stage.two)
    response = power.patch(f"{PLANS}{plan.pk}/steps/", {"skip": [0]}, format="json")
    assert (response.status_code, response.json()["code"]) == (409, "plan_superseded")


# ---- rollback and deletion ----


def ended(stage: Stage) -> Plan:
    world.running_job("stays", (stage.servers[2], 1))
    plan = create_plan(new_migration(0, stage.one, stage.servers[2]), approve=True)
    execute_plans()
    world.finish_migrations()
    execute_plans()
    evaluate_plan(plan.pk, measure=measure_effect)
    return plan


def test_the_verification_compares_predicted_and_realised_gain(
    power: APIClient, stage: Stage
) -> None:
    body = power.get(f"{PLANS}{ended(stage).pk}/verification/").json()
    assert body["predicted_gain"] == pytest.approx(0.1)
    assert body["realised_gain"] == pytest.approx(40.0 / 360.0)
    assert body["share"] == pytest.approx(400.0 / 360.0)
    assert body["realised"]["moves"]["done"] == 1
    assert body["verdict"].startswith("111 % of the predicted gain")


def test_the_realised_gain_is_null_until_the_plan_has_ended(
    power: APIClient, stage: Stage
) -> None:
    body = power.get(f"{PLANS}{proposed(stage).pk}/verification/").json()
    assert (body["realised"], body["realised_gain"], body["share"]) == (None, None, None)


def test_a_rollback_is_a_plan_that_reverses_another(power: APIClient, stage: Stage) -> None:
    plan = ended(stage)
    assert power.get(f"{PLANS}p-0001/").json()["actions"] == ["rollback"]
    response = power.post(f"{PLANS}{plan.pk}/rollback/", {"approve": True}, format="json")
    assert response.status_code == 202
    process_plan_requests()
    back = power.get(f"{PLANS}p-0002/").json()
    assert (back["state"], back["cause"], back["reverses"]["name"]) == (
        "approved", "reverse", "p-0001"
    )  # fmt: skip


def test_a_plan_without_migrations_cannot_be_rolled_back(power: APIClient, stage: Stage) -> None:
    plan = proposed(stage)
    post(power, plan, "cancel")
    assert post(power, plan, "rollback").status_code == 409


# ---- previews ----


def request_preview(client: APIClient, **values: Any) -> Any:
    body = {"weights": {"P": 1.0}, "limit_seconds": 5.0, **values}
    return client.post(PREVIEWS, body, format="json")


def test_a_preview_is_requested_read_and_stopped(power: APIClient, stage: Stage) -> None:
    response = request_preview(power)
    assert response.status_code == 202
    address = f"{PREVIEWS}{response.json()['id']}/"
    assert response["Location"] == f"/api/v1/previews/{response.json()['id']}/"
    preview = power.get(address).json()
    assert preview["state"] == "done"
    assert set(preview["answer"]) >= {
        "refined", "seconds", "gap", "F_before", "F_after", "before", "after", "moves"
    }  # fmt: skip
    assert power.delete(address).status_code == 204


@pytest.mark.parametrize(
    ("values", "pointer"),
    [
        ({"weights": {"X": 1.0}}, "/weights"),
        ({"weights": {"P": 0.0}}, "/weights"),
        ({"weights": {"P": -1.0}}, "/weights/P"),
        ({"weights": {"P": "much"}}, "/weights/P"),
        ({"racks": ["nowhere"]}, "/racks"),
        ({"limit_seconds": 61.0}, "/limit_seconds"),
        ({"colour": "red"}, "/colour"),
    ],
)
def test_invalid_fields_of_a_preview_are_named(
    power: APIClient, stage: Stage, values: Any, pointer: str
) -> None:
    response = request_preview(power, **values)
    assert response.status_code == 422
    assert [problem["pointer"] for problem in response.json()["errors"]] == [pointer]


def test_previews_of_others_are_not_shown(power: APIClient, as_user: Any, stage: Stage) -> None:
    preview_id = request_preview(power).json()["id"]
    assert as_user(stage.by).get(f"{PREVIEWS}{preview_id}/").status_code == 404


# ---- the loop ----


def test_the_loop_is_off_by_default(power: APIClient, stage: Stage) -> None:
    body = power.get(LOOP).json()
    assert (body["mode"], body["every_seconds"], body["finding"]) == ("off", 60.0, "")


def test_each_setting_of_the_loop_can_be_changed(power: APIClient, stage: Stage) -> None:
    before = power.get(LOOP)
    after = power.patch(
        LOOP, {"mode": "advise", "every_seconds": 30.0}, format="json",
        HTTP_IF_MATCH=before["ETag"],
    )  # fmt: skip
    assert after.status_code == 200
    assert after.json() == {
        **before.json(), "mode": "advise", "every_seconds": 30.0, "generation": 2
    }  # fmt: skip


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"mode": "sometimes"}, "/mode"),
        ({"every_seconds": 0.5}, "/every_seconds"),
        ({"moves_per_job": 0}, "/moves_per_job"),
        ({"looked_cluster_seconds": 3.0}, "/looked_cluster_seconds"),
    ],
)
def test_invalid_settings_are_named(
    power: APIClient, stage: Stage, change: dict[str, Any], pointer: str
) -> None:
    response = power.patch(LOOP, change, format="json")
    assert response.status_code == 422
    assert response.json()["errors"][0]["pointer"] == pointer


def test_changing_settings_requires_the_current_version(power: APIClient, stage: Stage) -> None:
    response = power.patch(LOOP, {"mode": "advise"}, format="json", HTTP_IF_MATCH='"g9"')
    assert response.status_code == 412


def test_a_submitter_cannot_change_the_loop(api: APIClient, stage: Stage) -> None:
    assert api.patch(LOOP, {"mode": "automatic"}, format="json").status_code == 403
