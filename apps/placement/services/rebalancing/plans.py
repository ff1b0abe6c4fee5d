"""Write, approve, pause, resume, cancel and supersede plans; `executor` carries them out.

Every change locks the plan's row. Creating a plan locks the row of the loop, so that plans are
numbered and superseded in one order.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.db import transaction
from django.db.models import Max, Q, QuerySet

from apps.accounts.services import Act, record_act
from apps.common.core.errors import (
    ConflictError,
    NotFoundError,
)
from apps.common.core.preconditions import require_generation
from apps.common.infrastructure.notifications import notify
from apps.execution.services.migrations import cancel_migrations
from apps.inventory.selectors import cluster_now
from apps.operations.core.states import Topic
from apps.operations.services import NewEvent, record_events
from apps.placement.core.rebalancing.lifecycle import PlanAction, PlanState, next_state
from apps.placement.models import (
    NAMED_CAUSES,
    Activation,
    LoopMode,
    Plan,
    PlanCause,
    PlannedMigration,
    PlannedMigrationState,
)
from apps.placement.selectors import plans as selectors
from apps.placement.selectors.objectives import effective_weights
from apps.placement.selectors.preferences import weights_in_force
from apps.workloads.services import lock_against_deletion

PLAN_TASK: Final = "placement.make_plans"
EXECUTE_TASK: Final = "placement.carry_out"
QUEUE: Final = "default"  # its tasks are short; fronts and previews run in another queue
PRUNED_PLANS: Final = 100  # of one batch


class PlanSupersededError(ConflictError):
    """The cluster or the weights in force changed since the plan was computed."""


@dataclass(frozen=True, slots=True)
class NewPlan:
    """A plan to write.

    Attributes
    ----------
    activation : weights it was computed for; a rollback has those of the plan it rolls back;
        None for one job's migration if no weights are in force
    migrations : unsaved rows without a plan; the first write saves them
    gap, seconds, predicted, snapshot, cluster_s : see `models.Plan`
    gain : of F by all its migrations
    """

    cause: PlanCause
    weights: Mapping[str, float]
    activation: Activation | None
    migrations: Sequence[PlannedMigration]
    predicted: Mapping[str, Any]
    gap: float
    gain: float
    seconds: float
    snapshot: int
    cluster_s: float
    created_by: UUID | None = None
    reverses_id: UUID | None = None
    message: str = ""


# ---- writing ----


def write_plan(new: NewPlan, *, approve: bool = False) -> Plan:
    """Write a plan; it supersedes those that await approval.

    Migrations of jobs that were deleted since the plan was computed are left out.

    Parameters
    ----------
    approve : approve it in the name of its creator; plans of an automatic loop always are

    Raises
    ------
    PlanSupersededError : since the plan was computed, other weights came into force or all of its
        jobs were deleted or, for a plan of the loop, the loop was switched off or another plan was
        created.
    """
    with transaction.atomic():
        loop = selectors.lock_loop_settings()
        if new.cause not in NAMED_CAUSES and not is_in_force(new.activation, new.weights):
            raise PlanSupersededError("Other weights came into force during planning.")
        if new.cause is PlanCause.LOOP:
            if loop.mode == LoopMode.OFF:
                raise PlanSupersededError("The loop was switched off during planning.")
            if selectors.has_open_plan():
                raise PlanSupersededError("Another plan was created during planning.")
            approve = loop.mode == LoopMode.AUTOMATIC
        plan = _new_row(new)
        events = [supersede(other, f"{plan} is newer.") for other in list(_proposed_plans())]
        migrations = of_existing_jobs(new.migrations)
        if new.migrations and not migrations:
            raise PlanSupersededError("All jobs of the plan were deleted during planning.")
        plan.proposed = proposal_summary(new.predicted, migrations)
        plan.save(force_insert=True)
        for migration in migrations:
            migration.plan = plan
        PlannedMigration.objects.bulk_create(migrations)
        events.insert(0, plan_event(plan, "created"))
        if approve:
            events.append(mark_approved(plan, new.created_by))
            notify(EXECUTE_TASK, queue=QUEUE)
        record_events(events)
    return plan


def _new_row(new: NewPlan) -> Plan:
    """Return the unsaved row of a plan, with the next number."""
    number = (Plan.objects.aggregate(last=Max("number"))["last"] or 0) + 1
    return Plan(
        number=number,
        cause=new.cause,
        weights=dict(new.weights),
        activation=new.activation,
        preference_set=new.activation.preference_set if new.activation else None,
        predicted=dict(new.predicted),
        gap=new.gap,
        seconds=new.seconds,
        snapshot=new.snapshot,
        cluster_s=new.cluster_s,
        created_by_id=new.created_by,
        reverses_id=new.reverses_id,
        message=new.message,
    )


def proposal_summary(
    predicted: Mapping[str, Any], migrations: Sequence[PlannedMigration]
) -> dict[str, Any]:
    """Return what a plan promises, to compare it with the promise of a later re-base."""
    waiting = [m for m in migrations if m.state == PlannedMigrationState.WAITING]
    return {
        "before": predicted.get("before") or {},
        "after": predicted.get("after") or {},
        "moves": len(waiting),
        "bundles": len({migration.bundle for migration in waiting}),
    }


def _proposed_plans() -> QuerySet[Plan]:
    rows = Plan.objects.select_for_update().filter(state=PlanState.PROPOSED)
    return rows.order_by("number")


def of_existing_jobs(migrations: Sequence[PlannedMigration]) -> list[PlannedMigration]:
    """Return the migrations whose job exists; none of these jobs is deleted before the commit."""
    jobs = lock_against_deletion(migration.job_id for migration in migrations)
    return [migration for migration in migrations if migration.job_id in jobs]


# ---- user actions ----


def pause_plan(plan_id: UUID, *, expected: int | None = None) -> Plan:
    """Start no further migrations of a plan; those under way continue."""
    return _transition(plan_id, PlanAction.PAUSE, "paused", expected)


def resume_plan(plan_id: UUID, *, expected: int | None = None) -> Plan:
    """Continue a paused plan.

    Raises
    ------
    ConflictError : it is not paused.
    """
    return _transition(plan_id, PlanAction.RESUME, "resumed", expected)


def cancel_plan(plan_id: UUID, *, by: str, expected: int | None = None) -> Plan:
    """Cancel a plan; migrations that a backend has claimed finish, no other starts."""
    with transaction.atomic():
        plan = lock_plan(plan_id, expected=expected)
        before, plan.state = plan.state, next_state(plan.state, PlanAction.CANCEL)
        plan.message = f"cancelled by {by}"
        lock_planned_migrations(plan)
        plan.migrations.filter(state=PlannedMigrationState.WAITING).update(
            state=PlannedMigrationState.CANCELLED, message=f"{plan} was cancelled"
        )
        save_plan(plan)
        moving = plan.migrations.filter(state=PlannedMigrationState.MOVING)
        ids = moving.values_list("migration_id", flat=True)
        cancel_migrations([pk for pk in ids if pk is not None])
        record_act(plan_act(plan, "cancelled", before))
        record_events([plan_event(plan, "cancelled")])
    return plan


def _transition(plan_id: UUID, action: PlanAction, event: str, expected: int | None) -> Plan:
    with transaction.atomic():
        plan = lock_plan(plan_id, expected=expected)
        before, plan.state = plan.state, next_state(plan.state, action)
        save_plan(plan)
        record_act(plan_act(plan, event, before))
        record_events([plan_event(plan, event)])
    return plan


# ---- superseded and old plans ----


def is_in_force(activation: Activation | None, weights: Mapping[str, float]) -> bool:
    """Whether the weights and racks of a plan are in force."""
    current = weights_in_force()
    if current is None or activation is None:
        return False
    is_same = effective_weights(current.weights) == dict(weights)
    return current.racks == activation.racks and is_same


def prune_proposals(*, before: datetime | None) -> int:
    """Delete one batch of plans that were superseded or cancelled before they began; its size."""
    states = [PlanState.SUPERSEDED, PlanState.CANCELLED]
    return _delete_plans(Plan.objects.filter(state__in=states, began_s__isnull=True), before)


def prune_plans(*, before: datetime | None) -> int:
    """Delete one batch of plans that have ended; its size."""
    open_states = [PlanState.PROPOSED, PlanState.APPROVED, PlanState.RUNNING, PlanState.PAUSED]
    return _delete_plans(Plan.objects.exclude(state__in=open_states), before)


def _delete_plans(plans: QuerySet[Plan], before: datetime | None) -> int:
    if before is None:
        return 0
    newest = Plan.objects.order_by("-number").values("pk")[:1]  # the next number follows it
    old = plans.filter(created_at__lt=before).exclude(pk__in=newest).order_by("created_at", "id")
    keys = list(old.values_list("pk", flat=True)[:PRUNED_PLANS])
    with transaction.atomic():
        rows = Plan.objects.filter(Q(pk__in=keys) | Q(reverses__in=keys))
        list(rows.select_for_update(of=("self",)).order_by("pk").values_list("pk"))
        return Plan.objects.filter(pk__in=keys).delete()[1].get(Plan._meta.label, 0)


# ---- rows and events ----


def lock_plan(plan_id: UUID, *, expected: int | None = None) -> Plan:
    """Lock a plan at the expected generation.

    Raises
    ------
    NotFoundError, ChangedMeanwhileError
    """
    plan = Plan.objects.select_for_update().filter(pk=plan_id).first()
    if plan is None:
        raise NotFoundError(f"There is no plan {plan_id}.")
    require_generation(expected, plan.generation)
    return plan


def lock_planned_migrations(plan: Plan) -> None:
    """Lock the migrations of a locked plan, before those that execution has of it."""
    list(plan.migrations.select_for_update().order_by("pk").values_list("pk"))


def mark_approved(plan: Plan, by: UUID | None) -> NewEvent:
    """Approve a locked plan; returns the event to record."""
    before, plan.state = plan.state, next_state(plan.state, PlanAction.APPROVE)
    plan.approved_by_id, plan.approved_s = by, cluster_now()
    save_plan(plan)
    record_act(plan_act(plan, "approved", before), by=by)
    return plan_event(plan, "approved")


def plan_act(plan: Plan, verb: str, before: str, **more: Any) -> Act:
    """Return an act on a plan whose state was ``before``."""
    after = {"state": str(plan.state), **more}
    return Act(f"plan.{verb}", str(plan.pk), str(plan), {"state": str(before)}, after)


def supersede(plan: Plan, reason: str) -> NewEvent:
    """Supersede a locked plan that has not begun; returns the event to record."""
    plan.state = next_state(plan.state, PlanAction.SUPERSEDE)
    plan.message = reason
    lock_planned_migrations(plan)
    plan.migrations.filter(state=PlannedMigrationState.WAITING).update(
        state=PlannedMigrationState.CANCELLED, message="the plan was superseded"
    )
    save_plan(plan)
    return plan_event(plan, "superseded")


def save_plan(plan: Plan) -> None:
    """Save a plan that the caller has locked and changed."""
    plan.generation += 1
    plan.save()


def plan_event(plan: Plan, event: str, **more: Any) -> NewEvent:
    """Return an event of a plan, to be recorded at the end of the transaction.

    Parameters
    ----------
    event : what happened, e.g. "approved"
    """
    data = {"event": event, "name": str(plan), "state": plan.state, **more}
    data["generation"] = plan.generation
    return NewEvent(topic=Topic.PLANS, kind="plan.updated", subject=str(plan.pk), data=data)


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, e.g. "2 bundles"."""
    return f"{number:,} {noun}{'s' if number != 1 else ''}"
