"""Release of units, also with concurrent changes of jobs and units."""

from collections.abc import Callable
from uuid import UUID

import numpy as np
import pytest
from django.db import transaction

from apps.execution.services.launches import request_launches
from apps.inventory.core.snapshot import Topology
from apps.inventory.models import Change, ResourceUnit
from apps.scheduling.core.cluster.copy import ClusterCopy
from apps.scheduling.models import Allocation
from apps.scheduling.services import AgentIdentity, commit, release
from apps.testbed.selectors.replay import check_findings
from apps.workloads import services as workloads
from apps.workloads.core.lifecycle import JobState
from apps.workloads.core.reasons import Reason
from apps.workloads.models import Job
from tests import factories
from tests.races import assert_locks_in_order
from tests.scheduling.world import ME, at_once, build, claimed, proposal, used

AGENTS = [AgentIdentity(f"agent-{i}", "tarcil", 1, "0.1.0", draws_sample=True) for i in range(4)]


@pytest.fixture
def copy(db: None) -> ClusterCopy:
    factories.cluster()
    return build("a", "b")


def test_all_allocations_of_a_job_are_released(copy: ClusterCopy) -> None:
    job = claimed()
    commit([proposal(job, copy.topology, [0, 1, 4])], agent=ME)
    assert release([job.id]) == 2
    assert not ResourceUnit.objects.exclude(allocation_id=None).exists()
    assert used("a") == used("b") == [0, 0, 0, 0]
    parts = Allocation.objects.order_by("id")
    changes = Change.objects.filter(kind="release").order_by("seq")
    assert [part.released_seq for part in parts] == [change.seq for change in changes]
    assert [change.unit_ids for change in changes] == [part.unit_ids for part in parts]


@pytest.mark.django_db(transaction=True)
def test_releasing_locks_allocations_in_order() -> None:
    factories.cluster()
    topology = build("a", "b").topology
    jobs = [claimed(), claimed()]
    commit([proposal(j, topology, [u]) for j, u in zip(jobs, (0, 5), strict=True)], agent=ME)

    def release_both() -> None:
        with transaction.atomic():
            release([job.id for job in jobs])

    assert_locks_in_order(
        Allocation, Allocation.objects.values_list("id", flat=True), release_both
    )
    assert not ResourceUnit.objects.exclude(allocation_id=None).exists()


def test_allocations_of_other_jobs_on_the_server_stay(copy: ClusterCopy) -> None:
    job, other = claimed(), claimed()
    proposals = [proposal(job, copy.topology, [0]), proposal(other, copy.topology, [1])]
    commit(proposals, agent=ME)
    release([job.id])
    (held,) = ResourceUnit.objects.exclude(allocation_id=None)
    assert held.id == copy.topology.unit_id[1]
    assert used("a")[0] == 1


def test_releasing_twice_releases_once(copy: ClusterCopy) -> None:
    job = claimed()
    commit([proposal(job, copy.topology, [0])], agent=ME)
    assert (release([job.id]), release([job.id])) == (1, 0)
    assert used("a") == [0, 0, 0, 0]


def test_a_released_unit_has_a_new_version(copy: ClusterCopy) -> None:
    job = claimed()
    commit([proposal(job, copy.topology, [0])], agent=ME)
    release([job.id])
    assert ResourceUnit.objects.order_by("id")[0].version == 2


def test_releasing_nothing_writes_no_change(copy: ClusterCopy) -> None:
    before = Change.objects.count()
    assert release([]) == 0
    assert release([claimed().id]) == 0
    assert Change.objects.count() == before


def test_a_lost_job_is_requeued_without_units(copy: ClusterCopy) -> None:
    job = claimed()
    commit([proposal(job, copy.topology, [0])], agent=ME)
    _lose([job.id])
    job.refresh_from_db()
    assert (job.state, job.reason_code, job.attempts) == ("queued", "BackendLost", 1)
    assert used("a") == [0, 0, 0, 0]


def test_a_lost_job_with_a_pending_cancellation_is_cancelled(copy: ClusterCopy) -> None:
    job = claimed()
    commit([proposal(job, copy.topology, [0])], agent=ME)
    workloads.cancel_jobs([job.id])
    _lose([job.id])
    job.refresh_from_db()
    assert (job.state, job.reason_code) == ("cancelled", "Cancelled")
    assert used("a") == [0, 0, 0, 0]


# ---- concurrent changes ----


def _finish(ids: list[UUID]) -> None:
    with transaction.atomic():
        ended = [workloads.JobEnd(i, JobState.SUCCEEDED, 9e3, Reason.SUCCEEDED) for i in ids]
        moved = workloads.end_jobs(ended)
        release([row[0] for row in moved])
        workloads.record_transitions(moved)


def _lose(ids: list[UUID]) -> None:
    with transaction.atomic():
        moved = workloads.requeue_lost(ids, reason=Reason.BACKEND_LOST, message="silent")
        release([row[0] for row in moved])
        workloads.record_transitions(moved)


def _try(
    ids: list[UUID], agent: AgentIdentity, topology: Topology, rng: np.random.Generator
) -> None:
    """Commit claimed jobs to random units."""
    ids = ids + workloads.claim_waiting(agent=agent.name, limit=3)
    jobs = Job.objects.filter(id__in=ids, claimed_by=agent.name).order_by("?")
    commit(
        [
            proposal(
                job,
                topology,
                rng.choice(topology.unit_id.size, size=int(rng.integers(1, 4)), replace=False),
                gang=bool(rng.integers(2)),
            )
            for job in jobs
        ],
        agent=agent,
    )


def _worker(
    agent: AgentIdentity, jobs: list[UUID], topology: Topology, seed: int
) -> Callable[[], None]:
    """Run thirty random commits, ends, cancellations and losses."""
    rng = np.random.default_rng(seed)

    def some() -> list[UUID]:
        return [jobs[i] for i in rng.choice(len(jobs), size=120, replace=False)]

    def work() -> None:
        for step in rng.choice(4, size=30, p=[0.5, 0.2, 0.1, 0.2]):
            if step == 0:
                _try(some()[:30], agent, topology, rng)
            elif step == 1:
                _finish(some())
            elif step == 2:
                workloads.cancel_jobs(some()[:6])
            else:
                _lose(some())

    return work


@pytest.mark.django_db(transaction=True)
def test_concurrent_commits_ends_cancellations_and_losses_keep_all_invariants() -> None:
    factories.cluster()
    copy = build("a", "b", "c")
    user, application = factories.user(), factories.application()
    jobs = [
        claimed(AGENTS[i % 4], created_by=user, application=application, units_requested=1).id
        for i in range(240)
    ]
    workers = [_worker(agent, jobs, copy.topology, i) for i, agent in enumerate(AGENTS)]
    raised = at_once(*workers)
    assert raised == []
    assert Allocation.objects.count() > 50
    request_launches("emulated", limit=1000)
    assert [f for f in check_findings(grace_s=60.0) if f.violations] == []
    assert not Job.objects.filter(state="queued", cancel_requested=True).exists()
    live = Job.objects.filter(state="starting")
    release(list(live.values_list("id", flat=True)))
    assert used("a") == used("b") == used("c") == [0, 0, 0, 0]
