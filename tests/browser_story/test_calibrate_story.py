"""The whole story: a front searched live, picks, weights, a plan that is carried out and back."""

import re

import pytest
from playwright.sync_api import Page, expect

from apps.placement.models import Activation, FrontVersion, Move, Plan, PreferenceSet
from apps.placement.selectors.fronts import points_of
from apps.workloads.models import Job
from tests.browser.calibrate.acts import click, drawn, picks, screen
from tests.browser_story import plant

SLOW_MS = 60_000


def wait_for_jobs(page: Page) -> None:
    """Wait until all jobs run, then say what kind each is."""
    page.goto(page.url + "jobs/?q=state:running")
    expect(page.locator("#jobs-table tbody tr")).to_have_count(plant.JOBS, timeout=SLOW_MS)
    plant.classify()


def search_a_front(page: Page) -> FrontVersion:
    """Search a front of what runs, and watch it get better; returns its last version."""
    page.get_by_role("link", name="Calibrate", exact=True).first.click()
    page.wait_for_url("**/calibrate/")
    page.wait_for_load_state("networkidle")
    page.get_by_role("button", name="Search a front of the running cluster…").click()
    page.get_by_label("Time for the search").select_option("5")
    page.get_by_role("button", name="Search", exact=True).click()
    page.wait_for_url("**/calibrate/?front=*")
    drawn(page)
    expect(page.locator("#cal-progress")).to_be_hidden(timeout=SLOW_MS)
    version = FrontVersion.objects.order_by("-number")[0]
    expect(page.locator("#cal-version")).to_have_value(str(version.number), timeout=SLOW_MS)
    return version


def pick_frugal(page: Page, version: FrontVersion) -> list[str]:
    """Accept placements of little power: three on each screen, the last by keyboard."""
    frugal = points_of(version).normalised[:, 0].argsort().tolist()
    for point in frugal[:3]:
        click(page, "P-D", point)
    for point in frugal[:3]:
        click(page, "P-C", point)
    page.mouse.move(5, 5)
    screen(page, "D-C").focus()  # begins where the last pick is
    page.keyboard.press("Enter")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    expect(page.locator("#cal-count")).to_have_text("P-D 3, P-C 3, D-C 3")
    return picks(page)


def by_hand(version: FrontVersion, chosen: list[str]) -> list[float]:
    """Weights of P, D and C: inverse spread, of at least 0.01; 1 where nothing differs."""
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
    page.get_by_label("Message for the audit log").fill("fewer servers at night")
    page.get_by_role("button", name="Activate…").click()
    page.get_by_role("button", name="Activate", exact=True).click()
    expect(page.locator("#cal-line")).to_contain_text("fewer servers at night")


def carry_a_plan_out(page: Page) -> Plan:
    """Have a plan made, approve it, and wait until all of it is done and measured."""
    page.get_by_role("button", name="Make a plan now").click()
    page.wait_for_url("**/plans/*/", timeout=SLOW_MS)
    page.wait_for_load_state("networkidle")
    page.get_by_role("button", name="Approve…").click()
    page.get_by_role("button", name="Carry it out").click()
    expect(page.locator("#plan-state")).to_contain_text("Done", timeout=SLOW_MS)
    expect(page.locator("#plan-effect")).to_contain_text("Predicted and realised")
    return Plan.objects.get()


def take_it_back(page: Page, plan: Plan) -> Plan:
    """Have everything moved back; returns the reverse plan."""
    page.get_by_role("button", name="Take back…").click()
    page.get_by_role("button", name="Take it back").click()
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

    said = page.locator("#cal-bars")
    p, d, c = by_hand(version, chosen)
    expect(said).to_have_attribute("aria-label", re.compile(rf"power {p:.2f}"))
    expect(said).to_have_attribute("aria-label", re.compile(rf"diversity {d:.2f}"))
    expect(said).to_have_attribute("aria-label", re.compile(rf"crossing traffic {c:.2f}"))
    expect(page.locator(".screen .star")).to_have_count(3, timeout=SLOW_MS)
    expect(page.locator("#cal-preview-title")).to_contain_text(
        re.compile("W less.*containers? moves?"), timeout=SLOW_MS
    )
    assert not Plan.objects.exists()

    bring_into_force(page)
    kept = PreferenceSet.objects.get(name="quiet days")
    assert [kept.weights[o] for o in "PDC"] == pytest.approx([p, d, c])
    assert Activation.objects.get().preference_set == kept

    before = plant.held()
    plan = carry_a_plan_out(page)
    assert plan.verdict
    assert plan.realised is not None
    assert plant.held() != before

    assert take_it_back(page, plan).state == "done"
    assert plant.held() == before
    assert set(Move.objects.values_list("state", flat=True)) == {"done"}
    assert Job.objects.filter(state="running").count() == plant.JOBS
