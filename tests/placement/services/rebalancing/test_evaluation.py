"""Evaluation of plans: realised against predicted effect, with values computed by hand."""

from typing import Any

import pytest

from apps.execution.core.migration import MigrationOutcome
from apps.placement.core.rebalancing.lifecycle import PlanState
from apps.placement.models import Plan
from apps.placement.services.rebalancing.evaluation import evaluate_plan
from apps.placement.services.rebalancing.executor import execute_plans
from apps.placement.services.rebalancing.planner import measure_effect
from apps.placement.services.rebalancing.plans import cancel_plan
from apps.scheduling.models import Allocation
from apps.workloads.models import Job
from tests.placement import rebalancing_world as world
from tests.placement.conftest import Stage
from tests.placement.rebalancing_world import create_plan, new_migration


def executed(stage: Stage, **values: Any) -> Any:
    """An executed plan that empties s0: its job of 2 units is now on s2."""
    plan = create_plan(new_migration(0, stage.one, stage.servers[2]), approve=True, **values)
    execute_plans()
    world.finish_migrations()
    execute_plans()
    return plan


def test_migrating_between_equal_servers_has_no_measured_effect(stage: Stage) -> None:
    plan = executed(stage)
    evaluate_plan(plan.pk, measure=measure_effect)
    plan.refresh_from_db()
    # one server of 2 of 4 units: 40 + 80 * 2/4 = 80 W; the full one: 120 W
    assert plan.realised["after"]["watts"] == pytest.approx(200.0)
    assert plan.realised["before"]["watts"] == pytest.approx(200.0)
    assert plan.realised["moves"]["done"] == 1
    assert plan.state == PlanState.DONE
    assert plan.ended_s == world.NOW_S


def test_emptying_a_server_saves_its_idle_power(stage: Stage) -> None:
    world.running_job("stays", (stage.servers[2], 1))
    plan = executed(stage)
    evaluate_plan(plan.pk, measure=measure_effect)
    plan.refresh_from_db()
    # s1 120 W in both; before: s0 80 W, s2 40 + 80/4 = 60 W; after: s2 40 + 80 * 3/4 = 100 W
    assert plan.realised["before"]["watts"] == pytest.approx(260.0)
    assert plan.realised["after"]["watts"] == pytest.approx(220.0)
    # 40 of the 360 W that all may draw: F fell by 0.111; the prediction was 0.1
    assert plan.verdict == (
        "111 % of the predicted gain; power: saved 40 of the predicted 100 W; "
        "1 of 1 migration done."
    )


def test_jobs_that_arrive_or_leave_during_a_plan_do_not_affect_its_gain(stage: Stage) -> None:
    world.running_job("stays", (stage.servers[2], 1))
    plan = executed(stage)
    world.end_job(stage.three)
    late = world.running_job("late", (stage.servers[0], 4))
    Allocation.objects.filter(job=late).update(acquired_seq=90_000)
    evaluate_plan(plan.pk, measure=measure_effect)
    plan.refresh_from_db()
    before, after = plan.realised["before"]["watts"], plan.realised["after"]["watts"]
    # s0 holds the newcomer either way, so the migration saves nothing
    assert before - after == pytest.approx(0.0)
    assert (plan.realised["arrived"], plan.realised["left"]) == (1, 1)
    assert "1 job arrived and 1 ended in the meantime" in plan.verdict


def test_a_plan_fails_if_all_its_migrations_fail(stage: Stage) -> None:
    plan = create_plan(new_migration(0, stage.one, stage.servers[2]), approve=True)
    execute_plans()
    world.finish_migrations(MigrationOutcome.FAILED, "the copy broke off")
    assert execute_plans() == [plan.pk]
    evaluate_plan(plan.pk, measure=measure_effect)
    plan.refresh_from_db()
    assert plan.state == PlanState.FAILED
    assert plan.verdict == "No container was migrated: 1 of 1 migration failed."


def test_a_plan_whose_jobs_all_ended_is_done_without_migrations(stage: Stage) -> None:
    plan = create_plan(new_migration(0, stage.one, stage.servers[2]), approve=True)
    Job.objects.filter(pk=stage.one.pk).update(cancel_requested=True)
    assert execute_plans() == [plan.pk]
    evaluate_plan(plan.pk, measure=measure_effect)
    plan.refresh_from_db()
    assert plan.state == PlanState.DONE
    assert plan.verdict == (
        "No container was migrated: 0 of 1 migration started; the jobs ended or were skipped."
    )


def test_migrated_containers_that_ended_gain_nothing_and_are_counted(stage: Stage) -> None:
    world.running_job("stays", (stage.servers[2], 1))
    plan = executed(stage)
    world.end_job(stage.one)
    evaluate_plan(plan.pk, measure=measure_effect)
    plan.refresh_from_db()
    assert plan.verdict.startswith(
        "0 % of the predicted gain; power: saved 0 of the predicted 100 W; "
    )
    assert "1 of 1 migration done, 1 of them ended since" in plan.verdict


def test_a_cancelled_plan_is_evaluated_and_stays_cancelled(stage: Stage) -> None:
    plan = create_plan(
        new_migration(0, stage.one, stage.servers[2]),
        new_migration(1, stage.three, stage.servers[0]),
        approve=True,
    )
    execute_plans()
    world.claim_migrations()
    cancel_plan(plan.pk, by="olga")
    world.finish_migrations()
    assert execute_plans() == [plan.pk]
    evaluate_plan(plan.pk, measure=measure_effect)
    plan.refresh_from_db()
    assert plan.state == PlanState.CANCELLED
    assert plan.realised is not None
    assert plan.realised["moves"] == {
        "waiting": 0, "moving": 0, "done": 1, "skipped": 0, "failed": 0, "cancelled": 1
    }  # fmt: skip
    assert "1 of 2 migrations done" in plan.verdict


def test_a_plan_is_evaluated_once(stage: Stage) -> None:
    plan = executed(stage)
    evaluate_plan(plan.pk, measure=measure_effect)
    plan.refresh_from_db()
    world.pass_time(100.0)
    evaluate_plan(plan.pk, measure=measure_effect)
    assert Plan.objects.get(pk=plan.pk).ended_s == plan.ended_s
    assert execute_plans() == []
