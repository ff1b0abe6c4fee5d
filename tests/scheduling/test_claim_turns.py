"""Claims take turns over projects, users and flows: no flood holds back another job."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from apps.accounts.models import User
from apps.scheduling.services import queue
from apps.scheduling.services.queue import BATCH
from apps.workloads import services as workloads
from apps.workloads.models import Application, Job
from tests import factories
from tests.scheduling.shapes import NOWHERE, ONE_UNIT, counting, flood, not_due
from tests.scheduling.world import build, known, state_and_reason, waiting

pytestmark = pytest.mark.django_db
LAST = UUID(int=2**128 - 1)


@pytest.fixture(autouse=True)
def clock(db: None) -> None:
    factories.cluster(seen_cluster_s=3000.0)


def me() -> User:
    return User.objects.filter(username="me").first() or factories.user("me")


def mine(application: Application, count: int, **values: Any) -> list[Job]:
    """Jobs of one shape and of one user."""
    return flood(application, count, created_by=me(), **values)


def sizes(application: Application, count: int, **values: Any) -> list[Job]:
    """Jobs of one flow and of different sizes: no two share a shape."""
    jobs = mine(application, count, **values)
    for number, job in enumerate(jobs):
        job.input_bytes = number
    Job.objects.bulk_update(jobs, ["input_bytes"])
    return jobs


def flows(application: Application, count: int, **values: Any) -> list[Job]:
    """Jobs of one user in different flows, in the order of their submission."""
    jobs = [
        mine(application, 1, **values, constraints={"labels": {"zone": f"mars-{number}"}})[0]
        for number in range(count)
    ]
    for job in jobs:
        job.refresh_from_db(fields=["flow_key"])
    return jobs


def claim(limit: int, **values: Any) -> list[UUID]:
    return workloads.claim_waiting(agent="agent-1", limit=limit, **values)


def ids(jobs: Sequence[Job]) -> list[UUID]:
    return [job.id for job in jobs]


def test_a_job_behind_many_requests_with_an_unmet_constraint_starts_in_the_first_turn() -> None:
    build("a")
    application = known()
    sizes(application, 3 * BATCH, **NOWHERE)
    ordinary = waiting(application, created_by=me(), **ONE_UNIT)
    counting()[0].take_turn()
    assert state_and_reason(ordinary)[0] == "starting"


def test_a_job_between_many_requests_with_an_unmet_constraint_starts_in_the_first_turn() -> None:
    build("a")
    application = known()
    sizes(application, 2 * BATCH, **NOWHERE)
    ordinary = waiting(application, created_by=me(), **ONE_UNIT)
    sizes(application, 2 * BATCH, **NOWHERE)
    counting()[0].take_turn()
    assert state_and_reason(ordinary)[0] == "starting"


def test_a_job_behind_as_many_flows_of_its_user_starts_in_the_first_turn() -> None:
    build("a")
    application = known()
    flows(application, 2 * BATCH)
    ordinary = waiting(application, created_by=me(), **ONE_UNIT)
    counting()[0].take_turn()
    assert state_and_reason(ordinary)[0] == "starting"


def test_a_job_between_many_flows_of_another_user_starts_in_the_first_turn() -> None:
    build("a")
    application = known()
    flows(application, 2 * BATCH)
    ordinary = waiting(application, created_by=factories.user("other"), **ONE_UNIT)
    flows(application, 2 * BATCH)
    counting()[0].take_turn()
    assert state_and_reason(ordinary)[0] == "starting"


def test_a_job_before_many_jobs_of_its_flow_and_behind_many_flows_starts_in_the_first_turn() -> (
    None
):
    build("a")
    application = known()
    flows(application, 2 * BATCH)
    ordinary = [waiting(application, created_by=me(), **ONE_UNIT) for _ in range(BATCH // 2)]
    counting()[0].take_turn()
    assert state_and_reason(ordinary[0])[0] == "starting"


def test_half_of_the_claims_of_a_project_are_the_most_urgent_jobs() -> None:
    application = known()
    urgent = mine(application, 16, priority=5)
    flows(application, 16)
    claimed = claim(8)
    assert len(claimed) == 8
    assert set(ids(urgent[:4])) <= set(claimed)


def test_flows_have_equal_turns() -> None:
    application = known()
    one, two = (mine(application, 40, constraints={"labels": {"n": n}}) for n in "12")
    urgent = mine(application, 40, priority=5)
    claimed = set(claim(32))
    assert len(claimed & set(ids(urgent))) > 16
    assert len(claimed & set(ids(one))) == len(claimed & set(ids(two))) > 0


def test_jobs_of_a_flow_are_claimed_by_priority_and_age() -> None:
    application = known()
    other = flows(application, 4)
    jobs = mine(application, 20)
    (urgent,) = mine(application, 1, priority=1)
    claimed = set(claim(12)) - set(ids(other))
    assert urgent.id in claimed
    assert claimed - {urgent.id} == set(ids(jobs[: len(claimed) - 1]))


@pytest.mark.parametrize("start", [UUID(int=0), UUID(int=2**127), LAST])
def test_turns_from_any_flow_claim_each_job_once(start: UUID) -> None:
    application = known()
    jobs = [*flows(application, 10), *mine(application, 10)]
    assert sorted(claim(20, start=start)) == sorted(ids(jobs))


def test_turns_begin_after_the_given_flow() -> None:
    application = known()
    mine(application, 40, priority=5)
    jobs = sorted(flows(application, 40), key=lambda job: job.flow_key)
    mine(application, 40)
    assert jobs[21].id in claim(16, start=jobs[20].flow_key)
    assert jobs[0].id in claim(16, start=jobs[39].flow_key)


def test_a_turn_after_a_long_turn_has_half_the_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    build("a")
    sizes(known(), 2 * BATCH, **NOWHERE)
    clock = SimpleNamespace(now_s=0.0)
    monkeypatch.setattr(queue, "time", SimpleNamespace(monotonic=lambda: clock.now_s))
    by, policy = counting()
    place = policy.place

    def place_slowly(*arguments: Any) -> Any:
        clock.now_s += 1.0
        return place(*arguments)

    monkeypatch.setattr(policy, "place", place_slowly)
    by.take_turn()
    not_due()
    by.take_turn()
    assert len(policy.evaluated) == BATCH + BATCH // 2


@pytest.mark.parametrize(
    ("first", "second", "is_shared"),
    [
        ({}, {}, True),
        ({"input_bytes": 1}, {"input_bytes": 2}, True),
        ({"priority": 1}, {"priority": 2}, True),
        ({"submitted_s": 1.0}, {"submitted_s": 9999.0}, True),
        ({"constraints": {"labels": {"a": "1"}}}, {"constraints": {"labels": {"a": "2"}}}, False),
        ({"units_requested": 1}, {"units_requested": 2}, False),
        ({"units_requested": None}, {"units_requested": 2}, False),
        ({"unit_memory_bytes": 1}, {"unit_memory_bytes": 2}, False),
        ({"gang": True}, {"gang": False}, False),
    ],
)
def test_requests_that_differ_in_size_only_are_one_flow(
    first: dict[str, Any], second: dict[str, Any], is_shared: bool
) -> None:
    application = known()
    jobs = [factories.job(application=application, **values) for values in (first, second)]
    assert (jobs[0].flow_key == jobs[1].flow_key) is is_shared
