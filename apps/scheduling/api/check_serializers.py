"""API schema of dry runs."""

import math
from collections.abc import Sequence
from typing import Any

from rest_framework import serializers

from apps.inventory.core.snapshot import Floats
from apps.scheduling.core.dry_run import DryRunResult
from apps.scheduling.core.records.explain import statement
from apps.scheduling.core.sizing.feasibility import Feasibility
from apps.scheduling.core.start_of_check import NewStart
from apps.workloads.api.batch_serializers import ArraySpecSerializer
from apps.workloads.api.serializers import JobRequestSerializer
from apps.workloads.api.spec_serializers import TargetSerializer
from apps.workloads.core.reasons import MEANINGS, Reason


class PredictedSerializer(serializers.Serializer[Any]):
    """Performance in the target's unit, with its 90 % interval."""

    value = serializers.FloatField()
    low = serializers.FloatField(allow_null=True)
    high = serializers.FloatField(allow_null=True)


class RequestedGuaranteeSerializer(serializers.Serializer[Any]):
    """The guarantee that a job requests, and the R that follows from it at this load."""

    rank_threshold = serializers.FloatField()
    probability = serializers.FloatField()
    top_free_share = serializers.FloatField(help_text="Share of the best 1 - x that is free.")
    needed_size = serializers.IntegerField(
        allow_null=True, help_text="R before the limit; null: no unit of the top is free."
    )
    size = serializers.IntegerField(help_text="R of the decision.")


class CheckGuaranteeSerializer(serializers.Serializer[Any]):
    """Guarantee on the quality of the best candidate."""

    statement = serializers.CharField()
    rank_threshold = serializers.FloatField()
    probability = serializers.FloatField()
    requested = RequestedGuaranteeSerializer(
        allow_null=True, help_text="Of the job, with the R that it needs."
    )


class SuggestionSerializer(serializers.Serializer[Any]):
    """A target that is predicted to be feasible."""

    text = serializers.CharField()
    target = TargetSerializer()


class PlatformCurveSerializer(serializers.Serializer[Any]):
    """Predicted performance of every size on one platform, with its 90 % interval."""

    platform = serializers.CharField()
    value = serializers.ListField(child=serializers.FloatField(allow_null=True))
    low = serializers.ListField(child=serializers.FloatField(allow_null=True))
    high = serializers.ListField(child=serializers.FloatField(allow_null=True))


class FeasibilitySerializer(serializers.Serializer[Any]):
    """Predicted performance of all sizes, in the unit of the target.

    Null if a platform cannot hold a size or would be overloaded.
    """

    target = serializers.FloatField(allow_null=True)
    units = serializers.ListField(child=serializers.IntegerField())
    basis = serializers.CharField(allow_null=True, help_text="Platform that determined the size.")
    platforms = PlatformCurveSerializer(many=True)


class StartEstimateSerializer(serializers.Serializer[Any]):
    """When a waiting job is predicted to start, in cluster seconds from now.

    Null: later than the simulation reaches, or the ends of jobs cannot be predicted.
    """

    p50_seconds = serializers.FloatField(allow_null=True)
    p90_seconds = serializers.FloatField(allow_null=True)


class CheckRequestSerializer(JobRequestSerializer):
    """A job to check, or a job array."""

    array = ArraySpecSerializer(required=False)


class CheckSerializer(serializers.Serializer[Any]):
    """Predicted outcome of a submission; nothing was written."""

    dry_run = serializers.BooleanField()
    outcome = serializers.ChoiceField(choices=["placed", "waits", "infeasible", "profiling"])
    feasible = serializers.BooleanField(
        allow_null=True, help_text="Null: unknown before the application is profiled."
    )
    known = serializers.BooleanField(help_text="Whether the application has a profile.")
    summary = serializers.CharField()
    reason = serializers.CharField()
    next_action = serializers.CharField()
    units = serializers.IntegerField(allow_null=True)
    platforms = serializers.ListField(child=serializers.CharField())
    servers = serializers.ListField(child=serializers.CharField())
    predicted = PredictedSerializer(allow_null=True)
    probability_met = serializers.FloatField(allow_null=True)
    units_examined = serializers.IntegerField()
    units_eligible = serializers.IntegerField()
    dropped = serializers.DictField(child=serializers.IntegerField())
    guarantee = CheckGuaranteeSerializer(allow_null=True)
    suggestions = SuggestionSerializer(many=True)
    candidates = serializers.ListField(child=serializers.DictField())
    feasibility = FeasibilitySerializer(allow_null=True)
    start = StartEstimateSerializer(
        allow_null=True, help_text="Of a job that would wait for units; null otherwise."
    )
    policy = serializers.CharField(allow_blank=True)
    snapshot = serializers.IntegerField()
    members = serializers.IntegerField(
        allow_null=True, help_text="Of the array; the outcome is that of one. Null: of a job."
    )
    warnings = serializers.ListField(
        child=serializers.CharField(), help_text="What is accepted, but has no effect."
    )


def represent_check(
    result: DryRunResult,
    start: NewStart | None,
    *,
    members: int | None = None,
    warnings: Sequence[str] = (),
) -> dict[str, Any]:
    """JSON of a dry run.

    Parameters
    ----------
    start : of a job that would wait
    members : of its array; None = it has none
    warnings : sentences on the request
    """
    return {
        "dry_run": True,
        "outcome": result.outcome,
        "feasible": result.feasible,
        "known": result.outcome != "profiling",
        "summary": result.summary,
        "reason": result.reason,
        "next_action": result.next_action or MEANINGS[Reason(result.reason)].next_action,
        "units": result.units,
        "platforms": list(result.platforms),
        "servers": list(result.servers),
        "predicted": None
        if result.predicted is None
        else {"value": result.predicted, "low": result.low, "high": result.high},
        "probability_met": result.probability_met,
        "units_examined": result.examined,
        "units_eligible": result.eligible,
        "dropped": dict(result.dropped),
        "guarantee": _guarantee(result),
        "suggestions": [
            {"text": suggestion.text, "target": dict(suggestion.target)}
            for suggestion in result.suggestions
        ],
        "candidates": [dict(candidate) for candidate in result.candidates],
        "feasibility": None
        if result.feasibility is None
        else represent_feasibility(result.feasibility),
        "start": None
        if start is None
        else {"p50_seconds": start.p50_s, "p90_seconds": start.p90_s},
        "policy": result.policy,
        "snapshot": result.snapshot,
        "members": members,
        "warnings": list(warnings),
    }


def represent_feasibility(grid: Feasibility) -> dict[str, Any]:
    """JSON of the predictions for all sizes."""
    return {
        "target": grid.target,
        "units": grid.sizes.tolist(),
        "basis": grid.basis,
        "platforms": [
            {
                "platform": name,
                "value": _finite(grid.value[:, i]),
                "low": _finite(grid.low[:, i]),
                "high": _finite(grid.high[:, i]),
            }
            for i, name in enumerate(grid.platforms)
        ],
    }


def _finite(values: Floats) -> list[float | None]:
    """Round to four significant digits; None if not finite."""
    return [float(f"{v:.4g}") if math.isfinite(v) else None for v in values.tolist()]


def _guarantee(result: DryRunResult) -> dict[str, Any] | None:
    if result.rank_threshold is None or result.probability is None:
        return None
    return {
        "statement": statement(
            *(result.examined, result.eligible, result.rank_threshold, result.probability),
            result.units or 1,
        ),
        "rank_threshold": result.rank_threshold,
        "probability": result.probability,
        "requested": result.sampling.as_json(),
    }
