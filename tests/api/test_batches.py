"""Many jobs in one request."""

import gzip
import json
from typing import Any

import pytest
from pytest_django import DjangoAssertNumQueries
from rest_framework.test import APIClient

from apps.accounts.models import User
from apps.accounts.services import ensure_project, join_project
from apps.workloads.models import Batch, Job
from tests.api.conftest import Speak
from tests.api.samples import send_raw, short

URL = "/api/v1/batches/"


def items_of(api: APIClient, batch: dict[str, Any]) -> list[dict[str, Any]]:
    results: list[dict[str, Any]] = api.get(f"{URL}{batch['id']}/items/").json()["results"]
    return results


def test_independent_items_succeed_or_fail_each_for_itself(api: APIClient) -> None:
    response = api.post(URL, {"items": [short(name="a"), short(tasks=0), short(name="c")]})
    body = response.json()
    assert response.status_code == 202
    assert (body["total"], body["accepted"], body["rejected"]) == (3, 2, 1)
    items = items_of(api, body)
    assert [item["status"] for item in items] == ["accepted", "rejected", "accepted"]
    assert items[1]["problem"]["errors"][0]["pointer"] == "/items/1/tasks"
    assert list(Job.objects.order_by("name").values_list("name", flat=True)) == ["a", "c"]


def test_the_answer_points_at_an_operation_that_is_done(api: APIClient) -> None:
    response = api.post(URL, {"items": [short()]})
    operation = api.get(response["Location"]).json()
    assert (operation["kind"], operation["status"]) == ("batch.submit", "succeeded")
    assert operation["result"] == {
        "batch": response.json()["id"],
        "accepted": 1,
        "rejected": 0,
    }


def test_atomic_batches_are_taken_whole_or_not_at_all(api: APIClient) -> None:
    items = [short(), short(tasks=0)]
    refused = api.post(URL, {"items": items, "mode": "atomic"})
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["pointer"] == "/items/1/tasks"
    assert (Job.objects.count(), Batch.objects.count()) == (0, 0)


def test_defaults_fill_what_items_leave_out(api: APIClient) -> None:
    body = {
        "defaults": {"application": "d", "target": {"kind": "best_effort"}, "tasks": 3},
        "items": [{}, {"tasks": 5}],
    }
    assert api.post(URL, body).json()["accepted"] == 2
    assert sorted(Job.objects.values_list("tasks_total", flat=True)) == [3, 5]


def test_lines_of_json_may_come_gzipped(api: APIClient) -> None:
    lines = gzip.compress(b"\n".join(json.dumps(short(name=n)).encode() for n in ("a", "b")))
    response = send_raw(
        api, URL, lines, content_type="application/x-ndjson", HTTP_CONTENT_ENCODING="gzip"
    )
    assert response.json()["accepted"] == 2


def test_a_broken_line_is_named(api: APIClient) -> None:
    lines = json.dumps(short()).encode() + b"\n{broken\n"
    response = send_raw(api, URL, lines, content_type="application/x-ndjson")
    assert (response.status_code, response.json()["code"]) == (400, "malformed_json")
    assert "line 2" in response.json()["detail"]


def test_damaged_gzip_is_refused(api: APIClient) -> None:
    response = send_raw(
        api, URL, b"no gzip", content_type="application/json", HTTP_CONTENT_ENCODING="gzip"
    )
    assert response.json()["code"] == "malformed_request"


def test_a_gzip_bomb_is_refused(api: APIClient) -> None:
    bomb = gzip.compress(b" " * (33 << 20))
    response = send_raw(
        api, URL, bomb, content_type="application/json", HTTP_CONTENT_ENCODING="gzip"
    )
    assert (response.status_code, response.json()["code"]) == (413, "body_too_large")


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, "/items"),
        ({"items": []}, "/items"),
        ({"items": {}}, "/items"),
        ({"items": [{}], "mode": "some"}, "/mode"),
        ({"items": [{}], "default": {}}, "/default"),
        ({"items": [{}], "project": "elsewhere"}, "/project"),
    ],
)
def test_a_wrong_envelope_is_refused(api: APIClient, body: dict[str, Any], pointer: str) -> None:
    response = api.post(URL, body)
    assert response.status_code == 422
    assert response.json()["errors"][0]["pointer"] == pointer


def test_too_many_items_are_refused(api: APIClient) -> None:
    response = api.post(URL, {"items": [{}] * 10_001})
    assert "10,001" in response.json()["errors"][0]["detail"]


def test_a_batch_goes_to_one_project(api: APIClient) -> None:
    body = api.post(URL, {"items": [short(), short(project="elsewhere")]}).json()
    assert (body["accepted"], body["rejected"]) == (1, 1)


def test_an_item_whose_client_id_was_used_names_the_first_job(api: APIClient) -> None:
    first = api.post(URL, {"items": [short(client_id="i1")]}).json()
    again = api.post(URL, {"items": [short(client_id="i1"), short(client_id="i2")]}).json()
    items = items_of(api, again)
    assert [item["status"] for item in items] == ["replayed", "accepted"]
    assert items[0]["job"] == items_of(api, first)[0]["job"]
    assert (again["accepted"], again["replayed"], Job.objects.count()) == (2, 1, 2)


def test_a_client_id_used_for_another_job_is_refused(api: APIClient) -> None:
    api.post(URL, {"items": [short(client_id="i1")]})
    again = api.post(URL, {"items": [short(client_id="i1", tasks=9)]}).json()
    item = items_of(api, again)[0]
    assert (item["status"], item["problem"]["errors"][0]["code"]) == ("rejected", "key_reused")


def test_a_client_id_of_other_defaults_or_another_project_is_refused(
    api: APIClient, submitter: User
) -> None:
    join_project(user=submitter, project=ensure_project("other"))
    first = {"items": [short(client_id="i1")], "project": "default", "defaults": {"tasks": 2}}
    for change in ({}, {"defaults": {"tasks": 9}}, {"project": "other"}):
        body = api.post(URL, {**first, **change}).json()
        item = items_of(api, body)[0]
        expected = ("accepted", 1) if change == {} else ("rejected", 0)
        assert (item["status"], body["accepted"]) == expected, change
    again = api.post(URL, first).json()
    assert (items_of(api, again)[0]["status"], Job.objects.count()) == ("replayed", 1)


def test_two_items_cannot_share_a_client_id(api: APIClient) -> None:
    body = api.post(URL, {"items": [short(client_id="i"), short(client_id="i")]}).json()
    assert (body["accepted"], body["rejected"]) == (1, 1)


def test_a_repeated_batch_makes_no_second_one(api: APIClient) -> None:
    body = {"items": [short(), short()]}
    first = api.post(URL, body, HTTP_IDEMPOTENCY_KEY="b1")
    again = api.post(URL, body, HTTP_IDEMPOTENCY_KEY="b1")
    assert again.json() == first.json()
    assert (Batch.objects.count(), Job.objects.count()) == (1, 2)


def test_the_number_of_queries_does_not_grow_with_the_batch(
    api: APIClient, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    api.post(URL, {"items": [short()]})
    with django_assert_num_queries(10):
        assert api.post(URL, {"items": [short()] * 500}).json()["accepted"] == 500


def test_items_come_in_pages(api: APIClient) -> None:
    batch = api.post(URL, {"items": [short()] * 5}).json()
    first = api.get(f"{URL}{batch['id']}/items/?limit=3").json()
    second = api.get(first["next"]).json()
    assert [item["index"] for item in first["results"] + second["results"]] == [0, 1, 2, 3, 4]
    assert (second["next"], first["previous"]) == (None, None)


@pytest.mark.parametrize("cursor", ["3000000000", "9223372036854775807", "--5"])
def test_an_impossible_place_of_an_item_is_refused(api: APIClient, cursor: str) -> None:
    batch = api.post(URL, {"items": [short()]}).json()
    response = api.get(f"{URL}{batch['id']}/items/?cursor={cursor}")
    assert response.status_code == 400
    assert response.json()["detail"].startswith("cursor must be ")


def test_a_batch_says_where_its_jobs_are_and_is_cancelled_as_one(api: APIClient) -> None:
    url = f"{URL}{api.post(URL, {'items': [short()] * 3}).json()['id']}/"
    assert api.get(url).json()["states"] == {"submitted": 3}
    assert api.post(f"{url}cancel/", {"expect": 1}).status_code == 409
    assert api.post(f"{url}cancel/", {"expect": 3}).json()["cancelled"] == 3
    assert api.get(url).json()["states"] == {"cancelled": 3}


def test_the_jobs_of_a_batch_stand_in_the_ordinary_list(api: APIClient) -> None:
    batch = api.post(URL, {"items": [short()] * 3}).json()
    assert len(api.get(f"/api/v1/jobs/?batch={batch['id']}").json()["results"]) == 3


def test_batches_of_other_projects_do_not_exist(
    api: APIClient, stranger: User, as_user: Speak
) -> None:
    batch = api.post(URL, {"items": [short()]}).json()
    other = as_user(stranger)
    assert other.get(f"{URL}{batch['id']}/").status_code == 404
    assert other.get(f"{URL}{batch['id']}/items/").status_code == 404
    assert other.get(URL).json()["results"] == []
