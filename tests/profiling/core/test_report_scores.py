"""Scores of a report as placement needs them."""

from typing import Any

import pytest

from apps.common.core.interference import SOURCES
from apps.profiling.core.report_scores import report_scores


def source(stressor: str, name: str | None, state: str, **fields: Any) -> dict[str, Any]:
    found = {"stressor": stressor, "source": name, "state": state, "score": None}
    return {**found, "stressor_speed": None, **fields}


def scores(*sources: dict[str, Any], cpu_share: float | None = 1.0) -> dict[str, tuple[Any, ...]]:
    found = report_scores({"sources": list(sources), "cpu_share": cpu_share})
    return {
        name: (tolerated, caused, name not in found.unknown)
        for name, tolerated, caused in zip(SOURCES, found.tolerated, found.caused, strict=True)
    }


@pytest.mark.parametrize(
    ("state", "score", "expected"),
    [
        ("measured", 40.0, (40.0, 25.0, True)),
        ("not_reached", None, (100.0, 25.0, True)),
        ("inconclusive", None, (100.0, 25.0, False)),
        ("invalid", None, (100.0, 25.0, False)),
    ],
)
def test_only_a_known_state_gives_a_tolerance(
    state: str, score: float | None, expected: tuple[Any, ...]
) -> None:
    found = scores(source("tlb", "tlb", state, score=score, stressor_speed=0.75))
    assert found["tlb"] == expected


def test_sources_that_no_stressor_pressed_are_unknown() -> None:
    found = scores(source("other_core", None, "measured", score=3.0, stressor_speed=0.1))
    assert set(found.values()) == {(100.0, 0.0, False)}


def test_the_lowest_tolerance_and_the_highest_interference_of_a_source_count() -> None:
    found = scores(
        source("core", "core", "not_reached", stressor_speed=0.9),
        source("shared_core", "core", "measured", score=11.0, stressor_speed=0.9),
        cpu_share=0.2,
    )
    assert found["core"] == (11.0, pytest.approx(40.0), True)


@pytest.mark.parametrize(("share", "caused"), [(1.0, 100.0), (0.05, 10.0), (None, 0.0)])
def test_turns_on_a_core_cause_the_share_that_the_program_uses(
    share: float | None, caused: float
) -> None:
    found = scores(source("shared_core", "core", "not_reached"), cpu_share=share)
    assert found["core"][1] == pytest.approx(caused)


def test_a_stressor_that_gains_next_to_the_program_shows_no_interference() -> None:
    found = scores(source("l1d", "l1d", "not_reached", stressor_speed=1.08))
    assert found["l1d"] == (100.0, 0.0, True)
