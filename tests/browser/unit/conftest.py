"""An empty page on which the scripts' modules are imported, without pages, users or a database."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page
from pytest_django.live_server_helper import LiveServer

Script = Callable[..., Any]
PAGE = "<!doctype html><html lang=en><title>Unit tests</title><body></body></html>"
FUNCTION = """async (argument) => {{
    const load = (path) => import(`/static/berth/js/${{path}}`);
    {script}
}}"""


@pytest.fixture(scope="package")
def empty_page(chromium: Browser) -> Iterator[Page]:
    """Return a page with the origin of a server that delivers the static files."""
    server = LiveServer("127.0.0.1")
    page = chromium.new_page()
    page.route("**/unit", lambda route: route.fulfill(body=PAGE, content_type="text/html"))
    page.goto(f"{server.url}/unit")
    yield page
    page.close()
    server.stop()


@pytest.fixture
def js(empty_page: Page) -> Script:
    """Return a function that runs a script and returns its result.

    In the script, ``load("format.js")`` imports a module and ``argument`` is the second argument.
    """
    empty_page.evaluate("() => { document.body.replaceChildren(); sessionStorage.clear(); }")

    def run(script: str, argument: Any = None) -> Any:
        return empty_page.evaluate(FUNCTION.format(script=script), argument)

    return run
