"""Preemptions from the page of a waiting job, and proposed ones from the Queues page."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from django.conf import LazySettings
from django.core.cache import cache
from django.db import connection
from playwright.sync_api import expect

from apps.accounts.models import AuditEntry, Project
from apps.execution.models import Launch, PreemptionProposal
from apps.inventory.models import Platform, Server
from apps.scheduling.models import Reservation
from apps.scheduling.selectors import ClusterFollower
from apps.workloads.models import Application, Job, WaitingShape
from tests import factories
from tests.browser.conftest import Site, Visitor
from tests.browser.test_remedies import removed


class Case(NamedTuple):
    """A waiting job, and the running ones on the only server that it may use."""

    waiting: Job
    cheap: Job
    dear: Job


@pytest.fixture
def case(site: Site, monkeypatch: pytest.MonkeyPatch) -> Iterator[Case]:
    """A full server of four units with two jobs; removed afterwards."""
    monkeypatch.setattr("apps.scheduling.services.dry_run._COPY", ClusterFollower())
    with connection.cursor() as cursor:  # the ids of the world's allocations were not drawn
        cursor.execute(
            "SELECT setval('common_allocations_seq', max(id) + 1) FROM scheduling_allocation"
        )
    server = factories.server("full-01", labels={"zone": "full"})
    fields: dict[str, Any] = {
        "application": factories.application(),
        "project": Project.objects.get(name="web-store"),
    }
    best_effort, ips = {"kind": "best_effort"}, {"kind": "ips", "ips": 1.0}
    cheap, dear = (
        factories.job(name, state="running", target=target, started_s=10.0, **fields)
        for name, target in (("cheap-1", best_effort), ("dear-1", ips))
    )
    for job in (cheap, dear):
        factories.allocation(job, server, cores=2, network_bps=5 * 10**8, storage_bytes=5 * 10**11)
        factories.launch(job)
    waiting = factories.job("urgent-1", priority=7, target=best_effort, **fields)
    shape = factories.waiting_shape(waiting, units=2, min_units=2, labels=["zone=full"])
    yield Case(waiting, cheap, dear)
    cache.clear()
    Reservation.objects.filter(job_id=waiting.pk).delete()
    removed(Job.objects.filter(application=fields["application"]))
    WaitingShape.objects.filter(pk=shape.pk).delete()
    removed(Application.objects.filter(pk=fields["application"].pk))
    removed(Server.objects.filter(pk=server.pk))
    removed(Platform.objects.filter(pk=server.platform_id))


def test_an_operator_sees_the_victims_and_stops_them(visitor: Visitor, case: Case) -> None:
    page = visitor.visit(f"/jobs/{case.waiting.id}/")
    page.get_by_role("button", name="Preempt…").click()
    dialog = page.locator("#preempt-job")
    expect(dialog).to_contain_text("Preempt running jobs for urgent-1?")
    expect(dialog).to_contain_text("1 running job of")
    expect(dialog).to_contain_text("no target missed")
    line = dialog.locator("tbody tr")
    expect(line).to_have_count(1)
    expect(line).to_contain_text("cheap-1")
    expect(line).to_contain_text("it has no target")
    expect(line).to_contain_text("without it, 2 units are missing")
    assert not Launch.objects.filter(cancel_requested=True).exists()
    dialog.get_by_role("button", name="Stop 1 job").click()
    expect(dialog).to_be_hidden()
    expect(page.locator("#toasts")).to_contain_text("The jobs are being stopped")
    expect(page.locator("#job-facts")).to_contain_text("2 units, free by")
    stopped = Launch.objects.filter(cancel_requested=True).values_list("job__name", flat=True)
    assert list(stopped) == ["cheap-1"]
    assert AuditEntry.objects.filter(action="job.preempting").exists()
    page.get_by_role("button", name="Preempt…").click()
    expect(dialog).to_contain_text("Running jobs are already being stopped for this job.")
    expect(dialog.locator("#pj-go")).to_be_disabled()
    assert not visitor.errors


def test_victims_that_have_changed_are_shown_again_before_any_is_stopped(
    visitor: Visitor, case: Case
) -> None:
    page = visitor.visit(f"/jobs/{case.waiting.id}/")
    page.get_by_role("button", name="Preempt…").click()
    dialog = page.locator("#preempt-job")
    expect(dialog.locator("tbody")).to_contain_text("cheap-1")
    Job.objects.filter(pk=case.cheap.pk).update(cancel_requested=True)
    dialog.get_by_role("button", name="Stop 1 job").click()
    expect(dialog.locator("#pj-error")).to_contain_text("Check the new preview.")
    expect(dialog.locator("tbody")).to_contain_text("dear-1")
    assert not Launch.objects.filter(cancel_requested=True).exists()
    dialog.get_by_role("button", name="Stop 1 job").click()
    expect(dialog).to_be_hidden()
    stopped = Launch.objects.filter(cancel_requested=True).values_list("job__name", flat=True)
    assert list(stopped) == ["dear-1"]


@pytest.fixture
def proposed(case: Case) -> Iterator[PreemptionProposal]:
    """A proposal to stop the cheap job."""
    proposal = factories.preemption_proposal(case.waiting, case.cheap)
    yield proposal
    PreemptionProposal.objects.filter(job_id=case.waiting.pk).delete()


def test_an_operator_applies_a_proposal_on_the_queues_page(
    visitor: Visitor, proposed: PreemptionProposal
) -> None:
    page = visitor.visit("/queues/")
    page.get_by_role("button", name="Review the preemption for urgent-1").click()
    dialog = page.locator("#review-proposal")
    expect(dialog).to_contain_text("Preempt running jobs for urgent-1?")
    expect(dialog.locator("tbody tr")).to_have_count(1)
    expect(dialog).to_contain_text("cheap-1")
    dialog.get_by_role("button", name="Stop 1 job").click()
    expect(dialog).to_be_hidden()
    expect(page.locator("#toasts")).to_contain_text("The jobs are being stopped")
    expect(page.locator("#queue-decided")).to_contain_text("applied")
    stopped = Launch.objects.filter(cancel_requested=True).values_list("job__name", flat=True)
    assert list(stopped) == ["cheap-1"]
    assert not visitor.errors


def test_a_changed_proposal_is_refused_and_the_new_one_is_shown(
    visitor: Visitor, case: Case, proposed: PreemptionProposal
) -> None:
    page = visitor.visit("/queues/")
    page.get_by_role("button", name="Review the preemption for urgent-1").click()
    dialog = page.locator("#review-proposal")
    expect(dialog.locator("#rp-go")).to_be_enabled()
    Job.objects.filter(pk=case.cheap.pk).update(cancel_requested=True)
    dialog.get_by_role("button", name="Stop 1 job").click()
    expect(dialog.locator("#rp-error")).to_contain_text("cheap-1 no longer runs.")
    expect(dialog.locator("tbody")).to_contain_text("dear-1")
    assert not Launch.objects.filter(cancel_requested=True).exists()


def test_limits_are_overridden_only_by_a_choice(
    visitor: Visitor, proposed: PreemptionProposal, settings: LazySettings
) -> None:
    settings.PREEMPTIONS_PER_HOUR = 0
    page = visitor.visit("/queues/")
    page.get_by_role("button", name="Review the preemption for urgent-1").click()
    dialog = page.locator("#review-proposal")
    expect(dialog).to_contain_text("Only 0 more jobs may be preempted within this hour.")
    expect(dialog.locator("#rp-go")).to_be_disabled()
    dialog.get_by_label("Override these limits").check()
    expect(dialog.locator("#rp-go")).to_be_enabled()
    dialog.get_by_role("button", name="Dismiss").click()
    expect(page.locator("#queue-decided")).to_contain_text("dismissed")
    assert not Launch.objects.filter(cancel_requested=True).exists()
    assert not visitor.errors
