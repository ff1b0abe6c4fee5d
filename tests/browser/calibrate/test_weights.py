"""Weights from picks, reference points, sliders and answers, and the solver's result."""

import re

from playwright.sync_api import Page, expect

from tests.browser.calibrate.acts import click, expect_picks, opened, pick_nine
from tests.browser.conftest import Visitor
from tests.dashboard import fronts


def test_nine_picks_give_the_weights_of_the_paper(page: Page) -> None:
    pick_nine(page)
    expect_picks(page, *range(9))
    expect(page.locator("#cal-count")).to_have_text("P-D 3, P-C 3, D-C 3")
    bars = page.locator("#cal-bars")
    expect(bars).to_have_attribute("aria-label", re.compile(r"diversity 1\.00"))
    expect(bars).to_have_attribute("aria-label", re.compile(r"crossing traffic 0\.36"))
    expect(bars).to_have_attribute("aria-label", re.compile(r"power 0\.22"))
    cells = page.locator("#cal-picks .sdrow td")
    for column, objective in enumerate("PDC", start=1):
        expect(cells.nth(column)).to_have_text(f"{fronts.SPREAD[objective]:.3f}")
    expect(page.locator("#cal-say")).to_have_text(
        "Your picks agree on diversity (sd 0.020) and differ on power (sd 0.091),"
        " so diversity counts 4.5 × power."
    )


def test_before_three_picks_it_says_how_many_are_missing(page: Page) -> None:
    click(page, "P-D", 3)
    expect(page.locator("#cal-say")).to_contain_text("Accept two more placements")
    expect(page.get_by_role("button", name="Save", exact=True)).to_be_disabled()


def test_the_star_is_drawn_with_a_line_to_the_picks(page: Page) -> None:
    pick_nine(page)
    expect(page.locator(".screen .star")).to_have_count(3, timeout=60_000)
    expect(page.locator(".screen line.st.thin")).to_have_count(3)
    expect(page.locator("#cal-check li b").first).to_contain_text("The solver")
    expect(page.locator("#cal-check-meta")).to_contain_text(re.compile("proven optimal|gap"))


def test_weights_may_be_given_by_sliders(page: Page) -> None:
    page.get_by_label("Rule").select_option("direct")
    page.get_by_label("P power").fill("0.5")
    expect(page.locator("#cal-bars")).to_have_attribute("aria-label", re.compile("power 0.50"))
    page.keyboard.press("Control+z")
    expect(page.locator("#cal-bars")).to_have_attribute("aria-label", re.compile("power 1.00"))


def test_a_wished_for_point_gives_weights(page: Page) -> None:
    page.get_by_label("Rule").select_option("reference")
    expect(page.locator("#cal-say")).to_contain_text("You want")
    expect(page.locator("#cal-inputs output")).to_have_count(3)
    bars = page.locator("#cal-bars")
    expect(bars).to_have_attribute("aria-label", re.compile("power"))
    before = bars.get_attribute("aria-label") or ""
    page.get_by_label("P power").press("Home")  # as little power as any placement
    expect(bars).not_to_have_attribute("aria-label", before)


def test_answers_to_which_of_these_two_narrow_the_weights(page: Page) -> None:
    page.get_by_label("Rule").select_option("pairs")
    footer = page.locator(".duel-foot span")
    left = re.compile(r"(\d+) placements")
    expect(footer).to_contain_text(left)
    before = footer.inner_text()
    page.locator(".duel button").first.click()
    expect(footer).to_contain_text(re.compile(r"1 answer.*\d+ placements"))
    assert int(left.search(footer.inner_text())[1]) < int(left.search(before)[1])  # type: ignore[index]
    expect(page.locator("#cal-bars svg")).to_be_visible()


def leave_all_open(page: Page) -> None:
    """Answer "cannot tell" to every question."""
    footer = page.locator(".duel-foot span")
    while not (before := footer.inner_text()).startswith("Finished"):
        page.get_by_role("button", name="No preference").click()
        expect(footer).not_to_have_text(before)


def test_when_no_question_is_left_it_says_that_it_has_finished(visitor: Visitor) -> None:
    front = fronts.version(fronts.front(by=visitor.site.world.operator), fronts.surface(4)).front
    page = opened(visitor, front)
    page.get_by_label("Rule").select_option("pairs")
    leave_all_open(page)
    expect(page.locator(".duel-foot span")).to_have_text(
        re.compile(r"Finished after \d+ answers: no further pair .* \d placements")
    )


def test_two_picks_show_what_lies_between_them(page: Page) -> None:
    click(page, "P-D", 0)
    click(page, "P-D", 8)
    page.get_by_label("Choose pick 1").check()
    page.get_by_label("Choose pick 2").check()
    page.get_by_role("button", name="Between these two").click()
    expect(page.locator("#cal-between .meta")).to_contain_text("2 placements between them")


def test_a_front_of_two_placements_says_that_it_is_too_small(
    visitor: Visitor, workers: None
) -> None:
    front = fronts.front(by=visitor.site.world.operator)
    fronts.version(front, fronts.surface(2))
    page = opened(visitor, front)
    expect(page.locator("#cal-say")).to_contain_text("This front has only 2 placements")
    page.get_by_label("Rule").select_option("direct")
    expect(page.locator("#cal-bars")).to_be_visible()
