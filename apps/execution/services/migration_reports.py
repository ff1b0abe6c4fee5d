"""Claims of migrations by backends, their reports, and other ends of migrations.

The state of a migration only advances (requested, running, then done, failed or cancelled), and
only a change of state has effects, so a report may be repeated. Rows are locked as `locks` states.
"""

import json
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final
from uuid import UUID

from django.db import connection, transaction

from apps.common.infrastructure.database import fetch_rows
from apps.execution.core.migration import (
    MigrationOrder,
    MigrationOutcome,
    MigrationReport,
    parts_after_migration,
)
from apps.execution.models import Migration, MigrationState
from apps.execution.services.locks import lock_migrations
from apps.inventory.selectors import cluster_now
from apps.operations.services import NewEvent, record_events
from apps.scheduling import services as scheduling

OPEN: Final = (MigrationState.REQUESTED, MigrationState.RUNNING)
LEASE_S: Final = 10.0  # wall seconds


# ---- claims ----

_RENEW_LEASES: Final = """
UPDATE execution_migration SET claimed_until = clock_timestamp() + make_interval(secs => %s)
WHERE id = ANY(ARRAY(
    SELECT id FROM execution_migration
    WHERE id = ANY(%s) AND claimed_by = %s
      AND claimed_until < clock_timestamp() + make_interval(secs => %s)
      AND state IN ('requested', 'running')
    ORDER BY id FOR UPDATE SKIP LOCKED))
"""
_CLAIM_MIGRATIONS: Final = """
UPDATE execution_migration
SET claimed_by = %s, claimed_until = clock_timestamp() + make_interval(secs => %s)
WHERE id = ANY(ARRAY(
    SELECT m.id FROM execution_migration m JOIN execution_launch l ON l.id = m.launch_id
    WHERE m.state IN ('requested', 'running') AND l.backend = %s AND l.state = 'running'
      AND m.id <> ALL(%s)
      AND (m.claimed_until IS NULL OR m.claimed_until < clock_timestamp() OR m.claimed_by = %s)
    ORDER BY m.id LIMIT %s FOR UPDATE OF m SKIP LOCKED))
RETURNING id, launch_id, from_server_id, to_server_id, units, cancel_requested
"""


def claim_migrations(
    backend: str, *, worker: str, limit: int, doing: Collection[int] = ()
) -> tuple[list[MigrationOrder], list[int]]:
    """Claim migrations for a process to start, including those whose lease has expired.

    Renews the leases of ``doing``, the migrations in progress at the process.

    Returns
    -------
    (orders, ids of claimed migrations whose cancellation was requested: see `cancel_claimed`)
    """
    known = list(doing)
    if known:
        _run(_RENEW_LEASES, [LEASE_S, known, worker, LEASE_S / 2.0])
    rows = fetch_rows(_CLAIM_MIGRATIONS, [worker, LEASE_S, backend, known, worker, limit])
    orders = [MigrationOrder(*row[:-1]) for row in sorted(rows) if not row[-1]]
    return orders, [row[0] for row in rows if row[-1]]


def cancel_claimed(migration_ids: Sequence[int]) -> None:
    """Cancel migrations that their backend has not started, after their claim is committed."""
    _cancel(migration_ids, "cancelled before its backend started it")


# ---- reports ----


def record_migration_reports(reports: Sequence[MigrationReport]) -> None:
    """Record reports of migrations; repeated reports change nothing."""
    if not reports:
        return
    with transaction.atomic():
        lock_migrations(report.migration for report in reports)
        record_locked_reports(reports)


_START_MIGRATIONS: Final = """
UPDATE execution_migration AS m SET state = 'running', started_s = d.at
FROM unnest(%s::bigint[], %s::float8[]) AS d(id, at)
WHERE m.id = d.id AND m.state = 'requested'
"""
_END_MIGRATIONS: Final = """
UPDATE execution_migration AS m
SET state = d.state, ended_s = d.at, message = left(d.message, 500), claimed_until = NULL
FROM unnest(%s::bigint[], %s::text[], %s::float8[], %s::text[]) AS d(id, state, at, message)
WHERE m.id = d.id AND m.state IN ('requested', 'running')
RETURNING m.id
"""


def record_locked_reports(reports: Sequence[MigrationReport]) -> None:
    """Record reports of locked migrations; call it last in the transaction."""
    started = [report for report in reports if report.outcome is MigrationOutcome.STARTED]
    finished = [report for report in reports if report.outcome is not MigrationOutcome.STARTED]
    if started:
        _run(_START_MIGRATIONS, [[r.migration for r in started], [r.at_s for r in started]])
    if finished:
        columns = [
            [r.migration for r in finished],
            [r.outcome.value for r in finished],
            [r.at_s for r in finished],
            [r.message for r in finished],
        ]
        ended = [migration for (migration,) in fetch_rows(_END_MIGRATIONS, columns)]
        _finish(Migration.objects.filter(id__in=ended).select_related("job").order_by("id"))


def _finish(ended: Iterable[Migration]) -> None:
    """Update launches and allocations after migrations have ended, and record the events."""
    done = [migration for migration in ended if migration.state == MigrationState.DONE]
    undone = [migration for migration in ended if migration.state != MigrationState.DONE]
    for migration in done:
        _update_launch_parts(migration)
    scheduling.finish_migrations(
        {x.target_allocation_id: x.ended_s or 0.0 for x in done},
        given_up=[x.target_allocation_id for x in undone],
    )
    record_events(
        [migration_event("job.moved", x) for x in done]
        + [migration_event(f"job.move_{x.state}", x) for x in undone]
    )


def _update_launch_parts(done: Migration) -> None:
    """Update the parts in the launch, so that a restarted backend resumes the job there."""
    (text,) = fetch_rows('SELECT "order" FROM execution_launch WHERE id = %s', [done.launch_id])[0]
    order = json.loads(text)
    order["parts"] = parts_after_migration(
        [(server, units) for server, units in order["parts"]],
        units=done.units,
        from_server=done.from_server_id,
        to_server=done.to_server_id,
    )
    _run(
        # a launch that was stopped to restart the job stays as it was
        """UPDATE execution_launch SET "order" = %s WHERE id = %s AND state <> 'ended'""",
        [json.dumps(order), done.launch_id],
    )


def migration_event(kind: str, migration: Migration) -> NewEvent:
    """Event of a migration whose job is loaded."""
    job = migration.job
    data: dict[str, Any] = {
        "name": job.name,
        "state": job.state,
        "migration": migration.id,
        "from_server": migration.from_server_id,
        "to_server": migration.to_server_id,
        "units": migration.units,
    }
    if migration.message:
        data["message"] = migration.message
    return NewEvent(
        topic="jobs", kind=kind, subject=str(job.id), project_id=job.project_id,
        request_id=job.correlation_id, data=data,
    )  # fmt: skip


# ---- other ends ----


def end_migrations(job_ids: Sequence[UUID], *, outcome: MigrationOutcome, message: str) -> None:
    """End the migrations of ended jobs, in the transaction that locked and ended the jobs.

    That transaction also releases their units, including reserved ones.
    """
    _run(
        """UPDATE execution_migration SET state = %s, message = %s, ended_s = %s,
                  claimed_until = NULL
           WHERE job_id = ANY(%s) AND state IN ('requested', 'running')""",
        [outcome.value, message, cluster_now(), list(job_ids)],
    )


_STRANDED_MIGRATIONS: Final = """
SELECT m.id FROM execution_migration m JOIN execution_launch l ON l.id = m.launch_id
LEFT JOIN inventory_server s ON s.id = m.to_server_id AND s.state = 'active'
WHERE m.state IN ('requested', 'running')
  AND (l.state = 'ended' OR m.claimed_by = '' AND s.id IS NULL) ORDER BY m.id
"""


def end_stranded_migrations() -> int:
    """Cancel migrations whose launch has ended, or whose target closed before they started.

    Returns their number.
    """
    candidates = fetch_rows(_STRANDED_MIGRATIONS, [])
    if not candidates:
        return 0
    with transaction.atomic():
        lock_migrations(migration for (migration,) in candidates)
        # a backend may have started one of them before it was locked
        stranded = sorted(set(fetch_rows(_STRANDED_MIGRATIONS, [])) & set(candidates))
        _cancel(
            [migration for (migration,) in stranded],
            "its launch ended, or its target server accepts no new work",
        )
    return len(stranded)


def _cancel(migration_ids: Sequence[int], message: str) -> None:
    now_s = cluster_now()
    record_migration_reports(
        [MigrationReport(i, now_s, MigrationOutcome.CANCELLED, message) for i in migration_ids]
    )


def _run(sql: str, parameters: Sequence[Any]) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
