"""The command that takes the screenshots waits for what the pages show."""

import re
from typing import Any

import pytest
from playwright.sync_api import Page, Route

from tests.browser.conftest import Visitor
from tests.browser.screenshots import MissingError, await_placement


def answer(page: Page, what: str, *bodies: list[dict[str, Any]]) -> list[str]:
    """Answer the lists of a kind one after the other; returns the methods of the requests."""
    methods: list[str] = []
    left = list(bodies)

    def reply(route: Route) -> None:
        methods.append(route.request.method)
        if route.request.method == "POST":
            route.fulfill(status=202, json={})
        else:
            route.fulfill(json={"results": left.pop(0) if len(left) > 1 else left[0]})

    page.route(re.compile(rf"/api/v1/{what}/"), reply)
    return methods


FRONT = {"state": "running", "versions": [{"number": 1, "points": 9}]}
BEGUN = {"state": "running", "versions": [{"number": 1, "points": 1}]}
SMALL = {"state": "succeeded", "versions": [{"number": 1, "points": 1}]}
EMPTY_PAGE = "<!doctype html><title>Calibrate</title>"


@pytest.fixture(autouse=True)
def empty_calibrate(visitor: Visitor) -> None:
    """Show an empty Calibrate, which reads no list of its own."""
    visitor.page.route(
        "**/calibrate/", lambda route: route.fulfill(body=EMPTY_PAGE, content_type="text/html")
    )


def test_a_front_is_requested_and_awaited_with_a_plan(visitor: Visitor) -> None:
    fronts = answer(visitor.page, "fronts", [], [], [{"versions": []}], [BEGUN], [FRONT])
    answer(visitor.page, "plans", [], [{}])
    await_placement(visitor.page, visitor.site.url, timeout_s=60)
    assert fronts.count("POST") == 1


@pytest.mark.parametrize("front", [FRONT, SMALL], ids=["running", "succeeded"])
def test_an_existing_front_is_used(visitor: Visitor, front: dict[str, Any]) -> None:
    fronts = answer(visitor.page, "fronts", [front])
    answer(visitor.page, "plans", [{}])
    await_placement(visitor.page, visitor.site.url, timeout_s=60)
    assert "POST" not in fronts


def test_what_is_missing_is_named(visitor: Visitor) -> None:
    answer(visitor.page, "fronts", [FRONT])
    answer(visitor.page, "plans", [])
    with pytest.raises(MissingError, match="no plan after 0 s"):
        await_placement(visitor.page, visitor.site.url, timeout_s=0)
