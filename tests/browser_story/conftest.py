"""A browser on a running cluster; a separate package because it uses another database."""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
import pytest
from django.core.cache import cache
from django.core.management import call_command
from django.db import connections
from playwright.sync_api import Browser, Page
from pytest_django.live_server_helper import LiveServer

from apps.accounts.core.roles import Role
from tests import factories
from tests.browser.chromium import CHROMIUM, signed_in
from tests.browser.conftest import chromium, db
from tests.browser.workers import working
from tests.browser_story import busy, plant

__all__ = ["chromium", "db"]
PASSWORD = "north-quay-11"  # noqa: S105 - of a user that exists only in tests


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark all tests here `browser`; skip them if chromium is missing."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.browser)
            if not CHROMIUM.exists():
                item.add_marker(pytest.mark.skip(reason=f"{CHROMIUM} is not installed"))


@pytest.fixture
def database(db: None) -> Iterator[None]:
    """A database of its own for each test."""
    cache.clear()
    yield
    connections.close_all()
    call_command("flush", interactive=False, verbosity=0)
    connections.close_all()


@pytest.fixture
def page(
    database: None,
    chromium: Browser,
    monkeypatch: pytest.MonkeyPatch,
    _awaited_tasks_run_inline: None,
) -> Iterator[Page]:
    """An operator's page on a cluster with ten running jobs; console errors fail the test."""
    factories.user("ops-admin", role=Role.OPERATOR, password=PASSWORD)
    plant.lay_out()
    with opened(chromium, monkeypatch) as page:
        yield page


@pytest.fixture
def busy_page(
    database: None,
    chromium: Browser,
    monkeypatch: pytest.MonkeyPatch,
    _awaited_tasks_run_inline: None,
) -> Iterator[Page]:
    """An operator's page on a cluster whose jobs end and arrive; console errors fail the test."""
    factories.user("ops-admin", role=Role.OPERATOR, password=PASSWORD)
    rng = np.random.default_rng(17)
    applications = busy.lay_out(rng)
    with opened(chromium, monkeypatch, busy.turnover(applications, rng)) as page:
        yield page


@contextmanager
def opened(
    chromium: Browser, monkeypatch: pytest.MonkeyPatch, *works: Callable[[], object]
) -> Iterator[Page]:
    """Open a page with an emulator and workers behind it."""
    errors: list[str] = []
    server = LiveServer("127.0.0.1")
    with (
        working(monkeypatch),
        plant.at_work(*works),
        closing(signed_in(chromium, server.url, name="ops-admin", password=PASSWORD)) as context,
    ):
        page = context.new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.set_default_timeout(30_000)
        page.goto(server.url)
        yield page
        page.close()
    server.stop()
    assert errors == []
