"""Every page, by role."""

import json
import re
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from pytest_django import Settings

from apps.accounts.core.roles import Role
from apps.accounts.models import Membership, User
from apps.common.core.ids import uuid7
from apps.common.infrastructure import warm_up
from apps.scheduling.services.default_policy import apply_policy
from apps.workloads.models import Job
from tests import factories

pytestmark = pytest.mark.django_db
FIGURES = [
    *("utilisation", "attainment", "queue", "decision-latency", "power", "quality"),
    *("matrix", "singular-values", "jobs-by-project", "calibration", "revision-error"),
    *("system-queues", "system-rate", "system-time", "system-conflicts", "system-streams"),
]
PASSWORD = "right-one-11"  # noqa: S105 - of users that exist only in tests
PAGES = [
    *(
        "overview",
        "submit",
        "jobs",
        "queues",
        "map",
        "applications",
        "calibrate",
        "classification",
    ),
    *("decisions", "sampling", "system", "account", "projects"),
]


@pytest.mark.parametrize("name", PAGES)
def test_pages_redirect_anonymous_users_to_sign_in(client: Client, name: str) -> None:
    response = client.get(reverse(name))
    assert response.status_code == 302
    assert response["Location"].startswith("/login/?next=")


@pytest.mark.parametrize("name", PAGES)
def test_pages_open_on_an_empty_database(as_operator: Client, name: str) -> None:
    response = as_operator.get(reverse(name))
    assert response.status_code == 200
    assert b"Berth" in response.content


@pytest.mark.parametrize("name", PAGES)
def test_pages_forbid_inline_styles_and_scripts(as_operator: Client, name: str) -> None:
    policy = as_operator.get(reverse(name))["Content-Security-Policy"]
    assert "script-src 'self';" in policy
    assert "style-src 'self';" in policy
    assert "unsafe" not in policy


@pytest.mark.parametrize("name", FIGURES)
def test_figures_work_on_an_empty_database(as_operator: Client, name: str) -> None:
    body = json.loads(as_operator.get(reverse("figure", args=[name])).content)
    assert body["title"]
    assert set(body["figure"]) == {"data", "layout"}
    assert body["table"]["head"]


def test_an_unknown_figure_is_not_found(as_operator: Client) -> None:
    assert as_operator.get("/figures/nothing/").status_code == 404


def test_the_overview_counts_jobs_that_meet_their_target(as_operator: Client) -> None:
    factories.server()
    factories.job(state="running", attainment=1.2)
    factories.job(state="running", attainment=0.8)
    page = as_operator.get("/").content.decode()
    assert "<b>1</b> of <b>2</b> jobs with a target meet it." in page


def test_an_empty_cluster_gets_a_checklist(as_operator: Client) -> None:
    assert "This cluster has no servers yet" in as_operator.get("/").content.decode()


def test_the_jobs_page_lists_and_names_reasons(as_operator: Client) -> None:
    factories.job("web-1", state="queued", reason_code="LocalityShort")
    page = as_operator.get("/jobs/").content.decode()
    assert "web-1" in page
    assert "free units too far apart" in page


def test_a_filter_without_matches_can_be_cleared(as_operator: Client) -> None:
    factories.job("web-1")
    page = as_operator.get("/jobs/?q=state:failed").content.decode()
    assert "No job matches <code>state:failed</code>" in page
    assert "Clear filters" in page


def test_an_unknown_filter_is_named(as_operator: Client) -> None:
    assert "colour: is not a filter" in as_operator.get("/jobs/?q=colour:red").content.decode()


def test_a_damaged_cursor_shows_the_newest_page(as_operator: Client) -> None:
    factories.job("web-1")
    page = as_operator.get("/jobs/?cursor=broken").content.decode()
    assert "This page of the list no longer exists" in page
    assert "web-1" in page


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


@pytest.mark.parametrize("name", ["performance", "plan-progress", "guarantee"])
def test_a_figure_of_something_that_is_gone_is_not_found(as_operator: Client, name: str) -> None:
    query = "&".join(f"{key}={uuid4()}" for key in ("job", "plan", "decision"))
    assert as_operator.get(f"/figures/{name}/?{query}").status_code == 404


def test_a_decision_has_a_page(as_operator: Client) -> None:
    decision = factories.decision(factories.job("web-1"))
    page = as_operator.get(f"/decisions/{decision.id}/").content.decode()
    assert "Placed: web-1" in page


def test_a_refused_decision_names_the_next_step(as_operator: Client) -> None:
    decision = factories.decision(factories.job(), outcome="refused")
    assert "Next step" in as_operator.get(f"/decisions/{decision.id}/").content.decode()


def test_a_server_has_a_page(as_operator: Client) -> None:
    machine = factories.server("srv-0212")
    factories.allocation(factories.job("web-1", state="running"), machine)
    page = as_operator.get("/servers/srv-0212/").content.decode()
    assert "1 of 4 units allocated to 1 job" in page
    assert "web-1" in page


def test_a_server_counts_jobs_of_other_projects_without_naming_them(as_viewer: Client) -> None:
    machine = factories.server("srv-0212")
    factories.allocation(factories.job("web-1", state="running"), machine)
    page = as_viewer.get("/servers/srv-0212/").content.decode()
    assert "1 of 4 units allocated to 1 job" in page
    assert "a job of another project" in page
    assert "No job of your projects has been placed on this server" in page
    assert "web-1" not in page


def test_a_missing_server_is_named(as_operator: Client) -> None:
    page = as_operator.get("/servers/nothing/")
    assert page.status_code == 404
    assert b"There is no server called" in page.content


def test_viewers_get_no_buttons_that_change_things(as_viewer: Client) -> None:
    factories.server("srv-0212")
    assert b"data-server-action" not in as_viewer.get("/servers/srv-0212/").content
    assert b"Cancel matching" not in as_viewer.get("/jobs/").content
    assert b"Checking and submitting jobs need the role" in as_viewer.get("/submit/").content


def test_users_see_only_the_jobs_of_their_projects(client: Client) -> None:
    factories.cluster()
    mine, other = factories.project("mine"), factories.project("other")
    sue: User = factories.user("sue", role=Role.SUBMITTER)
    Membership.objects.create(user=sue, project=mine, role=Role.SUBMITTER.value)
    factories.job("mine-1", project=mine)
    hidden = factories.job("other-1", project=other)
    decision = factories.decision(hidden)
    client.force_login(sue)
    page = client.get("/jobs/").content.decode()
    assert "mine-1" in page
    assert "other-1" not in page
    assert client.get(f"/jobs/{hidden.id}/").status_code == 404
    assert client.get(f"/decisions/{decision.id}/").status_code == 404
    assert client.get(f"/figures/performance/?job={hidden.id}").status_code == 404
    assert "other-1" not in client.get("/decisions/").content.decode()
    assert client.get("/search/?q=other").json() == {"results": []}


def test_the_system_page_shows_a_warm_up_while_it_lasts(
    as_operator: Client, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(warm_up, "_lock_file", lambda kernels: tmp_path / kernels)
    with warm_up.warming_up(warm_up.Kernels.PLACEMENT):
        assert "compiling placement kernels" in as_operator.get("/system/").content.decode()
    assert "Warming up" not in as_operator.get("/system/").content.decode()


def test_the_system_page_names_agents_and_backends(as_operator: Client) -> None:
    job = factories.job(state="running")
    factories.decision(job, agent="agent-7", copy_age_s=2.5, changes_behind=1234)
    factories.launch(job)
    page = as_operator.get("/system/").content.decode()
    assert "agent-7" in page
    assert page.count('<td class="num">2.5 s</td><td class="num">1,234</td>') == 2  # and in total
    assert "emulated" in page


def test_the_system_page_names_the_policy_and_who_applied_it(as_operator: Client) -> None:
    def shown() -> str:
        page = as_operator.get("/system/").content.decode()
        return page[page.index('id="policy-in-use">') :][:400]

    assert shown().startswith('id="policy-in-use">expected<br><a')
    apply_policy("tarcil", reason="won in the Lab", by=factories.user("anna"))
    assert shown().startswith('id="policy-in-use">tarcil<br><span class="t2">applied by anna, ')
    assert ": won in the Lab</span>" in shown()
    apply_policy("", reason="enough", by=None)
    assert shown().startswith('id="policy-in-use">expected<br><span class="t2">reset to the set')


def test_agents_of_earlier_runs_are_not_shown(as_operator: Client) -> None:
    factories.cluster(wall_anchor_s=factories.MOMENT.timestamp())
    job = factories.job(state="running")
    before = factories.MOMENT - timedelta(seconds=1)
    factories.decision(job, agent="agent-gone", at=before)
    factories.decision(job, agent="agent-here", at=factories.MOMENT)
    page = as_operator.get("/system/").content.decode()
    assert "agent-here" in page
    assert "agent-gone" not in page


@pytest.mark.parametrize("path", ["/jobs/", "/applications/", "/decisions/"])
def test_a_stale_cursor_shows_the_first_page_with_a_notice(as_operator: Client, path: str) -> None:
    sentence = "This page of the list no longer exists"
    assert sentence in as_operator.get(f"{path}?cursor=broken").content.decode()
    assert sentence not in as_operator.get(path).content.decode()


def test_the_preview_counts_the_jobs_a_cancel_would_affect(as_operator: Client) -> None:
    factories.job("web-1", state="running")
    factories.job("web-2", state="queued")
    factories.job("web-3", state="succeeded")
    preview = as_operator.get("/jobs/preview/?q=web").json()
    assert preview["count"] == 2
    assert preview["by_state"] == {"running": 1, "queued": 1}
    assert len(preview["ids"]) == 2


def test_the_preview_rejects_an_invalid_filter(as_operator: Client) -> None:
    assert as_operator.get("/jobs/preview/?q=colour:red").status_code == 400


def test_search_finds_servers_and_jobs(as_operator: Client) -> None:
    factories.server("web-server")
    factories.job("web-1")
    names = [r["name"] for r in as_operator.get("/search/?q=web").json()["results"]]
    assert names == ["web-server", "web-1"]


def test_searching_an_exact_name_opens_its_page(as_operator: Client) -> None:
    factories.server("srv-0212")
    assert as_operator.get("/go/?q=srv-0212")["Location"] == "/servers/srv-0212/"
    assert as_operator.get("/go/?q=srv")["Location"] == "/jobs/?q=srv"


def test_pages_reject_post_requests(as_operator: Client) -> None:
    assert as_operator.post("/jobs/").status_code == 405


@pytest.mark.parametrize("jobs", [1, 6])
def test_the_number_of_queries_of_the_jobs_page_is_fixed(
    as_operator: Client, django_assert_max_num_queries: pytest.FixtureRequest, jobs: int
) -> None:
    machine = factories.server(of=factories.platform(cores=8))
    for _ in range(jobs):
        factories.allocation(factories.job(state="running", started_s=1.0), machine)
    with django_assert_max_num_queries(16):  # type: ignore[operator]  # a context manager factory
        as_operator.get("/jobs/")


def test_the_overview_needs_few_queries(
    as_operator: Client, django_assert_max_num_queries: pytest.FixtureRequest
) -> None:
    factories.server()
    factories.job(state="running", attainment=0.5)
    with django_assert_max_num_queries(36):  # type: ignore[operator]  # a context manager factory
        as_operator.get("/")


def test_signing_in_with_a_wrong_password_is_explained(client: Client) -> None:
    factories.user("olga", password=PASSWORD)
    page = client.post("/login/", {"username": "olga", "password": "wrong"})
    assert b"Wrong user name or password" in page.content


def test_signing_in_opens_the_requested_page(client: Client) -> None:
    factories.user("olga", password=PASSWORD)
    page = client.post(
        "/login/?next=/jobs/", {"username": "olga", "password": PASSWORD, "next": "/jobs/"}
    )
    assert page["Location"] == "/jobs/"
