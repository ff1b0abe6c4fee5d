"""Execute plans: each tick polls the open migrations of a plan and starts those that can start.

A tick is one transaction that locks the plan's row: a second worker skips a locked plan, and after
a crash either both the migration and the row that refers to it exist, or neither.
"""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from django.db import IntegrityError, transaction

from apps.execution.models import Migration, MigrationState
from apps.execution.services import migrations
from apps.inventory.selectors import cluster_now
from apps.operations.services import NewEvent, record_events
from apps.placement.core.rebalancing.executor import due_migrations
from apps.placement.core.rebalancing.lifecycle import PlanAction, PlanState, next_state
from apps.placement.models import (
    Plan,
    PlannedMigration,
    PlannedMigrationState,
)
from apps.placement.selectors import plans as selectors
from apps.placement.services.rebalancing.plans import (
    counted,
    lock_planned_migrations,
    plan_event,
    save_plan,
)
from apps.placement.services.rebalancing.rebasing import rebase_plans
from apps.workloads.core.lifecycle import ACTIVE_STATES

MINUTE_S: Final = 60.0
REASON: Final = "PlacementPlan"
# refusals that earlier migrations of the plan may resolve
_TRANSIENT_REFUSALS: Final = frozenset(
    {
        migrations.MigrationRefusal.JOB_IS_MOVING,
        migrations.MigrationRefusal.UNITS_SHORT,
        migrations.MigrationRefusal.CAPACITY_SHORT,
    }
)
_ENDED_REFUSALS: Final = frozenset(
    {migrations.MigrationRefusal.JOB_NOT_RUNNING, migrations.MigrationRefusal.ALLOCATION_NOT_HELD}
)
_COLUMNS: Final = ("state", "message", "migration_id", "predicted_s", "began_s", "ended_s")


def execute_plans() -> list[UUID]:
    """Advance every plan that is approved or has begun; returns those ready to be evaluated.

    A plan is ready when all its migrations have ended; evaluate it outside of a transaction.
    Approved plans are re-based before one of them begins, and not while one is under way, so
    that a failing re-base never stops a plan that has begun.
    """
    if not selectors.unfinished_plans().exists():
        rebase_plans([PlanState.APPROVED])
        _begin_next_plan()
    plan_ids = selectors.unfinished_plans().order_by("number").values_list("pk", flat=True)
    return [plan_id for plan_id in plan_ids if _advance_plan(plan_id)]


def _begin_next_plan() -> None:
    """Begin the plan that was approved first, unless another is unfinished."""
    try:
        with transaction.atomic():
            approved = Plan.objects.select_for_update(skip_locked=True).filter(
                state=PlanState.APPROVED
            )
            plan = approved.order_by("approved_s", "number").first()
            if plan is None or selectors.unfinished_plans().exists():
                return
            plan.state = next_state(plan.state, PlanAction.BEGIN)
            plan.began_s = cluster_now()
            save_plan(plan)
            record_events([plan_event(plan, "began")])
    except IntegrityError:
        return  # another worker began a plan: a constraint allows one at a time


def _advance_plan(plan_id: UUID) -> bool:
    """Poll the migrations of a plan and start what can start; returns whether all have ended."""
    with transaction.atomic():
        rows = Plan.objects.select_for_update(skip_locked=True)
        plan = rows.filter(pk=plan_id, ended_s__isnull=True).first()
        if plan is None:
            return False
        now_s = cluster_now()
        lock_planned_migrations(plan)
        planned = list(plan.migrations.select_related("job").order_by("ordinal"))
        changed = _poll_migrations(planned, now_s)
        if plan.state == PlanState.RUNNING:
            changed += _start_migrations(plan, planned, now_s)
        if changed:
            PlannedMigration.objects.bulk_update(changed, _COLUMNS)
            record_events([_progress_event(plan, planned)])
    return all(m.state not in selectors.UNFINISHED_STATES for m in planned)


# ---- polling ----


def _poll_migrations(planned: Sequence[PlannedMigration], now_s: float) -> list[PlannedMigration]:
    """Apply the results of ended migrations; if one failed, cancel the rest of its bundle."""
    moving = {
        m.migration_id: m
        for m in planned
        if m.state == PlannedMigrationState.MOVING and m.migration_id
    }
    changed: list[PlannedMigration] = []
    for migration in Migration.objects.filter(pk__in=moving):
        if migration.state in {MigrationState.REQUESTED, MigrationState.RUNNING}:
            continue
        row = moving[migration.pk]
        row.ended_s = now_s if migration.ended_s is None else migration.ended_s
        row.message = migration.message[:500]
        if migration.state == MigrationState.DONE:
            row.state = PlannedMigrationState.DONE
        elif migration.state == MigrationState.FAILED:
            changed += _fail(row, planned, row.message or "the backend could not migrate it")
        elif row.job.state not in ACTIVE_STATES:
            row.state = PlannedMigrationState.SKIPPED
            row.message = "its job ended during the migration"
        else:
            row.state = PlannedMigrationState.CANCELLED
        changed.append(row)
    return changed


def _fail(
    failed: PlannedMigration, planned: Sequence[PlannedMigration], reason: str
) -> list[PlannedMigration]:
    """Mark a migration as failed and cancel the rest of its bundle; returns the rest."""
    failed.state, failed.message = PlannedMigrationState.FAILED, reason[:500]
    message = f"migration {failed.ordinal + 1} of the same bundle failed"
    return _cancel_bundle(failed, planned, message)


def _cancel_bundle(
    member: PlannedMigration, planned: Sequence[PlannedMigration], reason: str
) -> list[PlannedMigration]:
    """Cancel the waiting migrations of a bundle; returns them."""
    waiting = [
        m
        for m in planned
        if m.bundle == member.bundle and m.state == PlannedMigrationState.WAITING
    ]
    for migration in waiting:
        migration.state, migration.message = PlannedMigrationState.CANCELLED, reason
    return waiting


# ---- starting ----


def _start_migrations(
    plan: Plan, planned: Sequence[PlannedMigration], now_s: float
) -> list[PlannedMigration]:
    """Start what the budgets and the free capacity allow; returns the changed migrations."""
    changed = _skip_unmovable(plan, planned, now_s)
    unfinished = selectors.unfinished_migrations(planned)
    by_ordinal = {m.ordinal: m for m in planned}
    limit = selectors.loop_settings().moves_per_minute
    budget = limit - selectors.started_since(now_s - MINUTE_S)
    result = due_migrations(
        selectors.capacity_steps(unfinished),
        selectors.free_capacities(unfinished),
        busy=selectors.migrating_jobs({m.job_id for m in unfinished}),
        limit=max(budget, 0),
    )
    for ordinal in result.hopeless:
        row = by_ordinal[ordinal]
        if row.state == PlannedMigrationState.WAITING:  # unless cancelled with its bundle above
            message = "its target server no longer has enough free capacity"
            changed += [*_fail(row, planned, message), row]
    startable = [by_ordinal[ordinal] for ordinal in result.begin]
    waiting = [m for m in startable if m.state == PlannedMigrationState.WAITING]
    return changed + _request_migrations(waiting, planned, now_s)


def _skip_unmovable(
    plan: Plan, planned: Sequence[PlannedMigration], now_s: float
) -> list[PlannedMigration]:
    """Skip migrations whose container is gone or whose job was migrated too often."""
    waiting = [m for m in planned if m.state == PlannedMigrationState.WAITING]
    changed = selectors.stale_migrations(waiting)
    for migration in changed:
        has_ended = migration.job.state not in ACTIVE_STATES
        migration.state = PlannedMigrationState.SKIPPED
        migration.message = "its job ended" if has_ended else "its allocation was released"
    if plan.is_named:
        return changed  # a user requested these migrations: the limit does not apply
    started = {m.job_id for m in planned if m.began_s is not None}
    jobs = {m.job_id for m in waiting if m.state == PlannedMigrationState.WAITING} - started
    limit = selectors.loop_settings().moves_per_job
    recent = selectors.plans_per_job(jobs, since_s=now_s - selectors.HOUR_S)
    for migration in waiting:
        plans = recent.get(migration.job_id, 0)
        if migration.state == PlannedMigrationState.WAITING and plans >= limit:
            reason = f"{counted(plans, 'plan')} migrated its job within the hour"
            bundle = _cancel_bundle(migration, planned, reason)  # includes the migration itself
            for member in bundle:
                member.state = PlannedMigrationState.SKIPPED
            changed += bundle
    return changed


def _request_migrations(
    waiting: Sequence[PlannedMigration], planned: Sequence[PlannedMigration], now_s: float
) -> list[PlannedMigration]:
    """Request migrations from the backends; returns the changed rows."""
    if not waiting:
        return []
    requests = [
        migrations.MigrationRequest(row.job_id, row.allocation_id, row.to_server_id, REASON)
        for row in waiting
    ]
    changed: list[PlannedMigration] = []
    for row, answer in zip(waiting, migrations.request_migrations(requests), strict=True):
        if isinstance(answer, migrations.AcceptedMigration):
            row.state, row.migration_id = PlannedMigrationState.MOVING, answer.migration_id
            row.began_s, row.predicted_s = now_s, answer.predicted_s
            changed.append(row)
        else:
            changed += _apply_refusal(row, planned, answer)
    return changed


def _apply_refusal(
    row: PlannedMigration,
    planned: Sequence[PlannedMigration],
    refusal: migrations.RefusedMigration,
) -> list[PlannedMigration]:
    if refusal.reason_code in _ENDED_REFUSALS:
        row.state, row.message = PlannedMigrationState.SKIPPED, refusal.message
        return [row]
    if refusal.reason_code in _TRANSIENT_REFUSALS and _may_free_capacity(row, planned):
        return []
    return [*_fail(row, planned, refusal.message), row]


def _may_free_capacity(row: PlannedMigration, planned: Sequence[PlannedMigration]) -> bool:
    """Whether a migration under way leaves the target server or belongs to the same job."""
    return any(
        other.state == PlannedMigrationState.MOVING
        and (other.from_server_id == row.to_server_id or other.job_id == row.job_id)
        for other in planned
    )


def _progress_event(plan: Plan, planned: Sequence[PlannedMigration]) -> NewEvent:
    counts = {s.value: sum(m.state == s for m in planned) for s in PlannedMigrationState}
    return plan_event(plan, "progress", moves=counts)
