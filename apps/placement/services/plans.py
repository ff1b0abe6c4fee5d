"""Plans: written down, approved, trimmed, stopped. What carries them out is `carrying`.

Whoever changes a plan holds its row; what makes one holds the row of the loop, so that plans are
numbered and supersede each other in one order.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from django.db import transaction
from django.db.models import Max, QuerySet

from apps.common.core.errors import ConflictError, FieldProblem, InvalidInputError, NotFoundError
from apps.common.core.preconditions import require_generation
from apps.common.poke import poke
from apps.inventory.selectors import cluster_now
from apps.operations.core.states import Topic
from apps.operations.services import NewEvent, record_events
from apps.placement.core.carrying import bundles_without_room
from apps.placement.core.plan_states import Action, after
from apps.placement.models import (
    Activation,
    Cause,
    Move,
    MoveState,
    Plan,
    PlanState,
    Purpose,
)
from apps.placement.selectors import plans as selectors

TASK: Final = "placement.make_plans"
CARRY_TASK: Final = "placement.carry_out"
QUEUE: Final = "default"  # whose tasks are short: fronts and previews keep nobody waiting there
LEFT_OUT: Final = "left out by "  # begins the message of a move that somebody skipped


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
    gap, seconds, predicted, snapshot, cluster_s : as of `models.Plan`
    gain : of F by all its moves
    """

    cause: Cause
    weights: Mapping[str, float]
    preference_set_id: UUID | None
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
    approve : at once, by whoever made it

    Raises
    ------
    PlanSupersededError : other weights have come into force since it was made.
    """
    with transaction.atomic():
        selectors.lock_loop()
        if new.cause is not Cause.REVERSE and not _is_in_force(new.weights):
            raise PlanSupersededError("Other weights came into force while the plan was made.")
        number = (Plan.objects.aggregate(last=Max("number"))["last"] or 0) + 1
        plan = Plan.objects.create(
            number=number,
            cause=new.cause,
            weights=dict(new.weights),
            preference_set_id=new.preference_set_id,
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
        events = [plan_event(plan, "plan.created")]
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


def approve_plan(plan_id: UUID, *, by: UUID, expected: int | None = None) -> Plan:
    """Let a plan be carried out.

    Raises
    ------
    PlanSupersededError : it no longer fits the cluster; it is marked so.
    ConflictError : it does not wait for approval, or nothing of it is left to do.
    """
    with transaction.atomic():
        plan = lock_plan(plan_id, expected=expected)
        after(plan.state, Action.APPROVE)
        reason = why_superseded(plan)
        if not reason:
            if not plan.moves.filter(state=MoveState.WAITING).exists():
                raise ConflictError(f"Every move of {plan} is left out: there is nothing to do.")
            record_events([_approved(plan, by)])
            poke(CARRY_TASK, queue=QUEUE)
            return plan
        record_events([_superseded(plan, reason)])
    raise PlanSupersededError(f"{plan} is superseded: {reason}")


def pause_plan(plan_id: UUID, *, expected: int | None = None) -> Plan:
    """Let no further move of a plan begin; those under way go on."""
    return _act(plan_id, Action.PAUSE, "plan.paused", expected)


def resume_plan(plan_id: UUID, *, expected: int | None = None) -> Plan:
    """Let the moves of a plan begin again.

    Raises
    ------
    ConflictError : it is not paused.
    """
    return _act(plan_id, Action.RESUME, "plan.resumed", expected)


def cancel_plan(plan_id: UUID, *, by: str, expected: int | None = None) -> Plan:
    """Stop a plan: moves under way are finished, no other begins."""
    with transaction.atomic():
        plan = lock_plan(plan_id, expected=expected)
        plan.state = after(plan.state, Action.CANCEL)
        plan.message = f"cancelled by {by}"
        plan.moves.filter(state=MoveState.WAITING).update(
            state=MoveState.CANCELLED, message=f"{plan} was cancelled"
        )
        _save(plan)
        record_events([plan_event(plan, "plan.cancelled")])
    return plan


def _act(plan_id: UUID, action: Action, kind: str, expected: int | None) -> Plan:
    with transaction.atomic():
        plan = lock_plan(plan_id, expected=expected)
        plan.state = after(plan.state, action)
        _save(plan)
        record_events([plan_event(plan, kind)])
    return plan


# ---- leaving moves out ----


@dataclass(frozen=True, slots=True)
class Choice:
    """Which moves of a plan are to be made, and what else that leaves out.

    Attributes
    ----------
    taken : ordinals that stay
    because : why a bundle that nobody left out cannot be carried out
    notes : in words, what was done beyond what was asked for
    """

    taken: frozenset[int]
    because: Mapping[int, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def choose(moves: Sequence[Move], *, skip: Collection[int], take: Collection[int]) -> Choice:
    """Work out which moves stay when some are left out or taken in again, whole bundles each.

    Parameters
    ----------
    skip, take : ordinals

    Raises
    ------
    InvalidInputError : there is no such move, or it is to be both.
    """
    bundle_of = {move.ordinal: move.bundle for move in moves}
    _check(bundle_of, skip, take)
    skipped = {bundle_of[ordinal] for ordinal in skip}
    wanted = {bundle_of[ordinal] for ordinal in take}
    if clash := sorted(skipped & wanted):
        detail = f"bundle {clash[0]} is to be left out by one of its moves and taken by another"
        raise InvalidInputError([FieldProblem("/take", "contradiction", detail)])
    stay = {m.bundle for m in moves if m.state == MoveState.WAITING} - skipped | wanted
    transfers = [
        selectors.Transfer(
            m.ordinal, m.bundle, m.job_id, m.allocation_id, m.from_server_id, m.to_server_id
        )
        for m in moves
        if m.bundle in stay
    ]
    steps = selectors.steps(transfers)
    rooms = selectors.rooms(s for t in transfers for s in (t.from_server_id, t.to_server_id))
    misfits = bundles_without_room(steps, rooms)
    because = dict.fromkeys(misfits, "left out: it needs room that a move left out would free")
    taken = frozenset(m.ordinal for m in moves if m.bundle in stay and m.bundle not in because)
    return Choice(taken, because, tuple(_notes(moves, skip, take, misfits)))


def _check(known: Mapping[int, int], skip: Collection[int], take: Collection[int]) -> None:
    problems = [
        FieldProblem(f"/{name}", "unknown", f"there is no move {ordinal}")
        for name, ordinals in (("skip", skip), ("take", take))
        for ordinal in sorted(set(ordinals) - known.keys())
    ]
    if problems:
        raise InvalidInputError(problems)


def _notes(
    moves: Sequence[Move], skip: Collection[int], take: Collection[int], misfits: Sequence[int]
) -> list[str]:
    notes = []
    for ordinals, done in ((skip, "left out"), (take, "taken in")):
        named = {move.bundle for move in moves if move.ordinal in ordinals}
        more = [m.ordinal for m in moves if m.bundle in named and m.ordinal not in ordinals]
        if more:
            notes.append(f"{_listed('move', more)} {done} too: they belong together.")
    lost = [move.ordinal for move in moves if move.bundle in misfits]
    if lost:
        notes.append(f"{_listed('move', lost)} left out too: others would not free their room.")
    return notes


def _listed(noun: str, numbers: Sequence[int]) -> str:
    shown = ", ".join(str(number + 1) for number in sorted(numbers)[:10])
    rest = f" and {len(numbers) - 10} more" if len(numbers) > 10 else ""
    return f"{noun.capitalize()}{'s' if len(numbers) > 1 else ''} {shown}{rest}"


def apply_choice(
    plan_id: UUID,
    choice: Choice,
    *,
    by: str,
    predicted: Mapping[str, Any],
    expected: int,
) -> Plan:
    """Leave out, or take in, moves of a plan that waits for approval, with what that changes.

    Parameters
    ----------
    expected : generation that the choice and its prediction were made from
    """
    with transaction.atomic():
        plan = lock_plan(plan_id, expected=expected)
        if plan.state != PlanState.PROPOSED:
            raise ConflictError(f"A {plan.state} plan cannot be changed.")
        moves = list(plan.moves.select_for_update())
        for move in moves:
            stays = move.ordinal in choice.taken
            move.state = MoveState.WAITING if stays else MoveState.SKIPPED
            if stays:
                move.message = ""
            elif not move.message:
                move.message = choice.because.get(move.bundle, f"{LEFT_OUT}{by}")
        Move.objects.bulk_update(moves, ["state", "message"])
        plan.predicted = dict(predicted)
        _save(plan)
        record_events([plan_event(plan, "plan.updated")])
    return plan


# ---- superseded ----


def why_superseded(plan: Plan) -> str:
    """Tell why a plan that has not begun no longer fits; empty where it does."""
    if plan.cause != Cause.REVERSE and not _is_in_force(plan.weights):
        return "other weights are in force."
    waiting = list(plan.moves.filter(state=MoveState.WAITING).order_by("ordinal"))
    transfers = selectors.transfers_of(waiting)
    if gone := selectors.gone(transfers):
        return f"{_count(len(gone), 'container')} of it ended or moved."
    servers = {s for t in transfers for s in (t.from_server_id, t.to_server_id)}
    if full := bundles_without_room(selectors.steps(transfers), selectors.rooms(servers)):
        target = next(t.to_server_id for t in transfers if t.bundle == full[0])
        names = selectors.server_names([target])
        return f"{names.get(target, 'a server')} has no room left for what was to go there."
    return ""


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


def _is_in_force(weights: Mapping[str, float]) -> bool:
    now: Activation | None = selectors.activation_in_force()
    return now is not None and now.weights == dict(weights)


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
    _save(plan)
    return plan_event(plan, "plan.approved")


def _superseded(plan: Plan, reason: str) -> NewEvent:
    plan.state = after(plan.state, Action.SUPERSEDE)
    plan.message = reason
    plan.moves.filter(state=MoveState.WAITING).update(
        state=MoveState.CANCELLED, message="the plan was superseded"
    )
    _save(plan)
    return plan_event(plan, "plan.superseded")


def _save(plan: Plan) -> None:
    plan.generation += 1
    plan.save()


def plan_event(plan: Plan, kind: str, **more: Any) -> NewEvent:
    """Make an event of a plan, to be recorded last."""
    data = {"name": str(plan), "state": plan.state, "generation": plan.generation, **more}
    return NewEvent(topic=Topic.PLANS, kind=kind, subject=str(plan.pk), data=data)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' if number != 1 else ''}"
