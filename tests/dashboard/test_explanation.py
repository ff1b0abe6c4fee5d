from dataclasses import replace

from apps.common.core.interference import N_SOURCES
from apps.dashboard.core.explanation import CandidateFacts, DecisionFacts, paragraph

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
        "On its tightest resource, Memory bandwidth, the job has **9 points** of headroom there, "
        "21 fewer than on the runner-up srv-0077, which keeps the quieter unit free for a more "
        "sensitive job."
    )


def test_ends_with_the_prediction_and_its_interval() -> None:
    assert paragraph(PLACED)[-1] == (
        "Predicted performance: **8.1 ms** [7.4 ms, 9.3 ms]. Target: 20 k queries/s, p99 ≤ 10 ms."
    )


def test_counts_the_candidates_that_were_too_noisy() -> None:
    noisy = (*PLACED.candidates, candidate("srv-0205", "too_noisy", NOISY))
    assert "1 candidate would not have met the target." in paragraph(
        replace(PLACED, candidates=noisy)
    )


def test_a_noisy_candidate_names_its_resource() -> None:
    assert candidate("a", "too_noisy", NOISY).verdict_text == "LLC capacity too contended"


def test_the_paragraph_says_if_even_the_best_unit_exceeds_the_tolerance() -> None:
    chosen = (candidate("srv-0205", "chosen", NOISY),)
    assert (
        "LLC capacity pressure there is 18 points above its tolerance"
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


def test_long_server_lists_are_shortened() -> None:
    spread = replace(PLACED, servers=("a", "b", "c", "d", "e"))
    assert "**a, b and 3 more servers**" in paragraph(spread)[0]
