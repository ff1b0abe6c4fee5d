"""Dry runs, in the service and over HTTP."""

import json
from threading import Barrier
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from rest_framework.test import APIClient

from apps.accounts.core.roles import Role
from apps.accounts.models import User
from apps.accounts.services import create_token, create_user, ensure_project
from apps.inventory.models import Server, ServerState
from apps.inventory.services import import_cluster, set_server_state
from apps.operations.models import Event, IdempotencyKey
from apps.scheduling.core.dry_run import DryRunResult
from apps.scheduling.models import Decision
from apps.scheduling.selectors import ClusterFollower
from apps.scheduling.services import check_job, commit
from apps.workloads.core.spec import parse_job
from apps.workloads.models import Application, Job
from tests import factories
from tests.scheduling.world import ME, at_once, build, claimed, cluster_of, proposal

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def cluster(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server of four units, on which "kmeans" runs at 100 MB/s a unit."""
    monkeypatch.setattr("apps.scheduling.services.dry_run._COPY", ClusterFollower())
    factories.cluster()
    build("a")
    factories.profile(factories.application("kmeans"))


def request_body(
    application: str = "kmeans", *, seconds: float = 100.0, **fields: Any
) -> dict[str, Any]:
    """A job of 9 GB, due in 100 s by default."""
    target = {"kind": "completion_time", "seconds": seconds}
    return {"application": application, "target": target, "input_bytes": 9 * 10**9, **fields}


def checked(application: str = "kmeans", **fields: Any) -> DryRunResult:
    return check_job(parse_job(request_body(application, **fields)))


def test_a_known_application_is_sized_and_placed() -> None:
    answer = checked()
    assert (answer.outcome, answer.feasible, answer.units) == ("placed", True, 2)
    assert answer.servers == ["a"]


def test_an_unknown_application_is_profiled_first_and_not_created() -> None:
    answer = checked("never-seen")
    assert (answer.outcome, answer.feasible, answer.reason) == (
        *("profiling", None, "WaitingForProfile"),
    )
    assert not Application.objects.filter(name="never-seen").exists()


def test_an_infeasible_target_gets_a_feasible_suggestion() -> None:
    answer = checked(seconds=1.0)
    assert (answer.outcome, answer.feasible, answer.reason) == (
        *("infeasible", False, "InfeasibleTarget"),
    )
    (suggestion,) = answer.suggestions
    assert checked(seconds=suggestion.target["seconds"]).outcome == "placed"


def test_the_outcome_reflects_other_allocations() -> None:
    assert checked().outcome == "placed"
    copy = ClusterFollower().follow()
    commit([proposal(claimed(), copy.topology, [0, 1, 2])], agent=ME)
    assert checked(gang=True).outcome == "waits"


def test_an_incremental_job_would_start_with_a_part_of_its_units() -> None:
    copy = ClusterFollower().follow()
    commit([proposal(claimed(), copy.topology, [0, 1, 2])], agent=ME)
    answer = checked()
    assert (answer.outcome, answer.units) == ("placed", 2)
    assert answer.summary == (
        "The job would start now: 1 of 2 units on 1 server, starting with a; "
        "the rest follows as units are freed."
    )


def test_the_outcome_reflects_new_and_closed_servers() -> None:
    assert checked(seconds=20.0).outcome == "infeasible"  # five units
    import_cluster(cluster_of("b"))
    assert checked(seconds=20.0).outcome == "placed"
    set_server_state(server_id=Server.objects.get(name="b").id, state=ServerState.DRAINING)
    answer = checked(seconds=20.0)
    assert (answer.outcome, answer.feasible, answer.reason) == ("waits", True, "ServersClosed")


def test_a_platform_that_the_cluster_lacks_is_named_as_the_reason() -> None:
    answer = checked(constraints={"platforms": ["Z"]})
    assert (answer.outcome, answer.reason) == ("infeasible", "NoMatchingServer")


@pytest.mark.parametrize(
    "job", [request_body(), request_body("never-seen"), request_body(seconds=1.0)]
)
def test_a_check_writes_nothing(job: dict[str, Any]) -> None:
    spec = parse_job(job)
    with CaptureQueriesContext(
        connection,
    ) as captured:
        check_job(spec)
    verbs = {query["sql"].lstrip().split()[0] for query in captured.captured_queries}
    assert verbs <= {"SELECT", "SAVEPOINT", "RELEASE"}


def test_a_second_check_reads_profile_policy_allowances_reservations_and_the_log_only() -> None:
    spec = parse_job(request_body())
    check_job(spec)
    with CaptureQueriesContext(connection) as captured:
        check_job(spec)
    assert len(captured) == 5


@pytest.mark.django_db(transaction=True)
def test_concurrent_checks_are_independent() -> None:
    barrier = Barrier(3)
    answers: list[str] = []

    def check() -> None:
        barrier.wait(timeout=10)
        answers.extend(checked().outcome for _ in range(5))

    assert at_once(check, check, check) == []
    assert answers == ["placed"] * 15


# ---- over HTTP ----


@pytest.fixture
def api(settings: Any) -> APIClient:
    """A submitter's client."""
    settings.BERTH_RATES = {}
    ensure_project("default")
    user = create_user(username="sue", password=None, role=Role.SUBMITTER)
    client = APIClient()
    secret = create_token(user=user, name="test").secret
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {secret}")
    return client


def written() -> tuple[int, ...]:
    tables = (Job, Application, Decision, Event, IdempotencyKey)
    return tuple(table.objects.count() for table in tables)


@pytest.mark.parametrize("url", ["/api/v1/checks/", "/api/v1/jobs/?dry_run=true"])
def test_a_dry_run_over_http_returns_the_placement(api: APIClient, url: str) -> None:
    before = written()
    response = api.post(url, request_body())
    assert response.status_code == 200, response.content
    body = response.json()
    assert (body["dry_run"], body["known"], body["outcome"]) == (True, True, "placed")
    assert (body["units"], body["servers"]) == (2, ["a"])
    assert body["predicted"]["value"] == pytest.approx(50.0)
    assert written() == before


@pytest.mark.parametrize("url", ["/api/v1/checks/", "/api/v1/jobs/?dry_run=true"])
def test_an_infeasible_target_is_reported_over_http(api: APIClient, url: str) -> None:
    body = api.post(url, request_body(seconds=1.0)).json()
    assert (body["outcome"], body["feasible"]) == ("infeasible", False)
    assert body["suggestions"][0]["target"]["kind"] == "completion_time"


def test_best_effort_has_one_prediction_in_the_answer_and_in_the_figure(
    api: APIClient, client: Client
) -> None:
    job = request_body() | {"target": {"kind": "best_effort"}}
    predicted = api.post("/api/v1/checks/", job).json()["predicted"]
    assert 3600 * predicted["value"] == pytest.approx(36.0)  # 90 MB/s of 9 GB
    client.force_login(User.objects.get(username="sue"))
    figure = client.get("/figures/feasibility/", {"spec": json.dumps(job)}).json()
    assert figure["title"] == "1 unit would reach 36.0 of the work per hour"


@pytest.mark.parametrize("url", ["/api/v1/checks/", "/api/v1/jobs/?dry_run=true"])
def test_a_dry_run_of_a_new_application_works_over_http(api: APIClient, url: str) -> None:
    before = written()
    body = api.post(url, request_body("never-seen")).json()
    assert (body["known"], body["feasible"], body["units"]) == (False, None, None)
    assert written() == before


def test_a_check_of_an_array_counts_its_members_and_writes_nothing(api: APIClient) -> None:
    before = written()
    array = {"indexes": "0-9:2,20", "limit": 3}
    body = api.post("/api/v1/checks/", {"spec": request_body(), "array": array}).json()
    assert (body["members"], body["outcome"], body["units"]) == (6, "placed", 2)
    assert api.post("/api/v1/checks/", request_body()).json()["members"] is None
    assert written() == before


def test_a_check_of_an_array_reports_the_problems_of_the_job_and_of_the_array(
    api: APIClient,
) -> None:
    array = {"indexes": "5-1", "limit": 0}
    response = api.post("/api/v1/checks/", {"spec": request_body(seconds=-1.0), "array": array})
    assert response.status_code == 422
    assert [each["pointer"] for each in response.json()["errors"]] == [
        *("/array/indexes", "/array/limit", "/spec/target/seconds"),
    ]


@pytest.mark.parametrize("url", ["/api/v1/checks/", "/api/v1/jobs/"])
def test_constraints_that_no_server_matches_get_a_warning(api: APIClient, url: str) -> None:
    (server,) = Server.objects.all()
    Server.objects.update(labels={"disk": "ssd"})
    constraints = {
        "excluded": ["a", "srv-a"],
        "platforms": [server.platform.name, "zz"],
        "labels": {"disk": "ssd", "gpu": "yes"},
    }
    assert api.post(url, request_body() | {"constraints": constraints}).json()["warnings"] == [
        "No server has the platform 'zz'.",
        "No server has the label gpu=yes.",
        "There is no server 'srv-a' to exclude.",
    ]
    assert api.post(url, request_body()).json()["warnings"] == []


def test_a_dry_run_of_a_job_accepts_no_array_as_its_submission(api: APIClient) -> None:
    body = {"spec": request_body(), "array": {"size": 2}}
    submitted = api.post("/api/v1/jobs/", body).json()["errors"]
    assert api.post("/api/v1/jobs/?dry_run=true", body).json()["errors"] == submitted


@pytest.mark.parametrize("url", ["/api/v1/checks/", "/api/v1/jobs/?dry_run=true"])
def test_a_malformed_job_is_refused_like_a_submission(api: APIClient, url: str) -> None:
    response = api.post(url, {"application": "kmeans"})
    assert response.status_code == api.post("/api/v1/jobs/", {"application": "kmeans"}).status_code
    assert response.status_code in {400, 422}


def test_a_dry_run_that_is_off_submits(api: APIClient) -> None:
    assert api.post("/api/v1/jobs/?dry_run=false", request_body()).status_code == 201
    assert Job.objects.count() == 1


def test_an_invalid_dry_run_flag_submits_nothing(api: APIClient) -> None:
    assert api.post("/api/v1/jobs/?dry_run=maybe", request_body()).status_code == 400
    assert Job.objects.count() == 0


def test_a_dry_run_requires_authentication() -> None:
    assert APIClient().post("/api/v1/checks/", request_body()).status_code == 401


def test_a_viewer_may_not_run_a_dry_run(api: APIClient) -> None:
    user = create_user(username="vic", password=None, role=Role.VIEWER)
    secret = create_token(user=user, name="test").secret
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {secret}")
    submitted = client.post("/api/v1/jobs/", request_body()).status_code
    assert client.post("/api/v1/checks/", request_body()).status_code == submitted == 403
