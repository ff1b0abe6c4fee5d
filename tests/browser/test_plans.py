"""Plans in the browser: creation, approval, progress, rollback, and the loop settings."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.core.cache import cache
from django.db import connection, transaction
from playwright.sync_api import Page, expect

from apps.common.infrastructure.locks import lock_for_deletion
from apps.execution.models import Launch
from apps.operations.models import Operation
from apps.placement.models import (
    Activation,
    Plan,
    PlannedMigration,
    PreferenceSet,
    RebalancingLoop,
)
from apps.placement.services.rebalancing.approval import approve_plan
from apps.placement.services.rebalancing.evaluation import evaluate_plan
from apps.placement.services.rebalancing.executor import execute_plans
from apps.placement.services.rebalancing.loop import update_loop_settings
from apps.placement.services.rebalancing.plan_requests import (
    KIND,
    process_plan_requests,
    request_plan,
)
from apps.placement.services.rebalancing.planner import measure_effect
from apps.placement.services.rebalancing.rebasing import rebase_plans
from apps.placement.services.rebalancing.trimming import trim_plan
from apps.scheduling.models import Allocation
from apps.workloads.models import Job
from tests.browser.conftest import Site, Visitor
from tests.placement import rebalancing_world as world

SLOW_MS = 15_000


@pytest.fixture(scope="module")
def movable(site: Site) -> None:
    """Make the jobs of the world migratable: their rows were not written by services."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT setval('common_allocations_seq', 100000)")
    Allocation.objects.update(acquired_seq=0)
    for launch in Launch.objects.filter(state="running"):
        parts = Allocation.objects.filter(job_id=launch.job_id, released_seq__isnull=True)
        launch.order = {"parts": [[part.server_id, part.cores] for part in parts]}
        launch.save()


@pytest.fixture(autouse=True)
def _weights_in_force(movable: None, site: Site) -> Iterator[None]:
    """Activate weights, and delete the plans of a test afterwards."""
    active = world.activate(site.world.operator, {"P": 0.22, "D": 1.0, "C": 0.36})
    update_loop_settings(
        {"moves_per_minute": 5, "youngest_s": 0.0, "migration": 0.0, "moves_per_plan": 6}
    )
    yield
    cache.clear()
    with transaction.atomic():
        lock_for_deletion(Plan, list(Plan.objects.values_list("pk", flat=True)))
        Plan.objects.all().delete()
    RebalancingLoop.objects.all().delete()
    Operation.objects.filter(kind=KIND).delete()
    Activation.objects.filter(pk=active.pk).delete()
    PreferenceSet.objects.filter(pk=active.preference_set_id).delete()


def proposed(site: Site) -> Plan:
    """Return a plan that a worker has created for the running jobs."""
    request_plan(by=site.world.operator.pk)
    process_plan_requests()
    return Plan.objects.get()


def carried(plan: Plan, site: Site) -> None:
    """Run a plan to its end."""
    approve_plan(plan.pk, by=site.world.operator.pk)
    for _ in range(4):
        for ended in execute_plans():
            evaluate_plan(ended, measure=measure_effect)
        world.finish_migrations()
        PlannedMigration.objects.exclude(began_s=None).update(
            began_s=0.0
        )  # the budget per minute is restored


@contextmanager
def plan_requested(page: Page) -> Iterator[None]:
    """Wait until the request of a plan has been accepted."""
    with page.expect_response(lambda response: response.request.method == "POST") as answer:
        yield
    assert answer.value.status == 202


def test_a_plan_is_created_and_opened(visitor: Visitor) -> None:
    page = visitor.visit("/plans/")
    with plan_requested(page):
        page.get_by_role("button", name="Make a plan now").click()
    process_plan_requests()
    page.wait_for_url("**/plans/p-0001/", timeout=SLOW_MS)
    expect(page.locator("#plan-state")).to_have_text("Proposed")
    expect(page.locator("#plan-lead")).to_contain_text("Would save")


def test_excluding_a_bundle_recomputes_the_effect(visitor: Visitor, site: Site) -> None:
    plan = proposed(site)
    page = visitor.visit(f"/plans/{plan}/")
    power = page.locator("#plan-effect tbody tr").first
    before = power.inner_text()
    page.locator("[data-bundle]").first.uncheck()
    expect(page.locator("#plan-bulk-say")).to_contain_text("1 bundle excluded")
    expect(page.locator("#plan-approve-open")).to_be_disabled()
    page.get_by_role("button", name="Recompute without excluded bundles").click()
    expect(page.locator("#plan-bulk")).to_be_hidden(timeout=SLOW_MS)
    expect(page.locator("tbody.out")).to_have_count(1)
    expect(power).not_to_have_text(before, use_inner_text=True)
    assert PlannedMigration.objects.filter(plan=plan, state="skipped").exists()


def test_excluded_bundles_can_be_reset(visitor: Visitor, site: Site) -> None:
    page = visitor.visit(f"/plans/{proposed(site)}/")
    page.locator("[data-bundle]").nth(1).uncheck()
    page.get_by_role("button", name="Reset").click()
    expect(page.locator("#plan-bulk")).to_be_hidden()
    expect(page.locator("[data-bundle]").nth(1)).to_be_checked()
    expect(page.locator("#plan-approve-open")).to_be_enabled()


def refreshed(page: Page) -> None:
    """Wait until the page was refreshed from the server."""
    page.evaluate(
        "() => new Promise((drawn) => document.addEventListener('berth:patched', drawn,"
        " { once: true }))"
    )


def test_excluded_bundles_are_not_approved_after_a_refresh(visitor: Visitor, site: Site) -> None:
    plan = proposed(site)
    page = visitor.visit(f"/plans/{plan}/")
    page.locator("[data-bundle]").first.uncheck()
    refreshed(page)
    expect(page.locator("#plan-approve-open")).to_be_disabled()
    # the server refuses even if the button is pressed
    page.evaluate("document.querySelector('[data-plan-action=approve]').click()")
    expect(page.locator("#pa-error")).to_contain_text(
        "1 bundle shown as left out would be carried out"
    )
    plan.refresh_from_db()
    assert plan.state == "proposed"


def test_excluded_bundles_survive_navigation(visitor: Visitor, site: Site) -> None:
    plan = proposed(site)
    page = visitor.visit(f"/plans/{plan}/")
    page.locator("[data-bundle]").nth(1).uncheck()
    visitor.visit("/plans/")
    visitor.visit(f"/plans/{plan}/")
    expect(page.locator("[data-bundle]").nth(1)).not_to_be_checked()
    expect(page.locator("#plan-bulk-say")).to_contain_text("1 bundle excluded")
    expect(page.locator("#plan-approve-open")).to_be_disabled()
    page.get_by_role("button", name="Recompute without excluded bundles").click()
    expect(page.locator("tbody.out")).to_have_count(1, timeout=SLOW_MS)
    expect(page.locator("#plan-bulk")).to_be_hidden()


def test_bundles_excluded_by_another_user_are_shown(visitor: Visitor, site: Site) -> None:
    plan = proposed(site)
    page = visitor.visit(f"/plans/{plan}/")
    trim_plan(plan.pk, skip=[0], take=[], by="otto")
    expect(page.locator("tbody.out")).to_have_count(1, timeout=SLOW_MS)
    expect(page.locator(".toast")).to_contain_text("The plan was changed by another user")


def test_a_rebase_keeps_the_excluded_bundles_of_the_tab(visitor: Visitor, site: Site) -> None:
    plan = proposed(site)
    page = visitor.visit(f"/plans/{plan}/")
    boxes = page.locator("[data-bundle]")
    total = boxes.count()
    boxes.nth(1).uncheck()
    jobs = Job.objects.filter(planned_migrations__plan=plan, planned_migrations__bundle=0)
    names = list(jobs.values_list("pk", flat=True))
    Job.objects.filter(pk__in=names).update(state="starting")  # none of them can be migrated
    try:
        Plan.objects.update(proposed={})  # whatever is left is enough
        rebase_plans()
        expect(page.locator("#plan-changes")).to_contain_text("dropped", timeout=SLOW_MS)
        expect(boxes).to_have_count(total - 1)
        expect(boxes.first).not_to_be_checked()
        expect(page.locator("#plan-bulk-say")).to_contain_text("1 bundle excluded")
        expect(page.locator("#plan-banner")).to_contain_text("Re-based on the cluster of")
    finally:
        Job.objects.filter(pk__in=names).update(state="running")


def test_the_approval_dialog_repeats_effects_and_warns(visitor: Visitor, site: Site) -> None:
    plan = proposed(site)
    now = plan.predicted["before"]["targets_met"]
    plan.predicted["after"]["targets_met"] = now - 2
    plan.save()
    page = visitor.visit(f"/plans/{plan}/")
    page.get_by_role("button", name="Approve…").click()
    stakes = page.locator("#plan-approve .stakes tbody tr")
    expect(stakes.nth(0)).to_contain_text("Power")
    expect(stakes.nth(1)).to_have_text(f"Targets met{now}{now - 2}−2")
    expect(page.locator("#pa-harm")).to_contain_text("2 fewer jobs would meet their target")
    assert visitor.serious_findings() == []


def test_a_plan_is_approved_and_followed_while_it_runs(visitor: Visitor, site: Site) -> None:
    plan = proposed(site)
    page = visitor.visit(f"/plans/{plan}/")
    page.get_by_role("button", name="Approve…").click()
    page.get_by_role("button", name="Approve and run").click()
    expect(page.locator("#plan-state")).to_have_text("Approved", timeout=SLOW_MS)
    execute_plans()
    expect(page.locator("#plan-state")).to_have_text("Running", timeout=SLOW_MS)
    expect(page.locator(".chart-title")).to_contain_text("running", timeout=SLOW_MS)
    page.get_by_role("button", name="Pause", exact=True).nth(1).click()
    expect(page.locator("#plan-state")).to_have_text("Paused", timeout=SLOW_MS)
    page.get_by_role("button", name="Resume").click()
    expect(page.locator("#plan-state")).to_have_text("Running", timeout=SLOW_MS)
    page.get_by_role("button", name="Cancel…").click()
    page.locator("[data-plan-action=cancel]").click()
    expect(page.locator("#plan-state")).to_have_text("Cancelled", timeout=SLOW_MS)
    expect(page.locator("#plan-banner")).to_contain_text("Running migrations are being completed")
    world.finish_migrations()
    execute_plans()


def test_an_ended_plan_is_verified_and_rolled_back(visitor: Visitor, site: Site) -> None:
    plan = proposed(site)
    carried(plan, site)
    page = visitor.visit(f"/plans/{plan}/")
    expect(page.locator("#plan-state")).to_have_text("Done")
    expect(page.locator("#plan-lead")).to_contain_text("100 % of the predicted gain")
    expect(page.locator("#plan-effect")).to_contain_text("Realised")
    page.get_by_role("button", name="Roll back…").click()
    page.locator("#pr-approve").uncheck()
    with plan_requested(page):
        page.get_by_role("button", name="Roll back", exact=True).click()
    process_plan_requests()
    page.wait_for_url("**/plans/p-0002/", timeout=SLOW_MS)
    expect(page.locator("#plan-banner")).to_contain_text("This plan rolls back p-0001")


def test_approving_an_outdated_plan_marks_it_superseded(visitor: Visitor, site: Site) -> None:
    plan = proposed(site)
    page = visitor.visit(f"/plans/{plan}/")
    moved = Job.objects.filter(pk__in=PlannedMigration.objects.filter(plan=plan).values("job_id"))
    names = list(moved.values_list("pk", flat=True))
    moved.update(state="starting")
    page.get_by_role("button", name="Approve…").click()
    page.get_by_role("button", name="Approve and run").click()
    expect(page.locator("#plan-state")).to_have_text("Superseded", timeout=SLOW_MS)
    Job.objects.filter(pk__in=names).update(state="running")


def test_the_loop_settings_are_saved(visitor: Visitor) -> None:
    page = visitor.visit("/plans/")
    expect(page.locator("#loop-save")).to_be_disabled()
    page.get_by_label("Advise").check()
    page.get_by_text("Budgets and thresholds").click()
    page.get_by_label("Migrations per plan").fill("12")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("#loop-mode")).to_have_text("plans need approval", timeout=SLOW_MS)
    loop = RebalancingLoop.objects.get()
    assert (loop.mode, loop.moves_per_plan) == ("advise", 12)


def test_settings_out_of_range_show_their_own_error(visitor: Visitor) -> None:
    page = visitor.visit("/plans/")
    page.get_by_text("Budgets and thresholds").click()
    page.get_by_label("Migrations per plan").fill("0")
    page.get_by_label("Minimum gain").fill("")
    page.get_by_text("Budgets and thresholds").click()
    page.get_by_role("button", name="Save").click()
    expect(page.locator("#l-plan-error")).to_have_text(
        "Ensure this value is greater than or equal to 1. Given: 0.", timeout=SLOW_MS
    )
    expect(page.locator("#l-gain-error")).to_have_text("Enter a number.")
    expect(page.get_by_label("Migrations per plan")).to_be_focused()
    expect(page.locator("#loop-error")).to_contain_text("Not saved.")
    page.get_by_label("Migrations per plan").fill("3")
    page.get_by_label("Minimum gain").fill("0.01")
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".toast")).to_contain_text("The loop is off.", timeout=SLOW_MS)
    expect(page.locator("[aria-invalid=true]")).to_have_count(0)
    loop = RebalancingLoop.objects.get()
    assert (loop.moves_per_plan, loop.least_gain) == (3, 0.01)


def test_automatic_mode_needs_confirmation(visitor: Visitor, site: Site) -> None:
    proposed(site)
    page = visitor.visit("/plans/")
    page.get_by_label("Automatic").check()
    page.get_by_role("button", name="Save").click()
    dialog = page.locator("#loop-automatic")
    expect(dialog).to_contain_text("Every 60 s of cluster time")
    expect(dialog).to_contain_text("p-0001 is still waiting for approval")
    assert visitor.serious_findings() == []
    page.keyboard.press("Escape")
    expect(page.get_by_label("Off")).to_be_checked()
    assert RebalancingLoop.objects.get().mode == "off"
    page.get_by_label("Automatic").check()
    page.get_by_role("button", name="Save").click()
    page.get_by_role("button", name="Set to automatic").click()
    expect(page.locator("#loop-mode")).to_have_text("plans run without approval", timeout=SLOW_MS)
    expect(page.locator("#loop-blocker")).to_contain_text("p-0001 is waiting for approval")
    assert RebalancingLoop.objects.get().mode == "automatic"


def test_the_page_shows_a_mode_set_by_another_user(visitor: Visitor) -> None:
    page = visitor.visit("/plans/")
    update_loop_settings({"mode": "advise", "moves_per_plan": 17})
    expect(page.get_by_label("Advise")).to_be_checked(timeout=SLOW_MS)
    page.get_by_text("Budgets and thresholds").click()
    expect(page.get_by_label("Migrations per plan")).to_have_value("17")


def test_unsaved_input_survives_changes_by_another_user(visitor: Visitor) -> None:
    page = visitor.visit("/plans/")
    page.get_by_text("Budgets and thresholds").click()
    page.get_by_label("Migrations per plan").fill("12")
    update_loop_settings({"mode": "advise", "moves_per_plan": 17})
    expect(page.get_by_label("Advise")).to_be_checked(timeout=SLOW_MS)
    expect(page.locator("#loop-error")).to_contain_text("are not saved yet")
    expect(page.get_by_label("Migrations per plan")).to_have_value("12")
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".toast")).to_have_text("Loop settings saved.", timeout=SLOW_MS)
    expect(page.get_by_label("Migrations per plan")).to_have_value("12")
    loop = RebalancingLoop.objects.get()
    assert (loop.mode, loop.moves_per_plan) == ("advise", 12)


FITS = "(part) => part.scrollWidth <= part.clientWidth"


def test_verdicts_and_badges_are_not_cut_on_a_desktop(visitor: Visitor, site: Site) -> None:
    plan = proposed(site)
    for job in plan.predicted["jobs"]:
        job["gains"], job["loses"] = "protected", "full speed"
    plan.save()
    carried(plan, site)
    page = visitor.visit("/plans/")
    expect(page.locator("#plan-list td.why").first).to_contain_text("migrations done")
    assert page.locator("#plan-list td.why").first.evaluate(FITS)
    assert page.locator("#plan-list .table-wrap").evaluate(FITS)
    page = visitor.visit(f"/plans/{plan}/")
    assert page.locator(".plan-jobs").evaluate(FITS)
    assert page.locator("#plan-effect .table-wrap").evaluate(FITS)


def test_plans_are_reachable_on_a_phone(phone_visitor: Visitor) -> None:
    page = phone_visitor.visit("/")
    page.locator("[aria-controls=account]").click()
    page.locator("#account").get_by_role("link", name="Plans").click()
    page.wait_for_url("**/plans/")


def test_migrations_fit_a_phone_without_horizontal_scrolling(
    phone_visitor: Visitor, site: Site
) -> None:
    page = phone_visitor.visit(f"/plans/{proposed(site)}/")
    assert page.locator("#plan-steps .table-wrap").evaluate(FITS)
    for part in (".step-job", ".step-from", ".step-to", ".step-state"):
        assert page.locator(part).first.evaluate(
            "(cell) => cell.getBoundingClientRect().right <= innerWidth"
        )


@pytest.mark.parametrize("who", ["visitor", "night_visitor", "phone_visitor"])
def test_plan_pages_have_no_errors_or_findings(
    who: str, site: Site, request: pytest.FixtureRequest
) -> None:
    plan = proposed(site)
    visiting: Visitor = request.getfixturevalue(who)
    for path in ("/plans/", f"/plans/{plan}/"):
        page = visiting.visit(path)
        assert visiting.errors == []
        assert visiting.serious_findings() == []
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
