"""Guaranteed units, borrowing, lending and reclaim."""

from uuid import UUID

import pytest

from apps.scheduling.core.sharing.quotas import Standing, allowance, lent

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
        " other projects claim 10 of the 0 free units"
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


def test_a_project_without_a_guarantee_borrows_only() -> None:
    standings = {A: Standing("a"), B: Standing("b", 20, waiting=20)}
    assert [allowance(standings, A, free).units for free in (30, 20, 5)] == [10, 0, 0]


def test_borrowed_units_are_lent_in_proportion_to_what_is_unused() -> None:
    """a borrows 9; b has 10 unused units and c has 20."""
    standings = {A: Standing("a", 1, used=10), B: Standing("b", 10), C: Standing("c", 30, used=10)}
    assert lent(standings) == {A: 0, B: 3, C: 6}
    assert standings[A].borrowed == 9
    nobody = {A: Standing("a", 1, used=1), B: Standing("b", 10)}
    assert lent(nobody) == {A: 0, B: 0}


def test_no_more_is_lent_than_is_unused() -> None:
    standings = {A: Standing("a", used=50), B: Standing("b", 10, used=4)}
    assert lent(standings) == {A: 0, B: 6}
