"""Plans: writing, approval and superseding."""

from datetime import timedelta

import pytest
from django.utils import timezone

from apps.common.core.errors import ConflictError
from apps.common.core.preconditions import ChangedMeanwhileError
from apps.placement.core.rebalancing.lifecycle import PlanState
from apps.placement.models import Plan
from apps.placement.services.rebalancing.approval import approve_plan
from apps.placement.services.rebalancing.plans import (
    PlanSupersededError,
    cancel_plan,
    prune_plans,
    prune_proposals,
)
from apps.workloads.services import delete_job
from tests.placement import rebalancing_world as world
from tests.placement.conftest import Stage
from tests.placement.rebalancing_world import create_plan, new_migration, states


def test_a_newer_plan_supersedes_a_proposed_one(stage: Stage) -> None:
    older = create_plan(new_migration(0, stage.one, stage.servers[2]))
    newer = create_plan(new_migration(0, stage.two, stage.servers[2]))
    older.refresh_from_db()
    assert (str(older), str(newer)) == ("p-0001", "p-0002")
    assert (older.state, older.message) == (PlanState.SUPERSEDED, "p-0002 is newer.")
    assert states(older) == ["cancelled"]


def test_a_newer_plan_does_not_supersede_an_approved_one(stage: Stage) -> None:
    older = create_plan(new_migration(0, stage.one, stage.servers[2]), approve=True)
    create_plan(new_migration(0, stage.two, stage.servers[2]))
    older.refresh_from_db()
    assert older.state == PlanState.APPROVED


def test_an_approval_records_the_user_and_the_time(stage: Stage) -> None:
    plan = create_plan(new_migration(0, stage.one, stage.servers[2]))
    approve_plan(plan.pk, by=stage.by.pk)
    plan.refresh_from_db()
    assert (plan.state, plan.approved_by, plan.approved_s) == (
        PlanState.APPROVED, stage.by, world.NOW_S
    )  # fmt: skip


def test_an_approval_requires_the_generation_the_user_has_seen(stage: Stage) -> None:
    plan = create_plan(new_migration(0, stage.one, stage.servers[2]))
    with pytest.raises(ChangedMeanwhileError):
        approve_plan(plan.pk, by=stage.by.pk, expected=plan.generation + 1)


def test_a_cancelled_plan_cannot_be_approved(stage: Stage) -> None:
    plan = create_plan(new_migration(0, stage.one, stage.servers[2]))
    cancel_plan(plan.pk, by="olga")
    with pytest.raises(ConflictError, match="cancelled plan cannot approve"):
        approve_plan(plan.pk, by=stage.by.pk)


def test_a_plan_is_superseded_if_other_weights_come_into_force(stage: Stage) -> None:
    plan = create_plan(new_migration(0, stage.one, stage.servers[2]))
    world.activate(stage.by, {"P": 0.1, "D": 1.0, "C": 0.0})
    with pytest.raises(PlanSupersededError, match="other weights are in force"):
        approve_plan(plan.pk, by=stage.by.pk)


def test_activating_the_same_weights_again_keeps_the_plan(stage: Stage) -> None:
    plan = create_plan(new_migration(0, stage.one, stage.servers[2]))
    world.activate(stage.by)
    assert approve_plan(plan.pk, by=stage.by.pk).state == PlanState.APPROVED


def test_a_plan_for_weights_no_longer_in_force_is_not_written(stage: Stage) -> None:
    world.activate(stage.by, {"P": 0.1, "D": 1.0, "C": 0.0})
    with pytest.raises(PlanSupersededError):
        create_plan(new_migration(0, stage.one, stage.servers[2]))
    assert not Plan.objects.exists()


def test_the_migration_of_a_job_deleted_during_planning_is_left_out(stage: Stage) -> None:
    moves = [
        new_migration(place, job, stage.servers[2])
        for place, job in enumerate((stage.one, stage.two))
    ]
    world.end_job(stage.one)
    delete_job(stage.one.pk)
    plan = create_plan(*moves)
    assert [m.job_id for m in plan.migrations.all()] == [stage.two.pk]
    assert (plan.proposed["moves"], plan.proposed["bundles"]) == (1, 1)


def test_a_plan_whose_jobs_were_all_deleted_during_planning_is_not_written(stage: Stage) -> None:
    older = create_plan(new_migration(0, stage.two, stage.servers[2]))
    move = new_migration(0, stage.one, stage.servers[2])
    world.end_job(stage.one)
    delete_job(stage.one.pk)
    with pytest.raises(PlanSupersededError, match="All jobs of the plan were deleted"):
        create_plan(move)
    assert Plan.objects.get() == older
    assert Plan.objects.get().state == PlanState.PROPOSED


def test_plans_that_never_began_are_pruned_after_some_days(stage: Stage) -> None:
    old, young, moved = (
        create_plan(new_migration(0, stage.one, stage.servers[2])) for _ in range(3)
    )
    Plan.objects.filter(pk__in=[old.pk, moved.pk]).update(
        created_at=timezone.now() - timedelta(days=8), state=PlanState.CANCELLED
    )
    Plan.objects.filter(pk=moved.pk).update(began_s=world.NOW_S, ended_s=world.NOW_S)
    week_ago = timezone.now() - timedelta(days=7)
    assert prune_proposals(before=None) == prune_plans(before=None) == 0
    assert prune_proposals(before=week_ago) == 1
    assert set(Plan.objects.values_list("pk", flat=True)) == {young.pk, moved.pk}


def test_plans_that_have_ended_are_pruned_but_the_newest(stage: Stage) -> None:
    done, running, newest = (
        create_plan(new_migration(0, stage.one, stage.servers[2])) for _ in range(3)
    )
    Plan.objects.update(created_at=timezone.now() - timedelta(days=91), state=PlanState.DONE)
    Plan.objects.filter(pk=running.pk).update(state=PlanState.RUNNING)
    assert prune_plans(before=timezone.now() - timedelta(days=90)) == 1
    assert set(Plan.objects.values_list("pk", flat=True)) == {running.pk, newest.pk}
    assert not Plan.objects.filter(pk=done.pk).exists()
