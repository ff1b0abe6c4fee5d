"""Claims of profiling runs by backends, and their progress."""

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID

from django.db import connection, transaction

from apps.common.infrastructure.database import fetch_rows
from apps.common.infrastructure.leases import shift_leases
from apps.operations.core.states import OperationStatus
from apps.operations.services import OperationChange, mirror_operations, record_events
from apps.profiling.core.measurements import ProfilingStep
from apps.profiling.models import ProfilingRun, RunState
from apps.workloads.services.turns import PROJECTS_OF_OPEN_RUNS

MAX_ATTEMPTS: Final = 5
_CLAIM_RUNS: Final = f"""
WITH RECURSIVE {PROJECTS_OF_OPEN_RUNS},
claimed AS (
    UPDATE profiling_profilingrun
    SET state = 'running', claimed_by = %(worker)s,
        claimed_until = clock_timestamp() + make_interval(secs => %(lease_s)s),
        attempts = attempts + 1, started_s = coalesce(started_s, %(at_s)s)
    WHERE id = ANY(ARRAY(
        SELECT next.id FROM projects p, LATERAL (
            SELECT r.id, r.created_at FROM profiling_profilingrun r
            WHERE r.project_id = p.id
              AND (r.state = 'queued' OR (r.state = 'running'
                   AND r.claimed_until < clock_timestamp() AND r.attempts < %(attempts)s))
              AND NOT EXISTS (  -- agents profile copies of commands
                SELECT FROM workloads_application x
                WHERE x.id = r.application_id AND x.runs_commands)
              AND NOT EXISTS (
                SELECT FROM operations_operation o
                WHERE o.id = r.operation_id AND (o.cancel_requested OR o.status = 'cancelled'))
            ORDER BY r.created_at, r.id LIMIT %(limit)s FOR UPDATE OF r SKIP LOCKED) next
        ORDER BY row_number() OVER (PARTITION BY p.id ORDER BY next.created_at, next.id),
            next.created_at, next.id
        LIMIT %(limit)s))
    RETURNING id, application_id, plan, seed, attempts)
SELECT c.id, a.name, a.kind, c.plan, c.seed, c.attempts FROM claimed c
JOIN workloads_application a ON a.id = c.application_id ORDER BY c.id
"""  # noqa: S608 - constants


class ClaimedRun(NamedTuple):
    """A profiling run that a backend has claimed; ``attempt`` counts from 1."""

    id: UUID
    application: str
    kind: str
    plan: Mapping[str, Any]
    seed: int
    attempt: int


def shift_claims(back_s: float) -> None:
    """Move the claims that were stored before the wall clock was set back by ``back_s``."""
    shift_leases("profiling_profilingrun", "claimed_until", back_s)


def claim_runs(worker: str, *, limit: int, lease_s: float, at_s: float) -> list[ClaimedRun]:
    """Claim queued runs, and runs whose lease has expired, for one process.

    The projects take turns; inside a project, older runs come first.

    Parameters
    ----------
    lease_s : wall seconds until the claims expire
    at_s : cluster time of the claim
    """
    with transaction.atomic():
        values = {"worker": worker, "lease_s": lease_s, "at_s": at_s, "limit": limit}
        rows = fetch_rows(_CLAIM_RUNS, {**values, "attempts": MAX_ATTEMPTS})
        runs = [ClaimedRun(*row)._replace(plan=json.loads(row[3])) for row in rows]
        record_begun([run.id for run in runs])
    return runs


def renew_claims(run_ids: Collection[UUID], *, worker: str, lease_s: float) -> None:
    """Extend the leases of the runs that a process is working on."""
    with connection.cursor() as cursor:
        cursor.execute(
            """UPDATE profiling_profilingrun
               SET claimed_until = clock_timestamp() + make_interval(secs => %s)
               WHERE state = 'running' AND claimed_by = %s AND id = ANY(%s)""",
            [lease_s, worker, list(run_ids)],
        )


def record_begun(run_ids: Sequence[UUID]) -> None:
    """Record that a backend has started the runs it claimed; call it last in the transaction."""
    changes = [
        OperationChange(
            operation_id,
            OperationStatus.RUNNING,
            f"attempt {attempts}: setting up copies of {name}",
            progress=0,
        )
        for _, operation_id, attempts, name in _running(run_ids)
    ]
    record_events(mirror_operations(changes))


def record_progress(steps: Mapping[UUID, ProfilingStep]) -> None:
    """Record the progress of running runs; in a constant number of statements."""
    with transaction.atomic():
        changes = [
            OperationChange(
                operation_id,
                OperationStatus.RUNNING,
                steps[run_id].message,
                progress=steps[run_id].done,
                total=steps[run_id].total,
            )
            for run_id, operation_id, _, _ in _running(list(steps))
        ]
        record_events(mirror_operations(changes))


def _running(run_ids: Sequence[UUID]) -> list[tuple[UUID, UUID, int, str]]:
    """Id, operation, attempt and application of the running runs that have an operation."""
    rows = ProfilingRun.objects.filter(
        id__in=run_ids, state=RunState.RUNNING, operation__isnull=False
    )
    return list(rows.values_list("id", "operation_id", "attempts", "application__name"))
