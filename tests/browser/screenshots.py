"""Screenshots of a running instance, for ``docs/screenshots/``.

    python -m tests.browser.screenshots http://127.0.0.1:8000 --user admin --password ...

Each page is taken at 1440 x 900 and 390 x 844, light and dark, without scrolling. Waits until
there are a front, which it requests if there is none, and a plan, so that Calibrate and Plans
show them.
"""

import re
import sys
import time
from argparse import ArgumentParser
from collections.abc import Sequence
from itertools import cycle, islice
from pathlib import Path
from typing import Any, Final, Literal

from playwright.sync_api import BrowserContext, Page, sync_playwright

from tests.browser.chromium import ARGUMENTS, CHROMIUM, DESK, NOTHING_LOADS, PHONE, signed_in

REQUEST_FRONT: Final = """async () => {
    const { call } = await import("/static/berth/js/api.js");
    await call("POST", "/api/v1/fronts/", { source: "cluster", budget_seconds: 20 });
}"""
THEMES: Final[tuple[Literal["light", "dark"], ...]] = ("light", "dark")
SCREENS: Final = ("P-D", "P-C", "D-C")
MIN_PICKS: Final = 3  # on each screen
MIN_POINTS: Final = 3 * MIN_PICKS  # of a front whose search still runs
MAX_KEYS: Final = 40
PATHS = {
    "overview": "/",
    "jobs": "/jobs/?q=state:running",
    "queues": "/queues/",
    "submit": "/submit/",
    "map": "/map/",
    "applications": "/applications/",
    "calibrate": "/calibrate/",
    "plans": "/plans/",
    "classification": "/classification/",
    "decisions": "/decisions/",
    "policies": "/policies/",
    "shadows": "/shadows/",
    "sampling": "/sampling/",
    "lab": "/lab/",
    "pairs": "/pairs/",
    "system": "/system/",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Take all screenshots and return the exit code."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("--user", default="admin")
    parser.add_argument("--password", required=True)
    parser.add_argument("--out", type=Path, default=Path("docs/screenshots"))
    parser.add_argument("--wait", type=float, default=600.0, help="seconds for front and plan")
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        first = signed_in(browser, options.url, name=options.user, password=options.password)
        await_placement(first.new_page(), options.url, timeout_s=options.wait)
        first.close()
        for width, height in (DESK, PHONE):
            for theme in THEMES:
                context = signed_in(
                    browser,
                    options.url,
                    name=options.user,
                    password=options.password,
                    size=(width, height),
                    theme=theme,
                )
                _shoot(context, options.url, options.out, f"{width}-{theme}")
                context.close()
        browser.close()
    return 0


class MissingError(RuntimeError):
    """The instance has nothing to show on a page."""


def await_placement(
    page: Page, url: str, *, timeout_s: float, needed: Sequence[str] = ("front", "plan")
) -> None:
    """Wait until a front with placements and a plan exist; request a front if there is none.

    Parameters
    ----------
    needed : which of both to wait for

    Raises
    ------
    MissingError : names what does not exist after the time.
    """
    page.goto(f"{url}/calibrate/")
    if not _rows(page, f"{url}/api/v1/fronts/?limit=1"):
        page.evaluate(REQUEST_FRONT)
    deadline = time.monotonic() + timeout_s
    while missing := [name for name in _missing(page, url) if name in needed]:
        if time.monotonic() > deadline:
            raise MissingError(f"no {' and no '.join(missing)} after {timeout_s:.0f} s")
        page.wait_for_timeout(1_000)


def _missing(page: Page, url: str) -> list[str]:
    fronts = _rows(page, f"{url}/api/v1/fronts/?limit=20")
    has_front = any(_can_be_picked(front) for front in fronts)
    has_plan = bool(_rows(page, f"{url}/api/v1/plans/?limit=1"))
    return [name for name, exists in (("front", has_front), ("plan", has_plan)) if not exists]


def _can_be_picked(front: dict[str, Any]) -> bool:
    """Return whether a front has placements to choose from, or all that it will have."""
    if not front["versions"]:
        return False
    is_complete = front["state"] not in ("pending", "running")
    return bool(is_complete or front["versions"][-1]["points"] >= MIN_POINTS)


def _rows(page: Page, address: str) -> list[dict[str, Any]]:
    answer: dict[str, Any] = page.evaluate(
        "(address) => fetch(address).then((response) => response.json())", address
    )
    rows: list[dict[str, Any]] = answer["results"]
    return rows


def _shoot(context: BrowserContext, url: str, out: Path, suffix: str) -> None:
    page = context.new_page()
    for name, path in (PATHS | _first_rows(page, url)).items():
        page.goto(url + path)
        page.wait_for_function(NOTHING_LOADS, timeout=20_000)
        if name == "submit":
            _checked(page)
        if name == "calibrate":
            _picked(page)
        page.wait_for_timeout(800)
        page.screenshot(path=out / f"{name}-{suffix}.png")
    page.close()


def _checked(page: Page) -> None:
    """Check a job of the first known application, so that the page shows a result."""
    known = page.locator("#known option[data-kind=analytics]").first
    page.fill("#f-application", known.get_attribute("value") or "wordcount")
    page.click("#check-btn")
    page.wait_for_selector("#p-check .kv, #p-check .banner")
    page.wait_for_function(NOTHING_LOADS, timeout=20_000)


def _picked(page: Page) -> None:
    """Accept placements on each screen and wait for the preview."""
    if page.locator("[data-screen]").count():
        pick_on_screens(page)
        page.wait_for_selector(".ba, #cal-preview-stop:not([hidden])", timeout=20_000)
        page.wait_for_timeout(3_000)


def pick_on_screens(page: Page) -> None:
    """Accept three placements on each screen by keyboard."""
    # keys pressed before the placements are drawn are lost
    page.locator('[data-screen="D-C"] .ring').wait_for(state="attached")
    for name in SCREENS:
        accept_on(page, name, MIN_PICKS)


def accept_on(page: Page, screen: str, count: int) -> None:
    """Accept placements on one screen by keyboard until it has so many, if it can."""
    page.locator(f'[data-screen="{screen}"]').focus()
    for key in islice(cycle(("ArrowRight", "ArrowUp", "ArrowLeft", "ArrowDown")), MAX_KEYS):
        before = accepted_on(page, screen)
        if before >= count:
            return
        page.keyboard.press(key)
        page.keyboard.press("Enter")
        if accepted_on(page, screen) < before:  # no placement lies in that direction
            page.keyboard.press("Enter")


def accepted_on(page: Page, screen: str) -> int:
    """Return the number of placements accepted on a screen."""
    counts = dict(re.findall(r"(\w-\w) (\d+)", page.locator("#cal-count").text_content() or ""))
    return int(counts.get(screen, 0))


def _first_rows(page: Page, url: str) -> dict[str, str]:
    """Return the addresses of a running job with a decision and of the server it runs on."""
    rows = page.locator("#jobs-table tbody tr")
    page.goto(f"{url}/jobs/?q=state:running target:throughput_latency is:met")
    if not rows.count():
        page.goto(f"{url}/jobs/?q=state:running is:met")
    job = rows.nth(rows.count() // 2).get_attribute("data-url") or "/jobs/"
    page.goto(url + job)
    server = page.locator(".facts a.mono").first.get_attribute("href") or "/map/"
    return {
        "job": job,
        "performance": f"{job}?tab=performance",
        "server": server,
        "application": _application(page, url),
        "plan": _plan(page, url),
        **_linked(page, url, "comparison", "/lab/"),
        **_linked(page, url, "pair", "/pairs/"),
    }


def _plan(page: Page, url: str) -> str:
    """Return the address of the latest ended plan, or else of the latest plan."""
    for path in ("/plans/?state=done", "/plans/"):
        page.goto(url + path)
        link = page.locator("#plan-list td.name a")
        if link.count():
            return link.first.get_attribute("href") or "/plans/"
    return "/plans/"


def _linked(page: Page, url: str, name: str, path: str) -> dict[str, str]:
    """Return the address of the first object that a list links to; empty if it has none."""
    page.goto(url + path)
    link = page.locator(f'main table a[href^="{path}"]')
    return {name: link.first.get_attribute("href") or path} if link.count() else {}


def _application(page: Page, url: str) -> str:
    """Return the address of the application with most running jobs."""
    page.goto(f"{url}/applications/?sort=running&kind=latency_critical")
    link = page.locator("#apps-table td.name a")
    if not link.count():
        page.goto(f"{url}/applications/?sort=running")
    return link.first.get_attribute("href") or "/applications/"


if __name__ == "__main__":
    sys.exit(main())
