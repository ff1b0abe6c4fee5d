"""Preference sets: saving, loading, comparing, activating and reverting."""

import re
from contextlib import closing
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from apps.placement.models import Activation, FrontVersion, PreferenceSet
from tests.browser.calibrate.acts import (
    accept_warnings,
    changed,
    drawn,
    expect_picks,
    named,
    opened,
    pick_nine,
    saved,
)
from tests.browser.chromium import signed_in
from tests.browser.conftest import Site, Visitor, visitor_of
from tests.browser.world import PASSWORD

NONE: dict[str, Any] = {"results": [], "next": None, "previous": None}  # a list of sets


def test_a_set_is_saved_and_loaded_again(page: Page) -> None:
    pick_nine(page)
    saved(page, "busy days")
    preference_set = PreferenceSet.objects.get(name="busy days")
    assert preference_set.picks == {"P-D": [0, 1, 2], "P-C": [3, 4, 5], "D-C": [6, 7, 8]}
    assert preference_set.weights["P"] == pytest.approx(0.22)
    page.get_by_role("button", name="Clear").click()
    expect_picks(page)
    page.get_by_role("button", name="Load busy days").click()
    expect_picks(page, *range(9))
    page.keyboard.press("Control+z")
    expect_picks(page)


def test_a_derived_set_names_its_parent(page: Page) -> None:
    pick_nine(page)
    saved(page, "first try")
    changed(page)
    saved(page, "second try")
    assert PreferenceSet.objects.get(name="second try").parent is not None
    expect(page.locator("#cal-sets")).to_contain_text("second try derived from first try")


def test_undo_and_redo_include_the_name_of_a_loaded_set(page: Page) -> None:
    pick_nine(page)
    saved(page, "to and fro")
    page.evaluate("sessionStorage.clear()")
    page.goto(re.sub(r"&set=[^&]*", "", page.url))
    drawn(page)
    page.get_by_role("button", name="Load to and fro").click()
    name = page.get_by_label("Name", exact=True)
    expect(name).to_have_value("to and fro")
    page.keyboard.press("Control+z")
    expect(name).to_have_value("")
    page.keyboard.press("Control+Shift+z")
    expect(name).to_have_value("to and fro")


def test_comparing_fewer_than_two_sets_shows_a_hint(page: Page) -> None:
    page.get_by_role("button", name="Compare sets").click()
    expect(page.locator("#toasts")).to_contain_text("Select two or more sets")
    expect(page.locator("#cal-compare-dialog")).to_be_hidden()


@pytest.mark.parametrize("width", [1440, 390])
def test_the_buttons_of_saved_sets_are_visible(page: Page, width: int) -> None:
    pick_nine(page)
    name = f"a-set-with-a-name-as-long-as-sixty-three-characters-allow-{width}"
    saved(page, name)
    expect(page.locator("#cal-sets")).to_contain_text(name)
    page.set_viewport_size({"width": width, "height": 900})
    hidden = page.locator("#cal-sets").evaluate(
        "table => table.scrollWidth - table.closest('.table-wrap').clientWidth"
    )
    assert hidden <= 0


def test_a_duplicate_name_is_marked(page: Page) -> None:
    pick_nine(page)
    saved(page, "taken")
    changed(page)
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator("#cal-error")).to_contain_text(
        "A preference set named taken already exists."
    )
    expect(page.get_by_label("Name", exact=True)).to_be_focused()


def test_a_set_that_was_never_in_force_can_be_deleted(page: Page) -> None:
    pick_nine(page)
    saved(page, "short-lived")
    page.get_by_role("button", name="Delete short-lived").click()
    expect(page.locator("#toasts")).to_contain_text("Deleted short-lived.")
    assert not PreferenceSet.objects.filter(name="short-lived").exists()


def test_sets_are_compared_in_columns(page: Page) -> None:
    pick_nine(page)
    saved(page, "left")
    changed(page)
    saved(page, "right")
    page.get_by_label("Compare left").check()
    page.get_by_label("Compare right").check()
    page.get_by_role("button", name="Compare sets").click()
    columns = page.locator("#cp-table")
    expect(columns.locator("thead th")).to_have_text(["right", "left"])
    expect(columns).to_contain_text("The optimum of these weights is", timeout=60_000)
    expect(columns).to_contain_text("targets met", timeout=60_000)
    page.locator("#cal-compare-dialog").get_by_role("button", name="Close").click()
    expect(page.locator("#cal-preview-sub")).to_contain_text("solver gap", timeout=60_000)


def activate(page: Page, name: str, message: str) -> None:
    """Activate the named picks after the confirmation dialog."""
    page.get_by_label("Reason for the audit log").fill(message)
    page.get_by_role("button", name="Activate…").click()
    expect(page.locator("#ac-what")).to_contain_text("Plans are made on request only")
    link = page.get_by_role("link", name="Replay the last 24 h with these weights")
    expect(link).to_have_attribute("href", re.compile(r"^/lab/\?hours=24&weights=.+"))
    accept_warnings(page)
    page.get_by_role("button", name="Activate", exact=True).click()
    expect(page.locator("#toasts")).to_contain_text(f"{name} is in force.")
    expect(page.get_by_role("button", name="Make a plan now")).to_be_focused()  # scrolled to it


def test_weights_are_activated_and_reverted(page: Page) -> None:
    pick_nine(page)
    named(page, "day shift")
    activate(page, "day shift", "as agreed on Monday")
    changed(page)
    named(page, "night shift")
    activate(page, "night shift", "quieter")
    now = page.locator("#cal-line li").first
    expect(now).to_contain_text("night shift")
    expect(now).to_contain_text("in force")
    now.get_by_role("button", name="Revert…").click()
    page.get_by_role("button", name="Revert", exact=True).click()
    expect(page.locator("#rv-error")).to_have_text(
        "Enter a reason. It is stored in the audit log."
    )
    page.get_by_label("Reason, for the audit log").fill("too many moves")
    page.get_by_role("button", name="Revert", exact=True).click()
    expect(now).to_contain_text("day shift")
    latest = Activation.objects.order_by("-id")[0]
    assert latest.message == "too many moves"
    assert latest.reverts is not None
    assert latest.guard_drop is None or latest.guard_drop == pytest.approx(0.02)


def test_a_loaded_set_is_activated_unchanged(page: Page) -> None:
    pick_nine(page)
    saved(page, "agreed")
    page.get_by_role("button", name="Clear").click()
    saved_before = PreferenceSet.objects.count()
    page.reload()
    drawn(page)
    page.get_by_role("button", name="Load agreed").click()
    activate(page, "agreed", "as agreed on Monday")
    assert Activation.objects.latest("id").preference_set.name == "agreed"
    assert PreferenceSet.objects.count() == saved_before


def test_a_loaded_set_survives_a_reload(page: Page) -> None:
    pick_nine(page)
    saved(page, "kept over")
    page.reload()
    drawn(page)
    expect(page.get_by_label("Name", exact=True)).to_have_value("kept over")
    saved_before = PreferenceSet.objects.count()
    activate(page, "kept over", "as agreed on Monday")
    assert PreferenceSet.objects.count() == saved_before


def test_a_changed_loaded_set_is_saved_as_its_child(page: Page) -> None:
    pick_nine(page)
    saved(page, "grown")
    page.get_by_role("button", name="Clear").click()
    page.reload()
    drawn(page)
    page.get_by_role("button", name="Load grown").click()
    changed(page)
    saved(page, "grown up")
    parent = PreferenceSet.objects.get(name="grown up").parent
    assert parent is not None
    assert parent.name == "grown"


def test_an_old_set_is_opened_by_its_address(
    page: Page, visitor: Visitor, pattern: FrontVersion
) -> None:
    pick_nine(page)
    saved(page, "long ago")
    page.get_by_role("button", name="Clear").click()
    preference_set = PreferenceSet.objects.get(name="long ago")
    page.evaluate("sessionStorage.clear()")
    page.route("**/api/v1/preference-sets/?limit=*", lambda route: route.fulfill(json=NONE))
    opened(visitor, pattern.front, f"&set={preference_set.id}")
    expect(page.get_by_role("button", name="Load long ago")).to_be_visible()
    expect_picks(page, *range(9))


def test_activation_requires_a_reason(page: Page) -> None:
    pick_nine(page)
    named(page, "unsaid")
    page.get_by_role("button", name="Activate…").click()
    expect(page.get_by_label("Reason for the audit log")).to_be_focused()
    expect(page.locator("#cal-error")).to_contain_text(
        "Enter a reason. It is stored in the audit log."
    )
    assert not PreferenceSet.objects.filter(name="unsaid").exists()


def test_a_viewer_may_pick_and_try_but_not_save(
    chromium: Browser, site: Site, pattern: FrontVersion, workers: None
) -> None:
    with closing(signed_in(chromium, site.url, name="looker", password=PASSWORD)) as context:
        looker = visitor_of(context, site)
        page = opened(looker, pattern.front)
        pick_nine(page)
        expect(page.locator("#cal-bars svg")).to_be_visible()
        expect(page.get_by_role("button", name="Save", exact=True)).to_be_disabled()
        expect(page.get_by_role("button", name="Activate…")).to_be_disabled()
        expect(page.locator("#main")).to_contain_text("Read-only role")
        expect(page.locator("#cal-preview-sub")).to_contain_text("need the role operator")
        expect(page.locator(".screen .star")).to_have_count(3, timeout=60_000)
        assert looker.errors == []
