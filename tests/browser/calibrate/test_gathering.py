"""Selecting placements by lasso, ranges or table, and exporting them."""

import re

import pytest
from playwright.sync_api import Page, Request, expect

from apps.workloads.models import Job
from tests.browser.calibrate.acts import (
    click,
    expect_accepted,
    expect_picks,
    opened,
    resize,
    spot,
)
from tests.browser.conftest import Visitor
from tests.dashboard import fronts


def lassoed(page: Page) -> None:
    """Draw a lasso around placements 5 and 6."""
    page.get_by_role("button", name="Lasso").click()
    corners = [spot(page, "D-C", point) for point in (5, 6)]
    (x0, y1), (x1, y0) = corners  # to the right and up
    page.mouse.move(x0 - 6, y0 - 6)
    page.mouse.down()
    page.mouse.move(x1 + 6, y0 - 6, steps=3)
    page.mouse.move(x1 + 6, y1 + 6, steps=3)
    page.mouse.move(x0 - 6, y1 + 6, steps=3)
    page.mouse.up()
    expect(page.locator("#cal-gathered-text")).to_contain_text("inside the lasso, for D-C")


def test_a_lasso_selects_placements_to_accept_together(page: Page) -> None:
    lassoed(page)
    page.get_by_role("button", name="Accept all").click()
    expect_accepted(page, 5)
    expect_accepted(page, 6)
    expect(page.locator("#cal-gathered")).to_be_hidden()


CANCEL = """target => target.dispatchEvent(
    new PointerEvent("pointercancel", { pointerId: 1, bubbles: true }))"""


def test_a_cancelled_lasso_selects_nothing_and_keeps_the_selection(page: Page) -> None:
    lassoed(page)
    before = page.locator("#cal-gathered-text").inner_text()
    x, y = spot(page, "P-D", 0)
    page.mouse.move(x - 30, y - 30)
    page.mouse.down()
    page.mouse.move(x + 30, y - 30, steps=3)
    page.mouse.move(x + 30, y + 30, steps=3)
    svg = page.locator('[data-screen="P-D"] svg')
    svg.evaluate(CANCEL)
    page.mouse.move(x - 30, y + 30, steps=3)
    expect(page.locator("#cal-gathered-text")).to_have_text(before)
    page.mouse.up()
    expect(page.locator("#cal-gathered-text")).to_have_text(before)


def test_a_cancelled_drag_on_an_axis_leaves_its_range(page: Page) -> None:
    page.get_by_role("button", name="Axes").click()
    page.get_by_label("power from").fill("0.85")
    page.get_by_label("power from").press("Enter")
    gathered = page.locator("#cal-gathered-text")
    expect(gathered).to_contain_text("inside the ranges")
    expect(page).to_have_url(re.compile("ranges="))
    before, address = gathered.inner_text(), page.url
    box = page.locator(".axis-hit[data-column=P]").bounding_box()
    assert box is not None
    x = box["x"] + box["width"] / 2
    page.mouse.move(x, box["y"] + 0.9 * box["height"])
    page.mouse.down()
    page.mouse.move(x, box["y"] + 0.3 * box["height"], steps=4)
    page.locator(".axes-plot svg").evaluate(CANCEL)
    page.mouse.up()
    expect(gathered).to_have_text(before)
    expect(page).to_have_url(address)
    page.get_by_label("Placements shown").select_option("50")  # publishes all again
    expect(gathered).to_have_text(before)


def test_escape_clears_the_lasso(page: Page) -> None:
    lassoed(page)
    page.keyboard.press("Escape")
    expect(page.locator("#cal-gathered")).to_be_hidden()


def test_leaving_lasso_mode_clears_its_selection(page: Page) -> None:
    lassoed(page)
    page.get_by_role("button", name="Pick", exact=True).click()
    expect(page.locator("#cal-gathered")).to_be_hidden()


def test_ranges_are_typed_and_kept_in_the_address(page: Page) -> None:
    page.get_by_role("button", name="Axes").click()
    page.get_by_label("power from").fill("0.85")
    page.get_by_label("power from").press("Enter")
    expect(page.locator("#cal-gathered-text")).to_contain_text("inside the ranges")
    expect(page).to_have_url(re.compile("ranges=P%3A0.85%3A"))
    expect(page).to_have_url(re.compile("mode=axes"))


def test_the_table_shows_every_placement_and_accepts(page: Page) -> None:
    page.get_by_role("button", name="View as table").click()
    expect(page.locator("#cal-twin-count")).to_have_text("39 placements")
    page.get_by_role("button", name="Accept placement 7 on P-C").click()
    expect_picks(page, 7)
    expect(page.locator("#cal-count")).to_have_text("P-D 0, P-C 1, D-C 0; 3 each")


@pytest.mark.parametrize("width", [1440, 390])
def test_the_buttons_of_the_table_are_visible(page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    page.get_by_role("button", name="View as table").click()
    page.locator(".twin tbody .btn").first.wait_for()
    right = page.evaluate(
        """() => [...document.querySelectorAll('.twin tbody tr:first-child .btn')].at(-1)
            .getBoundingClientRect().right
            - document.querySelector('.twin-wrap').getBoundingClientRect().right"""
    )
    assert right <= 0


def test_the_table_is_sorted_and_filtered(page: Page) -> None:
    page.get_by_role("button", name="View as table").click()
    page.get_by_role("button", name="D diversity").click()
    page.get_by_role("button", name="D diversity").click()
    head = page.locator(".twin th[aria-sort]")
    expect(head).to_have_attribute("aria-sort", "descending")
    values = page.locator(".twin tbody tr td:nth-child(3)").all_inner_texts()
    assert values == sorted(values, reverse=True)
    page.get_by_label("Placement or worst job").fill("7")
    expect(page.locator(".twin tbody tr")).to_have_count(1)


@pytest.fixture
def by_job(visitor: Visitor, workers: None) -> tuple[Page, list[str], list[Request]]:
    """The table of 200 placements with 60 worst jobs; those jobs' names, and requests for jobs."""
    jobs = list(Job.objects.order_by("id")[:60])
    front = fronts.front(by=visitor.site.world.operator)
    fronts.version(front, fronts.surface(200), worst=[str(job.id) for job in jobs])
    page = opened(visitor, front)
    page.get_by_role("button", name="View as table").click()
    requests: list[Request] = []
    page.on(
        "request",
        lambda request: requests.append(request) if "/api/v1/jobs/" in request.url else None,
    )
    return page, [job.name for job in jobs], requests


def test_the_table_is_sorted_by_the_names_of_jobs_once_they_are_known(
    by_job: tuple[Page, list[str], list[Request]],
) -> None:
    page, names, _ = by_job
    page.get_by_role("button", name="Worst job").click()
    expect(page.locator(".twin tbody tr td:nth-child(9)").first).to_have_text(min(names))
    shown = page.locator(".twin tbody tr td:nth-child(9)").all_inner_texts()
    assert shown == sorted(shown)
    expect(page.get_by_role("button", name="Worst job")).to_be_focused()


def test_the_table_is_filtered_by_the_name_of_a_job_that_was_never_shown(
    by_job: tuple[Page, list[str], list[Request]],
) -> None:
    page, names, _ = by_job
    page.get_by_label("Placement or worst job").fill(names[-1])
    rows = page.locator(".twin tbody tr td:nth-child(9)")
    expect(rows).to_have_text([names[-1]] * 3)


def test_job_names_are_requested_in_batches(
    by_job: tuple[Page, list[str], list[Request]],
) -> None:
    page, names, requests = by_job
    page.get_by_role("button", name="Worst job").click()
    expect(page.locator(".twin tbody tr td:nth-child(9)").first).to_have_text(min(names))
    assert len(requests) <= 2
    assert all("/api/v1/jobs/?id__in=" in request.url for request in requests)


def test_changes_to_hidden_plots_are_drawn_when_shown(page: Page) -> None:
    click(page, "P-D", 3)
    page.get_by_role("button", name="View as table").click()
    resize(page, 1300)
    page.get_by_role("button", name="Accept placement 7 on P-C").click()
    page.get_by_role("button", name="View as table").click()
    resize(page, 1440)
    expect(page.locator(".screen .pick")).to_have_count(6)
    click(page, "D-C", 5)
    expect_picks(page, 3, 7, 5)


def test_a_thinned_front_is_representative(visitor: Visitor) -> None:
    front = fronts.front(by=visitor.site.world.operator)
    fronts.version(front, fronts.surface(300))
    page = opened(visitor, front)
    page.get_by_role("button", name="View as table").click()
    expect(page.locator("#cal-twin-count")).to_have_text("200 placements, page 1 of 4")
    page.get_by_label("Placements shown").select_option("50")
    expect(page.locator("#cal-twin-count")).to_have_text("50 placements")
    expect(page).to_have_url(re.compile("thin=50"))


def test_placements_are_exported(page: Page) -> None:
    page.get_by_role("button", name=re.compile("Export")).click()
    with page.expect_download() as download:
        page.get_by_role("button", name="Placements as CSV").click()
    lines = download.value.path().read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith("placement,P,P_raw,D,D_raw,C,C_raw,nodes_on")
    assert len(lines) == 40


def test_the_plots_are_exported_as_an_image(page: Page, visitor: Visitor) -> None:
    click(page, "P-D", 3)
    page.get_by_role("button", name=re.compile("Export")).click()
    with page.expect_download() as download:
        page.get_by_role("button", name="Picture as PNG").click()
    assert download.value.path().read_bytes().startswith(b"\x89PNG")
    assert not [error for error in visitor.errors if "Content Security" in error]
