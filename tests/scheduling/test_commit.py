"""The commit: units have one owner, and decisions store their inputs."""

from dataclasses import replace
from functools import partial
from threading import Barrier, Event
from time import sleep
from typing import Any

import numpy as np
import pytest
from django.db import transaction

from apps.inventory.models import Change, ResourceUnit, Server, ServerState
from apps.inventory.services import set_server_state
from apps.operations.models import Event as LoggedEvent
from apps.scheduling.core.cluster.copy import ClusterCopy
from apps.scheduling.core.sizing.run_time import RunTime
from apps.scheduling.core.types import Candidate, Verdict, Within
from apps.scheduling.models import Allocation, Decision
from apps.scheduling.services import LostProposal, Proposal, commit, release
from apps.workloads import services as workloads
from apps.workloads.core.targets import BestEffort
from apps.workloads.models import Job
from tests import factories
from tests.races import assert_locks_in_order
from tests.scheduling.world import CAUSED, ME, at_once, build, claimed, placed, proposal, used


@pytest.fixture
def copy(db: None) -> ClusterCopy:
    factories.cluster()
    return build("a", "b")


def lost_of(lost: list[LostProposal]) -> list[tuple[Any, bool]]:
    return [(entry.proposal.job.id, entry.is_gone) for entry in lost]


def owners(*units: int) -> list[int | None]:
    """Return the owners of units by their index in id order."""
    held = list(ResourceUnit.objects.order_by("id").values_list("allocation_id", flat=True))
    return [held[unit] for unit in units]


def test_a_commit_starts_the_job_and_allocates_units_and_capacity(copy: ClusterCopy) -> None:
    job = claimed()
    won, lost = commit([proposal(job, copy.topology, [0, 1, 4])], agent=ME)
    job.refresh_from_db()
    held = Allocation.objects.order_by("id")
    assert lost == []
    assert (job.state, job.units, job.attempts, job.claimed_by) == ("starting", 3, 1, "")
    assert [a.cores for a in held] == [2, 1]
    assert owners(0, 1, 2, 4) == [held[0].id, held[0].id, None, held[1].id]
    assert used("a") == [2, 8 * 10**9, 5 * 10**8, 5 * 10**11]
    assert used("b") == [1, 4 * 10**9, 25 * 10**7, 25 * 10**10]
    assert won == {job.id: held[1].acquired_seq}


def test_a_commit_records_one_event_that_names_the_decision(copy: ClusterCopy) -> None:
    job = claimed()
    commit([proposal(job, copy.topology, [0])], agent=ME)
    (event,) = LoggedEvent.objects.filter(kind="job.placed")
    assert event.subject == str(job.id)
    assert event.data["decision"] == str(Decision.objects.get().id)


def test_the_first_of_two_proposals_for_a_unit_wins(copy: ClusterCopy) -> None:
    first, second = claimed(), claimed()
    proposals = [proposal(first, copy.topology, [0]), proposal(second, copy.topology, [0])]
    won, lost = commit(proposals, agent=ME)
    assert list(won) == [first.id]
    assert lost_of(lost) == [(second.id, False)]


def test_a_gang_that_lacks_one_unit_wins_none(copy: ClusterCopy) -> None:
    commit([proposal(claimed(), copy.topology, [3])], agent=ME)
    gang = claimed()
    won, lost = commit([proposal(gang, copy.topology, [2, 3, 4])], agent=ME)
    gang.refresh_from_db()
    assert (won, lost_of(lost)) == ({}, [(gang.id, False)])
    assert (gang.state, gang.claimed_by) == ("queued", ME.name)
    assert owners(2, 4) == [None, None]
    assert used("b") == [0, 0, 0, 0]


def test_an_incremental_job_keeps_the_units_it_won(copy: ClusterCopy) -> None:
    commit([proposal(claimed(), copy.topology, [3])], agent=ME)
    job = claimed()
    won, lost = commit([proposal(job, copy.topology, [2, 3, 4], gang=False)], agent=ME)
    job.refresh_from_db()
    decision = Decision.objects.get(job=job)
    assert (list(won), lost) == ([job.id], [])
    assert (job.state, job.units) == ("starting", 2)
    assert (decision.units, decision.units_won) == (3, 2)


def test_fewer_units_than_sized_have_a_longer_predicted_run(copy: ClusterCopy) -> None:
    job = claimed()
    chosen = proposal(job, copy.topology, [0, 1])
    sized = replace(chosen.sized_job.sized, units=4)
    sized_job = replace(chosen.sized_job, sized=sized, run=RunTime(100.0, 150.0))
    fewer = replace(chosen, sized_job=sized_job, placed=replace(chosen.placed, wanted=2))
    assert fewer.longest_s == 300.0
    commit([fewer], agent=ME)
    job.refresh_from_db()
    assert (job.units_missing, job.run_s, job.run_high_s) == (0, 200.0, 300.0)


def test_a_job_that_starts_again_has_no_start_of_its_last_attempt(copy: ClusterCopy) -> None:
    """Emulated servers continue a job; its progress tells where."""
    job = claimed(started_s=100.0, suspended_for_s=50.0, progress=0.5)
    commit([proposal(job, copy.topology, [0])], agent=ME)
    job.refresh_from_db()
    assert (job.started_s, job.suspended_for_s, job.progress) == (None, 0.0, 0.5)


def test_progress_is_lost_where_a_job_begins_anew(copy: ClusterCopy) -> None:
    job = claimed(started_s=100.0, progress=0.5)
    one = proposal(job, copy.topology, [0])
    topology = replace(copy.topology, platform_backend=("agent",))
    sized_job = replace(one.sized_job, topology=topology)
    commit([replace(one, sized_job=sized_job)], agent=ME)
    job.refresh_from_db()
    assert (job.started_s, job.progress) == (None, 0.0)


def test_units_with_a_locality_constraint_are_won_together(copy: ClusterCopy) -> None:
    commit([proposal(claimed(), copy.topology, [3])], agent=ME)
    job = claimed()
    near = proposal(job, copy.topology, [2, 3], gang=False, locality=Within.SERVER)
    assert lost_of(commit([near], agent=ME)[1]) == [(job.id, False)]


def test_a_server_closed_meanwhile_allocates_nothing(copy: ClusterCopy) -> None:
    set_server_state(server_id=Server.objects.get(name="a").id, state=ServerState.DRAINING)
    job = claimed()
    won, lost = commit([proposal(job, copy.topology, [0])], agent=ME)
    assert (won, lost_of(lost)) == ({}, [(job.id, False)])


def is_gone_after(job: Job, copy: ClusterCopy) -> bool:
    """Return True if a proposal for the job is lost without retry and got no units."""
    won, lost = commit([proposal(job, copy.topology, [0, 1])], agent=ME)
    assert (won, owners(0, 1)) == ({}, [None, None])
    assert Decision.objects.count() == 0
    return lost[0].is_gone


def test_a_job_cancelled_after_its_claim_gets_no_units(copy: ClusterCopy) -> None:
    job = claimed()
    workloads.cancel_jobs([job.id])
    assert is_gone_after(job, copy)


def test_a_job_held_after_its_claim_gets_no_units(copy: ClusterCopy) -> None:
    job = claimed()
    workloads.set_held(job.id, held=True)
    assert is_gone_after(job, copy)


def test_a_job_claimed_by_another_agent_gets_no_units(copy: ClusterCopy) -> None:
    job = claimed()
    Job.objects.filter(id=job.id).update(claimed_by="agent-2")
    assert is_gone_after(job, copy)


def test_a_job_whose_target_changed_after_its_claim_is_decided_again(copy: ClusterCopy) -> None:
    job = claimed()
    workloads.update_job(job.id, {"target": BestEffort()})
    assert is_gone_after(job, copy)
    assert workloads.claim_waiting(agent="agent-2", limit=5) == [job.id]


# ---- capacity ----


def test_shares_that_do_not_divide_evenly_fill_a_server(db: None) -> None:
    factories.cluster()
    odd = {"memory_bytes": 10**10 + 1, "network_bps": 10**9 + 2, "storage_bytes": 7}
    copy = build("a", cores=3, **odd)
    jobs = [claimed() for _ in range(3)]
    won, _ = commit([proposal(j, copy.topology, [i]) for i, j in enumerate(jobs)], agent=ME)
    assert len(won) == 3
    assert used("a") == [3, 9_999_999_999, 1_000_000_002, 6]
    release([job.id for job in jobs])
    assert used("a") == [0, 0, 0, 0]


def test_amounts_that_exceed_the_capacity_by_their_rounding_still_fit(db: None) -> None:
    factories.cluster()
    copy = build("a", cores=3)
    a_third = 5_333_333_334.0  # three times this is two bytes more than the server has
    gang = proposal(claimed(), copy.topology, [0, 1, 2], unit_memory_bytes=a_third)
    won, _ = commit([gang], agent=ME)
    assert len(won) == 1
    assert used("a")[:2] == [3, 15_999_999_999]


def test_two_jobs_whose_amounts_exceed_the_capacity_by_their_rounding_still_fit(db: None) -> None:
    factories.cluster()
    copy = build("a", cores=2)
    jobs = [claimed(), claimed()]
    half = 8_000_000_001.0
    proposals = [
        proposal(j, copy.topology, [i], unit_memory_bytes=half) for i, j in enumerate(jobs)
    ]
    won, _ = commit(proposals, agent=ME)
    assert len(won) == 2
    assert used("a")[:2] == [2, 16 * 10**9]
    release([job.id for job in jobs])
    assert used("a") == [0, 0, 0, 0]


def test_capacity_that_a_server_lacks_is_not_allocated(copy: ClusterCopy) -> None:
    greedy, other = claimed(), claimed()
    won, _ = commit(
        [
            proposal(greedy, copy.topology, [0], unit_memory_bytes=15e9),
            proposal(other, copy.topology, [1], unit_memory_bytes=2e9),
        ],
        agent=ME,
    )
    assert list(won) == [greedy.id]


def test_an_oversubscribed_server_allocates_more_than_its_capacity(copy: ClusterCopy) -> None:
    Server.objects.filter(name="a").update(oversubscription=1.5)
    full = proposal(claimed(), copy.topology, [0, 1], unit_memory_bytes=12e9)
    won, _ = commit([full], agent=ME)
    assert len(won) == 1
    assert used("a")[:2] == [2, 24 * 10**9]


# ---- decisions ----


def test_a_decision_stores_all_its_inputs(copy: ClusterCopy) -> None:
    job = claimed()
    best = Candidate(4, 1, 0.9, 0.8, 0.95, (9,), Verdict.CHOSEN, np.arange(10.0))
    worse = Candidate(1, 0, 0.7, float("nan"), 0.5, (5,), Verdict.OUTRANKED, np.zeros(10))
    proposed = proposal(job, copy.topology, [4], ranks=[0.97])
    commit(
        [replace(proposed, placed=replace(proposed.placed, candidates=(best, worse)))], agent=ME
    )
    decision = Decision.objects.get()
    assert (decision.job_id, decision.agent, decision.policy, decision.policy_version) == (
        *(job.id, "agent-1", "tarcil", 1),
    )
    assert (decision.outcome, decision.reason_code) == ("placed", "PlacedBestOfSample")
    assert (decision.seed, decision.snapshot, decision.rank) == (11, 7, 0.97)
    assert (decision.units, decision.units_won, decision.sample_size) == (1, 1, 8)
    assert (decision.examined, decision.eligible, decision.servers_total) == (8, 8, 2)
    assert decision.dropped == {"free": 3}
    expected = {"value": 500.0, "low": 400.0, "high": 600.0}
    assert decision.predicted == {**expected, "target": job.target}
    assert Job.objects.get(id=job.id).predicted == expected
    assert decision.waited_s is not None
    assert 0.0 <= decision.waited_s < 5.0
    assert decision.candidates == [
        {
            "server_id": int(copy.topology.server_id[1]),
            "core": 0,
            "quality": 0.9,
            "target": 0.8,
            "closeness": 0.95,
            "verdict": "chosen",
            "headroom": list(range(10)),
        },
        {
            "server_id": int(copy.topology.server_id[0]),
            "core": 1,
            "quality": 0.7,
            "target": None,
            "closeness": 0.5,
            "verdict": "outranked",
            "headroom": [0.0] * 10,
        },
    ]


def test_a_decision_whose_rank_was_not_measured_has_none(copy: ClusterCopy) -> None:
    commit([proposal(claimed(), copy.topology, [0])], agent=ME)
    assert Decision.objects.get().rank is None


def test_missing_predictions_are_omitted(copy: ClusterCopy) -> None:
    job = claimed()
    submitted = proposal(job, copy.topology, [0])
    nan = float("nan")
    sized = replace(submitted.sized_job.sized, predicted=nan, low=nan, high=nan)
    sized_job = replace(submitted.sized_job, sized=sized)
    commit([replace(submitted, sized_job=sized_job)], agent=ME)
    job.refresh_from_db()
    assert (Decision.objects.get().predicted, job.predicted) == ({}, {})


def test_the_change_log_has_an_entry_for_each_allocation(copy: ClusterCopy) -> None:
    commit([proposal(claimed(), copy.topology, [0, 4, 5])], agent=ME)
    parts = Change.objects.filter(kind="claim").order_by("seq")
    assert [len(part.unit_ids) for part in parts] == [1, 2]
    assert [a.acquired_seq for a in Allocation.objects.order_by("id")] == [p.seq for p in parts]
    assert parts[1].vector == [4e9, 2.5e8, 2.5e11]
    assert parts[1].caused == CAUSED.tolist()


# ---- concurrency ----


@pytest.mark.django_db(transaction=True)
def test_one_of_two_concurrent_commits_of_the_same_units_wins() -> None:
    factories.cluster()
    copy = build("a", "b")
    agents = [replace(ME, name=name) for name in ("agent-1", "agent-2")]
    proposals = [
        [proposal(claimed(agent), copy.topology, [unit]) for unit in range(8)] for agent in agents
    ]
    barrier = Barrier(2)
    won: list[int] = []

    def run(place: int) -> None:
        barrier.wait(timeout=10)
        won.extend(
            len(commit([proposed], agent=agents[place])[0]) for proposed in proposals[place]
        )

    raised = at_once(lambda: run(0), lambda: run(1))
    assert raised == []
    assert sorted(won) == [0] * 8 + [1] * 8
    held = owners(*range(8))
    assert len(set(held)) == 8
    assert None not in held
    assert used("a")[0] == used("b")[0] == 4


@pytest.mark.django_db(transaction=True)
def test_a_commit_that_waited_for_another_sees_its_allocations() -> None:
    factories.cluster()
    copy = build("a")
    early, late = claimed(), claimed()
    proposals = [proposal(j, copy.topology, [0, 1], gang=False) for j in (early, late)]
    proposals[1] = replace(proposals[1], placed=placed(str(late.id), np.array([1, 2])))
    has_taken = Event()
    lost: list[LostProposal] = []

    def first() -> None:
        with transaction.atomic():
            commit(proposals[:1], agent=ME)
            has_taken.set()
            sleep(0.3)  # for the other to read, and to wait for the locks

    def second() -> None:
        has_taken.wait(timeout=10)
        lost.extend(commit(proposals[1:], agent=ME)[1])

    assert at_once(first, second) == []
    assert lost == []
    assert Decision.objects.get(job=late).units_won == 1
    assert used("a")[0] == 3


def batches_of(copy: ClusterCopy, agent: Any, order: range) -> list[Proposal]:
    """Return one gang of two neighbours for each unit, in order."""
    return [proposal(claimed(agent), copy.topology, [u, (u + 1) % 8]) for u in order]


@pytest.mark.django_db(transaction=True)
def test_releasing_claims_locks_jobs_in_order() -> None:
    factories.cluster()
    ids = [claimed().id for _ in range(2)]
    end_allocations = partial(workloads.release_claims, ids, agent=ME.name)
    assert_locks_in_order(Job, ids, end_allocations)
    assert not Job.objects.exclude(claimed_by="").exists()


@pytest.mark.django_db(transaction=True)
def test_committing_locks_jobs_in_order() -> None:
    factories.cluster()
    copy = build("a", "b")
    proposals = [proposal(claimed(), copy.topology, [unit]) for unit in (0, 5)]
    ids = [row.job.id for row in proposals]
    assert_locks_in_order(Job, ids, partial(commit, proposals[::-1], agent=ME))
    assert Allocation.objects.count() == 2


@pytest.mark.django_db(transaction=True)
def test_batches_with_the_same_units_in_opposite_orders_do_not_deadlock() -> None:
    factories.cluster()
    copy = build("a", "b")
    agents = [replace(ME, name=name) for name in ("agent-1", "agent-2")]
    forth = batches_of(copy, agents[0], range(8))
    back = batches_of(copy, agents[1], range(7, -1, -1))
    raised = at_once(
        lambda: commit(forth, agent=agents[0]),
        lambda: commit(back, agent=agents[1]),
    )
    assert raised == []
    assert (
        Allocation.objects.exclude(unit_ids=[]).count()
        == Change.objects.exclude(unit_ids=[]).count()
    )
    assert ResourceUnit.objects.exclude(allocation_id=None).count() == 8
