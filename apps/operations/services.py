"""Writes of events, idempotency keys and long-running operations."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from django.conf import settings
from django.db import connection, transaction
from django.utils import timezone

from apps.common.core.errors import ConflictError, NotFoundError
from apps.common.core.ids import uuid7
from apps.common.request_id import current_request_id
from apps.operations.core.keys import KeyedAnswer, KeyedRequest
from apps.operations.core.states import TERMINAL, OperationStatus, Topic
from apps.operations.models import Event, IdempotencyKey, Operation

_EVENT_LOCK: Final = 7102  # advisory lock of the event log; common.db.Log holds 7101
LEASE: Final = timedelta(seconds=30)
MOST_ATTEMPTS: Final = 3  # work that kills its worker must not do so for ever


class LostError(RuntimeError):
    """Another worker has taken the operation over, or will."""


@dataclass(frozen=True, slots=True)
class NewEvent:
    """Something that just happened.

    Attributes
    ----------
    topic : one of `Topic`
    kind : e.g. "job.updated"
    subject : id of the object it is about
    data : what changed, compact, plain JSON
    project_id : whose it is; None = every signed-in user may see it
    request_id : the correlation id; empty = that of the request being served
    """

    topic: str
    kind: str
    subject: str
    data: Mapping[str, Any] = field(default_factory=dict)
    project_id: UUID | None = None
    request_id: str = ""


# The lock is taken before the first number is drawn and held until commit, so numbers become
# visible in order.
_INSERT_EVENTS = f"""
WITH turn AS MATERIALIZED (SELECT pg_advisory_xact_lock({_EVENT_LOCK}))
INSERT INTO operations_event (at, topic, kind, subject, project_id, request_id, data)
SELECT %s, topic, kind, subject, project_id, request_id, data::jsonb
FROM turn, unnest(%s::text[], %s::text[], %s::text[], %s::uuid[], %s::text[], %s::text[])
     WITH ORDINALITY AS new(topic, kind, subject, project_id, request_id, data, place)
ORDER BY place
"""  # noqa: S608 - no input is interpolated


def record_events(events: Sequence[NewEvent], *, at: datetime | None = None) -> None:
    """Append events in one statement.

    Call it inside the transaction of the change, as its last step. The event log's lock is held
    from here to commit: whatever comes after this call delays every other writer.
    """
    if not events:
        return
    request_id = current_request_id()
    with connection.cursor() as cursor:
        cursor.execute(
            _INSERT_EVENTS,
            [
                at or timezone.now(),
                [str(event.topic) for event in events],
                [event.kind for event in events],
                [event.subject for event in events],
                [event.project_id for event in events],
                [event.request_id or request_id for event in events],
                [json.dumps(event.data, separators=(",", ":")) for event in events],
            ],
        )


def prune_events(*, before: datetime) -> int:
    """Delete events of finished history; returns how many."""
    return Event.objects.filter(at__lt=before).delete()[0]


def prune_keys(*, before: datetime) -> int:
    """Forget answers to keyed requests; returns how many."""
    return IdempotencyKey.objects.filter(created_at__lt=before).delete()[0]


def prune() -> tuple[int, int]:
    """Delete what is older than the settings keep; returns (events, keys)."""
    now = timezone.now()
    return (
        prune_events(before=now - timedelta(days=settings.BERTH_EVENT_DAYS)),
        prune_keys(before=now - timedelta(hours=settings.BERTH_IDEMPOTENCY_HOURS)),
    )


_INSERT_KEY = """
INSERT INTO operations_idempotencykey
    (id, principal_id, route, key, body_digest, status, location, response, created_at)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s::jsonb, now())
ON CONFLICT (principal_id, route, key) DO NOTHING
"""


def keep_answer(request: KeyedRequest, answer: KeyedAnswer) -> bool:
    """Store the answer in the transaction that made its object; False where another was first.

    Waits for a concurrent transaction with the same key to end. On False the caller must roll back
    and give the stored answer instead.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            _INSERT_KEY,
            [
                uuid7(),
                request.principal_id,
                request.route,
                request.key,
                request.body_digest,
                answer.status,
                answer.location,
                json.dumps(answer.response),
            ],
        )
        return cursor.rowcount == 1


_INSERT_KEYS = """
INSERT INTO operations_idempotencykey
    (id, principal_id, route, key, body_digest, status, location, response, created_at)
SELECT *, now() FROM unnest(%s::uuid[], %s::uuid[], %s::text[], %s::text[], %s::bytea[], %s::int[],
                            %s::text[], %s::jsonb[])
ON CONFLICT (principal_id, route, key) DO NOTHING
"""


def keep_answers(answers: Sequence[tuple[KeyedRequest, KeyedAnswer]]) -> int:
    """Store many answers, in order of their keys; returns the number of new ones."""
    if not answers:
        return 0
    rows = sorted(answers, key=lambda pair: pair[0].key)
    with connection.cursor() as cursor:
        cursor.execute(
            _INSERT_KEYS,
            [
                [uuid7() for _ in rows],
                [request.principal_id for request, _ in rows],
                [request.route for request, _ in rows],
                [request.key for request, _ in rows],
                [request.body_digest for request, _ in rows],
                [answer.status for _, answer in rows],
                [answer.location for _, answer in rows],
                [json.dumps(answer.response) for _, answer in rows],
            ],
        )
        return cursor.rowcount


def begin_operation(
    *,
    kind: str,
    created_by: UUID | None,
    project_id: UUID | None = None,
    total: int | None = None,
    arguments: Mapping[str, Any] | None = None,
) -> Operation:
    """Write down long work that somebody is about to do."""
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


def claim_operation(operation_id: UUID) -> Operation | None:
    """Start working on an operation; None where somebody else does or it has ended.

    Its ``arguments["attempt"]`` counts how often that was done: see `owned_operation`.
    """
    with transaction.atomic():
        waiting = Operation.objects.select_for_update(skip_locked=True)
        operation = waiting.filter(pk=operation_id, status=OperationStatus.PENDING).first()
        if operation is None:
            return None
        operation.status = OperationStatus.RUNNING
        operation.arguments["attempt"] = int(operation.arguments.get("attempt", 0)) + 1
        operation.lease_until = timezone.now() + LEASE
        operation.save(update_fields=["status", "arguments", "lease_until", "updated_at"])
    return operation


def owned_operation(claimed: Operation) -> Operation:
    """Lock an operation that this process works on, to write what came of it.

    Parameters
    ----------
    claimed : as `claim_operation` returned it

    Raises
    ------
    LostError : it was silent for too long, and another works on it, or will, or it has ended.
    """
    found = Operation.objects.select_for_update().get(pk=claimed.pk)
    is_same = found.arguments.get("attempt") == claimed.arguments["attempt"]
    if found.status != OperationStatus.RUNNING or not is_same:
        raise LostError(f"operation {claimed.pk} belongs to another worker")
    return found


def advance_operation(claimed: Operation, *, progress: int, message: str = "") -> bool:
    """Report progress and prolong the lease; False where somebody wants the work to stop.

    Raises
    ------
    LostError : see `owned_operation`.
    """
    with transaction.atomic():
        operation = owned_operation(claimed)
        operation.progress, operation.message = progress, message
        operation.lease_until = timezone.now() + LEASE
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
    ConflictError : it has ended already, or ``status`` is not an end.
    """
    if status not in TERMINAL:
        raise ConflictError(f"{status} does not end an operation")
    with transaction.atomic():
        operation = Operation.objects.select_for_update().get(pk=operation_id)
        if operation.status in TERMINAL:
            raise ConflictError(f"the operation is {operation.status} already")
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
    """End an operation that this process works on.

    Raises
    ------
    LostError : see `owned_operation`.
    """
    with transaction.atomic():
        owned_operation(claimed)
        return finish_operation(claimed.pk, status=status, result=result, problem=problem)


def cancel_operation(operation_id: UUID) -> Operation:
    """Ask an operation to stop; one that nobody has started ends at once.

    Raises
    ------
    NotFoundError : no such operation.
    ConflictError : it has ended.
    """
    with transaction.atomic():
        operation = Operation.objects.select_for_update().filter(pk=operation_id).first()
        if operation is None:
            raise NotFoundError(f"There is no operation {operation_id}.")
        if operation.status in TERMINAL:
            raise ConflictError(f"The operation is {operation.status} already.")
        operation.cancel_requested = True
        operation.generation += 1
        if operation.status == OperationStatus.PENDING:
            operation.status = OperationStatus.CANCELLED
            operation.finished_at = timezone.now()
        operation.save()
        record_events([_event(operation, "operation.updated")])
    return operation


def release_expired_operations() -> int:
    """Give back operations whose worker went silent; returns how many."""
    with transaction.atomic():
        expired = Operation.objects.select_for_update(skip_locked=True).filter(
            status=OperationStatus.RUNNING, lease_until__lt=timezone.now()
        )
        ids = [operation.pk for operation in expired.only("pk")]
        return Operation.objects.filter(pk__in=ids).update(
            status=OperationStatus.PENDING, lease_until=None
        )


@dataclass(frozen=True, slots=True)
class OperationChange:
    """How the work an operation stands for is now; None leaves a field as it is.

    Attributes
    ----------
    progress, total : steps done, and in all
    result : of a success
    problem : of a failure
    """

    operation_id: UUID
    status: OperationStatus
    message: str
    progress: int | None = None
    total: int | None = None
    result: Mapping[str, Any] | None = None
    problem: Mapping[str, Any] | None = None


_FOLLOW: Final = """
WITH new AS MATERIALIZED (
    SELECT * FROM unnest(%s::uuid[], %s::text[], %s::text[], %s::int[], %s::int[], %s::text[],
                         %s::text[])
        AS d(id, status, message, progress, total, result, problem)),
held AS MATERIALIZED (
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
    generation = o.generation + (held.status <> d.status)::int
FROM new d JOIN held ON held.id = d.id
WHERE o.id = d.id
RETURNING o.id
"""


def follow_operations(changes: Sequence[OperationChange]) -> list[NewEvent]:
    """Let operations follow work that has a row of its own; those that have ended stay ended.

    That row leads: it is locked before, it holds the lease, and whoever works on it looks whether
    its operation is to be cancelled. In the caller's transaction, which records the events
    returned, last.
    """
    if not changes:
        return []
    with connection.cursor() as cursor:
        cursor.execute(
            _FOLLOW,
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
        moved = [row[0] for row in cursor.fetchall()]
    rows = Operation.objects.filter(pk__in=moved).order_by("pk")
    return [
        _event(row, "operation.finished" if row.status in TERMINAL else "operation.progress")
        for row in rows
    ]


def operation_created(operation: Operation) -> NewEvent:
    """Make the event of an operation written by its caller, to be recorded last."""
    return _event(operation, "operation.created")


def _json(value: Mapping[str, Any] | None) -> str | None:
    return None if value is None else json.dumps(value)


def _event(operation: Operation, kind: str) -> NewEvent:
    return NewEvent(
        topic=Topic.OPERATIONS,
        kind=kind,
        subject=str(operation.pk),
        project_id=operation.project_id,
        data={
            "kind": operation.kind,
            "status": operation.status,
            "progress": operation.progress,
            "total": operation.total,
            "message": operation.message,
        },
    )
