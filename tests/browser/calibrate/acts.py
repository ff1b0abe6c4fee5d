"""Actions on the Calibrate page, and readings from it."""

import re

from playwright.sync_api import Locator, Page, expect

from apps.placement.models import Front
from tests.browser.conftest import Visitor

MODULES = "/static/berth/js/calibrate"
SCREENS = ("P-D", "P-C", "D-C")
# Where a placement is drawn on a screen, in pixels of the window.
SPOT = f"""async ([screen, point]) => {{
    const {{ frames }} = await import("{MODULES}/frame.js");
    const {{ model }} = await import("{MODULES}/model.js");
    const frame = frames.find((one) => one.name === screen);
    const box = frame.svg.getBoundingClientRect();
    const i = model.points.at.get(point);
    return [box.left + frame.px[i], box.top + frame.py[i]];
}}"""
PRESSED = f"""async ([screen, point]) => {{
    const {{ frames }} = await import("{MODULES}/frame.js");
    const {{ model }} = await import("{MODULES}/model.js");
    const frame = frames.find((one) => one.name === screen);
    const box = frame.svg.getBoundingClientRect();
    const i = model.points.at.get(point);
    const [clientX, clientY] = [box.left + frame.px[i], box.top + frame.py[i]];
    for (const kind of ["pointermove", "pointerdown", "pointerup"])
        frame.svg.dispatchEvent(new PointerEvent(kind, {{ clientX, clientY, bubbles: true }}));
}}"""
HOVERED = f"""async (point) => (await import("{MODULES}/model.js")).model.hover === point"""
LAID_OUT = f"""async ([expected]) => {{
    const {{ frames }} = await import("{MODULES}/frame.js");
    if (innerWidth !== expected) return false;
    return frames.every(({{ host, width }}) => width === host.clientWidth);
}}"""
# Widens the axes, as a finished plan does whose effect lies far from the front.
WIDENED = f"""async (share) => {{
    const {{ model, publish }} = await import("{MODULES}/model.js");
    const [before, after] = [1, share].map((part) =>
        Object.fromEntries(Object.entries(model.points.extent).map(([o, [low, high]]) =>
            [o, low - (high - low) * (1 - part)])));
    model.trail = [{{ name: "plan", verdict: "kept", before, after }}];
    publish("trail");
}}"""
# Zooms to where no placement is.
ZOOMED = f"""async () => {{
    const {{ model, publish }} = await import("{MODULES}/model.js");
    const high = model.points.extent.D[1];
    model.zoom = {{ D: [high + 1, high + 2] }};
    publish("zoom");
}}"""
NEWS = """document.dispatchEvent(
    new CustomEvent("berth:event", { detail: { name: "front.updated" } }))"""
CLICKED = {"P-D": (0, 1, 2), "P-C": (3, 4, 5)}


def opened(visitor: Visitor, front: Front, query: str = "") -> Page:
    page = visitor.visit(f"/calibrate/?front={front.id}{query}")
    drawn(page)
    return page


def drawn(page: Page) -> None:
    page.locator('[data-screen="D-C"] .ring').wait_for(state="attached")


def screen(page: Page, name: str) -> Locator:
    return page.locator(f'[data-screen="{name}"]')


def spot(page: Page, name: str, point: int) -> tuple[float, float]:
    x, y = page.evaluate(SPOT, [name, point])
    return x, y


def click(page: Page, name: str, point: int) -> None:
    """Click on a placement, once the pointer is over it."""
    aim(page, name, point)
    page.mouse.down()
    page.mouse.up()


def aim(page: Page, name: str, point: int) -> None:
    """Move the pointer to a placement, again if a solver result moves the axes before.

    The plots keep what the pointer chose while it rests.
    """
    for _ in range(20):
        page.mouse.move(*spot(page, name, point))
        if page.evaluate(HOVERED, point):
            return
    raise AssertionError(f"the pointer did not reach placement {point} on {name}")


def resize(page: Page, width: int) -> None:
    """Change the width of the window, and wait until the plots are laid out for it."""
    page.set_viewport_size({"width": width, "height": 900})
    page.wait_for_function(LAID_OUT, arg=[width])


def accept(page: Page, name: str, point: int) -> None:
    """Accept a placement by the events of a click, all before anything can move the axes."""
    page.evaluate(PRESSED, [name, point])
    expect_accepted(page, point)


def expect_accepted(page: Page, placement: int) -> None:
    """Wait until a placement is accepted on one screen."""
    title = f'[title^="Placement {placement},"]'
    expect(page.locator(f"#cal-picks .pick-label{title}")).to_have_count(1)


def axis(page: Page, which: str) -> Locator:
    return page.get_by_label(f"{which} axis")


def bound(page: Page, objective: str, side: str) -> Locator:
    return page.get_by_label(re.compile(f"Keep {objective} {side}"))


def pick_labels(page: Page) -> Locator:
    """Return the labels of the accepted placements, in order."""
    return page.locator("#cal-picks .pick-label")


def expect_picks(page: Page, *placements: int) -> None:
    """Wait until these placements are accepted, in this order, and no others."""
    labels = pick_labels(page)
    expect(labels).to_have_count(len(placements))
    for i, placement in enumerate(placements):
        expect(labels.nth(i)).to_have_attribute("title", re.compile(f"^Placement {placement},"))


def pick_nine(page: Page) -> None:
    """Accept three placements on each plot: six by click, three by keyboard."""
    for name, points in CLICKED.items():
        for point in points:
            accept(page, name, point)
    page.mouse.move(5, 5)
    screen(page, "D-C").focus()
    for _ in range(3):
        page.keyboard.press("ArrowRight")
        page.keyboard.press("Enter")


def accept_warnings(page: Page) -> list[str]:
    """Accept every warning of the activation dialog; returns them."""
    expect(page.locator("#cal-activate-dialog")).to_be_visible()
    boxes = page.locator("#ac-what .accepts input")
    labels = [boxes.nth(i).get_attribute("aria-label") or "" for i in range(boxes.count())]
    for label in labels:
        page.get_by_label(label, exact=True).check()
    return [label.removeprefix("Accept: ") for label in labels]


def changed(page: Page) -> None:
    """Replace the ninth placement."""
    page.get_by_role("button", name="Remove pick 9").click()
    accept(page, "D-C", 9)


def named(page: Page, name: str) -> None:
    """Name the set of picks."""
    page.get_by_label("Name", exact=True).fill(name)


def saved(page: Page, name: str) -> None:
    """Save the set of picks."""
    named(page, name)
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator("#toasts")).to_contain_text(f"Saved as {name}.")
