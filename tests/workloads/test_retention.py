"""Ended jobs are deleted with their history; jobs that have not ended never are."""

from contextlib import ExitStack
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.apps import apps
from django.db import connection, transaction
from django.db.models import CASCADE, SET_NULL, ForeignKey
from django.utils import timezone

from apps.classification.models import PredictionError
from apps.execution.models import Launch, Migration
from apps.placement.models import ContainerClass
from apps.scheduling.models import Allocation, Decision
from apps.testbed.models import MeasuredPair
from apps.workloads.models import Batch, Job, JobCount
from apps.workloads.selectors import job_counts
from apps.workloads.services import delete_job, lock_against_deletion, retention
from apps.workloads.services.counts import fold_job_counts
from apps.workloads.services.retention import delete_batches, delete_ended_jobs, job_tables
from tests import factories
from tests.races import in_background, meanwhile, wait_for_a_waiter

pytestmark = pytest.mark.django_db
NOW = timezone.now()
LIMIT = NOW - timedelta(days=90)


def ended(days: float = 91, **values: Any) -> Job:
    return factories.job(state="succeeded", finished_at=NOW - timedelta(days=days), **values)


def test_every_table_with_a_foreign_key_to_a_job_is_covered() -> None:
    tables = {
        field.model._meta.db_table
        for model in apps.get_models()
        for field in model._meta.get_fields()
        if isinstance(field, ForeignKey) and field.related_model is Job
    }
    assert len(tables) >= 8
    covered = [*job_tables(CASCADE), *job_tables(SET_NULL)]
    assert {table for table, _ in covered} == tables


def test_a_measured_pair_outlives_the_job_that_measured_it() -> None:
    about, other = ended(), ended(days=89)
    pairs = [factories.measured_pair(job=job) for job in (about, other)]
    assert delete_ended_jobs(LIMIT) == 1
    assert [MeasuredPair.objects.get(pk=pair.pk).job_id for pair in pairs] == [None, other.pk]
    with connection.cursor() as cursor:  # as at the commit
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")


def test_a_job_is_deleted_with_its_whole_history() -> None:
    about, other = ended(), ended(days=89)
    machine = factories.server()
    for job in (about, other):
        decision = factories.decision(job)
        held = factories.allocation(job, machine, by=decision, released_seq=10**9)
        launch = factories.launch(job, state="ended")
        factories.sample(job, 100.0)
        ContainerClass.objects.create(allocation_id=held.pk, job=job, read_s=1.0)
        Migration.objects.create(
            job=job, launch=launch, source_allocation_id=held.pk, target_allocation_id=-held.pk,
            from_server_id=1, to_server_id=2, units=1, predicted_s=1.0, requested_s=1.0,
            state="done", reason_code="x",
        )  # fmt: skip
        PredictionError.objects.create(
            application=job.application, job=job, profile=factories.profile(job.application),
            number=1, cluster_s=1.0, predicted=1.0, measured=1.0, deviation=0.1,
        )  # fmt: skip
    assert delete_ended_jobs(LIMIT) == 1
    assert delete_ended_jobs(LIMIT) == 0
    for table, column in job_tables(CASCADE):
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT DISTINCT {column} FROM {table}")  # noqa: S608
            assert {key for (key,) in cursor.fetchall()} <= {other.pk}
    for model in (Decision, Allocation, Launch, ContainerClass, PredictionError):
        assert model.objects.filter(job=other).exists()
    with connection.cursor() as cursor:  # as at the commit
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")


@pytest.mark.parametrize("state", ["submitted", "profiling", "queued", "starting", "running"])
def test_a_job_that_has_not_ended_is_never_deleted(state: str) -> None:
    job = factories.job(state=state)
    Job.objects.update(created_at=NOW - timedelta(days=999), finished_at=NOW - timedelta(days=999))
    assert delete_ended_jobs(LIMIT) == 0
    assert Job.objects.get() == job


def test_without_a_limit_nothing_is_deleted() -> None:
    ended(days=9_999)
    assert delete_ended_jobs(None) == 0


def test_jobs_are_deleted_in_batches_the_oldest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "JOBS", 2)
    youngest = ended(days=91)
    for days in (93, 92):
        ended(days=days)
    assert delete_ended_jobs(LIMIT) == 2
    assert Job.objects.get() == youngest
    assert [delete_ended_jobs(LIMIT) for _ in range(2)] == [1, 0]


def test_counts_follow_and_empty_ones_go() -> None:
    ended()
    fold_job_counts()
    delete_ended_jobs(LIMIT)
    assert job_counts(None).all == 0
    fold_job_counts()
    delete_ended_jobs(LIMIT)
    assert not JobCount.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_a_job_that_somebody_is_changing_is_left_for_the_next_batch() -> None:
    locked, free = ended(), ended()

    def delete() -> int:
        return delete_ended_jobs(LIMIT)

    with transaction.atomic():
        Job.objects.select_for_update().get(pk=locked.pk)
        assert meanwhile(delete) == 1
    assert Job.objects.get() == locked
    assert not Job.objects.filter(pk=free.pk).exists()
    assert delete_ended_jobs(LIMIT) == 1


@pytest.mark.django_db(transaction=True)
def test_a_job_locked_against_deletion_is_deleted_with_rows_inserted_meanwhile() -> None:
    about, deleted = ended(), ended()
    delete_job(deleted.pk)
    with ExitStack() as background, transaction.atomic():
        assert lock_against_deletion([deleted.pk, about.pk]) == {about.pk}
        background.enter_context(in_background(lambda: delete_job(about.pk)))
        wait_for_a_waiter()
        ContainerClass.objects.create(allocation_id=1, job=about, read_s=1.0)
    assert not Job.objects.exists()
    assert not ContainerClass.objects.exists()


def batch(*, days: float) -> UUID:
    row = Batch.objects.create(
        project=factories.project(), created_by=factories.user(), total=1, accepted=1
    )
    Batch.objects.filter(pk=row.pk).update(created_at=NOW - timedelta(days=days))
    return row.pk


def test_old_batches_go_after_their_last_job() -> None:
    batch(days=91)
    kept = {batch(days=91), batch(days=1)}
    ended(days=1, batch_id=max(kept, key=str))
    ended(days=1, batch_id=min(kept, key=str))
    assert delete_batches(LIMIT) == 1
    assert delete_batches(LIMIT) == delete_batches(None) == 0
    assert set(Batch.objects.values_list("pk", flat=True)) == kept
