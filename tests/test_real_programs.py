"""Benchmarks of real programs: tables of repeats, and placement on the cores of a machine."""

import json
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from apps.common.core.interference import SOURCES
from benchmarks import leakage, real_profiling, realmix


def source(state: str, speed: float, *, score: float | None = None) -> dict[str, Any]:
    point = {"intensity": 100, "speed": [speed, speed - 0.02, speed + 0.02]}
    return {"state": state, "score": score, "points": [point]}


@pytest.fixture
def reports(monkeypatch: pytest.MonkeyPatch) -> real_profiling.Reports:
    monkeypatch.setattr(real_profiling, "NAMES", ("xz",))
    monkeypatch.setattr(real_profiling, "SOURCES", ("tlb",))
    return {
        ("xz", 1): {"tlb": source("measured", 0.80, score=20.0)},
        ("xz", 2): {"tlb": source("measured", 0.81, score=30.0)},
        ("xz", 3): {"tlb": source("inconclusive", 0.91)},
    }


def test_tables_show_the_range_of_the_repeats(reports: real_profiling.Reports) -> None:
    assert real_profiling.speed_table(reports, 3)[1] == ["xz", "0.84 (0.80 to 0.91)"]
    assert real_profiling.score_table(reports, 3)[1] == ["xz", "25 (20 to 30), inconclusive: 1"]


def test_repeatability_compares_each_repeat_with_the_others(
    reports: real_profiling.Reports,
) -> None:
    # SD of 0.80, 0.81, 0.91; no interval of ± 0.02 holds the mean of the other two
    expected = ["tlb", "0 of 1", "0.061", "0.110", "0 of 3"]
    assert real_profiling.repeatability_table(reports, 3)[1] == expected


def report(name: str, *, tolerance: float | None, cpu_share: float) -> dict[str, Any]:
    core = {
        "stressor": "shared_core",
        "source": "core",
        "state": "not_reached" if tolerance is None else "measured",
        "score": tolerance,
        "stressor_speed": 1.0,
    }
    return {"command": [name], "cpu_share": cpu_share, "sources": [core]}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return profiles of two programs that need a whole core and two that mostly wait."""
    for name in realmix.NAMES:
        is_busy = name in {"xz", "bzip2"}
        found = report(
            name, tolerance=5.0 if is_busy else None, cpu_share=1.0 if is_busy else 0.03
        )
        (tmp_path / f"{name}.json").write_text(json.dumps(found))
    return tmp_path


@pytest.mark.parametrize("order", list(permutations(realmix.NAMES)), ids="-".join)
def test_programs_that_need_a_core_get_one_each(folder: Path, order: tuple[str, ...]) -> None:
    known = realmix.requests(folder)
    arriving = [known[name] for name in order]
    cores = realmix.place("expected", arriving, np.random.default_rng(1))
    assert cores["xz"] != cores["bzip2"]


def test_requests_hold_the_scores_of_the_report(folder: Path) -> None:
    request = realmix.requests(folder)["xz"]
    core = SOURCES.index("core")
    assert (request.tolerated[core], request.caused[core]) == (5.0, 100.0)


def test_a_placement_is_named_after_the_partner_of_the_first_program() -> None:
    assert realmix.partner_of({"xz": 1, "bzip2": 0, "rsync": 0, "pv": 1}) == "xz+pv"


def test_only_speeds_that_are_clearly_below_the_limit_are_bold() -> None:
    parts = {"l1cache": {"`l1d`": [0.80, 0.82], "`core`": [0.94, 0.96]}}
    table = leakage.table_of(parts)
    assert [row[1] for row in table[1:3]] == ["**0.81**", "0.95"]
    # variance 0.0002 of both rows, two degrees of freedom: t is 2.92
    assert table[3] == ["half of the 90 % interval", "0.03"]
