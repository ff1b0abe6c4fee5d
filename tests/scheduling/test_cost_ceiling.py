"""Jobs with a ceiling on their cost: fields, decisions, pages and commands."""

from typing import Any

import pytest
from django.test import Client

from apps.accounts.core.roles import Role
from apps.accounts.models import Membership
from apps.common.core.errors import InvalidInputError
from apps.scheduling.models import Decision
from apps.scheduling.services.agent import make_agent
from apps.workloads.core.spec import parse_job
from apps.workloads.core.targets import InstructionRate
from apps.workloads.services import update_job
from tests import factories
from tests.scheduling.world import build, known, state_and_reason, waiting, work

pytestmark = pytest.mark.django_db

JOB: dict[str, Any] = {"application": "kmeans", "target": {"kind": "best_effort"}}


@pytest.fixture(autouse=True)
def clock(db: None) -> None:
    factories.cluster(seen_cluster_s=3000.0)


def test_a_job_within_its_ceiling_is_placed_and_shows_its_cost(client: Client) -> None:
    build("a")
    job = waiting(known(), constraints={"max_cost": 500.0})
    work(make_agent("agent-1"))
    assert state_and_reason(job)[0] == "starting"
    cost = Decision.objects.get(job=job).predicted["cost"]
    assert 90.0 < cost <= 500.0, "9 GB at 100 MB/s, and neighbours"
    client.force_login(factories.user(role=Role.ADMIN))
    document = client.get(f"/api/v1/jobs/{job.id}/").json()
    assert document["spec"]["constraints"]["max_cost"] == 500.0
    assert document["status"]["predicted"]["cost"] == cost
    text = f"{cost:,.0f} of at most 500 unit-seconds"
    page = client.get(f"/jobs/{job.id}/").content.decode().replace("\xa0", " ")
    assert page.count(text) >= 1
    assert f"Predicted cost: {text}." in client.get(
        f"/jobs/{job.id}/?tab=why"
    ).content.decode().replace("\xa0", " ")


def test_a_job_that_costs_more_than_its_ceiling_fails_with_its_own_reason(client: Client) -> None:
    build("a")
    job = waiting(known(), constraints={"max_cost": 50.0})
    work(make_agent("agent-1"))
    assert state_and_reason(job) == ("failed", "CostExceeded")
    assert job.reason_message.startswith(
        "the highest cost (max_cost) is 50 unit-seconds, and the cheapest placement"
    )
    assert "units of J" in job.reason_message
    decision = Decision.objects.get(job=job)
    assert (decision.outcome, decision.reason_code) == ("refused", "CostExceeded")
    client.force_login(factories.user(role=Role.ADMIN))
    page = client.get(f"/jobs/{job.id}/?tab=why").content.decode().replace("\xa0", " ")
    assert "The highest cost (max_cost) is 50 unit-seconds" in page
    assert "at most 50 unit-seconds" in page


def test_a_check_names_the_cheapest_cost(client: Client) -> None:
    build("a")
    application = known()
    caller = factories.user(role=Role.ADMIN)
    Membership.objects.create(user=caller, project=factories.project(), role=Role.SUBMITTER.value)
    client.force_login(caller)
    body = {
        "application": application.name,
        "target": {"kind": "completion_time", "seconds": 100.0},
        "input_bytes": 9 * 10**9,
        "constraints": {"max_cost": 50},
    }
    answer = client.post("/api/v1/checks/", body, content_type="application/json").json()
    assert (answer["outcome"], answer["reason"]) == ("infeasible", "CostExceeded")
    assert "(max_cost) is 50 unit-seconds" in answer["summary"]


@pytest.mark.parametrize("ceiling", [0, -1, 1e16, "much"], ids=str)
def test_a_ceiling_outside_its_limits_is_refused(ceiling: object) -> None:
    with pytest.raises(InvalidInputError) as raised:
        parse_job({**JOB, "input_bytes": 9, "constraints": {"max_cost": ceiling}})
    assert raised.value.problems[0].pointer == "/constraints/max_cost"


def test_a_change_of_the_target_keeps_the_cost_known() -> None:
    works = waiting(known(), constraints={"max_cost": 50.0}, input_bytes=10**9)
    with pytest.raises(InvalidInputError) as raised:
        update_job(works.id, {"target": InstructionRate(1.0)})
    (found,) = raised.value.problems
    assert (found.pointer, found.code) == ("/target", "contradiction")
    assert "ips contradicts constraints.max_cost" in found.detail
    ends = waiting(known(), constraints={"max_cost": 50.0}, duration_s=60.0)
    assert update_job(ends.id, {"target": InstructionRate(1.0)}).target_kind == "ips"


def test_a_ceiling_needs_a_job_that_ends() -> None:
    with pytest.raises(InvalidInputError) as raised:
        parse_job({**JOB, "constraints": {"max_cost": 5}})
    assert raised.value.problems[0].pointer == "/constraints/max_cost"
    ends = parse_job({**JOB, "duration_seconds": 60, "constraints": {"max_cost": 5}})
    assert ends.constraints.as_json()["max_cost"] == 5
    assert "max_cost" not in parse_job(JOB).constraints.as_json()
