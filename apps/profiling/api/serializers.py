"""Profiling runs as the API shows them."""

from typing import Any

from rest_framework import serializers

from apps.common.representations import time
from apps.profiling.models import ProfilingRun, RunState

STATES = [(state.value, state.value) for state in RunState]


class ProfilingRunSerializer(serializers.Serializer[Any]):
    """A few short runs of one application."""

    id = serializers.UUIDField()
    application = serializers.CharField()
    state = serializers.ChoiceField(choices=STATES)
    attempts = serializers.IntegerField()
    message = serializers.CharField(allow_blank=True)
    created_at = serializers.DateTimeField()
    requested_seconds = serializers.FloatField()
    started_seconds = serializers.FloatField(allow_null=True)
    finished_seconds = serializers.FloatField(allow_null=True)
    plan = serializers.JSONField(help_text="What is run where.")


def represent_run(run: ProfilingRun) -> dict[str, Any]:
    """JSON of a profiling run whose application is loaded."""
    return {
        "id": str(run.pk),
        "application": run.application.name,
        "state": str(run.state),
        "attempts": run.attempts,
        "message": run.message,
        "created_at": time(run.created_at),
        "requested_seconds": run.requested_s,
        "started_seconds": run.started_s,
        "finished_seconds": run.finished_s,
        "plan": run.plan,
    }
