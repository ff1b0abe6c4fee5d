"""Requests with an Idempotency-Key run once, even if repeated or concurrent."""

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection, connections
from rest_framework.test import APIClient

from apps.accounts.core.roles import Role
from apps.accounts.models import Project
from apps.accounts.services import create_token, create_user, ensure_project
from apps.operations.models import Event, IdempotencyKey
from apps.workloads.models import Job
from tests.api.samples import short

URL = "/api/v1/jobs/"
WRITERS = 8


def test_a_repeat_gets_the_first_answer(api: APIClient) -> None:
    first = api.post(URL, short(), HTTP_IDEMPOTENCY_KEY="k1")
    again = api.post(URL, short(), HTTP_IDEMPOTENCY_KEY="k1")
    assert again.status_code == 201
    assert again.json() == first.json()
    assert again["Location"] == first["Location"]
    assert again["Idempotency-Replayed"] == "true"
    assert not first.has_header("Idempotency-Replayed")
    assert Job.objects.count() == 1


def test_the_first_answer_is_given_whatever_became_of_the_job(api: APIClient) -> None:
    first = api.post(URL, short(), HTTP_IDEMPOTENCY_KEY="k1")
    api.post(f"{first['Location']}cancel/")
    again = api.post(URL, short(), HTTP_IDEMPOTENCY_KEY="k1")
    assert again.json()["status"]["state"] == "submitted"


def test_key_order_and_white_space_make_no_other_body(api: APIClient) -> None:
    api.post(URL, '{"application": "a", "target": {"kind": "best_effort"}}',
             content_type="application/json", HTTP_IDEMPOTENCY_KEY="k1")  # fmt: skip
    again = api.post(URL, '{"target":{"kind":"best_effort"},"application":"a"}',
                     content_type="application/json", HTTP_IDEMPOTENCY_KEY="k1")  # fmt: skip
    assert again["Idempotency-Replayed"] == "true"


def test_a_key_creates_one_application(api: APIClient) -> None:
    url, body = "/api/v1/applications/", {"name": "new", "kind": "batch"}
    first, again = (api.post(url, body, HTTP_IDEMPOTENCY_KEY="k1") for _ in range(2))
    assert (first.status_code, again.status_code) == (201, 201)
    assert first.json() == again.json()
    assert first["ETag"] == again["ETag"] == '"g1"'
    assert again["Idempotency-Replayed"] == "true"


def test_another_body_under_the_same_key_is_refused(api: APIClient) -> None:
    api.post(URL, short(), HTTP_IDEMPOTENCY_KEY="k1")
    other = api.post(URL, short(tasks=2), HTTP_IDEMPOTENCY_KEY="k1")
    assert (other.status_code, other.json()["code"]) == (422, "key_reused")
    assert Job.objects.count() == 1


def test_keys_of_two_callers_are_two_keys(api: APIClient, project: Project) -> None:
    other = APIClient()
    user = create_user(username="other", password=None, role=Role.SUBMITTER)
    other.credentials(HTTP_AUTHORIZATION=f"Bearer {create_token(user=user, name='t').secret}")
    api.post(URL, short(), HTTP_IDEMPOTENCY_KEY="k1")
    assert other.post(URL, short(), HTTP_IDEMPOTENCY_KEY="k1").status_code == 201
    assert Job.objects.count() == 2


def test_a_wrong_request_does_not_use_its_key_up(api: APIClient) -> None:
    api.post(URL, short(tasks=0), HTTP_IDEMPOTENCY_KEY="k1")
    assert api.post(URL, short(), HTTP_IDEMPOTENCY_KEY="k1").status_code == 201


@pytest.mark.parametrize("key", ["", " ", "x" * 201, "\u00e9"])
def test_a_malformed_key_is_refused(api: APIClient, key: str) -> None:
    response = api.post(URL, short(), HTTP_IDEMPOTENCY_KEY=key)
    assert (response.status_code, response.json()["code"]) == (400, "malformed_request")


def test_a_key_belongs_to_the_whole_of_a_long_address(root: APIClient) -> None:
    names = [f"{'x' * 90}{end}" for end in "ab"]
    for name in names:
        create_user(username=name, password="p", role=Role.VIEWER)  # noqa: S106 - for the test
    first, other, again = (
        root.post(f"/api/v1/users/{name}/reset-password/", HTTP_IDEMPOTENCY_KEY="k")
        for name in (*names, names[0])
    )
    assert [r.headers.get("Idempotency-Replayed") for r in (first, other)] == [None, None]
    assert (first.json(), again["Idempotency-Replayed"]) == (again.json(), "true")


@pytest.fixture
def secret(transactional_db: None) -> str:
    ensure_project("default")
    user = create_user(username="racer", password=None, role=Role.SUBMITTER)
    return create_token(user=user, name="race").secret


def post_at_once(secret: str, key: str) -> list[tuple[int, str | None, str]]:
    """Send the same request from many connections at the same moment: (status, replayed, job)."""
    start = threading.Barrier(WRITERS)

    def post(_: int) -> tuple[int, str | None, str]:
        client = APIClient()
        client.credentials(HTTP_AUTHORIZATION=f"Bearer {secret}")
        start.wait(10)
        try:
            response = client.post(URL, short(), HTTP_IDEMPOTENCY_KEY=key)
        finally:
            connections.close_all()
        body = response.json()
        return (
            response.status_code,
            response.headers.get("Idempotency-Replayed"),
            body.get("metadata", {}).get("id", body.get("code")),
        )

    with ThreadPoolExecutor(WRITERS) as pool:
        return list(pool.map(post, range(WRITERS)))


@pytest.mark.parametrize("key", ["race-1", "race-2", "race-3"])
def test_simultaneous_requests_with_one_key_make_one_job(secret: str, key: str) -> None:
    answers = post_at_once(secret, key)
    assert Counter((status, replayed) for status, replayed, _ in answers) == {
        (201, None): 1,
        (201, "true"): WRITERS - 1,
    }
    assert len({job for _, _, job in answers}) == 1
    assert (Job.objects.count(), IdempotencyKey.objects.count()) == (1, 1)
    assert Event.objects.filter(kind="job.submitted").count() == 1


def test_a_key_whose_request_hangs_is_answered_with_retry_after(secret: str) -> None:
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {secret}")
    client.post(URL, short(), HTTP_IDEMPOTENCY_KEY="slow")
    answers: list[tuple[int, str, str | None]] = []

    def post() -> None:
        response = client.post(URL, short(), HTTP_IDEMPOTENCY_KEY="slow-2")
        code = str(response.json().get("code"))
        answers.append((response.status_code, code, response.headers.get("Retry-After")))
        connections.close_all()

    # Another transaction has inserted the key and does not end: copy the row under the second key.
    connection.set_autocommit(False)
    try:
        row = IdempotencyKey.objects.get(key="slow")
        row.pk, row.key = Job.objects.values_list("id", flat=True).get(), "slow-2"
        row.save(force_insert=True)
        thread = threading.Thread(target=post)
        thread.start()
        thread.join(20)
    finally:
        connection.rollback()
        connection.set_autocommit(True)
    assert answers == [(409, "key_in_flight", "1")]
