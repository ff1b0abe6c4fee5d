"""Picks, preference sets and weights in force as the API reads and shows them."""

from collections.abc import Mapping
from typing import Any, Final

from rest_framework import serializers

from apps.common.representations import time
from apps.placement.api.front_serializers import ObjectiveValuesSerializer
from apps.placement.core.checking import Check, Position
from apps.placement.core.derivation import Derivation
from apps.placement.core.front import OBJECTIVES
from apps.placement.models import Activation, PreferenceSet, Rule
from apps.placement.services.checks import Star

RULES: Final = [(rule.value, rule.value) for rule in Rule]
POSITIONS: Final = [(position.value, position.value) for position in Position]
LONGEST_NAME: Final = 63
LONGEST_TEXT: Final = 500
MOST_PICKS: Final = 2_000
MOST_RACKS: Final = 1_000


def _points(**options: Any) -> serializers.ListField:
    return serializers.ListField(
        child=serializers.IntegerField(), max_length=MOST_PICKS, **options
    )


class PickingSerializer(serializers.Serializer[Any]):
    """What is accepted of a front, and the rule that makes weights of it."""

    front = serializers.CharField(
        required=False, max_length=36, help_text="Id or name; only `direct` weights need none."
    )
    version = serializers.IntegerField(
        required=False, min_value=1, max_value=2**31 - 1, help_text="The latest when left out."
    )
    rule = serializers.ChoiceField(choices=RULES, default=Rule.SPREAD.value)
    picks = serializers.DictField(
        child=_points(), required=False, help_text="Points accepted, by screen: P-D, P-C, D-C."
    )
    rejected = _points(required=False)
    wanted = serializers.DictField(
        child=serializers.FloatField(),
        required=False,
        help_text="By objective: normalised values (`reference`) or weights (`direct`).",
    )


class PreferenceSetRequestSerializer(PickingSerializer):
    """A preference set to keep."""

    name = serializers.CharField(max_length=LONGEST_NAME)
    note = serializers.CharField(max_length=LONGEST_TEXT, allow_blank=True, default="")
    parent = serializers.UUIDField(  # type: ignore[assignment]  # shadows Field.parent
        required=False, allow_null=True
    )


class PreferenceSetEditSerializer(serializers.Serializer[Any]):
    """Another name or note."""

    name = serializers.CharField(max_length=LONGEST_NAME, required=False)
    note = serializers.CharField(max_length=LONGEST_TEXT, allow_blank=True, required=False)


class PairSerializer(serializers.Serializer[Any]):
    """Two placements of a front."""

    front = serializers.CharField(max_length=36)
    version = serializers.IntegerField(required=False, min_value=1, max_value=2**31 - 1)
    points = serializers.ListField(child=serializers.IntegerField(), min_length=2, max_length=2)


class GuardSerializer(serializers.Serializer[Any]):
    """When weights are taken back by themselves."""

    drop = serializers.FloatField(
        min_value=0.001, max_value=1.0, help_text="Of the share of targets met, 0-1."
    )
    seconds = serializers.FloatField(
        min_value=1.0, max_value=1e7, default=600.0, help_text="On end, in cluster time."
    )


class ActivationRequestSerializer(serializers.Serializer[Any]):
    """Why weights come into force, and where."""

    message = serializers.CharField(max_length=LONGEST_TEXT)
    racks = serializers.ListField(
        child=serializers.CharField(max_length=LONGEST_NAME),
        max_length=MOST_RACKS,
        default=list,
        help_text="Names; only there at first. None: everywhere.",
    )
    guard = GuardSerializer(required=False, allow_null=True)


class RevertSerializer(serializers.Serializer[Any]):
    """Why weights are taken back."""

    message = serializers.CharField(max_length=LONGEST_TEXT)


class SensitivitySerializer(serializers.Serializer[Any]):
    """Weights without one pick, and the most that any of them moves."""

    point = serializers.IntegerField()
    weights = ObjectiveValuesSerializer()
    change = serializers.FloatField()


class DerivationSerializer(serializers.Serializer[Any]):
    """Weights, and what to know before one relies on them."""

    weights = ObjectiveValuesSerializer()
    spread = serializers.DictField(
        child=serializers.FloatField(),
        help_text="By objective: standard deviation of the picks, or distance to the best.",
    )
    floored = serializers.ListField(child=serializers.CharField())
    idle = serializers.ListField(child=serializers.CharField())
    picks = serializers.IntegerField(help_text="Different placements accepted.")
    sensitivity = SensitivitySerializer(many=True)
    sentence = serializers.CharField()
    warnings = serializers.ListField(child=serializers.CharField())


class StarSerializer(serializers.Serializer[Any]):
    """The solver's own answer under the weights."""

    raw = ObjectiveValuesSerializer()
    normalised = ObjectiveValuesSerializer()
    F = serializers.FloatField()
    gap = serializers.FloatField(allow_null=True, help_text="Null: no bound is known.")
    optimal = serializers.BooleanField()
    seconds = serializers.FloatField()


class PickingCheckSerializer(serializers.Serializer[Any]):
    """How the solver's answer lies to what was accepted."""

    star = StarSerializer()
    position = serializers.ChoiceField(
        choices=POSITIONS, allow_null=True, help_text="Null: nothing was accepted."
    )
    distance = serializers.FloatField(allow_null=True, help_text="To the centre of the picks.")
    nearest = serializers.IntegerField(help_text="The point of the front nearest to it.")
    unreachable = serializers.ListField(
        child=serializers.IntegerField(), help_text="Picks that no weights return."
    )
    sentence = serializers.CharField()


class BetweenSerializer(serializers.Serializer[Any]):
    """Points between two others, in order from the one to the other."""

    front = serializers.UUIDField()
    version = serializers.IntegerField()
    points = serializers.ListField(child=serializers.IntegerField())


class PreferenceSetSerializer(serializers.Serializer[Any]):
    """Picks, the rule and the weights they gave."""

    id = serializers.UUIDField()
    name = serializers.CharField()
    note = serializers.CharField(allow_blank=True)
    parent = serializers.UUIDField(  # type: ignore[assignment]  # shadows Field.parent
        allow_null=True
    )
    front = serializers.UUIDField(allow_null=True)
    front_name = serializers.CharField(allow_null=True)
    version = serializers.IntegerField(allow_null=True)
    rule = serializers.ChoiceField(choices=RULES)
    picks = serializers.DictField(child=serializers.ListField(child=serializers.IntegerField()))
    rejected = serializers.ListField(child=serializers.IntegerField())
    wanted = serializers.DictField(child=serializers.FloatField())
    weights = ObjectiveValuesSerializer()
    spread = serializers.DictField(child=serializers.FloatField())
    floored = serializers.ListField(child=serializers.CharField())
    idle = serializers.ListField(child=serializers.CharField())
    activations = serializers.IntegerField(help_text="Times it came into force.")
    is_in_force = serializers.BooleanField()
    created_by = serializers.CharField()
    created_at = serializers.DateTimeField()
    generation = serializers.IntegerField()


class ActivationSerializer(serializers.Serializer[Any]):
    """Weights that came into force."""

    id = serializers.IntegerField()
    preference_set = serializers.UUIDField()
    name = serializers.CharField(help_text="Of the set.")
    weights = ObjectiveValuesSerializer()
    message = serializers.CharField()
    racks = serializers.ListField(child=serializers.CharField(), help_text="None: everywhere.")
    reverts = serializers.IntegerField(allow_null=True, help_text="The activation taken back.")
    guard = GuardSerializer(allow_null=True)
    targets_met_before = serializers.FloatField(
        allow_null=True, help_text="Share when it began, 0-1; null: none was measured."
    )
    is_in_force = serializers.BooleanField()
    created_by = serializers.CharField()
    created_at = serializers.DateTimeField()
    cluster_seconds = serializers.FloatField()


class WeightsInForceSerializer(serializers.Serializer[Any]):
    """What is in force."""

    activation = ActivationSerializer(allow_null=True, help_text="Null: nothing is.")


def represent_derivation(found: Derivation) -> dict[str, Any]:
    """JSON of what picks lead to."""
    return {
        "weights": dict(found.weights.weights),
        "spread": dict(found.weights.spread),
        "floored": list(found.weights.floored),
        "idle": list(found.weights.idle),
        "picks": found.picks,
        "sensitivity": [
            {"point": one.point, "weights": dict(one.weights), "change": one.change}
            for one in found.sensitivity
        ],
        "sentence": found.sentence,
        "warnings": list(found.warnings),
    }


def represent_check(star: Star, found: Check) -> dict[str, Any]:
    """JSON of how the solver's answer lies to the picks."""
    return {
        "star": {
            "raw": star.raw,
            "normalised": star.normalised,
            "F": star.F,
            "gap": star.gap,
            "optimal": star.optimal,
            "seconds": star.seconds,
        },
        "position": found.position,
        "distance": found.distance,
        "nearest": found.nearest,
        "unreachable": found.unreachable,
        "sentence": found.sentence,
    }


def represent_set(row: PreferenceSet, in_force: Activation | None) -> dict[str, Any]:
    """JSON of a set as `selectors.preferences.preference_sets` reads it."""
    version = row.version
    is_in_force = in_force is not None and in_force.preference_set_id == row.pk
    return {
        "id": str(row.pk),
        "name": row.name,
        "note": row.note,
        "parent": str(row.parent_id) if row.parent_id else None,
        "front": str(version.front_id) if version else None,
        "front_name": str(version.front) if version else None,
        "version": version.number if version else None,
        "rule": row.rule,
        "picks": row.picks,
        "rejected": row.rejected,
        "wanted": row.wanted,
        "weights": {name: row.weights[name] for name in OBJECTIVES},
        "spread": row.spread,
        "floored": row.floored,
        "idle": row.idle,
        "activations": row.times_activated,  # type: ignore[attr-defined]  # annotated
        "is_in_force": is_in_force,
        "created_by": row.created_by.username,
        "created_at": time(row.created_at),
        "generation": row.generation,
    }


def represent_activation(
    row: Activation, in_force: Activation | None, racks: Mapping[int, str]
) -> dict[str, Any]:
    """JSON of an activation; racks that are gone are left out."""
    guard = None
    if row.guard_drop is not None:
        guard = {"drop": row.guard_drop, "seconds": row.guard_s}
    return {
        "id": row.pk,
        "preference_set": str(row.preference_set_id),
        "name": row.preference_set.name,
        "weights": {name: row.weights[name] for name in OBJECTIVES},
        "message": row.message,
        "racks": [racks[rack] for rack in row.racks if rack in racks],
        "reverts": row.reverts_id,
        "guard": guard,
        "targets_met_before": row.met_before,
        "is_in_force": in_force is not None and in_force.pk == row.pk,
        "created_by": row.created_by.username,
        "created_at": time(row.created_at),
        "cluster_seconds": row.cluster_s,
    }
