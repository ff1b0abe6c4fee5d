"""Dry runs: what would happen, without anything happening."""

from threading import Barrier
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from rest_framework.test import APIClient

from apps.accounts.core.roles import Role
from apps.accounts.services import create_token, create_user, ensure_project
from apps.inventory.models import Server, ServerState
from apps.inventory.services import import_cluster, set_server_state
from apps.operations.models import Event, IdempotencyKey
from apps.scheduling.core.check import Checked
from apps.scheduling.models import Decision
from apps.scheduling.selectors import ClusterCopy
from apps.scheduling.services import check_job, commit
from apps.workloads.core.spec import parse_job
from apps.workloads.models import Application, Job
from tests import factories
from tests.scheduling.world import ME, at_once, build, claimed, cluster_of, proposal

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def cluster(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server of four units, on which "kmeans" runs at 100 MB/s a unit."""
    monkeypatch.setattr("apps.scheduling.services.check._COPY", ClusterCopy())
    factories.cluster()
    build("a")
    factories.profile(factories.application("kmeans"))


def asked(application: str = "kmeans", *, seconds: float = 100.0, **fields: Any) -> dict[str, Any]:
    """A job of 9 GB, in 100 s unless told otherwise."""
    target = {"kind": "completion_time", "seconds": seconds}
    return {"application": application, "target": target, "input_bytes": 9 * 10**9, **fields}


def checked(application: str = "kmeans", **fields: Any) -> Checked:
    return check_job(parse_job(asked(application, **fields)))


def test_a_known_application_is_sized_and_placed() -> None:
    found = checked()
    assert (found.outcome, found.feasible, found.units) == ("placed", True, 2)
    assert found.servers == ["a"]


def test_an_unknown_application_is_profiled_first_and_not_created() -> None:
    found = checked("never-seen")
    assert (found.outcome, found.feasible, found.reason) == (
        *("profiling", None, "WaitingForProfile"),
    )
    assert not Application.objects.filter(name="never-seen").exists()


def test_an_impossible_target_is_answered_with_a_possible_one() -> None:
    found = checked(seconds=1.0)
    assert (found.outcome, found.feasible, found.reason) == (
        *("infeasible", False, "InfeasibleTarget"),
    )
    (suggestion,) = found.suggestions
    assert checked(seconds=suggestion.target["seconds"]).outcome == "placed"


def test_the_answer_follows_what_others_take() -> None:
    assert checked().outcome == "placed"
    copy = ClusterCopy().follow()
    commit([proposal(claimed(), copy.topology, [0, 1, 2])], agent=ME)
    assert checked().outcome == "waits"


def test_the_answer_follows_servers_that_come_and_close() -> None:
    assert checked(seconds=20.0).outcome == "infeasible"  # five units
    import_cluster(cluster_of("b"))
    assert checked(seconds=20.0).outcome == "placed"
    set_server_state(server_id=Server.objects.get(name="b").id, state=ServerState.DRAINING)
    found = checked(seconds=20.0)
    assert (found.outcome, found.feasible, found.reason) == ("waits", True, "ServersClosed")


def test_a_platform_that_the_cluster_lacks_is_named_as_the_reason() -> None:
    found = checked(constraints={"platforms": ["Z"]})
    assert (found.outcome, found.reason) == ("infeasible", "NoMatchingServer")


@pytest.mark.parametrize("job", [asked(), asked("never-seen"), asked(seconds=1.0)])
def test_a_check_writes_nothing(job: dict[str, Any]) -> None:
    spec = parse_job(job)
    with CaptureQueriesContext(
        connection,
    ) as captured:
        check_job(spec)
    verbs = {query["sql"].lstrip().split()[0] for query in captured.captured_queries}
    assert verbs <= {"SELECT", "SAVEPOINT", "RELEASE"}


def test_a_check_after_another_reads_only_the_profile_and_the_log() -> None:
    spec = parse_job(asked())
    check_job(spec)
    with CaptureQueriesContext(connection) as captured:
        check_job(spec)
    assert len(captured) == 2


@pytest.mark.django_db(transaction=True)
def test_checks_at_once_do_not_disturb_each_other() -> None:
    barrier = Barrier(3)
    answers: list[str] = []

    def look() -> None:
        barrier.wait(timeout=10)
        answers.extend(checked().outcome for _ in range(5))

    assert at_once(look, look, look) == []
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
def test_a_job_can_be_tried_over_http(api: APIClient, url: str) -> None:
    before = written()
    response = api.post(url, asked())
    assert response.status_code == 200, response.content
    body = response.json()
    assert (body["dry_run"], body["known"], body["outcome"]) == (True, True, "placed")
    assert (body["units"], body["servers"]) == (2, ["a"])
    assert body["predicted"]["value"] == pytest.approx(50.0)
    assert written() == before


@pytest.mark.parametrize("url", ["/api/v1/checks/", "/api/v1/jobs/?dry_run=true"])
def test_what_nothing_meets_is_told_over_http(api: APIClient, url: str) -> None:
    body = api.post(url, asked(seconds=1.0)).json()
    assert (body["outcome"], body["feasible"]) == ("infeasible", False)
    assert body["suggestions"][0]["target"]["kind"] == "completion_time"


@pytest.mark.parametrize("url", ["/api/v1/checks/", "/api/v1/jobs/?dry_run=true"])
def test_an_unknown_application_can_be_tried_over_http(api: APIClient, url: str) -> None:
    before = written()
    body = api.post(url, asked("never-seen")).json()
    assert (body["known"], body["feasible"], body["units"]) == (False, None, None)
    assert written() == before


@pytest.mark.parametrize("url", ["/api/v1/checks/", "/api/v1/jobs/?dry_run=true"])
def test_a_malformed_job_is_refused_like_a_submission(api: APIClient, url: str) -> None:
    response = api.post(url, {"application": "kmeans"})
    assert response.status_code == api.post("/api/v1/jobs/", {"application": "kmeans"}).status_code
    assert response.status_code in {400, 422}


def test_a_dry_run_that_is_off_submits(api: APIClient) -> None:
    assert api.post("/api/v1/jobs/?dry_run=false", asked()).status_code == 201
    assert Job.objects.count() == 1


def test_a_dry_run_that_is_neither_on_nor_off_submits_nothing(api: APIClient) -> None:
    assert api.post("/api/v1/jobs/?dry_run=maybe", asked()).status_code == 400
    assert Job.objects.count() == 0


def test_nobody_tries_jobs_without_signing_in() -> None:
    assert APIClient().post("/api/v1/checks/", asked()).status_code == 401


def test_a_viewer_may_not_try_jobs(api: APIClient) -> None:
    user = create_user(username="vic", password=None, role=Role.VIEWER)
    secret = create_token(user=user, name="test").secret
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {secret}")
    submitted = client.post("/api/v1/jobs/", asked()).status_code
    assert client.post("/api/v1/checks/", asked()).status_code == submitted == 403
