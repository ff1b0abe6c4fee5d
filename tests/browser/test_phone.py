"""What decides is on the screen of a phone."""

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Visitor


def right_edge(page: Page, selector: str) -> float:
    """The right edge of an element, in pixels from the left of the screen."""
    box = page.locator(selector).first.bounding_box()
    assert box is not None
    return box["x"] + box["width"]


@pytest.mark.parametrize(
    ("path", "selector"),
    [
        ("/jobs/?q=state:running", "#jobs-table th:has-text('÷ target')"),
        ("/system/", ".agents-table th:has-text('State')"),
    ],
    ids=["jobs", "agents"],
)
def test_the_deciding_column_is_on_the_screen_of_a_phone(
    phone_visitor: Visitor, path: str, selector: str
) -> None:
    page = phone_visitor.visit(path)
    assert right_edge(page, selector) <= 390.0


def test_the_state_of_an_agent_that_decided_yesterday_is_on_the_screen(
    phone_visitor: Visitor,
) -> None:
    page = phone_visitor.visit("/system/")
    last = page.locator(".agents-table tbody td:nth-child(9)").first
    last.evaluate("(cell) => { cell.textContent = '2026-11-29 23:58:12 UTC'; }")
    assert right_edge(page, ".agents-table th:has-text('State')") <= 390.0


def test_a_phone_can_search(phone_visitor: Visitor) -> None:
    page = phone_visitor.visit("/")
    expect(page.locator("#q")).to_be_hidden()
    page.get_by_role("button", name="Search").click()
    page.keyboard.type("srv-0042")
    page.keyboard.press("Enter")
    page.wait_for_url("**/servers/srv-0042/")
    assert phone_visitor.serious_findings() == []
