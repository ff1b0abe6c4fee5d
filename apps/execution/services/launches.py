"""Launches of jobs by backends, and the release of their units.

A backend claims launches and reports on them; the emulated one uses its own SQL
(`backends.emulated.control_plane`).
"""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from django.db import connection

from apps.common.infrastructure.database import without_index
from apps.execution.core.migration import MigrationOutcome
from apps.execution.services.migration_reports import end_migrations
from apps.scheduling import services as scheduling

_IS_LIVE: Final = without_index("a.released_seq IS NULL")
# OFFSET 0: looked up for each of the few jobs that start, never joined with whole tables
_REQUEST_LAUNCHES: Final = f"""
WITH ready AS MATERIALIZED (
    SELECT j.id, j.attempts, j.placed_at, j.predicted->>'setting' AS setting
    FROM workloads_job j
    WHERE j.state = 'starting' AND NOT EXISTS (
        SELECT FROM execution_launch l
        WHERE l.job_id = j.id AND (l.state <> 'ended' OR l.attempt = j.attempts) OFFSET 0)
      AND NOT EXISTS (
        SELECT FROM scheduling_allocation a JOIN inventory_server s ON s.id = a.server_id
        WHERE a.job_id = j.id AND {_IS_LIVE} AND s.backend <> %s OFFSET 0)
      AND (%s::bigint IS NULL OR EXISTS (
        SELECT FROM scheduling_allocation a
        WHERE a.job_id = j.id AND {_IS_LIVE} AND a.server_id = %s OFFSET 0))
    -- locked: a job that is displaced meanwhile must not be launched on its old servers
    ORDER BY j.placed_at, j.id LIMIT %s FOR NO KEY UPDATE SKIP LOCKED)
INSERT INTO execution_launch (job_id, attempt, backend, state, "order", cancel_requested,
                              claimed_by, created_at, outcome, message)
SELECT r.id, r.attempts, %s, 'requested',
       jsonb_strip_nulls(jsonb_build_object(
           'parts',
           jsonb_agg(jsonb_build_array(a.server_id, a.cores) ORDER BY a.server_id),
           'setting', r.setting)),
       false, '', now(), '', ''
FROM ready r
CROSS JOIN LATERAL (
    -- two allocations on one server form one part: a job may have been given more units
    SELECT a.server_id, sum(a.cores) AS cores FROM scheduling_allocation a
    WHERE a.job_id = r.id AND {_IS_LIVE} GROUP BY a.server_id) a
GROUP BY r.id, r.attempts, r.placed_at, r.setting ORDER BY r.placed_at, r.id
ON CONFLICT DO NOTHING
"""  # noqa: S608 - a constant


def request_launches(backend: str, *, limit: int, server: int | None = None) -> int:
    """Create launches of the jobs that have units of a backend; returns the number of new ones.

    A backend calls this when it polls, so a committed job never waits for a message.

    Parameters
    ----------
    server : only of jobs with units of this one: callers for other servers would skip the jobs
        that this call has locked, and not see their launches before it commits
    """
    with connection.cursor() as cursor:
        cursor.execute(_REQUEST_LAUNCHES, [backend, server, server, limit, backend])
        return cursor.rowcount


def release_jobs(job_ids: Sequence[UUID]) -> None:
    """Release the units of jobs that have just ended, in the transaction that ended them."""
    end_migrations(
        job_ids,
        outcome=MigrationOutcome.CANCELLED,
        message="the job ended before the migration completed",
    )
    scheduling.release(job_ids)
