"""Weights from answers about pairs of placements."""

import pytest

from tests.browser.unit.conftest import Script
from tests.browser.unit.points import PREPARE, with_front

GRID_SIZE = 41 * 42 // 2
LOAD = (
    PREPARE
    + "const pairwise = await load('calibrate/pairwise.js');"
    + "for (const [better, worse, skipped] of argument.answers ?? [])"
    + " pairwise.answerPair(better, worse, skipped);"
)


def test_without_answers_all_weights_remain_with_an_even_mean(js: Script) -> None:
    script = (
        LOAD
        + """const { weights, contradictions } = pairwise.remainingWeights([]);
        return [weights.length, contradictions, pairwise.meanWeights(weights)];"""
    )
    assert js(script, with_front()) == [GRID_SIZE, 0, {"P": 1, "D": 1, "C": 1}]


def test_an_answer_removes_the_weights_under_which_the_other_is_better(js: Script) -> None:
    script = (
        LOAD
        + """const { weights } = pairwise.remainingWeights(model.draft.state.answers);
        return [weights.every(([p, d]) => p >= d - 1e-9), weights.length];"""
    )
    # 10 needs less power than 30, 30 has as much more diversity: P must weigh at least as much.
    prefers_power, count = js(script, with_front(answers=[[10, 30, False]]))
    assert prefers_power
    assert count == sum(p >= d for p in range(41) for d in range(41 - p))


def test_a_skipped_pair_removes_no_weights(js: Script) -> None:
    script = LOAD + "return pairwise.remainingWeights(model.draft.state.answers).weights.length;"
    assert js(script, with_front(answers=[[10, 30, True]])) == GRID_SIZE


def test_contradicting_answers_keep_the_weights_with_the_fewest_contradictions(
    js: Script,
) -> None:
    script = (
        LOAD
        + """const answers = model.draft.state.answers;
        const { weights, contradictions } = pairwise.remainingWeights(answers);
        return [weights.length, contradictions];"""
    )
    # 40 is worse than 20 in every objective, so all weights contradict the answer.
    assert js(script, with_front(answers=[[40, 20, False]])) == [GRID_SIZE, 1]


def test_a_pair_is_asked_once_and_dominated_placements_are_never_asked(js: Script) -> None:
    script = (
        LOAD
        + """const asked = [];
        for (let pair = pairwise.nextPair(); pair; pair = pairwise.nextPair()) {
            asked.push(pair);
            pairwise.answerPair(pair[0], pair[1], true);
        }
        return asked;"""
    )
    questions = js(script, with_front())
    pairs = [frozenset(pair) for pair in questions]
    assert pairs
    assert len(pairs) == len(set(pairs))
    assert all(40 not in pair for pair in pairs)


def test_consistent_answers_end_with_the_preferred_placement(js: Script) -> None:
    script = (
        LOAD
        + """const { points } = model;
        const power = (point) => points.values(point).P;
        let pair = pairwise.nextPair();
        for (let k = 0; pair && k < 20; k += 1) {
            const [better, worse] = power(pair[0]) < power(pair[1]) ? pair : [pair[1], pair[0]];
            pairwise.answerPair(better, worse);
            pair = pairwise.nextPair();
        }
        const { direct } = model.draft.state;
        return [pairwise.progressOf(pair).isDone, direct.P >= direct.D];"""
    )
    assert js(script, with_front()) == [True, True]


@pytest.mark.parametrize(
    ("weights", "mean"),
    [
        ([[1, 0, 0]], {"P": 1, "D": 0, "C": 0}),
        ([[0.5, 0.5, 0], [0, 0.5, 0.5]], {"P": 0.5, "D": 1, "C": 0.5}),
    ],
)
def test_mean_weights_are_scaled_to_one(
    js: Script, weights: list[list[float]], mean: dict[str, float]
) -> None:
    script = LOAD + "return pairwise.meanWeights(argument.weights);"
    assert js(script, with_front(weights=weights)) == mean
