"""Execution of plans: in order, within the budgets, exactly once."""

import pytest

from apps.execution.core.migration import MigrationOutcome
from apps.execution.models import Migration
from apps.inventory.models import Server, ServerState
from apps.operations.models import Event
from apps.placement.core.rebalancing.lifecycle import PlanState
from apps.placement.models import Plan, PlannedMigrationState, RebalancingLoop
from apps.placement.selectors import plans as selectors
from apps.placement.services.rebalancing.executor import execute_plans
from apps.placement.services.rebalancing.plans import cancel_plan, pause_plan, resume_plan
from apps.placement.tasks import plans as tasks
from apps.scheduling.models import Allocation
from apps.workloads.models import Job
from tests import factories
from tests.placement import rebalancing_world as world
from tests.placement.conftest import Stage
from tests.placement.rebalancing_world import create_plan, new_migration, states
from tests.races import at_once


def set_loop(**values: object) -> None:
    selectors.loop_settings()
    RebalancingLoop.objects.update(**values)


def test_an_approved_plan_begins_and_requests_its_migrations(stage: Stage) -> None:
    plan = create_plan(
        new_migration(0, stage.one, stage.servers[2]),
        new_migration(1, stage.two, stage.servers[2]),
        approve=True,
    )
    assert execute_plans() == []
    plan.refresh_from_db()
    assert (plan.state, plan.began_s) == (PlanState.RUNNING, world.NOW_S)
    assert states(plan) == ["moving", "moving"]
    requested = {(m.job_id, m.to_server_id) for m in world.open_migrations()}
    assert requested == {(stage.one.pk, stage.servers[2].pk), (stage.two.pk, stage.servers[2].pk)}


def test_a_proposed_plan_does_not_begin(stage: Stage) -> None:
    plan = create_plan(new_migration(0, stage.one, stage.servers[2]))
    execute_plans()
    plan.refresh_from_db()
    assert plan.state == PlanState.PROPOSED
    assert world.open_migrations() == []


def test_a_second_tick_requests_nothing_twice(stage: Stage) -> None:
    create_plan(new_migration(0, stage.one, stage.servers[2]), approve=True)
    execute_plans()
    execute_plans()
    assert Migration.objects.count() == 1


def test_a_plan_whose_migrations_all_ended_is_ready_for_evaluation(stage: Stage) -> None:
    plan = create_plan(new_migration(0, stage.one, stage.servers[2]), approve=True)
    execute_plans()
    world.finish_migrations()
    assert execute_plans() == [plan.pk]
    assert states(plan) == ["done"]
    assert world.allocation_of(stage.one).server_id == stage.servers[2].pk


def test_migrations_start_within_the_budget_of_a_cluster_minute(stage: Stage) -> None:
    set_loop(moves_per_minute=1)
    plan = create_plan(
        new_migration(0, stage.one, stage.servers[2]),
        new_migration(1, stage.two, stage.servers[2]),
        approve=True,
    )
    execute_plans()
    assert states(plan) == ["moving", "waiting"]
    world.finish_migrations()
    world.pass_time(59.0)
    execute_plans()
    assert states(plan) == ["done", "waiting"]
    world.pass_time(2.0)
    execute_plans()
    assert states(plan) == ["done", "moving"]


def test_one_container_of_a_job_migrates_at_a_time(stage: Stage) -> None:
    s0, _, s2 = stage.servers
    wide = world.running_job("wide", (s0, 1), (s2, 1))
    here, there = Allocation.objects.filter(job=wide).order_by("server_id")
    plan = create_plan(
        new_migration(0, stage.one, s2, job_id=wide.pk, allocation_id=here.pk, units=1),
        new_migration(1, stage.two, s0, job_id=wide.pk, allocation_id=there.pk),
        approve=True,
    )
    execute_plans()
    assert states(plan) == ["moving", "waiting"]
    world.finish_migrations()
    execute_plans()
    assert states(plan) == ["done", "moving"]


def test_a_migration_waits_until_an_earlier_one_frees_its_capacity(stage: Stage) -> None:
    s0, s1, s2 = stage.servers
    plan = create_plan(
        new_migration(0, stage.three, s2), new_migration(1, stage.one, s1), approve=True
    )
    execute_plans()
    assert states(plan) == ["moving", "waiting"]
    world.finish_migrations()
    execute_plans()
    assert states(plan) == ["done", "moving"]
    assert s0.pk == world.open_migrations()[0].from_server_id


def test_a_migration_without_free_capacity_fails(stage: Stage) -> None:
    plan = create_plan(
        new_migration(0, stage.one, stage.servers[2], bundle=7),
        new_migration(1, stage.two, stage.servers[2], bundle=7),
        approve=True,
    )
    set_loop(moves_per_minute=1)
    execute_plans()
    world.finish_migrations()
    world.pass_time(61.0)
    world.running_job("fills it", (Server.objects.get(pk=stage.servers[2].pk), 2))
    assert execute_plans() == [plan.pk]
    assert states(plan) == ["done", "failed"]
    assert (
        world.planned_migration(plan, 1).message
        == "its target server no longer has enough free capacity"
    )


def test_a_failed_migration_cancels_the_rest_of_its_bundle(stage: Stage) -> None:
    set_loop(moves_per_minute=1)
    plan = create_plan(
        new_migration(0, stage.one, stage.servers[2], bundle=3),
        new_migration(1, stage.two, stage.servers[2], bundle=3),
        new_migration(2, stage.two, stage.servers[2], bundle=4),
        approve=True,
    )
    execute_plans()
    world.finish_migrations(MigrationOutcome.FAILED, "the copy broke off")
    execute_plans()
    assert states(plan) == ["failed", "cancelled", "waiting"]
    assert world.planned_migration(plan, 0).message == "the copy broke off"
    assert world.planned_migration(plan, 1).message == "migration 1 of the same bundle failed"


def test_containers_of_ended_jobs_are_skipped(stage: Stage) -> None:
    set_loop(moves_per_minute=1)
    plan = create_plan(
        new_migration(0, stage.one, stage.servers[2]),
        new_migration(1, stage.two, stage.servers[2]),
        approve=True,
    )
    execute_plans()
    world.end_job(stage.two)
    world.finish_migrations()
    assert execute_plans() == [plan.pk]
    assert states(plan) == ["done", "skipped"]
    assert world.planned_migration(plan, 1).message == "its job ended"


def test_a_job_that_ends_during_its_migration_is_skipped(stage: Stage) -> None:
    plan = create_plan(new_migration(0, stage.one, stage.servers[2]), approve=True)
    execute_plans()
    world.finish_migrations(MigrationOutcome.CANCELLED, "the job ended")
    Job.objects.filter(pk=stage.one.pk).update(
        state="succeeded", finished_s=world.NOW_S, finished_at=factories.MOMENT
    )
    assert execute_plans() == [plan.pk]
    assert states(plan) == ["skipped"]
    assert world.planned_migration(plan, 0).message == "its job ended during the migration"


def test_a_job_with_a_cancel_request_is_skipped(stage: Stage) -> None:
    plan = create_plan(new_migration(0, stage.one, stage.servers[2]), approve=True)
    Job.objects.filter(pk=stage.one.pk).update(cancel_requested=True)
    assert execute_plans() == [plan.pk]
    assert states(plan) == ["skipped"]
    assert "being stopped" in world.planned_migration(plan, 0).message


def test_a_job_above_the_hourly_limit_is_skipped(stage: Stage) -> None:
    set_loop(moves_per_job=1)
    first = create_plan(new_migration(0, stage.one, stage.servers[2]), approve=True)
    execute_plans()
    world.finish_migrations()
    execute_plans()
    Plan.objects.filter(pk=first.pk).update(state="done", ended_s=world.NOW_S)
    world.pass_time(600.0)
    second = create_plan(new_migration(0, stage.one, stage.servers[0]), approve=True)
    assert execute_plans() == [second.pk]
    assert states(second) == ["skipped"]
    assert world.planned_migration(second, 0).message == "1 plan migrated its job within the hour"


def test_another_worker_continues_the_plan_of_a_dead_worker(stage: Stage) -> None:
    set_loop(moves_per_minute=1)
    plan = create_plan(
        new_migration(0, stage.one, stage.servers[2]),
        new_migration(1, stage.two, stage.servers[2]),
        approve=True,
    )
    execute_plans()
    world.finish_migrations()
    world.pass_time(61.0)
    # a new process knows only the rows
    execute_plans()
    world.finish_migrations()
    assert execute_plans() == [plan.pk]
    assert states(plan) == ["done", "done"]


def test_a_paused_plan_polls_its_migrations_and_starts_none(stage: Stage) -> None:
    set_loop(moves_per_minute=1)
    plan = create_plan(
        new_migration(0, stage.one, stage.servers[2]),
        new_migration(1, stage.two, stage.servers[2]),
        approve=True,
    )
    execute_plans()
    pause_plan(plan.pk)
    world.finish_migrations()
    world.pass_time(61.0)
    execute_plans()
    assert states(plan) == ["done", "waiting"]
    resume_plan(plan.pk)
    execute_plans()
    assert states(plan) == ["done", "moving"]


def test_cancelling_lets_the_migrations_under_way_finish(stage: Stage) -> None:
    set_loop(moves_per_minute=1)
    plan = create_plan(
        new_migration(0, stage.one, stage.servers[2]),
        new_migration(1, stage.two, stage.servers[2]),
        approve=True,
    )
    execute_plans()
    world.claim_migrations()
    cancel_plan(plan.pk, by="olga")
    assert states(plan) == ["moving", "cancelled"]
    assert execute_plans() == []
    world.finish_migrations()
    assert execute_plans() == [plan.pk]
    assert states(plan) == ["done", "cancelled"]


def test_cancelling_withdraws_migrations_that_no_backend_has_claimed(stage: Stage) -> None:
    plan = create_plan(new_migration(0, stage.one, stage.servers[2]), approve=True)
    execute_plans()
    cancel_plan(plan.pk, by="olga")
    assert world.open_migrations() == []
    assert execute_plans() == [plan.pk]
    assert states(plan) == ["cancelled"]
    assert world.allocation_of(stage.one).server_id == stage.servers[0].pk


def test_one_plan_runs_at_a_time(stage: Stage) -> None:
    first = create_plan(new_migration(0, stage.one, stage.servers[2]), approve=True)
    execute_plans()
    second = create_plan(new_migration(0, stage.two, stage.servers[2]), approve=True)
    execute_plans()
    second.refresh_from_db()
    assert second.state == PlanState.APPROVED
    Plan.objects.filter(pk=first.pk).update(state="done", ended_s=world.NOW_S)
    execute_plans()
    second.refresh_from_db()
    assert second.state == PlanState.RUNNING


def test_no_plan_begins_while_another_is_unfinished(stage: Stage) -> None:
    first = create_plan(new_migration(0, stage.one, stage.servers[2]), approve=True)
    execute_plans()
    second = create_plan(new_migration(0, stage.two, stage.servers[2]), approve=True)
    pause_plan(first.pk)
    execute_plans()
    cancel_plan(first.pk, by="olga")
    execute_plans()
    second.refresh_from_db()
    assert second.state == PlanState.APPROVED


def test_every_change_of_a_plan_is_an_event(stage: Stage) -> None:
    plan = create_plan(new_migration(0, stage.one, stage.servers[2]), approve=True)
    execute_plans()
    events = Event.objects.filter(subject=str(plan.pk)).order_by("seq")
    happened = list(events.values_list("data__event", flat=True))
    assert happened == ["created", "approved", "began", "progress"]
    last = events.last()
    assert last is not None
    assert last.data["moves"]["moving"] == 1


@pytest.mark.parametrize("state", [ServerState.DRAINING, ServerState.CORDONED])
def test_a_plan_whose_target_closes_is_superseded(stage: Stage, state: ServerState) -> None:
    plan = create_plan(new_migration(0, stage.one, stage.servers[2]), approve=True)
    Server.objects.filter(pk=stage.servers[2].pk).update(state=state)
    execute_plans()
    plan.refresh_from_db()
    assert plan.state == PlanState.SUPERSEDED
    assert plan.message == ("its only bundle was dropped: s2 no longer has enough free capacity.")


@pytest.mark.django_db(transaction=True)
def test_concurrent_workers_request_a_migration_once(stage: Stage) -> None:
    plan = create_plan(
        new_migration(0, stage.one, stage.servers[2]),
        new_migration(1, stage.two, stage.servers[2]),
        approve=True,
    )
    at_once(4, execute_plans)
    execute_plans()
    assert Migration.objects.count() == 2
    assert world.count(plan.pk, PlannedMigrationState.MOVING) == 2


def test_a_proposal_that_cannot_be_rebased_does_not_stop_the_plan_under_way(stage: Stage) -> None:
    begun = create_plan(new_migration(0, stage.one, stage.servers[2]), approve=True)
    execute_plans()
    world.finish_migrations()
    unreadable = new_migration(0, stage.two, stage.servers[2])
    unreadable.purpose = "unknown"
    create_plan(unreadable)
    world.end_job(stage.two)
    with pytest.raises(ValueError, match="unknown"):
        tasks.execute_plans()
    begun.refresh_from_db()
    assert (begun.state, states(begun)) == (PlanState.DONE, ["done"])
