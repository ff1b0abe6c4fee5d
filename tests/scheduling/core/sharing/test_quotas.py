"""Guaranteed units, borrowing, lending and reclaim."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.scheduling.core.sharing.quotas import (
    Standing,
    WaitingGang,
    allowance,
    beyond_limit,
    lent,
)

A, B, C = UUID(int=1), UUID(int=2), UUID(int=3)


def test_a_project_may_use_its_guarantee_whatever_others_claim() -> None:
    standings = {A: Standing("a", 10, used=4, waiting=6), B: Standing("b", 50, waiting=50)}
    assert allowance(standings, A, 5).units == 6


@pytest.mark.parametrize(
    ("used", "waiting", "units"),
    [
        (0, 0, None),  # b needs nothing: any number of units may be borrowed
        (0, 12, 18),  # b claims 12 of its 20
        (0, 99, 10),  # b claims its guarantee, and no more
        (15, 99, 25),  # 5 of it are left
        (25, 99, None),  # b borrows itself, and claims nothing
    ],
)
def test_units_are_borrowed_as_far_as_their_owner_does_not_claim_them(
    used: int, waiting: int, units: int | None
) -> None:
    standings = {A: Standing("a", 10, used=10), B: Standing("b", 20, None, used, waiting)}
    assert allowance(standings, A, 30).units == units


def test_a_borrower_gets_nothing_while_lenders_reclaim() -> None:
    """The cluster has 30 units: a has borrowed 10 of b, which now requests all of its 20."""
    standings = {A: Standing("a", 10, used=20), B: Standing("b", 20, used=10, waiting=10)}
    found = allowance(standings, A, 0)
    assert found.units == 0
    assert found.detail == (
        "project a uses 20 units and 10 are guaranteed;"
        " other projects claim 10 units, and 0 are free"
    )
    assert allowance(standings, B, 0).covers(10)
    assert allowance(standings, A, 10).units == 0, "what a returns goes to b"


@pytest.mark.parametrize(("limit", "units"), [(12, 2), (10, 0), (8, 0), (99, 89), (None, None)])
def test_a_limit_bounds_what_is_borrowed(limit: int | None, units: int | None) -> None:
    standings = {A: Standing("a", 5, limit, used=10)}
    found = allowance(standings, A, 30)
    assert found.units == units
    assert ("of at most" in found.detail) == (limit is not None)
    assert (found.covers(2), found.covers(90)) == (units != 0, units is None)


@pytest.mark.parametrize(
    ("free", "ending"),
    [
        (49, "other projects claim 48 of the 49 free units"),
        (48, "other projects claim 48 of the 48 free units"),
        (16, "other projects claim 48 units, and 16 are free"),
    ],
)
def test_a_refusal_compares_claimed_and_free_units(free: int, ending: str) -> None:
    standings = {A: Standing("a"), B: Standing("b", 48, waiting=48)}
    assert allowance(standings, A, free).detail.endswith(ending)


@pytest.mark.parametrize(
    ("limit", "units", "sentence"),
    [
        (None, 130, ""),
        (130, 130, ""),
        (120, 130, "the job needs 130 units at once, and project vision may use at most 120"),
        (0, 1, "the job needs 1 unit at once, and project vision may use at most 0"),
    ],
)
def test_a_job_that_needs_more_units_at_once_than_the_maximum_can_never_start(
    limit: int | None, units: int, sentence: str
) -> None:
    assert beyond_limit(Standing("vision", 0, limit, used=11), units) == sentence


def test_a_project_without_a_guarantee_borrows_only() -> None:
    standings = {A: Standing("a"), B: Standing("b", 20, waiting=20)}
    assert [allowance(standings, A, free).units for free in (30, 20, 5)] == [10, 0, 0]


def test_borrowed_units_are_lent_in_proportion_to_what_is_unused() -> None:
    """a borrows 9; b has 10 unused units and c has 20."""
    standings = {A: Standing("a", 1, used=10), B: Standing("b", 10), C: Standing("c", 30, used=10)}
    assert lent(standings, 41) == {A: 0, B: 3, C: 6}
    assert standings[A].borrowed == 9
    nobody = {A: Standing("a", 1, used=1), B: Standing("b", 10)}
    assert lent(nobody, 11) == {A: 0, B: 0}


def test_no_more_is_lent_than_is_unused() -> None:
    standings = {A: Standing("a", used=50), B: Standing("b", 10, used=4)}
    assert lent(standings, 54) == {A: 0, B: 6}


def test_a_unit_that_two_projects_lend_in_equal_parts_is_lent_by_one_of_them() -> None:
    standings = {
        A: Standing("a", 10, used=5),
        B: Standing("b", 10, used=5),
        C: Standing("c", used=1),
    }
    assert lent(standings, 20) == {A: 1, B: 0, C: 0}


standings_of_few = st.dictionaries(
    st.sampled_from([UUID(int=number) for number in range(6)]),
    st.builds(
        Standing,
        name=st.just("some"),
        guaranteed=st.integers(0, 12),
        used=st.integers(0, 20),
    ),
    min_size=4,
)


@given(standings_of_few, st.integers(0, 40))
def test_as_many_units_are_lent_as_are_borrowed_in_all(
    standings: dict[UUID, Standing], capacity: int
) -> None:
    found = lent(standings, capacity)
    unused = {key: max(0, each.guaranteed - each.used) for key, each in standings.items()}
    to_nobody = max(0, capacity - sum(each.guaranteed for each in standings.values()))
    beyond = max(0, sum(each.borrowed for each in standings.values()) - to_nobody)
    assert sum(found.values()) == min(sum(unused.values()), beyond)
    assert all(0 <= found[key] <= units for key, units in unused.items())


@pytest.mark.parametrize(
    ("used", "capacity", "expected"),
    [(50, 100, 0), (90, 100, 0), (93, 100, 3), (100, 100, 10), (5, 8, 5)],
    ids=["half", "all that nobody is guaranteed", "more", "all", "more guaranteed than there is"],
)
def test_units_that_are_guaranteed_to_nobody_are_borrowed_first(
    used: int, capacity: int, expected: int
) -> None:
    standings = {A: Standing("a", 10), B: Standing("b", used=used)}
    assert lent(standings, capacity) == {A: expected, B: 0}


@pytest.mark.parametrize(
    ("guaranteed", "limit", "claimed", "units"),
    [
        (0, 9, 0, 2),  # 9 less the 3 used and 4 kept
        (0, 6, 0, 0),  # the gang needs more than is left: nothing is left beside it
        (5, None, 10, 4),  # it may take 8 of the 18 free units, and 4 are kept
        (3, None, 17, 1),  # it would have to borrow what others claim: nothing is kept
        (0, None, 0, None),  # no quota binds the project
    ],
)
def test_units_of_the_quota_are_kept_for_a_gang(
    guaranteed: int, limit: int | None, claimed: int, units: int | None
) -> None:
    standings = {
        A: Standing("a", guaranteed, limit, used=3),
        B: Standing("b", claimed, waiting=claimed),
    }
    found = allowance(standings, A, 18, WaitingGang(C, 4, 0))
    assert found.units == units


@pytest.mark.parametrize(
    ("job", "priority", "ends_s", "is_bound"),
    [
        (A, 0, 50.0, True),
        (A, -1, 50.0, True),
        (A, 1, 50.0, False),  # more urgent
        (B, 0, 50.0, False),  # the gang itself
        (A, 0, 40.0, False),  # backfilled: it ends before the reserved start
    ],
)
def test_other_jobs_leave_a_gang_its_units(
    job: UUID, priority: int, ends_s: float, is_bound: bool
) -> None:
    gang = WaitingGang(B, 4, 0, start_s=40.0)
    assert gang.binds(job, priority=priority, ends_s=ends_s) is is_bound
