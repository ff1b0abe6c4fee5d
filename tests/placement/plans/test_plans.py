"""Plans written, approved, trimmed, superseded and taken back."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from pytest_django import Settings

from apps.common.core.errors import ConflictError, InvalidInputError
from apps.common.core.preconditions import ChangedMeanwhileError
from apps.operations.services import cancel_operation, release_expired_operations
from apps.placement.models import Activation, Cause, Plan, PlanState, Purpose
from apps.placement.services import making
from apps.placement.services.carrying import carry_out
from apps.placement.services.making import begin_plan, begin_rollback, make_plans
from apps.placement.services.plans import (
    NewPlan,
    PlanSupersededError,
    approve_plan,
    cancel_plan,
    prune_plans,
    supersede_stale,
)
from apps.placement.services.proposing import NothingGained, compare
from apps.placement.services.reversing import propose_reverse
from apps.placement.services.settling import settle
from apps.placement.services.trimming import trim_plan
from tests.placement.plans import world
from tests.placement.plans.conftest import Stage
from tests.placement.plans.world import new_move, states, written

# ---- written and approved ----


def test_plans_are_numbered_and_the_newer_takes_the_place_of_the_older(stage: Stage) -> None:
    older = written(new_move(0, stage.one, stage.servers[2]))
    newer = written(new_move(0, stage.two, stage.servers[2]))
    older.refresh_from_db()
    assert (str(older), str(newer)) == ("p-0001", "p-0002")
    assert (older.state, older.message) == (PlanState.SUPERSEDED, "p-0002 is newer.")
    assert states(older) == ["cancelled"]


def test_an_approved_plan_is_not_replaced_by_a_newer_one(stage: Stage) -> None:
    older = written(new_move(0, stage.one, stage.servers[2]), approve=True)
    written(new_move(0, stage.two, stage.servers[2]))
    older.refresh_from_db()
    assert older.state == PlanState.APPROVED


def test_approving_says_who_and_when(stage: Stage) -> None:
    plan = written(new_move(0, stage.one, stage.servers[2]))
    approve_plan(plan.pk, by=stage.by.pk)
    plan.refresh_from_db()
    assert (plan.state, plan.approved_by, plan.approved_s) == (
        PlanState.APPROVED, stage.by, world.NOW_S
    )  # fmt: skip


def test_approving_insists_on_the_plan_that_was_looked_at(stage: Stage) -> None:
    plan = written(new_move(0, stage.one, stage.servers[2]))
    with pytest.raises(ChangedMeanwhileError):
        approve_plan(plan.pk, by=stage.by.pk, expected=plan.generation + 1)


def test_a_cancelled_plan_cannot_be_approved(stage: Stage) -> None:
    plan = written(new_move(0, stage.one, stage.servers[2]))
    cancel_plan(plan.pk, by="olga")
    with pytest.raises(ConflictError, match="cancelled plan cannot approve"):
        approve_plan(plan.pk, by=stage.by.pk)


# ---- superseded ----


def test_a_plan_is_superseded_when_a_container_of_it_ends(stage: Stage) -> None:
    plan = written(new_move(0, stage.one, stage.servers[2]))
    world.end_job(stage.one)
    with pytest.raises(PlanSupersededError, match="1 container of it ended or moved"):
        approve_plan(plan.pk, by=stage.by.pk)
    plan.refresh_from_db()
    assert plan.state == PlanState.SUPERSEDED


def test_a_plan_that_lost_half_of_its_bundles_is_still_a_plan(stage: Stage) -> None:
    s2 = stage.servers[2]
    plan = written(new_move(0, stage.one, s2, bundle=0), new_move(1, stage.three, s2, bundle=1))
    world.end_job(stage.one)
    assert supersede_stale() == 0
    approve_plan(plan.pk, by=stage.by.pk)
    carry_out()
    assert world.states(plan) == ["skipped", "moving"]


def test_a_plan_is_superseded_when_its_room_is_taken(stage: Stage) -> None:
    plan = written(new_move(0, stage.one, stage.servers[2]))
    world.running("fills it", (stage.servers[2], 3))
    assert supersede_stale() == 1
    plan.refresh_from_db()
    assert plan.message == "s2 has no room left for what was to go there."


def test_room_that_the_plan_frees_itself_is_room(stage: Stage) -> None:
    s0, s1, s2 = stage.servers
    written(new_move(0, stage.three, s2), new_move(1, stage.one, s1))
    assert supersede_stale() == 0
    assert s0.cores == 4


def test_a_plan_is_superseded_when_other_weights_come_into_force(stage: Stage) -> None:
    plan = written(new_move(0, stage.one, stage.servers[2]))
    world.activated(stage.by, {"P": 0.1, "D": 1.0, "C": 0.0})
    with pytest.raises(PlanSupersededError, match="other weights are in force"):
        approve_plan(plan.pk, by=stage.by.pk)


def test_the_same_weights_in_force_anew_change_nothing(stage: Stage) -> None:
    plan = written(new_move(0, stage.one, stage.servers[2]))
    world.activated(stage.by)
    assert approve_plan(plan.pk, by=stage.by.pk).state == PlanState.APPROVED


def test_a_plan_by_weights_no_longer_in_force_is_not_written(stage: Stage) -> None:
    world.activated(stage.by, {"P": 0.1, "D": 1.0, "C": 0.0})
    with pytest.raises(PlanSupersededError):
        written(new_move(0, stage.one, stage.servers[2]))
    assert not Plan.objects.exists()


def test_plans_that_came_to_nothing_are_forgotten_after_some_days(
    stage: Stage, settings: Settings
) -> None:
    settings.BERTH_EVENT_DAYS = 7
    old, young, moved = (written(new_move(0, stage.one, stage.servers[2])) for _ in range(3))
    Plan.objects.filter(pk__in=[old.pk, moved.pk]).update(
        created_at=timezone.now() - timedelta(days=8), state=PlanState.CANCELLED
    )
    Plan.objects.filter(pk=moved.pk).update(began_s=world.NOW_S, ended_s=world.NOW_S)
    assert prune_plans() == 1
    assert set(Plan.objects.values_list("pk", flat=True)) == {young.pk, moved.pk}


# ---- trimmed ----


def trimmed(stage: Stage) -> Plan:
    """0 and 1 belong together; 2 needs the room that they free on s1."""
    _, s1, s2 = stage.servers
    return written(
        new_move(0, stage.two, s2, bundle=0),
        new_move(1, stage.three, s2, bundle=0),
        new_move(2, stage.one, s1, bundle=1),
    )


def test_a_bundle_is_left_out_whole_and_what_needs_its_room_with_it(stage: Stage) -> None:
    plan = trimmed(stage)
    done = trim_plan(plan.pk, skip=[0], take=[], by="olga")
    assert done.skipped == {0, 1, 2}
    assert states(plan) == ["skipped", "skipped", "skipped"]
    assert done.notes == (
        "Move 2 left out too: they belong together.",
        "Move 3 left out too: others would not free their room.",
    )
    assert world.move(plan, 1).message == "left out by olga"
    assert world.move(plan, 2).message.startswith("left out: it needs room")


def test_what_was_left_out_can_be_taken_in_again(stage: Stage) -> None:
    plan = trimmed(stage)
    trim_plan(plan.pk, skip=[0], take=[], by="olga")
    done = trim_plan(plan.pk, skip=[], take=[1, 2], by="olga")
    assert done.skipped == frozenset()
    assert states(plan) == ["waiting", "waiting", "waiting"]
    assert world.move(plan, 0).message == ""


def test_the_prediction_follows_what_is_left(stage: Stage) -> None:
    plan = trimmed(stage)
    trim_plan(plan.pk, skip=[2], take=[], by="olga")
    plan.refresh_from_db()
    # s0 80 W and s1 120 W before; s0 80 W and s2 120 W after: nothing is gained without move 2
    assert plan.predicted["before"]["watts"] == pytest.approx(200.0)
    assert plan.predicted["after"]["watts"] == pytest.approx(200.0)
    assert plan.predicted["moves"] == 2


def test_a_plan_of_which_everything_is_left_out_cannot_be_approved(stage: Stage) -> None:
    plan = trimmed(stage)
    trim_plan(plan.pk, skip=[0], take=[], by="olga")
    with pytest.raises(ConflictError, match="nothing to do"):
        approve_plan(plan.pk, by=stage.by.pk)


def test_there_must_be_such_a_move(stage: Stage) -> None:
    with pytest.raises(InvalidInputError, match="there is no move 9"):
        trim_plan(trimmed(stage).pk, skip=[9], take=[], by="olga")


def test_a_bundle_cannot_be_left_out_and_taken(stage: Stage) -> None:
    with pytest.raises(InvalidInputError, match="left out by one of its moves and taken"):
        trim_plan(trimmed(stage).pk, skip=[0], take=[1], by="olga")


def test_an_approved_plan_cannot_be_trimmed(stage: Stage) -> None:
    plan = trimmed(stage)
    approve_plan(plan.pk, by=stage.by.pk)
    with pytest.raises(ConflictError, match="approved plan cannot be changed"):
        trim_plan(plan.pk, skip=[0], take=[], by="olga")


# ---- taken back ----


def done(stage: Stage) -> Plan:
    """A plan that moved the jobs of s0 and of s1 and has ended."""
    plan = written(
        new_move(0, stage.three, stage.servers[2]), new_move(1, stage.one, stage.servers[1]),
        approve=True,
    )  # fmt: skip
    for _ in range(3):
        carry_out()
        world.end_migrations()
    settle(plan.pk, compare=compare)
    plan.refresh_from_db()
    return plan


def test_the_way_back_is_the_last_move_first(stage: Stage) -> None:
    plan = done(stage)
    begin_rollback(plan.pk, by=stage.by.pk, approve=False)
    assert make_plans() == 1
    back = Plan.objects.get(cause=Cause.REVERSE)
    s0, s1, s2 = (server.pk for server in stage.servers)
    moves = back.moves.order_by("ordinal")
    assert list(moves.values_list("job__name", "from_server_id", "to_server_id")) == [
        ("one", s1, s0), ("three", s2, s1)
    ]  # fmt: skip
    assert {move.purpose for move in moves} == {Purpose.REVERSE}
    assert (back.reverses, back.state) == (plan, PlanState.PROPOSED)
    assert back.message == "takes back 2 of the 2 moves of p-0001"


def test_the_way_back_is_carried_out_when_that_is_asked_for(stage: Stage) -> None:
    plan = done(stage)
    begin_rollback(plan.pk, by=stage.by.pk, approve=True)
    make_plans()
    for _ in range(4):
        carry_out()
        world.end_migrations()
    back = Plan.objects.get(cause=Cause.REVERSE)
    settle(back.pk, compare=compare)
    assert world.allocation_of(stage.one).server_id == stage.servers[0].pk
    assert world.allocation_of(stage.three).server_id == stage.servers[1].pk
    assert states(back) == ["done", "done"]
    assert back.approved_by == stage.by


def test_what_has_lost_its_place_stays_and_the_plan_says_so(stage: Stage) -> None:
    plan = written(
        new_move(0, stage.one, stage.servers[2]), new_move(1, stage.two, stage.servers[2]),
        approve=True,
    )  # fmt: skip
    carry_out()
    world.end_migrations()
    carry_out()
    settle(plan.pk, compare=compare)
    world.running("in the way", (stage.servers[0], 3))
    made = propose_reverse(plan.pk, by=stage.by.pk)
    assert isinstance(made, NewPlan)
    assert [move.skipped for move in made.moves] == ["", "left out: its place is taken"]
    assert made.message == "takes back 1 of the 2 moves of p-0001; the places of 1 are taken"


def test_there_is_no_way_back_where_every_place_is_taken(stage: Stage) -> None:
    plan = done(stage)
    world.running("in the way", (stage.servers[0], 3))
    made = propose_reverse(plan.pk, by=stage.by.pk)
    assert made == NothingGained("The places that p-0001 moved containers from are all taken.")


def test_what_ended_needs_no_way_back(stage: Stage) -> None:
    plan = done(stage)
    world.end_job(stage.one)
    made = propose_reverse(plan.pk, by=stage.by.pk)
    assert isinstance(made, NewPlan)
    assert [str(move.job_id) for move in made.moves] == [str(stage.three.pk)]
    assert made.message == "takes back 1 of the 2 moves of p-0001; 1 containers ended or moved on"


def test_a_plan_is_taken_back_once(stage: Stage) -> None:
    plan = done(stage)
    begin_rollback(plan.pk, by=stage.by.pk, approve=False)
    make_plans()
    with pytest.raises(ConflictError, match="p-0002 takes p-0001 back already"):
        begin_rollback(plan.pk, by=stage.by.pk, approve=False)


def test_a_plan_that_has_not_ended_cannot_be_taken_back(stage: Stage) -> None:
    plan = written(new_move(0, stage.one, stage.servers[2]), approve=True)
    with pytest.raises(ConflictError, match="has not ended"):
        begin_rollback(plan.pk, by=stage.by.pk, approve=False)


# ---- made on demand ----


def test_a_plan_that_was_asked_for_is_made_and_named(stage: Stage) -> None:
    world.running("stays", (stage.servers[2], 1))
    operation = begin_plan(by=stage.by.pk)
    assert make_plans() == 1
    operation.refresh_from_db()
    plan = Plan.objects.get()
    assert operation.status == "succeeded"
    assert operation.result == {"plan": str(plan.pk), "name": "p-0001", "moves": 1}
    assert (plan.cause, plan.created_by, plan.weights) == ("request", stage.by, world.WEIGHTS)


def test_where_nothing_is_gained_the_operation_says_so(stage: Stage) -> None:
    operation = begin_plan(by=stage.by.pk)
    make_plans()
    operation.refresh_from_db()
    reason = "No move of the 3 containers that may be moved pays for itself."
    assert (operation.status, operation.result) == ("succeeded", {"plan": None, "reason": reason})
    assert not Plan.objects.exists()


def test_no_plan_without_weights(stage: Stage) -> None:
    Activation.objects.all().delete()
    with pytest.raises(ConflictError, match="No weights are in force"):
        begin_plan(by=stage.by.pk)


def test_one_plan_is_made_at_a_time(stage: Stage) -> None:
    operation = begin_plan(by=stage.by.pk)
    with pytest.raises(ConflictError, match=str(operation.pk)):
        begin_plan(by=stage.by.pk)


def test_an_operation_that_was_cancelled_leaves_no_plan(stage: Stage) -> None:
    operation = begin_plan(by=stage.by.pk)
    type(operation).objects.filter(pk=operation.pk).update(cancel_requested=True)
    make_plans()
    operation.refresh_from_db()
    assert (operation.status, Plan.objects.count()) == ("cancelled", 0)


def test_a_search_that_breaks_fails_once_and_is_logged(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: Any) -> Any:
        raise KeyError("gone")

    operation = begin_plan(by=stage.by.pk)
    assert making.make_plans(broken) == 1
    operation.refresh_from_db()
    assert operation.status == "failed"
    assert operation.problem is not None
    assert operation.problem["detail"] == "Making it broke; the log holds the rest."
    assert str(operation.pk) in caplog.text
    assert making.make_plans() == 0
    begin_plan(by=stage.by.pk)


def test_other_weights_that_came_meanwhile_fail_it_with_the_code(stage: Stage) -> None:
    def late(*args: Any) -> Any:
        made = making._make(*args)
        world.activated(stage.by, {"P": 1.0, "D": 0.5, "C": 0.0})
        return made

    world.running("stays", (stage.servers[2], 1))
    operation = begin_plan(by=stage.by.pk)
    making.make_plans(late)
    operation.refresh_from_db()
    assert operation.problem is not None
    assert (operation.status, operation.problem["code"]) == ("failed", "plan_superseded")


def test_a_worker_that_lost_its_operation_writes_no_plan(stage: Stage) -> None:
    world.running("stays", (stage.servers[2], 1))
    operation = begin_plan(by=stage.by.pk)
    rows = type(operation).objects.filter(pk=operation.pk)

    def silent(*args: Any) -> Any:
        made = making._make(*args)
        rows.update(lease_until=timezone.now() - timedelta(seconds=1))
        release_expired_operations()
        return made

    making.make_plans(silent)
    operation.refresh_from_db()
    assert (operation.status, Plan.objects.count()) == ("pending", 0)
    making.make_plans()
    operation.refresh_from_db()
    assert (operation.status, Plan.objects.count()) == ("succeeded", 1)


def test_an_operation_whose_workers_die_is_given_up(stage: Stage) -> None:
    operation = begin_plan(by=stage.by.pk)
    type(operation).objects.filter(pk=operation.pk).update(
        arguments={"cause": "request", "attempt": 3}
    )
    making.make_plans()
    operation.refresh_from_db()
    assert operation.problem is not None
    assert operation.problem["detail"] == "Its worker died 3 times."


def test_cancelling_ends_the_search(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(making, "TELL_S", 0.0)
    operation = begin_plan(by=stage.by.pk)
    asked: list[bool] = []

    def long(arguments: Any, by: Any, should_stop: Callable[[], bool]) -> Any:
        asked.append(should_stop())
        cancel_operation(operation.pk)
        asked.append(should_stop())
        return making._make(arguments, by, should_stop)

    making.make_plans(long)
    operation.refresh_from_db()
    assert (asked, operation.status) == ([False, True], "cancelled")


def test_a_plan_that_was_cancelled_before_it_began_moved_nothing(stage: Stage) -> None:
    plan = written(new_move(0, stage.one, stage.servers[2]))
    cancel_plan(plan.pk, by="olga")
    with pytest.raises(ConflictError, match="moved nothing"):
        begin_rollback(plan.pk, by=stage.by.pk, approve=False)


def test_the_same_weights_in_fewer_racks_are_others(stage: Stage) -> None:
    plan = written(new_move(0, stage.one, stage.servers[2]))
    world.activated(stage.by, racks=[stage.servers[0].rack_id])
    assert supersede_stale() == 1
    plan.refresh_from_db()
    assert plan.state == PlanState.SUPERSEDED
