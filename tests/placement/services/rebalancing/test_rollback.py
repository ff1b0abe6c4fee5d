"""Rollback of plans."""

import pytest

from apps.common.core.errors import ConflictError
from apps.placement.core.rebalancing.lifecycle import PlanState
from apps.placement.models import MigrationPurpose, Plan, PlanCause
from apps.placement.services.rebalancing.evaluation import evaluate_plan
from apps.placement.services.rebalancing.executor import execute_plans
from apps.placement.services.rebalancing.plan_requests import (
    process_plan_requests,
    request_rollback,
)
from apps.placement.services.rebalancing.planner import NoGain, measure_effect
from apps.placement.services.rebalancing.plans import (
    NewPlan,
    cancel_plan,
)
from apps.placement.services.rebalancing.rollback import NO_CAPACITY, propose_rollback
from tests.placement import rebalancing_world as world
from tests.placement.conftest import Stage
from tests.placement.rebalancing_world import create_plan, new_migration, states


def done(stage: Stage) -> Plan:
    """An ended plan that migrated the jobs of s0 and of s1."""
    plan = create_plan(
        new_migration(0, stage.three, stage.servers[2]),
        new_migration(1, stage.one, stage.servers[1]),
        approve=True,
    )
    for _ in range(3):
        execute_plans()
        world.finish_migrations()
    evaluate_plan(plan.pk, measure=measure_effect)
    plan.refresh_from_db()
    return plan


def test_a_rollback_reverses_the_last_migration_first(stage: Stage) -> None:
    plan = done(stage)
    request_rollback(plan.pk, by=stage.by.pk, approve=False)
    assert process_plan_requests() == 1
    rollback = Plan.objects.get(cause=PlanCause.REVERSE)
    s0, s1, s2 = (server.pk for server in stage.servers)
    moves = rollback.migrations.order_by("ordinal")
    assert list(moves.values_list("job__name", "from_server_id", "to_server_id")) == [
        ("one", s1, s0), ("three", s2, s1)
    ]  # fmt: skip
    assert {move.purpose for move in moves} == {MigrationPurpose.REVERSE}
    assert (rollback.reverses, rollback.state) == (plan, PlanState.PROPOSED)
    assert rollback.message == "rolls back 2 of 2 migrations of p-0001"


def test_a_rollback_can_be_approved_at_once(stage: Stage) -> None:
    plan = done(stage)
    request_rollback(plan.pk, by=stage.by.pk, approve=True)
    process_plan_requests()
    for _ in range(4):
        execute_plans()
        world.finish_migrations()
    rollback = Plan.objects.get(cause=PlanCause.REVERSE)
    evaluate_plan(rollback.pk, measure=measure_effect)
    assert world.allocation_of(stage.one).server_id == stage.servers[0].pk
    assert world.allocation_of(stage.three).server_id == stage.servers[1].pk
    assert states(rollback) == ["done", "done"]
    assert rollback.approved_by == stage.by


def test_a_container_that_no_longer_fits_is_left_out_of_the_rollback(stage: Stage) -> None:
    plan = create_plan(
        new_migration(0, stage.one, stage.servers[2]),
        new_migration(1, stage.two, stage.servers[2]),
        approve=True,
    )
    execute_plans()
    world.finish_migrations()
    execute_plans()
    evaluate_plan(plan.pk, measure=measure_effect)
    world.running_job("in the way", (stage.servers[0], 3))
    rollback = propose_rollback(plan.pk, by=stage.by.pk)
    assert isinstance(rollback, NewPlan)
    assert [m.message for m in rollback.migrations] == ["", NO_CAPACITY]
    assert (
        rollback.message
        == "rolls back 1 of 2 migrations of p-0001; no free capacity for 1 container"
    )


def test_there_is_no_rollback_without_free_capacity(stage: Stage) -> None:
    plan = done(stage)
    world.running_job("in the way", (stage.servers[0], 3))
    rollback = propose_rollback(plan.pk, by=stage.by.pk)
    assert rollback == NoGain(
        "The servers that p-0001 migrated containers from have no free capacity."
    )


def test_ended_containers_are_omitted_from_the_rollback(stage: Stage) -> None:
    plan = done(stage)
    world.end_job(stage.one)
    rollback = propose_rollback(plan.pk, by=stage.by.pk)
    assert isinstance(rollback, NewPlan)
    assert [str(move.job_id) for move in rollback.migrations] == [str(stage.three.pk)]
    assert (
        rollback.message
        == "rolls back 1 of 2 migrations of p-0001; 1 container ended or moved again"
    )


def test_a_plan_is_rolled_back_once(stage: Stage) -> None:
    plan = done(stage)
    request_rollback(plan.pk, by=stage.by.pk, approve=False)
    process_plan_requests()
    with pytest.raises(ConflictError, match="p-0002 already rolls p-0001 back"):
        request_rollback(plan.pk, by=stage.by.pk, approve=False)


def test_a_plan_that_has_not_ended_cannot_be_rolled_back(stage: Stage) -> None:
    plan = create_plan(new_migration(0, stage.one, stage.servers[2]), approve=True)
    with pytest.raises(ConflictError, match="has not ended"):
        request_rollback(plan.pk, by=stage.by.pk, approve=False)


def test_a_plan_cancelled_before_it_began_cannot_be_rolled_back(stage: Stage) -> None:
    plan = create_plan(new_migration(0, stage.one, stage.servers[2]))
    cancel_plan(plan.pk, by="olga")
    with pytest.raises(ConflictError, match="migrated nothing"):
        request_rollback(plan.pk, by=stage.by.pk, approve=False)
