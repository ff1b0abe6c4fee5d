"""The pure parts of previews, server maps and debouncing."""

from typing import Any

import pytest

from tests.browser.unit.conftest import Script

WORST = "const m = await load('calibrate/preview_answer.js'); return m.worstJob(argument)?.id;"


def job(number: int, attainment: float | None, ratio: float | None) -> dict[str, Any]:
    return {"id": number, "attainment": attainment, "ratio": ratio}


@pytest.mark.parametrize(
    ("jobs", "worst", "expected"),
    [
        ([], None, None),
        ([job(1, 1.0, 1.1)], job(2, 0.5, 0.4), 2),
        ([job(1, 1.0, 0.9), job(3, 1.2, 0.7)], job(2, 0.5, 0.4), 3),
        ([job(1, 1.0, 0.9), job(3, 1.0, 0.9)], None, 1),
        ([job(1, None, 0.1)], job(4, None, 0.1), 4),
        ([job(1, 2.0, None)], job(5, 1.0, 0.5), 5),
        ([job(1, 2.0, 0.5)], job(2, 0.5, 0.4), 2),
    ],
    ids=[
        "no jobs",
        "none missed",
        "lowest below its target",
        "tie",
        "no target",
        "no ratio",
        "just met",
    ],
)
def test_the_most_affected_job_is_the_one_farthest_below_a_target_it_meets_now(
    js: Script, jobs: list[dict[str, Any]], worst: dict[str, Any] | None, expected: int | None
) -> None:
    assert js(WORST, {"jobs": jobs, "worst": worst}) == expected


@pytest.mark.parametrize(
    ("before", "after", "direction", "improvement"),
    [(100, 50, -1, 0.5), (100, 150, 1, 0.5), (0, 5, 1, 0), (-10, -5, 1, 0.5), (4, 6, -1, -0.5)],
)
def test_improvements_are_relative_and_positive_if_better(
    js: Script, before: float, after: float, direction: int, improvement: float
) -> None:
    script = """const { improvementOf } = await load("calibrate/preview_answer.js");
        return improvementOf(...argument);"""
    assert js(script, [before, after, direction]) == pytest.approx(improvement)


def test_racks_become_columns_and_large_racks_take_several(js: Script) -> None:
    script = """const { rackColumns } = await load("calibrate/maps.js");
        return rackColumns({ name: argument, rack: argument });"""
    racks = ["a"] * 2 + ["b"] * 9
    assert js(script, racks) == [[0, 1], [2, 3, 4], [5, 6, 7], [8, 9, 10]]
    assert js(script, []) == []


def test_debounced_work_runs_once_with_the_last_arguments_and_can_be_stopped(js: Script) -> None:
    script = """const { debounce } = await load("dom.js");
        const calls = [];
        const later = debounce((value) => calls.push(value), 20);
        const pause = () => new Promise((resolve) => setTimeout(resolve, 60));
        later(1);
        later(2);
        await pause();
        later(3);
        later.stop();
        await pause();
        return calls;"""
    assert js(script) == [2]


@pytest.mark.parametrize(
    ("change", "text"),
    [(-42.0, "−42 W"), (1500.0, "+1.5 kW"), (0.3, "0 W"), (-0.4, "0 W")],
)
def test_a_change_of_power_is_as_precise_as_the_heading(
    js: Script, change: float, text: str
) -> None:
    script = """const m = await load("calibrate/preview_answer.js");
        return m.powerChange(argument);"""
    assert js(script, change) == text


@pytest.mark.parametrize(
    ("version", "history", "text"),
    [
        (0, [], "0 generations, 1 placement, hypervolume 0.081"),
        (
            0,
            [{"generation": 5954, "points": 1, "hypervolume": 0.081}],
            "5,954 generations, 1 placement, hypervolume 0.081, nothing better since generation 0",
        ),
        (
            0,
            [{"generation": 5954, "points": 2, "hypervolume": 0.09}],
            "0 generations, 1 placement, hypervolume 0.081",
        ),
    ],
    ids=["first", "unchanged", "better"],
)
def test_a_search_that_finds_nothing_better_says_for_how_long(
    js: Script, version: int, history: list[dict[str, float]], text: str
) -> None:
    found = {"generations": version, "points": 1, "hypervolume": 0.081, "is_exact": False}
    script = """const { versionText } = await load("calibrate/front_status.js");
        return versionText(argument.versions[0], argument);"""
    assert js(script, {"versions": [found], "history": history}) == text
