"""Reads of events, kept answers and operations."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.db.models import Max, Min, Q, QuerySet

from apps.accounts.core.principal import Principal
from apps.operations.core.keys import KeyedAnswer, KeyedRequest
from apps.operations.models import Event, IdempotencyKey, Operation


def visible_to(principal: Principal) -> Q:
    """Return the condition that a row's ``project_id`` is the caller's business."""
    if principal.sees_everything():
        return Q()
    return Q(project_id__isnull=True) | Q(project_id__in=list(principal.projects))


def events(principal: Principal) -> QuerySet[Event]:
    """Return the events a caller may see."""
    return Event.objects.filter(visible_to(principal))


def events_after(seq: int, *, limit: int) -> Sequence[Event]:
    """Return everybody's events after ``seq`` in order; none ever comes before a returned one."""
    return list(Event.objects.filter(seq__gt=seq).order_by("seq")[:limit])


def event_bounds() -> tuple[int, int]:
    """Return the lowest and highest number of the log, (0, 0) where it is empty."""
    bounds = Event.objects.aggregate(low=Min("seq"), high=Max("seq"))
    return bounds["low"] or 0, bounds["high"] or 0


def operations(principal: Principal) -> QuerySet[Operation]:
    """Return the operations a caller may see: the own ones and those of the own projects."""
    if principal.sees_everything():
        return Operation.objects.all()
    return Operation.objects.filter(
        Q(created_by_id=principal.user_id) | Q(project_id__in=list(principal.projects))
    )


def operation(principal: Principal, operation_id: UUID) -> Operation | None:
    """Return one operation, None where there is none the caller may see."""
    return operations(principal).filter(pk=operation_id).first()


def kept_answer(request: KeyedRequest) -> tuple[KeyedAnswer, bool] | None:
    """Return the answer given to a key before, and whether the body was the same; else None."""
    row = IdempotencyKey.objects.filter(
        principal_id=request.principal_id, route=request.route, key=request.key
    ).first()
    if row is None:
        return None
    answer = KeyedAnswer(status=row.status, location=row.location, response=row.response)
    return answer, bytes(row.body_digest) == request.body_digest


def kept_answers(
    principal_id: UUID, route: str, keys: Sequence[str]
) -> dict[str, tuple[Any, bytes]]:
    """Return (response, body digest) of those of many keys that were used before."""
    if not keys:
        return {}
    rows = IdempotencyKey.objects.filter(
        principal_id=principal_id, route=route, key__in=keys
    ).values_list("key", "response", "body_digest")
    return {key: (response, bytes(digest)) for key, response, digest in rows}
