"""Submitting, reading, changing and ending jobs over REST."""

from typing import Any
from uuid import uuid4

import pytest
from pytest_django import DjangoAssertNumQueries
from rest_framework.test import APIClient

from apps.accounts.core.roles import Role
from apps.accounts.models import Project, User
from apps.operations.models import Event
from apps.workloads.models import Job
from tests.api.conftest import Speak
from tests.api.samples import JOB, short, submitted


def test_a_submitted_job_is_answered_with_its_representation(api: APIClient) -> None:
    response = api.post("/api/v1/jobs/", JOB)
    body = response.json()
    assert response.status_code == 201
    assert body["metadata"]["name"] == "nightly"
    assert body["spec"]["target"] == {"kind": "completion_time", "seconds": 600.0}
    assert body["status"]["state"] == "submitted"
    assert body["status"]["reason"]["code"] == "WaitingForAgent"
    assert response["Location"] == f"/api/v1/jobs/{body['metadata']['id']}/"


def test_the_answer_to_a_submission_can_be_submitted_again(api: APIClient) -> None:
    first = api.post("/api/v1/jobs/", JOB).json()
    again = api.post("/api/v1/jobs/", {"spec": first["spec"]})
    assert again.status_code == 201
    assert again.json()["spec"] == first["spec"]


def test_the_request_id_follows_the_job(api: APIClient) -> None:
    response = api.post("/api/v1/jobs/", JOB, HTTP_X_REQUEST_ID="abc-123")
    assert response["X-Request-ID"] == "abc-123"
    assert response.json()["metadata"]["request_id"] == "abc-123"
    assert Event.objects.get(kind="job.submitted").request_id == "abc-123"


def test_an_unknown_application_is_created_with_the_kind_of_the_target(api: APIClient) -> None:
    submitted(api, target={"kind": "ips", "ips": 1e9}, application="fresh")
    assert api.get("/api/v1/applications/fresh/").json()["kind"] == "single_node"


def test_every_wrong_field_is_named(api: APIClient) -> None:
    response = api.post("/api/v1/jobs/", short(tasks=0, labels={"a": 1}))
    body = response.json()
    assert response.status_code == 422
    assert response["Content-Type"] == "application/problem+json"
    assert [error["pointer"] for error in body["errors"]] == ["/tasks", "/labels/a"]
    assert body["code"] == "invalid_input"
    assert body["request_id"] == response["X-Request-ID"]


def test_policy_and_guarantee_are_stored_and_answered(api: APIClient) -> None:
    guarantee = {"rank_threshold": 0.8, "probability": 0.01}
    body = api.post("/api/v1/jobs/", short(policy="quietest", guarantee=guarantee)).json()
    spec = api.get(f"/api/v1/jobs/{body['metadata']['id']}/").json()["spec"]
    assert (spec["policy"], spec["sample_size"], spec["guarantee"]) == (
        "quietest",
        None,
        guarantee,
    )
    assert api.post("/api/v1/jobs/", {"spec": spec}).status_code == 201
    plain = api.post("/api/v1/jobs/", short(sample_size=32)).json()["spec"]
    assert (plain["policy"], plain["sample_size"], plain["guarantee"]) == (None, 32, None)


@pytest.mark.parametrize("address", ["/api/v1/jobs/", "/api/v1/checks/"])
@pytest.mark.parametrize(
    ("fields", "pointer", "detail"),
    [
        ({"policy": "tarcle"}, "/policy", "must be one of autoscale, dot_product, expected, "),
        ({"sample_size": 33}, "/sample_size", "must be at most 32, not 33"),
        ({"sample_size": 8, "guarantee": {"rank_threshold": 0.8, "probability": 0.5}},
         "/guarantee", "give sample_size or guarantee, not both"),
        ({"guarantee": {"rank_threshold": 0.9, "probability": 0.001}},
         "/guarantee", "needs R = 66 even on an idle cluster; at most 32"),
    ],
)  # fmt: skip
def test_a_wrong_policy_r_or_guarantee_is_refused(
    api: APIClient, address: str, fields: dict[str, Any], pointer: str, detail: str
) -> None:
    response = api.post(address, short(**fields))
    (error,) = response.json()["errors"]
    assert (response.status_code, error["pointer"]) == (422, pointer)
    assert detail in error["detail"]


def test_an_item_of_a_batch_is_refused_for_an_unknown_policy(api: APIClient) -> None:
    body = {"items": [short(), short(policy="tarcle")], "mode": "atomic"}
    response = api.post("/api/v1/batches/", body)
    assert response.status_code == 422
    assert "tarcle" in response.content.decode()


def test_the_policy_does_not_change_after_submission(api: APIClient) -> None:
    job = submitted(api)
    assert api.patch(f"/api/v1/jobs/{job}/", {"spec": {"policy": "random"}}).status_code == 409


def test_nothing_is_written_for_a_wrong_job(api: APIClient) -> None:
    api.post("/api/v1/jobs/", short(tasks=0))
    assert (Job.objects.count(), Event.objects.count()) == (0, 0)


def test_submitting_takes_eight_queries(
    api: APIClient, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    submitted(api)
    # token, savepoint, project, application, clock, job, event, savepoint
    with django_assert_num_queries(8):
        api.post("/api/v1/jobs/", short())


def test_a_page_of_jobs_takes_two_queries(
    api: APIClient, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    for _ in range(3):
        submitted(api)
    with django_assert_num_queries(2):
        assert len(api.get("/api/v1/jobs/").json()["results"]) == 3


def test_a_viewer_may_not_submit(viewer: User, as_user: Speak) -> None:
    response = as_user(viewer).post("/api/v1/jobs/", JOB)
    assert response.status_code == 403
    assert response.json()["code"] == "permission_denied"


def test_a_token_limited_to_reading_may_not_submit(submitter: User, as_user: Speak) -> None:
    assert as_user(submitter, Role.VIEWER).post("/api/v1/jobs/", JOB).status_code == 403


def test_jobs_of_other_projects_do_not_exist(
    api: APIClient, stranger: User, as_user: Speak
) -> None:
    job = submitted(api)
    other = as_user(stranger)
    assert other.get(f"/api/v1/jobs/{job}/").status_code == 404
    assert other.post(f"/api/v1/jobs/{job}/cancel/").status_code == 404
    assert other.get("/api/v1/jobs/").json()["results"] == []


def test_operators_see_every_project(api: APIClient, operator: User, as_user: Speak) -> None:
    job = submitted(api)
    assert as_user(operator).get(f"/api/v1/jobs/{job}/").status_code == 200


def test_submitting_to_another_project_is_refused(api: APIClient) -> None:
    response = api.post("/api/v1/jobs/", short(project="elsewhere"))
    assert response.json()["errors"][0]["detail"] == (
        "must be one of your projects: default, not 'elsewhere'"
    )


def test_a_job_changes_only_where_if_match_holds(api: APIClient) -> None:
    url = f"/api/v1/jobs/{submitted(api)}/"
    tag = api.get(url).json()["metadata"]["etag"]
    first = api.patch(url, {"spec": {"priority": 5}}, HTTP_IF_MATCH=tag)
    second = api.patch(url, {"spec": {"priority": 6}}, HTTP_IF_MATCH=tag)
    assert (first.status_code, second.status_code) == (200, 412)
    assert first.json()["spec"]["priority"] == 5
    assert second["ETag"] == '"g2"'
    assert second.json()["current_etag"] == '"g2"'


@pytest.mark.parametrize("digits", ["9" * 20, "9" * 5000])
def test_a_generation_that_no_job_has_does_not_match(api: APIClient, digits: str) -> None:
    url = f"/api/v1/jobs/{submitted(api)}/"
    response = api.patch(url, {"spec": {"priority": 5}}, HTTP_IF_MATCH=f'"g{digits}"')
    assert (response.status_code, response.json()["code"]) == (412, "precondition_failed")


def test_the_tag_of_a_read_serves_as_if_match(api: APIClient) -> None:
    url = f"/api/v1/jobs/{submitted(api)}/"
    tag = api.get(url)["ETag"]
    assert tag.startswith('"g1-')
    assert api.patch(url, {"spec": {"priority": 5}}, HTTP_IF_MATCH=tag).status_code == 200


def test_a_read_is_not_repeated_until_something_changed(api: APIClient) -> None:
    job = submitted(api)
    url = f"/api/v1/jobs/{job}/"
    tag = api.get(url)["ETag"]
    assert api.get(url, HTTP_IF_NONE_MATCH=tag).status_code == 304
    Job.objects.filter(pk=job).update(progress=0.5)  # progress makes no new generation
    assert api.get(url, HTTP_IF_NONE_MATCH=tag).status_code == 200


def test_what_cannot_change_after_submission_is_refused(api: APIClient) -> None:
    response = api.patch(f"/api/v1/jobs/{submitted(api)}/", {"tasks": 3})
    assert (response.status_code, response.json()["code"]) == (409, "state_conflict")


def test_a_waiting_job_is_cancelled_at_once(api: APIClient) -> None:
    response = api.post(f"/api/v1/jobs/{submitted(api)}/cancel/")
    assert (response.status_code, response.json()["status"]["state"]) == (200, "cancelled")


def test_a_running_job_is_cancelled_when_its_backend_has_stopped_it(api: APIClient) -> None:
    job = submitted(api)
    Job.objects.filter(pk=job).update(state="running")
    response = api.post(f"/api/v1/jobs/{job}/cancel/")
    assert (response.status_code, response.json()["status"]["cancel_requested"]) == (202, True)


def test_cancelling_twice_is_harmless(api: APIClient) -> None:
    url = f"/api/v1/jobs/{submitted(api)}/cancel/"
    api.post(url)
    assert api.post(url).status_code == 200


def test_a_finished_job_cannot_be_cancelled(api: APIClient) -> None:
    job = submitted(api)
    Job.objects.filter(pk=job).update(state="succeeded", finished_s=1.0)
    assert api.post(f"/api/v1/jobs/{job}/cancel/").status_code == 409


def test_a_held_job_says_so_until_it_is_released(api: APIClient) -> None:
    url = f"/api/v1/jobs/{submitted(api)}/"
    held = api.post(f"{url}hold/").json()["status"]
    released = api.post(f"{url}release/").json()["status"]
    assert (held["held"], held["reason"]["code"]) == (True, "Held")
    assert (released["held"], released["reason"]["code"]) == (False, "WaitingForAgent")


def test_a_rerun_is_a_new_job_with_the_same_spec(api: APIClient) -> None:
    first = api.post("/api/v1/jobs/", JOB).json()
    again = api.post(f"/api/v1/jobs/{first['metadata']['id']}/rerun/")
    assert again.status_code == 201
    assert again.json()["spec"] == first["spec"]
    assert again.json()["metadata"]["id"] != first["metadata"]["id"]


def test_only_ended_jobs_are_deleted(api: APIClient) -> None:
    url = f"/api/v1/jobs/{submitted(api)}/"
    assert api.delete(url).status_code == 409
    api.post(f"{url}cancel/")
    assert api.delete(url, HTTP_IF_MATCH='"g1"').status_code == 412
    tag = api.get(url)["ETag"]
    assert api.delete(url, HTTP_IF_MATCH=tag).status_code == 204
    assert api.get(url).status_code == 404


def test_many_jobs_are_cancelled_only_if_the_number_matches(api: APIClient) -> None:
    for _ in range(3):
        submitted(api, labels={"sweep": "a"})
    submitted(api)
    url = "/api/v1/jobs/cancel/?label=sweep:a"
    wrong = api.post(url, {"expect": 1})
    right = api.post(url, {"expect": 3})
    assert (wrong.status_code, wrong.json()["code"]) == (409, "count_differs")
    assert wrong.json()["detail"] == "3 jobs match, but 1 was expected."
    url_of_one = "/api/v1/jobs/cancel/?label=only:a"
    submitted(api, labels={"only": "a"})
    assert api.post(url_of_one, {"expect": 2}).json()["detail"] == (
        "1 job matches, but 2 were expected."
    )
    assert right.json() == {"matched": 3, "cancelled": 3}
    assert Job.objects.filter(state="cancelled").count() == 3


def test_an_expected_number_is_limited(api: APIClient) -> None:
    batch = api.post("/api/v1/batches/", {"items": [short()]}).json()["id"]
    urls = ("/api/v1/jobs/cancel/?label=sweep:a", f"/api/v1/batches/{batch}/cancel/")
    for most, status in ((2**31 - 1, 409), (2**31, 422), (2**63 - 1, 422)):
        assert [api.post(url, {"expect": most}).status_code for url in urls] == [status] * 2


def test_cancelling_without_a_filter_is_refused(api: APIClient) -> None:
    submitted(api)
    assert api.post("/api/v1/jobs/cancel/", {"expect": 1}).status_code == 400


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("state=submitted", {"a", "b"}),
        ("state__in=cancelled,failed", {"c"}),
        ("application=other", {"b"}),
        ("label=team:ml", {"a"}),
        ("label=team:ml&label=tier:1", set()),
        ("q=B", {"b"}),
        ("target_kind=best_effort&state=submitted", {"a", "b"}),
        ("held=true", set()),
        ("created_at__gte=2020-01-01T00:00:00Z&state=submitted", {"a", "b"}),
        ("created_at__lt=2020-01-01", set()),
    ],
)
def test_jobs_are_filtered(api: APIClient, query: str, names: set[str]) -> None:
    submitted(api, name="a", labels={"team": "ml"})
    submitted(api, name="b", application="other")
    api.post(f"/api/v1/jobs/{submitted(api, name='c')}/cancel/")
    results = api.get(f"/api/v1/jobs/?{query}&brief=true").json()["results"]
    assert {row["name"] for row in results} == names


def test_several_jobs_are_asked_for_by_their_ids_at_once(api: APIClient) -> None:
    first, _, third = (submitted(api, name=name) for name in "abc")
    unknown = uuid4()
    results = api.get(f"/api/v1/jobs/?id__in={first},{third},{unknown}&brief=true").json()
    assert {row["name"] for row in results["results"]} == {"a", "c"}


@pytest.mark.parametrize(
    ("query", "code", "message"),
    [
        ("stat=running", "unknown_parameter", "state__in"),
        ("state=sleeping", "invalid_parameter", "submitted"),
        ("limit=0", "invalid_parameter", "limit"),
        ("limit=x", "invalid_parameter", "limit"),
        ("created_at__gte=yesterday", "invalid_parameter", "RFC 3339"),
        ("label=team", "invalid_parameter", "name:value"),
        ("ordering=name", "invalid_parameter", "-created_at"),
        ("state=running&state=queued", "invalid_parameter", "must be given once, not 2 times"),
        ("cursor=made-up", "invalid_cursor", "cursor"),
        ("fields=id", "invalid_parameter", "metadata"),
        ("count=roughly", "invalid_parameter", "estimate"),
        ("attainment__lt=nan", "invalid_parameter", "finite"),
        ("batch=7", "invalid_parameter", "UUID"),
        ("id__in=00000000-0000-0000-0000-000000000000,7", "invalid_parameter", "UUID"),
    ],
)
def test_invalid_parameters_are_refused(
    api: APIClient, query: str, code: str, message: str
) -> None:
    submitted(api)
    response = api.get(f"/api/v1/jobs/?{query}")
    assert (response.status_code, response.json()["code"]) == (400, code)
    assert message in response.json()["detail"]


def names_of(page: Any) -> list[str]:
    return [row["metadata"]["name"] for row in page["results"]]


def test_pages_neither_skip_nor_repeat_while_jobs_arrive(api: APIClient) -> None:
    for i in range(5):
        submitted(api, name=f"j{i}")
    first = api.get("/api/v1/jobs/?limit=2").json()
    submitted(api, name="late")
    second = api.get(first["next"]).json()
    third = api.get(second["next"]).json()
    assert names_of(first) + names_of(second) + names_of(third) == ["j4", "j3", "j2", "j1", "j0"]
    assert third["next"] is None


def test_the_previous_link_leads_back(api: APIClient) -> None:
    for i in range(5):
        submitted(api, name=f"j{i}")
    first = api.get("/api/v1/jobs/?limit=2").json()
    second = api.get(first["next"]).json()
    back = api.get(second["previous"]).json()
    assert names_of(back) == names_of(first)
    assert (first["previous"], back["previous"]) == (None, None)
    assert names_of(api.get(back["next"]).json()) == names_of(second)


def test_links_are_headers_too(api: APIClient) -> None:
    for _ in range(2):
        submitted(api)
    response = api.get("/api/v1/jobs/?limit=1")
    assert response["Link"] == f'<{response.json()["next"]}>; rel="next"'


def test_a_cursor_of_another_order_is_refused(api: APIClient) -> None:
    for _ in range(2):
        submitted(api)
    link = api.get("/api/v1/jobs/?limit=1").json()["next"]
    response = api.get(f"{link}&ordering=created_at")
    assert response.json()["code"] == "invalid_cursor"


def test_matches_are_counted_on_request(api: APIClient) -> None:
    for _ in range(3):
        submitted(api)
    page = api.get("/api/v1/jobs/?limit=1&count=exact").json()
    assert (page["count"], page["count_is_exact"]) == (3, True)
    assert api.get("/api/v1/jobs/?count=estimate").json()["count_is_exact"] is False


def test_a_field_of_an_empty_object_is_null_in_a_list(api: APIClient) -> None:
    submitted(api)
    (row,) = api.get("/api/v1/jobs/?fields=metadata.array.id").json()["results"]
    assert row == {"metadata": {"array": None}}
    (row,) = api.get("/api/v1/jobs/?omit=metadata.array.id,spec").json()["results"]
    assert (row["metadata"]["array"], "spec" in row) == (None, False)


def test_fields_reach_inside(api: APIClient) -> None:
    submitted(api, name="a")
    page = api.get("/api/v1/jobs/?fields=metadata.name,status.state").json()
    assert page["results"] == [{"metadata": {"name": "a"}, "status": {"state": "submitted"}}]


def test_omitted_fields_are_left_out(api: APIClient) -> None:
    job = submitted(api)
    body = api.get(f"/api/v1/jobs/{job}/?omit=status,metadata.labels").json()
    assert set(body) == {"metadata", "spec"}
    assert "labels" not in body["metadata"]


def test_the_address_without_a_slash_works_for_writes_too(api: APIClient) -> None:
    assert api.post("/api/v1/jobs", JOB).status_code == 201


def test_explanation_tasks_events_and_placements_of_a_new_job(api: APIClient) -> None:
    url = f"/api/v1/jobs/{submitted(api, tasks=8)}/"
    assert api.get(f"{url}explanation/").json()["reason"]["code"] == "WaitingForAgent"
    assert api.get(f"{url}tasks/").json()["waiting"] == 8
    assert [e["kind"] for e in api.get(f"{url}events/").json()["results"]] == ["job.submitted"]
    assert api.get(f"{url}placements/").json()["results"] == []
    assert api.get(f"{url}decisions/").json()["results"] == []
    assert api.get(f"{url}metrics/").json()["results"] == []


def test_a_service_account_must_send_a_key_where_the_project_asks_for_it(
    submitter: User, project: Project, as_user: Speak
) -> None:
    User.objects.filter(pk=submitter.pk).update(is_service=True)
    Project.objects.filter(pk=project.pk).update(key_optional=False)
    api = as_user(submitter)
    assert api.post("/api/v1/jobs/", JOB).json()["code"] == "key_required"
    created = api.post("/api/v1/jobs/", JOB, HTTP_IDEMPOTENCY_KEY="k")
    assert created.status_code == 201
    rerun = f"/api/v1/jobs/{created.json()['metadata']['id']}/rerun/"
    assert api.post(rerun).json()["code"] == "key_required"
    assert api.post(rerun, HTTP_IDEMPOTENCY_KEY="k").status_code == 201


def test_the_items_of_a_service_account_have_a_key_each_or_one_for_all(
    submitter: User, project: Project, as_user: Speak
) -> None:
    User.objects.filter(pk=submitter.pk).update(is_service=True)
    Project.objects.filter(pk=project.pk).update(key_optional=False)
    api = as_user(submitter)
    one_without = {"items": [short(client_id="a"), short()]}
    assert api.post("/api/v1/batches/", one_without).json()["code"] == "key_required"
    assert api.post("/api/v1/batches/", one_without, HTTP_IDEMPOTENCY_KEY="k").status_code == 202
    all_with = {"items": [short(client_id="b"), short(client_id="c"), short(tasks=0)]}
    assert api.post("/api/v1/batches/", all_with).json()["accepted"] == 2
