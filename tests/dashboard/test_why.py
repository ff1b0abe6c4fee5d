from dataclasses import replace

from apps.common.core.interference import N_SOURCES
from apps.dashboard.core.why import CandidateFacts, DecisionFacts, paragraph

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
        "It got **4 units** of **srv-0212**: the closest match to what it needs among "
        "the 8 units examined, of 812 eligible."
    )


def test_names_the_tightest_resource_and_the_runner_up() -> None:
    assert paragraph(PLACED)[1] == (
        "There it tolerates the pressure on its tightest resource, Memory bandwidth, with "
        "**9 points** to spare, 21 fewer than the runner-up on srv-0077, which leaves the "
        "quieter unit to a pickier job."
    )


def test_ends_with_the_prediction_and_its_interval() -> None:
    assert paragraph(PLACED)[-1] == (
        "The prediction was **8.1 ms** [7.4 ms, 9.3 ms]; the target is: "
        "20 k queries/s, p99 ≤ 10 ms."
    )


def test_counts_the_candidates_that_were_too_noisy() -> None:
    noisy = (*PLACED.candidates, candidate("srv-0205", "too_noisy", NOISY))
    assert "1 candidate could not have kept the promise." in paragraph(
        replace(PLACED, candidates=noisy)
    )


def test_a_noisy_candidate_names_its_resource() -> None:
    assert candidate("a", "too_noisy", NOISY).verdict_text == "LLC capacity too contended"


def test_says_when_even_the_best_was_above_what_it_tolerates() -> None:
    chosen = (candidate("srv-0205", "chosen", NOISY),)
    assert (
        "LLC capacity is 18 points above what it tolerates"
        in paragraph(replace(PLACED, candidates=chosen))[1]
    )


def test_a_decision_without_candidates_still_says_where() -> None:
    assert len(paragraph(replace(PLACED, candidates=(), predicted=""))) == 1


def test_a_refusal_says_what_took_the_units() -> None:
    refused = replace(
        PLACED,
        placed=False,
        reason_sentence="Fewer units are free than it needs.",
        eligible=2,
        dropped=(("busy", 840), ("closed", 8)),
        predicted="",
    )
    assert paragraph(refused) == (
        "It was **not placed**: fewer units are free than it needs.",
        "It needs 4 units; **2** were eligible.",
        "Most units were out because they are allocated to other jobs.",
    )


def test_many_servers_are_summed_up() -> None:
    spread = replace(PLACED, servers=("a", "b", "c", "d", "e"))
    assert "**a, b and 3 more servers**" in paragraph(spread)[0]
