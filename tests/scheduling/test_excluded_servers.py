"""Jobs that must not run on some servers: fields, decisions, growth and pages."""

from typing import Any

import pytest
from django.test import Client

from apps.accounts.core.roles import Role
from apps.common.core.errors import InvalidInputError
from apps.inventory.models import Server
from apps.scheduling.models import Allocation, Decision
from apps.scheduling.services.agent import make_agent
from apps.workloads.core.constraints import Constraints
from apps.workloads.core.spec import parse_job
from apps.workloads.models import Job
from tests import factories
from tests.scheduling.world import build, known, state_and_reason, waiting, work

JOB: dict[str, Any] = {"application": "kmeans", "target": {"kind": "best_effort"}}


def servers_of(job: Job) -> set[str]:
    held = Allocation.objects.filter(job=job).values("server_id")
    return set(Server.objects.filter(pk__in=held).values_list("name", flat=True))


def test_the_excluded_servers_are_a_constraint() -> None:
    spec = parse_job({**JOB, "constraints": {"excluded": ["b", "a", "b"]}})
    assert spec.constraints == Constraints(excluded=("b", "a"))
    assert spec.constraints.as_json()["excluded"] == ["b", "a"]
    assert "excluded" not in Constraints().as_json(), "the keys of other jobs stay"


@pytest.mark.parametrize(
    ("excluded", "at"),
    [
        ("a", "/constraints/excluded"),
        ([3], "/constraints/excluded/0"),
        ([f"s{i}" for i in range(101)], "/constraints/excluded"),
    ],
    ids=["text", "number", "too many"],
)
def test_other_values_are_refused_by_name(excluded: object, at: str) -> None:
    with pytest.raises(InvalidInputError) as raised:
        parse_job({**JOB, "constraints": {"excluded": excluded}})
    assert [problem.pointer for problem in raised.value.problems] == [at]


@pytest.mark.django_db
def test_a_job_runs_on_none_of_the_servers_it_excludes(client: Client) -> None:
    factories.cluster(seen_cluster_s=3000.0)
    build("a", "b", "c")
    job = waiting(known(), constraints={"excluded": ["c", "gone", "a"]})
    work(make_agent("agent-1"))
    assert state_and_reason(job)[0] == "starting"
    assert servers_of(job) == {"b"}
    assert Decision.objects.get(job=job).dropped["excluded"] == 8
    client.force_login(factories.user(role=Role.ADMIN))
    document = client.get(f"/api/v1/jobs/{job.id}/").json()
    assert document["spec"]["constraints"]["excluded"] == ["c", "gone", "a"]
    page = client.get(f"/jobs/{job.id}/").content.decode()
    assert "<dt>Not on</dt><dd>c, gone, a</dd>" in page


@pytest.mark.django_db
def test_a_job_that_excludes_every_server_waits_and_says_so() -> None:
    factories.cluster(seen_cluster_s=3000.0)
    build("a", "b")
    job = waiting(known(), constraints={"excluded": ["a", "b"]})
    agent = make_agent("agent-1")
    work(agent)
    assert state_and_reason(job) == ("queued", "NoFreeUnit")
    assert "excluded servers" in job.reason_message


@pytest.mark.django_db
def test_a_server_that_is_added_later_is_excluded_by_its_name() -> None:
    factories.cluster(seen_cluster_s=3000.0)
    build("a")
    agent = make_agent("agent-1")
    first = waiting(known(), constraints={"excluded": ["b"]}, units_requested=3, gang=False)
    work(agent)
    build("a", "b", "c")
    second = waiting(first.application, constraints={"excluded": ["b"]}, units_requested=4)
    work(agent)
    assert servers_of(first) == {"a"}
    assert servers_of(second) <= {"a", "c"}


@pytest.mark.django_db
def test_missing_units_are_not_on_excluded_servers() -> None:
    factories.cluster(seen_cluster_s=3000.0)
    build("a")
    agent = make_agent("agent-1")
    job = waiting(known(), constraints={"excluded": ["b"]}, units_requested=6, gang=False)
    work(agent)
    assert servers_of(job) == {"a"}
    build("a", "b", "c")
    for _ in range(3):
        work(agent)
    job.refresh_from_db()
    assert servers_of(job) == {"a", "c"}
