"""Deletion of ended jobs with all their history, and of batches without jobs."""

from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.conf import settings
from django.db import connection, transaction
from django.db.models import CASCADE, SET_NULL
from psycopg.sql import SQL, Identifier

from apps.common.infrastructure.database import fetch_rows
from apps.common.infrastructure.locks import LOCK_ORDER, lock_for_deletion
from apps.operations.services.retention import Kind, cutoff
from apps.workloads.core.lifecycle import TERMINAL_STATES
from apps.workloads.models import Job

JOBS: Final = 500  # jobs of one batch; each has some ten rows of history
BATCHES: Final = 500
ARCHIVES: Final = 100

_OLD: Final = """
SELECT id FROM workloads_job
WHERE finished_at < %s AND state = ANY(%s) ORDER BY finished_at LIMIT %s
"""
_BATCHES: Final = """
DELETE FROM workloads_batch WHERE id = ANY(ARRAY(
    SELECT id FROM workloads_batch b
    WHERE created_at < %s AND NOT EXISTS (SELECT FROM workloads_job j WHERE j.batch_id = b.id)
    ORDER BY created_at LIMIT %s))
"""
# submission changes used_at: a row that it has locked is not deleted once it is unlocked
_ARCHIVES: Final = """
DELETE FROM workloads_archive WHERE digest = ANY(ARRAY(
    SELECT digest FROM workloads_archive a
    WHERE used_at < clock_timestamp() - interval '1 hour'
      AND NOT EXISTS (SELECT FROM workloads_job j WHERE j.files_id = a.digest)
    ORDER BY digest LIMIT %s))
  AND used_at < clock_timestamp() - interval '1 hour'
"""
_EMPTY_COUNTS: Final = "DELETE FROM workloads_jobcount WHERE jobs = 0"


def workload_kinds() -> list[Kind]:
    """Return the kinds of history that this app owns."""
    return [
        Kind("jobs", lambda: delete_ended_jobs(cutoff(settings.BERTH_JOB_DAYS))),
        Kind("archives", delete_archives),
        Kind("batches", lambda: delete_batches(cutoff(settings.BERTH_BATCH_DAYS))),
    ]


def delete_ended_jobs(before: datetime | None) -> int:
    """Delete some jobs that ended before with every row that refers to them; their number.

    The tables are those whose foreign key to a job cascades, whatever app owns them; a foreign key
    that is null without its job becomes null. No event is recorded: a client that follows jobs for
    this long reads their end.
    """
    if before is None:
        return 0
    keys = [key for (key,) in fetch_rows(_OLD, [before, list(TERMINAL_STATES), JOBS])]
    with transaction.atomic():
        keys = _unlocked(keys)
    with transaction.atomic(), connection.cursor() as cursor:
        lock_for_deletion(Job, keys)
        ended = list(
            Job.objects.filter(pk__in=keys, state__in=TERMINAL_STATES).values_list("pk", flat=True)
        )
        for table, column in job_tables(SET_NULL):
            statement = SQL("UPDATE {0} SET {1} = NULL WHERE {1} = ANY(%s)")
            cursor.execute(statement.format(Identifier(table), Identifier(column)), [ended])
        for table, column in [*job_tables(CASCADE), ("workloads_job", "id")]:
            statement = SQL("DELETE FROM {} WHERE {} = ANY(%s)")
            cursor.execute(statement.format(Identifier(table), Identifier(column)), [ended])
        if not ended:
            cursor.execute(_EMPTY_COUNTS)
    return len(ended)


def _unlocked(keys: list[UUID]) -> list[UUID]:
    """Return those of the jobs that nobody has locked."""
    jobs = Job.objects.filter(pk__in=keys).order_by("pk").select_for_update(skip_locked=True)
    return list(jobs.values_list("pk", flat=True))


def job_tables(on_delete: Any) -> list[tuple[str, str]]:
    """Return (table, column) of the rows that refer to a job, in the order of their locks.

    Parameters
    ----------
    on_delete : of the foreign keys: Django's CASCADE or SET_NULL
    """
    tables = [
        (relation.related_model._meta.db_table, str(relation.field.column))
        for relation in Job._meta.related_objects
        if relation.on_delete is on_delete
    ]
    places = {table: place for place, table in enumerate(LOCK_ORDER)}
    return sorted(tables, key=lambda pair: places.get(pair[0], len(places)))


def delete_batches(before: datetime | None) -> int:
    """Delete some old batches whose jobs have all been deleted; their number."""
    if before is None:
        return 0
    with connection.cursor() as cursor:
        cursor.execute(_BATCHES, [before, BATCHES])
        return cursor.rowcount


def delete_archives() -> int:
    """Delete some archives that no job has, and that no submission named for an hour."""
    with connection.cursor() as cursor:
        cursor.execute(_ARCHIVES, [ARCHIVES])
        return cursor.rowcount
