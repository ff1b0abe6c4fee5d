"""What the audit log records of requests, its list and its export."""

import csv
import io
import json
from datetime import timedelta
from typing import Any
from urllib.parse import quote

import pytest
from django.db import connection, transaction
from django.utils import timezone
from rest_framework.test import APIClient

from apps.accounts.api.audit_views import FILTERS
from apps.accounts.infrastructure.actor import current_actor
from apps.accounts.models import AuditEntry, User
from apps.accounts.services import Act, record_act
from apps.inventory.models import Server, ServerState
from apps.inventory.services import set_server_state
from apps.placement.core.rebalancing.lifecycle import PlanState
from apps.placement.models import Activation, Plan
from apps.placement.services.preference.activations import check_guard
from apps.placement.services.rebalancing.plans import pause_plan, resume_plan
from apps.workloads.models import Application
from tests import factories
from tests.api.cluster import build_cluster
from tests.api.conftest import Speak
from tests.api.schema import schema
from tests.placement import rebalancing_world as moves
from tests.placement.front_world import preference_set

AUDIT = "/api/v1/audit/"
EXPORT = f"{AUDIT}export/"


def latest(action: str) -> AuditEntry:
    return AuditEntry.objects.filter(action=action).latest("id")


def test_draining_a_server_is_recorded_with_token_request_and_address(power: APIClient) -> None:
    build_cluster()
    power.post(
        "/api/v1/servers/srv-1/drain/", headers={"X-Request-ID": "abc-1"}, REMOTE_ADDR="192.0.2.9"
    )
    entry = latest("server.state_changed")
    assert (entry.username, entry.via, entry.token_name) == ("olga", "token", "test")
    assert (entry.before, entry.after) == ({"state": "active"}, {"state": "draining"})
    assert (entry.object_name, entry.request_id, entry.address) == ("srv-1", "abc-1", "192.0.2.9")


def test_the_actor_of_a_request_is_forgotten(power: APIClient) -> None:
    power.get("/api/v1/me/")
    assert current_actor().user_id is None


def test_a_server_that_already_drains_is_recorded_once(power: APIClient) -> None:
    build_cluster()
    for _ in range(2):
        power.post("/api/v1/servers/srv-1/drain/")
    assert AuditEntry.objects.filter(action="server.state_changed").count() == 1


def test_a_sweep_that_closes_a_server_is_no_administrative_act(db: None) -> None:
    build_cluster()
    server = Server.objects.get(name="srv-1")
    set_server_state(server_id=server.pk, state=ServerState.DOWN, only_from=ServerState.ACTIVE)
    assert not AuditEntry.objects.filter(action="server.state_changed").exists()


def test_importing_a_cluster_is_recorded(db: None) -> None:
    build_cluster()
    entry = latest("cluster.imported")
    added = {"servers": 3, "first": "srv-1", "last": "srv-3", "labels": ["zone"]}
    assert entry.after == {**added, "racks": ["r1"]}


def test_changing_an_application_is_recorded(power: APIClient, operator: User) -> None:
    factories.application("sort")
    power.patch("/api/v1/applications/sort/", {"labels": {"team": "search"}})
    entry = latest("application.updated")
    assert (entry.before or {})["labels"] == {}
    assert (entry.after or {})["labels"] == {"team": "search"}


def test_a_submitter_may_not_change_what_all_projects_share(api: APIClient) -> None:
    factories.application("sort")
    refused = api.patch("/api/v1/applications/sort/", {"labels": {"team": "mine"}})
    assert refused.status_code == 403
    assert Application.objects.get().labels == {}


def test_overrides_are_recorded_with_the_values_they_replace(
    power: APIClient, sort: Application
) -> None:
    for value in (20, 30):
        cells = [{"matrix": "caused", "column": "l1i", "value": value}]
        power.post("/api/v1/applications/sort/overrides/", {"cells": cells, "reason": "bench"})
    entry = latest("override.set")
    assert (entry.before, entry.after) == ({"caused[l1i]": 20.0}, {"caused[l1i]": 30.0})
    assert (entry.object_name, entry.message) == ("sort", "bench")
    power.delete("/api/v1/applications/sort/overrides/")
    assert latest("override.withdrawn").before == {"caused[l1i]": 30.0}


def activated(client: APIClient, operator: User, name: str, **values: Any) -> dict[str, Any]:
    chosen = preference_set(operator, name)
    made: dict[str, Any] = client.post(
        f"/api/v1/preference-sets/{chosen.pk}/activate/",
        {"message": f"for {name}", **values},
        headers={"If-Match": '"g1"'},
    ).json()
    return made


def test_activating_and_reverting_weights_is_recorded(power: APIClient, operator: User) -> None:
    factories.cluster()
    first = activated(power, operator, "night")
    second = activated(power, operator, "day")
    entry = latest("weights.activated")
    assert ((entry.before or {})["set"], (entry.after or {})["set"]) == ("night", "day")
    assert entry.message == "for day"
    power.post(f"/api/v1/weights/activations/{second['id']}/revert/", {"message": "too many"})
    entry = latest("weights.reverted")
    assert ((entry.before or {})["set"], (entry.after or {})["set"]) == ("day", "night")
    assert (entry.before or {})["activation"] == second["id"] == first["id"] + 1
    assert (entry.username, entry.message) == ("olga", "too many")


def test_a_guard_reverts_in_the_name_of_berth(power: APIClient, operator: User) -> None:
    factories.cluster()
    activated(power, operator, "night")
    guarded = activated(power, operator, "day", guard={"drop": 0.05, "seconds": 60})
    Activation.objects.filter(pk=guarded["id"]).update(met_before=1.0, low_since_s=0.0)
    factories.job(state="running", attainment=0.5)
    assert check_guard(7200.0) is not None
    entry = latest("weights.reverted")
    assert (entry.username, entry.via) == ("", "system")
    assert entry.message.startswith("Guard:")


def test_every_decision_about_a_plan_is_recorded(power: APIClient, operator: User) -> None:
    factories.cluster()
    moves.activate(operator)
    servers = moves.servers()
    job = moves.running_job("web", (servers[0], 2))
    plan = moves.plan_to_move(operator, job)
    tag = power.get(f"/api/v1/plans/{plan.pk}/")["ETag"]
    power.post(f"/api/v1/plans/{plan.pk}/approve/", {}, headers={"If-Match": tag})
    Plan.objects.filter(pk=plan.pk).update(state=PlanState.RUNNING)
    pause_plan(plan.pk)
    resume_plan(plan.pk)
    power.post(f"/api/v1/plans/{plan.pk}/cancel/")
    told = AuditEntry.objects.filter(object_kind="plan").order_by("id")
    actions = ["plan.approved", "plan.paused", "plan.resumed", "plan.cancelled"]
    assert [entry.action for entry in told] == actions
    approved = told[0]
    assert (approved.username, approved.object_name) == ("olga", str(plan))
    assert (approved.before, approved.after) == (
        {"state": PlanState.PROPOSED},
        {"state": PlanState.APPROVED},
    )


def test_settings_of_the_loop_are_recorded(power: APIClient) -> None:
    factories.cluster()
    power.patch("/api/v1/placement-loop/", {"mode": "automatic"})
    entry = latest("loop.updated")
    assert (entry.before, entry.after) == ({"mode": "off"}, {"mode": "automatic"})


def test_only_administrators_read_the_log(api: APIClient, power: APIClient) -> None:
    answers = [c.get(url).status_code for c in (api, power) for url in (AUDIT, f"{EXPORT}?as=csv")]
    assert answers == [403, 403, 403, 403]


def an_act(name: str, message: str = "") -> AuditEntry:
    with transaction.atomic():
        record_act(Act("server.state_changed", name, name, {"state": "active"}, None, message))
    return AuditEntry.objects.latest("id")


@pytest.mark.parametrize(
    "query",
    [
        "object_name=srv-2",
        "object_kind=server&object_id=srv-2",
        "action=server.state_changed&object_id=srv-2",
        "action__in=server.state_changed,x&object_id=srv-2",
        "via=system&object_id=srv-2",
    ],
)
def test_the_log_is_filtered(root: APIClient, query: str) -> None:
    an_act("srv-1")
    wanted = an_act("srv-2")
    rows = root.get(f"{AUDIT}?{query}").json()["results"]
    assert [row["id"] for row in rows] == [wanted.pk]
    assert rows[0]["before"] == {"state": "active"}


@pytest.fixture
def long_log(db: None) -> None:
    """20,000 acts on 2,000 servers in 10,000 requests."""
    now = timezone.now()
    AuditEntry.objects.bulk_create(
        [
            AuditEntry(
                at=now - timedelta(seconds=i),
                action=f"server.act_{i % 10}",
                via="token",
                username=f"user-{i % 200}",
                object_kind="server" if i % 20 else "plan",
                object_id=str(i % 2000),
                object_name=f"srv-{i % 2000}",
                request_id=f"r-{i // 2}",
            )
            for i in range(20_000)
        ],
        batch_size=5000,
    )
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE accounts_auditentry")


def test_a_page_of_a_long_log_reads_an_index_in_its_order(long_log: None) -> None:
    for values in (
        {},
        {"action": "server.act_7"},
        {"username": "user-7"},
        {"object_kind": "plan"},
        {"object_id": "7"},
        {"object_name": "srv-7"},
        {"object_kind": "server", "object_name": "srv-7"},
        {"request_id": "r-7"},
        {"at__lt": timezone.now() - timedelta(seconds=10_000)},
    ):
        plan = AuditEntry.objects.filter(**values).order_by("-at", "-id")[:51].explain()
        assert "Index Scan Backward" in plan, values
        assert "Sort" not in plan, values
        assert "Seq Scan" not in plan, values


def test_the_log_is_filtered_by_time(root: APIClient) -> None:
    entry = an_act("srv-1")
    later = quote((entry.at + timedelta(seconds=1)).isoformat())
    assert root.get(f"{AUDIT}?at__gte={later}").json()["results"] == []
    assert root.get(f"{AUDIT}?at__lt={later}").json()["results"][0]["id"] == entry.pk


def test_the_log_has_pages_newest_first(root: APIClient) -> None:
    entries = [an_act(f"srv-{i}").pk for i in range(3)]
    first = root.get(f"{AUDIT}?limit=2&object_kind=server").json()
    assert [row["id"] for row in first["results"]] == [entries[2], entries[1]]
    assert [row["id"] for row in root.get(first["next"]).json()["results"]] == [entries[0]]
    assert root.get(f"{AUDIT}{entries[0]}/").json()["object_name"] == "srv-0"
    assert root.get(f"{AUDIT}999999999/").status_code == 404


def exported(client: APIClient, name: str, query: str = "") -> str:
    response = client.get(f"{EXPORT}?as={name}{query}")
    assert response.status_code == 200
    assert f'filename="berth-audit.{name}"' in response["Content-Disposition"]
    return b"".join(response.streaming_content).decode()  # type: ignore[attr-defined]


def test_the_export_as_json_lines_has_every_match_oldest_first(root: APIClient) -> None:
    ids = [an_act(f"srv-{i}").pk for i in range(3)]
    lines = exported(root, "jsonl", "&object_kind=server").splitlines()
    rows = [json.loads(line) for line in lines]
    assert [row["id"] for row in rows] == ids
    assert rows[0] == root.get(f"{AUDIT}{ids[0]}/").json()


def test_the_export_as_csv_has_no_formulas(root: APIClient) -> None:
    an_act("srv-1", message='=HYPERLINK("http://evil.example")')
    text = exported(root, "csv", "&object_kind=server")
    (row,) = csv.DictReader(io.StringIO(text))
    assert row["message"] == """'=HYPERLINK("http://evil.example")"""
    assert json.loads(row["before"]) == {"state": "active"}
    assert (row["object_name"], row["via"]) == ("srv-1", "system")


def test_an_export_is_itself_recorded(root: APIClient) -> None:
    exported(root, "csv", "&via=system")
    entry = latest("audit.exported")
    assert (entry.username, entry.object_id) == ("ada", "csv")
    assert entry.after == {"as": "csv", "via": "system"}


@pytest.mark.parametrize("query", ["", "?as=xml", "?as=csv&colour=red", "?as=csv&via=pigeon"])
def test_an_export_that_is_not_understood_is_refused(root: APIClient, query: str) -> None:
    assert root.get(EXPORT + query).status_code == 400


@pytest.mark.parametrize("name", ["colour", "fields", "omit", "limit", "cursor", "ordering"])
def test_an_export_refuses_a_parameter_that_it_does_not_know(root: APIClient, name: str) -> None:
    response = root.get(f"{EXPORT}?as=csv&{name}=id")
    assert (response.status_code, response.json()["code"]) == (400, "unknown_parameter")
    assert response.json()["detail"].startswith(f"{name} is not a parameter of this route; known:")


def test_the_schema_of_the_export_names_the_parameters_that_it_accepts() -> None:
    declared = schema()["paths"]["/api/v1/audit/export/"]["get"]["parameters"]
    assert {row["name"] for row in declared if row["in"] == "query"} == {"as", *FILTERS}


@pytest.mark.django_db(transaction=True)
def test_the_export_streams_rows_in_portions(admin: User, as_user: Speak) -> None:
    """A server-side cursor reads 2,000 rows at a time, so memory does not grow with the log."""
    entry = {"via": "system", "action": "a.b", "object_kind": "a", "object_id": "1"}
    AuditEntry.objects.bulk_create(
        AuditEntry(at=timezone.now(), message=str(i), **entry) for i in range(4100)
    )
    response = as_user(admin).get(f"{EXPORT}?as=jsonl&object_kind=a")
    portions: Any = response.streaming_content  # type: ignore[attr-defined]
    first = next(portions)
    AuditEntry.objects.bulk_create([AuditEntry(at=timezone.now(), message="late", **entry)])
    rest = list(portions)
    assert json.loads(first)["message"] == "0"
    assert len(rest) == 4099
