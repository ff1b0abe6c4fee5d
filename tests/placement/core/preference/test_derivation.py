"""Weights from picks: errors, warnings and explanations."""

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from apps.common.core.errors import InvalidInputError
from apps.inventory.core.snapshot import Floats
from apps.placement.core.preference.comparison import compare_optimum
from apps.placement.core.preference.derivation import PreferenceInput, WeightDerivation, derive
from tests.placement.core.preference.test_weights import paper_front

PAPER = {"P-D": [0, 1, 2], "P-C": [2, 3, 4], "D-C": [0, 3, 4]}
NINE = {"P-D": [0, 1, 2], "P-C": [3, 4, 5], "D-C": [6, 7, 8]}


def wide(points: int = 60, seed: int = 0) -> Floats:
    """Points of a convex front."""
    u = np.random.default_rng(seed).dirichlet((1.0, 1.0, 1.0), points)
    return np.stack([(1 - u[:, 0]) ** 2, 1 - (1 - u[:, 1]) ** 2, (1 - u[:, 2]) ** 2], axis=1)


def derived(front: Floats, picks: dict[str, list[int]], **values: Any) -> WeightDerivation:
    return derive(front, PreferenceInput("spread", picks, **values))


def problems(
    front: Floats, picking: PreferenceInput, *, is_final: bool = False
) -> list[tuple[str, str]]:
    with pytest.raises(InvalidInputError) as caught:
        derive(front, picking, is_final=is_final)
    return [(problem.pointer, problem.code) for problem in caught.value.problems]


def test_the_papers_picks_give_its_weights_and_its_sentence() -> None:
    derivation = derived(paper_front(), PAPER)
    assert {o: round(w, 2) for o, w in derivation.weights.weights.items()} == {
        "P": 0.22,
        "D": 1.0,
        "C": 0.36,
    }
    assert derivation.picks == 5
    assert derivation.sentence == (
        "Your picks agree on diversity (sd 0.035) and differ on power (sd 0.158),"
        " so diversity counts 4.5 × power."
    )


def test_sensitivity_leaves_out_each_pick_once() -> None:
    front = wide()
    derivation = derived(front, NINE)
    assert [entry.point for entry in derivation.sensitivity] == list(range(9))
    whole = np.array(list(derivation.weights.weights.values()))
    for entry in derivation.sensitivity:
        rest = {name: [p for p in held if p != entry.point] for name, held in NINE.items()}
        again = derive(front, PreferenceInput("spread", rest)).weights.weights
        assert dict(entry.weights) == pytest.approx(dict(again))
        assert entry.change == pytest.approx(np.abs(np.array(list(again.values())) - whole).max())


def test_three_picks_have_no_sensitivity() -> None:
    same = {"P-D": [0, 1, 2], "P-C": [0, 1, 2], "D-C": [0, 1, 2]}
    assert derived(wide(), same).sensitivity == ()


@pytest.mark.parametrize(
    ("picking", "expected"),
    [
        (PreferenceInput("spread"), [(f"/picks/{s}", "too_few") for s in ("P-D", "P-C", "D-C")]),
        (
            PreferenceInput("spread", {"P-D": [0, 1]}),
            [(f"/picks/{s}", "too_few") for s in ("P-D", "P-C", "D-C")],
        ),
        (PreferenceInput("spread", {**NINE, "P-M": [1]}), [("/picks/P-M", "unknown")]),
        (PreferenceInput("spread", {**NINE, "P-C": [3, 60, 4, -1]}), [
            ("/picks/P-C/1", "unknown"),
            ("/picks/P-C/3", "unknown"),
        ]),
        (PreferenceInput("spread", NINE, rejected=[99]), [("/rejected/0", "unknown")]),
        (PreferenceInput("spread", NINE, rejected=[20, 4]), [("/rejected/1", "contradictory")]),
        (PreferenceInput("spread", NINE, wanted={"P": 1.0}), [("/wanted", "not_allowed")]),
        (PreferenceInput("reference", wanted={"P": 0.1, "D": 0.2}), [("/wanted/C", "required")]),
        (
            PreferenceInput("reference", wanted={"P": 0.1, "D": np.inf, "C": 0.0, "M": 1.0}),
            [("/wanted/M", "unknown"), ("/wanted/D", "not_finite")],
        ),
        (
            PreferenceInput("direct", wanted={"P": -1.0, "D": 2.0, "C": 0.0}),
            [("/wanted/P", "too_low")],
        ),
        (PreferenceInput("direct", wanted=dict.fromkeys("PDC", 0.0)), [("/wanted", "too_low")]),
    ],
)  # fmt: skip
def test_every_invalid_field_is_reported(
    picking: PreferenceInput, expected: list[tuple[str, str]]
) -> None:
    assert problems(wide(), picking) == expected


def test_stored_weights_need_three_picks_on_each_screen() -> None:
    picks = {"P-D": [0, 1, 2, 2], "P-C": [3, 3, 4]}
    derivation = derived(wide(), picks)
    assert derivation.warnings[0] == (
        "Accept at least 3 placements on each screen: P-C has 2, D-C has 0."
    )
    expected = [("/picks/P-C", "too_few"), ("/picks/D-C", "too_few")]
    assert problems(wide(), PreferenceInput("spread", picks), is_final=True) == expected


def test_a_small_spread_is_floored_with_a_warning() -> None:
    front = wide()
    front[:9, 0] = 0.4
    derivation = derived(front, NINE)
    assert derivation.weights.floored == ("P",)
    assert "Your picks agree on power to within 0.01 of the scale" in derivation.warnings[0]


def test_almost_equal_picks_get_a_warning() -> None:
    front = wide()
    front[:9] = front[0] + 1e-4 * np.arange(9)[:, None]
    derivation = derived(front, NINE)
    assert derivation.warnings[0].startswith("Your picks are almost equal")
    assert (
        derivation.sentence
        == "Your picks agree equally on all objectives, so the weights are equal."
    )


def test_a_constant_objective_gets_a_warning() -> None:
    front = wide()
    front[:, 2] = 0.3
    derivation = derived(front, NINE)
    assert derivation.weights.idle == ("C",)
    assert "Crossing traffic is constant on this front: its weight has no effect." in (
        derivation.warnings
    )
    assert "crossing" not in derivation.sentence


def test_weights_have_no_effect_if_at_most_one_objective_differs() -> None:
    front = wide()
    front[:, 1:] = 0.3
    assert derived(front, NINE).sentence == (
        "Only power differs on this front, so the weights have no effect."
    )
    front[:, 0] = 0.3
    assert derived(front, NINE).sentence == (
        "All objectives are constant on this front, so the weights have no effect."
    )


def test_a_pick_with_a_large_influence_gets_a_warning() -> None:
    front = wide()
    steps = np.linspace(-0.05, 0.05, 9)
    front[:9] = 0.5 + np.stack([steps, np.roll(steps, 3), np.roll(steps, 6)], axis=1)
    assert not [w for w in derived(front, NINE).warnings if "has a large influence" in w]
    front[4, 1] = 0.9
    (warning,) = [w for w in derived(front, NINE).warnings if "has a large influence" in w]
    assert warning.startswith(
        "Placement 4 has a large influence: without it, the weight of diversity changes by"
    )


def test_a_rejected_placement_that_wins_contradicts_the_picks() -> None:
    front = wide()
    worst = np.array([0.9, 0.1, 0.9]) + np.random.default_rng(1).normal(0.0, 0.03, (9, 3))
    front[:9] = worst
    derivation = derived(front, NINE, rejected=[20])
    assert derivation.warnings[-2] == (
        "With these weights, the rejected placement 20 is better than all accepted ones."
    )
    assert "of the front is better than the median of your picks" in derivation.warnings[-1]
    assert derived(wide(), NINE, rejected=[]).warnings == ()


def test_a_reference_point_weighs_by_how_close_to_the_best_it_is() -> None:
    front = np.array([[0.2, 0.9, 0.1], [0.6, 0.3, 0.5]])
    derivation = derive(front, PreferenceInput("reference", wanted={"P": 0.3, "D": 0.4, "C": 0.3}))
    assert dict(derivation.weights.weights) == pytest.approx({"P": 1.0, "D": 0.2, "C": 0.5})
    assert derivation.sentence == (
        "You want power within 0.100 and diversity within 0.500 of the best,"
        " so power counts 5.0 × diversity."
    )


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ((1.0, 4.0, 2.0), "Diversity counts 2.0 × crossing traffic and 4.0 × power."),
        ((0.0, 4.0, 2.0), "Diversity counts 2.0 × crossing traffic; power does not count."),
        ((3.0, 0.0, 0.0), "Only power counts."),
        ((1.0, 1.0, 1.0), "Power counts 1.0 × diversity and 1.0 × crossing traffic."),
    ],
)
def test_direct_weights_need_no_front(weights: tuple[float, float, float], message: str) -> None:
    weights_by_name = dict(zip("PDC", weights, strict=True))
    derivation = derive(np.empty((0, 3)), PreferenceInput("direct", wanted=weights_by_name))
    assert max(derivation.weights.weights.values()) == 1.0
    assert (derivation.sentence, derivation.picks, derivation.warnings) == (message, 0, ())


PICKS = np.array([[0.4, 0.5, 0.3], [0.5, 0.6, 0.2], [0.6, 0.7, 0.4], [0.1, 0.1, 0.9]])


@pytest.mark.parametrize(
    ("star", "position", "words"),
    [
        (
            (0.5, 0.6, 0.3),
            "inside",
            "within the range of your picks in every objective, 0.00 from",
        ),
        ((0.3, 0.6, 0.3), "better", "better than your picks in power, 0.20 from their centre."),
        ((0.3, 0.8, 0.1), "better", "power and diversity and crossing traffic"),
        ((0.5, 0.4, 0.3), "outside", "worse than your picks in diversity, 0.20"),
        ((0.5, 0.4, 0.1), "outside", "diversity and better than your picks in crossing traffic"),
        ((0.4, 0.5, 0.4), "inside", "in every objective"),
    ],
)
def test_the_optimum_is_compared_with_the_range_of_the_picks(
    star: tuple[float, float, float], position: str, words: str
) -> None:
    comparison = compare_optimum(np.array(star), PICKS, [0, 1, 2], None)
    assert comparison.position == position
    assert words in comparison.sentence


def test_the_comparison_names_the_nearest_point_and_unsupported_picks() -> None:
    front = np.array([[0.0, 0.0, 0.5], [0.6, 0.4, 0.5], [1.0, 1.0, 0.5]])
    comparison = compare_optimum(np.array([0.9, 0.9, 0.5]), front, [0, 1, 2], None)
    assert (comparison.nearest, comparison.unreachable) == (2, [1])
    assert comparison.distance == pytest.approx(np.hypot(0.9 - 1.6 / 3, 0.9 - 1.4 / 3))


def test_without_picks_the_optimum_is_compared_with_the_reference_point() -> None:
    star = np.array([0.5, 0.6, 0.3])
    comparison = compare_optimum(star, PICKS, [], np.array([0.6, 0.6, 0.3]))
    assert comparison.position == "better"
    assert comparison.sentence.endswith("better than your reference point in power, 0.10 from it.")
    nothing = compare_optimum(star, PICKS, [], None)
    assert (nothing.position, nothing.distance, nothing.unreachable) == (None, None, [])


IN_THE_WEB_PROCESS = """
import sys
import numpy as np
from apps.placement.core.preference.comparison import compare_optimum
from apps.placement.core.preference.derivation import PreferenceInput, derive
from apps.placement.core.front.facts import intermediate_points

front = np.random.default_rng(0).random((50, 3))
derive(front, PreferenceInput("spread", {s: range(5) for s in ("P-D", "P-C", "D-C")}))
compare_optimum(front[7], front, range(5), None)
intermediate_points(front, 0, 1)
print("numba" in sys.modules)
"""


def test_preferences_do_not_import_numba() -> None:
    done = subprocess.run(  # noqa: S603 - our own
        [sys.executable, "-c", IN_THE_WEB_PROCESS], capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"
