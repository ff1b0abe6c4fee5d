"""Plans: written down, approved, trimmed, stopped. What carries them out is `carrying`.

Whoever changes a plan holds its row; what makes one holds the row of the loop, so that plans are
numbered and supersede each other in one order.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import Max, QuerySet
from django.utils import timezone

from apps.common.core.errors import (
    ConflictError,
    FieldProblem,
    InvalidInputError,
    NotFoundError,
)
from apps.common.core.preconditions import require_generation
from apps.common.poke import poke
from apps.execution.moving import cancel_moves
from apps.inventory.selectors import cluster_now, server_names
from apps.operations.core.states import Topic
from apps.operations.services import NewEvent, record_events
from apps.placement.core.carrying import bundles_without_room
from apps.placement.core.plan_states import Action, after
from apps.placement.models import (
    Activation,
    Cause,
    Mode,
    Move,
    MoveState,
    Plan,
    PlanState,
    Purpose,
)
from apps.placement.selectors import plans as selectors
from apps.placement.selectors.objectives import weighed
from apps.placement.selectors.preferences import weights_in_force

TASK: Final = "placement.make_plans"
STALE: Final = 0.5  # share of its bundles from above which a plan no longer fits
CARRY_TASK: Final = "placement.carry_out"
QUEUE: Final = "default"  # whose tasks are short: fronts and previews keep nobody waiting there


class PlanSupersededError(ConflictError):
    """The cluster, or what is wanted of it, is no longer what the plan was made for."""


@dataclass(frozen=True, slots=True)
class NewMove:
    """One move of a plan to be written.

    Attributes
    ----------
    ordinal, bundle, purpose, about, gain, predicted_s : as of `models.Move`
    skipped : why it is left out; empty = it is not
    """

    ordinal: int
    bundle: int
    purpose: Purpose
    about: str
    job_id: UUID
    allocation_id: int
    from_server_id: int
    to_server_id: int
    units: int
    gain: float
    predicted_s: float
    skipped: str = ""


@dataclass(frozen=True, slots=True)
class NewPlan:
    """A plan to be written.

    Attributes
    ----------
    activation : by which it was made; that of the plan it takes back
    gap, seconds, predicted, snapshot, cluster_s : as of `models.Plan`
    gain : of F by all its moves
    """

    cause: Cause
    weights: Mapping[str, float]
    activation: Activation | None
    moves: Sequence[NewMove]
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
    """Write a plan down; those that still wait for approval give way to it.

    Parameters
    ----------
    approve : at once, by whoever made it; plans of the loop are if its mode is automatic

    Raises
    ------
    PlanSupersededError : since it was made other weights came into force or, for a plan of the
        loop, it was switched off or somebody else's plan came.
    """
    with transaction.atomic():
        loop = selectors.lock_loop()
        if new.cause is not Cause.REVERSE and not _is_in_force(new.activation, new.weights):
            raise PlanSupersededError("Other weights came into force while the plan was made.")
        if new.cause is Cause.LOOP:
            if loop.mode == Mode.OFF:
                raise PlanSupersededError("The loop was switched off while the plan was made.")
            if selectors.has_open_plan():
                raise PlanSupersededError("Another plan came while this one was made.")
            approve = loop.mode == Mode.AUTOMATIC
        number = (Plan.objects.aggregate(last=Max("number"))["last"] or 0) + 1
        plan = Plan.objects.create(
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
        Move.objects.bulk_create(_row(plan, move) for move in new.moves)
        events = [plan_event(plan, "created")]
        older = list(_waiting().exclude(pk=plan.pk))
        events += [_superseded(one, f"{plan} is newer.") for one in older]
        if approve:
            events.append(_approved(plan, new.created_by))
            poke(CARRY_TASK, queue=QUEUE)
        record_events(events)
    return plan


def _waiting() -> QuerySet[Plan]:
    rows = Plan.objects.select_for_update().filter(state=PlanState.PROPOSED)
    return rows.order_by("number")


def _row(plan: Plan, move: NewMove) -> Move:
    return Move(
        plan=plan,
        ordinal=move.ordinal,
        bundle=move.bundle,
        purpose=move.purpose,
        about=move.about[:127],
        job_id=move.job_id,
        allocation_id=move.allocation_id,
        from_server_id=move.from_server_id,
        to_server_id=move.to_server_id,
        units=move.units,
        gain=move.gain,
        predicted_s=move.predicted_s,
        state=MoveState.SKIPPED if move.skipped else MoveState.WAITING,
        message=move.skipped[:500],
    )


# ---- what people do to them ----


def approve_plan(
    plan_id: UUID,
    *,
    by: UUID,
    expected: int | None = None,
    skipped: Collection[int] | None = None,
) -> Plan:
    """Let a plan be carried out.

    Parameters
    ----------
    skipped : ordinals of the moves that whoever approves sees as left out, each for its whole
        bundle; None = not said

    Raises
    ------
    PlanSupersededError : it no longer fits the cluster; it is marked so.
    ConflictError : it does not wait for approval, nothing of it is left to do, or it does not
        leave out what ``skipped`` says.
    InvalidInputError : ``skipped`` names a move that it does not have.
    """
    with transaction.atomic():
        plan = lock_plan(plan_id, expected=expected)
        after(plan.state, Action.APPROVE)
        if skipped is not None:
            _require_left_out(plan, skipped)
        reason = why_superseded(plan)
        if not reason:
            if not plan.moves.filter(state=MoveState.WAITING).exists():
                raise ConflictError(f"Every move of {plan} is left out: there is nothing to do.")
            record_events([_approved(plan, by)])
            poke(CARRY_TASK, queue=QUEUE)
            return plan
        record_events([_superseded(plan, reason)])
    raise PlanSupersededError(f"{plan} is superseded: {reason}")


def _require_left_out(plan: Plan, skipped: Collection[int]) -> None:
    """Insist that a plan leaves out the bundles of the moves named, and no other."""
    moves = list(plan.moves.values_list("ordinal", "bundle", "state"))
    bundle_of = {ordinal: bundle for ordinal, bundle, _ in moves}
    if unknown := sorted(set(skipped) - bundle_of.keys()):
        detail = f"there is no move {unknown[0]}"
        raise InvalidInputError([FieldProblem("/skipped", "unknown", detail)])
    seen = {bundle_of[ordinal] for ordinal in skipped}
    kept = {bundle for _, bundle, state in moves if state == MoveState.SKIPPED}
    differs = [
        f"{_count(len(bundles), 'bundle')} {otherwise}"
        for bundles, otherwise in (
            (seen - kept, "you see left out would be carried out"),
            (kept - seen, "you see taken would be left out"),
        )
        if bundles
    ]
    if differs:
        said = " and ".join(differs)
        raise ConflictError(f"{plan} is not as you see it: {said}. Recompute it first.")


def pause_plan(plan_id: UUID, *, expected: int | None = None) -> Plan:
    """Let no further move of a plan begin; those under way go on."""
    return _act(plan_id, Action.PAUSE, "paused", expected)


def resume_plan(plan_id: UUID, *, expected: int | None = None) -> Plan:
    """Let the moves of a plan begin again.

    Raises
    ------
    ConflictError : it is not paused.
    """
    return _act(plan_id, Action.RESUME, "resumed", expected)


def cancel_plan(plan_id: UUID, *, by: str, expected: int | None = None) -> Plan:
    """Stop a plan: moves that a backend has taken up are finished, no other begins."""
    with transaction.atomic():
        plan = lock_plan(plan_id, expected=expected)
        plan.state = after(plan.state, Action.CANCEL)
        plan.message = f"cancelled by {by}"
        plan.moves.filter(state=MoveState.WAITING).update(
            state=MoveState.CANCELLED, message=f"{plan} was cancelled"
        )
        save(plan)
        under_way = plan.moves.filter(state=MoveState.MOVING).values_list("migration_id")
        cancel_moves([pk for (pk,) in under_way if pk is not None])
        record_events([plan_event(plan, "cancelled")])
    return plan


def _act(plan_id: UUID, action: Action, what: str, expected: int | None) -> Plan:
    with transaction.atomic():
        plan = lock_plan(plan_id, expected=expected)
        plan.state = after(plan.state, action)
        save(plan)
        record_events([plan_event(plan, what)])
    return plan


# ---- superseded ----


def why_superseded(plan: Plan) -> str:
    """Tell why a plan that has not begun no longer fits; empty where it does.

    On a busy cluster containers come and go while somebody reads a plan: bundles that can no
    longer be carried out are passed over; more than half of them, and it is another plan.
    """
    if plan.cause != Cause.REVERSE and not _is_in_force(plan.activation, plan.weights):
        return "other weights are in force."
    waiting = list(plan.moves.filter(state=MoveState.WAITING).order_by("ordinal"))
    transfers = selectors.transfers_of(waiting)
    gone = selectors.gone(transfers)
    broken = {one.bundle for one in gone}
    kept = [one for one in transfers if one.bundle not in broken]
    servers = {s for t in kept for s in (t.from_server_id, t.to_server_id)}
    full = bundles_without_room(selectors.steps(kept), selectors.rooms(servers))
    if len(broken) + len(full) <= STALE * len({one.bundle for one in transfers}):
        return ""
    if gone:
        return f"{_count(len(gone), 'container')} of it ended or moved."
    target = next(t.to_server_id for t in kept if t.bundle == full[0])
    names = server_names([target])
    return f"{names.get(target, 'a server')} has no room left for what was to go there."


def supersede_stale() -> int:
    """Mark plans that have not begun and no longer fit; returns how many."""
    found = 0
    states = [PlanState.PROPOSED, PlanState.APPROVED]
    for plan_id in Plan.objects.filter(state__in=states).values_list("pk", flat=True):
        with transaction.atomic():
            rows = Plan.objects.select_for_update(skip_locked=True)
            plan = rows.filter(pk=plan_id, state__in=states).first()
            if plan is not None and (reason := why_superseded(plan)):
                record_events([_superseded(plan, reason)])
                found += 1
    return found


def _is_in_force(activation: Activation | None, weights: Mapping[str, float]) -> bool:
    """Whether a plan's weights are in force, and in the same racks."""
    now = weights_in_force()
    if now is None or activation is None:
        return False
    return now.racks == activation.racks and weighed(now.weights) == dict(weights)


def prune_plans() -> int:
    """Forget plans that never began, some days after they came to nothing; returns how many."""
    before = timezone.now() - timedelta(days=settings.BERTH_EVENT_DAYS)
    nothing = [PlanState.SUPERSEDED, PlanState.CANCELLED]
    old = Plan.objects.filter(state__in=nothing, began_s__isnull=True, created_at__lt=before)
    return old.delete()[1].get(Plan._meta.label, 0)


# ---- rows and events ----


def lock_plan(plan_id: UUID, *, expected: int | None = None) -> Plan:
    """Lock a plan, at the generation expected.

    Raises
    ------
    NotFoundError, ChangedMeanwhileError
    """
    plan = Plan.objects.select_for_update().filter(pk=plan_id).first()
    if plan is None:
        raise NotFoundError(f"There is no plan {plan_id}.")
    require_generation(expected, plan.generation)
    return plan


def _approved(plan: Plan, by: UUID | None) -> NewEvent:
    plan.state = after(plan.state, Action.APPROVE)
    plan.approved_by_id, plan.approved_s = by, cluster_now()
    save(plan)
    return plan_event(plan, "approved")


def _superseded(plan: Plan, reason: str) -> NewEvent:
    plan.state = after(plan.state, Action.SUPERSEDE)
    plan.message = reason
    plan.moves.filter(state=MoveState.WAITING).update(
        state=MoveState.CANCELLED, message="the plan was superseded"
    )
    save(plan)
    return plan_event(plan, "superseded")


def save(plan: Plan) -> None:
    """Save a plan that its caller has locked and edited."""
    plan.generation += 1
    plan.save()


def plan_event(plan: Plan, what: str, **more: Any) -> NewEvent:
    """Make an event of a plan, to be recorded last.

    Parameters
    ----------
    what : happened to it, e.g. "approved"
    """
    data = {"event": what, "name": str(plan), "state": plan.state, **more}
    data["generation"] = plan.generation
    return NewEvent(topic=Topic.PLANS, kind="plan.updated", subject=str(plan.pk), data=data)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' if number != 1 else ''}"
