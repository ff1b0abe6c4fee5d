"""Shadows: a second policy decides on the live decisions, without committing."""

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from django.conf import settings
from django.utils import timezone
from pytest_django import Settings
from rest_framework.test import APIClient

from apps.accounts.core.roles import Role
from apps.accounts.models import AuditEntry
from apps.common.core.errors import ConflictError, InvalidInputError
from apps.execution.services.retention import execution_kinds
from apps.inventory.core.cluster_file import parse_cluster
from apps.inventory.models import Change, ResourceUnit, ServerState
from apps.inventory.services import import_cluster
from apps.operations.services.retention import run_retention
from apps.scheduling.api.shadow_serializers import represent_shadow
from apps.scheduling.core import registry
from apps.scheduling.models import (
    Allocation,
    Decision,
    DecisionBatch,
    Shadow,
    ShadowDecision,
    ShadowEnd,
)
from apps.scheduling.selectors import read_copy
from apps.scheduling.selectors.shadows import shadow_result
from apps.scheduling.services import commit, release, shadow_turns
from apps.scheduling.services.agent import make_agent
from apps.scheduling.services.counterfactuals import Changes, counterfactual
from apps.scheduling.services.shadow_turns import ShadowWorker
from apps.scheduling.services.shadows import prune_shadows, start_shadow, stop_shadow
from apps.workloads.models import Job
from tests import factories
from tests.api.schema import check_answer
from tests.scheduling import policies_that_fail
from tests.scheduling.world import ME, build, claimed, known, proposal, put, waiting, work

pytestmark = pytest.mark.django_db
BEST_EFFORT = {"target": {"kind": "best_effort"}}
AT_ONCE = timedelta(0)


@pytest.fixture(autouse=True)
def clock(db: None) -> None:
    factories.cluster(seen_cluster_s=3000.0)


def started(policy: str = "expected", **fields: Any) -> Shadow:
    values = {"parameters": {}, "share": 1.0, "until": None, "by": None, **fields}
    return start_shadow(policy=policy, **values)


def uninstall(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Take a policy out of the registry; put back, the others keep their order."""
    kept = {other: entry for other, entry in registry.POLICIES.items() if other != name}
    monkeypatch.setattr(registry, "POLICIES", kept)


def followed(shadow: Shadow, worker: ShadowWorker | None = None) -> Shadow:
    """The shadow after a turn with plenty of time."""
    (worker or ShadowWorker(settled=AT_ONCE)).turn(budget_s=60.0)
    shadow.refresh_from_db()
    return shadow


def hold(copy: Any, *units: int) -> None:
    commit([proposal(claimed(), copy.topology, units)], agent=ME)


def decide(count: int, **fields: Any) -> list[Job]:
    """Let an agent decide on jobs of two applications; returns them."""
    profiled: dict[str, Any] = {"platforms": ("J", "K")}
    applications = known(**profiled), known(base_rate=5e7, error=0.1, **profiled)
    values = {"units_requested": 1, **BEST_EFFORT, **fields}
    jobs = [waiting(applications[i % 2], **values) for i in range(count)]
    work(make_agent("agent-1"))
    return jobs


def two_platforms() -> Any:
    """Ten servers of two platforms; other jobs hold a third of the units."""
    sizes = {"cores": 4, "memory_bytes": 16 * 10**9, "network_bps": 10**9,
             "storage_bytes": 10**12, "idle_watts": 50, "peak_watts": 200}  # fmt: skip
    document = {
        "name": "small",
        "platforms": [{"name": name, **sizes} for name in "JK"],
        "servers": [{"name": f"s-{i}", "platform": "JK"[i % 2], "rack": "r"} for i in range(10)],
    }
    import_cluster(parse_cluster(document))
    copy = read_copy()
    for first in (0, 4, 8, 20, 24):
        hold(copy, first, first + 1, first + 2)
    return copy


# ---- results ----


@pytest.mark.parametrize("policy", ["expected", "tarcil", "random", "least_loaded", "quasar"])
def test_the_policy_that_decides_agrees_with_itself(policy: str) -> None:
    two_platforms()
    shadow = started(policy)
    decide(6, policy=policy)
    decide(3, policy=policy, units_requested=2, gang=True)
    put("s-3", ServerState.CORDONED)
    decide(2, policy=policy)
    found = followed(shadow)
    assert (found.seen, found.decided, found.dropped, found.unavailable) == (11, 11, 0, 0)
    total = shadow_result(found).total
    assert total.decisions == 11
    assert [total.same_units.value, total.same_servers.value, total.same_platforms.value] == [
        1.0
    ] * 3
    assert (total.regret.value, total.job.value, total.neighbours.value) == (0.0, 0.0, 0.0)
    assert set(found.decisions.values_list("difference", flat=True)) == {0.0}


def test_a_random_policy_is_predicted_to_be_worse_than_the_default() -> None:
    two_platforms()
    shadow = started("random")
    for _ in range(6):
        jobs = decide(4)
        release([job.pk for job in jobs])
    total = shadow_result(followed(shadow)).total
    assert total.both == 24
    assert total.regret.value is not None
    assert total.regret.value > 0.0
    assert total.same_servers.value is not None
    assert total.same_servers.value < 0.5  # of nine servers, one or two are the best
    assert total.regret.value == pytest.approx(
        (total.job.value or 0.0) + (total.neighbours.value or 0.0)
    )


def test_a_comparison_is_that_of_the_counterfactual() -> None:
    two_platforms()
    shadow = started("slot_rr")
    jobs = decide(4)
    followed(shadow)
    decision = Decision.objects.filter(job__in=jobs).order_by("-position")[0]
    row = ShadowDecision.objects.get(decision_id=decision.pk)
    found = counterfactual(decision.pk, Changes(policy="slot_rr"))
    before, after = found["before"], found["after"]
    assert row.same_units == found["is_same"]
    assert row.shadowed["servers"] == sorted(each["server"] for each in after["servers"])
    parts = [before["prediction"][name] - after["prediction"][name]
             for name in ("performance", "neighbours")]  # fmt: skip
    assert [row.job_regret, row.neighbour_regret] == pytest.approx(parts, abs=1e-12)
    assert row.difference == pytest.approx(abs(sum(parts)), abs=1e-12)
    assert row.difference > 0.0


def test_results_are_broken_down_by_kind_policy_and_platform() -> None:
    two_platforms()
    shadow = started("node_rr")
    decide(3)
    decide(2, units_requested=2, gang=True)
    decide(1, policy="slot_rr")
    groups = shadow_result(followed(shadow)).groups
    assert [(name, part.decisions) for name, part in groups["kind"]] == [
        ("one unit", 4),
        ("gang", 2),
    ]
    assert [(name, part.decisions) for name, part in groups["policy"]] == [
        ("expected", 5),
        ("slot_rr", 1),
    ]
    assert sum(part.decisions for _, part in groups["platform"]) == 6
    assert {name for name, _ in groups["platform"]} <= {"J", "K", "several"}


def test_a_job_that_only_the_shadow_places_is_counted_without_regret() -> None:
    build("a", cores=2)
    shadow = started("reservation_least_loaded")
    copy = read_copy()
    hold(copy, 0)
    decide(1, units_requested=2, gang=True)  # one unit is free
    found = followed(shadow)
    assert (found.decided, found.neither) == (1, 1)
    assert shadow_result(found).total.decisions == 0


def test_a_sample_is_a_share_of_the_decisions() -> None:
    build(*"abcdefgh")
    shadow = started("random", share=0.5)
    decide(24)
    found = followed(shadow)
    assert found.seen == 24
    assert 0 < found.decided < 24
    assert found.decided == found.decisions.count()


# ---- commits, restarts, repetition ----


def rows_of_the_cluster() -> list[Any]:
    """All that a commit would write."""
    tables = (Allocation, Change, Decision, DecisionBatch)
    counts = [table.objects.count() for table in tables]
    return [counts, list(Job.objects.order_by("id").values_list("id", "state", "units")),
            list(ResourceUnit.objects.order_by("id").values())]  # fmt: skip


def test_a_shadow_commits_nothing() -> None:
    two_platforms()
    shadow = started("random")
    decide(6)
    before = rows_of_the_cluster()
    assert followed(shadow).decided == 6
    assert rows_of_the_cluster() == before


def test_a_second_worker_adds_nothing() -> None:
    two_platforms()
    shadow = started("random")
    decide(4)
    assert followed(shadow).decided == 4
    assert followed(shadow).decided == 4  # of another process, which starts from the cursor
    assert shadow.decisions.count() == 4
    decide(2)
    assert followed(shadow).decided == 6


def test_a_page_that_two_workers_decide_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    two_platforms()
    shadow = started("random")
    decide(4)
    store, other = shadow_turns._store, ShadowWorker(settled=AT_ONCE)

    def late(*arguments: Any) -> bool:
        monkeypatch.setattr(shadow_turns, "_store", store)
        other.turn(budget_s=60.0)  # the message was delivered twice
        return store(*arguments)

    monkeypatch.setattr(shadow_turns, "_store", late)
    found = followed(shadow)
    assert (found.seen, found.decided, found.decisions.count()) == (4, 4, 4)


def test_a_page_of_a_shadow_that_was_stopped_meanwhile_is_discarded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    two_platforms()
    shadow = started("random")
    decide(4)
    store = shadow_turns._store

    def late(*arguments: Any) -> bool:
        stop_shadow(shadow.pk, by=None)
        return store(*arguments)

    monkeypatch.setattr(shadow_turns, "_store", late)
    found = followed(shadow)
    assert (found.end, found.seen, found.decisions.count()) == (ShadowEnd.STOPPED, 0, 0)


def test_young_decisions_are_left_for_the_next_turn() -> None:
    two_platforms()
    shadow = started("random")
    decide(2)
    assert followed(shadow, ShadowWorker()).seen == 0
    assert followed(shadow).seen == 2


def test_decisions_for_which_no_time_is_left_are_dropped() -> None:
    two_platforms()
    shadow = started("random")
    for _ in range(3):
        decide(2)
    seconds = iter(np.arange(0.0, 100.0, 0.4).tolist())
    ShadowWorker(settled=AT_ONCE, clock=lambda: next(seconds)).turn(budget_s=2.0)
    shadow.refresh_from_db()
    assert (shadow.seen, shadow.decided, shadow.dropped) == (6, 4, 2)
    assert shadow.decisions.count() == 4


def test_old_decisions_are_dropped() -> None:
    two_platforms()
    shadow = started("random")
    decide(2)
    earlier = timedelta(minutes=5)
    Decision.objects.update(at=timezone.now() - earlier)
    Shadow.objects.update(cursor_at=timezone.now() - 2 * earlier)
    found = followed(shadow)
    assert (found.seen, found.decided, found.dropped) == (2, 0, 2)


# ---- what is not stored any more ----


def test_a_decision_whose_request_is_not_stored_is_unavailable() -> None:
    two_platforms()
    shadow = started("random")
    decide(2)
    DecisionBatch.objects.all().delete()
    decide(1)
    found = followed(shadow)
    assert (found.seen, found.decided, found.unavailable) == (3, 1, 2)


def test_a_decision_of_a_policy_that_is_not_installed_is_unavailable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    two_platforms()
    shadow = started("random")
    decide(2)
    decide(1, policy="slot_rr")
    uninstall(monkeypatch, "slot_rr")
    found = followed(shadow)
    assert (found.seen, found.decided, found.unavailable, found.ended_at) == (3, 2, 1, None)


def test_a_decision_that_is_not_repeated_is_unavailable() -> None:
    two_platforms()
    shadow = started("random")
    decide(2)
    first = Decision.objects.filter(batch_id__isnull=False).order_by("id")[0]
    Decision.objects.filter(pk=first.pk).update(seed=first.seed ^ 1)
    found = followed(shadow)
    assert (found.decided, found.unavailable) == (1, 1)


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


def test_a_decision_of_a_policy_that_fails_now_is_unavailable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    policies_that_fail.install(monkeypatch, "theirs", "none")
    two_platforms()
    shadow = started("random")
    decide(2, policy="theirs")
    policies_that_fail.install(monkeypatch, "theirs", "raises")
    decide(1)
    found = followed(shadow)
    assert (found.decided, found.unavailable, found.ended_at) == (1, 2, None)


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
        ({"share": 0.6}, "/share"),
        ({"share": 0.0}, "/share"),
        ({"until": timezone.now() - timedelta(hours=1)}, "/until"),
    ],
    ids=["policy", "parameter", "value", "large", "nothing", "past"],
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
    with pytest.raises(ConflictError, match="allows 2 at once"):
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


def test_two_shadows_see_the_same_decisions() -> None:
    two_platforms()
    one, other = started("random", share=0.5), started("slot_rr", share=0.5)
    decide(12)
    followed(one)
    keys = [set(shadow.decisions.values_list("decision_id", flat=True)) for shadow in (one, other)]
    assert keys[0] == keys[1] != set()


def test_parameters_change_what_a_shadow_chooses() -> None:
    copy = build(*"ab")
    hold(copy, 0)
    together = {"neighbours": 0.0, "kept": 0.0, "spread": 0.0}
    shadow = started("expected", parameters=together)
    jobs = decide(1)
    followed(shadow)
    row = shadow.decisions.get()
    decision = Decision.objects.get(job=jobs[0])
    after = counterfactual(decision.pk, Changes(parameters=together))["after"]
    assert row.shadowed["servers"] == [each["server"] for each in after["servers"]]


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
    shadow, client = factories.shadow(), client_of(role)
    address = f"/api/v1/shadows/{shadow.pk}/"
    reads = [client.get(path).status_code for path in
             ("/api/v1/shadows/", address, f"{address}decisions/")]  # fmt: skip
    assert reads == [403, 403, 403]
    posted = client.post("/api/v1/shadows/", {"policy": "random"}, format="json")
    assert (posted.status_code, client.post(f"{address}stop/").status_code) == (403, 403)
    assert Shadow.objects.filter(ended_at=None).count() == 1
