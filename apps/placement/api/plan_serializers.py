"""Plans, their moves, previews and the loop as the API reads and shows them."""

import math
from collections.abc import Iterable, Mapping
from typing import Any, Final

from rest_framework import serializers

from apps.common.representations import time
from apps.inventory.selectors import server_names
from apps.placement.core.live import OBJECTIVES
from apps.placement.core.plan_states import possible
from apps.placement.core.verdicts import Ended, realised_share, saved
from apps.placement.models import Cause, Loop, Mode, Move, MoveState, Plan, PlanState, Purpose
from apps.placement.selectors import plans as selectors
from apps.placement.services.previews import Preview, PreviewState

STATES: Final = [(state.value, state.value) for state in PlanState]
CAUSES: Final = [(cause.value, cause.value) for cause in Cause]
MOVE_STATES: Final = [(state.value, state.value) for state in MoveState]
PURPOSES: Final = [(purpose.value, purpose.value) for purpose in Purpose]
MODES: Final = [(mode.value, mode.value) for mode in Mode]
PREVIEW_STATES: Final = [(state.value, state.value) for state in PreviewState]
BULKY: Final = ("jobs",)  # of a prediction; lists leave them out
LONGEST_S: Final = 60.0
LONGEST_SOLVE_S: Final = 20.0  # within the lease of the operation that makes a plan


# ---- what is sent ----


class PlanRequestSerializer(serializers.Serializer[Any]):
    """A plan by the weights in force; nothing is asked."""


class RollbackRequestSerializer(serializers.Serializer[Any]):
    """How a plan is taken back."""

    approve = serializers.BooleanField(
        default=False, help_text="Carry the reverse plan out without asking again."
    )


class ApproveRequestSerializer(serializers.Serializer[Any]):
    """What whoever approves a plan sees of it."""

    skipped = serializers.ListField(
        child=serializers.IntegerField(min_value=0),
        required=False,
        help_text="Ordinals seen as left out, each for its whole bundle: 409 where the plan"
        " leaves out others. Not sent: not compared.",
    )


class ChoiceRequestSerializer(serializers.Serializer[Any]):
    """Which moves to leave out, and which to take in again; ordinals."""

    skip = serializers.ListField(child=serializers.IntegerField(min_value=0), default=list)
    take = serializers.ListField(child=serializers.IntegerField(min_value=0), default=list)


class PreviewRequestSerializer(serializers.Serializer[Any]):
    """Weights to look at on the cluster that runs."""

    weights = serializers.DictField(child=serializers.FloatField(min_value=0.0))
    racks = serializers.ListField(
        child=serializers.CharField(), default=list, help_text="Only there; none: everywhere."
    )
    limit_seconds = serializers.FloatField(default=LONGEST_S, min_value=0.5, max_value=LONGEST_S)

    def validate_weights(self, weights: dict[str, float]) -> dict[str, float]:
        """Take weights of the three objectives, one of them at least above 0."""
        unknown = sorted(weights.keys() - set(OBJECTIVES))
        if unknown:
            raise serializers.ValidationError(f"known are P, D and C, not {', '.join(unknown)}")
        if not all(math.isfinite(weight) for weight in weights.values()):
            raise serializers.ValidationError("must be finite")
        if not any(weights.values()):
            raise serializers.ValidationError("one must be above 0")
        return {name: weights.get(name, 0.0) for name in OBJECTIVES}


class LoopChangeSerializer(serializers.Serializer[Any]):
    """Settings of the loop to change; what is left out stays."""

    mode = serializers.ChoiceField(choices=MODES, required=False)
    every_seconds = serializers.FloatField(
        required=False, min_value=1.0, max_value=86_400.0, help_text="Cluster time."
    )
    solve_seconds = serializers.FloatField(
        required=False, min_value=0.1, max_value=LONGEST_SOLVE_S, help_text="Wall time."
    )
    moves_per_plan = serializers.IntegerField(required=False, min_value=1, max_value=10_000)
    moves_per_minute = serializers.IntegerField(
        required=False, min_value=1, max_value=10_000, help_text="Begun, over the whole cluster."
    )
    moves_per_job = serializers.IntegerField(
        required=False, min_value=1, max_value=1_000, help_text="Plans that move one job an hour."
    )
    youngest_seconds = serializers.FloatField(
        required=False,
        min_value=0.0,
        max_value=86_400.0,
        help_text="Jobs that run for less, or end within, are left alone.",
    )
    least_gain = serializers.FloatField(
        required=False, min_value=0.0, max_value=1.0, help_text="Of F, for a plan to be proposed."
    )
    migration = serializers.FloatField(
        required=False,
        min_value=0.0,
        max_value=10.0,
        help_text="What moving every container once would cost, in F.",
    )


# field of the API -> of the model, where they differ
_LOOP_FIELDS: Final = {
    "every_seconds": "every_s",
    "solve_seconds": "solve_s",
    "youngest_seconds": "youngest_s",
}


def loop_changes(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings by field of the model."""
    return {_LOOP_FIELDS.get(name, name): value for name, value in body.items()}


# ---- what is shown ----


class PlanReferenceSerializer(serializers.Serializer[Any]):
    """Something by id and name."""

    id = serializers.UUIDField()
    name = serializers.CharField()


class MoveCountsSerializer(serializers.Serializer[Any]):
    """How many moves stand where."""

    total = serializers.IntegerField()
    waiting = serializers.IntegerField()
    moving = serializers.IntegerField()
    done = serializers.IntegerField()
    skipped = serializers.IntegerField(help_text="Left out, or passed over on the way.")
    left_out = serializers.IntegerField(help_text="Of those skipped: before it began.")
    failed = serializers.IntegerField()
    cancelled = serializers.IntegerField()


class PlanSerializer(serializers.Serializer[Any]):
    """Moves that bring the cluster nearer to the weights in force, and what came of them."""

    id = serializers.UUIDField()
    name = serializers.CharField(help_text="Such as p-0012; good as an address too.")
    state = serializers.ChoiceField(choices=STATES)
    cause = serializers.ChoiceField(choices=CAUSES)
    actions = serializers.ListField(
        child=serializers.CharField(), help_text="What can be done with it now."
    )
    weights = serializers.DictField(child=serializers.FloatField())
    preference_set = PlanReferenceSerializer(allow_null=True)
    reverses = PlanReferenceSerializer(allow_null=True, help_text="The plan it takes back.")
    moves = MoveCountsSerializer()
    predicted = serializers.DictField(
        help_text="Before and after, moves, the time they stand still, and, of one plan, jobs."
    )
    realised = serializers.DictField(allow_null=True, help_text="The same measures, afterwards.")
    verdict = serializers.CharField(allow_blank=True)
    message = serializers.CharField(allow_blank=True, help_text="Why it stands where it does.")
    gap = serializers.FloatField(help_text="(F − bound)/(F + weight of D) of what it leads to.")
    search_seconds = serializers.FloatField(help_text="Wall time.")
    created_at = serializers.DateTimeField()
    created_by = serializers.CharField(allow_null=True, help_text="Null: the loop.")
    approved_by = serializers.CharField(allow_null=True)
    cluster_seconds = serializers.FloatField(help_text="When it was made, in cluster time.")
    approved_cluster_seconds = serializers.FloatField(allow_null=True)
    began_cluster_seconds = serializers.FloatField(allow_null=True)
    ended_cluster_seconds = serializers.FloatField(allow_null=True)
    snapshot = serializers.IntegerField(help_text="Change of the cluster it was made from.")
    generation = serializers.IntegerField()


class StepSerializer(serializers.Serializer[Any]):
    """One container from one server to another."""

    ordinal = serializers.IntegerField(help_text="Carried out in this order, from 0.")
    bundle = serializers.IntegerField(help_text="Moves of a bundle make sense only together.")
    purpose = serializers.ChoiceField(choices=PURPOSES)
    about = serializers.CharField(help_text="The server emptied, or the job helped.")
    job = PlanReferenceSerializer()
    allocation = serializers.IntegerField()
    from_server = serializers.CharField()
    to_server = serializers.CharField()
    units = serializers.IntegerField()
    gain = serializers.FloatField(help_text="Of F, by its whole bundle.")
    state = serializers.ChoiceField(choices=MOVE_STATES)
    message = serializers.CharField(allow_blank=True)
    migration = serializers.IntegerField(allow_null=True)
    predicted_seconds = serializers.FloatField(help_text="Cluster time it stands still.")
    began_cluster_seconds = serializers.FloatField(allow_null=True)
    ended_cluster_seconds = serializers.FloatField(allow_null=True)


class ChosenSerializer(serializers.Serializer[Any]):
    """A plan after moves were left out or taken in, and what that brought with it."""

    plan = PlanSerializer()
    skipped = serializers.ListField(child=serializers.IntegerField(), help_text="Ordinals.")
    notes = serializers.ListField(child=serializers.CharField())


class VerificationSerializer(serializers.Serializer[Any]):
    """What was predicted against what came of it."""

    plan = PlanReferenceSerializer()
    state = serializers.ChoiceField(choices=STATES)
    verdict = serializers.CharField(allow_blank=True)
    predicted = serializers.DictField()
    realised = serializers.DictField(
        allow_null=True, help_text="`before` is the cluster now with its containers put back."
    )
    predicted_gain = serializers.FloatField(help_text="Of F.")
    realised_gain = serializers.FloatField(allow_null=True)
    share = serializers.FloatField(allow_null=True, help_text="Realised over predicted.")


class PreviewSerializer(serializers.Serializer[Any]):
    """What weights would do to the cluster that runs; nothing is written."""

    id = serializers.UUIDField()
    state = serializers.ChoiceField(choices=PREVIEW_STATES)
    answer = serializers.DictField(allow_null=True, help_text="Null before the first.")
    problem = serializers.CharField(allow_blank=True)


class LoopSerializer(serializers.Serializer[Any]):
    """How the cluster is re-placed, and what the loop found last."""

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
    finding = serializers.CharField(allow_blank=True, help_text="Of the last look.")
    generation = serializers.IntegerField()


def represent_plan(plan: Plan, *, is_whole: bool = True) -> dict[str, Any]:
    """JSON of a plan; it is one of `selectors.plans`."""
    predicted = {k: v for k, v in plan.predicted.items() if is_whole or k not in BULKY}
    counts = {state.value: getattr(plan, f"moves_{state.value}") for state in MoveState}
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
            "left_out": getattr(plan, "moves_left_out"),  # noqa: B009 - annotated
        },
        "predicted": predicted,
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
    """Return what a person can do with a plan now, as the addresses are called."""
    can = {"approve", "pause", "resume", "cancel"} & {str(a) for a in possible(plan.state)}
    if plan.ended_s is not None and getattr(plan, "moves_done", False):
        can.add("rollback")
    return sorted(can)


def _named(row: Any) -> dict[str, str] | None:
    return None if row is None else {"id": str(row.pk), "name": str(row)}


def represent_steps(moves: Iterable[Move]) -> list[dict[str, Any]]:
    """JSON of moves, their jobs loaded."""
    rows = list(moves)
    names = server_names(s for m in rows for s in (m.from_server_id, m.to_server_id))
    return [_step(move, names) for move in rows]


def _step(move: Move, servers: Mapping[int, str]) -> dict[str, Any]:
    return {
        "ordinal": move.ordinal,
        "bundle": move.bundle,
        "purpose": str(move.purpose),
        "about": move.about,
        "job": {"id": str(move.job_id), "name": move.job.name},
        "allocation": move.allocation_id,
        "from_server": servers.get(move.from_server_id, f"#{move.from_server_id}"),
        "to_server": servers.get(move.to_server_id, f"#{move.to_server_id}"),
        "units": move.units,
        "gain": move.gain,
        "state": str(move.state),
        "message": move.message,
        "migration": move.migration_id,
        "predicted_seconds": move.predicted_s,
        "began_cluster_seconds": move.began_s,
        "ended_cluster_seconds": move.ended_s,
    }


def represent_verification(plan: Plan) -> dict[str, Any]:
    """JSON of what was predicted against what came of it."""
    realised = plan.realised
    ended = Ended(plan.predicted, realised or {})
    was_measured = bool(realised and realised.get("after"))
    return {
        "plan": _named(plan),
        "state": str(plan.state),
        "verdict": plan.verdict,
        "predicted": {k: v for k, v in plan.predicted.items() if k not in BULKY},
        "realised": realised,
        "predicted_gain": saved(plan.predicted, "F"),
        "realised_gain": saved(realised or {}, "F") if was_measured else None,
        "share": realised_share(ended) if was_measured else None,
    }


def represent_preview(preview: Preview) -> dict[str, Any]:
    """JSON of a preview."""
    return {
        "id": str(preview.id),
        "state": preview.state.value,
        "answer": preview.answer,
        "problem": preview.problem,
    }


def represent_loop(row: Loop) -> dict[str, Any]:
    """JSON of the loop's settings and of its last finding."""
    look = selectors.last_look()
    settings: list[str] = list(LoopChangeSerializer().get_fields())
    return {
        **{name: getattr(row, _LOOP_FIELDS.get(name, name)) for name in settings},
        "mode": str(row.mode),
        "looked_cluster_seconds": row.looked_s,
        "finding": look.data["finding"] if look else "",
        "generation": row.generation,
    }
