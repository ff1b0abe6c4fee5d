"""Server-sent events: the bytes of an event, which all its readers share."""

import json
from typing import Any, Final

from apps.common.api.representations import time
from apps.operations.core.feed import Item
from apps.operations.core.states import Topic
from apps.operations.models import Event

# Names of SSE events; the exact kind of the event is in the data.
_NAMES: Final = {
    Topic.JOBS: "job.updated",
    Topic.DECISIONS: "decision.created",
    Topic.SERVERS: "server.updated",
    Topic.APPLICATIONS: "application.updated",
    Topic.OPERATIONS: "operation.progress",
    Topic.FRONTS: "front.updated",
    Topic.PLANS: "plan.updated",
    Topic.CLUSTER: "cluster.updated",
}


def message(event: Event) -> bytes:
    """Return the bytes of an event."""
    data = {
        "id": event.seq,
        "kind": event.kind,
        "topic": event.topic,
        "subject": event.subject,
        "at": time(event.at),
        "request_id": event.request_id,
        "data": event.data,
    }
    return sse(_NAMES[Topic(event.topic)], data, event.seq)


def sse(name: str, data: Any, seq: int | None = None) -> bytes:
    """Return one server-sent event."""
    head = "" if seq is None else f"id: {seq}\n"
    body = json.dumps(data, separators=(",", ":"))
    return f"{head}event: {name}\ndata: {body}\n\n".encode()


def item_of(event: Event) -> Item:
    """Return an event with its bytes, and who may read it."""
    project = str(event.project_id) if event.project_id else None
    user = str(event.user_id) if event.user_id else None
    return Item(event.seq, event.topic, event.subject, project, message(event), user)
