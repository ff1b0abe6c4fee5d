"""Jobs that start with a part of their units get the rest as units are freed."""

from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from django.db import transaction

from apps.execution.backends.emulated.growth import grown_launches, record_grown
from apps.execution.models import Launch
from apps.execution.services.launches import request_launches
from apps.inventory.models import Server, ServerState
from apps.operations.models import Event
from apps.scheduling.core.policies import least_loaded
from apps.scheduling.models import Allocation, Decision
from apps.scheduling.services import commit, release
from apps.scheduling.services.agent import SchedulingAgent, make_agent
from apps.workloads import services as workloads
from apps.workloads.models import Job
from tests import factories
from tests.scheduling.world import (
    ME,
    at_once,
    build,
    claimed,
    known,
    proposal,
    put,
    state_and_reason,
    waiting,
    work,
)

pytestmark = pytest.mark.django_db

FOUR = {"units_requested": 4, "gang": False, "target": {"kind": "best_effort"}}


@pytest.fixture(autouse=True)
def clock(db: None) -> None:
    factories.cluster(seen_cluster_s=3000.0)


def busy(*units: int, of: Any) -> Job:
    """A job that holds units."""
    job = claimed()
    commit([proposal(job, of.topology, units)], agent=ME)
    return job


def sizes(job: Job) -> tuple[int | None, int, int]:
    job.refresh_from_db()
    return job.units, job.units_missing, job.units_pending


def again(by: SchedulingAgent) -> None:
    """Evaluate the incomplete jobs without delay."""
    Job.objects.update(claimed_until=None)
    work(by)


def test_a_job_starts_with_the_free_units_and_gets_the_rest_later() -> None:
    copy = build("a")
    holder = busy(0, 1, 2, of=copy)
    job = waiting(known(), **FOUR)
    agent = make_agent("agent-1")
    work(agent)
    assert (state_and_reason(job)[0], sizes(job)) == ("starting", (1, 3, 0))
    again(agent)
    assert sizes(job) == (1, 3, 0)
    release([holder.id])
    again(agent)
    assert sizes(job) == (4, 0, 3)
    assert sum(row.cores for row in Allocation.objects.filter(job=job)) == 4
    first, second = Decision.objects.filter(job=job).order_by("at")
    assert [(d.units, d.units_won, d.units_before) for d in (first, second)] == [
        (4, 1, 0),
        (3, 3, 1),
    ]
    event = Event.objects.get(kind="job.grown")
    assert (event.subject, event.data["units"]) == (str(job.id), 3)


def test_a_job_gets_no_unit_that_costs_more_than_its_ceiling() -> None:
    """The ceiling stands for a cheap platform that closed, so that only a dear one has units."""
    copy = build("a")
    holder = busy(0, 1, 2, of=copy)
    job = waiting(known(), **FOUR, constraints={"max_cost": 1000.0})
    agent = make_agent("agent-1")
    work(agent)
    assert (state_and_reason(job)[0], sizes(job)) == ("starting", (1, 3, 0))
    Job.objects.filter(id=job.id).update(constraints={"max_cost": 1.0})
    release([holder.id])
    again(agent)
    assert sizes(job) == (1, 3, 0)
    Job.objects.filter(id=job.id).update(constraints={"max_cost": 1000.0})
    again(agent)
    assert sizes(job) == (4, 0, 3)


def test_a_job_keeps_what_it_lacks_while_a_server_is_closed() -> None:
    """Ninety-six tasks take six units, of which only four are open for a while."""
    copy = build("a", "b")
    holders = [busy(*units, of=copy) for units in ([0, 1, 2], [4, 5, 6, 7])]
    job = waiting(known(), gang=False, target={"kind": "best_effort"}, tasks_total=96)
    agent = make_agent("agent-1")
    work(agent)
    assert sizes(job) == (1, 5, 0)
    put("b", to=ServerState.CORDONED)
    release([holders[0].id])
    again(agent)
    assert sizes(job) == (4, 2, 3)
    put("b", to=ServerState.ACTIVE)
    release([holders[1].id])
    again(agent)
    assert sizes(job) == (6, 0, 5)


def test_a_gang_still_starts_whole_or_not_at_all() -> None:
    copy = build("a")
    busy(0, of=copy)
    job = waiting(known(), **{**FOUR, "gang": True})
    work(make_agent("agent-1"))
    assert state_and_reason(job) == ("queued", "NotEnoughFreeUnits")


def test_incomplete_jobs_come_before_new_ones_of_the_same_turn() -> None:
    copy = build("a")
    holder = busy(0, 1, 2, of=copy)
    job = waiting(known(), **FOUR)
    agent = make_agent("agent-1")
    work(agent)
    release([holder.id])
    late = waiting(known(), **FOUR)
    again(agent)
    assert sizes(job)[:2] == (4, 0)
    assert state_and_reason(late) == ("queued", "NoFreeUnit")


def test_a_job_that_ended_or_is_cancelled_is_given_nothing() -> None:
    copy = build("a")
    holder = busy(0, 1, 2, of=copy)
    job = waiting(known(), **FOUR)
    agent = make_agent("agent-1")
    work(agent)
    release([holder.id])
    Job.objects.filter(id=job.id).update(cancel_requested=True)
    again(agent)
    assert sizes(job) == (1, 3, 0)


def test_added_units_keep_the_spread_of_the_job() -> None:
    copy = build("a", "b", "c")
    holder = busy(4, 5, 6, 7, *range(8, 12), of=copy)
    where = {"constraints": {"spread": "server"}, "units_requested": 2}
    job = waiting(known(), **{**FOUR, **where})
    agent = make_agent("agent-1")
    work(agent)
    assert sizes(job) == (1, 1, 0)  # "a" has more free units
    again(agent)
    assert sizes(job) == (1, 1, 0)
    release([holder.id])
    again(agent)
    servers = set(Allocation.objects.filter(job=job).values_list("server_id", flat=True))
    assert (sizes(job)[1], len(servers)) == (0, 2)


def test_a_launch_requested_later_has_all_units() -> None:
    copy = build("a")
    holder = busy(0, 1, 2, of=copy)
    job = waiting(known(), **FOUR)
    agent = make_agent("agent-1")
    work(agent)
    release([holder.id])
    again(agent)
    request_launches("emulated", limit=10)
    launch = Launch.objects.get(job=job)
    server = Server.objects.get(name="a").id
    assert launch.order["parts"] == [[server, 4]]


def test_the_backend_reads_and_reports_the_units_of_a_running_job() -> None:
    copy = build("a", "b")
    holder = busy(*range(1, 8), of=copy)
    job = waiting(known(), **FOUR)
    agent = make_agent("agent-1")
    work(agent)
    request_launches("emulated", limit=10)
    Launch.objects.update(state="running", started_s=3000.0)
    Job.objects.filter(id=job.id).update(state="running", started_s=3000.0)
    assert grown_launches("emulated") == []
    release([holder.id])
    again(agent)
    (grown,) = grown_launches("emulated")
    assert sum(units for _, units in grown.parts) == 4
    with transaction.atomic():
        record_grown(3100.0, {grown.launch: grown.parts})
    assert sizes(job) == (4, 0, 0)
    job.refresh_from_db()
    assert job.grown_s == 3100.0
    stored = Launch.objects.get(id=grown.launch).order["parts"]
    assert [tuple(part) for part in stored] == list(grown.parts)
    assert grown_launches("emulated") == []


def test_units_given_between_a_read_and_its_report_stay_pending() -> None:
    copy = build("a")
    holder = busy(1, 2, of=copy)
    other = busy(3, of=copy)
    job = waiting(known(), **FOUR)
    agent = make_agent("agent-1")
    work(agent)
    request_launches("emulated", limit=10)
    Launch.objects.update(state="running", started_s=3000.0)
    Job.objects.filter(id=job.id).update(state="running", started_s=3000.0)
    release([holder.id])
    again(agent)
    (grown,) = grown_launches("emulated")
    release([other.id])
    again(agent)
    with transaction.atomic():
        record_grown(3100.0, {grown.launch: grown.parts})
    assert sizes(job) == (4, 0, 1)
    (rest,) = grown_launches("emulated")
    assert sum(units for _, units in rest.parts) == 4


def test_a_requeued_job_is_placed_whole_again() -> None:
    copy = build("a")
    busy(0, 1, 2, of=copy)
    job = waiting(known(), **FOUR)
    work(make_agent("agent-1"))
    ready = claimed(gang=False)
    (one,) = [proposal(ready, copy.topology, [3], gang=False)]
    assert sizes(job) == (1, 3, 0)
    release([job.id])
    won, _ = commit([one], agent=ME)
    assert (list(won), sizes(ready)) == ([ready.id], (1, 0, 0))


@pytest.mark.django_db(transaction=True)
def test_two_agents_give_a_job_no_more_units_than_it_lacks() -> None:
    copy = build(*"abc")
    holder = busy(*range(1, 12), of=copy)
    job = waiting(known(), **FOUR)
    agents = [
        SchedulingAgent(name, policy=least_loaded(), rng=np.random.default_rng(i))
        for i, name in enumerate(("agent-1", "agent-2"))
    ]
    work(agents[0])
    release([holder.id])
    Job.objects.update(claimed_until=None)
    assert at_once(*(lambda each=each: work(each) for each in agents)) == []
    assert sizes(job)[:2] == (4, 0)
    assert sum(row.cores for row in Allocation.objects.filter(job=job)) == 4


def test_a_claim_of_an_incomplete_job_is_exclusive_and_released_after_a_refusal() -> None:
    copy = build("a")
    busy(0, 1, 2, of=copy)
    job = waiting(known(), **FOUR)
    work(make_agent("agent-1"))
    Job.objects.update(claimed_until=None)
    assert workloads.claim_incomplete(agent="agent-1", limit=4) == [job.id]
    assert workloads.claim_incomplete(agent="agent-2", limit=4) == []
    workloads.postpone_growth([job.id], agent="agent-2")
    job.refresh_from_db()
    assert job.claimed_by == "agent-1"
    workloads.postpone_growth([job.id], agent="agent-1")
    job.refresh_from_db()
    assert job.claimed_by == ""


def test_jobs_that_get_no_unit_do_not_hold_up_later_ones() -> None:
    """Each turn claims the next jobs of a round, in the order of their placement."""
    build("a")
    fields: dict[str, Any] = {"state": "running", "units": 1, "units_missing": 3, "gang": False}
    first = factories.MOMENT
    jobs = [
        factories.job(**fields, name=f"j{n}", placed_at=first + timedelta(seconds=n))
        for n in range(5)
    ]
    position, turns = workloads.GrowthRound(), []
    for _ in range(4):
        turns.append(workloads.claim_incomplete(agent="agent-1", limit=2, position=position))
        Job.objects.update(claimed_until=None)
    order = [job.id for job in jobs]
    assert turns == [order[:2], order[2:4], order[4:], order[:2]]


def test_a_predicted_end_moves_nearer_with_the_added_units() -> None:
    """A job on one of four units has run for 40 s of 400: 360 s are left, which become 90 s."""
    copy = build("a")
    holder = busy(0, 1, 2, of=copy)
    job = waiting(known(), **FOUR, input_bytes=36 * 10**9)
    agent = make_agent("agent-1")
    work(agent)
    Job.objects.filter(id=job.id).update(
        state="running", started_s=2960.0, run_s=400.0, run_high_s=480.0
    )
    release([holder.id])
    again(agent)
    assert sizes(job)[:2] == (4, 0)
    assert job.run_s == pytest.approx(40.0 + 90.0)
    assert job.run_high_s == pytest.approx(40.0 + 110.0)


def test_a_job_without_a_predicted_run_time_grows_without_one() -> None:
    copy = build("a")
    holder = busy(0, 1, 2, of=copy)
    job = waiting(known(), **FOUR)
    agent = make_agent("agent-1")
    work(agent)
    Job.objects.filter(id=job.id).update(run_s=None, run_high_s=None)
    release([holder.id])
    again(agent)
    assert (sizes(job)[:2], job.run_s, job.run_high_s) == ((4, 0), None, None)
