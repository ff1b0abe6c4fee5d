"""Leaving moves of a plan out, or taking them in again, with what that does to its effect."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from django.db import transaction

from apps.common.core.errors import ConflictError, FieldProblem, InvalidInputError
from apps.common.core.preconditions import require_generation
from apps.operations.services import record_events
from apps.placement.core.carrying import bundles_without_room
from apps.placement.models import Move, MoveState, Plan, PlanState
from apps.placement.selectors import plans as selectors
from apps.placement.services.plans import (
    PlanSupersededError,
    lock_plan,
    plan_event,
    save,
)
from apps.placement.services.proposing import MovedOnError, Prediction, predict_moves


@dataclass(frozen=True, slots=True)
class Trimmed:
    """A plan after a choice; ``skipped`` ordinals left out, ``notes`` what else that meant."""

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
) -> Trimmed:
    """Leave moves out of a plan that waits for approval, whole bundles; predicted anew.

    The prediction is of the cluster as it is now, and is made with no transaction open.

    Parameters
    ----------
    skip, take : ordinals
    by : name of who asks

    Raises
    ------
    PlanSupersededError : what it was to move is no longer there.
    ConflictError : it does not wait for approval, or is changed by somebody else right now.
    """
    plan = selectors.plan_by(plan_id)
    require_generation(expected, plan.generation)
    if plan.state != PlanState.PROPOSED:
        raise ConflictError(f"A {plan.state} plan cannot be changed.")
    moves = list(selectors.moves_of(plan_id))
    choice = choose(moves, skip=skip, take=take)
    stay = [move for move in moves if move.ordinal in choice.taken]
    try:
        found = predict_moves(plan.weights, stay)
    except MovedOnError as error:
        raise PlanSupersededError(f"{plan} cannot be predicted anew: {error}.") from error
    after = apply_choice(plan_id, choice, by=by, found=found, expected=plan.generation)
    skipped = frozenset(move.ordinal for move in moves) - choice.taken
    return Trimmed(after, skipped, choice.notes)


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
    transfers = [selectors.transfer_of(move) for move in moves if move.bundle in stay]
    steps = selectors.steps(transfers)
    rooms = selectors.rooms(s for t in transfers for s in (t.from_server_id, t.to_server_id))
    misfits = bundles_without_room(steps, rooms)
    because = dict.fromkeys(
        misfits, f"{selectors.LEFT_OUT}: it needs room that a move left out would free"
    )
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
    found: Prediction,
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
                move.message = choice.because.get(move.bundle, f"{selectors.LEFT_OUT} by {by}")
        Move.objects.bulk_update(moves, ["state", "message"])
        plan.predicted, plan.gap = found.predicted, found.gap
        plan.snapshot, plan.cluster_s = found.snapshot, found.cluster_s
        save(plan)
        record_events([plan_event(plan, "trimmed")])
    return plan
