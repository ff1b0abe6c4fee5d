"""The placements of a front, and which of them are selected."""

import pytest

from tests.browser.unit.conftest import Script
from tests.browser.unit.points import PREPARE, with_front


def test_the_nearest_placement_and_its_distance_are_found(js: Script) -> None:
    script = PREPARE + "return model.points.nearest({ P: 0.5, D: 0.5, C: 0.9 });"
    nearest = js(script, with_front())
    assert nearest["point"] == 40
    assert nearest["distance"] == pytest.approx((0.01 + 0.01 + 0.09) ** 0.5)


def test_the_first_of_two_equally_near_placements_is_chosen(js: Script) -> None:
    script = (
        PREPARE
        + """const far = [9, 9];
        Object.assign(model.points.normalised, { P: [0, 1, ...far], D: [0, 0, ...far] });
        model.points.normalised.C = [0, 0, ...far];
        return model.points.nearest({ P: 0.5, D: 0, C: 0 });"""
    )
    assert js(script, with_front()) == {"point": 10, "distance": 0.5}


def test_thinning_shows_only_known_placements_and_can_be_undone(js: Script) -> None:
    script = (
        PREPARE
        + """const { points } = model;
        points.thin([30, 99, 10]);
        const thinned = points.shown;
        points.thin(null);
        return [thinned, points.shown];"""
    )
    assert js(script, with_front()) == [[2, 0], [0, 1, 2, 3]]


def test_the_extent_covers_all_placements_even_if_some_are_hidden(js: Script) -> None:
    script = PREPARE + "model.points.thin([20]); return model.points.extent;"
    assert js(script, with_front()) == {"P": [0.1, 0.9], "D": [0.1, 0.9], "C": [0.5, 0.6]}


def test_a_placement_is_described_in_measured_units(js: Script) -> None:
    script = PREPARE + "return model.points.line(10);"
    assert js(script, with_front()) == "1.0 kW · 10 points · 1 container"


def test_nothing_is_selected_without_lasso_and_ranges(js: Script) -> None:
    script = (
        PREPARE + "const { selection } = await load('calibrate/model.js'); return selection();"
    )
    assert js(script, with_front()) is None


def test_lasso_and_ranges_are_combined(js: Script) -> None:
    script = (
        PREPARE
        + """const { selection } = await load("calibrate/model.js");
        model.lasso = new Set([10, 20, 40]);
        model.ranges = { P: [0.5, 0.6], nodes_on: [0, 3] };
        return [...selection()];"""
    )
    assert js(script, with_front()) == [20]


def test_an_empty_range_selects_nothing_and_limits_are_included(js: Script) -> None:
    script = (
        PREPARE
        + """const { selection } = await load("calibrate/model.js");
        model.ranges = { P: [0.11, 0.12] };
        const empty = [...selection()];
        model.ranges = { P: [0.1, 0.5] };
        return [empty, [...selection()]];"""
    )
    assert js(script, with_front()) == [[], [10, 20]]


@pytest.mark.parametrize(
    ("x", "y", "inside"),
    [(5, 5, True), (15, 5, False), (5, 9, True), (8, 5, False), (-1, 5, False)],
)
def test_points_are_inside_a_lasso_by_the_even_odd_rule(
    js: Script, x: float, y: float, inside: bool
) -> None:
    # A square of 10 with a notch from the right down to x = 6.
    polygon = [[0, 0], [10, 0], [6, 5], [10, 10], [0, 10]]
    script = """const { isInside } = await load("calibrate/lasso.js");
        return isInside(argument.x, argument.y, argument.polygon);"""
    assert js(script, {"x": x, "y": y, "polygon": polygon}) is inside


def test_the_range_of_an_axis_includes_near_anchors_but_not_far_ones(js: Script) -> None:
    script = (
        PREPARE
        + """const { range } = await load("calibrate/frame.js");
        const anchor = (P) => ({ name: "now", normalised: { P, D: 0.5, C: 0.5 } });
        model.checked = null;
        model.front.anchors = [anchor(argument.near)];
        const near = range("P");
        model.front.anchors = [anchor(argument.far)];
        const far = range("P");
        return [near.low, near.high, far.low, far.high];"""
    )
    near_low, near_high, far_low, far_high = js(script, with_front(near=1.4, far=9.0))
    assert near_low <= 0.1
    assert near_high >= 1.4
    assert (far_low, far_high) == (0, 1)


def test_an_axis_of_equal_values_has_a_range(js: Script) -> None:
    script = (
        PREPARE
        + """const { range } = await load("calibrate/frame.js");
        model.checked = null;
        model.front.anchors = [];
        model.points.span = { P: [0.5, 0.5] };
        const { low, high, marks } = range("P");
        return [low < 0.5, high > 0.5, marks.length > 1];"""
    )
    assert js(script, with_front()) == [True, True, True]
