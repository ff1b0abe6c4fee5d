"""Events, the long poll and operations over REST."""

import threading
import time
from collections.abc import Callable
from types import SimpleNamespace

import pytest
from django.db import connections
from django.utils import timezone
from rest_framework.test import APIClient

from apps.accounts.core.roles import Role
from apps.accounts.models import Membership, Project, Token, User
from apps.accounts.services import create_token, create_user, ensure_project
from apps.operations.models import Event
from apps.operations.services import NewEvent, begin_operation, claim_operation, record_events
from tests.api.conftest import Speak
from tests.api.samples import submitted

CHANGES = "/api/v1/changes/"


def test_events_are_listed_newest_first_and_filtered(api: APIClient) -> None:
    job = submitted(api)
    api.post(f"/api/v1/jobs/{job}/cancel/")
    submitted(api)
    events = api.get(f"/api/v1/events/?subject={job}").json()["results"]
    assert [event["kind"] for event in events] == ["job.cancelled", "job.submitted"]
    later = api.get(f"/api/v1/events/?id__gt={events[0]['id']}").json()["results"]
    assert [event["kind"] for event in later] == ["job.submitted"]


def test_events_of_other_projects_are_not_shown(
    api: APIClient, stranger: User, as_user: Speak
) -> None:
    submitted(api)
    assert as_user(stranger).get("/api/v1/events/").json()["results"] == []
    assert as_user(stranger).get(f"{CHANGES}?since=0").json()["results"] == []


def test_changes_go_on_from_a_position(api: APIClient) -> None:
    start = api.get(CHANGES).json()
    submitted(api)
    first = api.get(f"{CHANGES}?since={start['position']}").json()
    again = api.get(f"{CHANGES}?since={first['position']}").json()
    assert start["results"] == []
    assert [event["kind"] for event in first["results"]] == ["job.submitted"]
    assert (again["results"], again["position"]) == ([], first["position"])


def test_a_position_of_a_newer_database_goes_on_from_now(api: APIClient) -> None:
    submitted(api)
    ahead = api.get(CHANGES).json()["position"] + 1_000_000
    position = api.get(f"{CHANGES}?since={ahead}").json()["position"]
    submitted(api)
    assert len(api.get(f"{CHANGES}?since={position}").json()["results"]) == 1


def test_a_deleted_position_is_gone(api: APIClient) -> None:
    submitted(api)
    submitted(api)
    last = Event.objects.order_by("-seq").first()
    assert last is not None
    Event.objects.exclude(pk=last.pk).delete()
    response = api.get(f"{CHANGES}?since={max(0, last.pk - 2)}")
    assert (response.status_code, response.json()["code"]) == (410, "stream_position_gone")
    assert response.json()["position"] == last.pk


def test_a_position_before_the_last_event_of_an_emptied_log_is_gone(api: APIClient) -> None:
    submitted(api)
    submitted(api)
    first, *_, last = Event.objects.order_by("seq").values_list("seq", flat=True)
    Event.objects.all().delete()
    response = api.get(f"{CHANGES}?since={first}")
    assert (response.status_code, response.json()["code"]) == (410, "stream_position_gone")
    assert response.json()["position"] == last


@pytest.mark.parametrize("since", ["", "?since={last}", "?since=0", "?since={later}"])
def test_other_positions_of_an_emptied_log_go_on(api: APIClient, since: str) -> None:
    submitted(api)
    last = Event.objects.latest("seq").seq
    Event.objects.all().delete()
    page = api.get(CHANGES + since.format(last=last, later=last + 1_000_000)).json()
    assert page["results"] == []
    submitted(api)
    after = api.get(f"{CHANGES}?since={page['position']}").json()["results"]
    assert [event["kind"] for event in after] == ["job.submitted"]


@pytest.mark.parametrize("query", ["wait=31", "since=-1", "limit=0", "topics=weather", "sinc=1"])
def test_impossible_waits_are_refused(api: APIClient, query: str) -> None:
    assert api.get(f"{CHANGES}?{query}").status_code == 400


def test_the_topics_asked_for_are_the_ones_told(api: APIClient) -> None:
    submitted(api)
    record_events([NewEvent(topic="servers", kind="server.updated", subject="1")])
    first = Event.objects.order_by("seq").values_list("seq", flat=True)[0]
    page = api.get(f"{CHANGES}?since={first - 1}&topics=servers").json()
    assert [event["topic"] for event in page["results"]] == ["servers"]


@pytest.mark.django_db(transaction=True)
def test_a_waiting_request_is_answered_as_soon_as_something_happens() -> None:
    ensure_project("default")
    user = create_user(username="waiter", password=None, role=Role.OPERATOR)
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {create_token(user=user, name='t').secret}")
    position = client.get(CHANGES).json()["position"]

    def later() -> None:
        time.sleep(0.4)
        record_events([NewEvent(topic="jobs", kind="job.updated", subject="x")])
        connections.close_all()

    thread = threading.Thread(target=later)
    thread.start()
    began = time.monotonic()
    page = client.get(f"{CHANGES}?since={position}&wait=20").json()
    thread.join()
    assert [event["subject"] for event in page["results"]] == ["x"]
    assert time.monotonic() - began < 5


def revoke_all() -> None:
    Token.objects.update(revoked_at=timezone.now())


def leave_all_projects() -> None:
    Membership.objects.all().delete()


@pytest.mark.parametrize(
    ("change", "status", "count"), [(revoke_all, 401, None), (leave_all_projects, 200, 0)]
)
def test_rights_that_end_during_a_wait_end_its_answer(
    api: APIClient,
    project: Project,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[], None],
    status: int,
    count: int | None,
) -> None:
    position = api.get(CHANGES).json()["position"]

    def change_and_tell(seconds: float) -> None:
        change()
        event = NewEvent(topic="jobs", kind="job.updated", subject="x", project_id=project.pk)
        record_events([event])

    clock = iter([0.0, 0.0, 99.0])  # begin; before the wait; after it, when the time is over
    waiting = SimpleNamespace(sleep=change_and_tell, monotonic=lambda: next(clock))
    monkeypatch.setattr("apps.operations.api.views.time", waiting)
    response = api.get(f"{CHANGES}?since={position}&wait=20")
    assert response.status_code == status
    assert len(response.json().get("results", [])) == (count or 0)


def test_without_a_stream_server_the_long_poll_is_named(api: APIClient) -> None:
    response = api.get("/api/v1/stream/")
    assert response.status_code == 503
    assert "/api/v1/changes/" in response.json()["detail"]


def test_an_operation_is_cancelled_by_its_requester(
    api: APIClient, submitter: User, stranger: User, as_user: Speak
) -> None:
    operation = begin_operation(kind="test", created_by=submitter.pk)
    url = f"/api/v1/operations/{operation.pk}/"
    assert as_user(stranger).get(url).status_code == 404
    assert api.post(f"{url}cancel/", HTTP_IF_MATCH='"g9"').status_code == 412
    assert api.post(f"{url}cancel/").json()["status"] == "cancelled"
    assert api.post(f"{url}cancel/").status_code == 409


def test_a_running_operation_is_asked_to_stop(api: APIClient, submitter: User) -> None:
    operation = begin_operation(kind="test", created_by=submitter.pk)
    claim_operation(operation.pk)
    body = api.post(f"/api/v1/operations/{operation.pk}/cancel/").json()
    assert (body["status"], body["cancel_requested"]) == ("running", True)
