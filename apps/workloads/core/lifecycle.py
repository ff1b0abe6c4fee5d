"""States of a job and the moves between them."""

from enum import StrEnum
from typing import Final

from apps.common.core.errors import ConflictError


class JobState(StrEnum):
    """Where a job is on its way; being held is a flag beside it."""

    SUBMITTED = "submitted"  # accepted, nobody looked at it yet
    PROFILING = "profiling"  # its application is being measured
    QUEUED = "queued"  # classified; waits for units that keep its promise
    STARTING = "starting"  # units committed, launch requested
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


TERMINAL_STATES: Final = frozenset({JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED})
WAITING_STATES: Final = frozenset({JobState.SUBMITTED, JobState.PROFILING, JobState.QUEUED})
ACTIVE_STATES: Final = frozenset({JobState.STARTING, JobState.RUNNING})

_ENDS_EARLY: Final = frozenset({JobState.FAILED, JobState.CANCELLED})

# queued -> profiling: the application lost its profile while the job waited.
# starting, running -> queued: the launch was lost or the job was preempted.
# starting -> succeeded: the job ended before its start was reported.
MOVES: Final = {
    JobState.SUBMITTED: {JobState.PROFILING, JobState.QUEUED, JobState.STARTING} | _ENDS_EARLY,
    JobState.PROFILING: {JobState.QUEUED} | _ENDS_EARLY,
    JobState.QUEUED: {JobState.PROFILING, JobState.STARTING} | _ENDS_EARLY,
    JobState.STARTING: {JobState.RUNNING, JobState.QUEUED, JobState.SUCCEEDED} | _ENDS_EARLY,
    JobState.RUNNING: {JobState.QUEUED, JobState.SUCCEEDED} | _ENDS_EARLY,
    JobState.SUCCEEDED: frozenset[JobState](),
    JobState.FAILED: frozenset[JobState](),
    JobState.CANCELLED: frozenset[JobState](),
}


def can_move(state: str, to: str) -> bool:
    """Return True where a job in ``state`` may go to ``to`` in one step; staying is not a move."""
    return JobState(to) in MOVES[JobState(state)]


def move(state: str, to: str) -> JobState:
    """Return the state after the move.

    Raises
    ------
    ConflictError : the move is not allowed; the message names both states and what is allowed.
    """
    if not can_move(state, to):
        allowed = ", ".join(sorted(MOVES[JobState(state)])) or "none, it has ended"
        raise ConflictError(f"a {state} job cannot become {to} (allowed: {allowed})")
    return JobState(to)


def sources(to: str) -> frozenset[JobState]:
    """Return the states from which ``to`` can be reached in one step (for conditional updates)."""
    return frozenset(state for state, targets in MOVES.items() if JobState(to) in targets)
