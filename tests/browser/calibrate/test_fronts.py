"""The front and version shown, and the picks when they change."""

import json
import re
from typing import Any
from uuid import uuid4

import pytest
from playwright.sync_api import Page, expect

from apps.common.infrastructure.warm_up import Kernels, warming_up
from apps.placement.models import Front
from tests.browser.calibrate.acts import (
    NEWS,
    click,
    drawn,
    expect_picks,
    opened,
    pick_labels,
    screen,
)
from tests.browser.conftest import Visitor
from tests.dashboard import fronts


def test_a_newer_version_is_offered_and_picks_are_carried_over(visitor: Visitor) -> None:
    front = fronts.front(by=visitor.site.world.operator)
    points = fronts.pattern()
    fronts.version(front, points)
    page = opened(visitor, front)
    click(page, "P-D", 3)
    click(page, "P-D", 5)
    moved = points[::-1].copy()
    moved[len(points) - 1 - 5] += 0.004
    fronts.version(front, moved)
    page.reload()
    drawn(page)
    expect_picks(page, 3, 5)
    expect(page.locator("#cal-newer")).to_contain_text("Version 2 has 39 placements")
    page.get_by_role("button", name="Switch", exact=True).click()
    expect(page.locator("#cal-carried")).to_contain_text(
        "1 placement unchanged, 1 mapped to the nearest, at most 0.007 away"
    )
    expect_picks(page, len(points) - 1 - 3, len(points) - 1 - 5)
    page.keyboard.press("Control+z")
    expect(page.locator("#cal-version")).to_have_value("1")
    expect_picks(page, 3, 5)


def test_answers_are_carried_over_to_a_newer_version_too(visitor: Visitor) -> None:
    front = fronts.front(by=visitor.site.world.operator)
    points = fronts.pattern()
    fronts.version(front, points)
    page = opened(visitor, front)
    page.get_by_label("Rule").select_option("pairs")
    page.locator(".duel button").first.click()
    footer = page.locator(".duel-foot span")
    expect(footer).to_contain_text("1 answer;")
    before = footer.inner_text()
    fronts.version(front, points[::-1].copy())
    page.reload()
    drawn(page)
    page.get_by_role("button", name="Switch", exact=True).click()
    expect(page.locator("#cal-carried")).to_contain_text("2 placements unchanged")
    expect(footer).to_have_text(before)


def test_without_picks_the_newest_version_is_shown(visitor: Visitor) -> None:
    front = fronts.front(by=visitor.site.world.operator, state="running")
    fronts.version(front, fronts.pattern(10))
    page = opened(visitor, front)
    fronts.version(front, fronts.pattern(20))
    expect(page.locator("#cal-version")).to_have_value("2")
    expect(page.locator("#cal-progress")).to_contain_text("Searching")


def test_a_stream_event_updates_the_page_at_once(visitor: Visitor) -> None:
    front = fronts.front(by=visitor.site.world.operator)
    fronts.version(front, fronts.pattern(10))
    page = opened(visitor, front)
    fronts.version(front, fronts.pattern(20))
    page.evaluate(NEWS)
    expect(page.locator("#cal-version")).to_have_value("2", timeout=5_000)


def test_frequent_events_do_not_delay_the_update(visitor: Visitor) -> None:
    front = fronts.front(by=visitor.site.world.operator)
    fronts.version(front, fronts.pattern(10))
    page = opened(visitor, front)
    fronts.version(front, fronts.pattern(20))
    page.evaluate(f"setInterval(() => {NEWS}, 100)")
    expect(page.locator("#cal-version")).to_have_value("2", timeout=5_000)


def test_an_unread_front_shows_no_time(visitor: Visitor) -> None:
    front = fronts.front(by=visitor.site.world.operator, state="running", cluster_s=None)
    fronts.version(front, fronts.pattern(10))
    page = opened(visitor, front)
    expect(page.locator("#cal-workload")).to_contain_text("loading")


def test_a_front_of_one_placement_has_a_title_in_the_singular(visitor: Visitor) -> None:
    front = fronts.front(by=visitor.site.world.operator)
    fronts.version(front, fronts.pattern()[:1])
    page = opened(visitor, front)
    expect(page.locator("#cal-title")).to_have_text("1 placement; pick those you would accept")


def test_a_search_that_waits_for_its_kernels_says_so(visitor: Visitor) -> None:
    front = fronts.front(by=visitor.site.world.operator, state="pending")
    progress = visitor.visit(f"/calibrate/?front={front.id}").locator("#cal-progress")
    expect(progress).to_contain_text("The search starts automatically.")
    with warming_up(Kernels.PLACEMENT):
        expect(progress).to_contain_text("kernels of the search are compiled first")
    front.delete()


def test_a_search_of_a_past_workload_is_started_and_stopped(page: Page, visitor: Visitor) -> None:
    page.get_by_role("button", name="New front…").click()
    page.get_by_label(re.compile("Recorded, at a time between")).check()
    page.get_by_role("slider", name="Time").fill("30060")
    expect(page.locator("#nf-at-said")).to_have_text("day 1, 08:21")
    page.get_by_label("Search time").select_option("5")
    with page.expect_request("**/api/v1/fronts/") as sent:
        page.get_by_role("button", name="Search", exact=True).click()
    assert sent.value.post_data_json == {
        "source": "cluster",
        "budget_seconds": 5,
        "cluster_seconds": 30_060,
    }
    expect(page.locator("#cal-progress")).to_contain_text("is waiting for a worker")
    page.get_by_role("button", name="Stop", exact=True).click()
    expect(page.locator("#cal-progress")).to_contain_text("was stopped")
    assert visitor.errors == []


def test_a_front_shows_its_drift_from_the_cluster(visitor: Visitor) -> None:
    def far(route: Any) -> None:
        body = route.fetch().json()
        drift = {"share": 0.31, "limit": 0.1, "sentence": "31 % of the mix has changed."}
        route.fulfill(json=body | {"drift": drift})

    front = fronts.version(fronts.front(by=visitor.site.world.operator)).front
    visitor.page.route(f"**/api/v1/fronts/{front.id}/", far)
    page = opened(visitor, front)
    expect(page.locator("#cal-drifted")).to_contain_text(
        "The workload has changed since this front was searched"
    )
    expect(page.locator("#cal-drift")).to_have_text("31.0 % of the mix, limit 10 %")


def test_a_front_shows_what_it_covers_and_for_how_long_it_is_good(visitor: Visitor) -> None:
    def measured(route: Any) -> None:
        coverage = {
            "moments": [30_000.0, 33_600.0],
            "containers": 300,
            "still_running": 210,
            "still_share": 0.7,
            "good_for_seconds": 4800.0,
            "measured_seconds": 10_800.0,
        }
        drift = {"share": 0.02, "limit": 0.1, "sentence": ""}
        more = {"moments": coverage["moments"], "drift": drift, "coverage": coverage}
        route.fulfill(json=route.fetch().json() | more)

    front = fronts.version(fronts.front(by=visitor.site.world.operator)).front
    visitor.page.route(f"**/api/v1/fronts/{front.id}/", measured)
    page = opened(visitor, front)
    expect(page.locator("#cal-workload")).to_contain_text("mean of 2 moments, day 1, 08:20 to")
    expect(page.locator("#cal-workload")).to_contain_text("70 % of those running now")
    expect(page.locator("#cal-drift")).to_have_text(
        "2.0 % of the mix, limit 10 %, valid for about 1 h 20 min of cluster time"
    )


def test_a_front_over_a_period_is_requested(visitor: Visitor) -> None:
    front = fronts.version(fronts.front(by=visitor.site.world.operator)).front
    page = opened(visitor, front)
    page.get_by_role("button", name="New front…").click()
    expect(page.get_by_label("Period that ends then")).to_be_hidden()
    page.get_by_label("Recorded, over a period").check()
    page.get_by_label("Period that ends then").select_option("1800")
    assert visitor.serious_findings() == []
    with page.expect_request("**/api/v1/fronts/") as sent:
        page.get_by_role("button", name="Search", exact=True).click()
    asked: dict[str, Any] = sent.value.post_data_json or {}
    assert asked["window_seconds"] == 1800
    assert asked["cluster_seconds"] > 0
    page.get_by_role("button", name="Stop", exact=True).click()
    expect(page.locator("#cal-progress")).to_contain_text("was stopped")


def test_refusals_are_shown_with_the_request_id(visitor: Visitor) -> None:
    front = fronts.version(fronts.front(by=visitor.site.world.operator)).front
    refusal = {"title": "The database rests", "status": 503, "request_id": "r-17"}
    visitor.page.route(
        f"**/api/v1/fronts/{front.id}/",
        lambda route: route.fulfill(
            status=503, content_type="application/problem+json", body=json.dumps(refusal)
        ),
    )
    page = visitor.visit(f"/calibrate/?front={front.id}")
    expect(page.locator("#cal-problem")).to_contain_text("The database rests")
    expect(page.locator("#cal-problem")).to_contain_text("request r-17")
    page.unroute(f"**/api/v1/fronts/{front.id}/")
    page.get_by_role("button", name="Retry").click()
    expect(page.locator("#cal-problem")).to_be_hidden()
    drawn(page)


# ---- deleted versions and fronts ----


@pytest.fixture
def two(visitor: Visitor, workers: None) -> tuple[Page, Front]:
    """A page with two picks on version 1 of a front; there is a version 2 with all placements."""
    front = fronts.front(by=visitor.site.world.operator)
    points = fronts.pattern()
    fronts.version(front, points)
    page = opened(visitor, front)
    click(page, "P-D", 3)
    click(page, "P-D", 5)
    fronts.version(front, points[::-1].copy())
    page.reload()
    drawn(page)
    return page, front


def test_picks_on_a_deleted_version_are_dropped_with_a_notice(
    two: tuple[Page, Front], visitor: Visitor
) -> None:
    page, front = two
    front.versions.get(number=1).delete()
    page.reload()
    drawn(page)
    expect(page.locator("#cal-carried")).to_contain_text("Version 1 and its picks no longer exist")
    expect_picks(page)
    expect(page.get_by_role("button", name="Undo")).to_be_disabled()
    click(page, "P-D", 4)
    expect_picks(page, 4)
    assert visitor.errors == []


def test_undo_does_not_return_to_a_deleted_version(
    two: tuple[Page, Front], visitor: Visitor
) -> None:
    page, front = two
    page.get_by_role("button", name="Switch", exact=True).click()
    expect(page.locator("#cal-version")).to_have_value("2")
    front.versions.get(number=1).delete()
    page.reload()
    drawn(page)
    expect_picks(page, 35, 33)
    expect(page.get_by_role("button", name="Undo")).to_be_disabled()
    assert visitor.errors == []


def test_undo_to_a_just_deleted_version_opens_the_newest(
    two: tuple[Page, Front],
) -> None:
    page, front = two
    page.get_by_role("button", name="Switch", exact=True).click()
    expect(page.locator("#cal-version")).to_have_value("2")
    page.reload()
    drawn(page)
    front.versions.get(number=1).delete()
    page.keyboard.press("Control+z")
    expect(page.locator("#cal-carried")).to_contain_text("Version 1 and its picks no longer exist")
    expect(page.locator("#cal-problem")).to_be_hidden()
    expect_picks(page)
    page.get_by_role("button", name="Redo").click()
    expect_picks(page, 35, 33)


def test_picks_move_to_the_newest_version_if_theirs_is_deleted(
    two: tuple[Page, Front],
) -> None:
    page, front = two
    front.versions.get(number=1).delete()
    page.evaluate(NEWS)
    expect(page.locator("#cal-carried")).to_contain_text("Version 1 no longer exists.")
    expect(page.locator("#cal-version")).to_have_value("2")
    expect_picks(page, 35, 33)


def test_an_address_of_a_deleted_version_opens_the_newest(visitor: Visitor) -> None:
    front = fronts.version(fronts.front(by=visitor.site.world.operator)).front
    page = opened(visitor, front, "&version=7")
    expect(page.locator("#cal-carried")).to_contain_text("Version 7 does not exist")
    expect(page).not_to_have_url(re.compile("version="))


def test_an_address_of_a_deleted_front_opens_another_front(visitor: Visitor) -> None:
    page = visitor.visit(f"/calibrate/?front={uuid4()}&version=7")
    drawn(page)
    expect(page.locator("#main")).to_contain_text("does not exist")
    expect(page).not_to_have_url(re.compile("front="))
    screen(page, "P-D").focus()
    page.keyboard.press("Enter")
    expect(pick_labels(page)).to_have_count(1)


def test_deleting_the_open_front_shows_a_notice_with_a_link(
    visitor: Visitor,
) -> None:
    front = fronts.version(fronts.front(by=visitor.site.world.operator)).front
    page = opened(visitor, front)
    front.delete()
    page.evaluate(NEWS)
    expect(page.locator("#cal-problem")).to_contain_text("This front was deleted")
    page.get_by_role("button", name="Open the newest front").click()
    page.wait_for_url("**/calibrate/")
    drawn(page)
