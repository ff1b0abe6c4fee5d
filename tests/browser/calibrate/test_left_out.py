"""Objectives that a draft, an address or a saved set names and that cannot be shown."""

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from apps.placement.models import CurveObjective, Front
from tests.browser.calibrate.acts import (
    NEWS,
    accept,
    axis,
    bound,
    click,
    drawn,
    named,
    pick_nine,
    saved,
    screen,
)
from tests.browser.calibrate.prices import create_prices
from tests.browser.conftest import Visitor
from tests.dashboard import fronts


def prices(page: Page) -> Locator:
    """Return the number of the bound on prices."""
    return bound(page, "Energy cost", "at most")


@pytest.fixture
def bounded(priced: Page) -> Page:
    """Return the page of a front with a bound on prices, which no plot shows."""
    axis(priced, "Third").select_option("money")
    expect(screen(priced, "P-money")).to_be_visible()
    priced.get_by_label("Add a bound").select_option("money")
    expect(prices(priced)).to_be_visible()
    axis(priced, "Third").select_option("C")
    expect(priced).not_to_have_url(re.compile("axes="))
    return priced


def left_out(page: Page) -> Locator:
    return page.locator("#cal-left-out")


def weighed(page: Page) -> None:
    """Accept three placements, and wait for their weights."""
    for point in (0, 1, 2):
        accept(page, "P-D", point)
    expect(page.locator("#cal-bars")).to_be_visible()


def test_a_bound_on_a_deleted_objective_is_left_out_of_the_draft(bounded: Page) -> None:
    CurveObjective.objects.all().delete()
    bounded.reload()
    drawn(bounded)
    expect(left_out(bounded)).to_contain_text("The objective money does not exist")
    expect(bounded.locator("#cal-problem")).to_be_hidden()
    expect(bounded.locator("#cal-bounds")).to_be_empty()
    weighed(bounded)


def test_a_bound_on_a_deleted_objective_is_left_out_of_a_saved_set(bounded: Page) -> None:
    pick_nine(bounded)
    saved(bounded, "cheap once")
    bounded.get_by_role("button", name="Remove the bound on Energy cost").click()
    CurveObjective.objects.all().delete()
    bounded.reload()
    drawn(bounded)
    expect(left_out(bounded)).to_be_hidden()
    bounded.get_by_role("button", name="Load cheap once").click()
    expect(left_out(bounded)).to_contain_text("The objective money does not exist")
    expect(bounded.locator("#cal-bounds")).to_be_empty()
    expect(bounded.locator("#cal-bars")).to_be_visible()


def test_an_axis_of_a_deleted_objective_leaves_the_plots(priced: Page) -> None:
    axis(priced, "Third").select_option("money")
    expect(priced).to_have_url(re.compile("axes="))
    CurveObjective.objects.all().delete()
    priced.reload()
    drawn(priced)
    expect(left_out(priced)).to_contain_text("The objective money does not exist")
    expect(priced).not_to_have_url(re.compile("axes="))
    expect(axis(priced, "Third")).to_have_value("C")


def test_an_objective_deleted_while_the_page_is_open_leaves_the_next_version(
    visitor: Visitor, bounded: Page
) -> None:
    front = Front.objects.get(pk=bounded.locator("#cal-front").input_value())
    CurveObjective.objects.all().delete()
    fronts.version(front, fronts.pattern())
    bounded.evaluate(NEWS)
    expect(bounded.locator("#cal-version")).to_have_value("2")
    expect(left_out(bounded)).to_contain_text("The objective money does not exist")
    expect(bounded.locator("#cal-bounds")).to_be_empty()
    expect(axis(bounded, "Third").locator("[value=money]")).to_have_count(0)


def test_prices_without_a_rack_of_the_front_are_left_out(visitor: Visitor, bounded: Page) -> None:
    pick_nine(bounded)
    saved(bounded, "cheap elsewhere")
    CurveObjective.objects.all().delete()
    create_prices(visitor, {"elsewhere": [0.1, 0.3]})
    bounded.goto(f"{bounded.url}&axes=P,D,money")
    drawn(bounded)
    expect(left_out(bounded)).to_contain_text("This front cannot show Energy cost")
    expect(left_out(bounded)).to_contain_text("curve has no rack")
    expect(axis(bounded, "Third")).to_have_value("C")
    expect(bounded).not_to_have_url(re.compile("axes="))
    expect(bounded.locator("#cal-bounds")).to_be_empty()
    expect(bounded.locator("#cal-bars")).to_be_visible()
    left_out(bounded).get_by_role("button", name="Close").click()
    bounded.get_by_role("button", name="Load cheap elsewhere").click()
    expect(left_out(bounded)).to_contain_text("This front cannot show Energy cost")
    expect(bounded.locator("#cal-bounds")).to_be_empty()
    expect(bounded.locator("#cal-bars")).to_be_visible()
    expect(bounded.locator("#cal-problem")).to_be_hidden()


def test_weights_are_derived_again_without_an_objective_deleted_meanwhile(bounded: Page) -> None:
    CurveObjective.objects.all().delete()
    weighed(bounded)
    expect(left_out(bounded)).to_contain_text("The objective money does not exist")
    expect(bounded.locator("#cal-bounds")).to_be_empty()
    expect(axis(bounded, "Third").locator("[value=money]")).to_have_count(0)


def test_picks_on_a_plot_of_an_objective_deleted_meanwhile_are_left_out(priced: Page) -> None:
    axis(priced, "Third").select_option("money")
    expect(screen(priced, "P-money")).to_be_visible()
    click(priced, "P-money", 3)
    CurveObjective.objects.all().delete()
    for point in (0, 1, 2):
        accept(priced, "P-D", point)
    expect(left_out(priced)).to_contain_text("The objective money does not exist")
    expect(screen(priced, "P-C")).to_be_visible()
    expect(priced.locator("#cal-bars")).to_be_visible()


def test_a_set_is_saved_again_without_an_objective_deleted_meanwhile(bounded: Page) -> None:
    pick_nine(bounded)
    expect(bounded.locator("#cal-check-meta")).to_have_text(
        re.compile("optimal in|after"), timeout=60_000
    )
    expect(bounded.locator("#cal-preview-sub")).to_contain_text("Finished", timeout=60_000)
    CurveObjective.objects.all().delete()
    named(bounded, "cheap no more")
    save = bounded.get_by_role("button", name="Save", exact=True)
    save.click()
    expect(bounded.locator("#cal-error")).to_contain_text("An objective was deleted")
    expect(left_out(bounded)).to_contain_text("The objective money does not exist")
    save.click()
    expect(bounded.locator("#toasts")).to_contain_text("Saved as cheap no more.")


def test_a_saved_set_is_compared_without_its_deleted_objective(bounded: Page) -> None:
    pick_nine(bounded)
    saved(bounded, "cheap before")
    bounded.get_by_role("button", name="Remove the bound on Energy cost").click()
    saved(bounded, "unbounded")
    CurveObjective.objects.all().delete()
    for name in ("cheap before", "unbounded"):
        bounded.get_by_label(f"Compare {name}").check()
    bounded.get_by_role("button", name="Compare sets").click()
    result = bounded.locator("#cp-table tr", has_text="Solver result").locator("td")
    expect(result.nth(1)).to_contain_text("without money, which no longer exists", timeout=60_000)
    expect(result.nth(1)).to_contain_text("The optimum of these weights is")
    expect(result.nth(0)).to_contain_text("The optimum of these weights is", timeout=60_000)
    expect(result.nth(0)).not_to_contain_text("no longer exists")
