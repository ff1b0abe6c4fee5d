"""Transitions of a plan."""

import pytest

from apps.common.core.errors import ConflictError
from apps.placement.core.rebalancing.lifecycle import (
    OPEN,
    PlanAction,
    PlanState,
    final_action,
    next_state,
    possible_actions,
)
from apps.placement.models import Plan

ALLOWED = {
    (PlanState.PROPOSED, PlanAction.APPROVE): PlanState.APPROVED,
    (PlanState.PROPOSED, PlanAction.CANCEL): PlanState.CANCELLED,
    (PlanState.PROPOSED, PlanAction.SUPERSEDE): PlanState.SUPERSEDED,
    (PlanState.APPROVED, PlanAction.BEGIN): PlanState.RUNNING,
    (PlanState.APPROVED, PlanAction.CANCEL): PlanState.CANCELLED,
    (PlanState.APPROVED, PlanAction.SUPERSEDE): PlanState.SUPERSEDED,
    (PlanState.RUNNING, PlanAction.PAUSE): PlanState.PAUSED,
    (PlanState.RUNNING, PlanAction.CANCEL): PlanState.CANCELLED,
    (PlanState.RUNNING, PlanAction.FINISH): PlanState.DONE,
    (PlanState.RUNNING, PlanAction.FAIL): PlanState.FAILED,
    (PlanState.PAUSED, PlanAction.RESUME): PlanState.RUNNING,
    (PlanState.PAUSED, PlanAction.CANCEL): PlanState.CANCELLED,
    (PlanState.PAUSED, PlanAction.FINISH): PlanState.DONE,
    (PlanState.PAUSED, PlanAction.FAIL): PlanState.FAILED,
}
REFUSED = [(s, a) for s in PlanState for a in PlanAction if (s, a) not in ALLOWED]


@pytest.mark.parametrize(("state", "action"), ALLOWED)
def test_allowed_actions_lead_to_the_right_state(state: PlanState, action: PlanAction) -> None:
    assert next_state(state, action) is ALLOWED[state, action]


@pytest.mark.parametrize(("state", "action"), REFUSED)
def test_other_actions_are_refused(state: PlanState, action: PlanAction) -> None:
    with pytest.raises(ConflictError, match=f"A {state} plan cannot {action}"):
        next_state(state, action)


def test_the_model_accepts_every_state() -> None:
    choices = Plan._meta.get_field("state").flatchoices
    assert [value for value, _ in choices] == [state.value for state in PlanState]


@pytest.mark.parametrize("state", sorted(set(PlanState) - OPEN))
def test_ended_plans_allow_no_action(state: PlanState) -> None:
    assert possible_actions(state) == frozenset()


@pytest.mark.parametrize(
    ("done", "failed", "action"),
    [
        (3, 0, PlanAction.FINISH),
        (3, 1, PlanAction.FINISH),
        (0, 1, PlanAction.FAIL),
        (0, 0, PlanAction.FINISH),
    ],
)
def test_a_plan_fails_if_migrations_failed_and_none_was_done(
    done: int, failed: int, action: PlanAction
) -> None:
    assert final_action(done, failed) is action
