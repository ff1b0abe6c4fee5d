"""Every page, by role."""

import json
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from django.test import Client
from django.urls import reverse

from apps.accounts.core.roles import Role
from apps.accounts.models import Membership, User
from apps.common.infrastructure import warm_up
from apps.dashboard.selectors.shell import RAIL
from apps.scheduling.services.default_policy import apply_policy
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
    *("decisions", "policies", "sampling", "system", "account", "projects"),
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


def test_a_figure_with_a_long_address_is_cached(as_operator: Client) -> None:
    # filterwarnings = error: a key that is too long for some caches would be one
    assert as_operator.get(f"/figures/power/?job={'x' * 300}").status_code == 200


def test_the_overview_counts_jobs_that_meet_their_target(as_operator: Client) -> None:
    factories.server()
    factories.job(state="running", attainment=1.2)
    factories.job(state="running", attainment=0.8)
    page = as_operator.get("/").content.decode()
    assert "<b>1</b> of <b>2</b> jobs with a target that run or succeeded meet it." in page
    assert "n = 2; without failed and waiting jobs" in page


def test_the_overview_tells_members_that_its_numbers_are_of_all_projects(client: Client) -> None:
    factories.cluster()
    factories.server()
    client.force_login(factories.user("mia", role=Role.SUBMITTER))
    shown = client.get("/").content.decode()
    assert (
        'Numbers and charts are of all projects. <a href="/jobs/">Jobs of your projects</a>'
        in shown
    )


def test_the_overview_of_an_operator_is_of_all_jobs_anyway(as_operator: Client) -> None:
    factories.server()
    assert "of all projects" not in as_operator.get("/").content.decode()


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


@pytest.mark.parametrize("path", ["/jobs/", "/decisions/"])
def test_no_name_matches_a_very_long_word(as_operator: Client, path: str) -> None:
    factories.decision(factories.job("sort"))
    shown = as_operator.get(path, {"q": "s" * 5_000}).content.decode()
    assert "matches <code>sss" in shown
    assert ">sort</a>" not in shown


def test_a_search_for_a_very_long_word_finds_nothing(as_operator: Client) -> None:
    factories.job("sort")
    assert as_operator.get("/search/", {"q": "s" * 5_000}).json() == {"results": []}


def test_an_unknown_filter_is_named(as_operator: Client) -> None:
    assert "colour: is not a filter" in as_operator.get("/jobs/?q=colour:red").content.decode()


def test_a_damaged_cursor_shows_the_newest_page(as_operator: Client) -> None:
    factories.job("web-1")
    page = as_operator.get("/jobs/?cursor=broken").content.decode()
    assert "This page of the list no longer exists" in page
    assert "web-1" in page


@pytest.mark.parametrize("name", ["performance", "plan-progress", "guarantee"])
def test_a_figure_of_something_that_is_gone_is_not_found(as_operator: Client, name: str) -> None:
    query = "&".join(f"{key}={uuid4()}" for key in ("job", "plan", "decision"))
    assert as_operator.get(f"/figures/{name}/?{query}").status_code == 404


def test_a_decision_has_a_page(as_operator: Client) -> None:
    decision = factories.decision(factories.job("web-1"))
    page = as_operator.get(f"/decisions/{decision.id}/").content.decode()
    assert "Placed: web-1" in page


def test_a_refusal_by_the_quota_names_no_seed_and_no_eligible_units(as_operator: Client) -> None:
    decision = factories.decision(
        factories.job(), outcome="refused", reason_code="QuotaExceeded", elapsed_s=0.0
    )
    page = as_operator.get(f"/decisions/{decision.id}/").content.decode()
    assert "refused before a policy examined any unit" in page
    assert "seed 7" not in page
    assert "eligible" not in page


def test_a_refused_decision_names_the_next_step(as_operator: Client) -> None:
    decision = factories.decision(factories.job(), outcome="refused")
    assert "Next step" in as_operator.get(f"/decisions/{decision.id}/").content.decode()


def test_a_server_has_a_page(as_operator: Client) -> None:
    machine = factories.server("srv-0212")
    factories.allocation(factories.job("web-1", state="running"), machine)
    page = as_operator.get("/servers/srv-0212/").content.decode()
    assert "1 of 4 units allocated to 1 job" in page
    assert "web-1" in page


def test_a_server_that_is_not_examined_lists_the_earlier_allocations(as_operator: Client) -> None:
    machine = factories.server("srv-0212")
    factories.allocation(factories.job("web-1", state="running"), machine)
    page = as_operator.get("/servers/srv-0212/").content.decode()
    assert "Not examined in the last 400 decisions" in page
    assert "Latest allocations on this server, all by earlier decisions" in page


def test_a_server_counts_jobs_of_other_projects_without_naming_them(as_viewer: Client) -> None:
    machine = factories.server("srv-0212")
    factories.allocation(factories.job("web-1", state="running"), machine)
    page = as_viewer.get("/servers/srv-0212/").content.decode()
    assert "1 of 4 units allocated to 1 job" in page
    assert "a job of another project" in page
    assert "No job of your projects has been placed on this server" in page
    assert "web-1" not in page


def test_the_navigation_counts_the_waiting_jobs_that_the_user_may_see(client: Client) -> None:
    factories.cluster()
    for number, name in enumerate(("mine", "other"), start=1):
        project, user = factories.project(name), factories.user(name, role=Role.VIEWER)
        Membership.objects.create(user=user, project=project, role=Role.VIEWER.value)
        for _ in range(number):
            factories.job(state="queued", project=project)
    shown = []
    for name in ("mine", "other"):
        client.force_login(User.objects.get(username=name))
        page = client.get("/jobs/").content.decode()
        shown.append(page.split('id="rail-jobs" data-live>')[1].split("<")[0])
    assert shown == ["1", "2"]


def test_a_phone_reaches_every_page_of_the_navigation(as_operator: Client, operator: User) -> None:
    User.objects.filter(pk=operator.pk).update(role=Role.ADMIN.value)
    page = as_operator.get("/").content.decode()
    menu = page[page.index('id="account"') : page.index("</header>")]
    hidden = [item for group in RAIL for item in group if not item.phone]
    assert {item.url for group in RAIL for item in group if item.phone} >= {"queues", "jobs"}
    assert [item.url for item in hidden if f'href="{reverse(item.url)}"' not in menu] == []


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

    link = 'id="policy-in-use"><a href="/policies/">'
    assert shown().startswith(f"{link}expected</a><br><a")
    apply_policy("tarcil", reason="won in the Lab", by=factories.user("anna"))
    assert shown().startswith(f'{link}tarcil</a><br><span class="t2">applied by anna, ')
    assert ": won in the Lab</span>" in shown()
    apply_policy("", reason="enough", by=None)
    assert shown().startswith(f'{link}expected</a><br><span class="t2">reset to the set')


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
