import math
from dataclasses import replace

import pytest

from apps.common.core.interference import N_SOURCES
from apps.dashboard.core.contributions import deciding_source
from apps.dashboard.core.explanation import (
    CandidateFacts,
    Decider,
    DecisionFacts,
    heading,
    paragraph,
    request_text,
)

ROOMY = tuple([30.0] * N_SOURCES)
TIGHT = (30.0, 9.0, *([30.0] * (N_SOURCES - 2)))
NOISY = (30.0, 30.0, -18.0, *([30.0] * (N_SOURCES - 3)))


def candidate(server: str, verdict: str, headroom: tuple[float, ...]) -> CandidateFacts:
    return CandidateFacts(server, 0, "C", 0.8, 0.7, 0.9, verdict, headroom)


PLACED = DecisionFacts(
    placed=True,
    reason_code="PlacedBestOfSample",
    reason_sentence="",
    policy="tarcil",
    units=4,
    units_won=4,
    servers=("srv-0212",),
    examined=8,
    eligible=812,
    candidates=(candidate("srv-0212", "chosen", TIGHT), candidate("srv-0077", "outranked", ROOMY)),
    dropped=(("busy", 40),),
    predicted="8.1 ms",
    predicted_interval="7.4 ms, 9.3 ms",
    target="20 k queries/s, p99 ≤ 10 ms",
)


def test_names_server_units_and_sample() -> None:
    assert paragraph(PLACED)[0] == (
        "The job was placed on **4 units** of **srv-0212**: the closest match to its needs "
        "among the 8 units examined, of 812 eligible."
    )


def test_names_the_tightest_resource_and_the_runner_up() -> None:
    assert paragraph(PLACED)[1] == (
        "On its tightest resource, Memory bandwidth, the job has **9 points** of headroom on "
        "srv-0212, 21 fewer than on srv-0077."
    )


def test_names_the_resource_that_decided_and_no_other() -> None:
    decider = Decider("Network", headroom=12.0, other=30.0, runner_up="srv-0077")
    assert paragraph(replace(PLACED, decider=decider))[1] == (
        "Network made the difference: the job has **12 points** of headroom on srv-0212, 18 "
        "fewer than on the runner-up srv-0077, which keeps the quieter unit free for a more "
        "sensitive job."
    )


def test_the_smallest_excess_is_only_claimed_where_it_is() -> None:
    quieter = (candidate("a", "chosen", NOISY), candidate("b", "outranked", ROOMY))
    assert paragraph(replace(PLACED, candidates=quieter))[1] == (
        "LLC capacity pressure on a is 18 points above its tolerance."
    )


def test_the_smallest_excess_is_not_claimed_above_another_chosen_unit() -> None:
    worse = tuple(value - 3.0 for value in NOISY)
    chosen = (candidate("a", "chosen", worse), candidate("b", "chosen", NOISY))
    assert paragraph(replace(PLACED, candidates=chosen))[1] == (
        "LLC capacity pressure on a is 21 points above its tolerance."
    )
    assert paragraph(replace(PLACED, candidates=chosen[::-1]))[1] == (
        "LLC capacity pressure on b is 18 points above its tolerance, "
        "the smallest excess of all candidates."
    )


def test_no_match_is_claimed_where_no_unit_is_good_enough() -> None:
    noisy = CandidateFacts("a", 0, "C", *MISS, "chosen", NOISY)
    assert paragraph(replace(PLACED, candidates=(noisy,)))[0] == (
        "The job was placed on **4 units** of **srv-0212**: the highest quality, as none is good "
        "enough, among the 8 units examined, of 812 eligible."
    )


HIT = (0.8, 0.7, 0.9)  # quality, needed quality, match
TOO_TIGHT = (0.8, 0.7, 0.8)
MISS = (0.6, 0.7, 0.6)
Codes = tuple[float, float, float]


def unit(verdict: str, codes: Codes, *, deciding: int | None = None) -> CandidateFacts:
    return CandidateFacts("a", 0, "C", *codes, verdict, TIGHT, deciding)


@pytest.mark.parametrize(
    ("candidates", "examined", "text"),
    [
        (
            [unit("chosen", HIT), *6 * [unit("outranked", TOO_TIGHT)]],
            7,
            "Of 7 candidates, 1 has enough headroom and 6 have too little headroom",
        ),
        (
            [unit("chosen", TOO_TIGHT), unit("too_noisy", MISS)],
            9,
            "Of the best 2 of 9 examined, none has enough headroom, 1 has too little headroom and "
            "1 is too contended",
        ),
        ([unit("chosen", HIT), unit("outranked", HIT)], 2, "Of 2 candidates, all have enough "
         "headroom"),
        (
            [unit("chosen", (math.nan, math.nan, 0.5))] * 2,
            4,
            "Of the best 2 of 4 examined, 2 were chosen",
        ),
        ([unit("chosen", HIT)], 1, "The only candidate"),
    ],
    ids=["tight", "none", "all", "without quality", "one"],
)  # fmt: skip
def test_the_heading_counts_what_the_verdicts_say(
    candidates: list[CandidateFacts], examined: int, text: str
) -> None:
    assert heading(candidates, examined) == text


def test_a_candidate_with_too_little_headroom_names_its_tightest_resource() -> None:
    verdict = unit("outranked", TOO_TIGHT).verdict_text
    assert verdict == "too little headroom in Memory bandwidth"


def test_ends_with_the_prediction_and_its_interval() -> None:
    assert paragraph(PLACED)[-1] == (
        "Predicted performance: **8.1 ms** [7.4 ms, 9.3 ms]. Target: 20 k queries/s, p99 ≤ 10 ms."
    )


def test_counts_the_candidates_that_were_too_noisy() -> None:
    noisy = (*PLACED.candidates, candidate("srv-0205", "too_noisy", NOISY))
    assert "1 candidate would not have met the target." in paragraph(
        replace(PLACED, candidates=noisy)
    )


def test_a_noisy_candidate_names_the_resource_that_decided_not_the_tightest() -> None:
    assert unit("too_noisy", MISS, deciding=8).verdict_text == "Network too contended"
    assert unit("too_noisy", MISS).verdict_text == "too contended"


def test_the_deciding_resource_is_the_first_that_differs_in_the_order_of_the_job() -> None:
    caused = [10.0, 90.0, 50.0, *[0.0] * 7]  # order: memory bandwidth, LLC capacity, memory cap.
    assert deciding_source(0.804010, 0.805010, caused) == 2
    assert deciding_source(0.704010, 0.805010, caused) == 1
    assert deciding_source(0.905010, 0.805010, caused) is None
    assert deciding_source(math.nan, 0.805010, caused) is None


def test_the_paragraph_says_if_even_the_best_unit_exceeds_the_tolerance() -> None:
    chosen = (candidate("srv-0205", "chosen", NOISY),)
    assert (
        "LLC capacity pressure on srv-0205 is 18 points above its tolerance"
        in paragraph(replace(PLACED, candidates=chosen))[1]
    )


def test_a_decision_without_candidates_names_its_servers() -> None:
    assert len(paragraph(replace(PLACED, candidates=(), predicted=""))) == 1


def test_a_refusal_names_the_most_restrictive_filter() -> None:
    refused = replace(
        PLACED,
        placed=False,
        reason_sentence="Fewer units are free than it needs.",
        eligible=2,
        dropped=(("busy", 840), ("closed", 8)),
        predicted="",
    )
    assert paragraph(refused) == (
        "The job was **not placed**: fewer units are free than it needs.",
        "It needs 4 units; **2** were eligible.",
        "Most units were excluded because they are allocated to other jobs.",
    )


def test_a_refusal_by_the_quota_names_what_the_project_uses() -> None:
    refused = replace(
        PLACED,
        placed=False,
        reason_code="QuotaExceeded",
        reason_sentence="The project has used its quota.",
        reason_detail="project vision uses 2 of at most 2 units",
        predicted="",
        dropped=(),
    )
    assert paragraph(refused) == (
        "The job was **not placed**: the project has used its quota.",
        "Project vision uses 2 of at most 2 units.",
    )


def test_a_job_that_no_idle_cluster_can_hold_names_what_lacks() -> None:
    refused = replace(
        PLACED,
        placed=False,
        reason_code="NoMatchingServer",
        reason_sentence="The job does not fit on the servers of the cluster.",
        reason_detail="the job needs 5000 units at once, and the matching servers have 879",
        predicted="",
        dropped=(("busy", 850),),
    )
    assert paragraph(refused) == (
        "The job was **not placed**: the job does not fit on the servers of the cluster.",
        "The job needs 5000 units at once, and the matching servers have 879.",
    )


def test_long_server_lists_are_shortened() -> None:
    spread = replace(PLACED, servers=("a", "b", "c", "d", "e"))
    assert "**a, b and 3 more servers**" in paragraph(spread)[0]


ASKED = {"rank_threshold": 0.8, "probability": 0.01, "top_free_share": 0.4}


@pytest.mark.parametrize(
    ("policy", "size", "guarantee", "expected"),
    [
        ("", None, None, ""),
        ("random", None, None, "The job requests the policy random."),
        ("random", 1, None, "The job requests the policy random and 1 candidate per unit."),
        ("", None, {**ASKED, "needed_size": 56, "size": 32},
         "The job requests at most a 1.00 % chance that the best unit is outside the top 20 %. "
         "With 40 % of the top 20 % free, that needs R = 56; the limit is 32."),
        ("", None, {**ASKED, "needed_size": 21, "size": 21},
         "The job requests at most a 1.00 % chance that the best unit is outside the top 20 %. "
         "With 40 % of the top 20 % free, that needs R = 21."),
        ("", None, {**ASKED, "top_free_share": 0.0, "needed_size": None, "size": 32},
         "The job requests at most a 1.00 % chance that the best unit is outside the top 20 %. "
         "No unit of the top 20 % is free, so R is the limit of 32."),
    ],
)  # fmt: skip
def test_names_what_the_job_asks_of_the_decision(
    policy: str, size: int | None, guarantee: dict[str, float] | None, expected: str
) -> None:
    assert request_text(policy, size, guarantee) == expected
