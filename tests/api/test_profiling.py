"""REST API of profiling runs: request, progress and cancellation."""

from typing import Any

import pytest
from pytest_django import DjangoAssertNumQueries
from rest_framework.test import APIClient

from apps.accounts.models import Project, User
from apps.operations.models import Event, Operation
from apps.profiling.core.measurements import MissingCell, ProfilingStep
from apps.profiling.models import ProfilingRun
from apps.profiling.services import record_begun, record_done, record_progress
from tests import factories
from tests.api.conftest import Speak
from tests.api.schema import check_answer

URL = "/api/v1/applications/sort/profiling-runs/"


@pytest.fixture
def sort(db: None) -> None:
    """An application, and a cluster of two platforms to profile it on."""
    factories.cluster(seen_cluster_s=500.0)
    for name in ("best", "other"):
        factories.server(of=factories.platform(name, cores=8))
    factories.application("sort", kind="batch")


@pytest.mark.usefixtures("sort")
def test_a_run_is_asked_for_and_followed(api: APIClient, submitter: User) -> None:
    response = api.post(URL, {"reason": "new version"})
    body = response.json()
    run = ProfilingRun.objects.get()
    assert response.status_code == 202
    assert response["Location"] == f"/api/v1/operations/{run.operation_id}/"
    assert (body["id"], body["state"], body["reason"]) == (str(run.pk), "queued", "new version")
    assert (body["progress"], body["total"]) == (0, 7)  # three runs, four sources
    assert (body["budget_seconds"], body["expected_seconds"]) == (45.0, 44.0)
    assert body["result"] is None
    operation = api.get(response["Location"]).json()
    assert (operation["kind"], operation["status"]) == ("profiling", "pending")
    assert operation["message"] == "sort waits for a backend"
    assert Operation.objects.get().created_by == submitter
    assert Event.objects.get().kind == "operation.created"


@pytest.mark.usefixtures("sort")
def test_a_body_is_not_needed_and_the_answer_is_what_the_schema_says(api: APIClient) -> None:
    response = api.post(URL)
    assert response.status_code == 202
    check_answer("/api/v1/applications/{key}/profiling-runs/", "post", 202, response.json())


@pytest.mark.usefixtures("sort")
def test_a_second_run_is_refused_and_the_first_named(api: APIClient) -> None:
    first = api.post(URL).json()
    response = api.post(URL)
    assert (response.status_code, response.json()["code"]) == (409, "state_conflict")
    assert first["id"] in response.json()["detail"]
    assert ProfilingRun.objects.count() == 1


@pytest.mark.usefixtures("sort")
def test_a_repeated_key_requests_one_run(api: APIClient) -> None:
    first = api.post(URL, HTTP_IDEMPOTENCY_KEY="k1")
    again = api.post(URL, HTTP_IDEMPOTENCY_KEY="k1")
    assert again.json() == first.json()
    assert (again["Idempotency-Replayed"], again["Location"]) == ("true", first["Location"])
    assert ProfilingRun.objects.count() == 1


@pytest.mark.parametrize(
    ("body", "pointer"), [({"reason": "x" * 201}, "/reason"), ({"budget": 5}, "/budget")]
)
@pytest.mark.usefixtures("sort")
def test_an_invalid_request_is_refused(api: APIClient, body: dict[str, Any], pointer: str) -> None:
    response = api.post(URL, body)
    assert response.status_code == 422
    assert [error["pointer"] for error in response.json()["errors"]] == [pointer]


def test_without_servers_nothing_can_be_measured(api: APIClient) -> None:
    factories.application("sort", kind="batch")
    response = api.post(URL)
    assert response.status_code == 409
    assert "a cluster that has servers" in response.json()["detail"]


@pytest.mark.usefixtures("sort")
def test_an_unknown_application_is_not_found(api: APIClient) -> None:
    assert api.post("/api/v1/applications/unheard/profiling-runs/").status_code == 404


@pytest.mark.usefixtures("sort")
def test_a_viewer_can_read_but_not_request_runs(viewer: User, as_user: Speak) -> None:
    speaking = as_user(viewer)
    assert speaking.post(URL).status_code == 403
    assert speaking.get(URL).status_code == 200


@pytest.mark.usefixtures("sort")
def test_a_running_run_has_its_progress(api: APIClient) -> None:
    run_id = api.post(URL).json()["id"]
    run = ProfilingRun.objects.get()
    ProfilingRun.objects.update(state="running", attempts=1)
    record_begun([run.pk])
    record_progress({run.pk: ProfilingStep(30.0, 3, 6, "tlb: tolerated 40 ± 0.5")})
    body = api.get(f"/api/v1/profiling-runs/{run_id}/").json()
    assert (body["progress"], body["total"], body["message"]) == (3, 6, "tlb: tolerated 40 ± 0.5")
    operation = api.get(f"/api/v1/operations/{run.operation_id}/").json()
    assert (operation["status"], operation["progress"]) == ("running", 3)


@pytest.mark.usefixtures("sort")
def test_a_finished_run_has_its_results(api: APIClient) -> None:
    run_id = api.post(URL).json()["id"]
    run = ProfilingRun.objects.get()
    ProfilingRun.objects.update(state="done")
    record_done(run.pk, seconds=41.26, missing=[MissingCell("caused", "tlb", "it died")])
    body = api.get(f"/api/v1/profiling-runs/{run_id}/").json()
    gap = {"matrix": "caused", "column": "tlb", "reason": "it died"}
    assert body["result"] == {"cells": 0, "seconds": 41.3, "missing": [gap]}
    operation = api.get(f"/api/v1/operations/{run.operation_id}/").json()
    assert (operation["status"], operation["result"]) == ("succeeded", body["result"])
    assert operation["progress"] == operation["total"]


@pytest.mark.usefixtures("sort")
def test_a_run_that_waits_is_cancelled_at_its_operation(api: APIClient) -> None:
    operation = api.post(URL)["Location"]
    assert api.post(f"{operation}cancel/").json()["status"] == "cancelled"


@pytest.mark.usefixtures("sort")
def test_runs_are_listed_by_state_and_application(api: APIClient) -> None:
    about, other = factories.application("grep"), factories.application("join")
    factories.profiling_run(about, state="done")
    factories.profiling_run(other, state="failed")
    factories.profiling_run(other, state="queued")

    def listed(query: str) -> list[tuple[str, str]]:
        rows = api.get(f"/api/v1/profiling-runs/?{query}").json()["results"]
        return [(row["application"], row["state"]) for row in rows]

    assert listed("state=done") == [("grep", "done")]
    assert listed("state__in=failed,queued") == [("join", "queued"), ("join", "failed")]
    assert listed("application=grep") == [("grep", "done")]
    failed_runs = api.get("/api/v1/applications/join/profiling-runs/?state=failed").json()[
        "results"
    ]
    assert [row["state"] for row in failed_runs] == ["failed"]
    assert api.get("/api/v1/profiling-runs/?state=lost").status_code == 400


@pytest.mark.usefixtures("sort")
def test_a_page_of_runs_takes_two_queries(
    api: APIClient, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    for _ in range(3):
        factories.profiling_run(factories.application(), state="done")
    with django_assert_num_queries(2):
        assert len(api.get("/api/v1/profiling-runs/").json()["results"]) == 3


def test_a_run_nobody_asked_for_is_not_found(api: APIClient) -> None:
    nobody = "00000000-0000-7000-8000-000000000000"
    assert api.get(f"/api/v1/profiling-runs/{nobody}/").status_code == 404


def test_another_projects_run_shows_its_state_and_none_of_its_texts(
    project: Project, viewer: User, stranger: User, as_user: Speak
) -> None:
    about = factories.application("xz")
    operation = Operation.objects.create(
        kind="profiling", status="running", total=4, progress=1, message="1 of 4 stressors"
    )
    of_project = {"project_id": project.pk, "reason": "of a job"}
    factories.profiling_run(
        about, **of_project, state="failed", message="exit code 1: no train.py"
    )
    factories.profiling_run(about, **of_project, state="running", operation=operation)
    assert texts_for(as_user(viewer)) == [
        ("running", str(operation.pk), "of a job", 1, "1 of 4 stressors"),
        ("failed", None, "of a job", None, "exit code 1: no train.py"),
    ]
    assert texts_for(as_user(stranger)) == [
        ("running", None, None, None, ""),
        ("failed", None, None, None, "The command could not be profiled."),
    ]


def texts_for(api: APIClient) -> list[Any]:
    """Return what a caller gets of each run; a single run reads like its row of the list."""
    rows = api.get("/api/v1/profiling-runs/").json()["results"]
    assert [api.get(f"/api/v1/profiling-runs/{row['id']}/").json() for row in rows] == rows
    assert api.get("/api/v1/applications/xz/profiling-runs/").json()["results"] == rows
    names = ("state", "operation", "reason", "progress", "message")
    return [tuple(row[name] for name in names) for row in rows]
