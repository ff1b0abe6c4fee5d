"""The plots: any three objectives as axes, bounds on them, and zoom."""

import re

import pytest
from playwright.sync_api import CDPSession, Page, expect

from apps.placement.core.problem.objectives import BUILT_IN, evaluate, registry
from apps.placement.models import CurveObjective
from apps.placement.selectors.objectives import curve_of
from tests.browser.calibrate.acts import (
    MODULES,
    axis,
    bound,
    click,
    drawn,
    opened,
    pick_nine,
    saved,
    screen,
    spot,
)
from tests.browser.calibrate.prices import PLACED, RUNNING
from tests.browser.conftest import Visitor
from tests.dashboard import fronts

DERIVE = "**/api/v1/preference-sets/derive/"
POINT = 4
RANGES = f"""async () => {{
    const {{ frames }} = await import("{MODULES}/frame.js");
    return Object.fromEntries(frames.flatMap((frame) => [
        [frame.x, [frame.ranges.x.low, frame.ranges.x.high]],
        [frame.y, [frame.ranges.y.low, frame.ranges.y.high]],
    ]));
}}"""
Ranges = dict[str, list[float]]


def ranges(page: Page) -> Ranges:
    """Return the range shown of each objective."""
    found: Ranges = page.evaluate(RANGES)
    return found


def span(page: Page, objective: str) -> float:
    low, high = ranges(page)[objective]
    return high - low


# ---- axes ----


def test_the_plots_show_any_three_objectives_of_the_registry(priced: Page) -> None:
    axis(priced, "Third").select_option("M")
    expect(screen(priced, "P-M")).to_contain_text("M migrations ↓")
    axis(priced, "First").select_option(label="Energy cost")
    expect(screen(priced, "D-money")).to_contain_text("Energy cost ↓")
    curve = curve_of(CurveObjective.objects.get(name="money")).objective()
    values = evaluate(RUNNING, PLACED[POINT], objectives=registry({"money": curve}))
    priced.mouse.move(*spot(priced, "M-money", POINT))
    card = screen(priced, "M-money").locator(".tip")
    expect(card).to_contain_text(f"{values.raw['M']:.0f} migrations")
    expect(card).to_contain_text(f"{values.raw['money']:.3g} EUR")
    expect(priced).to_have_url(re.compile(r"axes=money(%2C|,)D(%2C|,)M"))
    priced.reload()
    expect(screen(priced, "M-money")).to_contain_text("Energy cost ↓")


def test_an_axis_that_another_plot_shows_is_exchanged(page: Page) -> None:
    axis(page, "First").select_option("C")
    expect(axis(page, "Third")).to_have_value("P")
    expect(screen(page, "D-C")).to_contain_text("C crossing traffic ↓")
    click(page, "P-D", 3)  # drawn with D to the right, and counted as before
    expect(page.locator("#cal-count")).to_have_text("P-D 1, P-C 0, D-C 0; 3 each")


def test_a_pick_on_a_plot_of_another_objective_counts_for_the_weights(priced: Page) -> None:
    axis(priced, "Third").select_option("M")
    expect(screen(priced, "P-M")).to_be_visible()
    for point in (0, 1):
        click(priced, "P-M", point)
    with priced.expect_request(DERIVE) as sent:
        click(priced, "D-M", 2)
    assert (sent.value.post_data_json or {})["picks"]["P-M"] == [0, 1]
    expect(priced.locator("#cal-bars")).to_be_visible()
    expect(priced.locator("#cal-count")).to_have_text("P-D 0, P-C 0, D-C 0; 3 each")


def test_prices_without_a_rack_of_the_front_leave_the_axes(priced: Page) -> None:
    CurveObjective.objects.update(curve={"elsewhere": [0.1, 0.3]})
    axis(priced, "Third").select_option("money")
    expect(priced.locator("#cal-problem")).to_contain_text("no rack")
    expect(axis(priced, "Third")).to_have_value("C")


# ---- bounds ----


def test_a_bound_excludes_placements_on_every_plot_of_its_objective(page: Page) -> None:
    page.get_by_label("Add a bound").select_option("D")
    expect(page.locator(".screen .edge")).to_have_count(2)
    field = bound(page, "diversity", "at least")
    scale = float(BUILT_IN["D"].scale(fronts.workload()))
    field.fill(f"{0.7 * scale:.4g}")
    field.press("Enter")
    value = float(field.input_value()) / scale
    outside = int((fronts.pattern()[:, 1] < value - 1e-9).sum())
    expect(page.locator("#cal-outside-text")).to_have_text(f"outside your bounds: {outside} of 39")
    page.get_by_role("button", name="Undo", exact=True).click()
    page.get_by_role("button", name="Undo", exact=True).click()
    expect(page.locator(".screen .edge")).to_have_count(0)


def test_the_edge_of_a_bound_is_dragged(page: Page) -> None:
    page.get_by_label("Add a bound").select_option("P")
    field = bound(page, "power", "at most")
    before = field.input_value()
    box = screen(page, "P-D").locator("[data-edge=P]").bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x - 60, y, steps=4)
    page.mouse.up()
    expect(field).not_to_have_value(before)
    assert float(field.input_value()) < float(before)
    expect(page.locator(".screen .pick")).to_have_count(0)


def test_a_result_that_breaks_a_bound_names_the_best_placement_within(page: Page) -> None:
    page.get_by_label("Add a bound").select_option("C")
    field = bound(page, "crossing traffic", "at most")
    field.fill("-1")
    field.press("Enter")
    pick_nine(page)
    check = page.locator("#cal-check")
    expect(check).to_contain_text("The solver result breaks your bound", timeout=60_000)
    expect(check).to_contain_text("No placement of this front keeps all your bounds.")
    expect(page.locator("#cal-warnings")).to_contain_text("No placement of this front keeps")
    page.get_by_role("button", name="Remove the bound on crossing traffic").click()
    expect(check).not_to_contain_text("bound", timeout=60_000)


def test_bounds_are_saved_with_the_set(page: Page) -> None:
    page.get_by_label("Add a bound").select_option("P")
    pick_nine(page)
    saved(page, "within power")
    page.get_by_role("button", name="Remove the bound on power").click()
    expect(page.locator(".screen .edge")).to_have_count(0)
    page.get_by_role("button", name="Load within power").click()
    expect(page.locator(".screen .edge")).to_have_count(2)


def touch(session: CDPSession, kind: str, *points: tuple[float, float]) -> None:
    fingers = [{"x": x, "y": y, "id": k} for k, (x, y) in enumerate(points)]
    session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": fingers})


def test_a_cancelled_drag_leaves_the_bound_where_it_was(page: Page) -> None:
    page.get_by_label("Add a bound").select_option("P")
    field = bound(page, "power", "at most")
    before = field.input_value()
    edge = screen(page, "P-D").locator("[data-edge=P]")
    box = edge.bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    session = page.context.new_cdp_session(page)
    touch(session, "touchStart", (x, y))
    touch(session, "touchMove", (x - 30, y))
    touch(session, "touchMove", (x - 60, y))
    expect(field).not_to_have_value(before)
    touch(session, "touchCancel")
    expect(field).to_have_value(before)
    assert edge.bounding_box() == pytest.approx(box)
    page.get_by_role("button", name="Undo", exact=True).click()  # of the new bound
    expect(field).to_have_count(0)


# ---- zoom ----


def rectangle(page: Page) -> None:
    """Zoom to a rectangle on the plot P-D."""
    page.get_by_role("button", name="Zoom", exact=True).click()
    box = screen(page, "P-D").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 0.3 * box["width"], box["y"] + 0.3 * box["height"])
    page.mouse.down()
    page.mouse.move(box["x"] + 0.6 * box["width"], box["y"] + 0.6 * box["height"], steps=4)
    page.mouse.up()


def test_a_rectangle_zooms_the_plots_that_share_its_objectives(page: Page) -> None:
    before = ranges(page)
    rectangle(page)
    after = ranges(page)
    for o in "PD":
        assert before[o][0] < after[o][0] < after[o][1] < before[o][1]
    assert after["C"] == before["C"]
    expect(page.locator(".screen .pick")).to_have_count(0)
    expect(page).to_have_url(re.compile("zoom=P"))
    page.reload()
    drawn(page)
    assert ranges(page)["P"] == pytest.approx(after["P"], abs=1e-3)
    page.get_by_role("button", name="Whole front").click()
    assert ranges(page) == before
    expect(page).not_to_have_url(re.compile("zoom="))


def test_the_wheel_with_control_zooms_at_the_pointer(page: Page) -> None:
    before = span(page, "P")
    x, y = spot(page, "P-D", POINT)
    page.mouse.move(x, y)
    page.mouse.wheel(0, -100)
    assert span(page, "P") == before
    page.keyboard.down("Control")
    page.mouse.wheel(0, -200)
    page.keyboard.up("Control")
    expect(page.get_by_role("button", name="Whole front")).to_be_enabled()
    assert span(page, "P") < before
    assert spot(page, "P-D", POINT) == pytest.approx((x, y), abs=1.0)


def test_the_keyboard_zooms_pans_and_resets(page: Page) -> None:
    before = ranges(page)
    screen(page, "P-D").focus()
    page.keyboard.press("+")
    page.keyboard.press("+")
    zoomed = ranges(page)
    assert zoomed["P"][1] - zoomed["P"][0] < before["P"][1] - before["P"][0]
    page.keyboard.press("Shift+ArrowRight")
    moved = ranges(page)
    assert moved["P"][0] > zoomed["P"][0]
    assert moved["D"] == zoomed["D"]
    page.keyboard.press("0")
    assert ranges(page) == before


def test_two_fingers_zoom(page: Page) -> None:
    before = ranges(page)
    box = screen(page, "P-D").bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    session = page.context.new_cdp_session(page)
    touch(session, "touchStart", (x - 20.0, y), (x + 20.0, y))
    for distance in (30.0, 40.0, 60.0):
        touch(session, "touchMove", (x - distance, y), (x + distance, y))
    touch(session, "touchEnd")
    assert span(page, "P") == pytest.approx((before["P"][1] - before["P"][0]) / 3, rel=0.1)
    expect(page.locator(".screen .pick")).to_have_count(0)


def test_the_zoom_is_kept_over_new_versions_and_results(visitor: Visitor) -> None:
    front = fronts.front(by=visitor.site.world.operator)
    fronts.version(front, fronts.pattern())
    page = opened(visitor, front)
    rectangle(page)
    zoomed = ranges(page)
    fronts.version(front, fronts.pattern())
    page.evaluate(
        "name => document.dispatchEvent(new CustomEvent('berth:event', { detail: { name } }))",
        "front.version",
    )
    expect(page.locator("#cal-version")).to_have_value("2")
    assert ranges(page) == zoomed
    page.get_by_label("Rule").select_option("direct")
    expect(page.locator(".screen .star").first).to_be_attached(timeout=60_000)
    assert ranges(page) == zoomed


def test_placements_out_of_view_are_not_picked(page: Page) -> None:
    click(page, "P-D", 3)
    page.get_by_role("button", name="Picks", exact=True).click()
    expect(screen(page, "P-D").locator(".pick")).to_have_count(1)
    box = screen(page, "P-D").bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + 2, box["y"] + box["height"] - 60)  # left of the axis
    expect(page.locator("#cal-count")).to_have_text("P-D 1, P-C 0, D-C 0; 3 each")
