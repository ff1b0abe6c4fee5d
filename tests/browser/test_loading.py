"""What a page does until it can be used."""

import pytest
from playwright.sync_api import Page

from tests.browser.conftest import Visitor

REQUESTED = """() => performance.getEntriesByType("resource")
    .filter(({ name, responseEnd }) => name.includes("/js/") && responseEnd > 0)
    .map(({ name }) => name.split("/js/")[1])"""
ALL_REQUESTED = f"(names) => names.every((name) => ({REQUESTED})().includes(name))"
WHEN_NEEDED = {"terms.js", "calibrate/preview_answer.js"}  # loaded if there is something to show

PULSES = """() => document.getAnimations()
    .filter((one) => one.effect.getComputedTiming().endTime === Infinity)
    .map((one) => one.effect.getTiming().delay)"""


def test_placeholders_pulse_only_if_a_page_loads_slowly(visitor: Visitor) -> None:
    page = visitor.page
    page.route("**/figures/**", lambda route: None)
    page.goto(visitor.site.url)
    delays_ms = page.evaluate(PULSES)
    assert len(delays_ms) >= 5
    assert min(delays_ms) == 2000


@pytest.mark.parametrize("path", ["/", "/jobs/", "/calibrate/"])
def test_no_module_waits_for_the_one_that_imports_it(visitor: Visitor, path: str) -> None:
    loaded = modules_of(visitor.visit(path))
    page = visitor.page
    page.route("**/js/app.js", lambda route: None)
    page.goto(visitor.site.url + path, wait_until="commit")
    page.wait_for_function(ALL_REQUESTED, arg=sorted(loaded - {"app.js"}))
    assert loaded - modules_of(page) == {"app.js"}


def modules_of(page: Page) -> set[str]:
    """Return the modules that were loaded, but for those that only some content needs."""
    return {name for name in page.evaluate(f"({REQUESTED})()") if name not in WHEN_NEEDED}
