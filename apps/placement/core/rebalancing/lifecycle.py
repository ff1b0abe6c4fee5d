"""States of a migration plan and the actions allowed in each."""

from enum import StrEnum
from types import MappingProxyType
from typing import Final

from apps.common.core.errors import ConflictError


class PlanState(StrEnum):
    """State of a plan."""

    PROPOSED = "proposed"
    APPROVED = "approved"
    RUNNING = "running"
    PAUSED = "paused"
    DONE = "done"
    CANCELLED = "cancelled"
    SUPERSEDED = "superseded"
    FAILED = "failed"


class PlanAction(StrEnum):
    """Something that changes the state of a plan."""

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
        PlanAction.APPROVE: {PlanState.PROPOSED: PlanState.APPROVED},
        PlanAction.BEGIN: {PlanState.APPROVED: PlanState.RUNNING},
        PlanAction.PAUSE: {PlanState.RUNNING: PlanState.PAUSED},
        PlanAction.RESUME: {PlanState.PAUSED: PlanState.RUNNING},
        PlanAction.CANCEL: dict.fromkeys(
            (
                PlanState.PROPOSED,
                PlanState.APPROVED,
                PlanState.RUNNING,
                PlanState.PAUSED,
            ),
            PlanState.CANCELLED,
        ),
        PlanAction.SUPERSEDE: dict.fromkeys(
            (PlanState.PROPOSED, PlanState.APPROVED), PlanState.SUPERSEDED
        ),
        PlanAction.FINISH: dict.fromkeys((PlanState.RUNNING, PlanState.PAUSED), PlanState.DONE),
        PlanAction.FAIL: dict.fromkeys((PlanState.RUNNING, PlanState.PAUSED), PlanState.FAILED),
    }
)
OPEN: Final = frozenset(
    {
        PlanState.PROPOSED,
        PlanState.APPROVED,
        PlanState.RUNNING,
        PlanState.PAUSED,
    }
)
STARTED: Final = frozenset({PlanState.RUNNING, PlanState.PAUSED})


def next_state(state: str, action: PlanAction) -> PlanState:
    """Return the state of a plan after an action.

    Raises
    ------
    ConflictError : the state does not allow the action; names the allowed ones.
    """
    target = TRANSITIONS[action].get(PlanState(state))
    if target is None:
        allowed = ", ".join(sorted(possible_actions(state))) or "none: the plan has ended"
        raise ConflictError(f"A {state} plan cannot {action} (possible: {allowed}).")
    return target


def possible_actions(state: str) -> frozenset[PlanAction]:
    """Return the actions that a state allows."""
    return frozenset(
        action for action, targets in TRANSITIONS.items() if PlanState(state) in targets
    )


def final_action(done: int, failed: int) -> PlanAction:
    """Return FAIL if migrations failed and none succeeded, else FINISH."""
    return PlanAction.FAIL if failed and not done else PlanAction.FINISH
