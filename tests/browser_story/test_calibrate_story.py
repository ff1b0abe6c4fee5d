"""From a live front to picks, weights, an executed plan and its rollback."""

import re

import pytest
from playwright.sync_api import Page, expect

from apps.placement.models import Activation, FrontVersion, Plan, PlannedMigration, PreferenceSet
from apps.placement.selectors.fronts import points_of
from apps.workloads.models import Job
from tests.browser.calibrate.acts import accept, accept_warnings, drawn, pick_labels, screen
from tests.browser_story import plant

SLOW_MS = 60_000


def wait_for_jobs(page: Page) -> None:
    """Wait until all jobs run, then store their classes."""
    page.goto(page.url + "jobs/?q=state:running")
    expect(page.locator("#jobs-table tbody tr")).to_have_count(plant.JOBS, timeout=SLOW_MS)
    plant.classify()


def search_a_front(page: Page) -> FrontVersion:
    """Search a front of the running cluster; check that it improves; return its last version."""
    page.get_by_role("link", name="Calibrate", exact=True).first.click()
    page.wait_for_url("**/calibrate/")
    page.wait_for_load_state("networkidle")
    page.get_by_role("button", name="Search for a front…").click()
    page.get_by_label("Search time").select_option("5")
    page.get_by_role("button", name="Search", exact=True).click()
    page.wait_for_url("**/calibrate/?front=*")
    drawn(page)
    expect(page.locator("#cal-progress")).to_be_hidden(timeout=SLOW_MS)
    version = FrontVersion.objects.order_by("-number")[0]
    expect(page.locator("#cal-version")).to_have_value(str(version.number), timeout=SLOW_MS)
    return version


def pick_frugal(page: Page, version: FrontVersion) -> list[str]:
    """Accept placements with low power: three on each screen, the last by keyboard."""
    frugal = points_of(version).normalised[:, 0].argsort().tolist()
    for point in frugal[:3]:
        accept(page, "P-D", point)
    for point in frugal[:3]:
        accept(page, "P-C", point)
    page.mouse.move(5, 5)
    screen(page, "D-C").focus()  # starts at the last pick
    page.keyboard.press("Enter")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    expect(page.locator("#cal-count")).to_have_text("P-D 3, P-C 3, D-C 3")
    labels = pick_labels(page)
    titles = [labels.nth(i).get_attribute("title") or "" for i in range(labels.count())]
    return [re.match(r"Placement (\d+)", title)[1] for title in titles]  # type: ignore[index]


def by_hand(version: FrontVersion, chosen: list[str]) -> list[float]:
    """Weights of P, D and C: inverse spread (at least 0.01); all 1 if no value differs."""
    front = points_of(version).normalised
    spread = front[[int(point) for point in chosen]].std(axis=0, ddof=1).clip(min=0.01)
    differs = front.max(axis=0) > front.min(axis=0)
    largest = (1.0 / spread[differs]).max()
    return [1.0 / s / largest if d else 1.0 for s, d in zip(spread, differs, strict=True)]


def undo_and_redo(page: Page) -> None:
    page.keyboard.press("Control+z")
    expect(page.locator("#cal-count")).to_have_text("P-D 3, P-C 3, D-C 2; 3 each")
    page.keyboard.press("Control+Shift+z")
    expect(page.locator("#cal-count")).to_have_text("P-D 3, P-C 3, D-C 3")


def bring_into_force(page: Page) -> None:
    page.get_by_label("Name", exact=True).fill("quiet days")
    page.get_by_label("Reason for the audit log").fill("fewer servers at night")
    page.get_by_role("button", name="Activate…").click()
    accept_warnings(page)
    page.get_by_role("button", name="Activate", exact=True).click()
    expect(page.locator("#cal-line")).to_contain_text("fewer servers at night")


def carry_a_plan_out(page: Page) -> Plan:
    """Create and approve a plan; wait until it is executed and evaluated."""
    page.get_by_role("button", name="Make a plan now").click()
    page.wait_for_url("**/plans/*/", timeout=SLOW_MS)
    page.wait_for_load_state("networkidle")
    page.get_by_role("button", name="Approve…").click()
    page.get_by_role("button", name="Approve and run").click()
    expect(page.locator("#plan-state")).to_contain_text("Done", timeout=SLOW_MS)
    expect(page.locator("#plan-effect")).to_contain_text("Predicted and realised")
    return Plan.objects.get()


def take_it_back(page: Page, plan: Plan) -> Plan:
    """Roll the plan back; return the reverse plan."""
    page.get_by_role("button", name="Roll back…").click()
    page.get_by_role("button", name="Roll back", exact=True).click()
    page.wait_for_url(lambda url: not url.endswith(f"/{plan}/"), timeout=SLOW_MS)
    expect(page.locator("#plan-state")).to_contain_text("Done", timeout=SLOW_MS)
    return Plan.objects.get(reverses=plan)


@pytest.mark.service
def test_from_a_front_to_a_plan_carried_out_and_taken_back(page: Page) -> None:
    wait_for_jobs(page)
    version = search_a_front(page)
    chosen = pick_frugal(page, version)
    expect(page.locator(".screen .pick")).to_have_count(3 * len(chosen))
    undo_and_redo(page)

    bars = page.locator("#cal-bars")
    p, d, c = by_hand(version, chosen)
    expect(bars).to_have_attribute("aria-label", re.compile(rf"power {p:.2f}"))
    expect(bars).to_have_attribute("aria-label", re.compile(rf"diversity {d:.2f}"))
    expect(bars).to_have_attribute("aria-label", re.compile(rf"crossing traffic {c:.2f}"))
    expect(page.locator(".screen .star")).to_have_count(3, timeout=SLOW_MS)
    expect(page.locator("#cal-preview-title")).to_have_text(
        "Running cluster: same power, 5 migrations", timeout=SLOW_MS
    )
    assert not Plan.objects.exists()

    bring_into_force(page)
    preference_set = PreferenceSet.objects.get(name="quiet days")
    assert [preference_set.weights[o] for o in "PDC"] == pytest.approx([p, d, c])
    assert Activation.objects.get().preference_set == preference_set

    before = plant.held()
    plan = carry_a_plan_out(page)
    assert plan.verdict
    assert plan.realised is not None
    assert plant.held() != before

    assert take_it_back(page, plan).state == "done"
    assert plant.held() == before
    assert set(PlannedMigration.objects.values_list("state", flat=True)) == {"done"}
    assert Job.objects.filter(state="running").count() == plant.JOBS
