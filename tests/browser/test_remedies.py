"""What would help a job below its target, carried out from its page."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.cache import cache
from django.db import connection, transaction
from django.db.models import QuerySet
from playwright.sync_api import expect

from apps.accounts.models import Project
from apps.common.infrastructure.locks import lock_for_deletion
from apps.inventory.models import Cluster, Platform, Server
from apps.placement.models import Plan
from apps.placement.services.rebalancing.plan_requests import process_plan_requests
from apps.scheduling.selectors import ClusterFollower
from apps.workloads.models import Application, Job
from tests.browser.conftest import Site, Visitor
from tests.execution.miss_world import Missed, missed


@pytest.fixture
def below(site: Site, monkeypatch: pytest.MonkeyPatch) -> Iterator[Missed]:
    """A job below its target next to a neighbour, and a free server; removed afterwards."""
    monkeypatch.setattr("apps.scheduling.services.dry_run._COPY", ClusterFollower())
    with connection.cursor() as cursor:  # the ids of the world's allocations were not drawn
        cursor.execute(
            "SELECT setval('common_allocations_seq', max(id) + 1) FROM scheduling_allocation"
        )
    clock = Cluster.objects.get(pk=1)
    found = missed(project=Project.objects.get(name="web-store"))
    yield found
    cache.clear()
    jobs = [found.job, found.neighbour]
    removed(Plan.objects.all())
    removed(Job.objects.filter(pk__in=[job.pk for job in jobs]))
    removed(Application.objects.filter(pk__in=[job.application_id for job in jobs]))
    removed(Server.objects.filter(pk__in=[found.here.pk, found.empty.pk]))
    removed(Platform.objects.filter(name="J"))
    clock.save()


def removed(rows: QuerySet[Any]) -> None:
    """Delete rows and what belongs to them, locked in the order of all transactions."""
    keys = list(rows.values_list("pk", flat=True))
    with transaction.atomic():
        lock_for_deletion(rows.model, keys)
        rows.model.objects.filter(pk__in=keys).delete()


def test_a_migration_that_would_help_becomes_a_plan(visitor: Visitor, below: Missed) -> None:
    page = visitor.visit(f"/jobs/{below.job.id}/?tab=explain")
    page.get_by_role("button", name="Migrate 2 units from srv-0212 to srv-0317").click()
    dialog = page.locator("#migrate-job")
    expect(dialog).to_contain_text("Migrate 2 units from srv-0212 to srv-0317?")
    expect(dialog.locator("#mj-probability")).to_have_text(re.compile(r"\d+ %"))
    expect(dialog).to_contain_text("nothing moves before it is approved")
    with page.expect_response(lambda response: response.url.endswith("/api/v1/plans/")):
        dialog.get_by_role("button", name="Create plan").click()
    process_plan_requests()
    page.wait_for_url("**/plans/p-*/")
    expect(page.locator("main")).to_contain_text("Migrates 2 units of leaf-04 from srv-0212")
    expect(page.locator(".plan-jobs")).to_contain_text("leaf-04")
    assert not visitor.errors


def test_more_units_fill_the_submit_page(visitor: Visitor, below: Missed) -> None:
    page = visitor.visit(f"/jobs/{below.job.id}/?tab=explain")
    link = page.get_by_role("link", name=re.compile(r"Submit again with \d+ units"))
    units = re.search(r"units=(\d+)", link.get_attribute("href") or "")
    assert units is not None
    link.click()
    expect(page.get_by_label("Number of units")).to_have_value(units[1])
    expect(page.get_by_label("Application", exact=True)).to_have_value("search-leaf")
    expect(page.get_by_label("Instructions per second")).to_have_value("1000000000")
    expect(page.locator("#h-application")).to_contain_text("Known: search-leaf, profile no.")
    raw = page.locator("#raw")
    expect(raw).to_have_value(re.compile(rf'"units":\s*{units[1]}\b'))
    document = json.loads(raw.input_value())
    assert document["spec"]["units"] == int(units[1])
