"""Reads of execution: migrations."""

from collections.abc import Iterable
from typing import Final
from uuid import UUID

from django.db.models import QuerySet

from apps.execution.models import Migration, MigrationState

OPEN: Final = (MigrationState.REQUESTED, MigrationState.RUNNING)


def open_migrations() -> QuerySet[Migration]:
    """Migrations asked for or under way, oldest first."""
    return Migration.objects.filter(state__in=OPEN).order_by("id")


def migrations(ids: Iterable[int]) -> dict[int, Migration]:
    """Migrations by id."""
    return Migration.objects.in_bulk(list(ids))


def migrations_of(job_id: UUID) -> QuerySet[Migration]:
    """Migrations of a job, newest first."""
    return Migration.objects.filter(job=job_id).order_by("-id")
