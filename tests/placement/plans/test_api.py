"""Plans, previews and the loop over REST: shapes, errors, who may."""

from typing import Any

import pytest
from rest_framework.test import APIClient

from apps.placement.models import Plan
from apps.placement.services.carrying import carry_out
from apps.placement.services.making import make_plans
from apps.placement.services.proposing import compare
from apps.placement.services.settling import settle
from tests.placement.plans import world
from tests.placement.plans.conftest import Stage
from tests.placement.plans.world import new_move, written

PLANS = "/api/v1/plans/"
LOOP = "/api/v1/placement-loop/"
PREVIEWS = "/api/v1/previews/"


def proposed(stage: Stage) -> Plan:
    return written(
        new_move(0, stage.one, stage.servers[2], bundle=0),
        new_move(1, stage.two, stage.servers[2], bundle=1),
    )


def tag(client: APIClient, plan: Plan) -> str:
    return str(client.get(f"{PLANS}{plan.pk}/")["ETag"])


def post(client: APIClient, plan: Plan, action: str, match: str = "") -> Any:
    named: dict[str, Any] = {"HTTP_IF_MATCH": match} if match else {}
    return client.post(f"{PLANS}{plan.pk}/{action}/", {}, format="json", **named)


# ---- reading ----


def test_a_plan_is_shown_whole(power: APIClient, stage: Stage) -> None:
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


def test_its_name_is_an_address_too(power: APIClient, stage: Stage) -> None:
    plan = proposed(stage)
    assert power.get(f"{PLANS}p-0001/").json()["id"] == str(plan.pk)


@pytest.mark.parametrize("key", ["p-0099", "nope", "01890000-0000-7000-8000-000000000000"])
def test_there_must_be_such_a_plan(power: APIClient, stage: Stage, key: str) -> None:
    assert power.get(f"{PLANS}{key}/").status_code == 404


def test_plans_are_listed_newest_first_and_by_state(power: APIClient, stage: Stage) -> None:
    proposed(stage)
    proposed(stage)
    names = [plan["name"] for plan in power.get(PLANS).json()["results"]]
    waiting = power.get(f"{PLANS}?state=proposed").json()["results"]
    assert names == ["p-0002", "p-0001"]
    assert [plan["name"] for plan in waiting] == ["p-0002"]
    assert "jobs" not in waiting[0]["predicted"]


def test_a_list_costs_the_same_queries_whatever_its_length(
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
def test_who_looks_after_one_project_sees_nothing_of_all(
    viewer: Any, as_user: Any, stage: Stage, address: str
) -> None:
    answer = as_user(viewer).get(address)
    assert (answer.status_code, answer.json()["code"]) == (403, "permission_denied")


def test_submitters_make_no_plans(api: APIClient, stage: Stage) -> None:
    assert api.post(PLANS, {}, format="json").status_code == 403


# ---- making ----


def test_a_plan_is_made_by_a_worker(power: APIClient, stage: Stage) -> None:
    world.running("stays", (stage.servers[2], 1))
    answer = power.post(PLANS, {}, format="json")
    assert answer.status_code == 202
    operation = answer.json()["id"]
    assert answer["Location"] == f"/api/v1/operations/{operation}/"
    make_plans()
    done = power.get(f"/api/v1/operations/{operation}/").json()
    assert (done["status"], done["result"]["name"]) == ("succeeded", "p-0001")


def test_a_key_makes_one_operation(power: APIClient, stage: Stage) -> None:
    first, again = (
        power.post(PLANS, {}, format="json", HTTP_IDEMPOTENCY_KEY="k1") for _ in range(2)
    )
    assert first.json()["id"] == again.json()["id"]
    assert again["Idempotency-Replayed"] == "true"


def test_without_weights_there_is_nothing_to_plan_by(power: APIClient, stage: Stage) -> None:
    world.deactivate()
    answer = power.post(PLANS, {}, format="json")
    assert (answer.status_code, answer.json()["code"]) == (409, "state_conflict")


# ---- acting ----


def test_approving_takes_the_version_that_was_looked_at(power: APIClient, stage: Stage) -> None:
    plan = proposed(stage)
    bare = post(power, plan, "approve")
    assert (bare.status_code, bare.json()["code"]) == (428, "precondition_required")
    stale = post(power, plan, "approve", '"g99"')
    assert (stale.status_code, stale.json()["code"]) == (412, "precondition_failed")
    done = post(power, plan, "approve", tag(power, plan))
    assert (done.status_code, done.json()["state"]) == (200, "approved")
    assert done.json()["approved_by"] == "olga"


def test_a_plan_that_no_longer_fits_is_a_conflict_of_its_own(
    power: APIClient, stage: Stage
) -> None:
    plan = proposed(stage)
    match = tag(power, plan)
    world.end_job(stage.one)
    world.end_job(stage.two)
    answer = post(power, plan, "approve", match)
    assert (answer.status_code, answer.json()["code"]) == (409, "plan_superseded")
    assert answer.json()["detail"] == "p-0001 is superseded: 2 containers of it ended or moved."
    assert power.get(f"{PLANS}p-0001/").json()["state"] == "superseded"


def test_a_plan_is_paused_resumed_and_cancelled(power: APIClient, stage: Stage) -> None:
    plan = proposed(stage)
    post(power, plan, "approve", tag(power, plan))
    carry_out()
    states = [
        post(power, plan, action).json()["state"] for action in ("pause", "resume", "cancel")
    ]
    assert states == ["paused", "running", "cancelled"]


@pytest.mark.parametrize("action", ["pause", "resume"])
def test_what_has_not_begun_cannot_be_paused(power: APIClient, stage: Stage, action: str) -> None:
    answer = post(power, proposed(stage), action)
    assert (answer.status_code, answer.json()["code"]) == (409, "state_conflict")


@pytest.mark.parametrize("action", ["approve", "pause", "resume", "cancel", "rollback"])
def test_submitters_do_nothing_to_plans(api: APIClient, stage: Stage, action: str) -> None:
    assert post(api, proposed(stage), action, '"g1"').status_code == 403


# ---- leaving out ----


def approve(client: APIClient, plan: Plan, skipped: list[int]) -> Any:
    return client.post(
        f"{PLANS}{plan.pk}/approve/",
        {"skipped": skipped},
        format="json",
        HTTP_IF_MATCH=tag(client, plan),
    )


def left_out(client: APIClient, plan: Plan, *ordinals: int) -> None:
    client.patch(f"{PLANS}{plan.pk}/steps/", {"skip": ordinals}, format="json")


def test_what_is_seen_as_left_out_is_never_carried_out(power: APIClient, stage: Stage) -> None:
    plan = proposed(stage)
    answer = approve(power, plan, [1])
    assert (answer.status_code, answer.json()["code"]) == (409, "state_conflict")
    assert answer.json()["detail"] == (
        "p-0001 is not as you see it: 1 bundle you see left out would be carried out. "
        "Recompute it first."
    )
    assert power.get(f"{PLANS}p-0001/").json()["state"] == "proposed"


def test_what_is_seen_as_taken_is_not_left_out_unsaid(power: APIClient, stage: Stage) -> None:
    plan = proposed(stage)
    left_out(power, plan, 1)
    answer = approve(power, plan, [])
    assert answer.status_code == 409
    assert "1 bundle you see taken would be left out" in answer.json()["detail"]


def test_what_is_approved_as_it_is_seen_is_carried_out(power: APIClient, stage: Stage) -> None:
    plan = proposed(stage)
    left_out(power, plan, 1)
    answer = approve(power, plan, [1])
    assert (answer.status_code, answer.json()["state"]) == (200, "approved")


def test_a_move_that_is_seen_as_left_out_must_exist(power: APIClient, stage: Stage) -> None:
    answer = approve(power, proposed(stage), [7])
    assert answer.status_code == 422
    assert answer.json()["errors"][0] == {
        "pointer": "/skipped", "code": "unknown", "detail": "there is no move 7"
    }  # fmt: skip


def test_moves_are_left_out(power: APIClient, stage: Stage) -> None:
    plan = proposed(stage)
    answer = power.patch(f"{PLANS}{plan.pk}/steps/", {"skip": [1]}, format="json")
    body = answer.json()
    assert (answer.status_code, body["skipped"], body["notes"]) == (200, [1], [])
    assert body["plan"]["moves"]["skipped"] == 1
    assert body["plan"]["predicted"]["moves"] == 1
    assert answer["ETag"].startswith('"g2-')


def test_an_unknown_move_is_named(power: APIClient, stage: Stage) -> None:
    plan = proposed(stage)
    answer = power.patch(f"{PLANS}{plan.pk}/steps/", {"skip": [7]}, format="json")
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == "/skip"


def test_moves_are_left_out_of_the_version_that_was_looked_at(
    power: APIClient, stage: Stage
) -> None:
    plan = proposed(stage)
    answer = power.patch(
        f"{PLANS}{plan.pk}/steps/", {"skip": [1]}, format="json", HTTP_IF_MATCH='"g7"'
    )
    assert answer.status_code == 412


def test_what_is_gone_cannot_be_left_out(power: APIClient, stage: Stage) -> None:
    plan = proposed(stage)
    world.end_job(stage.two)
    answer = power.patch(f"{PLANS}{plan.pk}/steps/", {"skip": [0]}, format="json")
    assert (answer.status_code, answer.json()["code"]) == (409, "plan_superseded")


# ---- afterwards ----


def ended(stage: Stage) -> Plan:
    world.running("stays", (stage.servers[2], 1))
    plan = written(new_move(0, stage.one, stage.servers[2]), approve=True)
    carry_out()
    world.end_migrations()
    carry_out()
    settle(plan.pk, compare=compare)
    return plan


def test_the_verification_holds_both_sides_together(power: APIClient, stage: Stage) -> None:
    body = power.get(f"{PLANS}{ended(stage).pk}/verification/").json()
    assert body["predicted_gain"] == pytest.approx(0.1)
    assert body["realised_gain"] == pytest.approx(40.0 / 360.0)
    assert body["share"] == pytest.approx(400.0 / 360.0)
    assert body["realised"]["moves"]["done"] == 1
    assert body["verdict"].startswith("111 % of the gain")


def test_before_the_end_there_is_nothing_to_verify(power: APIClient, stage: Stage) -> None:
    body = power.get(f"{PLANS}{proposed(stage).pk}/verification/").json()
    assert (body["realised"], body["realised_gain"], body["share"]) == (None, None, None)


def test_a_plan_is_taken_back_by_another(power: APIClient, stage: Stage) -> None:
    plan = ended(stage)
    assert power.get(f"{PLANS}p-0001/").json()["actions"] == ["rollback"]
    answer = power.post(f"{PLANS}{plan.pk}/rollback/", {"approve": True}, format="json")
    assert answer.status_code == 202
    make_plans()
    back = power.get(f"{PLANS}p-0002/").json()
    assert (back["state"], back["cause"], back["reverses"]["name"]) == (
        "approved", "reverse", "p-0001"
    )  # fmt: skip


def test_what_moved_nothing_cannot_be_taken_back(power: APIClient, stage: Stage) -> None:
    plan = proposed(stage)
    post(power, plan, "cancel")
    assert post(power, plan, "rollback").status_code == 409


# ---- previews ----


def asked(client: APIClient, **values: Any) -> Any:
    body = {"weights": {"P": 1.0}, "limit_seconds": 5.0, **values}
    return client.post(PREVIEWS, body, format="json")


def test_a_preview_is_asked_for_read_and_stopped(power: APIClient, stage: Stage) -> None:
    made = asked(power)
    assert made.status_code == 202
    address = f"{PREVIEWS}{made.json()['id']}/"
    assert made["Location"] == f"/api/v1/previews/{made.json()['id']}/"
    found = power.get(address).json()
    assert found["state"] == "done"
    assert set(found["answer"]) >= {
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
def test_what_is_wrong_with_a_preview_is_named(
    power: APIClient, stage: Stage, values: Any, pointer: str
) -> None:
    answer = asked(power, **values)
    assert answer.status_code == 422
    assert [problem["pointer"] for problem in answer.json()["errors"]] == [pointer]


def test_previews_of_others_are_not_shown(power: APIClient, as_user: Any, stage: Stage) -> None:
    made = asked(power).json()["id"]
    assert as_user(stage.by).get(f"{PREVIEWS}{made}/").status_code == 404


# ---- the loop ----


def test_the_loop_is_off_until_somebody_sets_it(power: APIClient, stage: Stage) -> None:
    body = power.get(LOOP).json()
    assert (body["mode"], body["every_seconds"], body["finding"]) == ("off", 60.0, "")


def test_settings_of_the_loop_are_changed_one_by_one(power: APIClient, stage: Stage) -> None:
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
def test_what_is_wrong_with_a_setting_is_named(
    power: APIClient, stage: Stage, change: dict[str, Any], pointer: str
) -> None:
    answer = power.patch(LOOP, change, format="json")
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == pointer


def test_settings_are_changed_from_the_version_that_was_looked_at(
    power: APIClient, stage: Stage
) -> None:
    answer = power.patch(LOOP, {"mode": "advise"}, format="json", HTTP_IF_MATCH='"g9"')
    assert answer.status_code == 412


def test_submitters_do_not_set_the_loop(api: APIClient, stage: Stage) -> None:
    assert api.patch(LOOP, {"mode": "automatic"}, format="json").status_code == 403
