"""REST API of why a job misses its target."""

import json
import re

import pytest
from pytest_django import DjangoAssertNumQueries
from rest_framework.test import APIClient

from apps.accounts.models import Project, User
from apps.execution.models import JobSample
from apps.placement.services.rebalancing.plan_requests import process_plan_requests
from apps.scheduling.selectors import ClusterFollower
from apps.workloads.models import Job
from tests import factories
from tests.api.conftest import Speak
from tests.execution.miss_world import DIP_S, Missed, missed


@pytest.fixture(autouse=True)
def _new_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process's copy of the cluster outlives the tests."""
    monkeypatch.setattr("apps.scheduling.services.dry_run._COPY", ClusterFollower())


@pytest.fixture
def world(project: Project) -> Missed:
    return missed(project=project)


def address(job: Job) -> str:
    return f"/api/v1/jobs/{job.id}/diagnosis/"


def test_the_dip_its_first_suspect_and_its_pressure_are_named(
    api: APIClient, world: Missed
) -> None:
    found = api.get(address(world.job)).json()
    assert found["dip"]["begin_seconds"] == DIP_S
    assert found["dip"]["end_seconds"] is None
    assert found["compared_with"] == "before"
    assert found["lost_speed"] == pytest.approx(0.22, abs=0.02)
    first = found["suspects"][0]
    assert (first["kind"], first["title"]) == ("neighbour", "shuffle-88 on srv-0212")
    assert (first["job"], first["server"]) == (str(world.neighbour.id), "srv-0212")
    assert 0.8 < first["confidence"] <= 1.0
    assert {fact["is_for"] for fact in first["evidence"]} == {True, False}
    assert found["summary"].startswith("22% slower than before the dip; most likely cause: ")
    crossed = [row["source"] for row in found["pressure"] if row["is_crossed"]]
    assert crossed == ["llc_bandwidth"]
    assert [row["name"] for row in found["neighbours"]] == ["shuffle-88"]


def test_the_remedies_name_requests_that_work(api: APIClient, world: Missed) -> None:
    found = api.get(address(world.job)).json()
    by_kind = {remedy["kind"]: remedy for remedy in found["remedies"]}
    assert by_kind["move"]["text"] == "Migrate 2 units from srv-0212 to srv-0317"
    assert by_kind["move"]["action"]["body"]["migration"] == {
        "job": str(world.job.id),
        "from_server": "srv-0212",
        "to_server": "srv-0317",
    }
    assert by_kind["move"]["probability_met"] > found["unchanged"]["probability_met"]
    action = by_kind["relax"]["action"]
    assert action["body"]["spec"]["target"]["ips"] < 1e9
    reply = api.generic(
        action["method"], action["path"], json.dumps(action["body"]),
        content_type="application/json",
    )  # fmt: skip
    assert reply.status_code == 200, reply.content


def test_the_migration_becomes_a_plan(power: APIClient, world: Missed) -> None:
    remedies = power.get(address(world.job)).json()["remedies"]
    action = next(remedy["action"] for remedy in remedies if remedy["kind"] == "move")
    assert power.post(action["path"], action["body"], format="json").status_code == 202
    assert process_plan_requests() == 1
    (plan,) = power.get("/api/v1/plans/").json()["results"]
    assert re.fullmatch(
        r"migrates 2 units of leaf-04 from srv-0212 to srv-0317;"
        r" it then meets its target with [5-9]\d%, as it is with 0%",
        plan["message"],
    )
    changed = power.get(f"/api/v1/plans/{plan['name']}/").json()["predicted"]["jobs"]
    assert (changed[0]["name"], changed[0]["moves"]) == ("leaf-04", 1)


def test_more_units_are_a_new_job_of_that_size(api: APIClient, world: Missed) -> None:
    remedies = api.get(address(world.job)).json()["remedies"]
    remedy = next(remedy for remedy in remedies if remedy["kind"] == "units")
    units = remedy["action"]["body"]["spec"]["units"]
    assert remedy["text"] == f"Submit it again with {units} units"
    reply = api.post(remedy["action"]["path"], remedy["action"]["body"], format="json")
    assert reply.status_code == 201, reply.content
    assert reply.json()["spec"]["units"] == units


def test_a_job_that_meets_its_target_says_so(api: APIClient, world: Missed) -> None:
    JobSample.objects.filter(cluster_s__gte=DIP_S).delete()
    found = api.get(address(world.job)).json()
    assert found["summary"] == "The job has met its target in all its reports."
    assert (found["dip"], found["suspects"], found["remedies"]) == (None, [], [])


def test_a_single_report_below_the_target_is_not_called_met(api: APIClient, world: Missed) -> None:
    JobSample.objects.filter(cluster_s__gt=DIP_S).delete()
    summary = api.get(address(world.job)).json()["summary"]
    assert summary == "Only single reports are below the target; two in a row begin a dip."
    JobSample.objects.all().delete()
    summary = api.get(address(world.job)).json()["summary"]
    assert summary == "No report has measured the performance of the job yet."


def test_a_job_as_fast_as_predicted_has_no_likely_cause(api: APIClient, world: Missed) -> None:
    JobSample.objects.filter(cluster_s__lt=DIP_S).delete()
    slow = {"value": 0.5e9, "low": 0.48e9, "high": 0.52e9}
    Job.objects.filter(pk=world.job.pk).update(predicted=slow)
    summary = api.get(address(world.job)).json()["summary"]
    assert re.fullmatch(
        r"\d+% faster than predicted without neighbours, but too slow for the target;"
        r" no neighbour or migration explains that.",
        summary,
    )


def test_best_effort_has_no_target_to_miss(api: APIClient, world: Missed) -> None:
    job = factories.job(target={"kind": "best_effort"}, project=world.job.project)
    assert api.get(address(job)).json()["summary"] == "The job has no target to miss."


def test_another_dip_is_asked_for_by_its_time(api: APIClient, world: Missed) -> None:
    assert api.get(address(world.job) + "?at=6000").json()["dip"] is None
    assert api.get(address(world.job) + "?at=6700").json()["dip"]["begin_seconds"] == DIP_S
    assert api.get(address(world.job) + "?at=soon").status_code == 400


def test_a_neighbour_of_another_project_is_counted_without_its_name(
    stranger: User, as_user: Speak, project: Project
) -> None:
    world = missed(project=factories.project("elsewhere"), hidden=project)
    text = as_user(stranger).get(address(world.job)).content.decode()
    assert "a job of another project" in text
    assert world.neighbour.name not in text
    assert str(world.neighbour.id) not in text


def test_a_job_of_another_project_does_not_exist(
    stranger: User, as_user: Speak, world: Missed
) -> None:
    assert as_user(stranger).get(address(world.job)).status_code == 404


def test_a_diagnosis_costs_a_fixed_number_of_statements(
    api: APIClient, world: Missed, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    api.get(address(world.job))  # reads the cluster once
    for i in range(3):
        factories.allocation(
            factories.job(f"more-{i}", state="running", started_s=6100.0), world.empty
        )
    with django_assert_max_num_queries(24):
        api.get(address(world.job))
