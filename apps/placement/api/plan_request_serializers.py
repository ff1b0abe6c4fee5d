"""Serializers of what is requested of plans, previews and the loop."""

import math
from collections.abc import Mapping
from typing import Any, Final

from rest_framework import serializers

from apps.placement.api.preference_serializers import MAX_NAME, MAX_RACKS
from apps.placement.core.problem.objectives import OBJECTIVES
from apps.placement.models import LoopMode

MODES: Final = [(mode.value, mode.value) for mode in LoopMode]
MAX_MIGRATIONS: Final = 10_000  # of a plan
MAX_PREVIEW_S: Final = 60.0
MAX_SOLVE_S: Final = 20.0  # shorter than the lease of a plan request


class JobMigrationSerializer(serializers.Serializer[Any]):
    """Units of one job on one server, and the server they are to run on."""

    job = serializers.UUIDField()
    from_server = serializers.CharField(max_length=63)
    to_server = serializers.CharField(max_length=63)


class PlanRequestSerializer(serializers.Serializer[Any]):
    """A plan for the weights in force, or one that migrates a single job."""

    migration = JobMigrationSerializer(
        required=False,
        help_text="The only migration of the plan. Omitted: search for the weights in force.",
    )
    approve = serializers.BooleanField(
        default=False, help_text="With `migration`: execute it without a separate approval."
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Accept `approve` only with a migration that the caller names."""
        if attrs["approve"] and "migration" not in attrs:
            raise serializers.ValidationError({"approve": "is accepted only with migration"})
        return attrs


class RollbackRequestSerializer(serializers.Serializer[Any]):
    """Options of a rollback."""

    approve = serializers.BooleanField(
        default=False, help_text="Execute the rollback without a separate approval."
    )


def _ordinals(**options: Any) -> serializers.ListField:
    return serializers.ListField(
        child=serializers.IntegerField(min_value=0, max_value=2**31 - 1),
        max_length=MAX_MIGRATIONS,
        **options,
    )


class ApproveRequestSerializer(serializers.Serializer[Any]):
    """The plan as its approver sees it."""

    skipped = _ordinals(
        required=False,
        help_text="Ordinals of the migrations shown as left out, each for its whole bundle; 409 if"
        " the plan leaves out other bundles. Omitted: not compared.",
    )


class TrimRequestSerializer(serializers.Serializer[Any]):
    """Ordinals of the migrations to leave out and to include again."""

    skip = _ordinals(default=list)
    take = _ordinals(default=list)


class PreviewRequestSerializer(serializers.Serializer[Any]):
    """Weights to preview on the running cluster."""

    weights = serializers.DictField(child=serializers.FloatField(min_value=0.0))
    racks = serializers.ListField(
        child=serializers.CharField(max_length=MAX_NAME),
        max_length=MAX_RACKS,
        default=list,
        help_text="Racks that containers move within; empty: all.",
    )
    limit_seconds = serializers.FloatField(
        default=MAX_PREVIEW_S, min_value=0.5, max_value=MAX_PREVIEW_S
    )

    def validate_weights(self, weights: dict[str, float]) -> dict[str, float]:
        """Accept weights of P, D and C, at least one of them above 0."""
        unknown = sorted(weights.keys() - set(OBJECTIVES))
        if unknown:
            raise serializers.ValidationError(
                f"unknown: {', '.join(unknown)}; the objectives are P, D and C"
            )
        if not all(math.isfinite(weight) for weight in weights.values()):
            raise serializers.ValidationError("must be finite")
        if not any(weights.values()):
            raise serializers.ValidationError("at least one must be above 0")
        return {name: weights.get(name, 0.0) for name in OBJECTIVES}


class LoopChangeSerializer(serializers.Serializer[Any]):
    """Settings of the loop to change; omitted ones keep their values."""

    mode = serializers.ChoiceField(choices=MODES, required=False)
    every_seconds = serializers.FloatField(
        required=False, min_value=1.0, max_value=86_400.0, help_text="Cluster time."
    )
    solve_seconds = serializers.FloatField(
        required=False, min_value=0.1, max_value=MAX_SOLVE_S, help_text="Wall time."
    )
    moves_per_plan = serializers.IntegerField(
        required=False, min_value=1, max_value=MAX_MIGRATIONS
    )
    moves_per_minute = serializers.IntegerField(
        required=False,
        min_value=1,
        max_value=10_000,
        help_text="Started per cluster minute, cluster-wide.",
    )
    moves_per_job = serializers.IntegerField(
        required=False,
        min_value=1,
        max_value=1_000,
        help_text="Plans per hour that may migrate the same job.",
    )
    youngest_seconds = serializers.FloatField(
        required=False,
        min_value=0.0,
        max_value=86_400.0,
        help_text="Jobs younger than this, or expected to end within it, are not migrated.",
    )
    least_gain = serializers.FloatField(
        required=False, min_value=0.0, max_value=1.0, help_text="Minimum gain in F of a plan."
    )
    migration = serializers.FloatField(
        required=False,
        min_value=0.0,
        max_value=10.0,
        help_text="Cost in F of migrating every container once.",
    )


# API field -> model field, if they differ
LOOP_FIELDS: Final = {
    "every_seconds": "every_s",
    "solve_seconds": "solve_s",
    "youngest_seconds": "youngest_s",
}


def loop_changes(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings by model field."""
    return {LOOP_FIELDS.get(name, name): value for name, value in body.items()}
