"""Re-base plans that have not begun: bundle by bundle, on the cluster as it is.

Containers end, move and arrive while a plan awaits approval. Every bundle is kept, rewritten or
dropped (`core.rebalancing.rebase`), and the effect of the rest is predicted again. The plan keeps
its id and its generation: a re-base is not an edit by a user. A plan is superseded only if other
weights are in force or too little of its proposed gain is left.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from django.db import transaction
from django.utils import timezone

from apps.common.core.errors import ConflictError
from apps.inventory.selectors import cluster_now, log_position
from apps.operations.services import record_events
from apps.placement.core.rebalancing import changes
from apps.placement.core.rebalancing.executor import bundles_without_room
from apps.placement.core.rebalancing.lifecycle import PlanState
from apps.placement.models import Plan, PlannedMigration, PlannedMigrationState
from apps.placement.selectors import plans as selectors
from apps.placement.services.rebalancing.plans import (
    is_in_force,
    lock_planned_migrations,
    of_existing_jobs,
    plan_event,
    supersede,
)
from apps.placement.services.rebalancing.rebased_bundles import (
    BundleOutcome,
    RebasedPlan,
    rebased_plan,
)

NOT_BEGUN: Final = (PlanState.PROPOSED, PlanState.APPROVED)
# wall time between two re-bases of a plan whose bundles are all possible
REFRESH_INTERVAL: Final = timedelta(seconds=15)
_MAX_REASONS: Final = 2  # in the message of a superseded plan


def rebase_plans(states: Sequence[PlanState] = NOT_BEGUN) -> None:
    """Re-base every plan that is in one of the states, has not begun, and needs it."""
    keys = Plan.objects.filter(state__in=states).order_by("number")
    for plan_id in keys.values_list("pk", flat=True):
        rebase_plan(plan_id)


def rebase_plan(plan_id: UUID, *, is_forced: bool = False) -> bool:
    """Re-base one plan on the cluster as it is; the search runs outside of a transaction.

    Returns False if the plan was changed, re-based or begun meanwhile, or a job of it was deleted:
    nothing is stored.

    Parameters
    ----------
    is_forced : even if its bundles are all possible and the last re-base is recent
    """
    plan = Plan.objects.filter(pk=plan_id, state__in=NOT_BEGUN).first()
    if plan is None:
        return True
    reason, rebased, rows = weights_reason(plan), None, list[PlannedMigration]()
    if not reason:
        rows = list(selectors.migrations_of(plan.pk).filter(state=PlannedMigrationState.WAITING))
        if not rows or not _is_due(plan, rows, is_forced=is_forced):
            return True
        try:
            rebased = rebased_plan(plan, rows)
        except ConflictError as error:  # the racks of the weights no longer exist
            reason = str(error)
    with transaction.atomic():
        rows_of = Plan.objects.select_for_update(skip_locked=not is_forced)
        unchanged = rows_of.filter(
            pk=plan_id,
            state__in=NOT_BEGUN,
            generation=plan.generation,
            rebased_at=plan.rebased_at,
        )
        locked = unchanged.first()
        if locked is None:
            return False
        if rebased is not None:
            if not _has_waiting(locked, rows):
                return False
            reason = _store(locked, rebased)
        event = supersede(locked, reason) if reason else plan_event(locked, "rebased")
        record_events([event])
    return True


def weights_reason(plan: Plan) -> str:
    """Say that other weights are in force; "" if those of the plan are."""
    if plan.is_named or is_in_force(plan.activation, plan.weights):
        return ""
    return "other weights are in force."


def _is_due(plan: Plan, rows: Sequence[PlannedMigration], *, is_forced: bool) -> bool:
    """Whether a bundle became impossible, or the cluster changed since the last re-base."""
    if selectors.stale_migrations(rows) or bundles_without_room(
        selectors.capacity_steps(rows), selectors.free_capacities(rows)
    ):
        return True
    last = plan.rebased_at or plan.created_at
    is_old = timezone.now() - last >= REFRESH_INTERVAL
    return (is_forced or is_old) and log_position() > plan.snapshot


# ---- storing ----


def _has_waiting(plan: Plan, rows: Sequence[PlannedMigration]) -> bool:
    """Lock the migrations of a locked plan; whether the given ones are those that wait."""
    lock_planned_migrations(plan)
    waiting = plan.migrations.filter(state=PlannedMigrationState.WAITING)
    return set(waiting.values_list("pk", flat=True)) == {row.pk for row in rows}


def _store(plan: Plan, rebased: RebasedPlan) -> str:
    """Store a re-base of a plan locked with its migrations; returns why to supersede it, or ""."""
    now_s = cluster_now()
    waiting = plan.migrations.filter(state=PlannedMigrationState.WAITING)
    before = {row.pk: row for row in waiting}
    entries = []
    for outcome in rebased.outcomes:
        old = [row for row in before.values() if row.bundle == outcome.number]
        if outcome.reason:
            entries.append(_entry(outcome, old, now_s))
        _change_old(plan, outcome, old)
    new = of_existing_jobs([row for outcome in rebased.outcomes for row in outcome.new])
    for row in new:
        row.plan = plan
    PlannedMigration.objects.bulk_create(new)
    plan.changes = changes.merged(plan.changes, entries)
    plan.rebased_at, plan.rebased_s = timezone.now(), now_s
    prediction = rebased.prediction
    if prediction is not None:
        plan.predicted, plan.gap = prediction.predicted, prediction.gap
        plan.snapshot = prediction.snapshot
    plan.save()
    return _superseded_reason(plan, rebased)


def _entry(
    outcome: BundleOutcome, old: Sequence[PlannedMigration], now_s: float
) -> dict[str, Any]:
    return {
        "bundle": outcome.number,
        "change": changes.REWRITTEN if outcome.rows else changes.DROPPED,
        "reason": outcome.reason,
        "purpose": str(old[0].purpose),
        "about": old[0].about,
        "gain": old[0].gain,
        "cluster_seconds": now_s,
    }


def _change_old(plan: Plan, outcome: BundleOutcome, old: Sequence[PlannedMigration]) -> None:
    """Change the stored migrations of a bundle; those of a dropped one stay, with the reason."""
    if not outcome.rows:
        plan.migrations.filter(pk__in=[row.pk for row in old]).update(
            state=PlannedMigrationState.SKIPPED,
            message=f"{selectors.DROPPED_PREFIX}: {outcome.reason}"[:500],
        )
        return
    kept = {row.pk for row in outcome.kept}
    plan.migrations.filter(pk__in=[row.pk for row in old if row.pk not in kept]).delete()
    plan.migrations.filter(pk__in=kept).update(gain=outcome.rows[0].gain)


def _superseded_reason(plan: Plan, rebased: RebasedPlan) -> str:
    if rebased.prediction is None:
        reasons = list(dict.fromkeys(outcome.reason for outcome in rebased.outcomes))
        count = len(rebased.outcomes)
        dropped = "its only bundle was" if count == 1 else f"all of its {count} bundles were"
        more = "; and others" if len(reasons) > _MAX_REASONS else ""
        return f"{dropped} dropped: {'; '.join(reasons[:_MAX_REASONS])}{more}."
    if plan.is_named:
        return ""
    return changes.too_little_gain(
        plan.proposed, plan.predicted, least_gain=selectors.loop_settings().least_gain
    )
