"""The reverse of the migration that set the keys of jobs in a trigger."""

from uuid import UUID

import pytest
from django.db import connection

from apps.workloads.models import Job
from tests import factories
from tests.migration import migrate

pytestmark = pytest.mark.django_db

MIGRATION = ("workloads", "0021_job_keys")


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
