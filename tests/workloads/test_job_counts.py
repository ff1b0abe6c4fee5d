"""Counters of jobs: exact in every snapshot, whoever changes jobs and whenever they are folded."""

from collections import Counter
from typing import Any

import numpy as np
import pytest
from django.db import connection, transaction

from apps.common.infrastructure.advisory_locks import AdvisoryLock, acquire, held_if_free
from apps.workloads.core.lifecycle import JobState
from apps.workloads.models import Job, JobCount, JobCountChange
from apps.workloads.selectors import job_counts, job_counts_by_application
from apps.workloads.services import counts
from apps.workloads.services.counts import fold_job_counts
from tests import factories
from tests.races import meanwhile

pytestmark = pytest.mark.django_db


def counted(projects: list[Any] | None = None) -> dict[str, int]:
    return dict(job_counts(projects).by_state)


def deleted(key: Any) -> None:
    """Delete the row of a job without history."""
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM workloads_job WHERE id = %s", [key])


def actual() -> dict[str, int]:
    return dict(Counter(Job.objects.values_list("state", flat=True)))


def test_without_jobs_all_counts_are_empty() -> None:
    assert counted() == {}
    assert job_counts(None).all == 0
    assert fold_job_counts() == 0


def test_counts_follow_inserts_updates_and_deletes() -> None:
    first = factories.job(state="queued")
    factories.job(state="running")
    Job.objects.filter(pk=first.pk).update(state="starting")
    assert counted() == {"starting": 1, "running": 1}
    deleted(first.pk)
    assert counted() == {"running": 1}


def test_a_change_of_other_columns_records_nothing() -> None:
    factories.job(state="running")
    fold_job_counts()
    Job.objects.update(progress=0.5, attainment=1.0)
    assert not JobCountChange.objects.exists()


def test_jobs_that_change_together_are_counted_together() -> None:
    about, owner = factories.application(), factories.user()
    for _ in range(3):
        factories.job(state="queued", application=about, created_by=owner)
    fold_job_counts()
    Job.objects.update(state="starting")
    changes = JobCountChange.objects.values_list("state", "change")
    assert set(changes) == {("queued", -3), ("starting", 3)}
    assert len(changes) == 2


def test_folding_does_not_change_the_counts() -> None:
    for state in ("queued", "queued", "running"):
        factories.job(state=state)
    before = counted()
    assert fold_job_counts() == 3
    assert counted() == before == {"queued": 2, "running": 1}
    assert not JobCountChange.objects.exists()


def test_changes_are_folded_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counts, "BATCH", 2)
    for _ in range(3):
        factories.job(state="queued")
    assert [fold_job_counts() for _ in range(3)] == [2, 1, 0]
    assert counted() == {"queued": 3}


def test_counts_of_a_project_leave_out_other_projects() -> None:
    one, other = factories.project("one"), factories.project("other")
    factories.job(project=one)
    factories.job(project=other)
    fold_job_counts()
    factories.job(project=one, state="running")
    assert counted([one.pk]) == {"queued": 1, "running": 1}
    assert counted([]) == {}


def test_applications_with_most_jobs_come_first() -> None:
    sort, index = factories.application("sort"), factories.application("index")
    for application in (index, sort, sort):
        factories.job(application=application)
    assert job_counts_by_application(None, limit=5) == {"sort": 2, "index": 1}
    assert job_counts_by_application(None, limit=1) == {"sort": 2}


def test_counts_are_exact_after_random_changes_with_folds_between() -> None:
    rng = np.random.default_rng(7)
    states = sorted(JobState)
    about, owner = factories.application(), factories.user()
    for _ in range(120):
        action, pick = rng.integers(4), rng.integers(10_000)
        rows = list(Job.objects.values_list("pk", flat=True).order_by("pk"))
        if action == 0 or not rows:
            factories.job(state="queued", application=about, created_by=owner)
        elif action == 1:
            deleted(rows[pick % len(rows)])
        elif action == 2:
            state = states[pick % len(states)]
            Job.objects.filter(pk=rows[pick % len(rows)]).update(state=state, finished_s=1.0)
        else:
            fold_job_counts()
        assert counted() == actual()


@pytest.mark.django_db(transaction=True)
def test_an_uncommitted_change_is_neither_counted_nor_lost() -> None:
    factories.job(state="queued")
    with transaction.atomic():
        factories.job(state="queued")
        assert meanwhile(counted) == {"queued": 1}
        assert meanwhile(fold_job_counts) == 1
        assert counted() == {"queued": 2}
    assert fold_job_counts() == 1
    assert (
        JobCount.objects.get(
            state="queued", application_id=Job.objects.latest("created_at").application_id
        ).jobs
        == 1
    )
    assert counted() == {"queued": 2}


@pytest.mark.django_db(transaction=True)
def test_one_process_folds_at_a_time() -> None:
    factories.job(state="queued")
    with transaction.atomic():
        acquire(AdvisoryLock.JOB_COUNTS)
        assert meanwhile(fold_job_counts) == 0
    assert fold_job_counts() == 1


@pytest.mark.django_db(transaction=True)
def test_counts_are_folded_while_jobs_are_observed() -> None:
    factories.job(state="queued")
    with held_if_free(AdvisoryLock.FEEDBACK) as is_ours:
        assert is_ours
        assert meanwhile(fold_job_counts) == 1


def test_folding_joins_nothing_after_the_table_was_analysed_empty() -> None:
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE workloads_jobcountchange")
        cursor.execute(f"EXPLAIN {counts._FOLD}", [int(AdvisoryLock.JOB_COUNTS), counts.BATCH])
        plan = "\n".join(line for (line,) in cursor.fetchall())
    assert "Join" not in plan
    assert "Nested Loop" not in plan
