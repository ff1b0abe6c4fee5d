"""The answer to a dry run as the API shows it."""

import math
from typing import Any

from rest_framework import serializers

from apps.inventory.core.snapshot import Floats
from apps.scheduling.core.check import Checked
from apps.scheduling.core.explain import statement
from apps.scheduling.core.feasibility import Feasibility
from apps.workloads.api.serializers import TargetSerializer
from apps.workloads.core.reasons import MEANINGS, Reason


class PredictedSerializer(serializers.Serializer[Any]):
    """Performance in the target's unit, with its 90 % interval."""

    value = serializers.FloatField()
    low = serializers.FloatField(allow_null=True)
    high = serializers.FloatField(allow_null=True)


class CheckGuaranteeSerializer(serializers.Serializer[Any]):
    """How good the best of the sample is."""

    statement = serializers.CharField()
    rank_threshold = serializers.FloatField()
    probability = serializers.FloatField()


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
    """What any size would achieve, in the unit of the target.

    Null where a platform cannot hold a size or would be overloaded.
    """

    target = serializers.FloatField(allow_null=True)
    units = serializers.ListField(child=serializers.IntegerField())
    basis = serializers.CharField(allow_null=True, help_text="Platform the size was judged on.")
    platforms = PlatformCurveSerializer(many=True)


class CheckSerializer(serializers.Serializer[Any]):
    """What would happen to a job; nothing was written."""

    dry_run = serializers.BooleanField()
    outcome = serializers.ChoiceField(choices=["placed", "waits", "infeasible", "profiling"])
    feasible = serializers.BooleanField(
        allow_null=True, help_text="Null: not known before the application is profiled."
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
    snapshot = serializers.IntegerField()


def represent_check(checked: Checked) -> dict[str, Any]:
    """JSON of a dry run."""
    return {
        "dry_run": True,
        "outcome": checked.outcome,
        "feasible": checked.feasible,
        "known": checked.outcome != "profiling",
        "summary": checked.summary,
        "reason": checked.reason,
        "next_action": MEANINGS[Reason(checked.reason)].next_action,
        "units": checked.units,
        "platforms": list(checked.platforms),
        "servers": list(checked.servers),
        "predicted": None
        if checked.predicted is None
        else {"value": checked.predicted, "low": checked.low, "high": checked.high},
        "probability_met": checked.probability_met,
        "units_examined": checked.examined,
        "units_eligible": checked.eligible,
        "dropped": dict(checked.dropped),
        "guarantee": _guarantee(checked),
        "suggestions": [
            {"text": suggestion.text, "target": dict(suggestion.target)}
            for suggestion in checked.suggestions
        ],
        "candidates": [dict(candidate) for candidate in checked.candidates],
        "feasibility": None
        if checked.feasibility is None
        else represent_feasibility(checked.feasibility),
        "snapshot": checked.snapshot,
    }


def represent_feasibility(found: Feasibility) -> dict[str, Any]:
    """JSON of what any size would achieve."""
    return {
        "target": found.wanted,
        "units": found.sizes.tolist(),
        "basis": found.basis,
        "platforms": [
            {
                "platform": name,
                "value": _known(found.value[:, i]),
                "low": _known(found.low[:, i]),
                "high": _known(found.high[:, i]),
            }
            for i, name in enumerate(found.platforms)
        ],
    }


def _known(values: Floats) -> list[float | None]:
    """Return four significant digits of each; None where not finite."""
    return [float(f"{v:.4g}") if math.isfinite(v) else None for v in values.tolist()]


def _guarantee(checked: Checked) -> dict[str, Any] | None:
    if checked.rank_threshold is None or checked.probability is None:
        return None
    return {
        "statement": statement(
            checked.examined, checked.rank_threshold, checked.probability, checked.units or 1
        ),
        "rank_threshold": checked.rank_threshold,
        "probability": checked.probability,
    }
