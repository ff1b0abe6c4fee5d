"""Jobs that cannot be placed wait in the shapes of their requests, and starve nobody."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from django.db import IntegrityError, connection, transaction
from django.db.models import ProtectedError
from django.utils import timezone

from apps.common.core.ids import uuid7
from apps.common.infrastructure.locks import lock_for_deletion
from apps.inventory.models import ServerState
from apps.operations.models import Event
from apps.scheduling.models import Decision
from apps.scheduling.selectors import current_decision, is_repeated
from apps.scheduling.services import commit
from apps.scheduling.services.queue import BATCH, WaitingQueue
from apps.workloads import services as workloads
from apps.workloads.core.shapes import Needs, WaitsFor
from apps.workloads.core.spec import parse_changes
from apps.workloads.core.targets import BestEffort
from apps.workloads.models import Job, WaitingShape
from tests import factories
from tests.scheduling.plans import analyze
from tests.scheduling.shapes import (
    ANY_UNIT,
    FLOOD,
    NOWHERE,
    ONE_UNIT,
    counting,
    due,
    flood,
    not_due,
    refuse,
    shaped,
)
from tests.scheduling.world import (
    ME,
    at_once,
    build,
    claimed,
    decide_again,
    followed_copy,
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


# ---- a flood ----


def test_jobs_of_one_shape_are_refused_with_one_decision_and_all_show_its_reason() -> None:
    build("a")
    flood(known(), **NOWHERE)
    by, policy = counting()
    by.work(for_s=60.0)
    assert set(Job.objects.values_list("state", "reason_code")) == {("queued", "NoMatchingServer")}
    assert (WaitingShape.objects.count(), Decision.objects.count()) == (1, 1)
    assert len(policy.evaluated) == BATCH
    assert Event.objects.filter(kind="job.waiting").count() == FLOOD


def test_an_ordinary_job_behind_a_flood_of_another_project_is_placed_in_the_first_turn() -> None:
    build("a")
    application = known()
    flood(application, 3 * BATCH, **NOWHERE)
    ordinary = waiting(application, project=factories.project("other"), **ONE_UNIT)
    by, _ = counting()
    by.take_turn()
    assert state_and_reason(ordinary)[0] == "starting"


def test_a_refused_flood_is_evaluated_through_one_job() -> None:
    build("a")
    jobs = flood(known(), **NOWHERE)
    by, policy = counting()
    by.work(for_s=60.0)
    policy.evaluated.clear()
    due()
    by.take_turn()
    assert policy.evaluated == [str(jobs[0].id)]


def test_a_job_that_joins_a_shape_is_not_evaluated() -> None:
    build("a")
    application = known()
    flood(application, 3, **NOWHERE)
    by, policy = counting()
    by.work(for_s=60.0)
    policy.evaluated.clear()
    not_due()
    (late,) = flood(application, 1, **NOWHERE)
    by.work(for_s=60.0)
    assert policy.evaluated == []
    assert state_and_reason(late) == ("queued", "NoMatchingServer")


def test_claims_read_no_job_of_a_shape() -> None:
    application = known()
    jobs = flood(application, 2000, **NOWHERE)
    Job.objects.update(claimed_by="agent-1")
    refuse(jobs)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE workloads_job")
    rows_read = tuples_read()
    assert workloads.claim_waiting(agent="agent-1", limit=BATCH) == []
    assert tuples_read() - rows_read < 20


def test_a_new_reason_is_copied_without_reading_the_jobs_that_have_it() -> None:
    jobs = flood(known(), 400)
    Job.objects.filter(id=jobs[0].id).update(claimed_by="agent-1")
    refuse(jobs[:1])
    shape = WaitingShape.objects.get()
    Job.objects.update(shape=shape, state="queued", claimed_by="")
    WaitingShape.objects.update(reason_code="CapacityShort", is_reason_copied=False)
    analyze()
    position, read = workloads.CopyRound(), list[int]()
    for _ in range(20):
        before = tuples_read()
        assert workloads.copy_reasons(limit=20, position=position) == 20
        read.append(tuples_read() - before)
    assert max(read) <= 4 * 20  # read, locked, found by id and changed
    assert not WaitingShape.objects.get().is_reason_copied
    Job.objects.filter(id=jobs[5].id).update(reason_code="NoFreeUnit")  # it joined the shape late
    assert workloads.copy_reasons(limit=20, position=position) == 0
    assert workloads.copy_reasons(limit=20, position=position) == 1
    assert workloads.copy_reasons(limit=20, position=position) == 0
    assert WaitingShape.objects.get().is_reason_copied
    assert set(Job.objects.values_list("reason_code", flat=True)) == {"CapacityShort"}


def test_another_reason_is_copied_from_the_oldest_job_on() -> None:
    jobs = flood(known(), 6)
    Job.objects.filter(id=jobs[0].id).update(claimed_by="agent-1")
    refuse(jobs[:1])
    Job.objects.update(shape=WaitingShape.objects.get(), state="queued", claimed_by="")
    position = workloads.CopyRound()
    for reason, copied in (("CapacityShort", 3), ("NoFreeUnit", 6)):
        WaitingShape.objects.update(reason_code=reason, is_reason_copied=False)
        assert workloads.copy_reasons(limit=copied, position=position) == copied
        assert Job.objects.filter(reason_code=reason).count() == copied


def each_refused(count: int) -> list[Job]:
    """Jobs that wait, each in a shape of its own with a new reason."""
    application = known()
    jobs = [claimed(ME, application=application, input_bytes=n) for n in range(count)]
    refuse(jobs)
    not_due()
    WaitingShape.objects.update(reason_code="CapacityShort", is_reason_copied=False)
    return jobs


def with_new_reason(jobs: Sequence[Job]) -> int:
    of_these = Job.objects.filter(id__in=[job.id for job in jobs])
    return of_these.filter(reason_code="CapacityShort").count()


def test_one_turn_copies_the_new_reasons_of_a_hundred_shapes() -> None:
    build("a")
    jobs = each_refused(100)
    queue = WaitingQueue("agent-1", followed_copy(), np.random.default_rng(5))
    assert queue.end(queue.begin()) == 100
    assert with_new_reason(jobs) == 100
    assert not WaitingShape.objects.filter(is_reason_copied=False).exists()


def test_the_next_turn_copies_the_reasons_of_the_next_shapes() -> None:
    jobs = each_refused(10)
    jobs.sort(key=lambda job: Job.objects.get(id=job.id).shape_id or 0)
    position = workloads.CopyRound()
    for first in (0, 2, 4, 6, 8, 0, 2):
        WaitingShape.objects.update(is_reason_copied=False)  # all have yet another reason
        Job.objects.update(reason_code="NoFreeUnit")
        workloads.copy_reasons(limit=4, position=position)
        assert with_new_reason(jobs[first : first + 2]) == with_new_reason(jobs) == 2


def test_a_shape_of_many_jobs_leaves_the_others_a_part_of_a_turn() -> None:
    application = known()
    flooded, others = flood(application, 50, state="queued"), each_refused(4)
    Job.objects.filter(id__in=[job.id for job in flooded]).update(
        shape=Job.objects.get(id=others[0].id).shape
    )
    position = workloads.CopyRound()
    assert workloads.copy_reasons(limit=20, position=position) == 5 + 3
    assert with_new_reason(others[1:]) == 3
    assert workloads.copy_reasons(limit=20, position=position) == 20


def test_new_reasons_of_several_shapes_are_copied_without_reading_all_their_jobs() -> None:
    each_refused(5)
    application = known()
    for shape in WaitingShape.objects.all():
        flood(application, 400, state="queued", shape=shape)
    analyze()
    before = tuples_read()
    assert workloads.copy_reasons(limit=50) == 50
    assert tuples_read() - before <= 4 * 50  # read, locked, found by id and changed


def tuples_read() -> int:
    """Number of rows of the job table that this transaction has read."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_xact_user_tables"
            " WHERE relname = 'workloads_job'"
        )
        return int(cursor.fetchone()[0])


# ---- the order of claims ----


def test_projects_get_equal_shares_of_the_claims() -> None:
    application = known()
    flood(application, 30)
    flood(application, 30, project=factories.project("second"))
    flood(application, 2, project=factories.project("third"))
    mine = workloads.claim_waiting(agent="agent-1", limit=12)
    projects = Job.objects.filter(id__in=mine).values_list("project__name", flat=True)
    assert sorted(projects) == ["default"] * 5 + ["second"] * 5 + ["third"] * 2


def test_jobs_of_one_project_are_claimed_by_priority_and_then_by_age() -> None:
    application = known()
    old, young = flood(application, 2)
    (urgent,) = flood(application, 1, priority=5)
    claims = [workloads.claim_waiting(agent="agent-1", limit=1) for _ in range(3)]
    assert claims == [[urgent.id], [old.id], [young.id]]


def test_more_projects_than_claims_are_served_by_age() -> None:
    application = known()
    jobs = [
        flood(application, 1, project=factories.project(f"p{number}"))[0] for number in range(5)
    ]
    claims = [workloads.claim_waiting(agent="agent-1", limit=2) for _ in range(3)]
    assert [set(each) for each in claims] == [
        {jobs[0].id, jobs[1].id}, {jobs[2].id, jobs[3].id}, {jobs[4].id}
    ]  # fmt: skip


# ---- reasons ----


def test_a_new_reason_of_a_shape_reaches_all_its_jobs() -> None:
    copy = build("a", cores=2)
    commit([proposal(claimed(), copy.topology, [0, 1])], agent=ME)
    jobs = flood(known(), 5, units_requested=1)
    by, policy = counting()
    by.work(for_s=60.0)
    assert {state_and_reason(job) for job in jobs} == {("queued", "NoFreeUnit")}
    put("a", ServerState.DRAINING)
    policy.evaluated.clear()
    due()
    by.work(for_s=60.0)
    assert {state_and_reason(job) for job in jobs} == {("queued", "ServersClosed")}
    assert policy.evaluated == [str(jobs[0].id)]
    assert Decision.objects.filter(outcome="refused").count() == 2
    assert Event.objects.filter(kind="job.waiting").count() == 10


def test_the_explanation_of_a_job_is_the_decision_on_its_shape() -> None:
    build("a")
    jobs = flood(known(), 3, **NOWHERE)
    counting()[0].work(for_s=60.0)
    for job in jobs:
        job.refresh_from_db()
    decision = Decision.objects.get()
    assert decision.job_id == jobs[0].id
    assert [current_decision(job) for job in jobs] == [decision] * 3


def test_an_older_decision_for_another_reason_does_not_explain_a_waiting_job() -> None:
    build("a")
    (job,) = flood(known(), 1, **NOWHERE)
    counting()[0].work(for_s=60.0)
    Decision.objects.all().delete()
    job.refresh_from_db()
    placed = factories.decision(job)
    assert current_decision(job) is None
    Decision.objects.filter(id=placed.id).update(reason_code="NoMatchingServer")
    assert current_decision(job) == placed


# ---- changes by users ----


@pytest.mark.parametrize("changes", [{"target": BestEffort()}, {"priority": 7}])
def test_a_changed_request_leaves_its_shape_and_is_evaluated_again(
    changes: dict[str, Any],
) -> None:
    job = shaped()
    before = job.shape_key
    workloads.update_job(job.id, changes)
    job.refresh_from_db()
    assert job.shape is None
    assert job.shape_key != before
    assert workloads.claim_waiting(agent="agent-2", limit=5) == [job.id]


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"spec": {}},
        {"metadata": {}},
        {"spec": {"priority": 0, "target": {"kind": "best_effort"}}},
        {"metadata": {"name": "same", "labels": {"team": "a"}}},
    ],
)
def test_a_change_to_the_present_values_changes_nothing(document: dict[str, Any]) -> None:
    job = shaped(name="same", labels={"team": "a"}, target={"kind": "best_effort"})
    events = Event.objects.count()
    workloads.update_job(job.id, parse_changes(document))
    before = (job.generation, job.shape_id, job.updated_at)
    job.refresh_from_db()
    assert (job.generation, job.shape_id, job.updated_at) == before
    assert Event.objects.count() == events


def test_a_new_name_keeps_a_job_in_its_shape() -> None:
    job = shaped()
    workloads.update_job(job.id, {"name": "new"})
    job.refresh_from_db()
    assert job.shape is not None


def test_a_held_job_leaves_its_shape_and_joins_it_when_released() -> None:
    application = known()
    other, job = shaped(application=application), shaped(application=application)
    workloads.set_held(job.id, held=True)
    job.refresh_from_db()
    assert (job.shape, workloads.join_shapes(cluster_s=3000.0)) == (None, 0)
    workloads.set_held(job.id, held=False)
    assert workloads.join_shapes(cluster_s=3000.0) == 1
    job.refresh_from_db()
    assert (job.shape, job.reason_code) == (other.shape, "NoFreeUnit")


def test_a_cancelled_job_leaves_its_shape() -> None:
    job = shaped()
    workloads.cancel_jobs([job.id])
    job.refresh_from_db()
    assert (job.state, job.shape) == ("cancelled", None)


def test_an_empty_shape_does_not_keep_its_project() -> None:
    job = shaped(project=factories.project("brief"))
    with pytest.raises(ProtectedError):
        job.project.delete()
    with transaction.atomic():
        lock_for_deletion(Job, [job.id])
        Job.objects.filter(id=job.id).delete()
    job.project.delete()
    assert not WaitingShape.objects.exists()


def test_only_queued_jobs_can_be_in_a_shape() -> None:
    job = shaped()
    with pytest.raises(IntegrityError, match="job_of_shape_is_queued"), transaction.atomic():
        Job.objects.filter(id=job.id).update(held=True)


@pytest.mark.parametrize(
    ("first", "second", "is_shared"),
    [
        ({}, {}, True),
        ({"name": "other"}, {"labels": {"a": "b"}}, True),
        ({"submitted_s": 3000.0}, {"submitted_s": 3029.0}, True),  # 5 % of 600 s
        ({"submitted_s": 3000.0}, {"submitted_s": 3031.0}, False),
        ({"target": {"kind": "best_effort"}, "submitted_s": 1.0},
         {"target": {"kind": "best_effort"}, "submitted_s": 900.0}, True),
        ({"input_bytes": 1}, {"input_bytes": 2}, False),
        ({"gang": True}, {"gang": False}, False),
        ({"policy": "random"}, {}, False),
        ({"sample_size": 8}, {"sample_size": 9}, False),
        ({"guarantee": {"rank_threshold": 0.8, "probability": 0.1}}, {}, False),
        ({"units_requested": 1}, {"units_requested": 2}, False),
        ({"unit_memory_bytes": 1}, {"unit_memory_bytes": 2}, False),
        ({"constraints": {"platforms": ["J"]}}, {"constraints": {}}, False),
        ({"priority": 1}, {"priority": 2}, False),
        ({"backend": "kubernetes"}, {"backend": "slurm"}, False),
        ({"backend": "kubernetes"}, {"backend": "kubernetes"}, True),
    ],
)  # fmt: skip
def test_jobs_share_a_shape_if_agents_would_decide_them_alike(
    first: dict[str, Any], second: dict[str, Any], is_shared: bool
) -> None:
    application = known()
    jobs = [factories.job(application=application, **values) for values in (first, second)]
    assert (jobs[0].shape_key == jobs[1].shape_key) is is_shared


def test_jobs_of_two_projects_share_no_shape() -> None:
    application = known()
    one = factories.job(application=application)
    two = factories.job(application=application, project=factories.project("other"))
    assert one.shape_key != two.shape_key


# ---- several agents ----


def test_an_agent_that_pauses_loses_its_shape_and_its_late_refusal_is_ignored() -> None:
    job = shaped()
    due()
    mine = workloads.claim_shapes(agent="agent-1", limit=4)
    assert list(mine.job_ids) == [job.id]
    assert workloads.claim_shapes(agent="agent-2", limit=4).job_ids == ()
    past = timezone.now() - timedelta(seconds=0.01)
    WaitingShape.objects.update(claimed_until=past)
    Job.objects.update(claimed_until=past)
    assert list(workloads.claim_shapes(agent="agent-2", limit=4).job_ids) == [job.id]
    refuse([job], Needs(WaitsFor.SERVERS), sequence=99)  # by agent-1, a minute later
    assert WaitingShape.objects.get().waits_for == "units"
    job.refresh_from_db()
    assert job.claimed_by == "agent-2"


def test_a_decision_is_repeated_by_evaluations_of_a_cluster_that_has_changed_since() -> None:
    build(*"ab")
    job = waiting(known(), **NOWHERE)
    by, _ = counting()
    found = []
    for state in (None, None, ServerState.DRAINING):
        if state is not None:
            put("b", state)
        decide_again(by)
        job = Job.objects.get(pk=job.pk)
        found.append(is_repeated(job, Decision.objects.get()))
    assert found == [False, False, True]


def test_an_older_evaluation_does_not_replace_a_newer_one() -> None:
    application = known()
    first, second = (claimed(ME, application=application) for _ in range(2))
    refuse([first], Needs(WaitsFor.UNITS), sequence=20)
    refuse([second], Needs(WaitsFor.SERVERS), sequence=10)
    shape = WaitingShape.objects.get()
    assert (shape.waits_for, shape.evaluated_seq, shape.jobs.count()) == ("units", 20, 2)


def refused_as(job: Job, agent: str, reason: str, sequence: int) -> set[Any]:
    """Refuse a claimed job; returns the jobs whose decisions are to be stored."""
    return workloads.keep_waiting(
        [workloads.WaitingJob(job.id, reason, f"by {agent}", uuid7(), ANY_UNIT, (reason,))],
        agent=agent,
        at=workloads.EvaluationTime(3000.0, sequence, 3600.0),
    )


def test_a_job_that_an_older_copy_refuses_has_the_reason_of_its_shape() -> None:
    """Its own has no decision, and no later one of the shape would be copied to it."""
    application = known()
    older = claimed(ME, application=application, **ONE_UNIT)
    newer = claimed(ME, application=application, claimed_by="agent-2", **ONE_UNIT)
    assert refused_as(newer, "agent-2", "UnitsReserved", 10)
    assert not refused_as(older, "agent-1", "NoFreeUnit", 5)
    fields = "reason_code", "reason_message", "reason_also", "state", "shape"
    reasons = set(map(str, Job.objects.values_list(*fields)))
    shape = WaitingShape.objects.get()
    expected = "UnitsReserved", "by agent-2", ["UnitsReserved"], "queued", shape.pk
    assert reasons == {str(expected)}
    assert (shape.reason_code, shape.is_reason_copied) == ("UnitsReserved", True)
    events = Event.objects.filter(kind="job.waiting").values_list("data__reason", flat=True)
    assert list(events) == ["UnitsReserved", "UnitsReserved"]


def test_a_job_that_the_same_or_a_newer_copy_refuses_gives_its_reason_to_the_shape() -> None:
    application = known()
    first = claimed(ME, application=application, **ONE_UNIT)
    second = claimed(ME, application=application, claimed_by="agent-2", **ONE_UNIT)
    assert refused_as(second, "agent-2", "UnitsReserved", 10)
    assert refused_as(first, "agent-1", "NoFreeUnit", 10)
    assert state_and_reason(first) == ("queued", "NoFreeUnit")
    shape = WaitingShape.objects.get()
    assert (shape.reason_code, shape.is_reason_copied) == ("NoFreeUnit", False)


def test_a_shape_with_an_undecided_job_is_not_continued() -> None:
    shaped()
    due()
    mine = workloads.claim_shapes(agent="agent-1", limit=4)
    workloads.continue_shapes(mine, agent="agent-1")
    assert WaitingShape.objects.filter(claimed_until__isnull=False, allowance=1).exists()


@pytest.mark.django_db(transaction=True)
def test_two_concurrent_agents_evaluate_different_shapes() -> None:
    application = known()
    jobs = [claimed(ME, application=application, input_bytes=n) for n in range(16)]
    refuse(jobs)
    due()
    taken: list[Any] = []

    def claim(name: str) -> None:
        for _ in range(4):
            taken.extend(workloads.claim_shapes(agent=name, limit=8).job_ids)

    assert at_once(lambda: claim("agent-1"), lambda: claim("agent-2")) == []
    assert len(taken) == len(set(taken))


@pytest.mark.django_db(transaction=True)
def test_a_flood_that_two_agents_refuse_at_once_ends_in_one_shape() -> None:
    build("a")
    flood(known(), 3 * BATCH, **NOWHERE)
    agents = [counting(name)[0] for name in ("agent-1", "agent-2")]
    assert at_once(*(lambda by=by: by.work(for_s=30.0) for by in agents)) == []
    shape = WaitingShape.objects.get()
    assert shape.jobs.count() == 3 * BATCH
