"""Roll a plan back: reverse its migrations, last first."""

from typing import Final
from uuid import UUID

from django.db.models import F

from apps.execution.models import Migration
from apps.placement.core.rebalancing.executor import migrations_without_room
from apps.placement.models import (
    MigrationPurpose,
    Plan,
    PlanCause,
    PlannedMigration,
    PlannedMigrationState,
)
from apps.placement.selectors import plans as selectors
from apps.placement.services.rebalancing.planner import NoGain, StalePlanError, predict_effect
from apps.placement.services.rebalancing.plans import NewPlan, counted

NO_CAPACITY: Final = (
    f"{selectors.LEFT_OUT_PREFIX}: its previous server no longer has enough free capacity"
)


def propose_rollback(plan_id: UUID, *, by: UUID | None) -> NewPlan | NoGain:
    """Return the plan that rolls another one back; writes nothing.

    Containers that ended or were migrated again are omitted. Those that no longer fit on their
    previous server are included but left out, so that the plan shows them. Each migration is a
    bundle of its own: one that is impossible does not affect the others.
    """
    plan = Plan.objects.get(pk=plan_id)
    migrations = _reverse_migrations(plan)
    if not migrations:
        return NoGain(f"Every container that {plan} migrated has ended or moved again.")
    misfits = set(
        migrations_without_room(
            selectors.capacity_steps(migrations), selectors.free_capacities(migrations)
        )
    )
    if len(misfits) == len(migrations):
        return NoGain(f"The servers that {plan} migrated containers from have no free capacity.")
    for migration in migrations:
        if migration.ordinal in misfits:
            migration.state, migration.message = PlannedMigrationState.SKIPPED, NO_CAPACITY
    waiting = [m for m in migrations if m.state == PlannedMigrationState.WAITING]
    try:
        prediction = predict_effect(plan.weights, waiting)
    except StalePlanError:  # since they were read
        return NoGain(f"Every container that {plan} migrated has ended or moved again.")
    return NewPlan(
        cause=PlanCause.REVERSE,
        weights=plan.weights,
        activation=plan.activation,
        migrations=migrations,
        predicted=prediction.predicted,
        gap=prediction.gap,
        gain=prediction.gain,
        seconds=0.0,
        snapshot=prediction.snapshot,
        cluster_s=prediction.cluster_s,
        created_by=by,
        reverses_id=plan.pk,
        message=_message(plan, len(migrations), len(misfits)),
    )


def _reverse_migrations(plan: Plan) -> list[PlannedMigration]:
    """Return the migrations that can be reversed as unsaved rows, last first."""
    rows = plan.migrations.filter(state=PlannedMigrationState.DONE).select_related("job")
    done = list(rows.order_by(F("began_s").desc(), "-ordinal"))
    targets = dict(
        Migration.objects.filter(pk__in=[row.migration_id for row in done]).values_list(
            "pk", "target_allocation_id"
        )
    )
    reverse = [
        PlannedMigration(
            purpose=MigrationPurpose.REVERSE,
            about=row.job.name[:127],
            job_id=row.job_id,
            allocation_id=targets[row.migration_id or 0],
            from_server_id=row.to_server_id,
            to_server_id=row.from_server_id,
            units=row.units,
            gain=0.0,
            predicted_s=row.predicted_s,
        )
        for row in done
    ]
    stale = {migration.allocation_id for migration in selectors.stale_migrations(reverse)}
    possible = [m for m in reverse if m.allocation_id not in stale]
    for place, migration in enumerate(possible):
        migration.ordinal = migration.bundle = place
    return possible


def _message(plan: Plan, migrations: int, misfits: int) -> str:
    done = plan.migrations.filter(state=PlannedMigrationState.DONE).count()
    parts = [f"rolls back {migrations - misfits} of {counted(done, 'migration')} of {plan}"]
    if misfits:
        parts.append(f"no free capacity for {counted(misfits, 'container')}")
    if done > migrations:
        parts.append(f"{counted(done - migrations, 'container')} ended or moved again")
    return "; ".join(parts)
