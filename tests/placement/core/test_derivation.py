"""From picks to weights: what is refused, what is warned of, what is said."""

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from apps.common.core.errors import InvalidInputError
from apps.inventory.core.snapshot import Floats
from apps.placement.core.checking import compare
from apps.placement.core.derivation import Derivation, Picking, derive
from tests.placement.core.test_weights import paper_front

PAPER = {"P-D": [0, 1, 2], "P-C": [2, 3, 4], "D-C": [0, 3, 4]}
NINE = {"P-D": [0, 1, 2], "P-C": [3, 4, 5], "D-C": [6, 7, 8]}


def wide(points: int = 60, seed: int = 0) -> Floats:
    """Points of a convex front."""
    u = np.random.default_rng(seed).dirichlet((1.0, 1.0, 1.0), points)
    return np.stack([(1 - u[:, 0]) ** 2, 1 - (1 - u[:, 1]) ** 2, (1 - u[:, 2]) ** 2], axis=1)


def derived(front: Floats, picks: dict[str, list[int]], **values: Any) -> Derivation:
    return derive(front, Picking("spread", picks, **values))


def problems(front: Floats, picking: Picking, **options: bool) -> list[tuple[str, str]]:
    with pytest.raises(InvalidInputError) as caught:
        derive(front, picking, **options)
    return [(one.pointer, one.code) for one in caught.value.problems]


def test_the_papers_picks_give_its_weights_and_its_sentence() -> None:
    found = derived(paper_front(), PAPER)
    assert {o: round(w, 2) for o, w in found.weights.weights.items()} == {
        "P": 0.22,
        "D": 1.0,
        "C": 0.36,
    }
    assert found.picks == 5
    assert found.sentence == (
        "Your picks agree on diversity (sd 0.035) and differ on power (sd 0.158),"
        " so diversity counts 4.5 × power."
    )


def test_each_pick_is_left_out_once() -> None:
    front = wide()
    found = derived(front, NINE)
    assert [one.point for one in found.sensitivity] == list(range(9))
    whole = np.array(list(found.weights.weights.values()))
    for one in found.sensitivity:
        rest = {name: [p for p in held if p != one.point] for name, held in NINE.items()}
        again = derive(front, Picking("spread", rest)).weights.weights
        assert dict(one.weights) == pytest.approx(dict(again))
        assert one.change == pytest.approx(np.abs(np.array(list(again.values())) - whole).max())


def test_three_picks_cannot_do_without_one() -> None:
    same = {"P-D": [0, 1, 2], "P-C": [0, 1, 2], "D-C": [0, 1, 2]}
    assert derived(wide(), same).sensitivity == ()


@pytest.mark.parametrize(
    ("picking", "expected"),
    [
        (Picking("spread"), [(f"/picks/{s}", "too_few") for s in ("P-D", "P-C", "D-C")]),
        (
            Picking("spread", {"P-D": [0, 1]}),
            [(f"/picks/{s}", "too_few") for s in ("P-D", "P-C", "D-C")],
        ),
        (Picking("spread", {**NINE, "P-M": [1]}), [("/picks/P-M", "unknown")]),
        (Picking("spread", {**NINE, "P-C": [3, 60, 4, -1]}), [
            ("/picks/P-C/1", "unknown"),
            ("/picks/P-C/3", "unknown"),
        ]),
        (Picking("spread", NINE, rejected=[99]), [("/rejected/0", "unknown")]),
        (Picking("spread", NINE, rejected=[20, 4]), [("/rejected/1", "contradictory")]),
        (Picking("spread", NINE, wanted={"P": 1.0}), [("/wanted", "not_allowed")]),
        (Picking("reference", wanted={"P": 0.1, "D": 0.2}), [("/wanted/C", "required")]),
        (
            Picking("reference", wanted={"P": 0.1, "D": np.inf, "C": 0.0, "M": 1.0}),
            [("/wanted/M", "unknown"), ("/wanted/D", "not_finite")],
        ),
        (
            Picking("direct", wanted={"P": -1.0, "D": 2.0, "C": 0.0}),
            [("/wanted/P", "too_low")],
        ),
        (Picking("direct", wanted=dict.fromkeys("PDC", 0.0)), [("/wanted", "too_low")]),
    ],
)  # fmt: skip
def test_what_cannot_be_is_named(picking: Picking, expected: list[tuple[str, str]]) -> None:
    assert problems(wide(), picking) == expected


def test_weights_that_are_kept_need_three_picks_on_each_screen() -> None:
    picks = {"P-D": [0, 1, 2, 2], "P-C": [3, 3, 4]}
    found = derived(wide(), picks)
    assert found.warnings[0] == (
        "Accept at least 3 placements on each screen: P-C has 2, D-C has 0."
    )
    expected = [("/picks/P-C", "too_few"), ("/picks/D-C", "too_few")]
    assert problems(wide(), Picking("spread", picks), is_final=True) == expected


def test_picks_that_agree_have_their_spread_floored_and_are_told_so() -> None:
    front = wide()
    front[:9, 0] = 0.4
    found = derived(front, NINE)
    assert found.weights.floored == ("P",)
    assert "Your picks agree on power to within 0.01 of the scale" in found.warnings[0]


def test_picks_that_are_all_but_the_same_say_nothing() -> None:
    front = wide()
    front[:9] = front[0] + 1e-4 * np.arange(9)[:, None]
    found = derived(front, NINE)
    assert found.warnings[0].startswith("Your picks are all but the same")
    assert found.sentence == "Your picks agree on all objectives alike, so each counts the same."


def test_an_objective_that_is_the_same_everywhere_is_told() -> None:
    front = wide()
    front[:, 2] = 0.3
    found = derived(front, NINE)
    assert found.weights.idle == ("C",)
    assert "Crossing traffic is the same all over this front: its weight says nothing." in (
        found.warnings
    )
    assert "crossing" not in found.sentence


def test_a_front_on_which_one_thing_differs_has_nothing_to_weigh() -> None:
    front = wide()
    front[:, 1:] = 0.3
    assert derived(front, NINE).sentence == (
        "Only power differs on this front, so the weights decide nothing."
    )
    front[:, 0] = 0.3
    assert derived(front, NINE).sentence == (
        "Nothing differs on this front, so the weights decide nothing."
    )


def test_a_single_pick_that_decides_is_named() -> None:
    front = wide()
    steps = np.linspace(-0.05, 0.05, 9)
    front[:9] = 0.5 + np.stack([steps, np.roll(steps, 3), np.roll(steps, 6)], axis=1)
    assert not [w for w in derived(front, NINE).warnings if "decides" in w]
    front[4, 1] = 0.9
    (said,) = [w for w in derived(front, NINE).warnings if "decides" in w]
    assert said.startswith("Placement 4 decides much: without it the weight of diversity moves by")


def test_a_rejected_placement_that_wins_contradicts_the_picks() -> None:
    front = wide()
    worst = np.array([0.9, 0.1, 0.9]) + np.random.default_rng(1).normal(0.0, 0.03, (9, 3))
    front[:9] = worst
    found = derived(front, NINE, rejected=[20])
    assert found.warnings[-2] == (
        "Under these weights the rejected placement 20 is better than all you accepted."
    )
    assert "of the front is better than the middle one of your picks" in found.warnings[-1]
    assert derived(wide(), NINE, rejected=[]).warnings == ()


def test_a_reference_point_weighs_by_how_close_to_the_best_it_is() -> None:
    front = np.array([[0.2, 0.9, 0.1], [0.6, 0.3, 0.5]])
    found = derive(front, Picking("reference", wanted={"P": 0.3, "D": 0.4, "C": 0.3}))
    assert dict(found.weights.weights) == pytest.approx({"P": 1.0, "D": 0.2, "C": 0.5})
    assert found.sentence == (
        "You want power within 0.100 of the best there is and diversity within 0.500,"
        " so power counts 5.0 × diversity."
    )


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        ((1.0, 4.0, 2.0), "Diversity counts 2.0 × crossing traffic and 4.0 × power."),
        ((0.0, 4.0, 2.0), "Diversity counts 2.0 × crossing traffic; power nothing."),
        ((3.0, 0.0, 0.0), "Power counts alone."),
        ((1.0, 1.0, 1.0), "Power counts 1.0 × diversity and 1.0 × crossing traffic."),
    ],
)
def test_weights_that_are_given_need_no_front(
    weights: tuple[float, float, float], said: str
) -> None:
    wanted = dict(zip("PDC", weights, strict=True))
    found = derive(np.empty((0, 3)), Picking("direct", wanted=wanted))
    assert max(found.weights.weights.values()) == 1.0
    assert (found.sentence, found.picks, found.warnings) == (said, 0, ())


PICKS = np.array([[0.4, 0.5, 0.3], [0.5, 0.6, 0.2], [0.6, 0.7, 0.4], [0.1, 0.1, 0.9]])


@pytest.mark.parametrize(
    ("star", "position", "words"),
    [
        ((0.5, 0.6, 0.3), "inside", "within the range of your picks in everything, 0.00 from"),
        ((0.3, 0.6, 0.3), "better", "better than your picks on power, 0.20 from their centre."),
        ((0.3, 0.8, 0.1), "better", "power and diversity and crossing traffic"),
        ((0.5, 0.4, 0.3), "outside", "worse than your picks on diversity, 0.20"),
        ((0.5, 0.4, 0.1), "outside", "diversity and better than your picks on crossing traffic"),
        ((0.4, 0.5, 0.4), "inside", "in everything"),
    ],
)
def test_an_answer_is_compared_with_the_range_of_the_picks(
    star: tuple[float, float, float], position: str, words: str
) -> None:
    found = compare(np.array(star), PICKS, [0, 1, 2], None)
    assert found.position == position
    assert words in found.sentence


def test_an_answer_knows_its_neighbour_and_what_no_weights_return() -> None:
    front = np.array([[0.0, 0.0, 0.5], [0.6, 0.4, 0.5], [1.0, 1.0, 0.5]])
    found = compare(np.array([0.9, 0.9, 0.5]), front, [0, 1, 2], None)
    assert (found.nearest, found.unreachable) == (2, [1])
    assert found.distance == pytest.approx(np.hypot(0.9 - 1.6 / 3, 0.9 - 1.4 / 3))


def test_without_picks_what_is_wanted_is_compared_or_nothing() -> None:
    star = np.array([0.5, 0.6, 0.3])
    found = compare(star, PICKS, [], np.array([0.6, 0.6, 0.3]))
    assert found.position == "better"
    assert found.sentence.endswith("better than what you want on power, 0.10 from it.")
    nothing = compare(star, PICKS, [], None)
    assert (nothing.position, nothing.distance, nothing.unreachable) == (None, None, [])


IN_THE_WEB_PROCESS = """
import sys
import numpy as np
from apps.placement.core.checking import compare
from apps.placement.core.derivation import Picking, derive
from apps.placement.core.front_facts import between

front = np.random.default_rng(0).random((50, 3))
derive(front, Picking("spread", {s: range(5) for s in ("P-D", "P-C", "D-C")}))
compare(front[7], front, range(5), None)
between(front, 0, 1)
print("numba" in sys.modules)
"""


def test_none_of_it_needs_numba() -> None:
    done = subprocess.run(  # noqa: S603 - our own
        [sys.executable, "-c", IN_THE_WEB_PROCESS], capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"
