"""A browser on a running cluster; a separate package because it uses another database."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from django.core.cache import cache
from playwright.sync_api import Browser, Page
from pytest_django.live_server_helper import LiveServer

from apps.accounts.core.roles import Role
from tests import factories
from tests.browser.chromium import CHROMIUM, signed_in
from tests.browser.conftest import chromium, db
from tests.browser.workers import working
from tests.browser_story import plant

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
def page(
    db: None,
    chromium: Browser,
    monkeypatch: pytest.MonkeyPatch,
    _awaited_tasks_run_inline: None,
) -> Iterator[Page]:
    """An operator's page on a cluster with ten running jobs; console errors fail the test."""
    cache.clear()
    factories.user("ops-admin", role=Role.OPERATOR, password=PASSWORD)
    plant.lay_out()
    errors: list[str] = []
    server = LiveServer("127.0.0.1")
    with (
        working(monkeypatch),
        plant.at_work(),
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
