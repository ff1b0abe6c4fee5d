"""REST API of jobs that migrate and of the usage of their containers."""

import pytest
from pytest_django import DjangoAssertNumQueries
from rest_framework.test import APIClient

from apps.accounts.models import User
from apps.execution.models import Migration
from apps.workloads.models import Job
from tests import factories
from tests.api.conftest import Speak
from tests.execution.migration_world import cluster, moving, report, running, server


@pytest.fixture
def moved(db: None) -> Job:
    """A job that migrated from a to b and is migrating to c."""
    cluster()
    job = running([0, 1])
    report(moving(job, "a", "b"), "started", "done")
    moving(job, "b", "c")
    return job


def test_migrations_of_a_job_are_listed_newest_first(api: APIClient, moved: Job) -> None:
    second, first = api.get(f"/api/v1/jobs/{moved.id}/migrations/").json()["results"]
    assert (first["from_server"], first["to_server"], first["state"]) == ("a", "b", "done")
    assert (second["from_server"], second["to_server"], second["state"]) == ("b", "c", "requested")
    assert (first["units"], first["reason_code"]) == (2, "plan")
    assert (first["requested_seconds"], first["ended_seconds"]) == (7200.0, 7300.0)
    assert second["started_seconds"] is None
    assert first["to_server_id"] == server("b")


def test_migrations_are_filtered_by_state(api: APIClient, moved: Job) -> None:
    url = f"/api/v1/jobs/{moved.id}/migrations/"
    assert len(api.get(f"{url}?state=done").json()["results"]) == 1
    assert api.get(f"{url}?state=away").status_code == 400


def test_migrations_are_paged_by_key(api: APIClient, moved: Job) -> None:
    page = api.get(f"/api/v1/jobs/{moved.id}/migrations/?limit=1").json()
    assert [row["state"] for row in page["results"]] == ["requested"]
    assert [row["state"] for row in api.get(page["next"]).json()["results"]] == ["done"]


def test_migrations_cost_the_same_however_many(
    api: APIClient, moved: Job, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    report(Migration.objects.get(state="requested"), "started", "done")
    moving(moved, "c", "a")
    with django_assert_max_num_queries(8):
        api.get(f"/api/v1/jobs/{moved.id}/migrations/")


def test_migrations_of_other_projects_do_not_exist(
    moved: Job, stranger: User, as_user: Speak
) -> None:
    url = f"/api/v1/jobs/{moved.id}/migrations/"
    assert as_user(stranger).get(url).status_code == 404


def test_the_explanation_names_where_the_job_stands_now(api: APIClient, moved: Job) -> None:
    explanation = api.get(f"/api/v1/jobs/{moved.id}/explanation/").json()
    assert " b" in explanation["summary"]
    assert " a" not in explanation["summary"].replace(" a ", " ")
    assert " c" not in explanation["summary"]


def test_placements_show_held_released_and_reserved_units(api: APIClient, moved: Job) -> None:
    rows = api.get(f"/api/v1/jobs/{moved.id}/placements/").json()["results"]
    reserved, held, left = rows
    assert (left["server"], left["moved_from"], left["released_seconds"]) == ("a", None, 7200.0)
    assert (held["server"], held["moved_from"], held["released_seconds"]) == (
        "b",
        left["id"],
        None,
    )
    assert (reserved["server"], reserved["moved_from"]) == ("c", held["id"])
    assert (held["moved_seconds"], reserved["moved_seconds"]) == (7300.0, None)


def test_metrics_of_a_job_show_the_usage_of_its_containers(api: APIClient, moved: Job) -> None:
    counters = {"memory_rate": 2e7, "network_wait": 0.5, "disk_wait": 0.1, "traffic_bps": 5e6}
    factories.sample(moved, 7250.0, **counters)
    factories.sample(moved, 7240.0)
    first, second = api.get(f"/api/v1/jobs/{moved.id}/metrics/").json()["results"]
    newest = api.get(f"/api/v1/jobs/{moved.id}/metrics/?ordering=-cluster_seconds&limit=1").json()
    assert newest["results"] == [second]
    assert {name: second[name] for name in counters} == counters
    assert {name: first[name] for name in counters} == dict.fromkeys(counters)
