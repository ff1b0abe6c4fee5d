"""Writes of the event log."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import orjson
from django.utils import timezone

from apps.common.infrastructure.database import fetch_prepared, text_array
from apps.common.infrastructure.deletion import delete_before
from apps.common.infrastructure.log_numbers import Log, announcement
from apps.common.infrastructure.request_id import current_request_id


@dataclass(frozen=True, slots=True)
class NewEvent:
    """An event to append to the log.

    Attributes
    ----------
    topic : one of `Topic`
    kind : e.g. "job.updated"
    subject : id of the object
    data : what changed, compact, plain JSON
    project_id : the owning project; None if every signed-in user may see the event, unless it is
        of an operation
    user_id : who started the operation of the event and may see it, too
    request_id : the correlation id; empty for the id of the current request
    """

    topic: str
    kind: str
    subject: str
    data: Mapping[str, Any] = field(default_factory=dict)
    project_id: UUID | None = None
    user_id: UUID | None = None
    request_id: str = ""


_INSERT_EVENTS: Final = f"""
WITH announced AS MATERIALIZED (SELECT {announcement(Log.EVENTS)})
INSERT INTO operations_event (at, topic, kind, subject, project_id, user_id, request_id, data)
SELECT %s::timestamptz, topic, kind, subject, project_id, user_id, request_id, data::jsonb
FROM announced, unnest(%s::text[], %s::text[], %s::text[], %s::uuid[], %s::uuid[], %s::text[],
                       %s::text[])
     WITH ORDINALITY AS new(topic, kind, subject, project_id, user_id, request_id, data, place)
ORDER BY place
"""  # noqa: S608 - no input is interpolated


def record_events(events: Sequence[NewEvent], *, at: datetime | None = None) -> None:
    """Append events in one statement.

    Call this as the last step of the transaction that makes the change: readers see no later
    event of any transaction until this one ends. Writers do not wait for each other.
    """
    if not events:
        return
    request_id = current_request_id()
    fetch_prepared(
        _INSERT_EVENTS,
        [
            at or timezone.now(),
            text_array(event.topic for event in events),
            text_array(event.kind for event in events),
            text_array(event.subject for event in events),
            text_array(_text(event.project_id) for event in events),
            text_array(_text(event.user_id) for event in events),
            text_array(event.request_id or request_id for event in events),
            text_array(orjson.dumps(event.data).decode() for event in events),
        ],
    )


def _text(key: UUID | None) -> str | None:
    return None if key is None else str(key)


def prune_events(*, before: datetime | None) -> int:
    """Delete one batch of old events; returns its size. None: delete nothing."""
    return delete_before("operations_event", "at", before)
