"""Row locks of execution, in the order of `common.infrastructure.locks`."""

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from django.db import connection

from apps.common.infrastructure.database import fetch_rows


def lock_launches(launch_ids: Iterable[int]) -> None:
    """Lock launches until the caller's transaction ends."""
    _lock(
        "SELECT FROM execution_launch WHERE id = ANY(%s) ORDER BY id FOR NO KEY UPDATE",
        launch_ids,
    )


def lock_launches_of(job_ids: Iterable[UUID]) -> list[int]:
    """Lock the live launches of jobs; returns their ids."""
    rows = fetch_rows(
        """SELECT id FROM execution_launch WHERE job_id = ANY(%s) AND state <> 'ended'
           ORDER BY id FOR NO KEY UPDATE""",
        [list(job_ids)],
    )
    return [launch for (launch,) in rows]


def lock_live_launches(backend: str) -> None:
    """Lock the live launches of a backend."""
    fetch_rows(
        """SELECT FROM execution_launch WHERE backend = %s AND state IN ('requested', 'running')
           ORDER BY id FOR NO KEY UPDATE""",
        [backend],
    )


def lock_migrations(migration_ids: Iterable[int]) -> None:
    """Lock migrations, after their launches and jobs."""
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
