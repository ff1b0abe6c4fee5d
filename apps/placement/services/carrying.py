"""Carrying plans out: each look follows the moves under way and begins those that can.

A look is one transaction that holds the plan's row: a second worker passes it by, and one that
dies leaves either both a migration and the move that names it, or neither.
"""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from django.db import IntegrityError, transaction

from apps.execution import moving
from apps.execution.models import Migration, MigrationState
from apps.inventory.selectors import cluster_now
from apps.operations.services import NewEvent, record_events
from apps.placement.core.carrying import due
from apps.placement.core.plan_states import Action, after
from apps.placement.models import Cause, Move, MoveState, Plan, PlanState
from apps.placement.selectors import plans as selectors
from apps.placement.services.plans import plan_event, save, supersede_stale
from apps.workloads.core.lifecycle import ACTIVE_STATES

MINUTE_S: Final = 60.0
REASON: Final = "PlacementPlan"
# what may pass while earlier moves of the plan are under way
_PASSES: Final = frozenset(
    {
        moving.MoveRefusal.JOB_IS_MOVING,
        moving.MoveRefusal.UNITS_SHORT,
        moving.MoveRefusal.CAPACITY_SHORT,
    }
)
_ENDED: Final = frozenset(
    {moving.MoveRefusal.JOB_NOT_RUNNING, moving.MoveRefusal.ALLOCATION_NOT_HELD}
)


def carry_out() -> list[UUID]:
    """Look after every plan that is approved or has begun; returns those whose moves all ended.

    What is returned waits to be verified, with no transaction open.
    """
    supersede_stale()
    _begin_next()
    open_plans = selectors.unsettled().order_by("number").values_list("pk", flat=True)
    return [plan_id for plan_id in open_plans if _look_after(plan_id)]


def _begin_next() -> None:
    """Begin the plan that was approved first, unless another has begun and is not over."""
    try:
        with transaction.atomic():
            approved = Plan.objects.select_for_update(skip_locked=True).filter(
                state=PlanState.APPROVED
            )
            plan = approved.order_by("approved_s", "number").first()
            if plan is None or selectors.unsettled().exists():
                return
            plan.state = after(plan.state, Action.BEGIN)
            plan.began_s = cluster_now()
            save(plan)
            record_events([plan_event(plan, "began")])
    except IntegrityError:
        return  # another worker began another plan: one at a time is the database's rule


def _look_after(plan_id: UUID) -> bool:
    """Follow the moves of a plan and begin what can begin; True where all have ended."""
    with transaction.atomic():
        rows = Plan.objects.select_for_update(skip_locked=True)
        plan = rows.filter(pk=plan_id, ended_s__isnull=True).first()
        if plan is None:
            return False
        now_s = cluster_now()
        moves = list(plan.moves.select_related("job").order_by("ordinal"))
        changed = _follow(moves, now_s)
        if plan.state == PlanState.RUNNING:
            changed += _begin_moves(plan, moves, now_s)
        if changed:
            Move.objects.bulk_update(changed, _COLUMNS)
            record_events([_progress(plan, moves)])
    return all(move.state not in selectors.UNENDED for move in moves)


_COLUMNS: Final = ("state", "message", "migration_id", "predicted_s", "began_s", "ended_s")


# ---- following ----


def _follow(moves: Sequence[Move], now_s: float) -> list[Move]:
    """Take over what became of migrations; the rest of a bundle that failed is cancelled."""
    under_way = {
        m.migration_id: m for m in moves if m.state == MoveState.MOVING and m.migration_id
    }
    changed: list[Move] = []
    for migration in Migration.objects.filter(pk__in=under_way):
        move = under_way[migration.pk]
        if migration.state in {MigrationState.REQUESTED, MigrationState.RUNNING}:
            continue
        move.ended_s = now_s if migration.ended_s is None else migration.ended_s
        move.message = migration.message[:500]
        if migration.state == MigrationState.DONE:
            move.state = MoveState.DONE
        elif migration.state == MigrationState.FAILED:
            changed += _fail(move, moves, move.message or "the backend could not move it")
        else:
            has_ended = move.job.state not in ACTIVE_STATES
            move.state = MoveState.SKIPPED if has_ended else MoveState.CANCELLED
            move.message = "its job ended on the way" if has_ended else move.message
        changed.append(move)
    return changed


def _fail(move: Move, moves: Sequence[Move], reason: str) -> list[Move]:
    """Mark a move as failed and cancel what makes no sense without it; returns the latter."""
    move.state, move.message = MoveState.FAILED, reason[:500]
    return _drop_bundle(move, moves, f"move {move.ordinal + 1} of its bundle failed")


def _drop_bundle(move: Move, moves: Sequence[Move], reason: str) -> list[Move]:
    rest = [m for m in moves if m.bundle == move.bundle and m.state == MoveState.WAITING]
    for other in rest:
        other.state, other.message = MoveState.CANCELLED, reason
    return rest


# ---- beginning ----


def _begin_moves(plan: Plan, moves: Sequence[Move], now_s: float) -> list[Move]:
    """Begin what fits in the budgets and has room now; returns the moves changed."""
    changed = _leave_alone(plan, moves, now_s)
    transfers = selectors.transfers_of(moves)
    rooms = selectors.rooms(t.to_server_id for t in transfers)
    by_ordinal = {move.ordinal: move for move in moves}
    budget = selectors.loop().moves_per_minute - selectors.begun_since(now_s - MINUTE_S)
    busy = selectors.busy_jobs({t.job_id for t in transfers})
    found = due(selectors.steps(transfers), rooms, busy=busy, most=max(budget, 0))
    for ordinal in found.hopeless:
        move = by_ordinal[ordinal]
        if move.state == MoveState.WAITING:  # not cancelled with its bundle just now
            changed += [*_fail(move, moves, "no room is left where it was to go"), move]
    begin = [by_ordinal[o] for o in found.begin if by_ordinal[o].state == MoveState.WAITING]
    return changed + _ask(begin, moves, now_s)


def _leave_alone(plan: Plan, moves: Sequence[Move], now_s: float) -> list[Move]:
    """Leave out moves whose container is gone, or whose job was moved often enough."""
    waiting = [m for m in moves if m.state == MoveState.WAITING]
    gone = {t.ordinal for t in selectors.gone(selectors.transfers_of(waiting))}
    changed = [m for m in waiting if m.ordinal in gone]
    for move in changed:
        has_ended = move.job.state not in ACTIVE_STATES
        move.state = MoveState.SKIPPED
        move.message = "its job ended" if has_ended else "its job no longer holds it"
    if plan.cause == Cause.REVERSE:
        return changed  # somebody wants it back: that is no thrashing
    begun = {m.job_id for m in moves if m.began_s is not None}
    jobs = {m.job_id for m in waiting if m.state == MoveState.WAITING} - begun
    most = selectors.loop().moves_per_job
    rounds = selectors.rounds(jobs, since_s=now_s - selectors.HOUR_S)
    for move in waiting:
        if move.state == MoveState.WAITING and rounds.get(move.job_id, 0) >= most:
            reason = f"its job was moved {rounds[move.job_id]} times within the hour"
            rest = _drop_bundle(move, moves, reason)  # the move itself among them
            for one in rest:
                one.state = MoveState.SKIPPED
            changed += rest
    return changed


def _ask(begin: Sequence[Move], moves: Sequence[Move], now_s: float) -> list[Move]:
    if not begin:
        return []
    wanted = [
        moving.Move(move.job_id, move.allocation_id, move.to_server_id, REASON) for move in begin
    ]
    changed: list[Move] = []
    for move, answer in zip(begin, moving.request_moves(wanted), strict=True):
        if isinstance(answer, moving.Requested):
            move.state, move.migration_id = MoveState.MOVING, answer.migration_id
            move.began_s, move.predicted_s = now_s, answer.predicted_s
            changed.append(move)
        else:
            changed += _refused(move, moves, answer)
    return changed


def _refused(move: Move, moves: Sequence[Move], answer: moving.Refused) -> list[Move]:
    if answer.reason_code in _ENDED:
        move.state, move.message = MoveState.SKIPPED, answer.message
        return [move]
    if answer.reason_code in _PASSES and _room_may_come(move, moves):
        return []
    return [*_fail(move, moves, answer.message), move]


def _room_may_come(move: Move, moves: Sequence[Move]) -> bool:
    """Tell whether something of the plan is on its way off the target, or of the same job."""
    return any(
        other.state == MoveState.MOVING
        and (other.from_server_id == move.to_server_id or other.job_id == move.job_id)
        for other in moves
    )


def _progress(plan: Plan, moves: Sequence[Move]) -> NewEvent:
    counts = {state.value: sum(m.state == state for m in moves) for state in MoveState}
    return plan_event(plan, "progress", moves=counts)
