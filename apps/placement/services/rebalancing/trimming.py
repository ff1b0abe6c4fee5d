"""Leave migrations of a plan out, or include them again, and predict the effect again."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from django.db import transaction

from apps.accounts.services import record_act
from apps.common.core.errors import ConflictError, FieldProblem, InvalidInputError
from apps.common.core.preconditions import require_generation
from apps.operations.services import record_events
from apps.placement.core.rebalancing.executor import bundles_without_room
from apps.placement.core.rebalancing.lifecycle import PlanState
from apps.placement.models import Plan, PlannedMigration, PlannedMigrationState
from apps.placement.selectors import plans as selectors
from apps.placement.services.rebalancing.planner import (
    PlanPrediction,
    StalePlanError,
    predict_effect,
)
from apps.placement.services.rebalancing.plans import (
    PlanSupersededError,
    lock_plan,
    plan_act,
    plan_event,
    proposal_summary,
    save_plan,
)

_MAX_ATTEMPTS: Final = 3  # of a change while workers re-base the plan


class RebasedMeanwhileError(ConflictError):
    """The plan was re-based since it was read."""


@dataclass(frozen=True, slots=True)
class TrimResult:
    """A trimmed plan, the ordinals left out, and notes on side effects of the request."""

    plan: Plan
    skipped: frozenset[int]
    notes: tuple[str, ...]


def trim_plan(
    plan_id: UUID,
    *,
    skip: Collection[int],
    take: Collection[int],
    by: str,
    expected: int | None = None,
) -> TrimResult:
    """Leave bundles out of a plan that awaits approval, or include them again.

    The effect is predicted again, on the cluster as it is now and outside of a transaction.

    Parameters
    ----------
    skip, take : ordinals to leave out and to include, each for its whole bundle
    by : name of the user

    Raises
    ------
    PlanSupersededError : all of its containers ended or moved.
    ConflictError : it does not await approval, or another user changes it at the same time.
    """
    for _ in range(_MAX_ATTEMPTS - 1):
        with suppress(RebasedMeanwhileError):
            return _trim(plan_id, skip=skip, take=take, by=by, expected=expected)
    return _trim(plan_id, skip=skip, take=take, by=by, expected=expected)


def _trim(
    plan_id: UUID,
    *,
    skip: Collection[int],
    take: Collection[int],
    by: str,
    expected: int | None,
) -> TrimResult:
    plan = selectors.plan_by_key(plan_id)
    require_generation(expected, plan.generation)
    if plan.state != PlanState.PROPOSED:
        raise ConflictError(f"A {plan.state} plan cannot be changed.")
    migrations = list(selectors.migrations_of(plan_id))
    selection = select_migrations(migrations, skip=skip, take=take)
    included = [m for m in migrations if m.ordinal in selection.included]
    try:
        prediction = predict_effect(plan.weights, included)
    except StalePlanError as error:
        raise PlanSupersededError(f"{plan} cannot be predicted again: {error}.") from error
    trimmed = apply_selection(plan, selection, by=by, prediction=prediction)
    skipped = frozenset(m.ordinal for m in migrations) - selection.included
    return TrimResult(trimmed, skipped, selection.notes)


@dataclass(frozen=True, slots=True)
class MigrationSelection:
    """The migrations of a plan to carry out.

    Attributes
    ----------
    included : ordinals
    reasons : by bundle, why it had to be left out although no request names it
    notes : sentences on what was left out or included beyond the request
    """

    included: frozenset[int]
    reasons: Mapping[int, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def select_migrations(
    migrations: Sequence[PlannedMigration], *, skip: Collection[int], take: Collection[int]
) -> MigrationSelection:
    """Return the migrations that remain after whole bundles are left out or included.

    Parameters
    ----------
    skip, take : ordinals

    Raises
    ------
    InvalidInputError : an ordinal is unknown, or a bundle is both left out and included.
    """
    bundle_of = {m.ordinal: m.bundle for m in migrations}
    _require_known(bundle_of, skip, take)
    _require_possible(migrations, take)
    skipped = {bundle_of[ordinal] for ordinal in skip}
    taken = {bundle_of[ordinal] for ordinal in take}
    if clash := sorted(skipped & taken):
        detail = f"bundle {clash[0]} cannot be both left out and included"
        raise InvalidInputError([FieldProblem("/take", "contradiction", detail)])
    waiting = {m.bundle for m in migrations if m.state == PlannedMigrationState.WAITING}
    remaining = waiting - skipped | taken
    candidates = [m for m in migrations if m.bundle in remaining]
    infeasible = bundles_without_room(
        selectors.capacity_steps(candidates), selectors.free_capacities(candidates)
    )
    message = f"{selectors.LEFT_OUT_PREFIX}: it needs capacity that another bundle would free"
    included = frozenset(m.ordinal for m in candidates if m.bundle not in infeasible)
    notes = tuple(_notes(migrations, skip, take, infeasible))
    return MigrationSelection(included, dict.fromkeys(infeasible, message), notes)


def _require_known(known: Mapping[int, int], skip: Collection[int], take: Collection[int]) -> None:
    problems = [
        FieldProblem(f"/{name}", "unknown", f"there is no migration {ordinal}")
        for name, ordinals in (("skip", skip), ("take", take))
        for ordinal in sorted(set(ordinals) - known.keys())
    ]
    if problems:
        raise InvalidInputError(problems)


def _require_possible(migrations: Sequence[PlannedMigration], take: Collection[int]) -> None:
    problems = [
        FieldProblem("/take", "dropped", f"migration {m.ordinal} was {m.message}")
        for m in migrations
        if m.ordinal in take and selectors.is_dropped(m)
    ]
    if problems:
        raise InvalidInputError(problems)


def _notes(
    migrations: Sequence[PlannedMigration],
    skip: Collection[int],
    take: Collection[int],
    infeasible: Sequence[int],
) -> list[str]:
    notes = []
    for ordinals, verb in ((skip, "left out"), (take, "included")):
        bundles = {m.bundle for m in migrations if m.ordinal in ordinals}
        others = [
            m.ordinal for m in migrations if m.bundle in bundles and m.ordinal not in ordinals
        ]
        if others:
            notes.append(f"{_listed(others)} also {verb}: same bundle.")
    dropped = [m.ordinal for m in migrations if m.bundle in infeasible]
    if dropped:
        notes.append(f"{_listed(dropped)} also left out: not enough capacity without the others.")
    return notes


def _listed(ordinals: Sequence[int]) -> str:
    shown = ", ".join(str(ordinal + 1) for ordinal in sorted(ordinals)[:10])
    rest = f" and {len(ordinals) - 10} more" if len(ordinals) > 10 else ""
    return f"Migration{'s' if len(ordinals) > 1 else ''} {shown}{rest}"


def apply_selection(
    read: Plan, selection: MigrationSelection, *, by: str, prediction: PlanPrediction
) -> Plan:
    """Store which migrations of a plan that awaits approval are left out, and their effect.

    Parameters
    ----------
    read : the plan that the selection and its prediction are based on

    Raises
    ------
    RebasedMeanwhileError : the plan was re-based since it was read.
    ConflictError : a user changed it, or it no longer awaits approval.
    """
    with transaction.atomic():
        plan = lock_plan(read.pk, expected=read.generation)
        if plan.state != PlanState.PROPOSED:
            raise ConflictError(f"A {plan.state} plan cannot be changed.")
        if plan.rebased_at != read.rebased_at:
            raise RebasedMeanwhileError(f"{plan} was re-based at the same time: try again.")
        migrations = list(plan.migrations.select_for_update().order_by("pk"))
        for migration in migrations:
            if migration.ordinal in selection.included:
                migration.state, migration.message = PlannedMigrationState.WAITING, ""
                continue
            migration.state = PlannedMigrationState.SKIPPED
            if not migration.message:
                by_user = f"{selectors.LEFT_OUT_PREFIX} by {by}"
                migration.message = selection.reasons.get(migration.bundle, by_user)
        PlannedMigration.objects.bulk_update(migrations, ["state", "message"])
        plan.predicted, plan.gap = prediction.predicted, prediction.gap
        plan.snapshot = prediction.snapshot
        included = [m for m in migrations if m.ordinal in selection.included]
        promise = proposal_summary(prediction.predicted, included)
        plan.proposed = {**promise, "bundles": plan.proposed.get("bundles", promise["bundles"])}
        save_plan(plan)
        record_act(plan_act(plan, "trimmed", plan.state, included=sorted(selection.included)))
        record_events([plan_event(plan, "trimmed")])
    return plan
