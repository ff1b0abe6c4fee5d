"""Changes of jobs by users: cancel, hold, update, delete."""

from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from django.db import transaction

from apps.common.core.errors import ConflictError
from apps.common.core.preconditions import require_generation
from apps.common.infrastructure.database import fetch_rows, without_index
from apps.common.infrastructure.locks import lock_for_deletion
from apps.common.infrastructure.notifications import wake
from apps.inventory.core.backends import MACHINES
from apps.operations.services import record_events
from apps.workloads.core.commands import require_target_of_command
from apps.workloads.core.constraints import Constraints
from apps.workloads.core.costs import require_known_cost
from apps.workloads.core.lifecycle import TERMINAL_STATES, WAITING_STATES, JobState
from apps.workloads.core.reasons import Reason
from apps.workloads.core.targets import Target
from apps.workloads.models import Job
from apps.workloads.services.arrays import lock_array, release_after
from apps.workloads.services.rows import job_event, lock_jobs, locked, row_event
from apps.workloads.services.shapes import evaluate_soon
from apps.workloads.services.transitions import advance


def cancel_jobs(job_ids: Sequence[UUID], *, request_id: str = "") -> int:
    """Cancel jobs: waiting jobs end at once, started jobs when their backend has stopped them.

    Ignores jobs that have ended. Returns the number of jobs that changed.
    """
    with transaction.atomic():
        lock_jobs(job_ids)  # started jobs too, before any job is changed
        waiting = advance(
            job_ids, to=JobState.CANCELLED, reason=Reason.CANCELLED, only_from=WAITING_STATES
        )
        running = fetch_rows(
            f"""UPDATE workloads_job SET cancel_requested = true, updated_at = now(),
                      generation = generation + 1
               WHERE id = ANY(%s) AND {_IS_STARTED} AND NOT cancel_requested
               RETURNING id, name, project_id, state""",  # noqa: S608 - a constant
            [list(job_ids)],
        )
        if running:
            wake(MACHINES)
        if waiting:  # jobs of other projects may borrow the units that they claimed
            evaluate_soon(Reason.QUOTA_EXCEEDED, lenders={row[2] for row in waiting})
        record_events(
            [row_event("job.cancelled", row, request_id) for row in waiting]
            + [row_event("job.cancel_requested", row, request_id) for row in running]
        )
    return len(waiting) + len(running)


def set_held(job_id: UUID, *, held: bool, request_id: str = "") -> Job:
    """Hold or release a waiting job.

    A released member of an array waits for earlier members if its array is at its limit; a held
    one lets the next member take its place.

    Raises
    ------
    ConflictError : the job is no longer waiting, or waits for earlier members of its array.
    """
    with transaction.atomic():
        job = locked(job_id)
        if job.state not in WAITING_STATES:
            msg = f"a {job.state} job cannot be held or released; only waiting jobs can"
            raise ConflictError(msg)
        waits_for_array = job.held and job.reason_code == Reason.WAITING_FOR_ARRAY
        if waits_for_array and not held:
            msg = "the job waits for earlier members of its array; raise the limit of the array"
            raise ConflictError(msg)
        if job.held != held or waits_for_array:
            _set_held(job, held=held, request_id=request_id)
    return job


def _set_held(job: Job, *, held: bool, request_id: str) -> None:
    """Hold or release a locked job; a member of an array is released by its array."""
    job.held = held or job.array_index is not None
    job.reason_code = Reason.HELD if held else _reason_of_unheld(job)
    if not held and job.array_index is not None:
        job.reason_code = Reason.WAITING_FOR_ARRAY
    job.reason_message = ""
    job.generation += 1
    _evaluate_again(job)
    job.save()
    if held:
        evaluate_soon(Reason.QUOTA_EXCEEDED, lenders=[job.project_id])
    if job.array_index is not None:
        release_after([(job.batch_id,)])
    if held or job.array_index is None:
        kind = "job.held" if held else "job.released"
        record_events([job_event(kind, job, job.state, request_id)])


def _reason_of_unheld(job: Job) -> Reason:
    is_profiled = job.state == JobState.PROFILING
    return Reason.WAITING_FOR_PROFILE if is_profiled else Reason.WAITING_FOR_AGENT


def cancel_array(array_id: UUID, *, request_id: str = "") -> tuple[int, int]:
    """Cancel the members of an array that have not ended; their number, and that of changed jobs.

    The array is locked, so no member is released meanwhile.
    """
    with transaction.atomic():
        members = lock_array(array_id)
        return len(members), cancel_jobs(members, request_id=request_id)


def update_job(job_id: UUID, changes: Mapping[str, Any], *, request_id: str = "") -> Job:
    """Change the target, priority, labels, name or annotations of a job.

    If it has all the values already, nothing happens.

    Parameters
    ----------
    changes : attributes of `JobSpec` with their new values, as `workloads.core.spec.parse_changes`
        reads them

    Raises
    ------
    ConflictError : the job has ended, or the attribute cannot change after submission.
    InvalidInputError : the job cannot have the target.
    """
    with transaction.atomic():
        job = locked(job_id)
        unchangeable = sorted(changes.keys() - _CHANGEABLE)
        if unchangeable:
            changeable = ", ".join(sorted(_CHANGEABLE))
            msg = (
                f"{', '.join(unchangeable)} cannot change after submission; only {changeable} can"
            )
            raise ConflictError(msg)
        if target := changes.get("target"):
            _require_target(job, target)
        if job.state in TERMINAL_STATES and changes.keys() - {"labels", "annotations", "name"}:
            msg = f"a {job.state} job has ended; only its name, labels and annotations can change"
            raise ConflictError(msg)
        columns = _columns(changes)
        changed = {name for name, value in columns.items() if getattr(job, name) != value}
        if not changed:
            return job
        for name in changed:
            setattr(job, name, columns[name])
        if changed & {"target", "target_kind", "priority"}:
            _evaluate_again(job)
        job.generation += 1
        job.save()
        record_events([job_event("job.updated", job, job.state, request_id)])
    return job


def _columns(changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of changes as the columns of a job."""
    columns = {
        name: dict(value) if isinstance(value, Mapping) else value
        for name, value in changes.items()
    }
    if target := changes.get("target"):
        columns |= {"target": target.as_json(), "target_kind": target.kind}
    return columns


def set_constraints(job_id: UUID, constraints: Constraints) -> bool:
    """Change where a waiting job may run, for its backend; False if it no longer waits."""
    with transaction.atomic():
        job = locked(job_id)
        if job.state not in WAITING_STATES:
            return False
        job.constraints = constraints.as_json()
        _evaluate_again(job)
        job.generation += 1
        job.save()
        record_events([job_event("job.updated", job, job.state)])
    return True


def _evaluate_again(job: Job) -> None:
    """Reject a pending decision on a job, and take it out of its shape.

    A job that is claimed by nobody stays so: until it is retried, or has been stopped
    (`services.growth.end_growth`).
    """
    if job.claimed_by:
        job.claimed_by, job.claimed_until = "", None
    job.shape = None


_IS_STARTED: Final = without_index("state IN ('starting', 'running')")
_CHANGEABLE: Final = {"target", "priority", "labels", "annotations", "name"}


def _require_target(job: Job, target: Target) -> None:
    """Check that a job can have a target, as its submission would.

    Raises
    ------
    InvalidInputError : it cannot.
    """
    if job.program is not None:
        require_target_of_command(target)
    if job.constraints.get("max_cost") is not None:
        require_known_cost(target, input_bytes=job.input_bytes, duration_s=job.duration_s)


def delete_job(job_id: UUID, *, expected: int | None = None) -> None:
    """Delete a job that has ended, with its history.

    Raises
    ------
    ChangedMeanwhileError : its generation is no longer ``expected``.
    ConflictError : the job has not ended.
    """
    with transaction.atomic():
        lock_for_deletion(Job, [job_id])
        job = locked(job_id)
        require_generation(expected, job.generation)
        if job.state not in TERMINAL_STATES:
            msg = f"a {job.state} job cannot be deleted; cancel it first"
            raise ConflictError(msg)
        event = job_event("job.deleted", job, job.state)
        job.delete()
        record_events([event])
