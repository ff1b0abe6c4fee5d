"""The Calibrate page with a front, and the workers that serve it."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page

from apps.placement.models import CurveObjective, FrontVersion
from apps.placement.services.preference import checks
from tests.browser.calibrate.acts import opened
from tests.browser.calibrate.prices import create_prices, priced_front
from tests.browser.conftest import Site, Visitor
from tests.browser.workers import working
from tests.dashboard import fronts


@pytest.fixture(autouse=True)
def workers(monkeypatch: pytest.MonkeyPatch, _awaited_tasks_run_inline: None) -> Iterator[None]:
    """Run workers during a test; an answer may take longer, as they share the server's process."""
    monkeypatch.setattr(checks, "ANSWER_TIMEOUT_S", 30.0)
    with working(monkeypatch):
        yield


@pytest.fixture(scope="package")
def pattern(site: Site) -> FrontVersion:
    """Return a front on which nine picks give the weights of the paper."""
    return fronts.version(fronts.front(by=site.world.operator), fronts.pattern())


@pytest.fixture
def page(visitor: Visitor, pattern: FrontVersion, workers: None) -> Page:
    """Return the page of that front, without picks, all placements shown."""
    return opened(visitor, pattern.front)


@pytest.fixture
def priced(visitor: Visitor) -> Iterator[Page]:
    """Yield the page of a front whose placements differ, on a cluster with prices."""
    create_prices(visitor, {"": [0.1, 0.3]})
    yield opened(visitor, priced_front(visitor))
    CurveObjective.objects.all().delete()
