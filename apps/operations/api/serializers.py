"""Serialisation of events and operations."""

from typing import Any, Final

from rest_framework import serializers

from apps.common.api.representations import time
from apps.operations.core.states import OperationStatus
from apps.operations.models import Event, Operation

STATUSES: Final = [(status.value, status.value) for status in OperationStatus]


class EventSerializer(serializers.Serializer[Any]):
    """An event; `id` is its position in the event log."""

    id = serializers.IntegerField()
    at = serializers.DateTimeField()
    topic = serializers.CharField()
    kind = serializers.CharField()
    subject = serializers.CharField()
    project = serializers.UUIDField(allow_null=True)
    request_id = serializers.CharField(allow_blank=True)
    data = serializers.DictField()  # type: ignore[assignment]  # shadows Serializer.data


class ChangesSerializer(serializers.Serializer[Any]):
    """Events after a position, and the position for the next request."""

    results = EventSerializer(many=True)
    position = serializers.IntegerField()


class OperationSerializer(serializers.Serializer[Any]):
    """A long-running operation."""

    id = serializers.UUIDField()
    kind = serializers.CharField()
    status = serializers.ChoiceField(choices=STATUSES)
    progress = serializers.IntegerField()
    total = serializers.IntegerField(allow_null=True)
    message = serializers.CharField(allow_blank=True)
    arguments = serializers.DictField(help_text="Parameters of the operation.")
    result = serializers.DictField(allow_null=True)
    problem = serializers.DictField(allow_null=True)
    cancel_requested = serializers.BooleanField()
    request_id = serializers.CharField(allow_blank=True)
    created_at = serializers.DateTimeField()
    updated_at = serializers.DateTimeField()
    finished_at = serializers.DateTimeField(allow_null=True)


class TicketSerializer(serializers.Serializer[Any]):
    """A ticket for the event stream: valid once, for a minute."""

    ticket = serializers.CharField()
    url = serializers.CharField()
    expires_in_seconds = serializers.IntegerField()


def represent_event(event: Event) -> dict[str, Any]:
    """JSON of an event."""
    return {
        "id": event.seq,
        "at": time(event.at),
        "topic": event.topic,
        "kind": event.kind,
        "subject": event.subject,
        "project": str(event.project_id) if event.project_id else None,
        "request_id": event.request_id,
        "data": event.data,
    }


def represent_operation(operation: Operation) -> dict[str, Any]:
    """JSON of an operation."""
    return {
        "id": str(operation.pk),
        "kind": operation.kind,
        "status": operation.status,
        "progress": operation.progress,
        "total": operation.total,
        "message": operation.message,
        "arguments": operation.arguments,
        "result": operation.result,
        "problem": operation.problem,
        "cancel_requested": operation.cancel_requested,
        "request_id": operation.request_id,
        "created_at": time(operation.created_at),
        "updated_at": time(operation.updated_at),
        "finished_at": time(operation.finished_at),
    }
