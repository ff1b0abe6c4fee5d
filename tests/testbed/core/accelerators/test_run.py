"""Runs in rounds, by hand, and with every policy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.testbed.core.accelerators.jobs import (
    NONE,
    AcceleratorError,
    Assignment,
    RoundState,
    TrainingJobs,
)
from apps.testbed.core.accelerators.policies import Fifo
from apps.testbed.core.accelerators.registry import ROUND_POLICIES, make_rounds
from apps.testbed.core.accelerators.run import RoundSettings, run_rounds
from apps.testbed.core.accelerators.trace import COUNTS, Throughputs, poisson_trace

SETTINGS = RoundSettings(round_s=360.0, restart_s=30.0)


def jobs_of(
    submit_s: list[float], steps: list[float], speed: list[list[float]], count: int = 1
) -> TrainingJobs:
    """Jobs with the same speeds by type and number."""
    return TrainingJobs(
        submit_s=np.array(submit_s),
        steps=np.array(steps),
        count=np.full(len(submit_s), count),
        counts=np.array([1, 2]),
        speed=np.array([speed] * len(submit_s)),
    )


class Fixed:
    """Assigns the same numbers of types in turn."""

    def __init__(self, *turns: tuple[int, int]) -> None:
        self._turns, self._at = turns, 0

    def assign(self, state: RoundState) -> Assignment:
        on, number = self._turns[min(self._at, len(self._turns) - 1)]
        self._at += 1
        jobs = state.jobs.size
        return Assignment(np.full(jobs, on), np.full(jobs, number))


TYPES = [[1.0, 2.0], [0.5, 1.0]]


def test_a_job_starts_with_the_next_round_and_loses_the_start() -> None:
    found = run_rounds(jobs_of([100.0], [1000.0], TYPES), np.array([1, 1]), Fifo(), SETTINGS)
    # from 360 s on: 30 s, then 1000 s
    assert found.completion_s.tolist() == [360.0 + 30.0 + 1000.0 - 100.0]
    assert found.restarts.tolist() == [0]
    # an equal division runs at 3/4 for the 1030 s
    assert found.share.tolist() == pytest.approx([1000.0 / (0.75 * 1030.0)])
    assert found.rounds == 3


def test_a_change_of_the_type_or_the_number_costs_a_restart_and_a_pause_does_too() -> None:
    turns = Fixed((0, 1), (0, 1), (1, 1), (1, 2), (NONE, 0), (1, 2))
    jobs = jobs_of([0.0], [330.0 + 360.0 + 165.0 + 330.0 + 100.0], [[1.0, 2.0], [0.5, 1.0]])
    found = run_rounds(jobs, np.array([2, 2]), turns, SETTINGS)
    assert found.restarts.tolist() == [3]
    assert found.completion_s.tolist() == [5 * 360.0 + 30.0 + 100.0]


def test_accelerators_of_a_job_that_ends_are_free_in_the_next_round() -> None:
    found = run_rounds(
        jobs_of([0.0, 0.0], [60.0, 60.0], [[1.0, 2.0]]), np.array([1]), Fifo(), SETTINGS
    )
    assert found.completion_s.tolist() == [90.0, 360.0 + 90.0]
    # two jobs: half of the accelerator each, for 90 s and 360 s, then all of it
    assert found.share == pytest.approx([60 / 45, 60 / (180 + 90)])


def test_rounds_without_jobs_are_passed_over() -> None:
    far = 1e9 * 360.0
    found = run_rounds(
        jobs_of([0.0, far], [60.0, 60.0], [[1.0, 2.0]]), np.array([1]), Fifo(), SETTINGS
    )
    assert found.completion_s.tolist() == [90.0, 90.0]
    assert found.rounds == 2


@pytest.mark.parametrize(
    ("turn", "message"),
    [
        ((0, 2), "2 accelerators of type 0 assigned; there are 1"),
        ((1, 1), "job 0: it cannot run on what it was assigned"),
        ((0, 3), "3 accelerators of type 0"),
    ],
)
def test_an_assignment_that_is_not_possible_is_an_error(
    turn: tuple[int, int], message: str
) -> None:
    jobs = jobs_of([0.0], [60.0], [[1.0, 2.0], [0.0, 0.0]])
    with pytest.raises(AcceleratorError, match=message):
        run_rounds(jobs, np.array([1, 2]), Fixed(turn), SETTINGS)


def test_a_number_that_was_not_measured_is_an_error() -> None:
    jobs = jobs_of([0.0], [60.0], [[1.0, 2.0]])
    with pytest.raises(AcceleratorError, match="the number assigned was not measured"):
        run_rounds(jobs, np.array([4]), Fixed((0, 3)), SETTINGS)


@pytest.mark.parametrize(
    ("jobs", "message"),
    [
        (jobs_of([0.0], [60.0], [[1.0, 0.0]], count=2), "job 0: it runs on no type"),
        (jobs_of([0.0], [0.0], [[1.0, 2.0]]), "job 0: steps is not valid"),
        (jobs_of([5.0, 1.0], [9.0, 9.0], [[1.0, 2.0]]), "job 1: submit_s is not valid"),
        (jobs_of([0.0], [9.0], [[1.0, 2.0]], count=3), "job 0: count is not valid"),
    ],
)
def test_jobs_that_cannot_run_are_named(jobs: TrainingJobs, message: str) -> None:
    with pytest.raises(AcceleratorError, match=message):
        run_rounds(jobs, np.array([4]), Fifo(), SETTINGS)


@pytest.mark.parametrize("name", sorted(ROUND_POLICIES))
@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 1000), load=st.sampled_from([0.5, 1.2]))
def test_every_job_ends_no_sooner_than_it_can(name: str, seed: int, load: float) -> None:
    rng = np.random.default_rng(seed)
    speed = rng.uniform(0.2, 2.0, (4, 2, 1)) * np.array(COUNTS) ** 0.8
    available = np.array([8, 8])
    jobs = poisson_trace(Throughputs(tuple("abcd"), speed), available, 12, load, rng)
    found = run_rounds(jobs, available, make_rounds(name), RoundSettings(3600.0, 30.0))
    assert (found.completion_s >= jobs.steps / jobs.speed.max(axis=(1, 2))).all()
    assert (found.share > 0.0).all()
