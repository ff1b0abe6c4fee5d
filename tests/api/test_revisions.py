"""Revisions of the matrices and retraining on request."""

import pytest
from pytest_django import DjangoAssertNumQueries
from rest_framework.test import APIClient

from apps.accounts.core.roles import Role
from apps.accounts.models import User
from apps.classification.core.matrix import MatrixName
from apps.classification.models import Revision, RevisionReason
from apps.classification.services import reclassify_if_due, retrain
from apps.operations.models import Operation
from tests import factories
from tests.api.conftest import Speak

URL = "/api/v1/revisions/"


@pytest.fixture
def library(db: None) -> int:
    return factories.library(("A", "B"))


def revised() -> int:
    return retrain(reason=RevisionReason.SCHEDULE, report=lambda _: None)


def test_revisions_are_listed_newest_first(api: APIClient, library: int) -> None:
    revised()
    results = api.get(URL).json()["results"]
    assert [(r["number"], r["reason"], r["is_current"]) for r in results] == [
        (2, "schedule", True),
        (1, "library", False),
    ]
    assert results[0]["explanation"] == "the maximum time has passed"
    assert [m["name"] for m in results[0]["matrices"]] == [name.value for name in MatrixName]
    assert results[0]["matrices"][1]["evaluation"] is not None
    assert results[1]["matrices"][1] == {
        "name": "heterogeneity",
        "row_count": 28,
        "library_row_count": 28,
        "column_count": 2,
        "evaluation": None,
    }


def test_one_revision_reads_as_in_the_list(api: APIClient, library: int) -> None:
    (listed,) = api.get(URL).json()["results"]
    response = api.get(f"{URL}{library}/")
    assert response.json() == listed
    assert api.get(f"{URL}{library}/", HTTP_IF_NONE_MATCH=response["ETag"]).status_code == 304


@pytest.mark.parametrize("number", ["9", "2147483648", "99999999999999999999"])
def test_an_unknown_revision_is_not_found(api: APIClient, library: int, number: str) -> None:
    response = api.get(f"{URL}{number}/")
    assert (response.status_code, response.json()["code"]) == (404, "not_found")


@pytest.mark.parametrize(
    ("query", "numbers"),
    [
        ("reason=library", [1]),
        ("is_current=true", [2]),
        ("ordering=number", [1, 2]),
        ("created_at__lt=2020-01-01T00:00:00Z", []),
        ("limit=1&brief=true", [2]),
    ],
)
def test_revisions_are_filtered(
    api: APIClient, library: int, query: str, numbers: list[int]
) -> None:
    revised()
    assert [r["number"] for r in api.get(f"{URL}?{query}").json()["results"]] == numbers


def test_an_unknown_reason_is_refused(api: APIClient, db: None) -> None:
    response = api.get(f"{URL}?reason=whim")
    accepted = "library, rows, schedule, request"
    assert response.json()["detail"] == f"reason must be one of {accepted}, not 'whim'."


def test_a_page_of_revisions_takes_two_queries_besides_the_caller(
    api: APIClient, library: int, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    revised()
    with django_assert_num_queries(3):
        api.get(URL)


def test_an_operator_retrains_the_matrices(power: APIClient, library: int) -> None:
    response = power.post(URL)
    operation = response.json()
    assert response.status_code == 202
    assert response["Location"] == f"/api/v1/operations/{operation['id']}/"
    assert (operation["kind"], operation["status"]) == ("classification.reclassify", "pending")
    assert reclassify_if_due() == 2
    revision = power.get(f"{URL}2/").json()
    assert (revision["reason"], revision["operation"]) == ("request", operation["id"])
    done = power.get(response["Location"]).json()
    assert (done["status"], done["result"]["revision"]) == ("succeeded", 2)


def test_one_reclassification_runs_at_a_time(power: APIClient, library: int) -> None:
    first = power.post(URL).json()
    second = power.post(URL)
    assert (second.status_code, second.json()["code"]) == (409, "state_conflict")
    assert first["id"] in second.json()["detail"]
    assert Operation.objects.count() == 1


def test_a_repeated_key_starts_nothing_new(power: APIClient, library: int) -> None:
    first = power.post(URL, HTTP_IDEMPOTENCY_KEY="k")
    again = power.post(URL, HTTP_IDEMPOTENCY_KEY="k")
    assert (again.status_code, again["Idempotency-Replayed"]) == (202, "true")
    assert again.json() == first.json()


def test_retraining_requires_a_library(power: APIClient) -> None:
    response = power.post(URL)
    assert response.status_code == 409
    assert "profile_library" in response.json()["detail"]


@pytest.mark.parametrize("role", [Role.VIEWER, Role.SUBMITTER])
def test_other_roles_cannot_retrain(
    library: int, operator: User, as_user: Speak, role: Role
) -> None:
    response = as_user(operator, role=role).post(URL)
    assert response.status_code == 403
    assert "operator" in response.json()["detail"]
    assert not Operation.objects.exists()


def test_a_body_is_refused(power: APIClient, library: int) -> None:
    response = power.post(URL, {"estimator": "pq"})
    assert response.status_code == 422
    assert response.json()["errors"][0]["pointer"] == "/estimator"
    assert Revision.objects.count() == 1
