"""Policies of rounds: a contract over the registry, and what each does by hand."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.scheduling.core.registry import POLICIES, PolicyParameterError
from apps.testbed.core.accelerators.jobs import NONE, AcceleratorError, check_assignment
from apps.testbed.core.accelerators.max_min import max_min_shares
from apps.testbed.core.accelerators.policies import (
    FairShareBlind,
    Fifo,
    Goodput,
    by_priority,
    priorities,
)
from apps.testbed.core.accelerators.registry import ROUND_POLICIES, make_rounds
from apps.testbed.core.traces import Floats
from tests.testbed.core.accelerators.states import state

NAMES = sorted(ROUND_POLICIES)
EXAMPLE = [[40.0, 10.0], [12.0, 4.0], [100.0, 50.0]]  # Gavel §4.1


def received(name: str, speed: list[list[float]], available: list[int], rounds: int) -> Floats:
    """Share of the rounds that each job has on each type while no job arrives or ends."""
    policy = make_rounds(name)
    of = state(speed, available)
    given_to = np.zeros((len(speed), len(available)))
    for _ in range(rounds):
        types = policy.assign(of).types
        runs = np.flatnonzero(types != NONE)
        given_to[runs, types[runs]] += 1
    return given_to / rounds


def test_rounds_give_the_shares_of_the_paper() -> None:
    target = max_min_shares(np.array(EXAMPLE), np.ones(3, dtype=np.int64), np.array([1, 1]))
    found = received("gavel_max_min", EXAMPLE, [1, 1], 1100)
    assert found == pytest.approx(target, abs=0.01)


def test_a_new_job_gets_its_share_after_others_have_run_for_long() -> None:
    policy = make_rounds("gavel_max_min")
    for _ in range(200):
        policy.assign(state([[1.0]] * 2, [1]))
    three = [policy.assign(state([[1.0]] * 3, [1])).types.tolist() for _ in range(300)]
    turns = (np.array(three) != NONE).mean(axis=0)
    assert turns[2] == pytest.approx(1 / 3, abs=0.02)


def test_priority_is_target_over_received_and_nothing_received_is_first() -> None:
    now = np.array([[0.5, 0.5], [0.2, 0.0], [0.5, 0.8]])
    target = np.array([[5.0, 5.0], [2.0, 9.0], [5.0, 8.0]])
    got = np.array([[5.0, 2.0], [0.0, 0.0], [0.0, 4.0]])
    # 1, 5/2; infinite, no share now; infinite with a larger target, 2
    assert priorities(now, target, got).tolist() == [[4, 2], [1, 5], [0, 3]]


def test_the_highest_priority_takes_a_job_out_of_its_other_types() -> None:
    rank = np.array([[0, 1], [2, 3]])
    runs = np.ones((2, 2), dtype=np.bool_)
    both = np.array([1, 1])
    assert by_priority(rank, runs, both, np.array([1, 1])).tolist() == [0, 1]


def test_a_job_that_does_not_fit_leaves_the_accelerators_to_the_next() -> None:
    rank = np.array([[0], [1], [2]])
    runs = np.ones((3, 1), dtype=np.bool_)
    found = by_priority(rank, runs, np.array([2, 4, 1]), np.array([3]))
    assert found.tolist() == [0, NONE, 0]


def test_fifo_keeps_what_runs_and_the_first_that_waits_blocks_the_others() -> None:
    rows = [[[1.0, 2.0, 4.0], [1.0, 2.0, 4.0]]] * 3
    of = state(rows, [4, 1], count=[2, 4, 1], on=[(0, 2), (NONE, 0), (NONE, 0)])
    found = Fifo().assign(of)
    assert found.types.tolist() == [0, NONE, NONE]
    assert found.counts.tolist() == [2, 0, 0]


def test_fifo_takes_the_type_with_most_free_accelerators() -> None:
    assert Fifo().assign(state([[9.0, 1.0]] * 3, [1, 3])).types.tolist() == [1, 1, 0]


def test_a_blind_fair_share_stays_on_its_type_and_takes_turns() -> None:
    policy = FairShareBlind()
    first = policy.assign(state([[1.0, 9.0]], [1, 2], on=[(0, 1)]))
    assert first.types.tolist() == [0]
    assert received("fair_share_blind", [[1.0]] * 3, [1], 300)[:, 0] == pytest.approx(
        [1 / 3] * 3, abs=0.01
    )


def test_every_policy_says_where_it_is_from() -> None:
    assert NAMES == [
        "fair_share_blind", "fifo", "gavel_max_min", "sia_goodput", "sia_goodput_rigid",
    ]  # fmt: skip
    assert all(entry.source and entry.formula for entry in ROUND_POLICIES.values())
    assert not ROUND_POLICIES.keys() & POLICIES.keys()


def test_parameters_are_checked_against_their_schema() -> None:
    properties = ROUND_POLICIES["sia_goodput"].schema()["properties"]
    assert properties["power"]["default"] == -0.5
    assert make_rounds("sia_goodput", {"power": 1.0, "waiting": 2.0}) == Goodput(1.0, 2.0)
    assert make_rounds("sia_goodput_rigid") == Goodput(is_adaptive=False)
    with pytest.raises(PolicyParameterError, match=r"power must be a number in -4 \.\. 4"):
        make_rounds("sia_goodput", {"power": 9.0})
    with pytest.raises(PolicyParameterError, match="gavel_max_min has no parameters, so"):
        make_rounds("gavel_max_min", {"power": 1.0})
    with pytest.raises(AcceleratorError, match="unknown policy 'sia'; known are fifo,"):
        make_rounds("sia")


@st.composite
def rows_of_jobs(draw: st.DrawFn) -> list[list[list[float]]]:
    # every job runs with one accelerator on the first type
    cell = st.sampled_from([0.0, 0.5, 1.0, 3.0])
    row = st.tuples(st.lists(cell, min_size=3, max_size=3), st.lists(cell, min_size=3, max_size=3))
    rows = draw(st.lists(row, min_size=1, max_size=6))
    return [[[1.0, *first[1:]], second] for first, second in rows]


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=30, deadline=None)
@given(rows=rows_of_jobs(), available=st.tuples(st.integers(1, 4), st.integers(1, 4)))
def test_rounds_never_exceed_the_accelerators_and_repeat(
    name: str, rows: list[list[list[float]]], available: tuple[int, int]
) -> None:
    one, other = make_rounds(name), make_rounds(name)
    last = None
    for _ in range(4):
        of = state(rows, available, on=last)
        before = of.speed.copy(), of.available.copy()
        found, again = one.assign(of), other.assign(of)
        check_assignment(of, found)  # a job has one type, or none
        assert found.types.tolist() == again.types.tolist()
        assert found.counts.tolist() == again.counts.tolist()
        assert ((found.counts == 0) == (found.types == NONE)).all()
        assert (of.speed == before[0]).all()
        assert (of.available == before[1]).all()
        last = list(zip(found.types.tolist(), found.counts.tolist(), strict=True))
