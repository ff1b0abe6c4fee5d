"""What the solver returns under the weights: one question at a time, again where it is busy."""

import json
import re
from typing import Any

from playwright.sync_api import Page, Route, expect

from tests.browser.calibrate.acts import changed, click, pick_nine

CHECK = "**/api/v1/preference-sets/check/"
BUSY = {
    "title": "A part we need is away",
    "detail": "No worker has answered in time.",
    "status": 503,
    "request_id": "r-17",
}


def busy(route: Route) -> None:
    route.fulfill(
        status=503,
        content_type="application/problem+json",
        headers={"Retry-After": "1"},
        body=json.dumps(BUSY),
    )


def holding(page: Page) -> list[Route]:
    """Questions that are not answered, as they come."""
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route(CHECK, hold)
    return held


def by_sliders(page: Page, weight: str = "0.9") -> None:
    """Have weights from one slider, so that each change of it is one question."""
    page.get_by_label("Rule").select_option("direct")
    page.get_by_label("P power").fill(weight)


def test_one_question_is_under_way_and_the_last_of_those_that_wait_is_next(page: Page) -> None:
    held = holding(page)
    with page.expect_request(CHECK):
        by_sliders(page)
    page.get_by_label("P power").fill("0.7")
    page.wait_for_timeout(700)
    page.get_by_label("P power").fill("0.5")
    page.wait_for_timeout(700)
    assert len(held) == 1
    expect(page.locator("#cal-check-meta")).to_have_text("solving…")
    with page.expect_request(CHECK):
        held[0].continue_()
    page.wait_for_timeout(700)
    assert len(held) == 2
    assert held[1].request.post_data_json["wanted"]["P"] == 0.5
    held[1].continue_()
    expect(page.locator("#cal-check-meta")).to_contain_text(re.compile("proven best|gap"))


def test_a_busy_solver_is_asked_again(page: Page) -> None:
    asked: list[Any] = []

    def once(route: Route) -> None:
        asked.append(route)
        if len(asked) == 1:
            busy(route)
        else:
            route.continue_()

    page.route(CHECK, once)
    pick_nine(page)
    expect(page.locator("#cal-check-meta")).to_have_text("The solver is busy, trying again")
    expect(page.locator("#cal-check-meta")).to_contain_text(
        re.compile("proven best|gap"), timeout=20_000
    )
    expect(page.locator("#cal-check")).not_to_contain_text("busy")


def test_a_solver_that_stays_busy_is_said_once_and_forgotten_with_the_next_question(
    page: Page,
) -> None:
    page.route(CHECK, busy)
    by_sliders(page)
    expect(page.locator("#cal-check")).to_contain_text("The solver is busy", timeout=10_000)
    expect(page.locator("#cal-check-meta")).to_be_empty()
    expect(page.get_by_role("button", name="Check again")).to_be_visible()
    page.get_by_label("P power").fill("0.5")
    expect(page.locator("#cal-check-meta")).to_have_text("solving…")
    expect(page.locator("#cal-check")).not_to_contain_text("busy")


def test_while_it_solves_the_old_verdict_is_dimmed(page: Page) -> None:
    pick_nine(page)
    expect(page.locator("#cal-check-meta")).to_contain_text(
        re.compile("proven best|gap"), timeout=20_000
    )
    holding(page)
    changed(page)
    click(page, "D-C", 10)
    expect(page.locator("#cal-check")).to_have_class(re.compile(r"\bold\b"))
    expect(page.locator("#cal-check li b").first).to_contain_text("The solver")
