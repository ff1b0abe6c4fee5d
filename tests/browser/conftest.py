"""One populated cluster, one server, one Debian chromium for all tests of this directory."""

import os
import time
import warnings
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from django.core.cache import cache
from django.core.management import call_command
from django.db import connection, connections
from playwright.sync_api import Browser, BrowserContext, Page, Request, expect, sync_playwright
from pytest_django.live_server_helper import LiveServer
from pytest_django.plugin import DjangoDbBlocker

from tests.browser import world
from tests.browser.chromium import ARGUMENTS, CHROMIUM, NOTHING_LOADS, PHONE, signed_in
from tests.browser.world import PASSWORD, World

TIMEOUT_MS = 12_000  # to see what a page shows; a loaded machine is slow
LOADED_S = 20.0
HAS_NO_WORK = "() => new Promise((resolve) => requestIdleCallback(() => resolve(true)))"
AT_REST = """() => {
    const ends = (one) => one.effect.getComputedTiming().endTime !== Infinity;
    document.getAnimations().filter(ends).forEach((one) => one.finish());
}"""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark all tests here `browser`; skip them with a warning if chromium is missing."""
    here = Path(__file__).parent
    browser_tests = [item for item in items if here in item.path.parents]
    for item in browser_tests:
        item.add_marker(pytest.mark.browser)
        if not CHROMIUM.exists():
            item.add_marker(pytest.mark.skip(reason=f"{CHROMIUM} is not installed"))
    if browser_tests and not CHROMIUM.exists():
        warnings.warn(
            pytest.PytestWarning(f"BROWSER TESTS SKIPPED: {CHROMIUM} is not installed"),
            stacklevel=1,
        )


@dataclass(frozen=True, slots=True)
class Site:
    """Address of the test server and the objects in its database."""

    url: str
    world: World


@pytest.fixture(scope="package")
def db(chromium: Browser, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """Populate the database once for this directory instead of rolling back after each test.

    It has the name of pytest-django's own, which sets up the databases of tests that ask for it.
    The browser starts first and ends last: inside playwright's event loop Django keeps other
    connections than outside.
    """
    # Playwright keeps an event loop in this thread, in which Django would refuse to query.
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"
    with django_db_blocker.unblock():
        name = str(connection.settings_dict["NAME"])
        assert name.startswith("test_"), f"{name} is not a test database"
        yield
        connections.close_all()
        call_command("flush", interactive=False, verbosity=0)
        connections.close_all()
    os.environ.pop("DJANGO_ALLOW_ASYNC_UNSAFE", None)


@pytest.fixture(scope="package")
def site(db: None) -> Iterator[Site]:
    """Return a running server on the populated database."""
    built = world.build()
    server = LiveServer("127.0.0.1")
    yield Site(server.url, built)
    server.stop()


@pytest.fixture(scope="package")
def chromium(django_db_setup: None) -> Iterator[Browser]:
    """Return the browser.

    The test database comes first: Django refuses to create it inside playwright's event loop.
    """
    expect.set_options(timeout=TIMEOUT_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


@dataclass
class Visitor:
    """A signed-in user with a browser page.

    Attributes
    ----------
    errors : console and page errors since the last visit
    requests : those without an answer yet, but for event streams
    """

    page: Page
    site: Site
    errors: list[str] = field(default_factory=list)
    requests: set[Request] = field(default_factory=set)

    def visit(self, path: str) -> Page:
        """Open a page and wait until its charts are drawn."""
        self.errors.clear()
        cache.clear()
        self.page.goto(self.site.url + path)
        self.wait()
        return self.page

    def wait(self) -> None:
        """Wait until the page is idle and all visible charts are loaded.

        It is idle if three times in turn its scripts had nothing to do and no request was open:
        sooner than "networkidle", which is half a second without a request.
        """
        until, quiet = time.monotonic() + LOADED_S, 0
        while quiet < 3:
            assert time.monotonic() < until, [request.url for request in self.requests]
            self.page.wait_for_timeout(10)
            self.page.evaluate(HAS_NO_WORK)
            quiet = 0 if self.requests else quiet + 1
        self.page.wait_for_function(NOTHING_LOADS, timeout=1_000 * LOADED_S)

    def note_request(self, request: Request) -> None:
        """Note a request, unless its answer never ends."""
        if request.resource_type != "eventsource":
            self.requests.add(request)

    def note_answer(self, request: Request) -> None:
        """Note the answer, or the failure, of a request."""
        self.requests.discard(request)

    def serious_findings(self) -> list[str]:
        """Return serious and critical axe findings after all animations have ended."""
        self.page.evaluate(AT_REST)
        violations = Axe().run(self.page).response["violations"]
        return [
            f"{v['id']}: {v['help']} {[n['target'] for n in v['nodes']][:4]}"
            for v in violations
            if v["impact"] in {"serious", "critical"}
        ]


def visitor_of(context: BrowserContext, site: Site) -> Visitor:
    """Return a visitor with its own page that collects errors."""
    visitor = Visitor(context.new_page(), site)
    visitor.page.set_default_timeout(TIMEOUT_MS)
    visitor.page.on(
        "console",
        lambda message: visitor.errors.append(message.text) if message.type == "error" else None,
    )
    visitor.page.on("pageerror", lambda error: visitor.errors.append(str(error)))
    visitor.page.on("request", visitor.note_request)
    visitor.page.on("requestfinished", visitor.note_answer)
    visitor.page.on("requestfailed", visitor.note_answer)
    return visitor


def signed_in_operator(browser: Browser, site: Site, **options: Any) -> BrowserContext:
    """Return a browser context of an operator; ``options`` as in `chromium.signed_in`."""
    return signed_in(browser, site.url, name="ops-admin", password=PASSWORD, **options)


@pytest.fixture(scope="package")
def desk(chromium: Browser, site: Site) -> Iterator[BrowserContext]:
    """Return an operator's desktop browser, light."""
    with closing(signed_in_operator(chromium, site)) as context:
        yield context


@pytest.fixture(scope="package")
def night(chromium: Browser, site: Site) -> Iterator[BrowserContext]:
    """Return an operator's desktop browser, dark."""
    with closing(signed_in_operator(chromium, site, theme="dark")) as context:
        yield context


@pytest.fixture(scope="package")
def phone(chromium: Browser, site: Site) -> Iterator[BrowserContext]:
    """Return an operator's phone."""
    with closing(signed_in_operator(chromium, site, size=PHONE)) as context:
        yield context


@pytest.fixture
def visitor(desk: BrowserContext, site: Site) -> Iterator[Visitor]:
    """Return an operator at a desk."""
    visiting = visitor_of(desk, site)
    yield visiting
    visiting.page.close()


@pytest.fixture
def night_visitor(night: BrowserContext, site: Site) -> Iterator[Visitor]:
    """Return an operator at a desk in the dark."""
    visiting = visitor_of(night, site)
    yield visiting
    visiting.page.close()


@pytest.fixture
def phone_visitor(phone: BrowserContext, site: Site) -> Iterator[Visitor]:
    """Return an operator with a phone."""
    visiting = visitor_of(phone, site)
    yield visiting
    visiting.page.close()
