"""Picking on three linked plots by pointer, keyboard and touch, and undo."""

import math
import re

import pytest
from playwright.sync_api import Page, expect

from apps.placement.models import FrontVersion
from tests.browser.calibrate.acts import (
    SCREENS,
    WIDENED,
    ZOOMED,
    aim,
    click,
    drawn,
    expect_picks,
    opened,
    screen,
    spot,
)
from tests.browser.conftest import Visitor
from tests.browser.screenshots import pick_on_screens
from tests.dashboard import fronts


def test_the_hovered_placement_is_marked_on_all_plots(page: Page) -> None:
    page.mouse.move(*spot(page, "P-D", 4))
    expect(page.locator(".screen .ring")).to_have_count(3)
    expect(page.locator(".screen .ring[visibility=visible]")).to_have_count(3)
    expect(screen(page, "P-D").locator(".tip")).to_contain_text("Placement 4")
    expect(screen(page, "P-C").locator(".tip")).to_be_hidden()


def test_the_card_shows_raw_values(page: Page) -> None:
    page.mouse.move(*spot(page, "P-C", 2))
    card = screen(page, "P-C").locator(".tip")
    expect(card).to_contain_text("servers on")
    expect(card).to_contain_text(re.compile(r"[\d.]+ kW · [\d.]+ points · \d+ containers"))
    expect(card).to_contain_text("protected")


def test_a_pick_is_numbered_on_every_screen_and_counts_for_its_own(page: Page) -> None:
    click(page, "P-D", 3)
    expect(page.locator(".screen .pick")).to_have_count(3)
    expect(screen(page, "P-D").locator(".pick")).not_to_have_class(re.compile("linked"))
    expect(screen(page, "D-C").locator(".pick")).to_have_class(re.compile("linked"))
    expect(page.locator("#cal-count")).to_have_text("P-D 1, P-C 0, D-C 0; 3 each")
    expect_picks(page, 3)


def test_a_click_picks_what_was_aimed_at_when_a_result_moves_the_axes(page: Page) -> None:
    aim(page, "D-C", 5)
    before = spot(page, "D-C", 5)
    page.evaluate(WIDENED, 0.2)
    assert math.dist(before, spot(page, "D-C", 5)) > 20
    page.mouse.down()
    page.mouse.up()
    expect_picks(page, 5)


def test_a_click_picks_nothing_that_a_zoom_has_moved_out_of_view(page: Page) -> None:
    aim(page, "D-C", 5)
    page.evaluate(ZOOMED)
    page.mouse.down()
    page.mouse.up()
    expect_picks(page)


def test_the_same_placement_may_count_on_two_screens(page: Page) -> None:
    click(page, "P-D", 3)
    click(page, "P-C", 3)
    expect(page.locator("#cal-count")).to_have_text("P-D 1, P-C 1, D-C 0; 3 each")
    click(page, "P-D", 3)
    expect(page.locator("#cal-count")).to_have_text("P-D 0, P-C 1, D-C 0; 3 each")
    expect_picks(page, 3)


def test_a_click_with_alt_rejects(page: Page) -> None:
    click(page, "P-D", 3)
    page.keyboard.down("Alt")
    click(page, "P-D", 3)
    page.keyboard.up("Alt")
    expect(page.locator(".screen .pick")).to_have_count(0)
    expect(page.locator(".screen .sbad")).to_have_count(3)


def test_the_range_of_the_picks_is_shaded(page: Page) -> None:
    click(page, "P-D", 3)
    expect(page.locator(".screen .box")).to_have_count(0)
    click(page, "P-D", 5)
    expect(page.locator(".screen .box")).to_have_count(3)
    expect(page.locator("#cal-title")).to_have_text(
        "Two picks agree on diversity and differ on power"
    )


def test_a_pick_is_removed_from_the_list(page: Page) -> None:
    click(page, "P-D", 3)
    click(page, "P-D", 5)
    page.get_by_role("button", name="Remove pick 1").click()
    expect_picks(page, 5)


def test_anchors_are_labelled_on_every_screen(visitor: Visitor) -> None:
    anchors = [
        {"name": name, "raw": dict.fromkeys("PDC", 1.0), "normalised": dict.fromkeys("PDC", value)}
        for name, value in (("now", 0.5), ("SlotRR", 0.6), ("NodeRR", 0.7))
    ]
    front = fronts.front(by=visitor.site.world.operator, anchors=anchors)
    fronts.version(front, fronts.pattern())
    page = opened(visitor, front)
    for name in SCREENS:
        labels = screen(page, name).locator("text.anchor")
        expect(labels).to_have_text([re.compile(f"^{a['name']}") for a in anchors])


def test_labels_of_anchors_that_lie_together_do_not_cover_each_other(visitor: Visitor) -> None:
    anchors = [
        {"name": name, "raw": dict.fromkeys("PDC", 1.0), "normalised": dict.fromkeys("PDC", value)}
        for name, value in (("now", 0.5), ("SlotRR", 0.505), ("NodeRR", 0.502))
    ]
    front = fronts.front(by=visitor.site.world.operator, anchors=anchors)
    fronts.version(front, fronts.pattern())
    page = opened(visitor, front)
    expect(screen(page, "P-D").locator("text.anchor")).to_have_count(3)
    covered = screen(page, "P-D").evaluate(
        """host => {
            const boxes = [...host.querySelectorAll('text.anchor')]
                .map((label) => label.getBoundingClientRect());
            const overlap = (a, b) => a.left < b.right && b.left < a.right
                && a.top + 2 < b.bottom - 2 && b.top + 2 < a.bottom - 2;
            return boxes.flatMap((a, k) => boxes.slice(k + 1).filter((b) => overlap(a, b))).length;
        }"""
    )
    assert covered == 0


@pytest.mark.parametrize("width", [1440, 390])
def test_the_card_of_a_placement_does_not_cover_it(page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    screen(page, "P-C").scroll_into_view_if_needed()
    x, y = spot(page, "P-C", 4)
    page.mouse.move(x, y)
    tip = screen(page, "P-C").locator(".tip")
    expect(tip).to_be_visible()
    card = tip.bounding_box()
    assert card is not None
    is_beside = not card["x"] <= x <= card["x"] + card["width"]
    is_above_or_below = not card["y"] <= y <= card["y"] + card["height"]
    assert is_beside or is_above_or_below


def test_rejected_placements_are_listed_and_can_be_restored(page: Page) -> None:
    expect(page.locator("#cal-rejected")).to_be_hidden()
    page.get_by_role("button", name="Reject", exact=True).click()
    click(page, "P-D", 3)
    expect(page.locator(".screen .sbad")).to_have_count(3)
    expect(page.locator("#cal-rejected")).to_contain_text(
        "Rejected placements do not change the weights."
    )
    page.get_by_role("button", name="No longer reject placement 3").click()
    expect(page.locator(".screen .sbad")).to_have_count(0)
    expect(page.locator("#cal-rejected")).to_be_hidden()


@pytest.mark.parametrize(
    ("place", "word", "meaning"),
    [
        ("#cal-search", "hypervolume", "The share of the objective space that a front dominates"),
        (".key", "baselines", "NodeRR gives each container to the next server"),
        ("#cal-picks-wrap", "D ↑", "higher is better"),
    ],
    ids=["search", "key", "picks"],
)
def test_the_words_of_the_page_explain_themselves(
    page: Page, place: str, word: str, meaning: str
) -> None:
    page.locator(place).get_by_text(word, exact=True).hover()
    expect(page.locator(".term-tip")).to_contain_text(meaning)


def test_the_worst_hit_job_is_named(visitor: Visitor) -> None:
    front = fronts.front(by=visitor.site.world.operator)
    running = visitor.site.world.running
    fronts.version(front, fronts.pattern(), worst=[str(running.id)])
    page = opened(visitor, front)
    page.mouse.move(*spot(page, "P-D", 4))
    expect(screen(page, "P-D").locator(".tip")).to_contain_text(f"worst: {running.name}")


def test_undo_and_redo_picks(page: Page) -> None:
    click(page, "P-D", 3)
    click(page, "P-C", 5)
    page.keyboard.press("Control+z")
    expect_picks(page, 3)
    page.keyboard.press("Control+Shift+z")
    expect_picks(page, 3, 5)
    page.get_by_role("button", name="Clear").click()
    page.get_by_role("button", name="Undo").click()
    expect_picks(page, 3, 5)


def test_history_is_kept_in_the_tab(page: Page) -> None:
    click(page, "P-D", 3)
    click(page, "P-C", 5)
    page.reload()
    drawn(page)
    expect_picks(page, 3, 5)
    page.keyboard.press("Control+z")
    expect_picks(page, 3)


def test_arrow_keys_move_over_placements_and_announce_them(page: Page) -> None:
    click(page, "P-D", 5)
    screen(page, "D-C").focus()
    page.mouse.move(5, 5)
    page.keyboard.press("ArrowRight")
    expect(page.locator("#cal-said")).to_contain_text("Placement 6: diversity", timeout=5_000)
    expect(screen(page, "D-C").locator(".tip")).to_contain_text("Placement 6")


def test_enter_accepts_and_r_rejects(page: Page) -> None:
    click(page, "P-D", 5)
    screen(page, "D-C").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    expect_picks(page, 5, 6)
    page.keyboard.press("r")
    expect_picks(page, 5)
    expect(screen(page, "D-C").locator(".sbad")).to_have_count(1)


def test_placements_are_picked_with_a_finger(
    phone_visitor: Visitor, pattern: FrontVersion, workers: None
) -> None:
    page = opened(phone_visitor, pattern.front)
    screen(page, "P-C").scroll_into_view_if_needed()
    page.touchscreen.tap(*spot(page, "P-C", 4))
    expect_picks(page, 4)
    assert page.evaluate("document.documentElement.scrollWidth") == 390


@pytest.mark.parametrize("points", [3, 5])
def test_a_few_placements_are_enough_to_accept_three_on_each_plot(
    visitor: Visitor, workers: None, points: int
) -> None:
    front = fronts.front(by=visitor.site.world.operator)
    fronts.version(front, fronts.surface(points))
    page = opened(visitor, front)
    pick_on_screens(page)
    expect(page.locator("#cal-count")).to_contain_text("P-D 3, P-C 3, D-C 3")
