"""Starts and ends of launches, as backends report them.

All functions run in the caller's transaction, which holds what fences the backend's process.
"""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from apps.common.infrastructure.database import (
    fetch_rows,
    number_array,
    text_array,
    without_index,
)
from apps.execution.core.migration import TO_RESTART
from apps.execution.core.port import EndReport, Outcome
from apps.execution.services.locks import lock_launches
from apps.workloads import services as workloads
from apps.workloads.core.lifecycle import JobState
from apps.workloads.core.reasons import Reason

_STATE_OF: Final = {
    Outcome.FINISHED.value: (JobState.SUCCEEDED, Reason.SUCCEEDED),
    Outcome.CANCELLED.value: (JobState.CANCELLED, Reason.CANCELLED),
    Outcome.FAILED.value: (JobState.FAILED, Reason.JOB_FAILED),
}
_START: Final = f"""
UPDATE execution_launch l
SET state = 'running', started_s = d.at, claimed_by = %s,
    claimed_until = clock_timestamp() + make_interval(secs => %s)
FROM unnest(%s::bigint[], %s::float8[]) AS d(id, at)
WHERE l.id = d.id AND {without_index("l.state = 'requested'")}
RETURNING l.job_id, l.started_s
"""  # noqa: S608 - a constant
# outcomes of launches that were stopped, but not their jobs: `MOVED` to restart elsewhere
PREEMPTED: Final = "preempted"
MOVED: Final = "moved"
_END: Final = f"""
UPDATE execution_launch l
-- start and end are dated by two readings of the clock: within the same second, they may swap
SET state = 'ended', ended_s = greatest(d.at, coalesce(l.started_s, d.at)),
    outcome = CASE WHEN d.outcome <> 'cancelled' OR NOT l.cancel_requested OR j.cancel_requested
                   THEN d.outcome
                   WHEN l.message = '{TO_RESTART}' THEN '{MOVED}' ELSE '{PREEMPTED}' END,
    message = left(coalesce(nullif(d.message, ''), l.message), 500),
    claimed_until = NULL
FROM unnest(%s::bigint[], %s::float8[], %s::text[], %s::text[], %s::int[])
     AS d(id, at, outcome, message, exit_code), workloads_job j
WHERE l.id = d.id AND {without_index("l.state <> 'ended'")} AND j.id = l.job_id
RETURNING l.job_id, l.ended_s, l.outcome, l.message, j.target, j.submitted_s, d.exit_code
"""  # noqa: S608 - constants


def record_launches(
    started: Mapping[int, float],
    ended: Collection[EndReport],
    *,
    worker: str,
    lease_s: float,
    release_jobs: Callable[[Sequence[UUID]], None],
) -> None:
    """Record starts, as `record_started`, then ends, as `record_ended`, in one transaction."""
    lock_launches(sorted({*started, *(report.launch for report in ended)}))
    begun = _start(started, worker=worker, lease_s=lease_s) if started else {}
    over = _end(ended) if ended else []
    workloads.lock_jobs({*begun, *(row[0] for row in over)})
    moved = workloads.start_running(begun) if begun else []
    if over:
        moved += _end_jobs(over, release_jobs)
    workloads.record_transitions(moved)


def record_started(launches: Mapping[int, float], *, worker: str, lease_s: float) -> None:
    """Record the cluster times at which launches started.

    Parameters
    ----------
    lease_s : wall seconds until which the worker must have renewed its leases
    """
    lock_launches(sorted(launches))
    begun = _start(launches, worker=worker, lease_s=lease_s)
    workloads.record_transitions(workloads.start_running(begun))


def _start(launches: Mapping[int, float], *, worker: str, lease_s: float) -> dict[UUID, float]:
    """Start locked launches that are requested; returns the starts of their jobs."""
    times = number_array(launches.values())
    return dict(fetch_rows(_START, [worker, lease_s, number_array(launches), times]))


def record_ended(
    reports: Collection[EndReport], *, release_jobs: Callable[[Sequence[UUID]], None]
) -> None:
    """Record the ends of launches; ends their jobs and releases their units.

    Jobs whose launch was preempted are queued again, and so are those that were to restart on a
    server that went down.
    """
    lock_launches(sorted(report.launch for report in reports))
    over = _end(reports)
    workloads.lock_jobs([row[0] for row in over])
    workloads.record_transitions(_end_jobs(over, release_jobs))


def _end(rows: Collection[EndReport]) -> list[tuple[Any, ...]]:
    """End locked launches; returns the rows of those that had not ended."""
    return fetch_rows(
        _END,
        [
            number_array(row.launch for row in rows),
            number_array(row.at_s for row in rows),
            text_array(row.outcome for row in rows),
            text_array(row.message for row in rows),
            text_array(None if row.exit_code is None else str(row.exit_code) for row in rows),
        ],
    )


def _end_jobs(
    changed: Sequence[tuple[Any, ...]], release_jobs: Callable[[Sequence[UUID]], None]
) -> list[tuple[Any, ...]]:
    """End, or queue again, the locked jobs of ended launches; returns their event rows."""
    stranded = [row[0] for row in changed if row[2] == MOVED]
    preempted = [row[0] for row in changed if row[2] == PREEMPTED]
    moved = workloads.end_jobs([_job_end(row) for row in changed if row[2] in _STATE_OF])
    if preempted:
        message = "its units were given to a job of higher priority"
        moved += workloads.requeue_lost(preempted, reason=Reason.PREEMPTED, message=message)
    if stranded:
        message = "the server on which it was to restart went down"
        moved += workloads.requeue_lost(stranded, reason=Reason.BACKEND_LOST, message=message)
    release_jobs([row[0] for row in changed])
    return moved


def _job_end(row: tuple[Any, ...]) -> workloads.JobEnd:
    """End of a job, from a row of its ended launch."""
    job, at_s, outcome, message, target, submitted_s, exit_code = row
    state, reason = _STATE_OF[outcome]
    target = json.loads(target)
    in_time = None
    if state is JobState.SUCCEEDED and target["kind"] == "completion_time":
        in_time = float(target["seconds"]) / max(1e-9, at_s - submitted_s)
    return workloads.JobEnd(job, state, at_s, reason, message, in_time, exit_code)
