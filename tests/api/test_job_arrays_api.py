"""Job arrays over REST."""

from typing import Any

import pytest
from pytest_django import DjangoAssertNumQueries, Settings
from rest_framework.test import APIClient

from apps.accounts.models import User
from apps.workloads.models import Batch, Job
from tests.api.conftest import Speak
from tests.api.samples import short, submitted

URL = "/api/v1/arrays/"


def posted(api: APIClient, **array: Any) -> dict[str, Any]:
    response = api.post(URL, {**short(name="sweep"), "array": array})
    assert response.status_code == 201, response.content
    assert response["Location"] == f"{URL}{response.json()['id']}/"
    body: dict[str, Any] = response.json()
    return body


def listed(api: APIClient, **filters: str) -> list[dict[str, Any]]:
    results: list[dict[str, Any]] = api.get("/api/v1/jobs/", filters).json()["results"]
    return results


def test_an_array_becomes_jobs_with_an_index_each(api: APIClient) -> None:
    body = posted(api, indexes="0-6:2", limit=3)
    assert (body["name"], body["size"], body["indexes"]) == ("sweep", 4, "0-6:2")
    assert (body["limit"], body["states"], body["waiting_for_limit"]) == (3, {"submitted": 4}, 1)
    jobs = sorted(listed(api, array=body["id"]), key=lambda job: job["metadata"]["array"]["index"])
    assert [job["metadata"]["name"] for job in jobs] == [f"sweep-{i}" for i in (0, 2, 4, 6)]
    assert jobs[1]["metadata"]["array"] == {"id": body["id"], "index": 2}
    assert [job["status"]["held"] for job in jobs] == [False, False, False, True]
    reason = jobs[3]["status"]["reason"]
    assert (reason["code"], reason["tier"]) == ("WaitingForArray", 2)
    assert "as many members of its array as its limit allows" in reason["sentence"]


def test_a_job_outside_arrays_names_none(api: APIClient) -> None:
    job = submitted(api)
    assert api.get(f"/api/v1/jobs/{job}/").json()["metadata"]["array"] is None


def test_jobs_of_a_batch_are_no_members_of_an_array(api: APIClient) -> None:
    batch = api.post("/api/v1/batches/", {"items": [short()]}).json()["id"]
    assert listed(api, array=batch) == []
    assert api.get(f"{URL}{batch}/").status_code == 404


def test_an_array_is_a_batch_with_its_items(api: APIClient) -> None:
    body = posted(api, size=2)
    batch = api.get(f"/api/v1/batches/{body['id']}/").json()
    assert (batch["mode"], batch["total"], batch["accepted"]) == ("array", 2, 2)
    items = api.get(f"/api/v1/batches/{body['id']}/items/").json()["results"]
    assert {item["job"] for item in items} == {
        job["metadata"]["id"] for job in listed(api, array=body["id"])
    }


def test_all_problems_of_the_job_and_the_array_are_listed(api: APIClient) -> None:
    response = api.post(URL, {**short(tasks=0), "array": {"indexes": "x"}})
    assert response.status_code == 422
    assert [e["pointer"] for e in response.json()["errors"]] == ["/array/indexes", "/tasks"]
    assert not Job.objects.exists()


@pytest.mark.parametrize("body", [[], {"spec": 5}, {"array": {"size": 2}}, {**short()}])
def test_a_body_without_a_job_and_an_array_is_refused(body: Any, api: APIClient) -> None:
    assert api.post(URL, body).status_code == 422


def test_the_size_of_an_array_is_limited(api: APIClient, settings: Settings) -> None:
    settings.MAX_ARRAY = 3
    assert posted(api, size=3)["size"] == 3
    errors = api.post(URL, {**short(), "array": {"indexes": "0-3"}}).json()["errors"]
    assert errors[0]["detail"] == "must be at most 3 indexes, not 4"


def test_a_repeated_key_creates_one_array(api: APIClient) -> None:
    body = {**short(), "array": {"size": 3}}
    first, again = (api.post(URL, body, HTTP_IDEMPOTENCY_KEY="night") for _ in range(2))
    assert first.json() == again.json()
    assert (Batch.objects.count(), Job.objects.count()) == (1, 3)


def test_the_limit_can_change_later(api: APIClient) -> None:
    url = f"{URL}{posted(api, size=5, limit=1)['id']}/"
    more = api.patch(url, {"limit": 4}).json()
    assert (more["limit"], more["waiting_for_limit"]) == (4, 1)
    assert api.patch(url, {"limit": 2}).json()["waiting_for_limit"] == 3
    assert api.patch(url, {"limit": None}).json()["waiting_for_limit"] == 0
    assert api.patch(url, {"limit": 0}).status_code == 422


def test_a_limit_that_changed_meanwhile_is_not_overwritten(api: APIClient) -> None:
    url = f"{URL}{posted(api, size=5, limit=1)['id']}/"
    old = api.get(url)["ETag"]
    first = api.patch(url, {"limit": 4}, HTTP_IF_MATCH=old)
    late = api.patch(url, {"limit": 2}, HTTP_IF_MATCH=old)
    assert (first.status_code, late.status_code) == (200, 412)
    assert api.get(url).json()["limit"] == 4
    assert api.patch(url, {"limit": 2}, HTTP_IF_MATCH=late["ETag"]).status_code == 200


def test_cancelling_an_array_cancels_its_members(api: APIClient) -> None:
    other = submitted(api)
    url = f"{URL}{posted(api, size=3, limit=1)['id']}/"
    assert api.post(f"{url}cancel/").json() == {"matched": 3, "cancelled": 3}
    assert api.get(url).json()["states"] == {"cancelled": 3}
    assert api.post(f"{url}cancel/").json() == {"matched": 0, "cancelled": 0}
    assert Job.objects.get(pk=other).state == "submitted"


def test_arrays_are_listed_newest_first(api: APIClient) -> None:
    first, second = posted(api, size=1), posted(api, size=2)
    found = api.get(URL).json()["results"]
    assert [row["id"] for row in found] == [second["id"], first["id"]]


def test_other_projects_do_not_see_an_array(
    api: APIClient, as_user: Speak, stranger: User, viewer: User
) -> None:
    url = f"{URL}{posted(api, size=1)['id']}/"
    other = as_user(stranger)
    assert other.get(URL).json()["results"] == []
    assert other.get(url).status_code == 404
    assert other.post(f"{url}cancel/").status_code == 404
    assert as_user(viewer).get(url).status_code == 200
    assert as_user(viewer).patch(url, {"limit": 1}).status_code == 403


def test_one_array_is_read_with_few_statements(
    api: APIClient, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    url = f"{URL}{posted(api, size=30)['id']}/"
    with django_assert_max_num_queries(6):
        api.get(url)


def test_a_held_member_may_be_explained(api: APIClient) -> None:
    array = posted(api, size=2, limit=1)["id"]
    held = next(job for job in listed(api, array=array) if job["status"]["held"])
    why = api.get(f"/api/v1/jobs/{held['metadata']['id']}/explanation/").json()
    assert why["reason"]["code"] == "WaitingForArray"
    waiting = api.get("/api/v1/queues/").json()
    assert "WaitingForArray" in str(waiting)
