"""Migrations by backends without live migration: stop the job, and start it on the new server.

The request reserves the units of the new server and lets the backend stop the launch. When the
backend reports that it has stopped, the job holds the new units in the same transaction, and its
backend launches it there. So no other job can take the units, and the job never runs twice.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from django.db import connection

from apps.common.infrastructure.database import fetch_rows
from apps.common.infrastructure.notifications import wake
from apps.execution.core.migration import TO_RESTART, MigrationOutcome, MigrationReport
from apps.execution.core.port import EndReport, Outcome
from apps.execution.models import Migration, MigrationState
from apps.execution.services.launch_reports import MOVED
from apps.execution.services.locks import lock_launches, lock_migrations
from apps.execution.services.migration_reports import record_locked_reports
from apps.inventory.core.backends import MACHINES, Capability, backends_with
from apps.inventory.selectors import cluster_now
from apps.workloads import services as workloads

OWNER: Final = "restart"  # such a migration has begun: no plan can withdraw it
RESTARTS: Final = "restarts on another server"
# A target that went down takes no job: its job is queued again.
_STOPPED: Final = """
SELECT m.id, m.launch_id, m.job_id, m.to_server_id FROM execution_migration m
JOIN execution_launch l ON l.id = m.launch_id
JOIN workloads_job j ON j.id = m.job_id
JOIN inventory_server s ON s.id = m.to_server_id
JOIN scheduling_allocation a ON a.id = m.target_allocation_id
WHERE m.launch_id = ANY(%s) AND m.state = 'running' AND l.state = 'running'
  AND l.cancel_requested AND l.backend = ANY(%s) AND NOT j.cancel_requested
  AND s.state = 'active' AND a.released_seq IS NULL
ORDER BY m.id
"""
_END: Final = """
UPDATE execution_launch AS l SET state = 'ended', ended_s = d.at, outcome = %s,
       claimed_until = NULL
FROM unnest(%s::bigint[], %s::float8[]) AS d(id, at) WHERE l.id = d.id
"""
_RESTARTING: Final = """
SELECT m.id, m.launch_id FROM execution_migration m
JOIN execution_launch l ON l.id = m.launch_id
WHERE m.launch_id = ANY(%s) AND m.state = 'running' AND l.state = 'running' AND l.cancel_requested
ORDER BY m.id
"""
_STAY: Final = """
UPDATE execution_launch SET cancel_requested = false, message = ''
WHERE id = ANY(%s) AND state = 'running' AND cancel_requested AND message = %s
"""


def stop_to_restart(migrations: Sequence[Migration], *, at_s: float) -> None:
    """Let backends stop the locked launches of new migrations."""
    if not migrations:
        return
    ids = [migration.id for migration in migrations]
    Migration.objects.filter(id__in=ids).update(
        state=MigrationState.RUNNING, started_s=at_s, claimed_by=OWNER
    )
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE execution_launch SET cancel_requested = true, message = %s WHERE id = ANY(%s)",
            [TO_RESTART, [migration.launch_id for migration in migrations]],
        )
    wake(MACHINES, {migration.from_server_id for migration in migrations})


def record_restarts(reports: Collection[EndReport]) -> None:
    """Give the units of the new servers to the jobs that were stopped to restart there.

    In the caller's transaction. All other reports are left to `record_ended`, and so are those of
    jobs that ended by themselves before they were stopped.
    """
    stopped = {x.launch: x.at_s for x in reports if x.outcome == Outcome.CANCELLED}
    if not _stopped(stopped):
        return
    lock_launches(stopped)
    lock_migrations([migration for migration, *_ in _stopped(stopped)])
    rows = _stopped(stopped)
    if not rows:
        return
    launches = [launch for _, launch, *_ in rows]
    at_s = max(stopped[launch] for launch in launches)
    with connection.cursor() as cursor:
        cursor.execute(_END, [MOVED, launches, [stopped[launch] for launch in launches]])
    workloads.restart_jobs([job for _, _, job, _ in rows], at_s=at_s, message=RESTARTS)
    wake(MACHINES, {server for *_, server in rows})
    record_locked_reports(
        [MigrationReport(x, stopped[launch], MigrationOutcome.DONE) for x, launch, *_ in rows]
    )


def give_up_restarts(messages: Mapping[int, str], outcome: MigrationOutcome) -> None:
    """Give up the restarts of launches that their backend did not stop: they stay where they are.

    In the caller's transaction. Frees the units reserved for them. Launches that are not stopped
    to restart do not change.

    Parameters
    ----------
    messages : why, by launch
    outcome : of their migrations
    """
    launches = list(messages)
    lock_launches(launches)
    lock_migrations([migration for migration, _ in fetch_rows(_RESTARTING, [launches])])
    rows = fetch_rows(_RESTARTING, [launches])
    with connection.cursor() as cursor:
        cursor.execute(_STAY, [launches, TO_RESTART])
    now_s = cluster_now()
    record_locked_reports(
        [MigrationReport(key, now_s, outcome, messages[launch]) for key, launch in rows]
    )


def _stopped(launches: Collection[int]) -> list[tuple[Any, ...]]:
    backends = sorted(backends_with(Capability.MOVE_RESTART))
    return fetch_rows(_STOPPED, [list(launches), backends])
