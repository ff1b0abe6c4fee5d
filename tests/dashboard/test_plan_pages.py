"""The pages of plans, as people with and without the role get them."""

import pytest
from django.core.cache import cache
from django.test import Client

from apps.accounts.core.roles import Role
from apps.dashboard.core.move_tally import Tally
from apps.dashboard.figures import plan_progress
from apps.dashboard.figures.plan_progress import PlanProgress, Span
from apps.dashboard.selectors import plan as read
from apps.operations.core.states import Topic
from apps.operations.services import NewEvent, record_events
from apps.placement.models import Move, Plan
from apps.placement.selectors import plans as rows
from apps.placement.services.carrying import carry_out
from apps.placement.services.loop import claim_look, set_loop
from apps.placement.services.proposing import compare
from apps.placement.services.settling import settle
from tests import factories
from tests.placement.plans import world
from tests.placement.plans.conftest import Stage, stage
from tests.placement.plans.world import new_move, written

__all__ = ["stage"]


@pytest.fixture(autouse=True)
def _nothing_kept() -> None:
    cache.clear()


@pytest.fixture
def operator(stage: Stage, client: Client) -> Client:
    client.force_login(factories.user("olga", role=Role.OPERATOR))
    return client


def proposed(stage: Stage) -> Plan:
    return written(
        new_move(0, stage.one, stage.servers[2], bundle=0),
        new_move(1, stage.two, stage.servers[2], bundle=1),
    )


def ended(stage: Stage) -> Plan:
    world.running("stays", (stage.servers[2], 1))
    plan = written(new_move(0, stage.one, stage.servers[2]), approve=True)
    carry_out()
    world.end_migrations()
    carry_out()
    settle(plan.pk, compare=compare)
    return rows.plan_by(plan.pk)


def leave_out(plan: Plan, *ordinals: int) -> None:
    rows_of = Move.objects.filter(plan=plan, ordinal__in=ordinals)
    rows_of.update(state="skipped", message="left out by olga")


def moves(plan: Plan) -> list[Move]:
    return list(rows.moves_of(plan.pk))


# ---- pages ----


def test_the_list_names_plans_weights_and_the_loop(operator: Client, stage: Stage) -> None:
    proposed(stage)
    page = operator.get("/plans/").content.decode()
    assert "p-0001" in page
    assert "power 1, diversity 0.2, crossing traffic 0.4" in page
    assert 'value="off" checked' in page
    assert "Nothing moves to and fro" in page


def the_list(client: Client, query: str = "") -> str:
    page = client.get(f"/plans/{query}").content.decode()
    return page.split('id="plan-list"')[1].split("</table>")[0]


def test_the_list_is_cut_by_state(operator: Client, stage: Stage) -> None:
    proposed(stage)
    assert "No plan is done" in operator.get("/plans/?state=done").content.decode()
    assert "/plans/p-0001/" in the_list(operator, "?state=proposed")


def test_without_plans_it_says_what_they_are(operator: Client, stage: Stage) -> None:
    assert "No plan has been made yet" in operator.get("/plans/").content.decode()


def test_a_proposed_plan_can_be_trimmed_and_approved(operator: Client, stage: Stage) -> None:
    page = operator.get(f"/plans/{proposed(stage)}/").content.decode()
    assert page.count("data-bundle=") == 2
    assert 'data-plan-action="approve"' in page
    assert "It touches 2 jobs on 3 servers" in page
    assert "plan-progress" not in page


def test_an_ended_plan_holds_both_sides_together(operator: Client, stage: Stage) -> None:
    page = operator.get(f"/plans/{ended(stage).pk}/").content.decode()
    assert "Predicted and realised" in page
    assert "power: saved 40 of 100 W predicted" in page
    assert "Take back…" in page
    assert "data-bundle=" not in page


def test_a_superseded_plan_says_why(operator: Client, stage: Stage) -> None:
    plan = proposed(stage)
    proposed(stage)
    page = operator.get(f"/plans/{plan}/").content.decode()
    assert "The cluster moved on" in page
    assert "P-0002 is newer." in page


def test_an_unknown_plan_is_not_found(operator: Client, stage: Stage) -> None:
    assert operator.get("/plans/p-0099/").status_code == 404


@pytest.mark.parametrize("path", ["/plans/", "/plans/p-0001/"])
def test_others_are_told_who_may_see_plans(client: Client, stage: Stage, path: str) -> None:
    proposed(stage)
    client.force_login(factories.user("vic", role=Role.VIEWER))
    answer = client.get(path)
    assert answer.status_code == 403
    assert "Plans are shown to operators" in answer.content.decode()
    assert "p-0001" not in answer.content.decode()


def test_others_do_not_get_the_figure_either(client: Client, stage: Stage) -> None:
    proposed(stage)
    client.force_login(factories.user("vic", role=Role.VIEWER))
    assert client.get("/figures/plan-progress/?plan=p-0001").status_code == 404


def test_the_rail_counts_what_waits_for_approval(operator: Client, stage: Stage) -> None:
    proposed(stage)
    page = operator.get("/jobs/").content.decode()
    assert 'id="rail-plans" data-live>1</span>' in page


# ---- what they say ----


def test_effects_have_a_tone_where_something_changes(stage: Stage) -> None:
    power, _, _, on, value = read.effects(proposed(stage))
    assert (power.label, power.before, power.after, power.change, power.tone) == (
        "Power", "300 W", "200 W", "−100 W", "ok"
    )  # fmt: skip
    assert (on.change, on.tone) == ("−1", "ok")
    assert (value.change, value.realised) == ("−0.1000", "")


def test_realised_effects_stand_beside_the_predicted(stage: Stage) -> None:
    power = read.effects(ended(stage))[0]
    assert (power.without, power.now, power.realised) == ("260 W", "220 W", "−40 W")


def test_moves_are_told_by_bundle(stage: Stage) -> None:
    first, second = read.bundles(moves(proposed(stage)))
    assert (first.purpose, first.about, first.first, first.is_taken) == ("Empty", "s0", 0, True)
    assert [(s.source, s.target) for s in second.steps] == [("s1", "s2")]


def test_what_a_plan_touches_is_counted_without_what_is_left_out(stage: Stage) -> None:
    plan = proposed(stage)
    leave_out(plan, 1)
    found = read.blast(moves(plan))
    assert (found.moves, found.jobs, found.servers, found.units) == (1, 1, 2, 2)


def test_actions_follow_the_state(stage: Stage) -> None:
    plan = proposed(stage)
    assert read.standing(plan, moves(plan)).actions >= {"approve", "cancel"}
    done = ended(stage)
    assert "rollback" in read.standing(done, moves(done)).actions


def halfway(stage: Stage) -> Plan:
    """A plan of three moves: one was left out, one was done, one failed."""
    world.running("stays", (stage.servers[2], 1))
    plan = written(
        new_move(0, stage.one, stage.servers[2], bundle=0),
        new_move(1, stage.three, stage.servers[0], bundle=1),
        new_move(2, stage.two, stage.servers[2], bundle=2),
        approve=True,
    )
    leave_out(plan, 2)
    carry_out()
    Move.objects.filter(plan=plan, ordinal=1).update(state="failed", message="no room")
    world.end_migrations()
    carry_out()
    settle(plan.pk, compare=compare)
    return rows.plan_by(plan.pk)


def test_every_count_of_moves_is_of_those_that_were_to_be_made(
    operator: Client, stage: Stage
) -> None:
    plan = halfway(stage)
    shown = operator.get(f"/plans/{plan}/").content.decode()
    listed = operator.get("/plans/").content.decode()
    assert "1 of 2 moves done" in plan.verdict
    assert operator.get(f"/figures/plan-progress/?plan={plan}").json()["title"] == (
        "1 of 2 moves done, 1 failed, 1 left out"
    )
    assert '1 of 2 done <span class="t2">(1 failed, 1 left out)</span>' in shown
    assert '1<span class="t3"> of 2</span>' in listed


def test_a_plan_done_in_part_does_not_say_done(operator: Client, stage: Stage) -> None:
    plan = halfway(stage)
    assert plan.state == "done"
    assert 'data-s="partly done"' in operator.get(f"/plans/{plan}/").content.decode()
    assert 'data-s="partly done"' in operator.get("/plans/?state=done").content.decode()


@pytest.mark.parametrize(
    ("tally", "state", "badge"),
    [
        (Tally(done=2, left_out=1), "done", "done"),
        (Tally(done=2, passed_over=1), "done", "partly done"),
        (Tally(done=2, failed=1), "done", "partly done"),
        (Tally(passed_over=2), "done", "nothing done"),
        (Tally(done=1, cancelled=1), "cancelled", "cancelled"),
        (Tally(failed=2), "failed", "failed"),
    ],
)
def test_the_badge_says_done_of_whole_plans_only(tally: Tally, state: str, badge: str) -> None:
    assert tally.badge(state) == badge


def test_what_was_not_done_is_told_by_what_became_of_it() -> None:
    tally = Tally(done=22, failed=2, cancelled=3, passed_over=4, left_out=1)
    assert tally.asked == 31
    assert tally.others == "2 failed, 3 cancelled, 4 passed over, 1 left out"


def predicting(stage: Stage, before: int, after: int) -> Plan:
    """A plan that is predicted to change how many targets are met."""
    plan = proposed(stage)
    plan.predicted["before"] = {**plan.predicted["before"], "targets_met": before}
    plan.predicted["after"] = {**plan.predicted["after"], "targets_met": after}
    plan.save()
    return plan


def test_whoever_approves_sees_power_and_targets_once_more(stage: Stage) -> None:
    found = read.stakes(predicting(stage, 40, 41))
    assert [(one.label, one.before, one.after) for one in found.effects] == [
        ("Power", "300 W", "200 W"),
        ("Targets met", "40", "41"),
    ]
    assert found.harm == ""


def test_whoever_approves_is_warned_when_targets_would_be_missed(
    operator: Client, stage: Stage
) -> None:
    plan = predicting(stage, 40, 38)
    assert read.stakes(plan).harm == "2 fewer jobs would meet their target"
    page = operator.get(f"/plans/{plan}/").content.decode()
    assert 'id="pa-harm"' in page


def test_why_a_move_was_skipped_is_told_apart(stage: Stage) -> None:
    plan = proposed(stage)
    leave_out(plan, 0)
    Move.objects.filter(plan=plan, ordinal=1).update(state="skipped", message="its job ended")
    assert [read.shown(move) for move in moves(plan)] == ["left out", "passed over"]


def test_it_is_said_why_jobs_stay_apart(operator: Client, stage: Stage) -> None:
    plan = proposed(stage)
    said = "19 jobs stay apart: bringing them together would cost more than it gains."
    before, after = read.sides(plan.predicted)
    plan.predicted = {
        "before": {**before, "crossing": 40.0},
        "after": {**after, "crossing": 38.0},
        "apart": {"jobs": 19, "without_room": 0, "meaning": said},
    }
    plan.save()
    assert {effect.name: effect.more for effect in read.effects(plan) if effect.more} == {
        "crossing": said
    }
    assert said in operator.get("/plans/p-0001/").content.decode()


def test_objectives_have_one_name_each_as_on_calibrate(stage: Stage) -> None:
    labels = [effect.label for effect in read.effects(proposed(stage))]
    assert labels[:3] == [
        "Power",
        "Diversity",
        "Crossing traffic, containers away from their job",
    ]


# ---- the loop ----


def test_what_the_loop_found_links_the_plan_it_names(operator: Client, stage: Stage) -> None:
    set_loop({"mode": "advise"})
    done = ended(stage)
    record_events(
        [
            NewEvent(
                topic=Topic.PLANS,
                kind=rows.LOOKED,
                subject=rows.LOOP_SUBJECT,
                data={"finding": f"{done} was made: 1 move."},
            )
        ]
    )
    page = operator.get("/plans/").content.decode()
    assert '<a href="/plans/p-0001/">p-0001</a> was made: 1 move.' in page


def test_the_plan_that_stands_in_the_way_of_the_loop_is_named(
    operator: Client, stage: Stage
) -> None:
    proposed(stage)
    set_loop({"mode": "automatic"})
    page = operator.get("/plans/").content.decode()
    assert '<a href="/plans/p-0001/">p-0001</a> waits for your approval' in page


def test_a_loop_that_is_off_tells_no_last_look(operator: Client, stage: Stage) -> None:
    claim_look()
    assert "It is off" in operator.get("/plans/").content.decode()
    set_loop({"mode": "advise"})
    assert "Last look day 1, 02:00" in operator.get("/plans/").content.decode()


def test_settings_of_four_digits_are_shown_as_numbers(operator: Client, stage: Stage) -> None:
    set_loop({"every_s": 1234.0})
    assert 'value="1234" data-pointer="/every_seconds"' in (
        operator.get("/plans/").content.decode()
    )


# ---- the way there ----


def test_the_account_menu_leads_those_to_plans_who_may_see_them(
    operator: Client, stage: Stage
) -> None:
    proposed(stage)
    menu = operator.get("/jobs/").content.decode().split('id="account"')[1].split("</header>")[0]
    assert 'href="/plans/"' in menu
    assert "1 to approve" in menu
    operator.force_login(factories.user("vic", role=Role.VIEWER))
    menu = operator.get("/jobs/").content.decode().split('id="account"')[1].split("</header>")[0]
    assert 'href="/plans/"' not in menu


# ---- the figure ----

SPANS = (
    Span("sort-1", "s0 → s2", "done", 100.0, 130.0),
    Span("sort-2", "s1 → s2", "moving", 110.0, None),
    Span("sort-3", "s1 → s0", "waiting", None, None, (140.0, 145.0)),
)
RUNNING = PlanProgress(
    "p-0001", 140.0, is_over=False, spans=SPANS, tally=Tally(waiting=1, moving=1, done=1)
)


def test_the_figure_says_how_many_moves_stand_where() -> None:
    assert plan_progress.title(RUNNING) == "1 of 3 moves done, 1 under way"


def test_its_table_has_a_row_for_each_move() -> None:
    table = plan_progress.table(RUNNING)
    assert [row[3] for row in table.rows] == ["done", "under way", "waiting"]
    assert [row[5] for row in table.rows] == ["30 s", "–", "–"]


def test_a_bar_goes_from_the_request_to_the_end_or_to_now() -> None:
    done, moving = plan_progress.figure(RUNNING).data[:2]
    assert (list(done.base), list(done.x)) == ([100.0], [30.0])
    assert (list(moving.base), list(moving.x)) == ([110.0], [30.0])


def test_what_waits_is_outlined_when_it_is_expected() -> None:
    chart = plan_progress.figure(RUNNING)
    waiting = chart.data[2]
    assert (list(waiting.base), list(waiting.x), list(waiting.y)) == ([140.0], [5.0], [2])
    assert waiting.marker.color == "rgba(0,0,0,0)"
    assert chart.layout.xaxis.range[1] >= 145.0


def test_before_anything_begins_it_says_so() -> None:
    waiting = PlanProgress("p-0001", 90.0, is_over=False, spans=SPANS[2:], tally=Tally(waiting=1))
    assert not plan_progress.figure(waiting).data
    assert plan_progress.title(waiting) == "0 of 1 move done"


def test_it_is_served_with_the_steps_as_its_call(operator: Client, stage: Stage) -> None:
    plan = ended(stage)
    answer = operator.get(f"/figures/plan-progress/?plan={plan}").json()
    assert answer["title"] == "1 of 1 move done"
    assert answer["api"] == "/api/v1/plans/p-0001/steps/"
