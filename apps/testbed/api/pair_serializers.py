"""Serializers of measured pairs."""

from typing import Any, Final

from rest_framework import serializers

from apps.common.api.representations import time
from apps.operations.api.serializers import OperationSerializer, represent_operation
from apps.testbed.core.pairs.rounds import MIN_ROUNDS, WIDE, is_wide
from apps.testbed.models import MeasuredPair
from apps.testbed.services.pair_requests import MAX_ROUNDS
from apps.workloads.core.commands import MAX_ARGUMENTS, MAX_BYTES, MAX_PATH, MAX_VARIABLES

MAX_UNITS: Final = 1_000
MAX_WINDOW_S: Final = 600.0
MAX_PATIENCE_S: Final = 3_600.0


class PairSideSerializer(serializers.Serializer[Any]):
    """One of the two applications."""

    application = serializers.CharField(
        max_length=127, required=False, help_text="Name; derived from the command if omitted."
    )
    command = serializers.ListField(
        child=serializers.CharField(max_length=MAX_BYTES, allow_blank=True, trim_whitespace=False),
        max_length=MAX_ARGUMENTS,
        allow_null=True,
        default=None,
        help_text="Program and arguments; it must end by itself, and is run again and again."
        " Null: an emulated application.",
    )
    environment = serializers.DictField(
        child=serializers.CharField(max_length=MAX_BYTES, allow_blank=True, trim_whitespace=False),
        default=dict,
        help_text=f"At most {MAX_VARIABLES} variables.",
    )
    working_directory = serializers.CharField(
        max_length=MAX_PATH, allow_null=True, default=None, help_text="Null: a new, empty one."
    )
    units = serializers.IntegerField(min_value=1, max_value=MAX_UNITS, default=1)


class PairRequestSerializer(serializers.Serializer[Any]):
    """Two applications to measure alone and next to each other."""

    first = PairSideSerializer()
    second = PairSideSerializer()
    platform = serializers.CharField(
        max_length=63, allow_null=True, default=None, help_text="Null: the smallest server."
    )
    project = serializers.CharField(
        max_length=63,
        allow_null=True,
        default=None,
        help_text="Of the job that measures commands; null: your only project.",
    )
    rounds = serializers.IntegerField(
        min_value=MIN_ROUNDS,
        max_value=MAX_ROUNDS,
        default=8,
        help_text="Number of valid rounds required.",
    )
    window_seconds = serializers.FloatField(
        min_value=0.05,
        max_value=MAX_WINDOW_S,
        default=1.0,
        help_text="Min length of a window; it is longer if a run takes longer.",
    )
    patience_seconds = serializers.FloatField(
        min_value=1.0,
        max_value=MAX_PATIENCE_S,
        default=60.0,
        help_text="Max time to wait for the first complete run in a window.",
    )
    max_foreign_percent = serializers.FloatField(
        min_value=0.0,
        max_value=100.0,
        default=5.0,
        help_text="A round in which other programs use more of the cores is repeated.",
    )


class SlowdownSerializer(serializers.Serializer[Any]):
    """Time next to the other application over the time alone, with its 90 % interval."""

    value = serializers.FloatField()
    low = serializers.FloatField()
    high = serializers.FloatField()


class PairResultSideSerializer(serializers.Serializer[Any]):
    """Predicted and measured slowdown of one application."""

    application = serializers.CharField()
    command = serializers.ListField(child=serializers.CharField())
    units = serializers.IntegerField()
    predicted = SlowdownSerializer(
        allow_null=True, help_text="Made before the measurement; null: no scores are known."
    )
    missing = serializers.ListField(
        child=serializers.CharField(), help_text="Applications without any score."
    )
    unmeasured = serializers.ListField(
        child=serializers.CharField(),
        help_text="Sources whose tolerance is inferred or assumed, not measured.",
    )
    measured = SlowdownSerializer(allow_null=True, help_text="Null: not measured yet.")
    holds = serializers.BooleanField(
        allow_null=True, help_text="The predicted interval contains the measured value."
    )
    is_wide = serializers.BooleanField(
        allow_null=True,
        help_text=f"The high end of the predicted interval is over {WIDE:g} times its low end: "
        "too wide to tell.",
    )
    overlaps = serializers.BooleanField(
        allow_null=True, help_text="The predicted and the measured interval overlap."
    )


class PairSerializer(serializers.Serializer[Any]):
    """A measured pair."""

    id = serializers.UUIDField()
    sides = PairResultSideSerializer(many=True)
    is_emulated = serializers.BooleanField()
    platform = serializers.CharField()
    server_units = serializers.IntegerField(help_text="Of the server, which the pair holds alone.")
    rounds = serializers.IntegerField(help_text="That count.")
    rejected = serializers.IntegerField(help_text="Rounds with too much work of other programs.")
    job = serializers.UUIDField(allow_null=True, help_text="That measures; null: emulated.")
    operation = OperationSerializer()
    created_by = serializers.CharField(allow_null=True)
    created_at = serializers.DateTimeField()


def represent_pair(pair: MeasuredPair) -> dict[str, Any]:
    """JSON of a pair that `selectors.pairs.pairs` returned."""
    result = pair.result or {}
    return {
        "id": str(pair.pk),
        "sides": [_side(pair, side) for side in (0, 1)],
        "is_emulated": pair.is_emulated,
        "platform": pair.platform,
        "server_units": pair.server_units,
        "rounds": len(result.get("rounds", ())),
        "rejected": result.get("rejected", 0),
        "job": str(pair.job_id) if pair.job_id else None,
        "operation": represent_operation(pair.operation),
        "created_by": pair.created_by.username if pair.created_by else None,
        "created_at": time(pair.created_at),
    }


def _side(pair: MeasuredPair, side: int) -> dict[str, Any]:
    asked, predicted = pair.request["sides"][side], pair.predictions[side]
    found = pair.result["sides"][side] if pair.result else {}
    is_known = "value" in predicted
    return {
        "application": (pair.first, pair.second)[side],
        "command": asked["command"],
        "units": asked["units"],
        "predicted": {name: predicted[name] for name in ("value", "low", "high")}
        if is_known
        else None,
        "missing": predicted.get("missing", []),
        "unmeasured": predicted.get("unmeasured", []),
        "measured": found.get("measured"),
        "holds": found.get("holds"),
        "is_wide": is_wide(predicted["low"], predicted["high"]) if is_known else None,
        "overlaps": found.get("overlaps"),
    }
