"""What would have changed a decision, and what each resource added to its score."""

import math
from dataclasses import replace

import pytest

from apps.common.core.interference import SOURCES
from apps.dashboard.core.contributions import compare, pairs
from apps.dashboard.core.flips import Flip, Sizes, flips
from apps.dashboard.core.why import CandidateFacts, DecisionFacts, grouped, shortened

N = len(SOURCES)
ROOM = tuple(float(10 + i) for i in range(N))
CAUSED = [float(i) for i in range(N)]  # storage bandwidth most, memory capacity least


def candidate(server: str, verdict: str, *, quality: float, room: float = 10.0) -> CandidateFacts:
    return CandidateFacts(
        server=server,
        core=0,
        platform="A",
        quality=quality,
        target=0.5,
        closeness=1.0 - (quality - 0.5),
        verdict=verdict,
        headroom=(room, *ROOM[1:]),
    )


CHOSEN = candidate("srv-1", "chosen", quality=0.514233)
NEXT = candidate("srv-2", "outranked", quality=0.534133)
PLACED = DecisionFacts(
    placed=True,
    reason_code="PlacedBestOfSample",
    reason_sentence="",
    policy="tarcil",
    units=3,
    units_won=3,
    servers=("srv-1",),
    examined=8,
    eligible=100,
    candidates=(CHOSEN, NEXT),
    dropped=(("busy", 400),),
    predicted="",
    predicted_interval="",
    target="",
)
REFUSED = replace(
    PLACED, placed=False, reason_code="NotEnoughFreeUnits", candidates=(), eligible=1
)


def test_the_parts_add_up_to_the_difference_of_the_matches() -> None:
    found = compare([CHOSEN, NEXT], CAUSED)
    assert found is not None
    total = sum(row.gain or 0.0 for row in found.rows)
    assert total == pytest.approx(CHOSEN.closeness - NEXT.closeness)
    assert [row.gain_text for row in found.rows[:3]] == ["+0.02", "−0.0001", "0.000000"]


def test_the_source_the_job_presses_most_comes_first() -> None:
    found = compare([CHOSEN, NEXT], CAUSED)
    assert found is not None
    assert [found.rows[0].name, found.rows[-1].name] == ["Storage", "Memory capacity"]
    assert found.title == "Storage decided it: +0.0199 over srv-2"
    assert [row.gain is None for row in found.rows] == [False] * 3 + [True] * 7


def test_nothing_is_compared_where_all_scored_the_same() -> None:
    assert compare([CHOSEN, replace(CHOSEN, server="srv-2", verdict="outranked")], CAUSED) is None


def test_two_units_that_are_not_enough_are_compared_by_their_quality() -> None:
    units = [replace(c, closeness=c.quality) for c in (NEXT, CHOSEN)]
    louder, quieter = replace(units[1], verdict="outranked"), replace(units[0], verdict="chosen")
    found = compare([quieter, louder], CAUSED)
    assert found is not None
    total = sum(row.gain or 0.0 for row in found.rows)
    assert total == pytest.approx(quieter.closeness - louder.closeness)


def test_no_source_decided_where_only_one_of_the_two_is_enough() -> None:
    assert compare([replace(CHOSEN, closeness=CHOSEN.quality), NEXT], CAUSED) is None


def test_nothing_is_compared_where_the_policy_computes_no_quality() -> None:
    assert compare([replace(CHOSEN, quality=math.nan), NEXT], CAUSED) is None


@pytest.mark.parametrize(
    ("code", "digits"),
    [(0.0, (0, 0, 0)), (0.605658, (60, 56, 58)), (1.0, (99, 99, 99)), (math.nan, ())],
)
def test_a_code_is_read_as_pairs_of_digits(code: float, digits: tuple[int, ...]) -> None:
    assert pairs(code) == digits


def test_a_placed_job_names_its_runner_up_and_how_much_louder_it_may_get() -> None:
    assert flips(PLACED) == (
        Flip("If srv-1 were full", "srv-2 would be next, match 0.966 instead of 0.986"),
        Flip(
            "If Memory capacity pressure on srv-1 rose by 10 points",
            "more than that and it could not keep its promise there",
        ),
    )


def test_the_target_at_which_the_size_changes_comes_first() -> None:
    first, second, *_ = flips(PLACED, Sizes("completion_time", at=90.0, less=140.0))
    assert first == Flip("Target at least 2 min 20 s", "2 units would be enough")
    assert second == Flip("Target less than 1 min 30 s", "more than 3 units, to be as sure of it")


def test_one_unit_cannot_become_fewer() -> None:
    first, *_ = flips(replace(PLACED, units=1), Sizes("ips", at=2e9, less=None))
    assert first == Flip("Target more than 2 G instr./s", "more than 1 unit, to be as sure of it")


def test_a_refused_job_names_the_least_noisy_unit() -> None:
    noisy = tuple(
        candidate(f"srv-{i}", "too_noisy", quality=0.4, room=-room)
        for i, room in enumerate((7.5, 2.5))
    )
    facts = replace(REFUSED, candidates=noisy, eligible=100)
    assert flips(facts) == (
        Flip(
            "If Memory capacity pressure on srv-1 fell by 2.5 points",
            "that unit could keep the promise",
        ),
    )


def test_a_refused_job_counts_the_units_that_are_missing_and_the_filters_to_lift() -> None:
    facts = replace(REFUSED, dropped=(("busy", 400), ("platform", 70)))
    assert flips(facts) == (
        Flip(
            "If 2 more units became free",
            "enough could be examined; 400 are allocated to other jobs",
        ),
        Flip("If any platform were allowed", "70 more units would be eligible"),
    )


def test_nothing_stored_gives_no_flip() -> None:
    assert flips(replace(REFUSED, dropped=())) == ()
    assert flips(replace(PLACED, candidates=())) == ()


def test_units_alike_on_one_server_are_one_row() -> None:
    (first, second) = grouped((CHOSEN, CHOSEN, NEXT))
    assert (first.alike, second.alike) == (2, 1)


def test_many_chosen_units_leave_room_for_the_others() -> None:
    rows = shortened((CHOSEN,) * 9 + (NEXT,) * 3, chosen=2, others=2)
    assert [row.server for row in rows] == ["srv-1", "srv-1", "srv-2", "srv-2"]


def test_a_unit_that_is_not_enough_is_not_called_better_than_needed() -> None:
    assert NEXT.verdict_text == "better than needed"
    assert (
        replace(NEXT, closeness=NEXT.quality).verdict_text == "too little room in Memory capacity"
    )
