"""Suspension of running jobs: what users request, and what backends report.

All functions run in the caller's transaction, which has locked the launches of the jobs.
"""

from collections.abc import Collection, Mapping
from typing import Final
from uuid import UUID

from apps.common.infrastructure.database import fetch_rows, without_index
from apps.operations.services import record_events
from apps.workloads.core.lifecycle import Suspension
from apps.workloads.models import Job
from apps.workloads.services.rows import job_event, lock_jobs, row_event

_SUSPENDED: Final = f"""
UPDATE workloads_job AS j
SET suspension = 'suspended', suspended_s = coalesce(j.suspended_s, d.at), updated_at = now(),
    generation = j.generation + 1
FROM unnest(%s::uuid[], %s::float8[]) AS d(id, at)
WHERE j.id = d.id AND {without_index("j.state = 'running'")} AND j.suspension = ANY(%s)
RETURNING j.id, j.name, j.project_id, j.state
"""  # noqa: S608 - a constant
_RESUMED: Final = f"""
UPDATE workloads_job AS j
SET suspension = '', suspended_s = NULL, updated_at = now(), generation = j.generation + 1,
    suspended_for_s = j.suspended_for_s
                      + greatest(0.0, coalesce(d.at - j.suspended_s, 0.0))
FROM unnest(%s::uuid[], %s::float8[]) AS d(id, at)
WHERE j.id = d.id AND {without_index("j.state = 'running'")} AND j.suspension = ANY(%s)
RETURNING j.id, j.name, j.project_id, j.state
"""  # noqa: S608 - a constant


def request_suspension(job: Job, to: Suspension, *, request_id: str = "") -> None:
    """Let the backend of a locked, running job suspend or resume it."""
    job.suspension = to
    job.generation += 1
    job.save(update_fields=["suspension", "generation", "updated_at"])
    kind = "job.suspend_requested" if to is Suspension.REQUESTED else "job.resume_requested"
    record_events([job_event(kind, job, job.state, request_id)])


def record_suspended(
    suspended: Mapping[UUID, float],
    resumed: Mapping[UUID, float],
    *,
    only_from: Mapping[bool, Collection[Suspension]],
) -> None:
    """Record the cluster seconds at which processes of jobs were stopped, and continued.

    Parameters
    ----------
    only_from : suspensions that change, of stopped (True) and continued jobs; the others have
        changed meanwhile
    """
    lock_jobs([*suspended, *resumed])
    rows = [
        row_event(kind, row)
        for kind, sql, jobs, is_suspended in (
            ("job.suspended", _SUSPENDED, suspended, True),
            ("job.resumed", _RESUMED, resumed, False),
        )
        for row in fetch_rows(sql, [*_columns(jobs), list(only_from[is_suspended])])
    ]
    record_events(rows)


def _columns(jobs: Mapping[UUID, float]) -> tuple[list[UUID], list[float]]:
    ids = sorted(jobs)
    return ids, [jobs[job] for job in ids]
