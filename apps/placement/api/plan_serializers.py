"""Serializers of plans, their migrations, previews and the loop, as the API returns them."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from rest_framework import serializers

from apps.common.api.representations import time
from apps.execution.core.migration import restart_s
from apps.inventory.core.backends import Move
from apps.inventory.selectors import server_names
from apps.placement.api.plan_request_serializers import LOOP_FIELDS, MODES, LoopChangeSerializer
from apps.placement.core.rebalancing import changes
from apps.placement.core.rebalancing.lifecycle import PlanState, possible_actions
from apps.placement.core.rebalancing.verdicts import FinishedPlan, realised_share, reduction
from apps.placement.models import (
    MigrationPurpose,
    Plan,
    PlanCause,
    PlannedMigration,
    PlannedMigrationState,
    RebalancingLoop,
)
from apps.placement.selectors import plans as selectors
from apps.placement.services.rebalancing.previews import PreviewState, RebalancingPreview

STATES: Final = [(state.value, state.value) for state in PlanState]
CAUSES: Final = [(cause.value, cause.value) for cause in PlanCause]
MIGRATION_STATES: Final = [(state.value, state.value) for state in PlannedMigrationState]
PURPOSES: Final = [(purpose.value, purpose.value) for purpose in MigrationPurpose]
MOVES: Final = [(move.value, move.value) for move in (Move.LIVE, Move.RESTART)]
CHANGES: Final = [(change, change) for change in (changes.DROPPED, changes.REWRITTEN)]
PREVIEW_STATES: Final = [(state.value, state.value) for state in PreviewState]
BULKY: Final = ("jobs",)  # parts of a prediction that lists omit


class PlanReferenceSerializer(serializers.Serializer[Any]):
    """A reference by id and name."""

    id = serializers.UUIDField()
    name = serializers.CharField()


class MigrationCountsSerializer(serializers.Serializer[Any]):
    """Number of migrations by state."""

    total = serializers.IntegerField()
    waiting = serializers.IntegerField()
    moving = serializers.IntegerField()
    done = serializers.IntegerField()
    skipped = serializers.IntegerField(
        help_text="Left out or dropped before the plan began, or skipped during execution."
    )
    left_out = serializers.IntegerField(
        help_text="Of the skipped ones: left out by a user, or dropped by a re-base, before the"
        " plan began."
    )
    failed = serializers.IntegerField()
    cancelled = serializers.IntegerField()


class BundleChangeSerializer(serializers.Serializer[Any]):
    """A bundle that was dropped or rewritten since the plan was proposed."""

    bundle = serializers.IntegerField()
    change = serializers.ChoiceField(
        choices=[(c, c) for c in (changes.DROPPED, changes.REWRITTEN)]
    )
    reason = serializers.CharField()
    purpose = serializers.ChoiceField(choices=PURPOSES)
    about = serializers.CharField(help_text="Server to empty, or job to improve.")
    gain = serializers.FloatField(help_text="Gain in F of the bundle before the change.")
    cluster_seconds = serializers.FloatField()


class ProposedEffectSerializer(serializers.Serializer[Any]):
    """What a plan promised when it was proposed, or when its migrations were last selected."""

    before = serializers.DictField()
    after = serializers.DictField()
    moves = serializers.IntegerField()
    bundles = serializers.IntegerField()


class PlanSerializer(serializers.Serializer[Any]):
    """Migrations that improve the placement under the weights in force, and their outcome."""

    id = serializers.UUIDField()
    name = serializers.CharField(help_text="For example p-0012; also accepted in URLs.")
    state = serializers.ChoiceField(choices=STATES)
    cause = serializers.ChoiceField(choices=CAUSES)
    actions = serializers.ListField(
        child=serializers.CharField(), help_text="Actions that are possible now."
    )
    weights = serializers.DictField(child=serializers.FloatField())
    preference_set = PlanReferenceSerializer(allow_null=True)
    reverses = PlanReferenceSerializer(allow_null=True, help_text="The plan that it rolls back.")
    moves = MigrationCountsSerializer()
    predicted = serializers.DictField(
        help_text="Measures before and after, migrations, downtime, and (single plan only) jobs,"
        " on the cluster that the plan was last based on."
    )
    proposed = ProposedEffectSerializer()
    rebased_at = serializers.DateTimeField(
        allow_null=True,
        help_text="When its bundles were last evaluated again on the running cluster.",
    )
    rebased_cluster_seconds = serializers.FloatField(allow_null=True)
    changes = BundleChangeSerializer(many=True, help_text="Since it was proposed, by bundle.")
    gain_left = serializers.FloatField(
        allow_null=True,
        help_text="Predicted gain over proposed gain; null: no gain was proposed.",
    )
    difference = serializers.CharField(
        allow_blank=True, help_text="What changed since it was proposed; empty: never re-based."
    )
    realised = serializers.DictField(
        allow_null=True, help_text="The same measures after the plan ended."
    )
    verdict = serializers.CharField(allow_blank=True)
    message = serializers.CharField(allow_blank=True, help_text="Reason for the current state.")
    gap = serializers.FloatField(help_text="(F − bound)/(F + weight of D) after the plan.")
    search_seconds = serializers.FloatField(help_text="Wall time.")
    created_at = serializers.DateTimeField()
    created_by = serializers.CharField(allow_null=True, help_text="Null: created by the loop.")
    approved_by = serializers.CharField(allow_null=True)
    cluster_seconds = serializers.FloatField(help_text="Cluster time of its creation.")
    approved_cluster_seconds = serializers.FloatField(allow_null=True)
    began_cluster_seconds = serializers.FloatField(allow_null=True)
    ended_cluster_seconds = serializers.FloatField(allow_null=True)
    snapshot = serializers.IntegerField(
        help_text="Change-log number of the cluster it was computed from."
    )
    generation = serializers.IntegerField()


class PlannedMigrationSerializer(serializers.Serializer[Any]):
    """Migration of one container to another server."""

    ordinal = serializers.IntegerField(help_text="Order of execution, from 0.")
    bundle = serializers.IntegerField(help_text="Bundles are carried out whole or not at all.")
    purpose = serializers.ChoiceField(choices=PURPOSES)
    about = serializers.CharField(help_text="Server to empty, or job to improve.")
    job = PlanReferenceSerializer()
    allocation = serializers.IntegerField()
    from_server = serializers.CharField()
    to_server = serializers.CharField()
    units = serializers.IntegerField()
    gain = serializers.FloatField(help_text="Gain in F of the whole bundle.")
    state = serializers.ChoiceField(choices=MIGRATION_STATES)
    message = serializers.CharField(allow_blank=True)
    migration = serializers.IntegerField(allow_null=True)
    predicted_seconds = serializers.FloatField(
        help_text="Predicted downtime in cluster time; of a restart with the work to repeat."
    )
    move = serializers.ChoiceField(
        choices=MOVES, help_text="restart: the job is stopped, and starts again on the new server."
    )
    lost_seconds = serializers.FloatField(
        help_text="Work that a restart loses, in cluster time: until it begins, as of now."
    )
    began_cluster_seconds = serializers.FloatField(allow_null=True)
    ended_cluster_seconds = serializers.FloatField(allow_null=True)


class TrimmedPlanSerializer(serializers.Serializer[Any]):
    """A trimmed plan, and notes on further migrations left out or included."""

    plan = PlanSerializer()
    skipped = serializers.ListField(child=serializers.IntegerField(), help_text="Ordinals.")
    notes = serializers.ListField(child=serializers.CharField())


class VerificationSerializer(serializers.Serializer[Any]):
    """Predicted and realised effect of a plan."""

    plan = PlanReferenceSerializer()
    state = serializers.ChoiceField(choices=STATES)
    verdict = serializers.CharField(allow_blank=True)
    predicted = serializers.DictField()
    realised = serializers.DictField(
        allow_null=True,
        help_text="`before` is the current cluster with the migrated containers put back.",
    )
    predicted_gain = serializers.FloatField(help_text="In F.")
    realised_gain = serializers.FloatField(allow_null=True)
    share = serializers.FloatField(allow_null=True, help_text="Realised gain over predicted gain.")


class PreviewSerializer(serializers.Serializer[Any]):
    """Predicted effect of weights on the running cluster; writes nothing."""

    id = serializers.UUIDField()
    state = serializers.ChoiceField(choices=PREVIEW_STATES)
    answer = serializers.DictField(allow_null=True, help_text="Null until there is an answer.")
    problem = serializers.CharField(allow_blank=True)


class LoopSerializer(serializers.Serializer[Any]):
    """Settings and last finding of the rebalancing loop."""

    mode = serializers.ChoiceField(choices=MODES)
    every_seconds = serializers.FloatField()
    solve_seconds = serializers.FloatField()
    moves_per_plan = serializers.IntegerField()
    moves_per_minute = serializers.IntegerField()
    moves_per_job = serializers.IntegerField()
    youngest_seconds = serializers.FloatField()
    least_gain = serializers.FloatField()
    migration = serializers.FloatField()
    looked_cluster_seconds = serializers.FloatField()
    finding = serializers.CharField(allow_blank=True, help_text="Finding of the last tick.")
    generation = serializers.IntegerField()


def represent_plan(plan: Plan, *, is_whole: bool = True) -> dict[str, Any]:
    """Return a plan read by `selectors.plans` as JSON."""
    predicted = {k: v for k, v in plan.predicted.items() if is_whole or k not in BULKY}
    counts = {
        state.value: getattr(plan, f"migrations_{state.value}") for state in PlannedMigrationState
    }
    return {
        "id": str(plan.pk),
        "name": str(plan),
        "state": str(plan.state),
        "cause": str(plan.cause),
        "actions": actions_of(plan),
        "weights": plan.weights,
        "preference_set": _named(plan.preference_set),
        "reverses": _named(plan.reverses),
        "moves": {
            "total": sum(counts.values()),
            **counts,
            "left_out": getattr(plan, "migrations_left_out"),  # noqa: B009 - annotated
        },
        "predicted": predicted,
        "proposed": {
            **{side: plan.proposed.get(side, {}) for side in ("before", "after")},
            **{name: plan.proposed.get(name, 0) for name in ("moves", "bundles")},
        },
        "rebased_at": None if plan.rebased_at is None else time(plan.rebased_at),
        "rebased_cluster_seconds": plan.rebased_s,
        "changes": plan.changes,
        "gain_left": changes.gain_left(plan.proposed, plan.predicted),
        "difference": selectors.difference(plan),
        "realised": plan.realised,
        "verdict": plan.verdict,
        "message": plan.message,
        "gap": plan.gap,
        "search_seconds": plan.seconds,
        "created_at": time(plan.created_at),
        "created_by": plan.created_by.username if plan.created_by else None,
        "approved_by": plan.approved_by.username if plan.approved_by else None,
        "cluster_seconds": plan.cluster_s,
        "approved_cluster_seconds": plan.approved_s,
        "began_cluster_seconds": plan.began_s,
        "ended_cluster_seconds": plan.ended_s,
        "snapshot": plan.snapshot,
        "generation": plan.generation,
    }


def actions_of(plan: Plan) -> list[str]:
    """Return the actions a user can take now, named as in the URLs."""
    actions = {"approve", "pause", "resume", "cancel"} & {
        str(a) for a in possible_actions(plan.state)
    }
    if plan.ended_s is not None and getattr(plan, "migrations_done", False):
        actions.add("rollback")
    return sorted(actions)


def _named(row: Any) -> dict[str, str] | None:
    return None if row is None else {"id": str(row.pk), "name": str(row)}


def represent_migrations(migrations: Iterable[PlannedMigration]) -> list[dict[str, Any]]:
    """Return migrations, loaded with their jobs, as JSON."""
    rows = list(migrations)
    names = server_names(s for m in rows for s in (m.from_server_id, m.to_server_id))
    losses = selectors.restart_losses(rows)
    return [_migration(row, names, losses.get(row.pk)) for row in rows]


def _migration(
    row: PlannedMigration, servers: Mapping[int, str], lost: float | None
) -> dict[str, Any]:
    return {
        "ordinal": row.ordinal,
        "bundle": row.bundle,
        "purpose": str(row.purpose),
        "about": row.about,
        "job": {"id": str(row.job_id), "name": row.job.name},
        "allocation": row.allocation_id,
        "from_server": servers.get(row.from_server_id, f"#{row.from_server_id}"),
        "to_server": servers.get(row.to_server_id, f"#{row.to_server_id}"),
        "units": row.units,
        "gain": row.gain,
        "state": str(row.state),
        "message": row.message,
        "migration": row.migration_id,
        "predicted_seconds": row.predicted_s if lost is None else restart_s(lost),
        "move": str(Move.LIVE if lost is None else Move.RESTART),
        "lost_seconds": lost or 0.0,
        "began_cluster_seconds": row.began_s,
        "ended_cluster_seconds": row.ended_s,
    }


def represent_verification(plan: Plan) -> dict[str, Any]:
    """Return the predicted and realised effect of a plan as JSON."""
    realised = plan.realised
    ended = FinishedPlan(plan.predicted, realised or {})
    was_measured = bool(realised and realised.get("after"))
    return {
        "plan": _named(plan),
        "state": str(plan.state),
        "verdict": plan.verdict,
        "predicted": {k: v for k, v in plan.predicted.items() if k not in BULKY},
        "realised": realised,
        "predicted_gain": reduction(plan.predicted, "F"),
        "realised_gain": reduction(realised or {}, "F") if was_measured else None,
        "share": realised_share(ended) if was_measured else None,
    }


def represent_preview(preview: RebalancingPreview) -> dict[str, Any]:
    """Return a preview as JSON."""
    return {
        "id": str(preview.id),
        "state": preview.state.value,
        "answer": preview.answer,
        "problem": preview.problem,
    }


def represent_loop(row: RebalancingLoop) -> dict[str, Any]:
    """Return the settings and the last finding of the loop as JSON."""
    event = selectors.last_tick_event()
    settings: list[str] = list(LoopChangeSerializer().get_fields())
    return {
        **{name: getattr(row, LOOP_FIELDS.get(name, name)) for name in settings},
        "mode": str(row.mode),
        "looked_cluster_seconds": row.looked_s,
        "finding": event.data["finding"] if event else "",
        "generation": row.generation,
    }
