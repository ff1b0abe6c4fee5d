"""Which moves between job states are allowed."""

from itertools import pairwise

import pytest

from apps.common.core.errors import ConflictError
from apps.workloads.core.lifecycle import (
    MOVES,
    TERMINAL_STATES,
    JobState,
    can_move,
    move,
    sources,
)

WAY = [
    JobState.SUBMITTED,
    JobState.PROFILING,
    JobState.QUEUED,
    JobState.STARTING,
    JobState.RUNNING,
    JobState.SUCCEEDED,
]


@pytest.mark.parametrize(("state", "to"), list(pairwise(WAY)))
def test_every_step_of_the_way_is_allowed(state: JobState, to: JobState) -> None:
    assert move(state, to) is to


@pytest.mark.parametrize("state", sorted(set(JobState) - TERMINAL_STATES))
def test_every_live_job_can_be_cancelled(state: JobState) -> None:
    assert can_move(state, JobState.CANCELLED)


@pytest.mark.parametrize("state", sorted(TERMINAL_STATES))
def test_nothing_leaves_a_terminal_state(state: JobState) -> None:
    assert MOVES[state] == frozenset()


@pytest.mark.parametrize("state", list(JobState))
def test_staying_is_no_move(state: JobState) -> None:
    assert not can_move(state, state)


def test_lost_work_goes_back_to_the_queue() -> None:
    assert {JobState.STARTING, JobState.RUNNING} <= sources(JobState.QUEUED)


def test_a_waiting_job_cannot_succeed() -> None:
    assert sources(JobState.SUCCEEDED) == {JobState.STARTING, JobState.RUNNING}


def test_a_forbidden_move_names_what_is_allowed() -> None:
    with pytest.raises(ConflictError, match=r"a running job cannot become submitted.*queued"):
        move("running", "submitted")


def test_states_are_taken_as_plain_text() -> None:
    assert move("queued", "starting") is JobState.STARTING


def test_an_unknown_state_is_refused() -> None:
    with pytest.raises(ValueError, match="lost"):
        move("lost", "queued")
