"""Freed capacity wakes the waiting shapes that could use it."""

from typing import Any
from uuid import UUID

import numpy as np
import pytest

from apps.inventory.core.cluster_file import parse_cluster
from apps.inventory.models import ServerState
from apps.inventory.services import import_cluster
from apps.scheduling.services import commit, release
from apps.scheduling.services.agent import SchedulingAgent, make_agent
from apps.scheduling.services.queue import BATCH, MIN_BATCH, SHAPES
from apps.workloads import services as workloads
from apps.workloads.core.shapes import Freed, FreedServers, Needs, WaitsFor
from apps.workloads.models import Job, WaitingShape
from tests import factories
from tests.scheduling.shapes import NOWHERE, ONE_UNIT, counting, due, flood, not_due, refuse
from tests.scheduling.world import (
    ME,
    SIZES,
    FirstFree,
    build,
    claimed,
    known,
    proposal,
    put,
    state_and_reason,
    waiting,
)

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def clock(db: None) -> None:
    factories.cluster(seen_cluster_s=3000.0)


FREED: dict[str, Any] = {
    "platform": "J",
    "labels": ("rack=r1", "ssd=yes"),
    "units": 2,
    "memory_bytes": 100,
    "network_bps": 100,
    "storage_bytes": 100,
    "wakes": (WaitsFor.UNITS,),
    "sequence": 8,
}


def woken(needs: Needs, **freed: Any) -> bool:
    """Return whether freed capacity lets an agent claim a job of these needs."""
    job = claimed(ME)
    refuse([job], needs)
    servers = [FreedServers(**{**FREED, **freed})]
    claim = workloads.claim_shapes(agent="agent-2", limit=8, freed=Freed(4, servers))
    return list(claim.job_ids) == [job.id]


@pytest.mark.parametrize(
    ("needs", "is_woken"),
    [
        ({}, True),
        ({"units": 4}, True),
        ({"units": 5}, False),
        ({"units": 2, "on_one_server": True}, True),
        ({"units": 3, "on_one_server": True}, False),
        ({"platforms": ("J", "K")}, True),
        ({"platforms": ("K",)}, False),
        ({"labels": ("ssd=yes",)}, True),
        ({"labels": ("ssd=no",)}, False),
        ({"labels": ("ssd=yes", "gpu=1")}, False),
        ({"unit_memory_bytes": 100}, True),
        ({"unit_memory_bytes": 101}, False),
        ({"unit_network_bps": 101}, False),
        ({"unit_storage_bytes": 101}, False),
    ],
)
def test_freed_units_wake_the_shapes_that_could_use_them(
    needs: dict[str, Any], is_woken: bool
) -> None:
    assert woken(Needs(WaitsFor.UNITS, **needs)) is is_woken


@pytest.mark.parametrize("waits_for", [WaitsFor.OPENING, WaitsFor.SERVERS])
def test_freed_units_wake_no_shape_that_waits_for_servers(waits_for: WaitsFor) -> None:
    assert not woken(Needs(waits_for))


def test_an_opened_server_wakes_shapes_that_wait_for_one() -> None:
    assert woken(Needs(WaitsFor.OPENING), wakes=(WaitsFor.UNITS, WaitsFor.OPENING))


def test_capacity_that_a_shape_was_evaluated_with_does_not_wake_it() -> None:
    assert not woken(Needs(WaitsFor.UNITS), sequence=7)


def shapes_in_order() -> list[Job]:
    """Three waiting jobs of different shapes, the last of the highest priority."""
    application = known()
    jobs = [
        claimed(ME, application=application, input_bytes=n, priority=int(n == 2)) for n in range(3)
    ]
    for job in (jobs[1], jobs[0], jobs[2]):
        refuse([job])
    return jobs


def woken_in_pairs() -> list[set[UUID]]:
    freed = Freed(4, [FreedServers(**FREED)])
    return [
        set(workloads.claim_shapes(agent="agent-2", limit=2, freed=freed).job_ids)
        for _ in range(2)
    ]


def test_woken_shapes_come_by_priority_and_then_by_the_submission_of_their_jobs() -> None:
    jobs = shapes_in_order()
    assert woken_in_pairs() == [{jobs[2].id, jobs[0].id}, {jobs[1].id}]


@pytest.mark.parametrize(("keeps_place", "first"), [(True, 0), (False, 1)])
def test_a_shape_that_could_not_use_free_units_goes_to_the_end_of_its_priority(
    keeps_place: bool, first: int
) -> None:
    jobs = shapes_in_order()
    again = claimed(ME, application=jobs[0].application, input_bytes=0)
    refuse([again], keeps_place=keeps_place)
    assert woken_in_pairs() == [{jobs[2].id, jobs[first].id}, {jobs[1 - first].id}]


def test_a_release_wakes_a_waiting_job_before_it_is_due() -> None:
    copy = build("a", cores=2)
    holder = claimed()
    commit([proposal(holder, copy.topology, [0, 1])], agent=ME)
    job = waiting(**ONE_UNIT)
    by, _ = counting()
    by.work(for_s=60.0)
    not_due()
    assert state_and_reason(job) == ("queued", "NoFreeUnit")
    release([holder.id])
    by.work(for_s=60.0)
    assert state_and_reason(job)[0] == "starting"


def test_a_release_between_the_choice_and_the_refusal_is_not_lost() -> None:
    copy = build("a", cores=2)
    holder = claimed()
    commit([proposal(holder, copy.topology, [0, 1])], agent=ME)
    job = waiting(**ONE_UNIT)
    policy = FirstFree(meanwhile=lambda: release([holder.id]))
    by = SchedulingAgent("agent-1", policy=policy, rng=np.random.default_rng(5))
    by.take_turn()
    assert state_and_reason(job) == ("queued", "NoFreeUnit")
    not_due()
    by.take_turn()
    assert state_and_reason(job)[0] == "starting"


def test_an_opened_server_wakes_the_jobs_that_wait_for_it() -> None:
    build("a")
    put("a", ServerState.CORDONED)
    job = waiting(**ONE_UNIT)
    by = make_agent("agent-1")
    by.work(for_s=60.0)
    not_due()
    assert state_and_reason(job) == ("queued", "ServersClosed")
    put("a", ServerState.ACTIVE)
    by.work(for_s=60.0)
    assert state_and_reason(job)[0] == "starting"


def test_an_added_server_wakes_only_the_jobs_whose_labels_it_has() -> None:
    build("a")
    application = known()
    here = waiting(application, **ONE_UNIT, **NOWHERE)
    elsewhere = waiting(application, **ONE_UNIT, constraints={"labels": {"zone": "venus"}})
    by, policy = counting()
    by.work(for_s=60.0)
    not_due()
    policy.evaluated.clear()
    j = {**SIZES, "name": "J", "cores": 4, "idle_watts": 50, "peak_watts": 200}
    server = {"name": "m", "platform": "J", "rack": "r9", "labels": {"zone": "mars"}}
    import_cluster(parse_cluster({"platforms": [j], "servers": [server]}))
    by.work(for_s=60.0)
    assert (state_and_reason(here)[0], state_and_reason(elsewhere)[0]) == ("starting", "queued")
    assert policy.evaluated == [str(here.id)]


def test_jobs_of_a_woken_shape_are_evaluated_until_one_is_refused() -> None:
    copy = build(*"abcdef", cores=4)
    holder = claimed()
    commit([proposal(holder, copy.topology, range(24))], agent=ME)
    jobs = flood(known(), 40, units_requested=1)
    by, policy = counting()
    by.work(for_s=60.0)
    not_due()
    policy.evaluated.clear()
    release([holder.id])
    by.work(for_s=60.0)
    started = set(Job.objects.filter(state="starting", name__startswith="flood").values_list("id"))
    assert started == {(job.id,) for job in jobs[:24]}
    assert len(policy.evaluated) <= 1 + 2 + 4 + 8 + 16


def test_the_shape_of_jobs_that_all_started_is_deleted() -> None:
    copy = build("a", cores=2)
    holder = claimed()
    commit([proposal(holder, copy.topology, [0, 1])], agent=ME)
    waiting(**ONE_UNIT)
    by, _ = counting()
    by.work(for_s=60.0)
    release([holder.id])
    by.work(for_s=60.0)
    by.work(for_s=60.0)
    assert not WaitingShape.objects.exists()


def test_a_woken_job_of_higher_priority_is_placed_before_a_new_one() -> None:
    copy = build("a", cores=1)
    holder = claimed()
    commit([proposal(holder, copy.topology, [0])], agent=ME)
    application = known()
    urgent = waiting(application, priority=5, **ONE_UNIT)
    by, _ = counting()
    by.work(for_s=60.0)
    not_due()
    release([holder.id])
    ordinary = waiting(application, **ONE_UNIT)
    by.take_turn()
    states = [state_and_reason(job) for job in (urgent, ordinary)]
    assert states == [("starting", "PlacedBestOfSample"), ("queued", "NoFreeUnit")]


def test_jobs_that_wait_for_a_free_unit_start_in_the_order_of_their_submission() -> None:
    """Four of them are evaluated when one unit is freed; the others of these keep their places."""
    copy = build("a", cores=1)
    last = claimed()
    commit([proposal(last, copy.topology, [0])], agent=ME)
    application = known()
    jobs = [waiting(application, input_bytes=n, **ONE_UNIT) for n in range(8)]
    by, _ = counting()
    by.work(for_s=60.0)
    for job in jobs:
        not_due()
        release([last.id])
        by.work(for_s=60.0)
        started = set(Job.objects.filter(state="starting").values_list("input_bytes", flat=True))
        assert started == set(range(job.input_bytes + 1))
        last = job


def test_new_jobs_are_evaluated_at_once_however_many_shapes_are_due() -> None:
    build("a")
    application = known()
    for number in range(3 * SHAPES):
        flood(application, 1, input_bytes=number, **NOWHERE)
    by, policy = counting()
    by.work(for_s=60.0)
    due()
    policy.evaluated.clear()
    ordinary = waiting(application, **ONE_UNIT)
    by.take_turn()
    assert state_and_reason(ordinary)[0] == "starting"
    assert len(policy.evaluated) <= 1 + SHAPES


def test_every_job_of_a_long_queue_is_evaluated_once_before_any_is_evaluated_again() -> None:
    copy = build("a", cores=1)
    commit([proposal(claimed(), copy.topology, [0])], agent=ME)
    application = known()
    for number in range(2 * BATCH):
        flood(application, 1, input_bytes=number, units_requested=1)
    by, _ = counting()
    for _ in range(2 * BATCH // MIN_BATCH):  # at most
        not_due()
        by.take_turn()
    waiting_jobs = Job.objects.filter(name__startswith="flood")
    assert set(waiting_jobs.values_list("reason_code", "tries")) == {("NoFreeUnit", 1)}
