"""Shadows: a second policy decides on the live decisions, without committing."""

from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from django.utils import timezone

from apps.inventory.models import Change, ResourceUnit, ServerState
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
from apps.scheduling.services import release, shadow_turns
from apps.scheduling.services.counterfactuals import Changes, counterfactual
from apps.scheduling.services.repeats import MAX_POLICIES, BatchRepeater
from apps.scheduling.services.shadow_turns import ShadowWorker
from apps.scheduling.services.shadows import stop_shadow
from apps.workloads.models import Job
from tests import factories
from tests.scheduling import policies_that_fail
from tests.scheduling.shadow_world import (
    AT_ONCE,
    decide,
    followed,
    hold,
    started,
    two_platforms,
    uninstall,
)
from tests.scheduling.world import build, put

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def clock(db: None) -> None:
    factories.cluster(seen_cluster_s=3000.0)


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


def test_a_shadow_draws_as_many_candidates_as_its_policy_would_live() -> None:
    two_platforms()
    shadow = started("sampling", parameters={"candidates": 2})
    jobs = decide(6, policy="tarcil")
    followed(shadow)
    decisions = Decision.objects.filter(job__in=jobs).order_by("position")
    assert min(decision.examined for decision in decisions) > 2
    changes = Changes(policy="sampling", parameters={"candidates": 2})
    again = [counterfactual(decision.pk, changes)["after"] for decision in decisions]
    assert {each["examined"] for each in again} == {2}
    shadowed = [
        shadow.decisions.get(decision_id=decision.pk).shadowed["servers"] for decision in decisions
    ]
    assert shadowed == [sorted(each["server"] for each in after["servers"]) for after in again]


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


def test_two_shadows_see_the_same_decisions() -> None:
    two_platforms()
    one, other = started("random", share=0.5), started("slot_rr", share=0.5)
    decide(12)
    followed(one)
    keys = [set(shadow.decisions.values_list("decision_id", flat=True)) for shadow in (one, other)]
    assert keys[0] == keys[1] != set()


def test_the_policies_kept_for_repeats_are_those_used_last() -> None:
    """Each keeps its rankings of all servers; live ones differ in the share of their agent."""
    repeater = BatchRepeater()
    for agents in range(1, 8):
        for share in range(agents):
            repeater.policy("expected", {"agents": agents, "share": share})
            first = repeater.policy("expected", {"agents": 1, "share": 0})
    last = repeater.policy("expected", {"agents": 7, "share": 6})
    assert list(repeater._policies.values())[-2:] == [first, last]
    assert repeater.policy("expected", {"agents": 1, "share": 0}) is first
    assert len(repeater._policies) == MAX_POLICIES


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
