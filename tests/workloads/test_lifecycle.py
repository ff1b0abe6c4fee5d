"""Allowed transitions between job states."""

from itertools import pairwise

import pytest

from apps.common.core.errors import ConflictError
from apps.workloads.core.lifecycle import (
    TERMINAL_STATES,
    TRANSITIONS,
    JobState,
    can_transition,
    states_before,
    transition,
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
def test_every_transition_of_the_normal_path_is_allowed(state: JobState, to: JobState) -> None:
    assert transition(state, to) is to


@pytest.mark.parametrize("state", sorted(set(JobState) - TERMINAL_STATES))
def test_every_live_job_can_be_cancelled(state: JobState) -> None:
    assert can_transition(state, JobState.CANCELLED)


@pytest.mark.parametrize("state", sorted(TERMINAL_STATES))
def test_nothing_leaves_a_terminal_state(state: JobState) -> None:
    assert TRANSITIONS[state] == frozenset()


@pytest.mark.parametrize("state", list(JobState))
def test_staying_is_not_a_transition(state: JobState) -> None:
    assert not can_transition(state, state)


def test_lost_work_goes_back_to_the_queue() -> None:
    assert {JobState.STARTING, JobState.RUNNING} <= states_before(JobState.QUEUED)


def test_a_waiting_job_may_succeed_as_its_backend_can_run_it_without_berth() -> None:
    assert states_before(JobState.SUCCEEDED) == set(JobState) - TERMINAL_STATES


def test_a_forbidden_transition_names_the_allowed_states() -> None:
    with pytest.raises(ConflictError, match=r"a running job cannot become submitted.*queued"):
        transition("running", "submitted")


def test_states_are_taken_as_plain_text() -> None:
    assert transition("queued", "starting") is JobState.STARTING


def test_an_unknown_state_is_refused() -> None:
    with pytest.raises(ValueError, match="lost"):
        transition("lost", "queued")
