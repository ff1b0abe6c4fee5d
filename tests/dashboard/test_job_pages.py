"""The pages of a job: its tabs, and why it is where it is."""

import re
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from apps.common.core.ids import uuid7
from apps.workloads.models import Job, WaitingShape
from tests import factories

pytestmark = pytest.mark.django_db


def test_a_job_name_is_escaped(as_operator: Client) -> None:
    job = factories.job("<script>x</script>")
    for url in ("/jobs/", f"/jobs/{job.id}/", f"/jobs/{job.id}/?tab=spec"):
        assert b"<script>x" not in as_operator.get(url).content


@pytest.mark.parametrize(
    "tab", ["explain", "why", "performance", "allocation", "events", "spec", "api", "no"]
)
def test_every_tab_of_a_job_opens(as_operator: Client, tab: str) -> None:
    job = factories.job(state="running", started_s=3020.0, placed_s=3010.0)
    factories.allocation(job, factories.server())
    factories.launch(job)
    factories.sample(job, 3100.0)
    assert as_operator.get(f"/jobs/{job.id}/?tab={tab}").status_code == 200


def test_the_why_tab_shows_the_stored_decision(as_operator: Client) -> None:
    job = factories.job(state="running")
    machine = factories.server("srv-0212")
    factories.decision(job, candidates=[factories.candidate(machine, verdict="chosen")])
    page = as_operator.get(f"/jobs/{job.id}/").content.decode()
    assert "<b>srv-0212</b>" in page
    assert "8 of 100 examined: 16.8 % chance that the best is outside the top 20 %" in page


def test_the_why_tab_warns_if_the_application_is_unlike_the_library(as_operator: Client) -> None:
    job = factories.job(state="running")
    profile = factories.profile(job.application)
    factories.decision(job, profile_id=profile.pk)
    warning = f"The measured values of {job.application.name} do not fit the applications"
    assert warning not in as_operator.get(f"/jobs/{job.id}/").content.decode()
    profile.flags = ["scale_up:unfamiliar"]
    profile.save()
    page = as_operator.get(f"/jobs/{job.id}/").content.decode()
    assert warning in page
    assert "unlike the library</span>" in page


def test_the_sorted_column_of_the_candidates_is_sorted(as_operator: Client) -> None:
    job, machine = factories.job(state="running"), factories.server("srv-0212")
    good = factories.candidate(machine, verdict="chosen", closeness=0.9)
    tight = factories.candidate(machine, quality=0.95, closeness=0.95)
    factories.decision(job, candidates=[good, tight])
    page = as_operator.get(f"/jobs/{job.id}/").content.decode()
    (table,) = re.findall(r'<table class="table flush tight cands">.*?</table>', page, re.DOTALL)
    heads = re.findall(r"<th [^>]*>", table)
    column, sorted_head = next((i, h) for i, h in enumerate(heads) if "aria-sort" in h)
    rows = [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in re.findall(r"<tr.*?</tr>", table)]
    values = [float(re.sub(r"<[^>]*>", "", row[column])) for row in rows if row]
    assert values == sorted(values, reverse="descending" in sorted_head)
    assert "Of the best 2 of 8 examined, 1 has enough headroom" in page


def _why_version(client: Client, job: Job) -> str:
    page = client.get(f"/jobs/{job.id}/").content.decode()
    (version,) = re.findall(r'id="tab-panel" data-live data-version="([^"]+)"', page)
    return str(version)


def test_an_open_why_tab_is_replaced_when_the_job_is_decided_and_not_before(
    as_operator: Client,
) -> None:
    job = factories.job()
    waiting = _why_version(as_operator, job)
    assert _why_version(as_operator, job) == waiting
    factories.decision(job, candidates=[factories.candidate(factories.server())])
    placed = _why_version(as_operator, job)
    assert placed != waiting
    factories.sample(job, 3100.0)
    assert _why_version(as_operator, job) == placed


def test_the_why_tab_of_a_waiting_job_shows_the_decision_on_its_shape(
    as_operator: Client,
) -> None:
    first, second = factories.job("first"), factories.job("second")
    refused: dict[str, Any] = {
        "outcome": "refused",
        "reason_code": "NoFreeUnit",
        "dropped": {"busy": 9},
    }
    decision = factories.decision(first, **refused)
    factories.waiting_shape(first, second, by=decision)
    about = f'This decision is about <a href="/jobs/{first.id}/">first</a>.'
    page = as_operator.get(f"/jobs/{second.id}/").content.decode()
    assert "The job was <b>not placed</b>" in page
    assert about in page
    assert about not in as_operator.get(f"/jobs/{first.id}/").content.decode()


def test_the_why_tab_tells_that_later_evaluations_gave_the_same_reason(
    as_operator: Client,
) -> None:
    job = factories.job()
    decision = factories.decision(job, outcome="refused", reason_code="NoFreeUnit", snapshot=100)
    shape = factories.waiting_shape(job, by=decision, evaluated_seq=100)
    sentence = "Counts and candidates are those of the first one, at "
    assert sentence not in as_operator.get(f"/jobs/{job.id}/").content.decode()
    once = _why_version(as_operator, job)
    WaitingShape.objects.filter(pk=shape.pk).update(evaluated_seq=101)
    assert sentence in as_operator.get(f"/jobs/{job.id}/").content.decode()
    assert _why_version(as_operator, job) != once


def test_the_why_tab_of_a_waiting_job_without_a_decision_shows_its_reason(
    as_operator: Client,
) -> None:
    job = factories.job("second")
    factories.waiting_shape(job)
    page = as_operator.get(f"/jobs/{job.id}/").content.decode()
    assert "All units that the job may use are busy." in page


def test_a_job_shows_its_framework_setting(as_operator: Client) -> None:
    job = factories.job("sort", predicted={"value": 600.0, "setting": "2x0.5GB+lz4"})
    page = as_operator.get(f"/jobs/{job.id}/").content.decode()
    assert "2 tasks a core, 0.5 GB heap each, compressed" in page


def test_an_undecided_job_shows_its_waiting_reason(as_operator: Client) -> None:
    job = factories.job(state="profiling", reason_code="WaitingForProfile")
    page = as_operator.get(f"/jobs/{job.id}/").content.decode()
    assert "The application is new and is being profiled in a few short runs." in page


def test_a_missing_job_shows_a_page_with_the_request_id(as_operator: Client) -> None:
    response = as_operator.get(f"/jobs/{uuid4()}/")
    assert response.status_code == 404
    assert b"Page not found" in response.content
    assert response["X-Request-ID"].encode() in response.content


def test_a_job_deleted_for_its_age_says_so(as_operator: Client, settings: Settings) -> None:
    settings.BERTH_JOB_DAYS = 90
    page = as_operator.get(f"/jobs/{uuid7(at_ms=1_700_000_000_000)}/").content.decode()
    assert "Its id was issued on 2023-11-14, and jobs are deleted 90 days after their end." in page


def test_an_old_job_says_that_its_events_were_deleted(
    as_operator: Client, settings: Settings
) -> None:
    settings.BERTH_EVENT_DAYS = 7
    old, young = factories.job(), factories.job()
    Job.objects.filter(pk=old.pk).update(created_at=timezone.now() - timedelta(days=8))
    text = "events older than 7 days are deleted"
    assert text in as_operator.get(f"/jobs/{old.id}/?tab=events").content.decode()
    assert text not in as_operator.get(f"/jobs/{young.id}/?tab=events").content.decode()


def test_averaged_samples_are_named_as_such(as_operator: Client) -> None:
    job = factories.job(state="running", started_s=0.0)
    factories.sample(job, 100.0, readings=12)
    body = as_operator.get(f"/figures/performance/?job={job.id}").json()
    assert body["sub"].endswith("old reports as means of a minute or an hour")
