"""Plans in the browser: made, trimmed, approved, followed, verified, taken back; the loop set."""

from collections.abc import Iterator

import pytest
from django.core.cache import cache
from django.db import connection
from playwright.sync_api import expect

from apps.execution.models import Launch
from apps.operations.models import Operation
from apps.placement.models import Activation, Loop, Move, Plan, PreferenceSet
from apps.placement.services.carrying import carry_out
from apps.placement.services.loop import set_loop
from apps.placement.services.making import KIND, begin_plan, make_plans
from apps.placement.services.plans import approve_plan
from apps.placement.services.proposing import compare
from apps.placement.services.settling import settle
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


def test_a_setting_that_is_out_of_range_is_named(visitor: Visitor) -> None:
    page = visitor.visit("/plans/")
    page.get_by_text("Budgets and thresholds").click()
    page.evaluate("document.getElementById('loop-form').noValidate = true")
    page.get_by_label("Moves per plan").fill("0")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("#loop-error")).to_be_visible()


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
