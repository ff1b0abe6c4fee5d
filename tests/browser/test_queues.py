"""The Queues page on a desk and on a phone."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from apps.common.core.ids import uuid7
from apps.inventory.selectors import cluster_now
from apps.scheduling.models import StartEstimate
from apps.workloads.models import Job, WaitingShape
from tests import factories
from tests.browser.conftest import Site, Visitor
from tests.scheduling.shapes import shaped


@pytest.fixture(scope="module", autouse=True)
def queue(site: Site) -> Iterator[None]:
    """Two jobs of one request, one that starts later, and scored estimates."""
    now_s = cluster_now()
    first, third = (
        shaped(name=name, units_requested=units, submitted_s=now_s - 700.0)
        for name, units in (("cart-1", 4), ("sort-9", 16))
    )
    second = factories.job("cart-2", state="queued", application=first.application)
    Job.objects.filter(id=second.id).update(shape=first.shape, reason_code="NoFreeUnit")
    for job, p50_s, p90_s in ((first, 90.0, 200.0), (second, 150.0, 300.0), (third, 400.0, 900.0)):
        StartEstimate.objects.create(
            job_id=job.id,
            kind="ips, 1 unit",
            made_s=now_s,
            ahead=2,
            p5_s=now_s,
            p50_s=now_s + p50_s,
            p90_s=now_s + p90_s,
            p95_s=now_s + p90_s,
        )
    for wait_s in range(40):
        StartEstimate.objects.create(
            job_id=uuid7(),
            kind="ips, 1 unit",
            made_s=now_s - 100.0,
            ahead=0,
            p5_s=now_s - 100.0,
            p50_s=now_s - 80.0,
            p90_s=now_s - 65.0,
            p95_s=now_s - 62.0,
            placed_s=now_s - 100.0 + wait_s,
            is_open=False,
        )
    yield
    StartEstimate.objects.all().delete()
    Job.objects.filter(id__in=[first.id, second.id, third.id]).delete()
    WaitingShape.objects.all().delete()


def width(page: Page) -> int:
    """The width of the contents, in pixels."""
    found: int = page.evaluate("document.documentElement.scrollWidth")
    return found


def test_the_jobs_of_a_request_are_listed_on_demand(visitor: Visitor) -> None:
    page = visitor.visit("/queues/")
    rows = page.locator("table.waiting tbody tr")
    before = rows.count()
    expect(rows.first).to_contain_text("× 2")
    page.locator("a.exp").first.click()
    expect(rows).to_have_count(before + 2)
    expect(rows.get_by_role("link", name="cart-2")).to_be_visible()
    assert visitor.errors == []


@pytest.mark.parametrize("who", ["visitor", "night_visitor", "phone_visitor"])
def test_the_queue_is_accessible_and_fits(who: str, request: pytest.FixtureRequest) -> None:
    someone: Visitor = request.getfixturevalue(who)
    page = someone.visit("/queues/")
    expect(page.get_by_role("heading", level=1)).to_have_text("Queues")
    assert page.viewport_size is not None
    assert width(page) <= page.viewport_size["width"]
    assert someone.serious_findings() == []
    assert someone.errors == []
