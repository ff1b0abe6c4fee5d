"""Migrations of the keys of jobs: set in a trigger, and with the backend."""

from typing import Any
from uuid import UUID

import pytest
from django.db import connection

from apps.workloads.models import Job, WaitingShape
from tests import factories
from tests.migration import migrate
from tests.scheduling.shapes import refuse, shaped
from tests.scheduling.world import ME, claimed

pytestmark = pytest.mark.django_db

MIGRATION = ("workloads", "0021_job_keys")
WITH_BACKEND = ("workloads", "0030_backend_in_shape_key")


def keys() -> list[tuple[UUID, UUID, UUID]]:
    return list(Job.objects.order_by("id").values_list("id", "shape_key", "flow_key"))


def values(sql: str) -> set[str]:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return {value for (value,) in cursor.fetchall()}


def generated() -> set[str]:
    return values(
        "SELECT column_name FROM information_schema.columns"
        " WHERE table_name = 'workloads_job' AND is_generated = 'ALWAYS'"
    )


def flow_index() -> set[str]:
    return values("SELECT indexdef FROM pg_indexes WHERE indexname = 'job_by_flow'")


def test_the_reverse_generates_the_same_keys() -> None:
    factories.job(units_requested=3)
    factories.job(target={"kind": "best_effort"})
    before = keys()
    migrate(*MIGRATION, back=True)
    assert generated() == {"shape_key", "flow_key"}
    assert keys() == before


def test_the_reverse_follows_changes_of_a_request() -> None:
    job = factories.job(priority=1)
    ((_, shape, flow),) = keys()
    migrate(*MIGRATION, back=True)
    Job.objects.filter(pk=job.pk).update(priority=2)
    ((_, new_shape, new_flow),) = keys()
    assert new_shape != shape
    assert new_flow == flow


def test_the_migration_applies_again_after_its_reverse() -> None:
    factories.job(units_requested=3)
    before, index = keys(), flow_index()
    migrate(*MIGRATION, back=True)
    migrate(*MIGRATION, back=False)
    assert generated() == set()
    assert keys() == before
    assert flow_index() == index
    assert len(index) == 1


def test_stored_jobs_keep_the_keys_from_before_backends_counted() -> None:
    about, owner = factories.application(), factories.user()
    same: dict[str, Any] = {"application": about, "created_by": owner}
    migrate(*WITH_BACKEND, back=True)
    factories.job(backend="slurm", **same)
    factories.job(state="succeeded", **same)
    before = keys()
    migrate(*WITH_BACKEND, back=False)
    assert keys() == before
    assert len({shape for _, shape, _ in before}) == 1


def test_a_job_that_waits_stays_in_its_shape_when_backends_begin_to_count() -> None:
    about, owner = factories.application(), factories.user()
    same: dict[str, Any] = {"application": about, "created_by": owner}
    migrate(*WITH_BACKEND, back=True)
    old, plain = shaped(backend="slurm", **same), shaped(**same)
    assert old.shape_id == plain.shape_id
    migrate(*WITH_BACKEND, back=False)
    Job.objects.filter(pk=old.pk).update(claimed_by=ME.name)
    refuse([old])
    old.refresh_from_db()
    assert old.shape_id == plain.shape_id
    new, other = claimed(ME, backend="slurm", **same), claimed(ME, **same)
    refuse([new, other])
    new.refresh_from_db()
    other.refresh_from_db()
    assert other.shape_id == plain.shape_id != new.shape_id
    assert WaitingShape.objects.count() == 2


def test_the_reverse_lets_jobs_of_all_backends_share_a_shape() -> None:
    about, owner = factories.application(), factories.user()
    one, two = (
        factories.job(application=about, created_by=owner, backend=each) for each in ("", "slurm")
    )
    assert one.shape_key != two.shape_key
    migrate(*WITH_BACKEND, back=True)
    Job.objects.filter(pk=two.pk).update(priority=two.priority)
    assert len({shape for _, shape, _ in keys()}) == 1
