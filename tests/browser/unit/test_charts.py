"""Preparing figures for Plotly."""

from typing import Any

import pytest

from tests.browser.unit.conftest import Script

FIT = """const { fitTicks } = await load("charts/figure.js");
    fitTicks(argument.layout, argument.width);
    return argument.layout;"""


def layout(count: int, **axis: Any) -> dict[str, Any]:
    names = [str(i) for i in range(count)]
    return {
        "margin": {"l": 0, "r": 0, "t": 10},
        "xaxis": {"tickvals": list(range(count)), "ticktext": names, **axis},
    }


def test_ticks_with_enough_room_stay(js: Script) -> None:
    figure_layout = layout(5)
    assert js(FIT, {"layout": figure_layout, "width": 400}) == figure_layout


def test_every_other_tick_is_removed_if_they_are_too_close_and_the_last_stays(js: Script) -> None:
    fitted = js(FIT, {"layout": layout(6), "width": 120})
    assert fitted["xaxis"]["tickvals"] == [1, 3, 5]
    assert fitted["xaxis"]["ticktext"] == ["1", "3", "5"]


def test_slanted_labels_become_steep_before_ticks_are_removed(js: Script) -> None:
    fitted = js(FIT, {"layout": layout(10, tickangle=-40), "width": 170})
    assert fitted["xaxis"]["tickangle"] == -62
    assert len(fitted["xaxis"]["tickvals"]) == 10
    assert fitted["margin"]["t"] == 36


def test_few_ticks_and_other_axes_stay(js: Script) -> None:
    figure_layout = layout(3) | {"yaxis": {"tickvals": list(range(50))}}
    assert js(FIT, {"layout": figure_layout, "width": 10}) == figure_layout


@pytest.mark.parametrize(
    ("value", "mode", "colour"),
    [
        ("var(--unit)", "light", "#102030"),
        ("var(--unit/0.5)", "light", "rgba(16,32,48,0.5)"),
        ("var(--unit/band)", "light", "rgba(16,32,48,0.14)"),
        ("var(--unit/band)", "dark", "rgba(16,32,48,0.2)"),
        ("#fff", "light", "#fff"),
        (None, "light", None),
    ],
)
def test_tokens_become_colours_of_the_theme(
    js: Script, value: str | None, mode: str, colour: str | None
) -> None:
    script = """document.documentElement.style.setProperty("--unit", "#102030");
        const { withThemeColours } = await load("charts/figure.js");
        return withThemeColours({ nested: [{ color: argument[0] }] }, argument[1]);"""
    assert js(script, [value, mode]) == {"nested": [{"color": colour}]}


def test_typed_arrays_are_left_alone(js: Script) -> None:
    script = """const { withThemeColours } = await load("charts/figure.js");
        return withThemeColours(argument, "light");"""
    packed = {"bdata": "var(--unit)", "dtype": "f8"}
    assert js(script, packed) == packed


def test_row_names_are_repeated_for_every_cell_of_a_heatmap(js: Script) -> None:
    script = """const { repeatRowNames } = await load("charts/figure.js");
        argument.forEach(repeatRowNames);
        return argument.map((trace) => trace.customdata);"""
    plain = {"meta": {"rows": ["a", "b"]}, "z": [[1, 2], [3, 4]]}
    packed = {"meta": {"rows": ["a"]}, "z": {"shape": "1, 3"}}
    empty = {"meta": {"rows": []}, "z": []}
    assert js(script, [plain, packed, empty, {"z": []}]) == [
        [["a", "a"], ["b", "b"]],
        [["a", "a", "a"]],
        [],
        None,
    ]


@pytest.mark.parametrize(
    ("address", "name"),
    [("/figures/power/", "power"), ("/figures/matrix/scale_out/?top=3", "matrix-scale-out-top-3")],
)
def test_exports_are_named_after_the_figure(js: Script, address: str, name: str) -> None:
    script = "const m = await load('charts/table.js'); return m.exportName(argument);"
    assert js(script, address) == name
