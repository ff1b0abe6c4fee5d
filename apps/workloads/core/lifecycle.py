"""States of a job and the transitions between them."""

from enum import StrEnum
from typing import Final

from apps.common.core.errors import ConflictError


class JobState(StrEnum):
    """State of a job. Whether the job is held is a separate flag."""

    SUBMITTED = "submitted"  # accepted, not yet evaluated
    PROFILING = "profiling"  # its application is being profiled
    QUEUED = "queued"  # profiled; waits for units that meet its target
    STARTING = "starting"  # units allocated, launch requested
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Suspension(StrEnum):
    """Suspension of a running job: its processes are stopped, and it keeps its units."""

    NONE = ""
    REQUESTED = "requested"  # its backend must stop the processes
    SUSPENDED = "suspended"  # its backend has stopped them
    RESUMING = "resuming"  # its backend must continue them


TERMINAL_STATES: Final = frozenset({JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED})
WAITING_STATES: Final = frozenset({JobState.SUBMITTED, JobState.PROFILING, JobState.QUEUED})
ACTIVE_STATES: Final = frozenset({JobState.STARTING, JobState.RUNNING})

_ENDS: Final = TERMINAL_STATES

# running -> starting: its migration to another server restarts it there.
# queued -> profiling: the application lost its profile while the job waited.
# starting, running -> queued: the launch was lost.
# submitted, profiling, queued -> succeeded: its backend ran it without Berth.
# starting -> succeeded: the job ended before its start was reported.
TRANSITIONS: Final = {
    JobState.SUBMITTED: {JobState.PROFILING, JobState.QUEUED, JobState.STARTING} | _ENDS,
    JobState.PROFILING: {JobState.QUEUED} | _ENDS,
    JobState.QUEUED: {JobState.PROFILING, JobState.STARTING} | _ENDS,
    JobState.STARTING: {JobState.RUNNING, JobState.QUEUED} | _ENDS,
    JobState.RUNNING: {JobState.STARTING, JobState.QUEUED} | _ENDS,
    JobState.SUCCEEDED: frozenset[JobState](),
    JobState.FAILED: frozenset[JobState](),
    JobState.CANCELLED: frozenset[JobState](),
}


def can_transition(state: str, to: str) -> bool:
    """Return True if a job may change directly from ``state`` to ``to``, another state."""
    return JobState(to) in TRANSITIONS[JobState(state)]


def transition(state: str, to: str) -> JobState:
    """Return the new state.

    Raises
    ------
    ConflictError : the transition is not allowed; the message lists the allowed states.
    """
    if not can_transition(state, to):
        allowed = ", ".join(sorted(TRANSITIONS[JobState(state)])) or "none, the job has ended"
        raise ConflictError(f"a {state} job cannot become {to} (allowed: {allowed})")
    return JobState(to)


def states_before(to: str) -> frozenset[JobState]:
    """Return the states with a direct transition to ``to``, for conditional updates."""
    return frozenset(state for state, targets in TRANSITIONS.items() if JobState(to) in targets)
