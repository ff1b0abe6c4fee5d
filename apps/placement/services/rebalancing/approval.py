"""Approve plans: evaluated on the cluster as it is at that moment."""

from collections.abc import Collection
from typing import Final
from uuid import UUID

from django.db import transaction

from apps.common.core.errors import ConflictError, FieldProblem, InvalidInputError
from apps.common.core.preconditions import require_generation
from apps.common.infrastructure.notifications import notify
from apps.operations.services import record_events
from apps.placement.core.rebalancing.lifecycle import PlanAction, PlanState, next_state
from apps.placement.models import Plan, PlannedMigrationState
from apps.placement.selectors import plans as selectors
from apps.placement.services.rebalancing.plans import (
    EXECUTE_TASK,
    QUEUE,
    PlanSupersededError,
    counted,
    lock_plan,
    mark_approved,
    supersede,
)
from apps.placement.services.rebalancing.rebasing import rebase_plan, weights_reason

_MAX_ATTEMPTS: Final = 3  # to re-base a plan that workers re-base at the same time


def approve_plan(
    plan_id: UUID,
    *,
    by: UUID,
    expected: int | None = None,
    skipped: Collection[int] | None = None,
) -> Plan:
    """Approve a plan for execution, after it was re-based on the cluster as it is.

    Parameters
    ----------
    skipped : ordinals of the migrations the caller sees as left out, each for its whole bundle;
        None = not compared

    Raises
    ------
    PlanSupersededError : too little of it is left, or other weights are in force.
    ConflictError : it does not await approval, all of it is left out, or it leaves out other
        bundles than ``skipped``.
    InvalidInputError : ``skipped`` names a migration that the plan does not have.
    """
    _rebase_for_approval(plan_id, expected)
    with transaction.atomic():
        plan = lock_plan(plan_id)
        reason = weights_reason(plan) if plan.state == PlanState.PROPOSED else ""
        if not reason:
            require_generation(expected, plan.generation)
            next_state(plan.state, PlanAction.APPROVE)
            if skipped is not None:
                _require_left_out(plan, skipped)
            if not plan.migrations.filter(state=PlannedMigrationState.WAITING).exists():
                raise ConflictError(f"All migrations of {plan} are left out.")
            record_events([mark_approved(plan, by)])
            notify(EXECUTE_TASK, queue=QUEUE)
            return plan
        record_events([supersede(plan, reason)])
    raise PlanSupersededError(f"{plan} is superseded: {reason}")


def _rebase_for_approval(plan_id: UUID, expected: int | None) -> None:
    """Re-base a plan that awaits approval, again if it changes meanwhile.

    Raises
    ------
    PlanSupersededError : the re-base superseded it.
    """
    before = selectors.plan_by_key(plan_id)
    require_generation(expected, before.generation)
    next_state(before.state, PlanAction.APPROVE)
    for _ in range(_MAX_ATTEMPTS):
        if rebase_plan(plan_id, is_forced=True):
            break
    after = selectors.plan_by_key(plan_id)
    if after.state == PlanState.SUPERSEDED:
        raise PlanSupersededError(f"{after} is superseded: {after.message}")


def _require_left_out(plan: Plan, skipped: Collection[int]) -> None:
    """Require that a plan leaves out exactly the bundles of the given migrations.

    Bundles that a re-base dropped are not compared: the caller may have seen them as included.
    """
    migrations = list(plan.migrations.all())
    bundle_of = {migration.ordinal: migration.bundle for migration in migrations}
    unknown = sorted(set(skipped) - bundle_of.keys())
    if unknown and unknown[-1] > max(bundle_of, default=-1):
        detail = f"there is no migration {unknown[-1]}"
        raise InvalidInputError([FieldProblem("/skipped", "unknown", detail)])
    if unknown:
        detail = f"migration {unknown[0] + 1}, shown as left out, was replaced"
        raise ConflictError(f"{plan} differs from what you see: {detail}. Reload it first.")
    dropped = {m.bundle for m in migrations if selectors.is_dropped(m)}
    expected = {bundle_of[ordinal] for ordinal in skipped} - dropped
    left_out = {m.bundle for m in migrations if m.state == PlannedMigrationState.SKIPPED}
    actual = left_out - dropped
    differences = [
        f"{counted(len(bundles), 'bundle')} {difference}"
        for bundles, difference in (
            (expected - actual, "shown as left out would be carried out"),
            (actual - expected, "shown as included would be left out"),
        )
        if bundles
    ]
    if differences:
        detail = " and ".join(differences)
        raise ConflictError(f"{plan} differs from what you see: {detail}. Recompute it first.")
