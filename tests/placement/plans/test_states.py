"""The table of what can happen to a plan."""

import pytest

from apps.common.core.errors import ConflictError
from apps.placement.core.plan_states import OPEN, Action, State, after, end_of, possible
from apps.placement.models import PlanState

ALLOWED = {
    (State.PROPOSED, Action.APPROVE): State.APPROVED,
    (State.PROPOSED, Action.CANCEL): State.CANCELLED,
    (State.PROPOSED, Action.SUPERSEDE): State.SUPERSEDED,
    (State.APPROVED, Action.BEGIN): State.RUNNING,
    (State.APPROVED, Action.CANCEL): State.CANCELLED,
    (State.APPROVED, Action.SUPERSEDE): State.SUPERSEDED,
    (State.RUNNING, Action.PAUSE): State.PAUSED,
    (State.RUNNING, Action.CANCEL): State.CANCELLED,
    (State.RUNNING, Action.FINISH): State.DONE,
    (State.RUNNING, Action.FAIL): State.FAILED,
    (State.PAUSED, Action.RESUME): State.RUNNING,
    (State.PAUSED, Action.CANCEL): State.CANCELLED,
    (State.PAUSED, Action.FINISH): State.DONE,
    (State.PAUSED, Action.FAIL): State.FAILED,
}
REFUSED = [(s, a) for s in State for a in Action if (s, a) not in ALLOWED]


@pytest.mark.parametrize(("state", "action"), ALLOWED)
def test_what_may_happen_leads_where_it_should(state: State, action: Action) -> None:
    assert after(state, action) is ALLOWED[state, action]


@pytest.mark.parametrize(("state", "action"), REFUSED)
def test_everything_else_is_refused(state: State, action: Action) -> None:
    with pytest.raises(ConflictError, match=f"A {state} plan cannot {action}"):
        after(state, action)


def test_rows_know_the_same_states() -> None:
    assert [state.value for state in State] == PlanState.values


@pytest.mark.parametrize("state", sorted(set(State) - OPEN))
def test_nothing_can_happen_to_what_has_ended(state: State) -> None:
    assert possible(state) == frozenset()


@pytest.mark.parametrize(
    ("done", "failed", "action"),
    [(3, 0, Action.FINISH), (3, 1, Action.FINISH), (0, 1, Action.FAIL), (0, 0, Action.FINISH)],
)
def test_a_plan_has_failed_when_nothing_of_it_was_done(
    done: int, failed: int, action: Action
) -> None:
    assert end_of(done, failed) is action
