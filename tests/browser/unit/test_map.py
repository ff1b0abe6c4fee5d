"""Geometry and colours of the map."""

from typing import Any

import pytest

from tests.browser.unit.conftest import Script

LAYOUT: dict[str, Any] = {
    "names": ["s1", "s2", "s3", "s4", "s5"],
    "platforms": ["small", "large", "unused"],
    "platform": [0, 0, 1, 1, 1],
    "racks": ["r1", "r2"],
    "rack": [0, 1, 0, 1, 0],
    "sources": [{"key": "llc", "name": "Cache"}, {"key": "net", "name": "Network"}],
    "cores": [4, 4, 8, 8, 8],
}
PREPARE = """
    const { map, view, ...state } = await load("map/state.js");
    const geometry = await load("map/geometry.js");
    Object.assign(map, { layout: argument.layout, state: argument.state ?? null });
    Object.assign(view, { group: "platform", colour: "cpu" });
"""


def with_layout(**arguments: Any) -> dict[str, Any]:
    return {"layout": LAYOUT, **arguments}


def test_servers_are_grouped_without_empty_groups(js: Script) -> None:
    script = (
        PREPARE
        + """const groups = (by) => geometry.groupServers(map.layout, by)
            .map(({ name, members }) => [name, members]);
        return [groups("platform"), groups("rack")];"""
    )
    assert js(script, with_layout()) == [
        [["small", [0, 1]], ["large", [2, 3, 4]]],
        [["r1", [0, 2, 4]], ["r2", [1, 3]]],
    ]


def test_cells_are_as_large_as_the_height_allows_and_do_not_overlap(js: Script) -> None:
    script = (
        PREPARE
        + """const height = geometry.arrange(600, argument.height, 6);
        return [map.size, height, map.cells];"""
    )
    tall_size, _, _ = js(script, with_layout(height=1000))
    size, height, cells = js(script, with_layout(height=50))
    assert tall_size == 34
    assert size < tall_size
    assert height <= 50
    spots = {(cell["x"] // size, cell["y"] // size) for cell in cells}
    assert len(spots) == 5


def test_a_point_belongs_to_the_cell_under_it_or_to_none(js: Script) -> None:
    script = (
        PREPARE
        + """geometry.arrange(600, 1000, 6);
        const { x, y } = map.cells[3];
        return [geometry.serverAt(x + 1, y + 1), geometry.serverAt(-5, -5)];"""
    )
    assert js(script, with_layout()) == [3, -1]


def test_the_cursor_moves_to_the_neighbour_and_stays_at_the_edge(js: Script) -> None:
    script = (
        PREPARE
        + """geometry.arrange(600, 1000, 6);
        return [geometry.neighbour(0, [1, 0]), geometry.neighbour(0, [-1, 0])];"""
    )
    assert js(script, with_layout()) == [1, 0]


def test_a_drag_selects_the_cells_it_touches(js: Script) -> None:
    script = (
        PREPARE
        + """geometry.arrange(600, 1000, 6);
        const [a, b] = [map.cells[0], map.cells[1]];
        return [geometry.serversInside([a.x + 1, b.x], [a.y, a.y + 1]),
            geometry.serversInside([-9, -5], [0, 5])];"""
    )
    assert js(script, with_layout()) == [[0, 1], []]


@pytest.mark.parametrize(
    ("values", "servers", "mean"),
    [([10, 20, 255], [0, 1, 2], 15), ([10], [0], 10), ([0, 0], [0, 1], 0)],
)
def test_means_ignore_servers_that_have_not_reported(
    js: Script, values: list[int], servers: list[int], mean: float
) -> None:
    script = PREPARE + "return state.meanOf(argument.values, argument.servers);"
    assert js(script, with_layout(values=values, servers=servers)) == mean


def test_the_mean_without_reports_is_shown_as_a_dash(js: Script) -> None:
    script = (
        PREPARE
        + """return [state.meanOf([255], [0]), state.meanOf([], [])]
            .map((mean) => [Number.isNaN(mean), state.shareText(mean)]);"""
    )
    assert js(script, with_layout()) == [[True, "–"], [True, "–"]]


def test_shares_are_weighted_by_cores(js: Script) -> None:
    script = PREPARE + "return state.shareOf(argument.values, argument.servers);"
    assert js(script, with_layout(values=[200, 255, 0], servers=[0, 1, 2])) == pytest.approx(
        200 / 3
    )


def test_the_use_of_the_cluster_and_of_a_group_is_that_of_the_server(js: Script) -> None:
    script = (
        PREPARE
        + """const group = geometry.groupServers(map.layout, "platform")[1];
        return [state.usageOf("cpu"), state.usageOf("cpu", group), state.usageOf("allocated")]
            .map((share) => state.shareText(share));"""
    )
    usage = {
        "all": {"cpu": 0.5, "allocated": None},
        "platform": [{"cpu": 0.1}, {"cpu": 0.8}, {"cpu": None}],
    }
    assert js(script, with_layout(state={"usage": usage})) == ["50 %", "80 %", "–"]


def test_the_highest_pressure_is_named_and_the_first_wins_a_tie(js: Script) -> None:
    script = PREPARE + "return [0, 1, 2].map((i) => state.highestPressure(i));"
    pressure = {"pressure": [[20, 40, 0], [60, 40, 0]]}
    assert js(script, with_layout(state=pressure)) == [
        "Network, 30 points",
        "Cache, 20 points",
        "none",
    ]


def test_the_state_is_decoded_from_base64(js: Script) -> None:
    script = (
        PREPARE
        + """const column = btoa("\\u0000\\u00c8\\u00ff");
        const answer = { cpu: column, allocated: column, age: column, state: column,
            pressure: [column], as_of: "now" };
        const decoded = state.decodeState(answer);
        return [[...decoded.cpu], [...decoded.pressure[0]], decoded.as_of];"""
    )
    assert js(script, with_layout()) == [[0, 200, 255], [0, 200, 255], "now"]
