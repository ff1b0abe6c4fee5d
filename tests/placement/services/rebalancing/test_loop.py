"""The rebalancing loop: when it ticks, what it plans, and what it does not migrate."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from apps.inventory.models import Server
from apps.placement.core.rebalancing.lifecycle import PlanState
from apps.placement.models import Activation, Plan, PlanCause, RebalancingLoop
from apps.placement.selectors import plans as selectors
from apps.placement.selectors.preferences import weights_in_force
from apps.placement.services.rebalancing.evaluation import evaluate_plan
from apps.placement.services.rebalancing.executor import execute_plans
from apps.placement.services.rebalancing.loop import (
    MIN_INTERVAL_FACTOR,
    claim_tick,
    tick,
    update_loop_settings,
)
from apps.placement.services.rebalancing.planner import NoGain, measure_effect, propose_plan
from apps.scheduling.models import Allocation
from apps.workloads.models import Job
from tests.placement import rebalancing_world as world
from tests.placement.conftest import Stage
from tests.placement.rebalancing_world import create_plan, new_migration
from tests.races import at_once


@pytest.fixture
def wasteful(stage: Stage) -> Stage:
    """A cluster in which a plan gains: s0 and s2 are half empty."""
    world.running_job("stays", (stage.servers[2], 1))
    return stage


# ---- times of ticks ----


def let_pause_pass() -> None:
    """Set the last tick to one interval ago."""
    RebalancingLoop.objects.update(
        looked_at=timezone.now() - timedelta(seconds=MIN_INTERVAL_FACTOR * 2.0)
    )


def test_ticks_keep_a_pause_in_wall_time(stage: Stage) -> None:
    assert claim_tick() == world.NOW_S
    world.pass_time(86_400.0)
    assert claim_tick() is None
    let_pause_pass()
    assert claim_tick() == world.NOW_S + 86_400.0


def test_a_tick_is_due_once_per_cluster_minute(stage: Stage) -> None:
    assert claim_tick() == world.NOW_S
    assert claim_tick() is None
    world.pass_time(59.0)
    assert claim_tick() is None
    world.pass_time(1.0)
    let_pause_pass()
    assert claim_tick() == world.NOW_S + 60.0


def test_a_tick_is_due_after_the_clock_was_set_back(stage: Stage) -> None:
    claim_tick()
    let_pause_pass()
    world.pass_time(-5000.0)
    assert claim_tick() == world.NOW_S - 5000.0


@pytest.mark.django_db(transaction=True)
def test_one_of_two_workers_claims_the_tick(stage: Stage) -> None:
    selectors.loop_settings()
    assert sorted(at_once(3, claim_tick), key=str) == [world.NOW_S, None, None]


# ---- plans of a tick ----


def test_the_loop_is_off_by_default(wasteful: Stage) -> None:
    assert tick() == ""
    assert not Plan.objects.exists()


def test_an_advised_plan_awaits_approval(wasteful: Stage) -> None:
    update_loop_settings({"mode": "advise"})
    assert tick().startswith("p-0001 was created: 1 migration, F lower by 0.11")
    plan = Plan.objects.get()
    assert (plan.state, plan.cause, plan.created_by) == (PlanState.PROPOSED, PlanCause.LOOP, None)


def test_an_automatic_plan_is_executed(wasteful: Stage) -> None:
    update_loop_settings({"mode": "automatic"})
    tick()
    execute_plans()
    plan = Plan.objects.get()
    assert (plan.state, plan.approved_by) == (PlanState.RUNNING, None)
    assert len(world.open_migrations()) == 1


@pytest.mark.parametrize(
    ("approve", "finding"),
    [(False, "p-0001 awaits approval."), (True, "p-0001 is under way.")],
)
def test_no_plan_is_created_while_another_is_open(
    wasteful: Stage, approve: bool, finding: str
) -> None:
    create_plan(new_migration(0, wasteful.one, wasteful.servers[2]), approve=approve)
    update_loop_settings({"mode": "automatic"})
    assert tick() == finding
    assert Plan.objects.count() == 1


def test_no_plan_is_created_without_weights(wasteful: Stage) -> None:
    world.deactivate()
    update_loop_settings({"mode": "advise"})
    assert tick() == "No weights are in force."


def test_the_finding_gives_the_reason_for_no_gain(stage: Stage) -> None:
    update_loop_settings({"mode": "advise"})
    assert tick() == "No migration of the 3 movable containers gains more than it costs."
    event = selectors.last_tick_event()
    assert event is not None
    assert event.data["finding"] == tick()


def test_equal_findings_are_recorded_once(stage: Stage) -> None:
    update_loop_settings({"mode": "advise"})
    tick()
    first = selectors.last_tick_event()
    tick()
    assert selectors.last_tick_event() == first


def test_no_plan_is_created_below_the_minimum_gain(wasteful: Stage) -> None:
    update_loop_settings({"mode": "advise", "least_gain": 0.2})
    assert tick() == ("The 1 migrations found lower F by 0.11; the minimum gain of a plan is 0.2.")
    assert not Plan.objects.exists()


def test_a_gain_must_exceed_the_migration_cost(wasteful: Stage) -> None:
    update_loop_settings({"mode": "advise", "migration": 4 * 0.12})  # 4 containers run
    assert tick() == "No migration of the 4 movable containers gains more than it costs."


# ---- changes during a search ----


def during(change: Callable[[], Any]) -> str:
    """Run a tick, with a change between the search and the write."""

    def make_plan(*args: Any, **kwargs: Any) -> Any:
        proposal = propose_plan(*args, **kwargs)
        change()
        return proposal

    return tick(propose=make_plan)


def test_a_loop_switched_off_during_planning_writes_no_plan(wasteful: Stage) -> None:
    update_loop_settings({"mode": "automatic"})
    finding = during(lambda: update_loop_settings({"mode": "off"}))
    assert finding == "The loop was switched off during planning."
    assert not Plan.objects.exists()


def test_the_mode_at_the_time_of_writing_decides_on_approval(wasteful: Stage) -> None:
    update_loop_settings({"mode": "automatic"})
    during(lambda: update_loop_settings({"mode": "advise"}))
    assert Plan.objects.get().state == PlanState.PROPOSED


def test_a_plan_requested_during_planning_takes_precedence(wasteful: Stage) -> None:
    update_loop_settings({"mode": "automatic"})
    finding = during(lambda: create_plan(new_migration(0, wasteful.one, wasteful.servers[2])))
    assert finding == "Another plan was created during planning."
    assert Plan.objects.get().state == PlanState.PROPOSED


def test_no_plan_is_created_if_the_racks_of_the_weights_were_removed(wasteful: Stage) -> None:
    update_loop_settings({"mode": "automatic"})
    Activation.objects.update(racks=[0])
    assert tick() == "The weights in force are limited to racks that no longer exist."


# ---- jobs that are not migrated ----


def proposed(cause: PlanCause, **settings: Any) -> Any:
    selectors.loop_settings()
    RebalancingLoop.objects.update(**settings)
    active = weights_in_force()
    assert active is not None
    return propose_plan(active, cause=cause, settings=selectors.loop_settings())


def test_young_jobs_are_not_migrated(wasteful: Stage) -> None:
    proposal = proposed(PlanCause.LOOP, youngest_s=3601.0)
    assert isinstance(proposal, NoGain)
    assert proposal.reason.startswith("None of the 4 containers can be migrated now")


def test_plans_respect_the_limit_of_migrations(wasteful: Stage) -> None:
    proposal = proposed(PlanCause.LOOP, moves_per_plan=1)
    assert len(proposal.migrations) == 1


@pytest.mark.parametrize(("target_count", "plans"), [(500_000_000, 1), (0, 0)])
def test_bundles_that_exceed_the_memory_of_their_target_are_dropped(
    stage: Stage, target_count: int, plans: int
) -> None:
    hog = world.running_job("hog", (stage.servers[2], 1))
    Allocation.objects.filter(job=hog).update(memory_bytes=14_000_000_000)
    Server.objects.filter(pk=stage.servers[2].pk).update(used_memory_bytes=14_000_000_000)
    Allocation.objects.filter(job=stage.one).update(memory_bytes=1_000_000_000)
    # a job without requested sizes gets equal shares there: 2 x 4 GB, of which 2 GB are free
    Job.objects.filter(pk=stage.one.pk).update(unit_memory_bytes=target_count)
    Job.objects.exclude(pk=stage.one.pk).update(held=True)
    proposal = proposed(PlanCause.LOOP)
    assert isinstance(proposal, NoGain) == (not plans)


def there_and_stuck(stage: Stage) -> None:
    """A job that migrated from s0 to s2 within the last hour; its best server is s0."""
    plan = create_plan(new_migration(0, stage.one, stage.servers[2]), approve=True)
    execute_plans()
    world.finish_migrations()
    execute_plans()
    evaluate_plan(plan.pk, measure=measure_effect)
    world.pass_time(600.0)
    world.running_job("wants company", (stage.servers[0], 2), held=True)  # not movable


def test_the_loop_returns_no_container_within_the_hour(stage: Stage) -> None:
    there_and_stuck(stage)
    assert isinstance(proposed(PlanCause.LOOP), NoGain)


def test_a_requested_plan_may_return_a_container(stage: Stage) -> None:
    there_and_stuck(stage)
    proposal = proposed(PlanCause.REQUEST)
    assert [(m.job_id, m.to_server_id) for m in proposal.migrations] == [
        (stage.one.pk, stage.servers[0].pk)
    ]


def test_jobs_at_the_hourly_limit_are_not_planned(stage: Stage) -> None:
    there_and_stuck(stage)
    assert isinstance(proposed(PlanCause.REQUEST, moves_per_job=1), NoGain)


def test_a_container_may_return_after_an_hour(stage: Stage) -> None:
    there_and_stuck(stage)
    world.pass_time(3100.0)
    assert len(proposed(PlanCause.LOOP).migrations) == 1


# ---- limits ----


def test_thrashing_jobs_are_reported(stage: Stage) -> None:
    for target in (stage.servers[2], stage.servers[0]):
        plan = create_plan(new_migration(0, stage.one, target), approve=True)
        execute_plans()
        world.finish_migrations()
        execute_plans()
        evaluate_plan(plan.pk, measure=measure_effect)
        world.pass_time(120.0)
    report = selectors.thrashing_report(world.NOW_S + 240.0, allowed=1)
    assert (report.moves, report.jobs) == (2, 1)
    assert report.often == (("one", stage.one.pk, 2),)
    assert report.returned == (("one", stage.one.pk, "s0"),)


def test_a_single_migration_is_not_thrashing(stage: Stage) -> None:
    plan = create_plan(new_migration(0, stage.one, stage.servers[2]), approve=True)
    execute_plans()
    world.finish_migrations()
    execute_plans()
    evaluate_plan(plan.pk, measure=measure_effect)
    report = selectors.thrashing_report(world.NOW_S, allowed=2)
    assert (report.often, report.returned) == ((), ())
