"""The page of one application, by role."""

import json
from urllib.parse import urlencode

import pytest
from django.test import Client
from django.utils import timezone
from django.utils.html import strip_tags
from pytest_django import DjangoAssertNumQueries

from apps.accounts.core.roles import Role
from apps.accounts.models import User
from apps.classification.core.matrix import MatrixName
from apps.classification.models import Override, Profile
from apps.dashboard.selectors import application as details
from apps.dashboard.selectors import profiling
from apps.operations.models import Operation
from apps.profiling.models import ProfilingRun
from apps.workloads.models import Job
from tests import factories
from tests.dashboard.known_applications import compared, drifted, known

pytestmark = pytest.mark.django_db


def test_the_page_summarises_the_profile_in_sentences(as_operator: Client) -> None:
    known()
    page = as_operator.get("/applications/web/").content.decode()
    assert "One unit of J achieves" in page
    assert "loses 5 % or more above that" in page
    assert "no. 1, inferred" in page


def test_names_with_slashes_have_a_page(as_operator: Client) -> None:
    known("team/web")
    response = as_operator.get("/applications/team/web/")
    assert response.status_code == 200
    assert b"team/web" in response.content


def test_an_unknown_application_is_not_found(as_operator: Client) -> None:
    response = as_operator.get("/applications/nothing/")
    assert response.status_code == 404


def test_a_name_is_escaped_in_every_address(as_operator: Client) -> None:
    known("a+b")
    page = as_operator.get("/applications/a+b/").content.decode()
    assert "/figures/scale-up/?application=a%2Bb" in page


@pytest.mark.parametrize("matrix", list(MatrixName))
def test_every_matrix_lists_its_cells(as_operator: Client, matrix: MatrixName) -> None:
    known()
    page = as_operator.get(f"/applications/web/?matrix={matrix.value}").content.decode()
    assert 'id="app-cells"' in page
    assert page.count("data-override data-matrix=") > 0


def test_an_unprofiled_application_explains_profiling(as_operator: Client) -> None:
    factories.server()
    factories.application("new")
    page = as_operator.get("/applications/new/").content.decode()
    assert "new has no profile yet" in page
    assert "Profile now…" in page


def test_an_application_being_profiled_says_so(as_operator: Client) -> None:
    factories.server()
    about = factories.application("new")
    factories.profiling_run(about, state="running", started_s=7150.0)
    page = as_operator.get("/applications/new/").content.decode()
    assert "new is being profiled" in page
    assert "It is being profiled" in page


def test_a_viewer_gets_no_actions(as_viewer: Client) -> None:
    known()
    factories.server()
    page = as_viewer.get("/applications/web/").content.decode()
    assert "Re-profiling needs the role submitter, and overrides need the role operator" in page
    assert "data-override" not in page
    assert 'id="reprofile"' not in page


def test_a_submitter_may_profile_but_not_override(client: Client) -> None:
    factories.cluster()
    factories.server()
    known()
    client.force_login(factories.user("sue", role=Role.SUBMITTER))
    page = client.get("/applications/web/").content.decode()
    assert 'id="reprofile"' in page
    assert "data-override" not in page


def test_drift_shows_its_direction_and_start(as_operator: Client) -> None:
    drifted(known())
    page = as_operator.get("/applications/web/").content.decode()
    assert "Its jobs run 24 % slower than predicted since day 1, 01:00" in strip_tags(page)


def test_degraded_estimates_are_badges(as_operator: Client) -> None:
    known()
    Profile.objects.update(flags=["no_cell"])
    page = as_operator.get("/applications/web/").content.decode()
    assert "nothing measured" in page
    assert "the estimate is the average of the library" in page


def test_overrides_name_their_value_reason_and_author(as_operator: Client, operator: User) -> None:
    about = known()
    Override.objects.create(
        application=about,
        matrix="scale_out",
        column="16",
        value=0.72,
        cluster_s=60.0,
        reason="load test",
        created_by=operator,
    )
    page = as_operator.get("/applications/web/").content.decode()
    assert "Scale-out, 16 servers: 72 %" in page
    assert "“load test”, olga" in page
    assert "1 value set by hand" in page


def test_withdrawn_overrides_come_after_those_in_force(operator: User) -> None:
    about = known()
    common = {"application": about, "matrix": "caused", "cluster_s": 0.0, "created_by": operator}
    withdrawn = Override.objects.create(
        column="tlb", value=1, reason="x", withdrawn_at=timezone.now(), **common
    )
    here = Override.objects.create(column="core", value=2, reason="y", **common)
    assert details.overrides(about) == [here, withdrawn]


def test_overrides_are_entered_in_the_displayed_unit() -> None:
    groups = details.override_choices(
        details.profiled_application(known().name).cells, "latency_critical"
    )
    out = next(group for group in groups if group.key == "scale_out")
    assert (out.unit, out.factor) == ("%", 0.01)
    assert out.cells[0].value == "100"


def test_the_page_needs_a_fixed_number_of_queries(
    as_operator: Client, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    factories.server()
    about = known()
    for _ in range(12):
        factories.job(application=about, state="running")
        factories.profiling_run(about, state="done")
    as_operator.get("/applications/web/")
    # session, user, principal (2); application, profile, overrides (2), runs, the clock, jobs,
    # what profiling costs, imported reports, active revision, the clock of the bar; the frame is
    # cached
    with django_assert_num_queries(15):
        as_operator.get("/applications/web/")


# ---- profiling ----


def test_the_cost_of_a_plan_adds_units_over_its_copies() -> None:
    runs = [
        {"copy": 0, "platform": "J", "servers": 1, "units": 1, "sources": ["tlb", "core"]},
        {"copy": 1, "platform": "J", "servers": 1, "units": 8, "sources": []},
        {"copy": 2, "platform": "J", "servers": 4, "units": 1, "sources": []},
        {"copy": 3, "platform": "A", "servers": 1, "units": 1, "sources": []},
        {"copy": 3, "platform": "B", "servers": 1, "units": 1, "sources": []},
    ]
    cost = profiling.cost_of({"budget_s": 90.0, "expected_s": 40.0, "runs": runs})
    assert (cost.runs, cost.units, cost.platforms, cost.sources) == (5, 14, 3, 2)
    assert cost.unit_seconds == 40.0 + 22.0 * (8 + 4 + 1 + 1)
    assert profiling.plan_text({"runs": runs}) == "5 runs on 3 platforms, 2 resources probed"


def test_a_cluster_without_servers_cannot_profile() -> None:
    assert profiling.profiling_cost(factories.application()) is None


def test_a_finished_run_shows_its_duration_and_cells() -> None:
    about = known()
    run = factories.profiling_run(about, state="done", started_s=3010.0, finished_s=3071.0)
    (row,) = profiling.run_rows(factories.principal(), about, now_s=9000.0)
    assert (row.run, row.took_s, row.share, row.icon) == (run, 61.0, None, "succeeded")


def test_the_duration_of_a_run_is_that_reported_by_the_backend() -> None:
    # the backend's clock may be behind at the start
    about = known()
    result = {"cells": 3, "seconds": 61.2, "missing": []}
    factories.profiling_run(
        about, state="done", started_s=3010.0, finished_s=3006.0, result=result
    )
    (row,) = profiling.run_rows(factories.principal(), about, now_s=9000.0)
    assert row.took_s == 61.2


def test_a_running_run_shows_the_time_since_its_start() -> None:
    about = known()
    factories.profiling_run(about, state="running", started_s=8990.0)
    (row,) = profiling.run_rows(factories.principal(), about, now_s=9000.0)
    assert (row.took_s, row.is_open) == (10.0, True)


def test_a_run_is_shown_as_being_cancelled_until_it_ends() -> None:
    about = known()
    operation = Operation.objects.create(kind="profiling", status="running", total=4, progress=1)
    factories.profiling_run(about, state="running", started_s=8990.0, operation=operation)
    (row,) = profiling.run_rows(factories.principal(), about, now_s=9000.0)
    assert (row.share, row.is_cancelling) == (0.25, False)
    Operation.objects.update(cancel_requested=True)
    (row,) = profiling.run_rows(factories.principal(), about, now_s=9000.0)
    assert (row.message, row.is_cancelling) == ("being cancelled", True)


def test_a_run_for_a_job_of_another_project_shows_no_text_of_it() -> None:
    about = known()
    operation = Operation.objects.create(kind="profiling", status="running", total=4, progress=1)
    of_project = {"project_id": factories.project("other").pk, "reason": "of a job"}
    factories.profiling_run(about, **of_project, state="failed", message="no train.py")
    factories.profiling_run(about, **of_project, state="running", operation=operation)
    stranger = factories.principal(factories.user(role=Role.VIEWER))
    rows = profiling.run_rows(stranger, about, now_s=9000.0)
    assert [(row.icon, row.message, row.share, row.operation) for row in rows] == [
        ("running", "", None, None),
        ("failed", "The command could not be profiled.", None, None),
    ]
    rows = profiling.run_rows(factories.principal(), about, now_s=9000.0)
    assert [(row.message, row.share, row.operation) for row in rows] == [
        ("of a job", 0.25, operation),
        ("no train.py", None, None),
    ]


def test_a_failed_run_shows_its_message() -> None:
    about = known()
    factories.profiling_run(about, state="failed", message="no backend finished the run")
    (row,) = profiling.run_rows(factories.principal(), about, now_s=9000.0)
    assert row.message == "no backend finished the run"


# ---- figures ----


@pytest.mark.parametrize(
    "name", ["scale-up", "scale-out", "platform-speed", "interference", "prediction-error"]
)
def test_figures_of_an_application_name_their_rest_call(as_operator: Client, name: str) -> None:
    known("team/web+1")
    address = f"/figures/{name}/?{urlencode({'application': 'team/web+1'})}"
    body = json.loads(as_operator.get(address).content)
    assert body["title"]
    assert body["api"].startswith("/api/v1/applications/team/web%2B1/")
    assert as_operator.get(body["api"]).status_code == 200


def test_figures_of_an_unknown_application_are_not_found(as_operator: Client) -> None:
    assert as_operator.get("/figures/scale-up/?application=x").status_code == 404


def test_prediction_errors_come_oldest_first() -> None:
    about = known()
    compared(about, ratio=1.2, at_s=200.0)
    compared(about, ratio=0.9, at_s=100.0)
    drifted(about, since_s=150.0)
    data = details.prediction_errors("web", Job.objects.all())
    assert data.ratio.tolist() == pytest.approx([0.9, 1.2])
    assert data.flagged_s == 150.0


def test_a_figure_needs_a_fixed_number_of_queries(
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    compared(known(), ratio=1.2, at_s=200.0)
    with django_assert_num_queries(2):
        details.interference("web")
    with django_assert_num_queries(5):
        details.prediction_errors("web", Job.objects.all())


# ---- neighbours ----


def test_neighbours_come_from_the_revision_in_force() -> None:
    factories.server(of=factories.platform("cr1.8xlarge", cores=32, rank=0))
    factories.server(of=factories.platform("m1.small", cores=1, rank=1))
    factories.library(("cr1.8xlarge", "m1.small"))
    about = factories.application("web")
    factories.profile(about, platforms=("cr1.8xlarge", "m1.small"))
    similar = details.similar_applications(details.profiled_application("web"))
    assert 0 < len(similar) <= details.MAX_NEIGHBOURS
    assert similar[0].neighbour.similarity >= similar[-1].neighbour.similarity > 0
    assert not similar[0].is_live
    assert similar[0].words.startswith(("both ", "alike "))


def test_without_a_revision_there_are_no_neighbours(as_operator: Client) -> None:
    known()
    page = as_operator.get("/applications/web/").content.decode()
    assert "No similar application" in page


# ---- other pages ----


def test_the_search_finds_applications(as_operator: Client) -> None:
    known("wordcount")
    results = json.loads(as_operator.get("/search/?q=wordc").content)["results"]
    assert {"name": "wordcount", "what": "application, latency critical"}.items() <= results[
        0
    ].items()
    response = as_operator.get("/go/?q=wordcount")
    assert response["Location"] == "/applications/wordcount/"


def test_a_job_links_to_its_application(as_operator: Client) -> None:
    job = factories.job(application=known(), state="running")
    page = as_operator.get(f"/jobs/{job.id}/").content.decode()
    assert 'href="/applications/web/"' in page
    assert 'href="/applications/web/"' in as_operator.get("/jobs/").content.decode()


def test_submit_distinguishes_profiled_from_new_applications(as_operator: Client) -> None:
    known("web")
    factories.application("new", kind="batch")
    page = as_operator.get("/submit/").content.decode()
    assert 'data-profile="1">latency_critical, profiled</option>' in page
    assert 'data-profile="">batch</option>' in page


def test_drift_needs_attention(as_operator: Client) -> None:
    factories.server()
    drifted(known())
    page = as_operator.get("/").content.decode()
    assert "Predictions for web have drifted" in page
    assert "24 % slower than predicted" in page


def test_a_failed_run_links_to_its_application(as_operator: Client) -> None:
    factories.server()
    factories.profiling_run(known("web"), state="failed")
    assert ProfilingRun.objects.count() == 1
    assert 'href="/applications/web/"' in as_operator.get("/").content.decode()
