"""Recovery from failures: silent servers, lost jobs, and work whose process has died."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

from django.conf import settings
from django.db import connection, transaction

from apps.classification import services as classification
from apps.common.infrastructure.database import database_now, fetch_rows
from apps.common.infrastructure.leases import shift_leases
from apps.execution.core.agent.wire import GRACE_S
from apps.execution.core.migration import MigrationOutcome
from apps.execution.models import Launch, LaunchState
from apps.execution.services import probes
from apps.execution.services.backend_holders import HOLD_S
from apps.execution.services.heartbeats import store_heartbeats
from apps.execution.services.locks import lock_launches, lock_launches_of
from apps.execution.services.migration_reports import end_migrations, end_stranded_migrations
from apps.inventory import services as inventory
from apps.inventory.core.backends import AGENT
from apps.inventory.core.usage import SILENT_S
from apps.inventory.selectors import cluster, cluster_now, silent_servers
from apps.operations.services.leases import shift_operation_leases
from apps.profiling import services as profiling
from apps.scheduling import services as scheduling
from apps.workloads import services as workloads
from apps.workloads.core.lifecycle import JobState
from apps.workloads.core.reasons import Reason

MAX_ATTEMPTS: Final = 5  # launches of one job

# of all jobs, or of some of them
_ON_LOST_SERVERS: Final = """
SELECT DISTINCT j.id, j.attempts FROM workloads_job j
JOIN scheduling_allocation a ON a.job_id = j.id AND a.released_seq IS NULL
     AND (a.moved_from IS NULL OR a.moved_s IS NOT NULL)
JOIN inventory_server s ON s.id = a.server_id
LEFT JOIN inventory_serverreading r ON r.server_id = s.id
LEFT JOIN execution_serveragent g ON g.server_id = s.id
WHERE j.state IN ('starting', 'running')
  -- an agent runs its jobs until its own lease ends
  AND CASE WHEN s.backend = %s
           THEN r.at < clock_timestamp() - make_interval(secs => coalesce(g.lease_s, %s) + %s)
           ELSE s.state = 'down' OR s.id = ANY(%s) END
  AND (%s::uuid[] IS NULL OR j.id = ANY(%s))
"""


# Only those that the process of the backend did not renew together with its own lease: while it is
# paused or away, and without a process, the launches wait for it or for the next one.
_NOT_RUN: Final = """
SELECT j.id, j.attempts FROM execution_launch l
JOIN workloads_job j ON j.id = l.job_id
JOIN execution_backendholder h ON h.backend = l.backend AND h.held_until > clock_timestamp()
WHERE l.state = 'running'
  AND (l.claimed_until IS NULL OR l.claimed_until < least(
           clock_timestamp(), h.held_until - make_interval(secs => %s)))
  AND j.state IN ('starting', 'running') AND (%s::uuid[] IS NULL OR j.id = ANY(%s))
"""


@dataclass(frozen=True, slots=True)
class _Loss:
    """What makes a job lose its launch.

    Attributes
    ----------
    find : (job, attempts) of the jobs lost now; of all jobs, or of some of them
    message : shown at the job and the launch
    """

    find: Callable[[list[UUID] | None], list[tuple[UUID, int]]]
    message: str


def requeue_lost_jobs(*, silent_before: datetime) -> int:
    """Queue jobs again whose servers are down or silent; fail those launched too often.

    Returns the number of jobs that lost a server.
    """

    def find(job_ids: list[UUID] | None) -> list[tuple[UUID, int]]:
        silent = silent_servers(silent_before=silent_before).values_list("id", flat=True)
        leased = [AGENT, settings.AGENT_LEASE_S, GRACE_S]
        rows = fetch_rows(_ON_LOST_SERVERS, [*leased, list(silent), job_ids, job_ids])
        return [(job, attempts) for job, attempts in rows]

    return _recover(_Loss(find, "a server of the job stopped reporting"))


def requeue_jobs_without_owner() -> int:
    """Queue jobs again whose launch runs, but not at the process that runs the backend.

    Jobs launched too often fail. Returns the number of jobs that lost their launch.
    """

    def find(job_ids: list[UUID] | None) -> list[tuple[UUID, int]]:
        rows = fetch_rows(_NOT_RUN, [HOLD_S, job_ids, job_ids])
        return [(job, attempts) for job, attempts in rows]

    return _recover(_Loss(find, "its backend stopped running it"))


def requeue_launch(launch_id: int, message: str) -> None:
    """Queue the job of a live launch again that its backend has lost, or fail it after many.

    In the caller's transaction.
    """
    lock_launches([launch_id])
    live = Launch.objects.exclude(state=LaunchState.ENDED).filter(id=launch_id)
    jobs = list(live.values_list("job_id", "job__attempts"))
    workloads.lock_jobs([job for job, _ in jobs])
    if jobs:
        _end_launches(jobs, message)


def _recover(loss: _Loss) -> int:
    """Requeue or fail the lost jobs; returns their number."""
    candidates = [job for job, _ in loss.find(None)]
    if not candidates:
        return 0
    with transaction.atomic():
        locked = lock_launches_of(candidates)
        workloads.lock_jobs(candidates)
        # A launch made since then is not locked, and a backend may hold it: leave its job to the
        # next sweep. Another sweep may have recovered a job, which may run again by now.
        live = Launch.objects.filter(job__in=candidates).exclude(state=LaunchState.ENDED)
        new = set(live.exclude(id__in=locked).values_list("job_id", flat=True))
        lost = [row for row in loss.find(candidates) if row[0] not in new]
        if lost:
            _end_launches(lost, loss.message)
    return len(lost)


def _end_launches(lost: Sequence[tuple[UUID, int]], message: str) -> None:
    """Requeue or fail locked jobs, end their launches and release their units.

    Launches that were preempted, or stopped to restart elsewhere, do not count as attempts.
    """
    preempted = _preempted([job for job, _ in lost])
    requeued = [job for job, n in lost if n - preempted.get(job, 0) < MAX_ATTEMPTS]
    failed = [job for job, n in lost if n - preempted.get(job, 0) >= MAX_ATTEMPTS]
    last = f"{message}; this was launch {MAX_ATTEMPTS} of {MAX_ATTEMPTS}"
    now_s = cluster_now()
    ends = [
        workloads.JobEnd(job, JobState.FAILED, now_s, Reason.TOO_MANY_ATTEMPTS, last)
        for job in failed
    ]
    changed = [
        *workloads.requeue_lost(requeued, reason=Reason.BACKEND_LOST, message=message),
        *workloads.end_jobs(ends),
    ]
    ids = [row[0] for row in changed]
    with connection.cursor() as cursor:
        cursor.execute(
            """UPDATE execution_launch SET state = 'ended', outcome = 'lost', ended_s = %s,
                      message = %s, claimed_until = NULL
               WHERE job_id = ANY(%s) AND state <> 'ended'""",
            [now_s, message, ids],
        )
    end_migrations(ids, outcome=MigrationOutcome.FAILED, message=message)
    scheduling.release(ids)
    workloads.record_transitions(changed)


def _preempted(jobs: Sequence[UUID]) -> dict[UUID, int]:
    """Return how many launches of jobs Berth has stopped."""
    rows = fetch_rows(
        """SELECT job_id, count(*) FROM execution_launch
           WHERE job_id = ANY(%s) AND outcome IN ('preempted', 'moved') GROUP BY job_id""",
        [list(jobs)],
    )
    return dict(rows)


def _heartbeat_limit() -> datetime | None:
    """Return the wall time before which the last heartbeat of a silent server lies.

    Returns None for `SILENT_S` after the cluster clock started or stepped: servers that have not
    reported since then cannot be told from silent ones.
    """
    now = database_now()
    anchored = datetime.fromtimestamp(cluster().wall_anchor_s, UTC)
    limit = now - timedelta(seconds=SILENT_S)
    return None if limit < anchored <= now else limit


def _follow_step_back() -> None:
    """Move leases and claims if the wall clock was set back since the last sweep."""
    with transaction.atomic():
        back_s = inventory.take_step_back()
        if back_s > 0.0:
            profiling.shift_claims(back_s)
            shift_operation_leases(back_s)
            workloads.shift_claims(back_s)
            shift_leases("execution_migration", "claimed_until", back_s)


def sweep() -> None:
    """Detect and repair silent servers, and launches, migrations and runs without an owner."""
    inventory.save_clock()
    _follow_step_back()
    store_heartbeats()
    if (silent_before := _heartbeat_limit()) is not None:
        inventory.mark_silent_servers(silent_before=silent_before)
        requeue_lost_jobs(silent_before=silent_before)
    requeue_jobs_without_owner()
    end_stranded_migrations()
    scheduling.end_reservations_of_ended_jobs()
    profiling.end_cancelled_runs()
    probes.advance_probes()
    profiling.give_up_runs()
    classification.requeue_waiting_jobs()
