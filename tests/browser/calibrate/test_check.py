"""The check of the weights by the solver: one request at a time, with retries."""

import json
import re

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
    """Requests for checks, left unanswered, in order of arrival."""
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route(CHECK, hold)
    return held


def await_held(page: Page, held: list[Route], count: int) -> None:
    """Wait for the handler of requests: it may run after the event of a request."""
    for _ in range(1_000):
        if len(held) >= count:
            break
        page.wait_for_timeout(10)
    assert len(held) == count


def by_sliders(page: Page, weight: str = "0.9") -> None:
    """Derive weights from one slider, so that each change of it sends one request."""
    page.get_by_label("Rule").select_option("direct")
    page.get_by_label("P power").fill(weight)


def test_one_check_runs_at_a_time_and_only_the_latest_is_queued(page: Page) -> None:
    held = holding(page)
    by_sliders(page)
    await_held(page, held, 1)
    page.get_by_label("P power").fill("0.7")
    page.wait_for_timeout(700)
    page.get_by_label("P power").fill("0.5")
    page.wait_for_timeout(700)
    assert len(held) == 1
    expect(page.locator("#cal-check-meta")).to_have_text("solving…")
    held[0].continue_()
    await_held(page, held, 2)
    page.wait_for_timeout(700)
    assert len(held) == 2
    assert (held[1].request.post_data_json or {})["wanted"]["P"] == 0.5
    held[1].continue_()
    expect(page.locator("#cal-check-meta")).to_contain_text(
        re.compile("proven optimal|gap"), timeout=60_000
    )


def test_a_busy_solver_is_retried(page: Page) -> None:
    held = holding(page)
    by_sliders(page)
    await_held(page, held, 1)
    busy(held[0])
    expect(page.locator("#cal-check-meta")).to_have_text("The solver is busy, retrying")
    await_held(page, held, 2)
    held[1].continue_()
    expect(page.locator("#cal-check-meta")).to_contain_text(
        re.compile("proven optimal|gap"), timeout=60_000
    )
    expect(page.locator("#cal-check")).not_to_contain_text("busy")


def test_a_busy_solver_is_reported_once_per_check(
    page: Page,
) -> None:
    page.route(CHECK, busy)
    by_sliders(page)
    expect(page.locator("#cal-check")).to_contain_text("The solver is busy", timeout=60_000)
    expect(page.locator("#cal-check-meta")).to_be_empty()
    expect(page.get_by_role("button", name="Check again")).to_be_visible()
    page.unroute(CHECK)
    holding(page)
    page.get_by_label("P power").fill("0.5")
    expect(page.locator("#cal-check-meta")).to_have_text("solving…")
    expect(page.locator("#cal-check")).not_to_contain_text("busy")


def test_while_it_solves_the_old_verdict_is_dimmed(page: Page) -> None:
    pick_nine(page)
    expect(page.locator("#cal-check-meta")).to_contain_text(
        re.compile("proven optimal|gap"), timeout=60_000
    )
    holding(page)
    changed(page)
    click(page, "D-C", 10)
    expect(page.locator("#cal-check")).to_have_class(re.compile(r"\bold\b"))
    expect(page.locator("#cal-check li b").first).to_contain_text("The solver")


def answered(page: Page, position: str, unreachable: list[int], **star: float) -> None:
    """Make the solver return ``star`` (normalised), at this position relative to the picks."""

    def other(route: Route) -> None:
        body = route.fetch().json()
        body |= {"position": position, "unreachable": unreachable, "nearest": 20}
        body["star"]["normalised"] |= star
        route.fulfill(json=body)

    page.route(CHECK, other)


BEYOND = {"P": 0.01, "D": 0.99, "C": 0.01}  # better than the whole front in everything
BESIDE = {"P": 0.99, "D": 0.99, "C": 0.99}  # worse than some in power and traffic


def test_picks_off_the_convex_hull_are_listed_without_a_warning(page: Page) -> None:
    answered(page, "better", [7, 1, 3], **BESIDE)
    pick_nine(page)
    direction = page.locator("#cal-check li", has_text="direction")
    expect(direction.locator("b")).to_have_text("Picks 2, 4 and 8 set a direction only")
    expect(direction.locator(".warn")).to_have_count(0)
    expect(page.locator(".screen .unreached")).to_have_count(0)
    expect(page.locator("#cal-check")).not_to_contain_text("too short")


def test_picks_off_the_convex_hull_are_warned_about_if_the_star_is_outside(page: Page) -> None:
    answered(page, "outside", [7, 1, 3], **BESIDE)
    pick_nine(page)
    direction = page.locator("#cal-check li", has_text="direction")
    expect(direction.locator(".warn")).to_have_count(1)
    expect(page.locator(".screen .unreached")).to_have_count(9)


def test_accepting_near_the_star_is_announced(page: Page) -> None:
    answered(page, "better", [7], **BESIDE)
    pick_nine(page)
    page.get_by_role("button", name="Accept nearest to ★").click()
    expect(page.get_by_title(re.compile("^Placement 20,"))).to_be_visible()


def test_a_star_beyond_the_front_suggests_a_longer_search(page: Page) -> None:
    answered(page, "better", [], **BEYOND)
    pick_nine(page)
    expect(page.locator("#cal-check")).to_contain_text("The search for this front was too short")
    expect(page.locator("#cal-check")).to_contain_text("than every placement of this front")
