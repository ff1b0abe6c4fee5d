"""Locks of rows of execution, which everybody takes in one order, so that nobody deadlocks.

Launches come first, then jobs, then migrations, each by id; then what
`scheduling.services.holding` says. An UPDATE of several rows locks them in any order: they are
locked here before it.
"""

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from django.db import connection


def lock_launches(launch_ids: Iterable[int]) -> None:
    """Lock launches until the caller's transaction ends."""
    _lock(
        "SELECT FROM execution_launch WHERE id = ANY(%s) ORDER BY id FOR NO KEY UPDATE",
        launch_ids,
    )


def lock_launches_of(job_ids: Iterable[UUID]) -> None:
    """Lock the launches of jobs which have not ended."""
    _lock(
        """SELECT FROM execution_launch WHERE job_id = ANY(%s) AND state <> 'ended'
           ORDER BY id FOR NO KEY UPDATE""",
        job_ids,
    )


def lock_migrations(migration_ids: Iterable[int]) -> None:
    """Lock migrations, and before them the launches and the jobs they are of."""
    ids = list(migration_ids)
    _lock(
        """SELECT FROM execution_launch WHERE id IN (
               SELECT launch_id FROM execution_migration WHERE id = ANY(%s))
           ORDER BY id FOR NO KEY UPDATE""",
        ids,
    )
    _lock(
        """SELECT FROM workloads_job WHERE id IN (
               SELECT job_id FROM execution_migration WHERE id = ANY(%s))
           ORDER BY id FOR NO KEY UPDATE""",
        ids,
    )
    _lock("SELECT FROM execution_migration WHERE id = ANY(%s) ORDER BY id FOR UPDATE", ids)


def _lock(sql: str, keys: Iterable[Any]) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql, [list(keys)])
