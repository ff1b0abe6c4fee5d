"""The check of the lock order, and the order itself."""

import pytest
from django.apps import apps
from django.db import transaction

from apps.common.infrastructure.locks import LOCK_ORDER
from apps.execution.models import Launch
from apps.operations.services import NewEvent, record_events
from apps.workloads.models import Application, Job
from tests.lock_order import LockOrder, locked_tables

EVENT = NewEvent(topic="jobs", kind="job.updated", subject="1")


@pytest.fixture
def found(_lock_order: LockOrder) -> list[str]:
    """Violations so far; the test expects them."""
    return _lock_order.violations


def test_the_order_names_tables() -> None:
    assert set(LOCK_ORDER) <= {model._meta.db_table for model in apps.get_models()}
    assert len(set(LOCK_ORDER)) == len(LOCK_ORDER)


@pytest.mark.parametrize(
    ("sql", "tables"),
    [
        ('SELECT * FROM "a" WHERE id = 1', []),
        ('SELECT * FROM "a" WHERE id = 1 FOR UPDATE', ["a"]),
        ("SELECT FROM a WHERE id IN ( SELECT x FROM b) ORDER BY id FOR NO KEY UPDATE", ["a"]),
        ("SELECT l.id FROM a l JOIN b ON b.id = l.b FOR UPDATE OF l", ["a"]),
        ("SELECT l.id FROM a l JOIN b ON b.id = l.b FOR UPDATE", ["a", "b"]),
        ("WITH x AS ( SELECT id FROM a FOR UPDATE) UPDATE b SET v = 1", ["a", "b"]),
        ('DELETE FROM "a" WHERE "id" IN (1)', ["a"]),
        ("INSERT INTO a VALUES (1) ON CONFLICT (id) DO UPDATE SET v = 1", []),
    ],
)
def test_statements_lock_tables(sql: str, tables: list[str]) -> None:
    assert locked_tables(sql) == tables


@pytest.mark.django_db
def test_launches_after_jobs_are_a_violation(found: list[str]) -> None:
    with transaction.atomic():
        list(Job.objects.select_for_update(of=("self",)).select_related("project"))
        Launch.objects.update(message="")
    (violation,) = found
    found.clear()
    assert violation.startswith("execution_launch is locked after workloads_job: UPDATE")


@pytest.mark.django_db
def test_each_transaction_starts_anew(found: list[str]) -> None:
    with transaction.atomic():
        Job.objects.update(held=False)
    with transaction.atomic():
        Launch.objects.update(message="")
        Job.objects.update(held=False)
        Launch.objects.update(message="")
    assert found == []


@pytest.mark.django_db
def test_a_row_locked_after_a_log_is_a_violation(found: list[str]) -> None:
    with transaction.atomic():
        list(Application.objects.select_for_update().filter(name="a"))
        record_events([EVENT])
        Application.objects.update(description="")
        list(Application.objects.select_for_update().filter(name="a"))
        assert found == []
        list(Application.objects.select_for_update().filter(name="b"))
    (violation,) = found
    found.clear()
    assert violation.startswith("workloads_application is locked after a log")
