"""Taking a plan back: its moves the other way round, last first."""

from dataclasses import replace
from typing import Final
from uuid import UUID

from django.db.models import F

from apps.execution.models import Migration
from apps.placement.core.carrying import without_room
from apps.placement.models import Cause, Move, MoveState, Plan, Purpose
from apps.placement.selectors import plans as selectors
from apps.placement.services.plans import NewMove, NewPlan
from apps.placement.services.proposing import MovedOnError, NothingGained, predict_moves

TAKEN: Final = f"{selectors.LEFT_OUT}: its place is taken"


def propose_reverse(plan_id: UUID, *, by: UUID | None) -> NewPlan | NothingGained:
    """Work out how what a plan moved gets back; nothing is written.

    Containers that ended, or were moved on since, are not part of it; those whose place is taken
    are part of it and left out, so that the plan says so. Each move is a bundle of its own: what
    cannot go back keeps no other from it.
    """
    plan = Plan.objects.get(pk=plan_id)
    transfers, of = _way_back(plan)
    if not transfers:
        return NothingGained(f"Nothing that {plan} moved is still where it moved it to.")
    rooms = selectors.rooms(s for t in transfers for s in (t.from_server_id, t.to_server_id))
    taken = set(without_room(selectors.steps(transfers), rooms))
    moves = [_move(one, of[one.ordinal], is_taken=one.ordinal in taken) for one in transfers]
    if len(taken) == len(moves):
        return NothingGained(f"The places that {plan} moved containers from are all taken.")
    try:
        prediction = predict_moves(plan.weights, [move for move in moves if not move.skipped])
    except MovedOnError:  # since we looked
        return NothingGained(f"What {plan} moved ended or moved on.")
    return NewPlan(
        cause=Cause.REVERSE,
        weights=plan.weights,
        activation=plan.activation,
        moves=moves,
        predicted=prediction.predicted,
        gap=prediction.gap,
        gain=prediction.gain,
        seconds=0.0,
        snapshot=prediction.snapshot,
        cluster_s=prediction.cluster_s,
        created_by=by,
        reverses_id=plan.pk,
        message=_message(plan, len(moves), len(taken)),
    )


def _way_back(plan: Plan) -> tuple[list[selectors.Transfer], dict[int, Move]]:
    """Return what of a plan can go back, last moved first, and the moves that brought it."""
    done = plan.moves.filter(state=MoveState.DONE).select_related("job")
    moves = list(done.order_by(F("began_s").desc(), "-ordinal"))
    target = dict(
        Migration.objects.filter(pk__in=[move.migration_id for move in moves]).values_list(
            "pk", "target_allocation_id"
        )
    )
    back = [
        selectors.Transfer(
            place, place, move.job_id, target[move.migration_id or 0],
            move.to_server_id, move.from_server_id,
        )
        for place, move in enumerate(moves)
    ]  # fmt: skip
    gone = {one.ordinal for one in selectors.gone(back)}
    there = [one for one in back if one.ordinal not in gone]
    renumbered = [replace(one, ordinal=place, bundle=place) for place, one in enumerate(there)]
    return renumbered, {place: moves[one.ordinal] for place, one in enumerate(there)}


def _move(back: selectors.Transfer, done: Move, *, is_taken: bool) -> NewMove:
    return NewMove(
        ordinal=back.ordinal,
        bundle=back.bundle,
        purpose=Purpose.REVERSE,
        about=done.job.name,
        job_id=back.job_id,
        allocation_id=back.allocation_id,
        from_server_id=back.from_server_id,
        to_server_id=back.to_server_id,
        units=done.units,
        gain=0.0,
        predicted_s=done.predicted_s,
        skipped=TAKEN if is_taken else "",
    )


def _message(plan: Plan, moves: int, taken: int) -> str:
    done = plan.moves.filter(state=MoveState.DONE).count()
    told = [f"takes back {moves - taken} of the {done} moves of {plan}"]
    if taken:
        told.append(f"the places of {taken} are taken")
    if done > moves:
        told.append(f"{done - moves} containers ended or moved on")
    return "; ".join(told)
