"""What came of plans: measured again, against what was predicted, by numbers done by hand."""

from collections.abc import Mapping
from typing import Any

import pytest

from apps.execution.core.migration import MoveOutcome
from apps.placement.core.verdicts import Ended, verdict
from apps.placement.models import Plan, PlanState
from apps.placement.services.carrying import carry_out
from apps.placement.services.plans import cancel_plan
from apps.placement.services.proposing import compare
from apps.placement.services.settling import settle
from apps.scheduling.models import Allocation
from apps.workloads.models import Job
from tests.placement.plans import world
from tests.placement.plans.conftest import Stage
from tests.placement.plans.world import new_move, written


def carried(stage: Stage, **values: Any) -> Any:
    """A plan that empties s0: its job of 2 units goes to s2, where two jobs keep it company."""
    plan = written(new_move(0, stage.one, stage.servers[2]), approve=True, **values)
    carry_out()
    world.end_migrations()
    carry_out()
    return plan


def test_moving_between_like_servers_changes_nothing_and_the_numbers_say_so(stage: Stage) -> None:
    plan = carried(stage)
    settle(plan.pk, compare=compare)
    plan.refresh_from_db()
    # one server of 2 of 4 units: 40 + 80 * 2/4 = 80 W; the full one: 120 W
    assert plan.realised["after"]["watts"] == pytest.approx(200.0)
    assert plan.realised["before"]["watts"] == pytest.approx(200.0)
    assert plan.realised["moves"]["done"] == 1
    assert plan.state == PlanState.DONE
    assert plan.ended_s == world.NOW_S


def test_emptying_a_server_saves_its_idle_power(stage: Stage) -> None:
    world.running("stays", (stage.servers[2], 1))
    plan = carried(stage)
    settle(plan.pk, compare=compare)
    plan.refresh_from_db()
    # s1 120 W in both; before: s0 80 W, s2 40 + 80/4 = 60 W; after: s2 40 + 80 * 3/4 = 100 W
    assert plan.realised["before"]["watts"] == pytest.approx(260.0)
    assert plan.realised["after"]["watts"] == pytest.approx(220.0)
    # 40 of the 360 W that all may draw: F fell by 0.111 where 0.1 was predicted
    assert plan.verdict == (
        "111 % of the gain predicted; power: saved 40 of 100 W predicted; 1 of 1 move done."
    )


def test_what_came_and_went_meanwhile_does_not_count(stage: Stage) -> None:
    world.running("stays", (stage.servers[2], 1))
    plan = carried(stage)
    world.end_job(stage.three)
    late = world.running("late", (stage.servers[0], 4))
    Allocation.objects.filter(job=late).update(acquired_seq=90_000)
    settle(plan.pk, compare=compare)
    plan.refresh_from_db()
    before, after = plan.realised["before"]["watts"], plan.realised["after"]["watts"]
    # s0 holds the newcomer either way, so that nothing is saved by having left it
    assert before - after == pytest.approx(0.0)
    assert (plan.realised["arrived"], plan.realised["left"]) == (1, 1)
    assert "1 job came and 1 ended meanwhile" in plan.verdict


def test_a_plan_of_which_nothing_was_done_has_failed(stage: Stage) -> None:
    plan = written(new_move(0, stage.one, stage.servers[2]), approve=True)
    carry_out()
    world.end_migrations(MoveOutcome.FAILED, "the copy broke off")
    assert carry_out() == [plan.pk]
    settle(plan.pk, compare=compare)
    plan.refresh_from_db()
    assert plan.state == PlanState.FAILED
    assert plan.verdict == "Nothing was moved: 1 of 1 move failed."


def test_a_plan_whose_jobs_all_ended_moved_nothing_and_did_not_fail(stage: Stage) -> None:
    plan = written(new_move(0, stage.one, stage.servers[2]), approve=True)
    Job.objects.filter(pk=stage.one.pk).update(cancel_requested=True)
    assert carry_out() == [plan.pk]
    settle(plan.pk, compare=compare)
    plan.refresh_from_db()
    assert plan.state == PlanState.DONE
    assert plan.verdict == (
        "Nothing was moved: none of 1 move was made, as its job had ended or was left alone."
    )


def test_what_was_moved_and_ended_since_gains_nothing_and_is_counted(stage: Stage) -> None:
    world.running("stays", (stage.servers[2], 1))
    plan = carried(stage)
    world.end_job(stage.one)
    settle(plan.pk, compare=compare)
    plan.refresh_from_db()
    assert plan.verdict.startswith(
        "0 % of the gain predicted; power: saved 0 of 100 W predicted; "
    )
    assert "1 of 1 move done, of which 1 ended since" in plan.verdict


def test_a_cancelled_plan_stays_cancelled_and_is_measured_all_the_same(stage: Stage) -> None:
    plan = written(
        new_move(0, stage.one, stage.servers[2]), new_move(1, stage.three, stage.servers[0]),
        approve=True,
    )  # fmt: skip
    carry_out()
    world.take_up_migrations()
    cancel_plan(plan.pk, by="olga")
    world.end_migrations()
    assert carry_out() == [plan.pk]
    settle(plan.pk, compare=compare)
    plan.refresh_from_db()
    assert plan.state == PlanState.CANCELLED
    assert plan.realised is not None
    assert plan.realised["moves"] == {
        "waiting": 0, "moving": 0, "done": 1, "skipped": 0, "failed": 0, "cancelled": 1
    }  # fmt: skip
    assert "1 of 2 moves done" in plan.verdict


def test_a_plan_is_settled_once(stage: Stage) -> None:
    plan = carried(stage)
    settle(plan.pk, compare=compare)
    plan.refresh_from_db()
    world.pass_time(100.0)
    settle(plan.pk, compare=compare)
    assert Plan.objects.get(pk=plan.pk).ended_s == plan.ended_s
    assert carry_out() == []


def ended(before: Mapping[str, float], after: Mapping[str, float], **values: Any) -> Ended:
    wanted = {
        "before": {"watts": 4200.0, "diversity": 3.0, "crossing": 6, "F": 0.5},
        "after": {"watts": 0.0, "diversity": 4.5, "crossing": 2, "F": 0.4},
    }
    defaults = {"predicted": wanted, "done": 36, "asked": 37}
    return Ended(realised={"before": before, "after": after}, **{**defaults, **values})


def test_the_verdict_names_each_objective_that_was_to_change() -> None:
    before = {"watts": 9000.0, "diversity": 2.0, "crossing": 5, "F": 0.6}
    after = {"watts": 5100.0, "diversity": 3.4, "crossing": 2, "F": 0.51}
    assert verdict(ended(before, after)) == (
        "90 % of the gain predicted; power: saved 3.9 of 4.2 kW predicted; "
        "diversity: +1.40 of +1.50; "
        "crossing traffic: 3 of 4 containers brought to their job; 36 of 37 moves done."
    )


def test_what_got_worse_has_a_minus() -> None:
    before = {"watts": 100.0, "diversity": 3.0, "crossing": 2, "F": 0.5}
    after = {"watts": 150.0, "diversity": 2.0, "crossing": 3, "F": 0.55}
    assert verdict(ended(before, after)) == (
        "−50 % of the gain predicted; power: +50 W where −4,200 W was predicted; "
        "diversity: −1.00 of +1.50; "
        "crossing traffic: +1 where −4 was predicted; 36 of 37 moves done."
    )


def test_power_that_a_plan_was_to_cost_is_a_cost() -> None:
    wanted = {"before": {"watts": 100.0, "F": 0.4}, "after": {"watts": 180.0, "F": 0.5}}
    done = {"watts": 110.0, "F": 0.4}, {"watts": 180.0, "F": 0.5}
    assert verdict(ended(*done, predicted=wanted, done=2, asked=2)) == (
        "Power: costs 70 of 80 W predicted; 2 of 2 moves done."
    )


def test_what_came_to_nothing_has_no_sign() -> None:
    before = {"watts": 4000.0, "diversity": 3.0, "crossing": 5, "F": 0.5}
    after = {"watts": 4000.4, "diversity": 3.001, "crossing": 5.2, "F": 0.5004}
    assert verdict(ended(before, after, done=3, asked=9)) == (
        "0 % of the gain predicted; power: saved 0.0 of 4.2 kW predicted; "
        "diversity: as before where +1.50 was predicted; "
        "crossing traffic: 0 of 4 containers brought to their job; 3 of 9 moves done."
    )
