"""Decayed dominant shares, and the order of jobs that follows from them."""

import math
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.scheduling.core.sharing.fair_share import (
    NOTHING,
    Amounts,
    Demand,
    added_shares,
    decayed,
    dominant,
    interval_weight,
    positions,
    remaining_weight,
    shares_of,
    total,
    turn_order,
)

A, B, C = UUID(int=1), UUID(int=2), UUID(int=3)
DAY_S = 86400.0


def units(share: float) -> Amounts:
    return (share, 0.0, 0.0, 0.0)


def memory(share: float) -> Amounts:
    return (0.0, share, 0.0, 0.0)


def test_use_counts_half_after_a_half_life_and_a_quarter_after_two() -> None:
    assert [remaining_weight(days * DAY_S, DAY_S) for days in (0, 1, 2, 3)] == [
        1,
        1 / 2,
        1 / 4,
        1 / 8,
    ]
    assert remaining_weight(-5.0, DAY_S) == 1.0, "a clock of another host may be ahead"
    assert remaining_weight(1e9, 1.0) == 0.0
    assert decayed((8.0, 4.0, 2.0, 0.0), 2.0 * DAY_S, DAY_S) == (2.0, 1.0, 0.5, 0.0)


def test_the_last_half_life_is_half_of_the_decayed_past() -> None:
    def weight(begin_s: float, end_s: float) -> float:
        return interval_weight(begin_s, end_s, now_s=100.0, half_life_s=10.0)

    assert weight(90.0, 100.0) == 1 / 2
    assert weight(80.0, 90.0) == 1 / 4
    assert weight(80.0, 100.0) == 3 / 4
    assert weight(-1e9, 100.0) == 1.0


def test_shares_are_parts_of_the_cluster() -> None:
    """Ghodsi et al., §4.1: 9 CPUs and 18 GB; A runs 3 tasks of <1 CPU, 4 GB>, B 2 of <3, 1>."""
    cluster = (9.0, 18.0, 0.0, 0.0)
    of_a, of_b = (
        shares_of((3.0, 12.0, 0.0, 7.0), cluster),
        shares_of((6.0, 2.0, 0.0, 0.0), cluster),
    )
    assert dominant(of_a) == (12 / 18, "memory")
    assert dominant(of_b) == (6 / 9, "units")
    assert of_a[3] == 0.0, "a resource that the cluster lacks"
    assert dominant((0.2, 0.2, 0.1, 0.2)) == (0.2, "units")


def test_progressive_filling_gives_the_allocation_of_the_paper() -> None:
    """Ghodsi et al., Figure 3: A gets 3 tasks and B 2, before the 9 CPUs are used."""
    task_a, task_b = (1 / 9, 4 / 18, 0.0, 0.0), (3 / 9, 1 / 18, 0.0, 0.0)
    demands = [Demand(A, 0, task_a)] * 5 + [Demand(B, 0, task_b)] * 5
    names = ["AB"[demands[place].project == B] for place in turn_order(demands, {})]
    assert names[:5] == ["A", "B", "A", "B", "A"]


def test_the_project_with_the_smallest_share_is_next() -> None:
    demands = [Demand(A, 0, units(0.1)) for _ in range(3)]
    demands += [Demand(B, 0, units(0.1)) for _ in range(3)]
    assert turn_order(demands, {A: units(0.25), B: NOTHING}) == [3, 4, 5, 0, 1, 2]
    assert turn_order(demands, {}) == [0, 3, 1, 4, 2, 5], "in turn, the older job first"


def test_units_do_not_raise_a_share_of_memory_that_is_larger() -> None:
    demands = [Demand(A, 0, units(0.1)) for _ in range(3)]
    demands += [Demand(B, 0, units(0.1)) for _ in range(3)]
    assert turn_order(demands, {A: memory(0.15), B: NOTHING}) == [3, 4, 0, 1, 2, 5]


def test_a_higher_priority_comes_before_a_smaller_share() -> None:
    demands = [Demand(B, 0, NOTHING), Demand(A, 0, NOTHING), Demand(A, 7, units(0.5))]
    assert turn_order(demands, {A: units(0.9), B: units(0.1)}) == [2, 0, 1]


def test_what_jobs_of_a_higher_priority_take_counts_for_the_others() -> None:
    demands = [Demand(A, 7, units(0.5)), Demand(A, 0, NOTHING), Demand(B, 0, NOTHING)]
    assert turn_order(demands, {A: NOTHING, B: units(0.3)}) == [0, 2, 1]


@pytest.mark.parametrize(
    ("run_s", "part"), [(10.0, 1 / 2), (20.0, 3 / 4), (0.0, 0.0), (1e9, 1.0), (None, 1 / 2)]
)
def test_a_job_adds_the_part_of_its_share_that_its_run_time_lasts(
    run_s: float | None, part: float
) -> None:
    assert added_shares((0.4, 0.2, 0.0, 0.0), run_s, 10.0) == (0.4 * part, 0.2 * part, 0.0, 0.0)


def test_positions_follow_the_share_and_archived_projects_are_last() -> None:
    assert positions({A: 0.5, B: 0.2, C: 0.5}) == {B: 1, A: 2, C: 3}
    assert positions({A: 0.5, B: 0.2, C: 0.0}, last=[C]) == {B: 1, A: 2, C: 3}
    assert positions({}) == {}


def test_the_sum_of_nothing_is_nothing() -> None:
    assert total() == NOTHING
    assert total(units(0.5), memory(0.25), units(0.5)) == (1.0, 0.25, 0.0, 0.0)


SHARES = st.tuples(*[st.floats(0.0, 1.0)] * 4)
PROJECTS = st.sampled_from([UUID(int=n) for n in range(1, 6)])
DEMANDS = st.lists(st.builds(Demand, PROJECTS, st.integers(-2, 2), SHARES), max_size=40)


@given(DEMANDS, st.dictionaries(PROJECTS, SHARES))
def test_every_job_has_one_place_and_projects_keep_their_order(
    demands: list[Demand], shares: dict[UUID, Amounts]
) -> None:
    order = turn_order(demands, shares)
    assert sorted(order) == list(range(len(demands)))
    priorities = [demands[place].priority for place in order]
    assert priorities == sorted(priorities, reverse=True)
    for project in {each.project for each in demands}:
        for priority in set(priorities):
            own = [
                place
                for place in order
                if (demands[place].project, demands[place].priority) == (project, priority)
            ]
            assert own == sorted(own)


@given(DEMANDS, st.dictionaries(PROJECTS, SHARES))
def test_no_other_project_with_a_waiting_job_has_a_smaller_share(
    demands: list[Demand], shares: dict[UUID, Amounts]
) -> None:
    taken, left = dict(shares), list(range(len(demands)))
    for place in turn_order(demands, shares):
        own = demands[place]
        peers = {demands[i].project for i in left if demands[i].priority == own.priority}
        least = min(max(taken.get(project, NOTHING)) for project in peers)
        assert max(taken.get(own.project, NOTHING)) == least
        taken[own.project] = total(taken.get(own.project, NOTHING), own.added)
        left.remove(place)


@given(
    st.lists(st.tuples(st.floats(-1e5, 1e5), st.floats(0.0, 1e5)), max_size=8),
    st.floats(0.0, 1e5),
    st.floats(1.0, 1e5),
)
def test_use_that_is_stored_and_decayed_equals_use_read_at_once(
    intervals: list[tuple[float, float]], later_s: float, half_life_s: float
) -> None:
    now_s = 2e5

    def use(at_s: float) -> float:
        return sum(
            interval_weight(begin, begin + long, now_s=at_s, half_life_s=half_life_s)
            for begin, long in intervals
        )

    ((stored, *_), at_once) = (
        decayed(units(use(now_s)), later_s, half_life_s),
        use(now_s + later_s),
    )
    assert math.isclose(stored, at_once, rel_tol=1e-9, abs_tol=1e-9)


@given(st.integers(1, 6), st.floats(0.0, 1.0), st.floats(10.0, 1e4))
def test_a_waiting_project_is_below_those_that_hold_the_cluster_after_a_bounded_time(
    others: int, share: float, half_life_s: float
) -> None:
    """After log2(1 + n share) half-lives if n others hold 1/n each: at most one if n is 1."""
    half_lives = math.log2(1.0 + others * share)
    assert others > 1 or half_lives <= 1.0
    elapsed_s = half_lives * half_life_s
    (waits, *_) = decayed(units(share), elapsed_s, half_life_s)
    held = interval_weight(0.0, elapsed_s, now_s=elapsed_s, half_life_s=half_life_s)
    assert waits <= held / others + 1e-9
