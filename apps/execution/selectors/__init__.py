"""Reads of execution: migrations."""

from collections.abc import Iterable
from uuid import UUID

from django.db.models import QuerySet

from apps.common.infrastructure.database import fetch_rows
from apps.execution.models import Migration


def migrations(ids: Iterable[int]) -> dict[int, Migration]:
    """Migrations by id."""
    return Migration.objects.in_bulk(list(ids))


def migrations_of(job_id: UUID) -> QuerySet[Migration]:
    """Migrations of a job, newest first."""
    return Migration.objects.filter(job=job_id).order_by("-id")


def has_open_migrations() -> bool:
    """Return True if any migration is requested or running."""
    rows = fetch_rows(
        "SELECT EXISTS (SELECT FROM execution_migration WHERE state IN ('requested', 'running'))"
    )
    return bool(rows[0][0])
