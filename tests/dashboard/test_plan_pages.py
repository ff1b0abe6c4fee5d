"""The pages of plans, with and without the role."""

import pytest
from django.core.cache import cache
from django.test import Client

from apps.accounts.core.roles import Role
from apps.dashboard.core.migration_counts import MigrationCounts
from apps.dashboard.figures import plan_progress
from apps.dashboard.figures.plan_progress import MigrationSpan, PlanProgress
from apps.dashboard.selectors import plan as selectors
from apps.operations.core.states import Topic
from apps.operations.services import NewEvent, record_events
from apps.placement.models import Plan, PlannedMigration
from apps.placement.selectors import plans as placement_plans
from apps.placement.services.rebalancing.evaluation import evaluate_plan
from apps.placement.services.rebalancing.executor import execute_plans
from apps.placement.services.rebalancing.loop import claim_tick, update_loop_settings
from apps.placement.services.rebalancing.planner import measure_effect
from apps.placement.services.rebalancing.rebasing import rebase_plans
from tests import factories
from tests.placement import rebalancing_world as world
from tests.placement.conftest import Stage, stage
from tests.placement.rebalancing_world import create_plan, new_migration

__all__ = ["stage"]


@pytest.fixture(autouse=True)
def _nothing_kept() -> None:
    cache.clear()


@pytest.fixture
def operator(stage: Stage, client: Client) -> Client:
    client.force_login(factories.user("olga", role=Role.OPERATOR))
    return client


def proposed(stage: Stage) -> Plan:
    return create_plan(
        new_migration(0, stage.one, stage.servers[2], bundle=0),
        new_migration(1, stage.two, stage.servers[2], bundle=1),
    )


def ended(stage: Stage) -> Plan:
    world.running_job("stays", (stage.servers[2], 1))
    plan = create_plan(new_migration(0, stage.one, stage.servers[2]), approve=True)
    execute_plans()
    world.finish_migrations()
    execute_plans()
    evaluate_plan(plan.pk, measure=measure_effect)
    return placement_plans.plan_by_key(plan.pk)


def leave_out(plan: Plan, *ordinals: int) -> None:
    rows_of = PlannedMigration.objects.filter(plan=plan, ordinal__in=ordinals)
    rows_of.update(state="skipped", message="left out by olga")


def moves(plan: Plan) -> list[PlannedMigration]:
    return list(placement_plans.migrations_of(plan.pk))


# ---- pages ----


def test_the_list_names_plans_weights_and_the_loop(operator: Client, stage: Stage) -> None:
    proposed(stage)
    page = operator.get("/plans/").content.decode()
    assert "p-0001" in page
    assert "power 1, diversity 0.2, crossing traffic 0.4" in page
    assert 'value="off" checked' in page
    assert "No job is thrashing" in page


def the_list(client: Client, query: str = "") -> str:
    page = client.get(f"/plans/{query}").content.decode()
    return page.split('id="plan-list"')[1].split("</table>")[0]


def test_the_list_can_be_filtered_by_state(operator: Client, stage: Stage) -> None:
    proposed(stage)
    assert "No plan is done" in operator.get("/plans/?state=done").content.decode()
    assert "/plans/p-0001/" in the_list(operator, "?state=proposed")


def test_an_empty_list_explains_plans(operator: Client, stage: Stage) -> None:
    assert "No plans yet" in operator.get("/plans/").content.decode()


def test_a_proposed_plan_can_be_trimmed_and_approved(operator: Client, stage: Stage) -> None:
    page = operator.get(f"/plans/{proposed(stage)}/").content.decode()
    assert page.count("data-bundle=") == 2
    assert 'data-plan-action="approve"' in page
    assert "Affects 2 jobs on 3 servers" in page
    assert "plan-progress" not in page


def test_an_ended_plan_compares_prediction_and_result(operator: Client, stage: Stage) -> None:
    page = operator.get(f"/plans/{ended(stage).pk}/").content.decode()
    assert "Predicted and realised" in page
    assert "power: saved 40 of the predicted 100 W" in page
    assert "Roll back…" in page
    assert "data-bundle=" not in page


def test_a_plan_shows_what_was_dropped_since_it_was_proposed(
    operator: Client, stage: Stage
) -> None:
    world.running_job("stays", (stage.servers[2], 1))
    plan = proposed(stage)
    # the gain that was promised: s0 is emptied, 40 of 360 W
    predicted = {"before": {"watts": 260.0, "F": 0.7}, "after": {"watts": 220.0, "F": 0.6}}
    Plan.objects.update(predicted=predicted, proposed={**predicted, "moves": 2, "bundles": 2})
    world.end_job(stage.two)
    rebase_plans()
    page = operator.get(f"/plans/{plan}/").content.decode()
    assert "1 bundle changed since the plan was proposed" in page
    assert "two ended" in page
    assert "1 of 2 bundles dropped" in page
    assert "When proposed" in page
    assert 'data-s="dropped"' in page
    assert page.count("data-bundle=") == 1


def test_a_superseded_plan_says_why(operator: Client, stage: Stage) -> None:
    plan = proposed(stage)
    proposed(stage)
    page = operator.get(f"/plans/{plan}/").content.decode()
    assert "The plan is out of date" in page
    assert "P-0002 is newer." in page


def test_an_unknown_plan_is_not_found(operator: Client, stage: Stage) -> None:
    assert operator.get("/plans/p-0099/").status_code == 404


@pytest.mark.parametrize("path", ["/plans/", "/plans/p-0001/"])
def test_other_roles_are_told_who_may_see_plans(client: Client, stage: Stage, path: str) -> None:
    proposed(stage)
    client.force_login(factories.user("vic", role=Role.VIEWER))
    answer = client.get(path)
    assert answer.status_code == 403
    assert "Plans are visible to operators only" in answer.content.decode()
    assert "p-0001" not in answer.content.decode()


def test_other_roles_do_not_get_the_figure(client: Client, stage: Stage) -> None:
    proposed(stage)
    client.force_login(factories.user("vic", role=Role.VIEWER))
    assert client.get("/figures/plan-progress/?plan=p-0001").status_code == 404


def test_the_navigation_counts_plans_waiting_for_approval(operator: Client, stage: Stage) -> None:
    proposed(stage)
    page = operator.get("/jobs/").content.decode()
    assert 'id="rail-plans" data-live>1</span>' in page


# ---- texts ----


def test_changed_effects_have_a_tone(stage: Stage) -> None:
    power, _, _, on, value = selectors.effects(proposed(stage))
    assert (power.label, power.before, power.after, power.change, power.tone) == (
        "Power, modelled", "300 W", "200 W", "−100 W", "ok"
    )  # fmt: skip
    assert (on.change, on.tone) == ("−1", "ok")
    assert (value.change, value.realised) == ("−0.1000", "")


def test_realised_effects_are_shown_with_the_predicted_ones(stage: Stage) -> None:
    power = selectors.effects(ended(stage))[0]
    assert (power.without, power.now, power.realised) == ("260 W", "220 W", "−40 W")


def test_migrations_are_grouped_by_bundle(stage: Stage) -> None:
    plan = proposed(stage)
    first, second = selectors.bundles(plan, moves(plan))
    assert (first.purpose, first.about, first.first, first.is_taken) == ("Empty", "s0", 0, True)
    assert [(s.source, s.target) for s in second.migrations] == [("s1", "s2")]


def test_the_impact_does_not_count_excluded_migrations(stage: Stage) -> None:
    plan = proposed(stage)
    leave_out(plan, 1)
    impact = selectors.impact(moves(plan))
    assert (impact.moves, impact.jobs, impact.servers, impact.units) == (1, 1, 2, 2)


def test_actions_depend_on_the_state(stage: Stage) -> None:
    plan = proposed(stage)
    assert selectors.plan_status(plan, moves(plan)).actions >= {"approve", "cancel"}
    done = ended(stage)
    assert "rollback" in selectors.plan_status(done, moves(done)).actions


def halfway(stage: Stage) -> Plan:
    """Return a plan of three migrations: one excluded, one done, one failed."""
    world.running_job("stays", (stage.servers[2], 1))
    plan = create_plan(
        new_migration(0, stage.one, stage.servers[2], bundle=0),
        new_migration(1, stage.three, stage.servers[0], bundle=1),
        new_migration(2, stage.two, stage.servers[2], bundle=2),
        approve=True,
    )
    leave_out(plan, 2)
    execute_plans()
    PlannedMigration.objects.filter(plan=plan, ordinal=1).update(state="failed", message="no room")
    world.finish_migrations()
    execute_plans()
    evaluate_plan(plan.pk, measure=measure_effect)
    return placement_plans.plan_by_key(plan.pk)


def test_excluded_migrations_are_not_part_of_any_total(operator: Client, stage: Stage) -> None:
    plan = halfway(stage)
    shown = operator.get(f"/plans/{plan}/").content.decode()
    listed = operator.get("/plans/").content.decode()
    assert "1 of 2 migrations done" in plan.verdict
    assert operator.get(f"/figures/plan-progress/?plan={plan}").json()["title"] == (
        "1 of 2 migrations done, 1 failed, 1 excluded"
    )
    assert '1 of 2 done <span class="t2">(1 failed, 1 excluded)</span>' in shown
    assert '1<span class="t3"> of 2</span>' in listed


def test_a_partly_done_plan_is_not_shown_as_done(operator: Client, stage: Stage) -> None:
    plan = halfway(stage)
    assert plan.state == "done"
    assert 'data-s="partly done"' in operator.get(f"/plans/{plan}/").content.decode()
    assert 'data-s="partly done"' in operator.get("/plans/?state=done").content.decode()


@pytest.mark.parametrize(
    ("tally", "state", "badge"),
    [
        (MigrationCounts(done=2, excluded=1), "done", "done"),
        (MigrationCounts(done=2, skipped=1), "done", "partly done"),
        (MigrationCounts(done=2, failed=1), "done", "partly done"),
        (MigrationCounts(skipped=2), "done", "nothing done"),
        (MigrationCounts(done=1, cancelled=1), "cancelled", "cancelled"),
        (MigrationCounts(failed=2), "failed", "failed"),
    ],
)
def test_the_badge_is_done_only_for_complete_plans(
    tally: MigrationCounts, state: str, badge: str
) -> None:
    assert tally.badge(state) == badge


def test_migrations_that_are_not_done_are_counted_by_state() -> None:
    tally = MigrationCounts(done=22, failed=2, cancelled=3, skipped=4, excluded=1)
    assert tally.planned == 31
    assert tally.others == "2 failed, 3 cancelled, 4 skipped, 1 excluded"


def predicting(stage: Stage, before: int, after: int) -> Plan:
    """Return a plan that is predicted to change the number of targets met."""
    plan = proposed(stage)
    plan.predicted["before"] = {**plan.predicted["before"], "targets_met": before}
    plan.predicted["after"] = {**plan.predicted["after"], "targets_met": after}
    plan.save()
    return plan


def test_the_approval_dialog_repeats_power_and_targets(stage: Stage) -> None:
    summary = selectors.approval_summary(predicting(stage, 40, 41))
    assert [(effect.label, effect.before, effect.after) for effect in summary.effects] == [
        ("Power, modelled", "300 W", "200 W"),
        ("Targets met", "40", "41"),
    ]
    assert summary.harm == ""


def test_the_approval_dialog_warns_of_missed_targets(operator: Client, stage: Stage) -> None:
    plan = predicting(stage, 40, 38)
    assert selectors.approval_summary(plan).harm == "2 fewer jobs would meet their target"
    page = operator.get(f"/plans/{plan}/").content.decode()
    assert 'id="pa-harm"' in page


def test_excluded_and_skipped_migrations_are_distinguished(stage: Stage) -> None:
    plan = proposed(stage)
    leave_out(plan, 0)
    PlannedMigration.objects.filter(plan=plan, ordinal=1).update(
        state="skipped", message="its job ended"
    )
    assert [selectors.shown(move) for move in moves(plan)] == ["excluded", "skipped"]


def test_the_page_explains_remaining_crossing_traffic(operator: Client, stage: Stage) -> None:
    plan = proposed(stage)
    sentence = "19 jobs stay apart: bringing them together would cost more than it gains."
    before, after = selectors.sides(plan.predicted)
    plan.predicted = {
        "before": {**before, "crossing": 40.0},
        "after": {**after, "crossing": 38.0},
        "apart": {"jobs": 19, "without_room": 0, "meaning": sentence},
    }
    plan.save()
    assert {effect.name: effect.more for effect in selectors.effects(plan) if effect.more} == {
        "crossing": sentence
    }
    assert sentence in operator.get("/plans/p-0001/").content.decode()


def test_objectives_have_the_same_names_as_on_calibrate(stage: Stage) -> None:
    labels = [effect.label for effect in selectors.effects(proposed(stage))]
    assert labels[:3] == [
        "Power, modelled",
        "Diversity",
        "Crossing traffic, containers outside their job's server or rack",
    ]


# ---- the loop ----


def test_the_finding_of_the_loop_links_to_its_plan(operator: Client, stage: Stage) -> None:
    update_loop_settings({"mode": "advise"})
    done = ended(stage)
    record_events(
        [
            NewEvent(
                topic=Topic.PLANS,
                kind=placement_plans.TICK_EVENT,
                subject=placement_plans.LOOP_SUBJECT,
                data={"finding": f"{done} was created: 1 migration."},
            )
        ]
    )
    page = operator.get("/plans/").content.decode()
    assert '<a href="/plans/p-0001/">p-0001</a> was created: 1 migration.' in page


def test_the_plan_that_blocks_the_loop_is_named(operator: Client, stage: Stage) -> None:
    proposed(stage)
    update_loop_settings({"mode": "automatic"})
    page = operator.get("/plans/").content.decode()
    assert '<a href="/plans/p-0001/">p-0001</a> is waiting for approval' in page


def test_a_loop_that_is_off_shows_no_last_check(operator: Client, stage: Stage) -> None:
    claim_tick()
    assert "The loop is off" in operator.get("/plans/").content.decode()
    update_loop_settings({"mode": "advise"})
    assert "Last check day 1, 02:00" in operator.get("/plans/").content.decode()


def test_settings_of_four_digits_have_no_separator(operator: Client, stage: Stage) -> None:
    update_loop_settings({"every_s": 1234.0})
    assert 'value="1234" data-pointer="/every_seconds"' in (
        operator.get("/plans/").content.decode()
    )


# ---- links from other pages ----


def test_the_account_menu_links_to_plans_for_operators_only(
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
    MigrationSpan("sort-1", "s0 → s2", "done", 100.0, 130.0),
    MigrationSpan("sort-2", "s1 → s2", "moving", 110.0, None),
    MigrationSpan("sort-3", "s1 → s0", "waiting", None, None, (140.0, 145.0)),
)
RUNNING = PlanProgress(
    "p-0001",
    140.0,
    is_over=False,
    spans=SPANS,
    counts=MigrationCounts(waiting=1, moving=1, done=1),
)


def test_the_figure_title_counts_migrations_by_state() -> None:
    assert plan_progress.title(RUNNING) == "1 of 3 migrations done, 1 running"


def test_the_figure_table_has_a_row_per_migration() -> None:
    table = plan_progress.table(RUNNING)
    assert [row[3] for row in table.rows] == ["done", "running", "waiting"]
    assert [row[5] for row in table.rows] == ["30 s", "–", "–"]


def test_a_bar_runs_from_the_request_to_the_end_or_to_now() -> None:
    done, moving = plan_progress.figure(RUNNING).data[:2]
    assert (list(done.base), list(done.x)) == ([100.0], [30.0])
    assert (list(moving.base), list(moving.x)) == ([110.0], [30.0])


def test_waiting_migrations_are_outlined_at_their_expected_time() -> None:
    chart = plan_progress.figure(RUNNING)
    waiting = chart.data[2]
    assert (list(waiting.base), list(waiting.x), list(waiting.y)) == ([140.0], [5.0], [2])
    assert waiting.marker.color == "rgba(0,0,0,0)"
    assert chart.layout.xaxis.range[1] >= 145.0


def test_the_figure_shows_a_sentence_before_the_first_migration() -> None:
    waiting = PlanProgress(
        "p-0001", 90.0, is_over=False, spans=SPANS[2:], counts=MigrationCounts(waiting=1)
    )
    assert not plan_progress.figure(waiting).data
    assert plan_progress.title(waiting) == "0 of 1 migration done"


def test_the_figure_names_its_rest_call(operator: Client, stage: Stage) -> None:
    plan = ended(stage)
    answer = operator.get(f"/figures/plan-progress/?plan={plan}").json()
    assert answer["title"] == "1 of 1 migration done"
    assert answer["api"] == "/api/v1/plans/p-0001/steps/"
