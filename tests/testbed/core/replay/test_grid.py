"""Runs of a grid, their report and comparison."""

from dataclasses import replace

import numpy as np
import pytest

from apps.testbed.core.replay.errors import ReplayError
from apps.testbed.core.replay.grid import (
    Grid,
    comparison_of,
    page_of,
    report_of,
    run_grid,
    workload_of,
)
from apps.testbed.core.replay.model import Admission, ReplayOptions
from apps.testbed.core.replay.run import seeds_of
from apps.testbed.core.trace_workload import TraceFormat, TraceWorkload, job_table
from tests.testbed.core.replay.cases import cluster, options

TRACE = TraceWorkload(
    "<small>",
    TraceFormat.BERTH,
    ("web", "sort"),
    ("latency_critical", "analytics"),
    job_table(
        [0.0, 5.0], [0, 1], [np.inf, 40.0], units=[1, 0], seconds=[70.0, 9.0],
        target_s=[np.inf, 500.0], tasks=[0, 4], priority=[2, 0], unit_memory_bytes=[1e9, 0.0],
    ),
    skipped=3,
)  # fmt: skip


def test_a_trace_becomes_a_workload_whose_services_end_as_logged() -> None:
    load = workload_of(TRACE)
    assert [a.kind for a in load.applications] == ["latency_critical", "analytics"]
    assert load.duration_s.tolist() == [70.0, np.inf]
    assert load.units.tolist() == [1, 0]
    assert load.unit_memory_bytes.tolist() == [1e9, 0.0]
    assert load.target_s.tolist() == [np.inf, 500.0]
    assert load.priority.tolist() == [2, 0]


def grid(*labels: str, seeds: tuple[int, ...] = (1, 2)) -> Grid:
    return Grid(tuple((label, label) for label in labels), seeds, options())


def test_the_report_has_all_runs_and_is_a_page_without_markup_of_the_trace() -> None:
    chosen = grid("random", "least_loaded")
    rows = list(run_grid(cluster(4, 4), workload_of(TRACE), chosen))
    report = report_of(TRACE, cluster(4, 4), chosen, rows)
    assert report["trace"] == {
        "name": "<small>", "format": "berth", "jobs": 2, "skipped": 3, "notes": []
    }  # fmt: skip
    assert [run["policy"] for run in report["runs"]] == ["random"] * 2 + ["least_loaded"] * 2
    assert "<small>" not in page_of(report)
    assert "&lt;small&gt;" in page_of(report)


def test_a_policy_that_is_better_with_every_seed_is_better() -> None:
    chosen = grid("random", "tarcil", seeds=(1, 2, 3))
    row = next(run_grid(cluster(4), workload_of(TRACE), grid("random", seeds=(1,))))
    rows = [
        replace(row, policy=policy, performance_mean=base + 0.001 * seed)
        for policy, base in (("random", 0.5), ("tarcil", 0.8))
        for seed in chosen.seeds
    ]
    found = {d["measure"]: d for d in comparison_of(chosen, rows)["differences"]}
    assert found["performance_mean"]["outcome"] == "better"
    assert found["performance_mean"]["corrected"][0] == pytest.approx(0.3)
    assert found["energy_kwh"]["outcome"] == "unclear"


def test_seeds_are_ranges_or_lists() -> None:
    assert seeds_of("1-5") == [1, 2, 3, 4, 5]
    assert seeds_of("3,7-8") == [3, 7, 8]
    for text in ("", "1-", "-2", "a", "1,1", "5-4"):
        with pytest.raises(ReplayError, match="seeds must"):
            seeds_of(text)


def test_choices_are_read_from_text() -> None:
    assert ReplayOptions.of(admission="fifo").admission is Admission.FIFO
    with pytest.raises(ReplayError, match="profiles must be one of inferred, true, none, not 'x'"):
        ReplayOptions.of(profiles="x")
