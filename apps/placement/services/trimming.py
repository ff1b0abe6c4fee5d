"""Leaving moves of a plan out, or taking them in again, with what that does to its effect."""

from collections.abc import Collection
from dataclasses import dataclass
from uuid import UUID

from apps.common.core.errors import ConflictError
from apps.common.core.preconditions import require_generation
from apps.placement.models import Plan, PlanState
from apps.placement.selectors import plans as selectors
from apps.placement.services.plans import (
    PlanSupersededError,
    apply_choice,
    choose,
)
from apps.placement.services.proposing import MovedOnError, predict_moves


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
    after = apply_choice(
        plan_id, choice, by=by, predicted=found.predicted, expected=plan.generation
    )
    skipped = frozenset(move.ordinal for move in moves) - choice.taken
    return Trimmed(after, skipped, choice.notes)
