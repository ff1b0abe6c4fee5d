"""Profiling runs in the API."""

from typing import Any

from rest_framework import serializers

from apps.accounts.core.principal import Principal
from apps.common.api.representations import time
from apps.profiling.models import ProfilingRun, RunState
from apps.profiling.selectors import may_see_texts, message_to_others

STATES = [(state.value, state.value) for state in RunState]


class ProfilingRequestSerializer(serializers.Serializer[Any]):
    """A request to profile an application again."""

    reason = serializers.CharField(
        required=False, allow_blank=True, max_length=200, help_text="Reason for the request."
    )


class MissingCellSerializer(serializers.Serializer[Any]):
    """A cell whose probe failed."""

    matrix = serializers.CharField()
    column = serializers.CharField()
    reason = serializers.CharField()


class ProfilingResultSerializer(serializers.Serializer[Any]):
    """The result of a run."""

    cells = serializers.IntegerField(help_text="Number of measured cells.")
    seconds = serializers.FloatField(help_text="Duration in cluster seconds.")
    missing = MissingCellSerializer(many=True)


class ProfilingRunSerializer(serializers.Serializer[Any]):
    """A few short runs of one application."""

    id = serializers.UUIDField()
    application = serializers.CharField()
    operation = serializers.UUIDField(
        allow_null=True,
        help_text="Operation with the progress of the run; cancel the run there."
        " Null for runs of projects that you do not see, and from before operations existed.",
    )
    state = serializers.ChoiceField(choices=STATES)
    reason = serializers.CharField(
        allow_blank=True, allow_null=True, help_text="Null where you may not see it."
    )
    progress = serializers.IntegerField(
        allow_null=True,
        help_text="Number of short runs and sources measured so far; null without an operation.",
    )
    total = serializers.IntegerField(
        allow_null=True, help_text="Expected number of short runs and sources."
    )
    attempts = serializers.IntegerField()
    message = serializers.CharField(allow_blank=True)
    created_at = serializers.DateTimeField()
    requested_seconds = serializers.FloatField()
    started_seconds = serializers.FloatField(allow_null=True)
    finished_seconds = serializers.FloatField(allow_null=True)
    budget_seconds = serializers.FloatField(
        allow_null=True,
        help_text="Time limit in cluster seconds: no source is started that would exceed it.",
    )
    expected_seconds = serializers.FloatField(
        allow_null=True, help_text="Expected duration in cluster seconds."
    )
    plan = serializers.JSONField(
        help_text="The short runs: platform, servers, units and sources of each."
    )
    result = ProfilingResultSerializer(allow_null=True)


def represent_run(run: ProfilingRun, principal: Principal) -> dict[str, Any]:
    """JSON of a profiling run whose application and operation are loaded, for a caller."""
    is_seen = may_see_texts(principal, run)
    operation = run.operation if is_seen else None
    own_message = run.message or (operation.message if operation else "")
    return {
        "id": str(run.pk),
        "application": run.application.name,
        "operation": str(operation.pk) if operation else None,
        "state": str(run.state),
        "reason": run.reason if is_seen else None,
        "progress": operation.progress if operation else None,
        "total": operation.total if operation else None,
        "attempts": run.attempts,
        "message": own_message if is_seen else message_to_others(run),
        "created_at": time(run.created_at),
        "requested_seconds": run.requested_s,
        "started_seconds": run.started_s,
        "finished_seconds": run.finished_s,
        "budget_seconds": run.plan.get("budget_s"),
        "expected_seconds": run.plan.get("expected_s"),
        "plan": run.plan,
        "result": run.result,
    }
