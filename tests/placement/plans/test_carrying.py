"""Plans carried out: in order, within the budgets, once, whatever happens in between."""

from dataclasses import replace

import pytest

from apps.execution.core.migration import MoveOutcome
from apps.execution.models import Migration
from apps.inventory.models import Server, ServerState
from apps.operations.models import Event
from apps.placement.models import Loop, MoveState, Plan, PlanState
from apps.placement.selectors import plans as selectors
from apps.placement.services.carrying import carry_out
from apps.placement.services.plans import cancel_plan, pause_plan, resume_plan
from apps.scheduling.models import Allocation
from apps.workloads.models import Job
from tests import factories
from tests.placement.plans import world
from tests.placement.plans.conftest import Stage
from tests.placement.plans.world import new_move, states, written
from tests.races import at_once


def set_loop(**values: object) -> None:
    selectors.loop()
    Loop.objects.update(**values)


def test_an_approved_plan_begins_and_asks_for_its_moves(stage: Stage) -> None:
    plan = written(
        new_move(0, stage.one, stage.servers[2]), new_move(1, stage.two, stage.servers[2]),
        approve=True,
    )  # fmt: skip
    assert carry_out() == []
    plan.refresh_from_db()
    assert (plan.state, plan.began_s) == (PlanState.RUNNING, world.NOW_S)
    assert states(plan) == ["moving", "moving"]
    asked = {(m.job_id, m.to_server_id) for m in world.open_migrations()}
    assert asked == {(stage.one.pk, stage.servers[2].pk), (stage.two.pk, stage.servers[2].pk)}


def test_a_proposed_plan_does_not_begin(stage: Stage) -> None:
    plan = written(new_move(0, stage.one, stage.servers[2]))
    carry_out()
    plan.refresh_from_db()
    assert plan.state == PlanState.PROPOSED
    assert world.open_migrations() == []


def test_looking_again_asks_for_nothing_twice(stage: Stage) -> None:
    written(new_move(0, stage.one, stage.servers[2]), approve=True)
    carry_out()
    carry_out()
    assert Migration.objects.count() == 1


def test_a_plan_whose_moves_all_ended_waits_to_be_settled(stage: Stage) -> None:
    plan = written(new_move(0, stage.one, stage.servers[2]), approve=True)
    carry_out()
    world.end_migrations()
    assert carry_out() == [plan.pk]
    assert states(plan) == ["done"]
    assert world.allocation_of(stage.one).server_id == stage.servers[2].pk


def test_moves_begin_within_the_budget_of_a_cluster_minute(stage: Stage) -> None:
    set_loop(moves_per_minute=1)
    plan = written(
        new_move(0, stage.one, stage.servers[2]), new_move(1, stage.two, stage.servers[2]),
        approve=True,
    )  # fmt: skip
    carry_out()
    assert states(plan) == ["moving", "waiting"]
    world.end_migrations()
    world.pass_time(59.0)
    carry_out()
    assert states(plan) == ["done", "waiting"]
    world.pass_time(2.0)
    carry_out()
    assert states(plan) == ["done", "moving"]


def test_one_container_of_a_job_moves_at_a_time(stage: Stage) -> None:
    s0, _, s2 = stage.servers
    wide = world.running("wide", (s0, 1), (s2, 1))
    here, there = Allocation.objects.filter(job=wide).order_by("server_id")
    plan = written(
        replace(new_move(0, stage.one, s2), job_id=wide.pk, allocation_id=here.pk, units=1),
        replace(new_move(1, stage.two, s0), job_id=wide.pk, allocation_id=there.pk),
        approve=True,
    )
    carry_out()
    assert states(plan) == ["moving", "waiting"]
    world.end_migrations()
    carry_out()
    assert states(plan) == ["done", "moving"]


def test_a_move_waits_until_the_one_before_it_has_freed_its_place(stage: Stage) -> None:
    s0, s1, s2 = stage.servers
    plan = written(new_move(0, stage.three, s2), new_move(1, stage.one, s1), approve=True)
    carry_out()
    assert states(plan) == ["moving", "waiting"]
    world.end_migrations()
    carry_out()
    assert states(plan) == ["done", "moving"]
    assert s0.pk == world.open_migrations()[0].from_server_id


def test_a_move_whose_room_was_taken_fails_with_its_bundle(stage: Stage) -> None:
    plan = written(
        new_move(0, stage.one, stage.servers[2], bundle=7),
        new_move(1, stage.two, stage.servers[2], bundle=7),
        approve=True,
    )
    set_loop(moves_per_minute=1)
    carry_out()
    world.end_migrations()
    world.pass_time(61.0)
    world.running("fills it", (Server.objects.get(pk=stage.servers[2].pk), 2))
    assert carry_out() == [plan.pk]
    assert states(plan) == ["done", "failed"]
    assert world.move(plan, 1).message == "no room is left where it was to go"


def test_a_move_that_fails_cancels_the_rest_of_its_bundle(stage: Stage) -> None:
    set_loop(moves_per_minute=1)
    plan = written(
        new_move(0, stage.one, stage.servers[2], bundle=3),
        new_move(1, stage.two, stage.servers[2], bundle=3),
        new_move(2, stage.two, stage.servers[2], bundle=4),
        approve=True,
    )
    carry_out()
    world.end_migrations(MoveOutcome.FAILED, "the copy broke off")
    carry_out()
    assert states(plan) == ["failed", "cancelled", "waiting"]
    assert world.move(plan, 0).message == "the copy broke off"
    assert world.move(plan, 1).message == "move 1 of its bundle failed"


def test_the_containers_of_jobs_that_ended_are_passed_over(stage: Stage) -> None:
    set_loop(moves_per_minute=1)
    plan = written(
        new_move(0, stage.one, stage.servers[2]), new_move(1, stage.two, stage.servers[2]),
        approve=True,
    )  # fmt: skip
    carry_out()
    world.end_job(stage.two)
    world.end_migrations()
    assert carry_out() == [plan.pk]
    assert states(plan) == ["done", "skipped"]
    assert world.move(plan, 1).message == "its job ended"


def test_a_job_that_ends_on_the_way_is_passed_over_too(stage: Stage) -> None:
    plan = written(new_move(0, stage.one, stage.servers[2]), approve=True)
    carry_out()
    world.end_migrations(MoveOutcome.CANCELLED, "the job ended")
    Job.objects.filter(pk=stage.one.pk).update(
        state="succeeded", finished_s=world.NOW_S, finished_at=factories.MOMENT
    )
    assert carry_out() == [plan.pk]
    assert states(plan) == ["skipped"]
    assert world.move(plan, 0).message == "its job ended on the way"


def test_a_job_that_is_to_be_cancelled_is_refused_and_passed_over(stage: Stage) -> None:
    plan = written(new_move(0, stage.one, stage.servers[2]), approve=True)
    Job.objects.filter(pk=stage.one.pk).update(cancel_requested=True)
    assert carry_out() == [plan.pk]
    assert states(plan) == ["skipped"]
    assert "to be cancelled" in world.move(plan, 0).message


def test_a_job_moved_often_enough_within_the_hour_is_left_alone(stage: Stage) -> None:
    set_loop(moves_per_job=1)
    first = written(new_move(0, stage.one, stage.servers[2]), approve=True)
    carry_out()
    world.end_migrations()
    carry_out()
    Plan.objects.filter(pk=first.pk).update(state="done", ended_s=world.NOW_S)
    world.pass_time(600.0)
    second = written(new_move(0, stage.one, stage.servers[0]), approve=True)
    assert carry_out() == [second.pk]
    assert states(second) == ["skipped"]
    assert world.move(second, 0).message == "its job was moved 1 times within the hour"


def test_a_plan_goes_on_where_a_dead_worker_left_it(stage: Stage) -> None:
    set_loop(moves_per_minute=1)
    plan = written(
        new_move(0, stage.one, stage.servers[2]), new_move(1, stage.two, stage.servers[2]),
        approve=True,
    )  # fmt: skip
    carry_out()
    world.end_migrations()
    world.pass_time(61.0)
    # all a new process knows is in the rows
    carry_out()
    world.end_migrations()
    assert carry_out() == [plan.pk]
    assert states(plan) == ["done", "done"]


def test_a_paused_plan_follows_its_moves_and_begins_none(stage: Stage) -> None:
    set_loop(moves_per_minute=1)
    plan = written(
        new_move(0, stage.one, stage.servers[2]), new_move(1, stage.two, stage.servers[2]),
        approve=True,
    )  # fmt: skip
    carry_out()
    pause_plan(plan.pk)
    world.end_migrations()
    world.pass_time(61.0)
    carry_out()
    assert states(plan) == ["done", "waiting"]
    resume_plan(plan.pk)
    carry_out()
    assert states(plan) == ["done", "moving"]


def test_cancelling_lets_the_moves_under_way_finish(stage: Stage) -> None:
    set_loop(moves_per_minute=1)
    plan = written(
        new_move(0, stage.one, stage.servers[2]), new_move(1, stage.two, stage.servers[2]),
        approve=True,
    )  # fmt: skip
    carry_out()
    world.take_up_migrations()
    cancel_plan(plan.pk, by="olga")
    assert states(plan) == ["moving", "cancelled"]
    assert carry_out() == []
    world.end_migrations()
    assert carry_out() == [plan.pk]
    assert states(plan) == ["done", "cancelled"]


def test_cancelling_recalls_what_no_backend_has_taken_up(stage: Stage) -> None:
    plan = written(new_move(0, stage.one, stage.servers[2]), approve=True)
    carry_out()
    cancel_plan(plan.pk, by="olga")
    assert world.open_migrations() == []
    assert carry_out() == [plan.pk]
    assert states(plan) == ["cancelled"]
    assert world.allocation_of(stage.one).server_id == stage.servers[0].pk


def test_one_plan_runs_at_a_time(stage: Stage) -> None:
    first = written(new_move(0, stage.one, stage.servers[2]), approve=True)
    carry_out()
    second = written(new_move(0, stage.two, stage.servers[2]), approve=True)
    carry_out()
    second.refresh_from_db()
    assert second.state == PlanState.APPROVED
    Plan.objects.filter(pk=first.pk).update(state="done", ended_s=world.NOW_S)
    carry_out()
    second.refresh_from_db()
    assert second.state == PlanState.RUNNING


def test_no_plan_begins_while_another_is_paused_or_being_finished(stage: Stage) -> None:
    first = written(new_move(0, stage.one, stage.servers[2]), approve=True)
    carry_out()
    second = written(new_move(0, stage.two, stage.servers[2]), approve=True)
    pause_plan(first.pk)
    carry_out()
    cancel_plan(first.pk, by="olga")
    carry_out()
    second.refresh_from_db()
    assert second.state == PlanState.APPROVED


def test_what_happens_is_told(stage: Stage) -> None:
    plan = written(new_move(0, stage.one, stage.servers[2]), approve=True)
    carry_out()
    told = Event.objects.filter(subject=str(plan.pk)).order_by("seq")
    happened = list(told.values_list("data__event", flat=True))
    assert happened == ["created", "approved", "began", "progress"]
    last = told.last()
    assert last is not None
    assert last.data["moves"]["moving"] == 1


@pytest.mark.parametrize("state", [ServerState.DRAINING, ServerState.CORDONED])
def test_a_plan_whose_target_closes_is_superseded(stage: Stage, state: ServerState) -> None:
    plan = written(new_move(0, stage.one, stage.servers[2]), approve=True)
    Server.objects.filter(pk=stage.servers[2].pk).update(state=state)
    carry_out()
    plan.refresh_from_db()
    assert plan.state == PlanState.SUPERSEDED
    assert plan.message == "s2 has no room left for what was to go there."


@pytest.mark.django_db(transaction=True)
def test_two_workers_at_once_begin_a_move_once(stage: Stage) -> None:
    plan = written(
        new_move(0, stage.one, stage.servers[2]), new_move(1, stage.two, stage.servers[2]),
        approve=True,
    )  # fmt: skip
    at_once(4, carry_out)
    carry_out()
    assert Migration.objects.count() == 2
    assert world.count(plan.pk, MoveState.MOVING) == 2
