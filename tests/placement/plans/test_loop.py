"""The online loop: when it looks, what it makes of it, and what it leaves alone."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from apps.inventory.models import Server
from apps.placement.models import Activation, Cause, Loop, Plan, PlanState
from apps.placement.selectors import plans as selectors
from apps.placement.selectors.preferences import weights_in_force
from apps.placement.services.carrying import carry_out
from apps.placement.services.loop import REST, claim_look, look, set_loop
from apps.placement.services.proposing import NothingGained, compare, propose
from apps.placement.services.settling import settle
from apps.scheduling.models import Allocation
from apps.workloads.models import Job
from tests.placement.plans import world
from tests.placement.plans.conftest import Stage
from tests.placement.plans.world import new_move, written
from tests.races import at_once


@pytest.fixture
def wasteful(stage: Stage) -> Stage:
    """One plan pays: s0 and s2 are half empty."""
    world.running("stays", (stage.servers[2], 1))
    return stage


# ---- when ----


def rested() -> None:
    """Let enough wall time pass since the last look."""
    Loop.objects.update(looked_at=timezone.now() - timedelta(seconds=REST * 2.0))


def test_it_rests_however_fast_cluster_time_passes(stage: Stage) -> None:
    assert claim_look() == world.NOW_S
    world.pass_time(86_400.0)
    assert claim_look() is None
    rested()
    assert claim_look() == world.NOW_S + 86_400.0


def test_it_looks_once_a_minute_of_cluster_time(stage: Stage) -> None:
    assert claim_look() == world.NOW_S
    assert claim_look() is None
    world.pass_time(59.0)
    assert claim_look() is None
    world.pass_time(1.0)
    rested()
    assert claim_look() == world.NOW_S + 60.0


def test_it_looks_anew_when_the_clock_was_set_back(stage: Stage) -> None:
    claim_look()
    rested()
    world.pass_time(-5000.0)
    assert claim_look() == world.NOW_S - 5000.0


@pytest.mark.django_db(transaction=True)
def test_of_two_workers_one_looks(stage: Stage) -> None:
    selectors.loop()
    assert sorted(at_once(3, claim_look), key=str) == [world.NOW_S, None, None]


# ---- what ----


def test_it_is_off_by_default(wasteful: Stage) -> None:
    assert look() == ""
    assert not Plan.objects.exists()


def test_when_it_advises_its_plan_waits_for_somebody(wasteful: Stage) -> None:
    set_loop({"mode": "advise"})
    assert look().startswith("p-0001 was made: 1 move, F lower by 0.11")
    plan = Plan.objects.get()
    assert (plan.state, plan.cause, plan.created_by) == (PlanState.PROPOSED, Cause.LOOP, None)


def test_when_it_is_automatic_its_plan_is_carried_out(wasteful: Stage) -> None:
    set_loop({"mode": "automatic"})
    look()
    carry_out()
    plan = Plan.objects.get()
    assert (plan.state, plan.approved_by) == (PlanState.RUNNING, None)
    assert len(world.open_migrations()) == 1


@pytest.mark.parametrize(
    ("approve", "said"),
    [(False, "p-0001 waits for approval."), (True, "p-0001 is under way.")],
)
def test_it_makes_none_while_another_waits_or_runs_and_names_it(
    wasteful: Stage, approve: bool, said: str
) -> None:
    written(new_move(0, wasteful.one, wasteful.servers[2]), approve=approve)
    set_loop({"mode": "automatic"})
    assert look() == said
    assert Plan.objects.count() == 1


def test_it_makes_none_without_weights(wasteful: Stage) -> None:
    world.deactivate()
    set_loop({"mode": "advise"})
    assert look() == "No weights are in force."


def test_it_says_why_nothing_is_gained(stage: Stage) -> None:
    set_loop({"mode": "advise"})
    assert look() == "No move of the 3 containers that may be moved pays for itself."
    said = selectors.last_look()
    assert said is not None
    assert said.data["finding"] == look()


def test_it_repeats_nothing(stage: Stage) -> None:
    set_loop({"mode": "advise"})
    look()
    first = selectors.last_look()
    look()
    assert selectors.last_look() == first


def test_a_gain_that_is_too_small_makes_no_plan(wasteful: Stage) -> None:
    set_loop({"mode": "advise", "least_gain": 0.2})
    assert look() == (
        "The 1 moves found would lower F by 0.11, which is less than the 0.2 a plan must gain."
    )
    assert not Plan.objects.exists()


def test_a_gain_must_pay_for_the_migration(wasteful: Stage) -> None:
    set_loop({"mode": "advise", "migration": 4 * 0.12})  # 4 containers run
    assert look() == "No move of the 4 containers that may be moved pays for itself."


# ---- what happens while it searches ----


def during(change: Callable[[], Any]) -> str:
    """Look, and let something happen between the search and the plan."""

    def made(*args: Any, **kwargs: Any) -> Any:
        found = propose(*args, **kwargs)
        change()
        return found

    return look(make=made)


def test_a_loop_switched_off_meanwhile_carries_nothing_out(wasteful: Stage) -> None:
    set_loop({"mode": "automatic"})
    said = during(lambda: set_loop({"mode": "off"}))
    assert said == "The loop was switched off while the plan was made."
    assert not Plan.objects.exists()


def test_a_loop_told_to_ask_meanwhile_asks(wasteful: Stage) -> None:
    set_loop({"mode": "automatic"})
    during(lambda: set_loop({"mode": "advise"}))
    assert Plan.objects.get().state == PlanState.PROPOSED


def test_a_plan_somebody_asked_for_meanwhile_stands(wasteful: Stage) -> None:
    set_loop({"mode": "automatic"})
    said = during(lambda: written(new_move(0, wasteful.one, wasteful.servers[2])))
    assert said == "Another plan came while this one was made."
    assert Plan.objects.get().state == PlanState.PROPOSED


def test_where_the_racks_of_the_weights_are_gone_it_makes_none(wasteful: Stage) -> None:
    set_loop({"mode": "automatic"})
    Activation.objects.update(racks=[0])
    assert look() == "The racks that the weights in force are limited to are gone."


# ---- what it leaves alone ----


def proposed(cause: Cause, **settings: Any) -> Any:
    selectors.loop()
    Loop.objects.update(**settings)
    active = weights_in_force()
    assert active is not None
    return propose(active, cause=cause, settings=selectors.loop())


def test_young_jobs_stay_where_they_are(wasteful: Stage) -> None:
    found = proposed(Cause.LOOP, youngest_s=3601.0)
    assert isinstance(found, NothingGained)
    assert found.reason.startswith("None of the 4 containers may be moved now")


def test_plans_have_no_more_moves_than_they_may(wasteful: Stage) -> None:
    found = proposed(Cause.LOOP, moves_per_plan=1)
    assert len(found.moves) == 1


@pytest.mark.parametrize(("asked", "plans"), [(500_000_000, 1), (0, 0)])
def test_no_plan_counts_on_memory_that_its_target_will_not_give(
    stage: Stage, asked: int, plans: int
) -> None:
    hog = world.running("hog", (stage.servers[2], 1))
    Allocation.objects.filter(job=hog).update(memory_bytes=14_000_000_000)
    Server.objects.filter(pk=stage.servers[2].pk).update(used_memory_bytes=14_000_000_000)
    Allocation.objects.filter(job=stage.one).update(memory_bytes=1_000_000_000)
    # what asks for nothing gets equal shares there: 2 x 4 GB, where 2 GB are left
    Job.objects.filter(pk=stage.one.pk).update(unit_memory_bytes=asked)
    Job.objects.exclude(pk=stage.one.pk).update(held=True)
    found = proposed(Cause.LOOP)
    assert isinstance(found, NothingGained) == (not plans)


def there_and_stuck(stage: Stage) -> None:
    """One moved from s0 to s2 within the hour, and would best go back."""
    plan = written(new_move(0, stage.one, stage.servers[2]), approve=True)
    carry_out()
    world.end_migrations()
    carry_out()
    settle(plan.pk, compare=compare)
    world.pass_time(600.0)
    world.running("wants company", (stage.servers[0], 2), held=True)  # stays


def test_the_loop_takes_nothing_back_to_where_it_came_from_within_the_hour(stage: Stage) -> None:
    there_and_stuck(stage)
    assert isinstance(proposed(Cause.LOOP), NothingGained)


def test_somebody_who_asks_may_take_it_back(stage: Stage) -> None:
    there_and_stuck(stage)
    found = proposed(Cause.REQUEST)
    assert [(m.job_id, m.to_server_id) for m in found.moves] == [
        (stage.one.pk, stage.servers[0].pk)
    ]


def test_jobs_moved_often_enough_are_not_moved_by_plans(stage: Stage) -> None:
    there_and_stuck(stage)
    assert isinstance(proposed(Cause.REQUEST, moves_per_job=1), NothingGained)


def test_after_an_hour_it_may_go_back(stage: Stage) -> None:
    there_and_stuck(stage)
    world.pass_time(3100.0)
    assert len(proposed(Cause.LOOP).moves) == 1


# ---- too much ----


def test_what_moves_to_and_fro_is_named(stage: Stage) -> None:
    for target in (stage.servers[2], stage.servers[0]):
        plan = written(new_move(0, stage.one, target), approve=True)
        carry_out()
        world.end_migrations()
        carry_out()
        settle(plan.pk, compare=compare)
        world.pass_time(120.0)
    found = selectors.thrash(world.NOW_S + 240.0, allowed=1)
    assert (found.moves, found.jobs) == (2, 1)
    assert found.often == (("one", stage.one.pk, 2),)
    assert found.returned == (("one", stage.one.pk, "s0"),)


def test_what_moved_once_is_not_named(stage: Stage) -> None:
    plan = written(new_move(0, stage.one, stage.servers[2]), approve=True)
    carry_out()
    world.end_migrations()
    carry_out()
    settle(plan.pk, compare=compare)
    found = selectors.thrash(world.NOW_S, allowed=2)
    assert (found.often, found.returned) == ((), ())
