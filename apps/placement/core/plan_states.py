"""Life of a plan and of its moves: what may follow what, and what ends them."""

from enum import StrEnum
from types import MappingProxyType
from typing import Final

from apps.common.core.errors import ConflictError


class State(StrEnum):
    """Where a plan stands."""

    PROPOSED = "proposed"
    APPROVED = "approved"
    RUNNING = "running"
    PAUSED = "paused"
    DONE = "done"
    CANCELLED = "cancelled"
    SUPERSEDED = "superseded"
    FAILED = "failed"


class Action(StrEnum):
    """What can happen to a plan."""

    APPROVE = "approve"
    BEGIN = "begin"
    PAUSE = "pause"
    RESUME = "resume"
    CANCEL = "cancel"
    SUPERSEDE = "supersede"
    FINISH = "finish"
    FAIL = "fail"


TRANSITIONS: Final = MappingProxyType(
    {
        Action.APPROVE: {State.PROPOSED: State.APPROVED},
        Action.BEGIN: {State.APPROVED: State.RUNNING},
        Action.PAUSE: {State.RUNNING: State.PAUSED},
        Action.RESUME: {State.PAUSED: State.RUNNING},
        Action.CANCEL: dict.fromkeys(
            (State.PROPOSED, State.APPROVED, State.RUNNING, State.PAUSED), State.CANCELLED
        ),
        Action.SUPERSEDE: dict.fromkeys((State.PROPOSED, State.APPROVED), State.SUPERSEDED),
        Action.FINISH: dict.fromkeys((State.RUNNING, State.PAUSED), State.DONE),
        Action.FAIL: dict.fromkeys((State.RUNNING, State.PAUSED), State.FAILED),
    }
)
OPEN: Final = frozenset({State.PROPOSED, State.APPROVED, State.RUNNING, State.PAUSED})
BEGUN: Final = frozenset({State.RUNNING, State.PAUSED})


def after(state: str, action: Action) -> State:
    """Return the state a plan is in after something happened to it.

    Raises
    ------
    ConflictError : that cannot happen to it; names the actions that can.
    """
    found = TRANSITIONS[action].get(State(state))
    if found is None:
        can = ", ".join(sorted(possible(state))) or "none: it has ended"
        raise ConflictError(f"A {state} plan cannot {action} (possible: {can}).")
    return found


def possible(state: str) -> frozenset[Action]:
    """Return what can happen to a plan in a state."""
    return frozenset(action for action, moves in TRANSITIONS.items() if State(state) in moves)


def end_of(done: int, failed: int) -> Action:
    """Return how a plan ends whose moves have all ended: it failed where none was done."""
    return Action.FAIL if failed and not done else Action.FINISH
