"""Reads of events, idempotency keys and operations."""

from collections.abc import Sequence
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import Max, Min, Q, QuerySet

from apps.accounts.core.principal import Principal
from apps.common.core.keyed_requests import KeyedRequest, KeyedResponse
from apps.common.infrastructure.log_numbers import Log, complete_up_to, last_drawn
from apps.operations.core.feed import is_visible
from apps.operations.core.states import Topic
from apps.operations.models import Event, IdempotencyKey, Operation, Retention


def visible_to(principal: Principal) -> Q:
    """Return the condition that the caller may see an event.

    An event of an operation is visible to those who may see the operation; see `operations`.
    """
    if principal.sees_everything():
        return Q()
    of_all = Q(project_id__isnull=True) & ~Q(topic=Topic.OPERATIONS)
    mine = Q(project_id__in=list(principal.projects)) | Q(user_id=principal.user_id)
    return of_all | mine


def may_see(principal: Principal, event: Event) -> bool:
    """Return True if the caller may see an event; see `visible_to`."""
    return principal.sees_everything() or is_visible(
        topic=event.topic,
        project=event.project_id,
        user=event.user_id,
        reader=principal.user_id,
        projects=principal.projects,
    )


def complete_seq(known: int = 0) -> int:
    """Return a number, at least ``known``, up to which no further event can appear."""
    newest = Event.objects.aggregate(newest=Max("seq"))["newest"] or 0
    return known if newest <= known else max(known, complete_up_to(Log.EVENTS, newest))


def events(principal: Principal) -> QuerySet[Event]:
    """Return the events that a caller may see, up to a number after which it may continue."""
    return Event.objects.filter(visible_to(principal), seq__lte=complete_seq())


def events_after(seq: int, *, limit: int, complete: int = 0) -> Sequence[Event]:
    """Return the events of all projects after ``seq``; no lower number appears later.

    Parameters
    ----------
    complete : a number that an earlier `complete_seq` has reached; the result reaches it, too
    """
    last = complete_seq(max(seq, complete))
    if last <= seq:
        return []
    return list(Event.objects.filter(seq__gt=seq, seq__lte=last).order_by("seq")[:limit])


class EventBounds(NamedTuple):
    """Numbers of the event log: lowest and highest visible, and `complete_seq`; 0 if empty."""

    lowest: int
    complete: int
    newest: int


def event_bounds() -> EventBounds:
    """Return the bounds of the event log."""
    seen = Event.objects.aggregate(lowest=Min("seq"), newest=Max("seq"))
    if not seen["newest"]:
        return EventBounds(0, 0, 0)
    complete = complete_up_to(Log.EVENTS, seen["newest"])
    return EventBounds(seen["lowest"], complete, seen["newest"])


def resume_bounds() -> EventBounds:
    """Return the bounds of the event log for a reader that resumes from a position.

    If no event is stored, all events up to the last number drawn have been deleted, or their
    transactions have not ended: ``lowest`` is the lowest number that may appear.
    """
    bounds = event_bounds()
    if bounds.newest:
        return bounds
    # In this order: the entries up to ``complete`` are visible to the last statement.
    drawn = last_drawn(Log.EVENTS)
    complete = complete_up_to(Log.EVENTS, drawn)
    bounds = event_bounds()
    return bounds if bounds.newest else EventBounds(complete + 1, complete, drawn)


def operations(principal: Principal) -> QuerySet[Operation]:
    """Return the operations that a caller started or that belong to the caller's projects."""
    if principal.sees_everything():
        return Operation.objects.all()
    return Operation.objects.filter(
        Q(created_by_id=principal.user_id) | Q(project_id__in=list(principal.projects))
    )


def operation(principal: Principal, operation_id: UUID) -> Operation | None:
    """Return one operation, or None if the caller may not see it."""
    return operations(principal).filter(pk=operation_id).first()


def stored_response(request: KeyedRequest) -> tuple[KeyedResponse, bool] | None:
    """Return the stored response of a key and whether the body is the same, or None."""
    row = IdempotencyKey.objects.filter(
        principal_id=request.principal_id, route=request.route, key=request.key
    ).first()
    if row is None:
        return None
    answer = KeyedResponse(status=row.status, location=row.location, response=row.response)
    return answer, bytes(row.body_digest) == request.body_digest


def stored_responses(
    principal_id: UUID, route: str, keys: Sequence[str]
) -> dict[str, tuple[Any, bytes]]:
    """Return (response, body digest) by key, of the keys that have been used."""
    if not keys:
        return {}
    rows = IdempotencyKey.objects.filter(
        principal_id=principal_id, route=route, key__in=keys
    ).values_list("key", "response", "body_digest")
    return {key: (response, bytes(digest)) for key, response, digest in rows}


def retentions() -> Sequence[Retention]:
    """Return how the deletion of each kind of history goes, by name."""
    return list(Retention.objects.order_by("name"))
