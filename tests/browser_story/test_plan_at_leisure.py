"""From a front to a plan approved by hand two minutes later, on 600 busy servers at 60x."""

import re

import pytest
from playwright.sync_api import Page, expect

from apps.inventory.selectors import cluster_now
from apps.placement.models import FrontVersion, Plan, PlannedMigration
from apps.placement.selectors import plans as selectors
from apps.placement.selectors.fronts import points_of
from apps.workloads.models import Job
from tests.browser.calibrate.acts import SCREENS, click
from tests.browser_story import busy, plant
from tests.browser_story.test_calibrate_story import bring_into_force, search_a_front

SLOW_MS = 120_000
REVIEW_S = 120.0  # wall seconds: two hours of cluster time


def wait_until_most_jobs_run(page: Page) -> None:
    """Wait until the jobs run and are old enough to be migrated."""
    page.goto(page.url + "jobs/?q=state:running")
    page.wait_for_function(
        "(wanted) => document.querySelectorAll('#jobs-table tbody tr').length >= wanted",
        arg=min(busy.SERVERS, 25),
        timeout=SLOW_MS,
    )
    until_s = cluster_now() + selectors.loop_settings().youngest_s
    while cluster_now() < until_s:
        page.wait_for_timeout(200)


def pick_low_power(page: Page, version: FrontVersion) -> None:
    """Accept three placements on each screen: of nine that are far apart, those of least power."""
    points = points_of(version)
    apart = points.representatives(9)
    chosen = apart[points.normalised[apart, 0].argsort()][:3].tolist()
    for name in SCREENS:
        for point in chosen:
            click(page, name, point)
    expect(page.locator("#cal-count")).to_have_text("P-D 3, P-C 3, D-C 3")


def propose(page: Page) -> Plan:
    page.get_by_role("button", name="Make a plan now").click()
    page.wait_for_url("**/plans/*/", timeout=SLOW_MS)
    expect(page.locator("#plan-state")).to_have_text("Proposed")
    return Plan.objects.get()


def review(page: Page, plan: Plan) -> None:
    """Leave the plan open until the time is over and a job of it has ended."""
    began_s = cluster_now()
    page.wait_for_timeout(1000.0 * REVIEW_S)
    planned = PlannedMigration.objects.filter(plan=plan, state="waiting")
    ended = Job.objects.filter(state__in=["cancelled", "succeeded"])
    while not (
        ended.filter(pk__in=planned.values("job_id")).exists()
        or Plan.objects.get(pk=plan.pk).changes
    ):
        page.wait_for_timeout(500)
    assert cluster_now() - began_s >= 0.95 * plant.SPEED * REVIEW_S


def approve(page: Page) -> None:
    page.get_by_role("button", name="Approve…").click()
    page.get_by_role("button", name="Approve and run").click()
    expect(page.locator("#plan-state")).to_have_text(
        re.compile("Approved|Running|[Dd]one"), timeout=SLOW_MS
    )


@pytest.mark.service
def test_a_plan_is_approved_at_leisure_on_a_busy_cluster(busy_page: Page) -> None:
    page = busy_page
    wait_until_most_jobs_run(page)
    version = search_a_front(page)
    pick_low_power(page, version)
    expect(page.locator("#cal-preview-title")).to_contain_text(
        re.compile("migrations?"), timeout=SLOW_MS
    )
    bring_into_force(page)
    plan = propose(page)
    promised = plan.proposed

    review(page, plan)
    expect(page.locator("#plan-state")).to_have_text("Proposed")
    expect(page.locator("#plan-changes")).to_contain_text(
        "changed since the plan was proposed", timeout=SLOW_MS
    )
    approve(page)
    expect(page.locator("#plan-state")).to_contain_text("one", timeout=SLOW_MS)  # (partly) done
    expect(page.locator("#plan-effect")).to_contain_text("Predicted and realised")

    carried = selectors.plan_by_key(plan.pk)
    assert carried.pk == Plan.objects.get().pk
    assert carried.proposed == promised
    assert carried.changes
    assert carried.rebased_at is not None
    assert carried.state == "done"
    assert "of the predicted gain" in carried.verdict
    expect(page.locator("#plan-lead")).to_have_text(carried.verdict)
    assert PlannedMigration.objects.filter(plan=plan, state="done").exists()
    print(  # noqa: T201 - shown by -s
        f"\n{Job.objects.count()} jobs, of which {Job.objects.filter(state='running').count()}"
        f" run: {selectors.difference(carried)} {carried.verdict}"
    )
