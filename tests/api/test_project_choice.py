"""The project of a submission: named, or the caller's only one."""

from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from rest_framework.test import APIClient

from apps.accounts.core.roles import Role
from apps.accounts.models import Membership, Project, User
from apps.workloads.models import Job
from tests import factories
from tests.api.conftest import Speak
from tests.api.samples import short

JOBS, BATCHES = "/api/v1/jobs/", "/api/v1/batches/"
BODIES: dict[str, tuple[str, Any, str]] = {
    "job": (JOBS, short(), "/metadata/project"),
    "check": ("/api/v1/checks/", short(), "/metadata/project"),
    "dry run": (f"{JOBS}?dry_run=true", short(), "/metadata/project"),
    "batch": (BATCHES, {"items": [short(), short()]}, "/project"),
    "list": (BATCHES, [short(), short()], "/project"),
}


def join(user: User, name: str, role: Role = Role.SUBMITTER) -> Project:
    project = factories.project(name)
    Membership.objects.create(user=user, project=project, role=role.value)
    return project


@pytest.mark.parametrize("what", sorted(BODIES))
def test_a_caller_with_several_projects_must_name_one(
    api: APIClient, submitter: User, what: str
) -> None:
    factories.cluster()
    join(submitter, "other")
    url, body, pointer = BODIES[what]
    response = api.post(url, body)
    assert response.status_code == 422
    (problem,) = response.json()["errors"]
    assert (problem["pointer"], problem["code"]) == (pointer, "required")
    assert problem["detail"] == (
        "is required, as you have several projects; must be one of: default, other"
    )
    assert not Job.objects.exists()


@pytest.mark.parametrize("what", sorted(BODIES))
def test_the_only_project_need_not_be_named(api: APIClient, what: str) -> None:
    factories.cluster()
    url, body, _ = BODIES[what]
    assert api.post(url, body).status_code in {200, 201, 202}
    assert set(Job.objects.values_list("project__name", flat=True)) <= {"default"}


def test_projects_that_take_no_jobs_of_the_caller_do_not_count(
    api: APIClient, submitter: User
) -> None:
    User.objects.filter(pk=submitter.pk).update(role=Role.VIEWER.value)
    Membership.objects.filter(user=submitter).update(role=Role.SUBMITTER.value)
    join(submitter, "seen", Role.VIEWER)
    archived = join(submitter, "old")
    Project.objects.filter(pk=archived.pk).update(archived_at=timezone.now())
    job = api.post(JOBS, short()).json()
    assert job["metadata"]["project"] == "default"


@pytest.mark.parametrize(
    "body", [{"items": [short(project="other")] * 2}, [short(project="other")]]
)
def test_the_items_of_a_batch_may_name_its_project(
    api: APIClient, submitter: User, body: Any
) -> None:
    join(submitter, "other")
    assert api.post(BATCHES, body).json()["accepted"] == len(Job.objects.all()) > 0
    assert set(Job.objects.values_list("project__name", flat=True)) == {"other"}


def test_items_of_different_projects_do_not_choose_one(api: APIClient, submitter: User) -> None:
    join(submitter, "other")
    response = api.post(BATCHES, [short(project="other"), short(project="default")])
    assert response.json()["errors"][0]["pointer"] == "/project"


def test_a_caller_without_projects_is_told_so(api: APIClient, submitter: User) -> None:
    Membership.objects.all().delete()
    (problem,) = api.post(JOBS, short()).json()["errors"]
    assert problem["detail"] == "must be one of your projects: none"


LISTS = ("jobs", "arrays", "batches", "queues")


@pytest.mark.parametrize("route", LISTS)
@pytest.mark.parametrize("name", ["nosuch", "elsewhere"])
def test_a_filter_by_a_project_that_is_not_visible_is_refused(
    api: APIClient, stranger: User, route: str, name: str
) -> None:
    response = api.get(f"/api/v1/{route}/?project={name}")
    assert (response.status_code, response.json()["code"]) == (400, "invalid_parameter")
    assert response.json()["detail"] == (
        f"project must be a project that you may see, not '{name}'."
    )


@pytest.mark.parametrize("route", LISTS)
def test_an_operator_filters_by_any_project_that_exists(
    operator: User, stranger: User, as_user: Speak, route: str
) -> None:
    factories.cluster()
    listing = as_user(operator)
    assert listing.get(f"/api/v1/{route}/?project=elsewhere").status_code == 200
    assert listing.get(f"/api/v1/{route}/?project=nosuch").status_code == 400


def test_jobs_of_a_project_that_is_not_visible_are_not_cancelled(api: APIClient) -> None:
    response = api.post("/api/v1/jobs/cancel/?project=nosuch", {"expect": 0})
    assert (response.status_code, response.json()["code"]) == (400, "invalid_parameter")


def test_the_submit_page_lists_projects_that_accept_jobs(
    client: Client, submitter: User, api: APIClient
) -> None:
    archived = join(submitter, "old")
    Project.objects.filter(pk=archived.pk).update(archived_at=timezone.now())
    join(submitter, "other")
    client.force_login(submitter)
    page = client.get("/submit/").content.decode()
    assert "<option>default</option><option>other</option>" in page
