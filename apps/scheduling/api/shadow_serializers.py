"""Serializers of shadows and of the decisions that they have compared."""

from typing import Any

from rest_framework import serializers

from apps.common.api.representations import time
from apps.scheduling.models import Shadow, ShadowDecision, ShadowEnd
from apps.scheduling.selectors.shadows import GROUPS, ShadowResult
from apps.scheduling.services.shadows import MIN_SHARE

STATUSES = ("running", "ended")


class ShadowRequestSerializer(serializers.Serializer[Any]):
    """A shadow to start."""

    policy = serializers.CharField(max_length=63)
    parameters = serializers.DictField(
        child=serializers.FloatField(),
        default=dict,
        help_text="Of the policy; its defaults for the others.",
    )
    share = serializers.FloatField(
        min_value=MIN_SHARE,
        max_value=1.0,
        default=1.0,
        error_messages=dict.fromkeys(("min_value", "max_value"), f"Accepted: {MIN_SHARE:g} to 1."),
        help_text="Of the decisions; at most BERTH_SHADOW_SHARE.",
    )
    until = serializers.DateTimeField(
        allow_null=True, default=None, help_text="When it ends; null: when it is stopped."
    )


class ShadowSerializer(serializers.Serializer[Any]):
    """A policy that decides on live decisions without committing."""

    id = serializers.UUIDField()
    policy = serializers.CharField()
    parameters = serializers.DictField(child=serializers.FloatField())
    share = serializers.FloatField(help_text="Of the decisions.")
    status = serializers.ChoiceField(choices=STATUSES)
    end = serializers.ChoiceField(
        choices=ShadowEnd.choices, allow_null=True, help_text="Why it ended; null: it runs."
    )
    error = serializers.CharField(allow_blank=True, help_text="Of its policy; empty: none.")
    started_at = serializers.DateTimeField()
    started_by = serializers.CharField(allow_null=True)
    until = serializers.DateTimeField(allow_null=True, help_text="Requested end.")
    ended_at = serializers.DateTimeField(allow_null=True)
    read_until = serializers.DateTimeField(help_text="Time of the last decision that was read.")
    code_version = serializers.CharField()
    seen = serializers.IntegerField(help_text="Decisions by policies since the start.")
    decided = serializers.IntegerField(help_text="Decisions that both policies have decided.")
    neither = serializers.IntegerField(help_text="Of these, jobs that both refused.")
    dropped = serializers.IntegerField(
        help_text="Sampled decisions for which no time was left (BERTH_SHADOW_CPU)."
    )
    unavailable = serializers.IntegerField(
        help_text="Sampled decisions that could not be repeated, as their request is not stored."
    )
    cpu_seconds = serializers.FloatField(help_text="CPU time used by the shadow.")


class ShadowEstimateSerializer(serializers.Serializer[Any]):
    """A share or mean with its 95 % interval; null: it cannot be computed."""

    value = serializers.FloatField(allow_null=True)
    low = serializers.FloatField(allow_null=True)
    high = serializers.FloatField(allow_null=True)


class ShadowSummarySerializer(serializers.Serializer[Any]):
    """Agreement and predicted regret."""

    decisions = serializers.IntegerField(help_text="On which at least one policy placed the job.")
    both = serializers.IntegerField(help_text="On which both did.")
    only_live = serializers.IntegerField()
    only_shadow = serializers.IntegerField()
    same_units = ShadowEstimateSerializer(help_text="Share of the decisions.")
    same_servers = ShadowEstimateSerializer()
    same_platforms = ShadowEstimateSerializer()
    regret = ShadowEstimateSerializer(
        help_text="Mean of live minus shadow, `job` + `neighbours`; positive: the shadow is worse."
    )
    job = ShadowEstimateSerializer(help_text="Part of the job's own performance.")
    neighbours = ShadowEstimateSerializer(help_text="Part of what its neighbours keep.")


class ShadowGroupSerializer(ShadowSummarySerializer):
    """Agreement and predicted regret of a part of the decisions."""

    name = serializers.CharField(allow_blank=True, help_text="Empty platform: the live refusals.")


class ShadowGroupsSerializer(serializers.Serializer[Any]):
    """Parts of the decisions, the largest first."""

    kind = ShadowGroupSerializer(many=True, help_text="One unit, gang or incremental.")
    policy = ShadowGroupSerializer(many=True, help_text="That decided live.")
    platform = ShadowGroupSerializer(many=True, help_text="Of the live choice.")


class ShadowResultSerializer(ShadowSerializer):
    """A shadow with its result so far."""

    result = ShadowSummarySerializer()
    groups = ShadowGroupsSerializer()


class ShadowChoiceSerializer(serializers.Serializer[Any]):
    """What one policy chose."""

    servers = serializers.ListField(child=serializers.CharField(), help_text="Empty: refused.")
    platforms = serializers.ListField(child=serializers.CharField())
    units = serializers.IntegerField()
    performance = serializers.FloatField(allow_null=True)
    neighbours = serializers.FloatField(allow_null=True)
    reason = serializers.CharField(allow_blank=True, help_text="Of a refusal.")


class ShadowDecisionSerializer(serializers.Serializer[Any]):
    """A live decision and that of the shadow."""

    decision = serializers.UUIDField(help_text="Its decision may be deleted first.")
    at = serializers.DateTimeField()
    policy = serializers.CharField(help_text="That decided live.")
    kind = serializers.CharField()
    same_units = serializers.BooleanField()
    same_servers = serializers.BooleanField()
    same_platforms = serializers.BooleanField()
    job_regret = serializers.FloatField(allow_null=True, help_text="Null: one policy refused it.")
    neighbour_regret = serializers.FloatField(allow_null=True)
    live = ShadowChoiceSerializer()
    shadow = ShadowChoiceSerializer()


def represent_shadow(row: Shadow) -> dict[str, Any]:
    """JSON of a shadow."""
    return {
        "id": str(row.pk),
        "policy": row.policy,
        "parameters": row.parameters,
        "share": row.share,
        "status": "running" if row.ended_at is None else "ended",
        "end": row.end or None,
        "error": row.error,
        "started_at": time(row.started_at),
        "started_by": row.started_by.username if row.started_by else None,
        "until": time(row.until),
        "ended_at": time(row.ended_at),
        "read_until": time(row.cursor_at),
        "code_version": row.code_version,
        "seen": row.seen,
        "decided": row.decided,
        "neither": row.neither,
        "dropped": row.dropped,
        "unavailable": row.unavailable,
        "cpu_seconds": row.busy_s,
    }


def represent_shadow_result(row: Shadow, result: ShadowResult) -> dict[str, Any]:
    """JSON of a shadow with its result."""
    groups = {
        name: [{"name": value, **part.as_json()} for value, part in result.groups[name]]
        for name in GROUPS
    }
    return {**represent_shadow(row), "result": result.total.as_json(), "groups": groups}


def represent_shadow_decision(row: ShadowDecision) -> dict[str, Any]:
    """JSON of a compared decision."""
    return {
        "decision": str(row.decision_id),
        "at": time(row.at),
        "policy": row.policy,
        "kind": row.kind,
        "same_units": row.same_units,
        "same_servers": row.same_servers,
        "same_platforms": row.same_platforms,
        "job_regret": row.job_regret,
        "neighbour_regret": row.neighbour_regret,
        "live": row.live,
        "shadow": row.shadowed,
    }
