"""Serializers of picks, preference sets and activations."""

from collections.abc import Mapping
from typing import Any, Final

from rest_framework import serializers

from apps.common.api.representations import time
from apps.placement.api.front_serializers import ObjectiveValuesSerializer
from apps.placement.core.preference.comparison import OptimumComparison, OptimumPosition
from apps.placement.core.preference.derivation import WeightDerivation
from apps.placement.core.problem.objectives import OBJECTIVES
from apps.placement.models import Activation, PreferenceSet, WeightRule
from apps.placement.services.preference.checks import SolverAnswer

RULES: Final = [(rule.value, rule.value) for rule in WeightRule]
POSITIONS: Final = [(position.value, position.value) for position in OptimumPosition]
MAX_NAME: Final = 63
MAX_TEXT: Final = 500
MAX_PICKS: Final = 2_000
MAX_RACKS: Final = 1_000
MAX_WARNING: Final = 1_000
MAX_WARNINGS: Final = 50


def _index() -> serializers.IntegerField:
    return serializers.IntegerField(min_value=0, max_value=2**31 - 1)


def _points(**options: Any) -> serializers.ListField:
    return serializers.ListField(child=_index(), max_length=MAX_PICKS, **options)


class PickingSerializer(serializers.Serializer[Any]):
    """Accepted points of a front, and the rule that derives weights from them."""

    front = serializers.CharField(
        required=False,
        max_length=36,
        help_text="Id or name; required unless the rule is `direct`.",
    )
    version = serializers.IntegerField(
        required=False, min_value=1, max_value=2**31 - 1, help_text="The latest if omitted."
    )
    rule = serializers.ChoiceField(choices=RULES, default=WeightRule.SPREAD.value)
    picks = serializers.DictField(
        child=_points(),
        required=False,
        help_text="Accepted points by screen: P-D, P-C, D-C, or two other objectives. All count"
        " for the weights; a set needs three points on each of P-D, P-C and D-C.",
    )
    rejected = _points(required=False)
    wanted = serializers.DictField(
        child=serializers.FloatField(),
        required=False,
        help_text="Normalised values (`reference`) or weights (`direct`), by objective.",
    )
    bounds = serializers.DictField(
        child=serializers.FloatField(),
        required=False,
        help_text="Normalised, by objective: the smallest value of D, the largest of any other.",
    )


class PreferenceSetRequestSerializer(PickingSerializer):
    """A preference set to create."""

    name = serializers.CharField(max_length=MAX_NAME)
    note = serializers.CharField(max_length=MAX_TEXT, allow_blank=True, default="")
    parent = serializers.UUIDField(  # type: ignore[assignment]  # shadows Field.parent
        required=False, allow_null=True
    )


class PreferenceSetEditSerializer(serializers.Serializer[Any]):
    """A new name or note."""

    name = serializers.CharField(max_length=MAX_NAME, required=False)
    note = serializers.CharField(max_length=MAX_TEXT, allow_blank=True, required=False)


class PairSerializer(serializers.Serializer[Any]):
    """Two placements of a front."""

    front = serializers.CharField(max_length=36)
    version = serializers.IntegerField(required=False, min_value=1, max_value=2**31 - 1)
    points = serializers.ListField(child=_index(), min_length=2, max_length=2)


class GuardSerializer(serializers.Serializer[Any]):
    """Condition for reverting weights automatically."""

    drop = serializers.FloatField(
        min_value=0.001, max_value=1.0, help_text="Minimum drop in the share of targets met, 0-1."
    )
    seconds = serializers.FloatField(
        min_value=1.0, max_value=1e7, default=600.0, help_text="Cluster time the drop must last."
    )


class ActivationRequestSerializer(serializers.Serializer[Any]):
    """Reason, racks, guard and accepted warnings of an activation."""

    message = serializers.CharField(max_length=MAX_TEXT)
    racks = serializers.ListField(
        child=serializers.CharField(max_length=MAX_NAME),
        max_length=MAX_RACKS,
        default=list,
        help_text="Names of the racks the weights are limited to; empty: all.",
    )
    guard = GuardSerializer(required=False, allow_null=True)
    accepted_warnings = serializers.ListField(
        child=serializers.CharField(max_length=MAX_WARNING),
        max_length=MAX_WARNINGS,
        default=list,
        help_text="Warnings that the user has accepted; stored in the audit log.",
    )


class RevertSerializer(serializers.Serializer[Any]):
    """Reason of a revert."""

    message = serializers.CharField(max_length=MAX_TEXT)


class SensitivitySerializer(serializers.Serializer[Any]):
    """Weights without one pick, and the largest change of a weight."""

    point = serializers.IntegerField()
    weights = ObjectiveValuesSerializer()
    change = serializers.FloatField()


class DerivationSerializer(serializers.Serializer[Any]):
    """Derived weights with their sensitivity and warnings."""

    weights = ObjectiveValuesSerializer()
    spread = serializers.DictField(
        child=serializers.FloatField(),
        help_text="Standard deviation of the picks or distance to the best, by objective.",
    )
    floored = serializers.ListField(child=serializers.CharField())
    idle = serializers.ListField(child=serializers.CharField())
    picks = serializers.IntegerField(help_text="Number of distinct accepted placements.")
    sensitivity = SensitivitySerializer(many=True)
    sentence = serializers.CharField()
    warnings = serializers.ListField(child=serializers.CharField())


class SolverAnswerSerializer(serializers.Serializer[Any]):
    """Placement that the solver returns under the weights."""

    raw = ObjectiveValuesSerializer()
    normalised = ObjectiveValuesSerializer()
    objectives = serializers.DictField(
        child=serializers.FloatField(),
        help_text="Normalised value by every other objective that has values for all racks.",
    )
    F = serializers.FloatField()
    gap = serializers.FloatField(allow_null=True, help_text="Null: no bound is known.")
    optimal = serializers.BooleanField()
    seconds = serializers.FloatField()


class PickingCheckSerializer(serializers.Serializer[Any]):
    """Comparison of the solver's answer with the picks."""

    star = SolverAnswerSerializer()
    position = serializers.ChoiceField(
        choices=POSITIONS, allow_null=True, help_text="Null: there are no picks."
    )
    distance = serializers.FloatField(
        allow_null=True, help_text="Distance to the centre of the picks."
    )
    nearest = serializers.IntegerField(help_text="Index of the nearest point of the front.")
    unreachable = serializers.ListField(
        child=serializers.IntegerField(), help_text="Picks that no weights return."
    )
    sentence = serializers.CharField()
    broken = serializers.ListField(
        child=serializers.CharField(), help_text="Objectives whose bound the answer breaks."
    )
    bounded = serializers.IntegerField(
        allow_null=True,
        help_text="Point of the front with the smallest weighted sum within the bounds; null:"
        " there are no bounds, or no point keeps them.",
    )


class IntermediatePointsSerializer(serializers.Serializer[Any]):
    """Points between two points, ordered from the first to the second."""

    front = serializers.UUIDField()
    version = serializers.IntegerField()
    points = serializers.ListField(child=serializers.IntegerField())


class PreferenceSetSerializer(serializers.Serializer[Any]):
    """Picks, their rule and the derived weights."""

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
    bounds = serializers.DictField(child=serializers.FloatField())
    weights = ObjectiveValuesSerializer()
    spread = serializers.DictField(child=serializers.FloatField())
    floored = serializers.ListField(child=serializers.CharField())
    idle = serializers.ListField(child=serializers.CharField())
    activations = serializers.IntegerField(help_text="Number of activations.")
    is_in_force = serializers.BooleanField()
    created_by = serializers.CharField()
    created_at = serializers.DateTimeField()
    generation = serializers.IntegerField()


class ActivationSerializer(serializers.Serializer[Any]):
    """An activation of weights."""

    id = serializers.IntegerField()
    preference_set = serializers.UUIDField()
    name = serializers.CharField(help_text="Name of the preference set.")
    weights = ObjectiveValuesSerializer()
    message = serializers.CharField()
    racks = serializers.ListField(child=serializers.CharField(), help_text="Empty: all.")
    reverts = serializers.IntegerField(allow_null=True, help_text="The reverted activation.")
    guard = GuardSerializer(allow_null=True)
    targets_met_before = serializers.FloatField(
        allow_null=True, help_text="Share at the activation, 0-1; null: no job was measured."
    )
    is_in_force = serializers.BooleanField()
    created_by = serializers.CharField()
    created_at = serializers.DateTimeField()
    cluster_seconds = serializers.FloatField()


class WeightsInForceSerializer(serializers.Serializer[Any]):
    """The activation in force."""

    activation = ActivationSerializer(allow_null=True, help_text="Null: no weights are in force.")


def represent_derivation(derivation: WeightDerivation) -> dict[str, Any]:
    """Return derived weights as JSON."""
    return {
        "weights": dict(derivation.weights.weights),
        "spread": dict(derivation.weights.spread),
        "floored": list(derivation.weights.floored),
        "idle": list(derivation.weights.idle),
        "picks": derivation.picks,
        "sensitivity": [
            {"point": item.point, "weights": dict(item.weights), "change": item.change}
            for item in derivation.sensitivity
        ],
        "sentence": derivation.sentence,
        "warnings": list(derivation.warnings),
    }


def represent_check(solved: SolverAnswer, check: OptimumComparison) -> dict[str, Any]:
    """Return the comparison of the solver's answer with the picks as JSON."""
    return {
        "star": {
            "raw": solved.raw,
            "normalised": solved.normalised,
            "objectives": solved.others,
            "F": solved.F,
            "gap": solved.gap,
            "optimal": solved.optimal,
            "seconds": solved.seconds,
        },
        "position": check.position,
        "distance": check.distance,
        "nearest": check.nearest,
        "unreachable": check.unreachable,
        "sentence": check.sentence,
        "broken": list(check.broken),
        "bounded": check.bounded,
    }


def represent_set(row: PreferenceSet, in_force: Activation | None) -> dict[str, Any]:
    """Return a set read by `selectors.preferences.preference_sets` as JSON."""
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
        "bounds": row.bounds,
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
    """Return an activation as JSON, without racks that no longer exist."""
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
