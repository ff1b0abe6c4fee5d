"""Writes of long-running operations."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from django.db import connection, transaction
from django.db.models.functions import Now
from django.utils import timezone

from apps.common.core.errors import ConflictError, NotFoundError
from apps.common.infrastructure.database import database_now, insert_prepared
from apps.common.infrastructure.request_id import current_request_id
from apps.operations.core.states import TERMINAL, OperationStatus, Topic
from apps.operations.models import Operation
from apps.operations.services.events import NewEvent, record_events

LEASE: Final = timedelta(seconds=30)
MAX_ATTEMPTS: Final = 3  # an operation that kills its worker is not retried for ever


class OperationLostError(RuntimeError):
    """The lease expired, and another worker has taken the operation over or will."""


def begin_operation(
    *,
    kind: str,
    created_by: UUID | None,
    project_id: UUID | None = None,
    total: int | None = None,
    arguments: Mapping[str, Any] | None = None,
) -> Operation:
    """Create a pending operation."""
    with transaction.atomic():
        operation = Operation.objects.create(
            kind=kind,
            created_by_id=created_by,
            project_id=project_id,
            total=total,
            arguments=dict(arguments or {}),
            request_id=current_request_id(),
        )
        record_events([_event(operation, "operation.created")])
    return operation


def completed_operation(
    *,
    kind: str,
    created_by: UUID | None,
    project_id: UUID | None,
    total: int,
    result: Mapping[str, Any],
) -> tuple[Operation, list[NewEvent]]:
    """Store an operation that succeeds with the caller's transaction.

    Returns
    -------
    (the operation, its events, which the caller records with its own as the last step)
    """
    operation = Operation(
        kind=kind,
        status=OperationStatus.SUCCEEDED,
        created_by_id=created_by,
        project_id=project_id,
        progress=total,
        total=total,
        result=dict(result),
        request_id=current_request_id(),
        finished_at=timezone.now(),
        generation=2,  # as if it had been created and then ended
    )
    insert_prepared(operation)
    return operation, [_event(operation, f"operation.{step}") for step in ("created", "finished")]


def claim_operation(operation_id: UUID) -> Operation | None:
    """Claim a pending operation; None if another worker has claimed it or it has ended.

    ``arguments["attempt"]`` counts the claims; see `owned_operation`.
    """
    with transaction.atomic():
        waiting = Operation.objects.select_for_update(skip_locked=True)
        operation = waiting.filter(pk=operation_id, status=OperationStatus.PENDING).first()
        if operation is None:
            return None
        operation.status = OperationStatus.RUNNING
        operation.arguments["attempt"] = int(operation.arguments.get("attempt", 0)) + 1
        operation.lease_until = database_now() + LEASE
        operation.save(update_fields=["status", "arguments", "lease_until", "updated_at"])
    return operation


def why_given_up(claimed: Operation) -> str:
    """Return why a claimed operation is not tried again; empty if it is."""
    if claimed.arguments["attempt"] <= MAX_ATTEMPTS:
        return ""
    return f"The worker died {MAX_ATTEMPTS} times."


def owned_operation(claimed: Operation) -> Operation:
    """Lock an operation that this process has claimed, to write its outcome.

    Parameters
    ----------
    claimed : the result of `claim_operation`

    Raises
    ------
    OperationLostError : the lease expired, so another worker owns the operation or will; or the
        operation has ended.
    """
    operation = Operation.objects.select_for_update().get(pk=claimed.pk)
    is_same = operation.arguments.get("attempt") == claimed.arguments["attempt"]
    if operation.status != OperationStatus.RUNNING or not is_same:
        raise OperationLostError(f"operation {claimed.pk} belongs to another worker")
    return operation


def advance_operation(claimed: Operation, *, progress: int, message: str = "") -> bool:
    """Report progress and renew the lease; False if a cancellation was requested.

    Raises
    ------
    OperationLostError : see `owned_operation`.
    """
    with transaction.atomic():
        operation = owned_operation(claimed)
        operation.progress, operation.message = progress, message
        operation.lease_until = database_now() + LEASE
        operation.save(update_fields=["progress", "message", "lease_until", "updated_at"])
        record_events([_event(operation, "operation.progress")])
    return not operation.cancel_requested


def finish_operation(
    operation_id: UUID,
    *,
    status: OperationStatus,
    result: Mapping[str, Any] | None = None,
    problem: Mapping[str, Any] | None = None,
) -> Operation:
    """End an operation.

    Raises
    ------
    ConflictError : the operation has ended, or ``status`` is not terminal.
    """
    if status not in TERMINAL:
        raise ConflictError(f"{status} does not end an operation")
    with transaction.atomic():
        operation = Operation.objects.select_for_update().get(pk=operation_id)
        if operation.status in TERMINAL:
            raise ConflictError(f"the operation is already {operation.status}")
        operation.status = status
        operation.result = dict(result) if result is not None else None
        operation.problem = dict(problem) if problem is not None else None
        operation.lease_until = None
        operation.finished_at = timezone.now()
        operation.generation += 1
        if status is OperationStatus.SUCCEEDED and operation.total is not None:
            operation.progress = operation.total
        operation.save()
        record_events([_event(operation, "operation.finished")])
    return operation


def finish_owned(
    claimed: Operation,
    *,
    status: OperationStatus,
    result: Mapping[str, Any] | None = None,
    problem: Mapping[str, Any] | None = None,
) -> Operation:
    """End an operation that this process has claimed.

    Raises
    ------
    OperationLostError : see `owned_operation`.
    """
    with transaction.atomic():
        owned_operation(claimed)
        return finish_operation(claimed.pk, status=status, result=result, problem=problem)


def cancel_operation(operation_id: UUID) -> Operation:
    """Request the cancellation of an operation; a pending one ends at once.

    Raises
    ------
    NotFoundError : there is no such operation.
    ConflictError : the operation has ended.
    """
    with transaction.atomic():
        operation = Operation.objects.select_for_update().filter(pk=operation_id).first()
        if operation is None:
            raise NotFoundError(f"There is no operation {operation_id}.")
        if operation.status in TERMINAL:
            raise ConflictError(f"The operation is already {operation.status}.")
        operation.cancel_requested = True
        operation.generation += 1
        if operation.status == OperationStatus.PENDING:
            operation.status = OperationStatus.CANCELLED
            operation.finished_at = timezone.now()
        operation.save()
        record_events([_event(operation, "operation.updated")])
    return operation


def release_expired_operations() -> int:
    """Requeue operations with an expired lease; returns their number."""
    with transaction.atomic():
        expired = Operation.objects.select_for_update(skip_locked=True).filter(
            status=OperationStatus.RUNNING, lease_until__lt=Now()
        )
        ids = [operation.pk for operation in expired.only("pk")]
        return Operation.objects.filter(pk__in=ids).update(
            status=OperationStatus.PENDING, lease_until=None
        )


@dataclass(frozen=True, slots=True)
class OperationChange:
    """The state of the work behind an operation; None leaves a field unchanged.

    Attributes
    ----------
    progress, total : steps done, and all steps
    result : of a successful operation
    problem : of a failed operation
    """

    operation_id: UUID
    status: OperationStatus
    message: str
    progress: int | None = None
    total: int | None = None
    result: Mapping[str, Any] | None = None
    problem: Mapping[str, Any] | None = None


_MIRROR: Final = """
WITH new AS MATERIALIZED (
    SELECT * FROM unnest(%s::uuid[], %s::text[], %s::text[], %s::int[], %s::int[], %s::text[],
                         %s::text[])
        AS d(id, status, message, progress, total, result, problem)),
locked AS MATERIALIZED (
    SELECT o.id, o.status FROM operations_operation o
    WHERE o.id IN (SELECT id FROM new) AND o.status IN ('pending', 'running')
    ORDER BY o.id FOR UPDATE)
UPDATE operations_operation o
SET status = d.status, message = d.message,
    progress = CASE WHEN d.status = 'succeeded' THEN coalesce(d.total, o.total, o.progress)
                    ELSE coalesce(d.progress, o.progress) END,
    total = coalesce(d.total, o.total), result = coalesce(d.result::jsonb, o.result),
    problem = coalesce(d.problem::jsonb, o.problem), lease_until = NULL, updated_at = now(),
    finished_at = CASE WHEN d.status IN ('succeeded', 'failed', 'cancelled') THEN now() END,
    generation = o.generation + (locked.status <> d.status)::int
FROM new d JOIN locked ON locked.id = d.id
WHERE o.id = d.id
RETURNING o.id
"""


def mirror_operations(changes: Sequence[OperationChange]) -> list[NewEvent]:
    """Copy the state of work that has its own row to its operations; ended ones do not change.

    The work's own row is the master copy: it is locked first, it holds the lease, and its worker
    checks the operation for a requested cancellation. Runs in the caller's transaction, which
    records the returned events last.
    """
    if not changes:
        return []
    with connection.cursor() as cursor:
        cursor.execute(
            _MIRROR,
            [
                [change.operation_id for change in changes],
                [str(change.status) for change in changes],
                [change.message for change in changes],
                [change.progress for change in changes],
                [change.total for change in changes],
                [_json(change.result) for change in changes],
                [_json(change.problem) for change in changes],
            ],
        )
        changed = [row[0] for row in cursor.fetchall()]
    rows = Operation.objects.filter(pk__in=changed).order_by("pk")
    return [
        _event(row, "operation.finished" if row.status in TERMINAL else "operation.progress")
        for row in rows
    ]


def operation_created(operation: Operation) -> NewEvent:
    """Return the event of an operation that the caller has created; record it last."""
    return _event(operation, "operation.created")


def _json(value: Mapping[str, Any] | None) -> str | None:
    return None if value is None else json.dumps(value)


def _event(operation: Operation, kind: str) -> NewEvent:
    return NewEvent(
        topic=Topic.OPERATIONS,
        kind=kind,
        subject=str(operation.pk),
        project_id=operation.project_id,
        user_id=operation.created_by_id,
        data={
            "kind": operation.kind,
            "status": operation.status,
            "progress": operation.progress,
            "total": operation.total,
            "message": operation.message,
        },
    )
