from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.scheduling.core.cluster.conflicts import Claim, resolve_conflicts

ROOM = (8.0, 8.0, 8.0)


def claim(job: str, units: list[int], *, whole: bool = False, each: float = 1.0) -> Claim:
    """Units of server ``unit // 10``."""
    servers = [unit // 10 for unit in units]
    return Claim(job, units, servers, [(each, each, each)] * len(units), whole)


def free(*units: int) -> dict[int, object]:
    return dict.fromkeys(units)


def test_the_first_claim_wins_a_unit_and_the_second_loses_it() -> None:
    claims = [claim("a", [1]), claim("b", [1])]
    assert resolve_conflicts(claims, free(1), {0: ROOM}) == [(0,), ()]


def test_an_incremental_claim_keeps_what_it_won() -> None:
    claims = [claim("a", [2]), claim("b", [1, 2, 3])]
    assert resolve_conflicts(claims, free(1, 2, 3), {0: ROOM}) == [(0,), (0, 2)]


def test_a_whole_claim_that_lacks_a_unit_leaves_its_units_to_the_next() -> None:
    claims = [claim("a", [1, 9], whole=True), claim("b", [1])]
    assert resolve_conflicts(claims, {1: None, 9: "other"}, {0: ROOM}) == [(), (0,)]


def test_a_losing_whole_claim_leaves_its_capacity_to_the_next() -> None:
    claims = [claim("a", [1, 9], whole=True, each=5.0), claim("b", [2], each=5.0)]
    assert resolve_conflicts(claims, free(1, 2, 9), {0: ROOM}) == [(), (0,)]


def test_units_beyond_the_servers_capacity_are_lost() -> None:
    claims = [claim("a", [1, 2], each=4.0), claim("b", [3], each=1.0)]
    assert resolve_conflicts(claims, free(1, 2, 3), {0: ROOM}) == [(0, 1), ()]


def test_a_unit_reserved_for_another_job_is_left_to_the_next_claim() -> None:
    barred = replace(claim("a", [3, 4]), barred=frozenset({3}))
    assert resolve_conflicts([barred, claim("b", [3])], free(3, 4), {0: ROOM}) == [(1,), (0,)]


@pytest.mark.parametrize("scarce", [0, 1, 2])
def test_capacity_that_is_kept_for_others_is_not_won(scarce: int) -> None:
    kept = tuple(6.0 if dimension == scarce else 0.0 for dimension in range(3))
    half = (kept[0] / 2.0, kept[1] / 2.0, kept[2] / 2.0)
    bound = claim("a", [1, 2, 11], each=2.0)
    bound = replace(bound, kept={0: [(3, half), (4, half)]}, barred=frozenset({3, 4}))
    won = resolve_conflicts([bound, claim("b", [2], each=6.0)], free(1, 2, 11), {0: ROOM, 1: ROOM})
    assert won == [(0, 2), (0,)]
    holder = claim("c", [3, 4], each=3.0)  # takes what was kept for it
    won = resolve_conflicts([holder, bound], free(1, 2, 3, 4, 11), {0: ROOM, 1: ROOM})
    assert won == [(0, 1), (0, 2)]


@pytest.mark.parametrize("scarce", [0, 1, 2])
def test_each_dimension_of_the_capacity_is_used_up(scarce: int) -> None:
    room = tuple(2.0 if dimension == scarce else 8.0 for dimension in range(3))
    claims = [claim("a", [1]), claim("b", [2, 3]), claim("c", [4])]
    won = resolve_conflicts(claims, free(1, 2, 3, 4), {0: (room[0], room[1], room[2])})
    assert won == [(0,), (0,), ()]


def test_capacity_reached_by_rounding_still_fits() -> None:
    claims = [claim("a", [1, 2, 3], each=1.0 / 3.0)]
    assert resolve_conflicts(claims, free(1, 2, 3), {0: (0.9999999, 1.0, 1.0)}) == [(0, 1, 2)]


def test_a_unit_listed_twice_is_won_once() -> None:
    assert resolve_conflicts([claim("a", [1, 1])], free(1), {0: ROOM}) == [(0,)]


def test_unknown_units_and_closed_servers_cannot_be_won() -> None:
    claims = [claim("a", [5]), claim("b", [11])]
    assert resolve_conflicts(claims, free(11), {0: ROOM}) == [(), ()]


def test_no_claims_have_no_winners() -> None:
    assert resolve_conflicts([], {}, {}) == []


claim_lists = st.lists(
    st.tuples(st.lists(st.integers(0, 29), min_size=1, max_size=6), st.booleans()), max_size=8
)


@given(claim_lists, st.sets(st.integers(0, 29)))
def test_no_unit_is_won_twice_and_only_free_ones_are(
    units_wanted: list[tuple[list[int], bool]], unavailable: set[int]
) -> None:
    claims = [claim(str(i), units, whole=whole) for i, (units, whole) in enumerate(units_wanted)]
    owners = {unit: ("x" if unit in unavailable else None) for unit in range(30)}
    won = resolve_conflicts(claims, owners, dict.fromkeys(range(3), ROOM))
    units = [c.units[p] for c, winners in zip(claims, won, strict=True) for p in winners]
    assert len(units) == len(set(units))
    assert not unavailable & set(units)


@given(claim_lists)
def test_whole_claims_win_all_or_nothing(units_wanted: list[tuple[list[int], bool]]) -> None:
    claims = [claim(str(i), units, whole=True) for i, (units, _) in enumerate(units_wanted)]
    won = resolve_conflicts(claims, free(*range(30)), dict.fromkeys(range(3), ROOM))
    assert {len(w) for w in won} <= {0} | {len(c.units) for c in claims}
    assert all(len(w) in {0, len(c.units)} for w, c in zip(won, claims, strict=True))


@given(claim_lists, st.floats(0.5, 4.0))
def test_no_server_exceeds_its_capacity(
    units_wanted: list[tuple[list[int], bool]], each: float
) -> None:
    claims = [claim(str(i), u, whole=w, each=each) for i, (u, w) in enumerate(units_wanted)]
    won = resolve_conflicts(claims, free(*range(30)), dict.fromkeys(range(3), ROOM))
    used = [0.0, 0.0, 0.0]
    for c, winners in zip(claims, won, strict=True):
        for position in winners:
            used[c.servers[position]] += each
    assert max(used) <= 8.0 * (1 + 1e-5)
