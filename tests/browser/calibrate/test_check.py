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
    assert (held[1].request.post_data_json or {})["wanted"]["P"] == 0.5
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


def answered(page: Page, position: str, unreachable: list[int], **star: float) -> None:
    """Have the solver land at ``star``, normalised, at this position to the picks."""

    def other(route: Route) -> None:
        body = route.fetch().json()
        body |= {"position": position, "unreachable": unreachable, "nearest": 20}
        body["star"]["normalised"] |= star
        route.fulfill(json=body)

    page.route(CHECK, other)


BEYOND = {"P": 0.01, "D": 0.99, "C": 0.01}  # better than the whole front in everything
BESIDE = {"P": 0.99, "D": 0.99, "C": 0.99}  # worse than some in power and traffic


def test_picks_off_the_convex_part_are_named_in_order_and_are_no_fault(page: Page) -> None:
    answered(page, "better", [7, 1, 3], **BESIDE)
    pick_nine(page)
    found = page.locator("#cal-check li", has_text="direction")
    expect(found.locator("b")).to_have_text("Picks 2, 4 and 8 show a direction only")
    expect(found.locator(".warn")).to_have_count(0)
    expect(page.locator(".screen .unreached")).to_have_count(0)
    expect(page.locator("#cal-check")).not_to_contain_text("too briefly")


def test_picks_off_the_convex_part_are_warned_of_where_the_star_lies_outside(page: Page) -> None:
    answered(page, "outside", [7, 1, 3], **BESIDE)
    pick_nine(page)
    found = page.locator("#cal-check li", has_text="direction")
    expect(found.locator(".warn")).to_have_count(1)
    expect(page.locator(".screen .unreached")).to_have_count(9)


def test_what_is_accepted_near_the_star_is_said(page: Page) -> None:
    answered(page, "better", [7], **BESIDE)
    pick_nine(page)
    page.get_by_role("button", name="Accept nearest to ★").click()
    expect(page.get_by_title(re.compile("^Placement 20,"))).to_be_visible()


def test_a_star_beyond_the_whole_front_says_that_the_search_was_too_brief(page: Page) -> None:
    answered(page, "better", [], **BEYOND)
    pick_nine(page)
    expect(page.locator("#cal-check")).to_contain_text("This front was searched too briefly")
    expect(page.locator("#cal-check")).to_contain_text("than every placement of this front")
