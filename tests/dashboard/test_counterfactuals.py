"""Counterfactuals of decisions, and contributions of resources to the score."""

import math
from dataclasses import replace

import pytest

from apps.common.core.interference import SOURCES
from apps.dashboard.core.contributions import compare, pairs
from apps.dashboard.core.counterfactuals import Counterfactual, SizePrediction, counterfactuals
from apps.dashboard.core.explanation import CandidateFacts, DecisionFacts, grouped, shortened

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


def test_contributions_add_up_to_the_difference_of_the_matches() -> None:
    comparison = compare([CHOSEN, NEXT], CAUSED)
    assert comparison is not None
    total = sum(row.gain or 0.0 for row in comparison.rows)
    assert total == pytest.approx(CHOSEN.closeness - NEXT.closeness)
    assert [row.gain_text for row in comparison.rows[:3]] == ["+0.02", "−0.0001", "0.000000"]


def test_the_source_with_most_caused_pressure_comes_first() -> None:
    comparison = compare([CHOSEN, NEXT], CAUSED)
    assert comparison is not None
    assert [comparison.rows[0].name, comparison.rows[-1].name] == ["Storage", "Memory capacity"]
    assert comparison.title == "Storage made the difference: match +0.0199 over srv-2"
    assert [row.gain is None for row in comparison.rows] == [False] * 3 + [True] * 7


def test_equal_scores_are_not_compared() -> None:
    assert compare([CHOSEN, replace(CHOSEN, server="srv-2", verdict="outranked")], CAUSED) is None


def test_two_insufficient_units_are_compared_by_quality() -> None:
    units = [replace(c, closeness=c.quality) for c in (NEXT, CHOSEN)]
    louder, quieter = replace(units[1], verdict="outranked"), replace(units[0], verdict="chosen")
    comparison = compare([quieter, louder], CAUSED)
    assert comparison is not None
    total = sum(row.gain or 0.0 for row in comparison.rows)
    assert total == pytest.approx(quieter.closeness - louder.closeness)


def test_no_source_decides_if_only_one_unit_is_sufficient() -> None:
    assert compare([replace(CHOSEN, closeness=CHOSEN.quality), NEXT], CAUSED) is None


def test_policies_without_quality_are_not_compared() -> None:
    assert compare([replace(CHOSEN, quality=math.nan), NEXT], CAUSED) is None


@pytest.mark.parametrize(
    ("code", "digits"),
    [(0.0, (0, 0, 0)), (0.605658, (60, 56, 58)), (1.0, (99, 99, 99)), (math.nan, ())],
)
def test_a_code_is_read_as_pairs_of_digits(code: float, digits: tuple[int, ...]) -> None:
    assert pairs(code) == digits


def test_a_placed_job_names_its_runner_up_and_its_pressure_margin() -> None:
    assert counterfactuals(PLACED) == (
        Counterfactual(
            "If srv-1 were full", "srv-2 would be chosen, match 0.966 instead of 0.986"
        ),
        Counterfactual(
            "If Memory capacity pressure on srv-1 rose by more than 10 points",
            "the job would miss its target there",
        ),
    )


def test_the_target_at_which_the_size_changes_comes_first() -> None:
    first, second, *_ = counterfactuals(
        PLACED, SizePrediction("completion_time", at=90.0, less=140.0)
    )
    assert first == Counterfactual("Target at least 2 min 20 s", "2 units would be enough")
    assert second == Counterfactual(
        "Target less than 1 min 30 s", "needs more than 3 units for the same confidence"
    )


def test_a_job_of_one_unit_has_no_smaller_size() -> None:
    first, *_ = counterfactuals(replace(PLACED, units=1), SizePrediction("ips", at=2e9, less=None))
    assert first == Counterfactual(
        "Target more than 2 G instr./s", "needs more than 1 unit for the same confidence"
    )


def test_a_refused_job_names_the_unit_closest_to_quiet_enough() -> None:
    noisy = tuple(
        candidate(f"srv-{i}", "too_noisy", quality=0.4, room=-room)
        for i, room in enumerate((7.5, 2.5))
    )
    facts = replace(REFUSED, candidates=noisy, eligible=100)
    assert counterfactuals(facts) == (
        Counterfactual(
            "If Memory capacity pressure on srv-1 fell by 2.5 points",
            "the job would meet its target there",
        ),
    )


def test_a_refused_job_counts_missing_units_and_names_relaxable_filters() -> None:
    facts = replace(REFUSED, dropped=(("busy", 400), ("platform", 70)))
    assert counterfactuals(facts) == (
        Counterfactual(
            "If 2 more units became free",
            "there would be enough; 400 are allocated to other jobs",
        ),
        Counterfactual("If any platform were allowed", "70 more units would be eligible"),
    )


def test_a_job_larger_than_the_cluster_is_not_told_to_wait_for_units() -> None:
    facts = replace(REFUSED, units=5000, dropped=(("busy", 400),))
    assert counterfactuals(facts) == ()


def test_decisions_without_stored_facts_have_no_counterfactuals() -> None:
    assert counterfactuals(replace(REFUSED, dropped=())) == ()
    assert counterfactuals(replace(PLACED, candidates=())) == ()


def test_equal_units_of_a_server_share_a_row() -> None:
    (first, second) = grouped((CHOSEN, CHOSEN, NEXT))
    assert (first.alike, second.alike) == (2, 1)


def test_many_chosen_units_leave_room_for_the_others() -> None:
    rows = shortened((CHOSEN,) * 9 + (NEXT,) * 3, chosen=2, others=2)
    assert [row.server for row in rows] == ["srv-1", "srv-1", "srv-2", "srv-2"]


def test_the_verdict_of_an_insufficient_unit_names_its_tightest_resource() -> None:
    assert NEXT.verdict_text == "better than needed"
    assert (
        replace(NEXT, closeness=NEXT.quality).verdict_text
        == "too little headroom in Memory capacity"
    )
