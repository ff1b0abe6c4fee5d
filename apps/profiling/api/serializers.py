"""Profiling runs as the API shows them."""

from typing import Any

from rest_framework import serializers

from apps.common.representations import time
from apps.profiling.models import ProfilingRun, RunState

STATES = [(state.value, state.value) for state in RunState]


class ProfilingRequestSerializer(serializers.Serializer[Any]):
    """A wish to profile an application again."""

    reason = serializers.CharField(
        required=False, allow_blank=True, max_length=200, help_text="Why, in a few words."
    )


class MissingCellSerializer(serializers.Serializer[Any]):
    """A cell that was probed in vain."""

    matrix = serializers.CharField()
    column = serializers.CharField()
    reason = serializers.CharField()


class ProfilingResultSerializer(serializers.Serializer[Any]):
    """What a run brought."""

    cells = serializers.IntegerField(help_text="Cells measured.")
    seconds = serializers.FloatField(help_text="Cluster seconds it took.")
    missing = MissingCellSerializer(many=True)


class ProfilingRunSerializer(serializers.Serializer[Any]):
    """A few short runs of one application."""

    id = serializers.UUIDField()
    application = serializers.CharField()
    operation = serializers.UUIDField(
        allow_null=True, help_text="How far it is; cancel it there. Null of runs of old."
    )
    state = serializers.ChoiceField(choices=STATES)
    reason = serializers.CharField(allow_blank=True)
    progress = serializers.IntegerField(help_text="Runs and sources measured.")
    total = serializers.IntegerField(
        allow_null=True, help_text="Runs and sources to measure, as far as is known now."
    )
    attempts = serializers.IntegerField()
    message = serializers.CharField(allow_blank=True)
    created_at = serializers.DateTimeField()
    requested_seconds = serializers.FloatField()
    started_seconds = serializers.FloatField(allow_null=True)
    finished_seconds = serializers.FloatField(allow_null=True)
    budget_seconds = serializers.FloatField(
        allow_null=True,
        help_text="Cluster seconds it may take: no source is begun that would end later.",
    )
    expected_seconds = serializers.FloatField(
        allow_null=True, help_text="Cluster seconds it is expected to take from its start."
    )
    plan = serializers.JSONField(help_text="What is run where.")
    result = ProfilingResultSerializer(allow_null=True)


def represent_run(run: ProfilingRun) -> dict[str, Any]:
    """JSON of a profiling run whose application and operation are loaded."""
    operation = run.operation
    return {
        "id": str(run.pk),
        "application": run.application.name,
        "operation": str(operation.pk) if operation else None,
        "state": str(run.state),
        "reason": run.reason,
        "progress": operation.progress if operation else 0,
        "total": operation.total if operation else None,
        "attempts": run.attempts,
        "message": run.message or (operation.message if operation else ""),
        "created_at": time(run.created_at),
        "requested_seconds": run.requested_s,
        "started_seconds": run.started_s,
        "finished_seconds": run.finished_s,
        "budget_seconds": run.plan.get("budget_s"),
        "expected_seconds": run.plan.get("expected_s"),
        "plan": run.plan,
        "result": run.result,
    }
