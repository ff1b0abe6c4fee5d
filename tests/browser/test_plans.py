"""Plans in the browser: made, trimmed, approved, followed, verified, taken back; the loop set."""

from collections.abc import Iterator

import pytest
from django.core.cache import cache
from django.db import connection
from playwright.sync_api import Page, expect

from apps.execution.models import Launch
from apps.operations.models import Operation
from apps.placement.models import Activation, Loop, Move, Plan, PreferenceSet
from apps.placement.services.carrying import carry_out
from apps.placement.services.loop import set_loop
from apps.placement.services.making import KIND, begin_plan, make_plans
from apps.placement.services.plans import approve_plan
from apps.placement.services.proposing import compare
from apps.placement.services.settling import settle
from apps.placement.services.trimming import trim_plan
from apps.scheduling.models import Allocation
from apps.workloads.models import Job
from tests.browser.conftest import Site, Visitor
from tests.placement.plans import world

SLOW_MS = 15_000


@pytest.fixture(scope="module")
def movable(site: Site) -> None:
    """Let the jobs of the world be moved: their rows were not written by services."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT setval('common_allocations_seq', 100000)")
    Allocation.objects.update(acquired_seq=0)
    for launch in Launch.objects.filter(state="running"):
        parts = Allocation.objects.filter(job_id=launch.job_id, released_seq__isnull=True)
        launch.order = {"parts": [[part.server_id, part.cores] for part in parts]}
        launch.save()


@pytest.fixture(autouse=True)
def _weights_in_force(movable: None, site: Site) -> Iterator[None]:
    """Weights are in force, and what a test makes of them is gone afterwards."""
    active = world.activated(site.world.operator, {"P": 0.22, "D": 1.0, "C": 0.36})
    set_loop({"moves_per_minute": 5, "youngest_s": 0.0, "migration": 0.0, "moves_per_plan": 6})
    yield
    cache.clear()
    Plan.objects.all().delete()
    Loop.objects.all().delete()
    Operation.objects.filter(kind=KIND).delete()
    Activation.objects.filter(pk=active.pk).delete()
    PreferenceSet.objects.filter(pk=active.preference_set_id).delete()


def proposed(site: Site) -> Plan:
    """A plan that a worker has made of what runs."""
    begin_plan(by=site.world.operator.pk)
    make_plans()
    return Plan.objects.get()


def carried(plan: Plan, site: Site) -> None:
    """Let a plan run to its end."""
    approve_plan(plan.pk, by=site.world.operator.pk)
    for _ in range(4):
        for ended in carry_out():
            settle(ended, compare=compare)
        world.end_migrations()
        Move.objects.exclude(began_s=None).update(began_s=0.0)  # the budget of a minute is back


def test_a_plan_is_made_and_opened(visitor: Visitor) -> None:
    page = visitor.visit("/plans/")
    page.get_by_role("button", name="Make a plan now").click()
    page.wait_for_timeout(300)
    make_plans()
    page.wait_for_url("**/plans/p-0001/", timeout=SLOW_MS)
    expect(page.locator("#plan-state")).to_have_text("Proposed")
    expect(page.locator("#plan-lead")).to_contain_text("Would save")


def test_a_bundle_is_left_out_and_the_effect_computed_anew(visitor: Visitor, site: Site) -> None:
    plan = proposed(site)
    page = visitor.visit(f"/plans/{plan}/")
    power = page.locator("#plan-effect tbody tr").first
    before = power.inner_text()
    page.locator("[data-bundle]").first.uncheck()
    expect(page.locator("#plan-bulk-say")).to_contain_text("1 bundle left out")
    expect(page.locator("#plan-approve-open")).to_be_disabled()
    page.get_by_role("button", name="Recompute without them").click()
    expect(page.locator("#plan-bulk")).to_be_hidden(timeout=SLOW_MS)
    expect(page.locator("tbody.out")).to_have_count(1)
    assert power.inner_text() != before
    assert Move.objects.filter(plan=plan, state="skipped").exists()


def test_ticks_can_be_put_back(visitor: Visitor, site: Site) -> None:
    page = visitor.visit(f"/plans/{proposed(site)}/")
    page.locator("[data-bundle]").nth(1).uncheck()
    page.get_by_role("button", name="As it was").click()
    expect(page.locator("#plan-bulk")).to_be_hidden()
    expect(page.locator("[data-bundle]").nth(1)).to_be_checked()
    expect(page.locator("#plan-approve-open")).to_be_enabled()


def refreshed(page: Page) -> None:
    """Wait until the page was drawn anew from what the server says."""
    page.evaluate(
        "() => new Promise((drawn) => document.addEventListener('berth:patched', drawn,"
        " { once: true }))"
    )


def test_what_was_unticked_is_not_approved_after_a_refresh(visitor: Visitor, site: Site) -> None:
    plan = proposed(site)
    page = visitor.visit(f"/plans/{plan}/")
    page.locator("[data-bundle]").first.uncheck()
    refreshed(page)
    expect(page.locator("#plan-approve-open")).to_be_disabled()
    # even where the button is pressed all the same, the server refuses
    page.evaluate("document.querySelector('[data-plan-action=approve]').click()")
    expect(page.locator("#pa-error")).to_contain_text(
        "1 bundle you see left out would be carried out"
    )
    plan.refresh_from_db()
    assert plan.state == "proposed"


def test_what_was_unticked_is_still_so_after_leaving(visitor: Visitor, site: Site) -> None:
    plan = proposed(site)
    page = visitor.visit(f"/plans/{plan}/")
    page.locator("[data-bundle]").nth(1).uncheck()
    visitor.visit("/plans/")
    visitor.visit(f"/plans/{plan}/")
    expect(page.locator("[data-bundle]").nth(1)).not_to_be_checked()
    expect(page.locator("#plan-bulk-say")).to_contain_text("1 bundle left out")
    expect(page.locator("#plan-approve-open")).to_be_disabled()
    page.get_by_role("button", name="Recompute without them").click()
    expect(page.locator("tbody.out")).to_have_count(1, timeout=SLOW_MS)
    expect(page.locator("#plan-bulk")).to_be_hidden()


def test_what_somebody_else_leaves_out_is_seen(visitor: Visitor, site: Site) -> None:
    plan = proposed(site)
    page = visitor.visit(f"/plans/{plan}/")
    trim_plan(plan.pk, skip=[0], take=[], by="otto")
    expect(page.locator("tbody.out")).to_have_count(1, timeout=SLOW_MS)
    expect(page.locator(".toast")).to_contain_text("The plan was changed meanwhile")


def test_the_dialog_that_approves_repeats_power_and_targets_and_warns(
    visitor: Visitor, site: Site
) -> None:
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
    page.get_by_role("button", name="Carry it out").click()
    expect(page.locator("#plan-state")).to_have_text("Approved", timeout=SLOW_MS)
    carry_out()
    expect(page.locator("#plan-state")).to_have_text("Running", timeout=SLOW_MS)
    expect(page.locator(".chart-title")).to_contain_text("under way", timeout=SLOW_MS)
    page.get_by_role("button", name="Pause", exact=True).nth(1).click()
    expect(page.locator("#plan-state")).to_have_text("Paused", timeout=SLOW_MS)
    page.get_by_role("button", name="Resume").click()
    expect(page.locator("#plan-state")).to_have_text("Running", timeout=SLOW_MS)
    page.get_by_role("button", name="Cancel…").click()
    page.locator("[data-plan-action=cancel]").click()
    expect(page.locator("#plan-state")).to_have_text("Cancelled", timeout=SLOW_MS)
    expect(page.locator("#plan-banner")).to_contain_text("Moves under way are being finished")
    world.end_migrations()
    carry_out()


def test_a_plan_is_verified_and_taken_back(visitor: Visitor, site: Site) -> None:
    plan = proposed(site)
    carried(plan, site)
    page = visitor.visit(f"/plans/{plan}/")
    expect(page.locator("#plan-state")).to_have_text("Done")
    expect(page.locator("#plan-lead")).to_contain_text("100 % of the gain predicted")
    expect(page.locator("#plan-effect")).to_contain_text("Realised")
    page.get_by_role("button", name="Take back…").click()
    page.locator("#pr-approve").uncheck()
    page.get_by_role("button", name="Take it back").click()
    page.wait_for_timeout(300)
    make_plans()
    page.wait_for_url("**/plans/p-0002/", timeout=SLOW_MS)
    expect(page.locator("#plan-banner")).to_contain_text("This plan takes p-0001 back")


def test_a_plan_that_no_longer_fits_says_so_when_it_is_approved(
    visitor: Visitor, site: Site
) -> None:
    plan = proposed(site)
    page = visitor.visit(f"/plans/{plan}/")
    moved = Job.objects.filter(pk__in=Move.objects.filter(plan=plan).values("job_id"))
    names = list(moved.values_list("pk", flat=True))
    moved.update(state="starting")
    page.get_by_role("button", name="Approve…").click()
    page.get_by_role("button", name="Carry it out").click()
    expect(page.locator("#plan-state")).to_have_text("Superseded", timeout=SLOW_MS)
    Job.objects.filter(pk__in=names).update(state="running")


def test_the_loop_is_set_from_the_page(visitor: Visitor) -> None:
    page = visitor.visit("/plans/")
    expect(page.locator("#loop-save")).to_be_disabled()
    page.get_by_label("Advise").check()
    page.get_by_text("Budgets and thresholds").click()
    page.get_by_label("Moves per plan").fill("12")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("#loop-mode")).to_have_text("somebody must approve them", timeout=SLOW_MS)
    loop = Loop.objects.get()
    assert (loop.mode, loop.moves_per_plan) == ("advise", 12)


def test_every_setting_that_is_out_of_range_says_so_itself(visitor: Visitor) -> None:
    page = visitor.visit("/plans/")
    page.get_by_text("Budgets and thresholds").click()
    page.get_by_label("Moves per plan").fill("0")
    page.get_by_label("Least gain").fill("")
    page.get_by_text("Budgets and thresholds").click()
    page.get_by_role("button", name="Save").click()
    expect(page.locator("#l-plan-error")).to_have_text(
        "Ensure this value is greater than or equal to 1.", timeout=SLOW_MS
    )
    expect(page.locator("#l-gain-error")).to_have_text("Give a number.")
    expect(page.get_by_label("Moves per plan")).to_be_focused()
    expect(page.locator("#loop-error")).to_contain_text("Nothing was saved")
    page.get_by_label("Moves per plan").fill("3")
    page.get_by_label("Least gain").fill("0.01")
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".toast")).to_contain_text("The loop makes no plans.", timeout=SLOW_MS)
    expect(page.locator("[aria-invalid=true]")).to_have_count(0)
    loop = Loop.objects.get()
    assert (loop.moves_per_plan, loop.least_gain) == (3, 0.01)


def test_automatic_is_asked_for_once_more(visitor: Visitor, site: Site) -> None:
    proposed(site)
    page = visitor.visit("/plans/")
    page.get_by_label("Automatic").check()
    page.get_by_role("button", name="Save").click()
    dialog = page.locator("#loop-automatic")
    expect(dialog).to_contain_text("every 60 s of cluster time")
    expect(dialog).to_contain_text("p-0001 waits for your approval")
    assert visitor.serious_findings() == []
    page.keyboard.press("Escape")
    expect(page.get_by_label("Off")).to_be_checked()
    assert Loop.objects.get().mode == "off"
    page.get_by_label("Automatic").check()
    page.get_by_role("button", name="Save").click()
    page.get_by_role("button", name="Set to automatic").click()
    expect(page.locator("#loop-mode")).to_have_text("carries them out", timeout=SLOW_MS)
    expect(page.locator("#loop-blocker")).to_contain_text("p-0001 waits for your approval")
    assert Loop.objects.get().mode == "automatic"


def test_the_mode_in_force_is_shown_after_somebody_else_set_it(visitor: Visitor) -> None:
    page = visitor.visit("/plans/")
    set_loop({"mode": "advise", "moves_per_plan": 17})
    expect(page.get_by_label("Advise")).to_be_checked(timeout=SLOW_MS)
    page.get_by_text("Budgets and thresholds").click()
    expect(page.get_by_label("Moves per plan")).to_have_value("17")


def test_what_is_typed_outlives_what_somebody_else_sets(visitor: Visitor) -> None:
    page = visitor.visit("/plans/")
    page.get_by_text("Budgets and thresholds").click()
    page.get_by_label("Moves per plan").fill("12")
    set_loop({"mode": "advise", "moves_per_plan": 17})
    expect(page.get_by_label("Advise")).to_be_checked(timeout=SLOW_MS)
    expect(page.locator("#loop-error")).to_contain_text("is not saved yet")
    expect(page.get_by_label("Moves per plan")).to_have_value("12")
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".toast")).to_have_text("The loop is set.", timeout=SLOW_MS)
    expect(page.get_by_label("Moves per plan")).to_have_value("12")
    loop = Loop.objects.get()
    assert (loop.mode, loop.moves_per_plan) == ("advise", 12)


FITS = "(part) => part.scrollWidth <= part.clientWidth"


def test_verdicts_and_badges_are_read_whole_at_a_desk(visitor: Visitor, site: Site) -> None:
    plan = proposed(site)
    for job in plan.predicted["jobs"]:
        job["gains"], job["loses"] = "protected", "full speed"
    plan.save()
    carried(plan, site)
    page = visitor.visit("/plans/")
    expect(page.locator("#plan-list td.why").first).to_contain_text("moves done")
    assert page.locator("#plan-list td.why").first.evaluate(FITS)
    assert page.locator("#plan-list .table-wrap").evaluate(FITS)
    page = visitor.visit(f"/plans/{plan}/")
    assert page.locator(".plan-jobs").evaluate(FITS)
    assert page.locator("#plan-effect .table-wrap").evaluate(FITS)


def test_plans_are_reached_on_a_phone(phone_visitor: Visitor) -> None:
    page = phone_visitor.visit("/")
    page.locator("[aria-controls=account]").click()
    page.locator("#account").get_by_role("link", name="Plans").click()
    page.wait_for_url("**/plans/")


def test_every_step_is_read_on_a_phone_without_scrolling_sideways(
    phone_visitor: Visitor, site: Site
) -> None:
    page = phone_visitor.visit(f"/plans/{proposed(site)}/")
    assert page.locator("#plan-steps .table-wrap").evaluate(FITS)
    for part in (".step-job", ".step-from", ".step-to", ".step-state"):
        assert page.locator(part).first.evaluate(
            "(cell) => cell.getBoundingClientRect().right <= innerWidth"
        )


@pytest.mark.parametrize("who", ["visitor", "night_visitor", "phone_visitor"])
def test_the_pages_of_plans_are_sound(
    who: str, site: Site, request: pytest.FixtureRequest
) -> None:
    plan = proposed(site)
    visiting: Visitor = request.getfixturevalue(who)
    for path in ("/plans/", f"/plans/{plan}/"):
        page = visiting.visit(path)
        assert visiting.errors == []
        assert visiting.serious_findings() == []
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
