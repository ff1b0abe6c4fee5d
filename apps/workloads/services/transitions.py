"""Conditional changes of the state of jobs."""

from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

from apps.common.infrastructure.database import fetch_rows, without_index
from apps.inventory.selectors import cluster_now
from apps.workloads.core.lifecycle import TERMINAL_STATES, JobState, states_before
from apps.workloads.core.reasons import Reason
from apps.workloads.services.arrays import ARRAY_OF_JOB, release_after
from apps.workloads.services.rows import lock_jobs


def advance(
    job_ids: Sequence[UUID],
    *,
    to: JobState,
    reason: Reason,
    only_from: Iterable[JobState],
    message: str = "",
    claimed_by: str | None = None,
) -> list[tuple[Any, ...]]:
    """Change the state of jobs whose current state allows it; returns their event rows.

    Parameters
    ----------
    only_from : states to change from, restricted further by the lifecycle
    claimed_by : change only jobs claimed by this agent; None or empty = any agent
    """
    allowed = [state.value for state in set(only_from) & states_before(to)]
    lock_jobs(job_ids)
    rows = fetch_rows(
        f"""UPDATE workloads_job
           SET state = %(to)s, reason_code = %(reason)s, reason_message = left(%(message)s, 500),
               reason_also = '[]', updated_at = now(), claimed_by = '', claimed_until = NULL,
               shape_id = NULL, generation = generation + 1, suspension = '', suspended_s = NULL,
               suspended_for_s = suspended_for_s
                   + greatest(0.0, coalesce(%(end_s)s::float8 - suspended_s, 0.0)),
               finished_s = coalesce(%(end_s)s::float8, finished_s),
               finished_at = CASE WHEN %(end_s)s::float8 IS NULL THEN finished_at ELSE now() END
           WHERE id = ANY(%(ids)s) AND {without_index("state = ANY(%(allowed)s)")}
             AND (%(agent)s::text IS NULL OR claimed_by = %(agent)s)
           RETURNING id, name, project_id, state, {ARRAY_OF_JOB.format(job="")}""",  # noqa: S608
        {
            "to": to,
            "reason": reason,
            "message": message,
            "end_s": cluster_now() if to in TERMINAL_STATES else None,
            "ids": sorted(job_ids),
            "allowed": allowed,
            "agent": claimed_by or None,
        },
    )
    return release_after(rows) if to in TERMINAL_STATES else [row[:-1] for row in rows]
