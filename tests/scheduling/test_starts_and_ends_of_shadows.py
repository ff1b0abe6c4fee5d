"""Shadows are started within their limits, end, and are stopped; REST does the same."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.conf import settings
from django.utils import timezone
from pytest_django import Settings
from rest_framework.test import APIClient

from apps.accounts.core.roles import Role
from apps.accounts.models import AuditEntry
from apps.common.core.errors import ConflictError, InvalidInputError
from apps.execution.services.retention import execution_kinds
from apps.operations.services.retention import run_retention
from apps.scheduling.api.shadow_serializers import represent_shadow
from apps.scheduling.models import Decision, Shadow, ShadowDecision, ShadowEnd
from apps.scheduling.selectors.shadows import shadow_result
from apps.scheduling.services import shadow_turns
from apps.scheduling.services.shadow_turns import ShadowWorker
from apps.scheduling.services.shadows import prune_shadows, stop_shadow
from tests import factories
from tests.api.schema import check_answer
from tests.scheduling import policies_that_fail, shadow_rows
from tests.scheduling.shadow_world import (
    AT_ONCE,
    decide,
    followed,
    started,
    two_platforms,
    uninstall,
)

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def clock(db: None) -> None:
    factories.cluster(seen_cluster_s=3000.0)


# ---- ends ----


def test_a_shadow_ends_if_its_policy_is_not_installed_any_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    two_platforms()
    shadow = started("random")
    decide(2)
    followed(shadow)
    uninstall(monkeypatch, "random")
    found = followed(shadow)
    assert (found.end, found.decided) == (ShadowEnd.POLICY, 2)
    assert found.ended_at is not None
    assert shadow_result(found).total.decisions == 2


@pytest.mark.parametrize("fault", policies_that_fail.FAULTS)
def test_a_policy_that_fails_ends_its_shadow_and_no_other(
    fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    policies_that_fail.install(monkeypatch, "theirs", fault)
    two_platforms()
    first, other = started("theirs"), started("random")
    decide(3)
    found = followed(first)
    assert (found.end, found.decided, found.decisions.count()) == (ShadowEnd.FAILED, 0, 0)
    assert represent_shadow(found)["error"] == policies_that_fail.FAULTS[fault]
    other.refresh_from_db()
    assert (other.decided, other.ended_at, other.error) == (3, None, "")


def test_a_policy_that_fails_late_keeps_what_its_shadow_has_compared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    policies_that_fail.install(monkeypatch, "theirs", "none")
    two_platforms()
    shadow, worker = started("theirs"), ShadowWorker(settled=AT_ONCE)
    decide(2)
    assert followed(shadow, worker).decided == 2
    policies_that_fail.install(monkeypatch, "theirs", "raises")
    decide(2)
    found = followed(shadow)
    assert (found.end, found.decided, found.decisions.count()) == (ShadowEnd.FAILED, 2, 2)


def test_a_shadow_ends_at_its_time() -> None:
    two_platforms()
    shadow = started("random", until=timezone.now() + timedelta(hours=1))
    decide(2)
    assert followed(shadow).ended_at is None
    Shadow.objects.update(until=timezone.now())
    decide(2)
    found = followed(shadow)
    assert (found.end, found.decided) == (ShadowEnd.TIME, 2)


def test_a_shadow_ends_when_it_has_compared_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shadow_turns, "MAX_COMPARED", 3)
    two_platforms()
    shadow = started("random")
    decide(4)
    assert followed(shadow).end == ShadowEnd.FULL


def test_results_outlive_their_decisions_and_are_deleted_later() -> None:
    two_platforms()
    shadow = started("random")
    jobs = decide(3)
    followed(shadow)
    Decision.objects.filter(job__in=jobs).delete()
    assert shadow_result(shadow).total.decisions == 3
    stop_shadow(shadow.pk, by=None)
    kinds = [kind for kind in execution_kinds() if kind.name == "shadows"]
    run_retention(kinds)
    assert shadow.decisions.count() == 3
    long_ago = timezone.now() - timedelta(days=settings.BERTH_SHADOW_DAYS + 1)
    Shadow.objects.update(ended_at=long_ago)
    run_retention(kinds)
    assert (ShadowDecision.objects.count(), Shadow.objects.count()) == (0, 0)
    assert prune_shadows(before=None) == 0


# ---- start and stop ----


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"policy": "fifo"}, "/policy"),
        ({"parameters": {"speed": 1.0}}, "/parameters/speed"),
        ({"parameters": {"width": 99.0}}, "/parameters/width"),
        ({"parameters": {"agents": 2.0}}, "/parameters/agents"),
        ({"share": 0.6}, "/share"),
        ({"share": 0.0}, "/share"),
        ({"until": timezone.now() - timedelta(hours=1)}, "/until"),
    ],
    ids=["policy", "parameter", "value", "set by agents", "large", "nothing", "past"],
)
def test_an_invalid_shadow_names_its_field(
    fields: dict[str, Any], pointer: str, settings: Settings
) -> None:
    settings.MAX_SHADOW_SHARE = 0.5
    with pytest.raises(InvalidInputError) as caught:
        started(**{"share": 0.5, **fields})
    assert [problem.pointer for problem in caught.value.problems] == [pointer]
    assert not Shadow.objects.exists()


def test_a_shadow_that_ends_in_the_past_names_its_time() -> None:
    past = datetime(2020, 1, 2, tzinfo=UTC)
    with pytest.raises(InvalidInputError) as caught:
        started(until=past)
    (problem,) = caught.value.problems
    assert problem.detail == "must be in the future, not 2020-01-02T00:00:00+00:00"


def test_few_shadows_run_at_once(settings: Settings) -> None:
    settings.MAX_SHADOWS = 2
    first = started("random")
    started("tarcil")
    with pytest.raises(ConflictError, match="At most 2 shadow policies run at once"):
        started("slot_rr")
    stop_shadow(first.pk, by=None)
    started("slot_rr")
    assert Shadow.objects.filter(ended_at=None).count() == 2


def test_a_shadow_is_stopped_once() -> None:
    shadow = started("random")
    first = stop_shadow(shadow.pk, by=None)
    assert first.end == ShadowEnd.STOPPED
    assert stop_shadow(shadow.pk, by=None).ended_at == first.ended_at
    acts = AuditEntry.objects.order_by("id").values_list("action", flat=True)
    assert list(acts) == ["shadow.started", "shadow.stopped"]


# ---- REST ----


def client_of(role: Role) -> APIClient:
    client = APIClient()
    client.force_login(factories.user(role=role))
    return client


def test_a_shadow_is_started_read_and_stopped() -> None:
    two_platforms()
    client = client_of(Role.OPERATOR)
    body = {"policy": "random", "share": 1.0}
    headers = {"Idempotency-Key": "one"}
    created = client.post("/api/v1/shadows/", body, format="json", headers=headers)
    assert created.status_code == 201, created.content
    repeated = client.post("/api/v1/shadows/", body, format="json", headers=headers)
    assert repeated.json() == created.json()
    assert Shadow.objects.count() == 1
    address = created["Location"]
    decide(3)
    followed(Shadow.objects.get())
    found = client.get(address).json()
    check_answer("/api/v1/shadows/{shadow_id}/", "get", 200, found)
    assert (found["status"], found["seen"], found["decided"]) == ("running", 3, 3)
    assert found["result"]["both"] == 3
    assert [part["name"] for part in found["groups"]["kind"]] == ["one unit"]
    listed = client.get(f"{address}decisions/").json()
    check_answer("/api/v1/shadows/{shadow_id}/decisions/", "get", 200, listed)
    sizes = [abs(row["job_regret"] + row["neighbour_regret"]) for row in listed["results"]]
    assert sizes == sorted(sizes, reverse=True)
    stopped = client.post(f"{address}stop/").json()
    check_answer("/api/v1/shadows/{shadow_id}/stop/", "post", 200, stopped)
    assert (stopped["status"], stopped["end"]) == ("ended", "stopped")
    again = client.get("/api/v1/shadows/").json()
    check_answer("/api/v1/shadows/", "get", 200, again)
    assert [row["end"] for row in again["results"]] == ["stopped"]


def test_an_invalid_request_is_refused(settings: Settings) -> None:
    settings.MAX_SHADOWS = 1
    client = client_of(Role.OPERATOR)
    wrong = client.post("/api/v1/shadows/", {"policy": "fifo", "share": 2.0}, format="json")
    assert wrong.status_code == 422
    (error,) = wrong.json()["errors"]
    assert error["pointer"] == "/share"
    assert error["detail"].startswith("Accepted: 0.001 to 1.")
    assert client.post("/api/v1/shadows/", {"policy": "random"}, format="json").status_code == 201
    full = client.post("/api/v1/shadows/", {"policy": "random"}, format="json")
    assert full.status_code == 409


@pytest.mark.parametrize("role", [Role.VIEWER, Role.SUBMITTER])
def test_shadows_are_for_operators(role: Role) -> None:
    shadow, client = shadow_rows.shadow(), client_of(role)
    address = f"/api/v1/shadows/{shadow.pk}/"
    reads = [client.get(path).status_code for path in
             ("/api/v1/shadows/", address, f"{address}decisions/")]  # fmt: skip
    assert reads == [403, 403, 403]
    posted = client.post("/api/v1/shadows/", {"policy": "random"}, format="json")
    assert (posted.status_code, client.post(f"{address}stop/").status_code) == (403, 403)
    assert Shadow.objects.filter(ended_at=None).count() == 1
