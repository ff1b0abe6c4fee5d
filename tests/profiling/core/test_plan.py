"""Plans contain the runs of Quasar, and every plan is feasible."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.common.core.interference import SOURCES
from apps.emulation.core.draws import KINDS, application_truth
from apps.emulation.core.microbenchmarks import SAMPLE_S
from apps.emulation.core.platforms import catalogue
from apps.emulation.core.probe import probe
from apps.emulation.core.probe_runs import ProbeRun
from apps.inventory.core.demo import PLATFORMS, platform_counts
from apps.profiling.core.plan import (
    BUDGET_S,
    THOROUGH_S,
    PlatformShape,
    fits_another_source,
    plan,
)
from apps.profiling.core.ramp import MAX_SAMPLES
from apps.workloads.core.framework import DEFAULT_SETTING

Runs = list[dict[str, Any]]
SIZES = {2, 4, 8, 16, 32}


def shapes(servers: int = 600) -> list[PlatformShape]:
    """The demo platforms with their numbers of servers in a cluster of this size."""
    return [
        PlatformShape(facts.name, count, facts.cores)
        for facts, count in zip(PLATFORMS, platform_counts(servers), strict=True)
    ]


def planned_runs(
    kind: str = "analytics", *, seed: int = 1, platforms: Sequence[PlatformShape] = ()
) -> Runs:
    runs: Runs = plan(kind, platforms or shapes(), np.random.default_rng(seed))["runs"]
    return runs


def forms(runs: Runs) -> list[tuple[bool, bool, bool]]:
    """Whether each run is on the highest-end platform, has several units, and several servers."""
    best = PLATFORMS[0].name
    default = [r for r in runs if "setting" not in r]
    return [(r["platform"] == best, r["units"] > 1, r["servers"] > 1) for r in default]


BASE = (True, False, False)
UP = (True, True, False)
OUT = (True, False, True)
OTHER_PLATFORM = (False, False, False)


# budgets of 60, 90, 60 and 45 s; a run of a copy takes at most 22 s
@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("analytics", [BASE, UP, OUT, *[OTHER_PLATFORM] * 2]),
        ("latency_critical", [BASE, UP, OUT, *[OTHER_PLATFORM] * 4]),
        ("single_node", [BASE, UP, *[OTHER_PLATFORM] * 2]),
        ("batch", [BASE, UP, *[OTHER_PLATFORM] * 2]),
    ],
)
@pytest.mark.parametrize("seed", range(5))
def test_a_kind_gets_the_runs_it_can_use(
    kind: str, expected: list[tuple[bool, bool, bool]], seed: int
) -> None:
    assert forms(planned_runs(kind, seed=seed)) == expected


# 5.5 s for a source with one score, and 22 s before the first
@pytest.mark.parametrize(
    ("kind", "count"),
    [("analytics", 6), ("latency_critical", 10), ("single_node", 6), ("batch", 4)],
)
def test_the_first_run_measures_the_sources_that_fit_and_the_others_are_spare(
    kind: str, count: int
) -> None:
    first, *others = planned_runs(kind)
    assert len(first["sources"]) == count
    assert sorted(first["sources"] + first["spare"]) == sorted(SOURCES)
    assert [run["sources"] + run["spare"] for run in others] == [[]] * len(others)


def test_copies_run_in_parallel_and_only_the_last_have_several_runs() -> None:
    assert [run["copy"] for run in planned_runs("latency_critical")] == [0, 1, 2, 3, 3, 3, 3]
    assert [run["copy"] for run in planned_runs("analytics")] == [0, 1, 2, 3, 3, 4, 4]


@pytest.mark.parametrize("kind", KINDS)
def test_the_expected_duration_fits_the_budget(kind: str) -> None:
    chosen = plan(kind, shapes(), np.random.default_rng(1))
    assert chosen["budget_s"] == BUDGET_S[kind]
    assert 0.0 < chosen["expected_s"] <= chosen["budget_s"]


RANKED = {
    "scale_up": ["1", "16", "4"],
    "scale_out": ["32", "2"],
    "heterogeneity": [PLATFORMS[5].name, PLATFORMS[0].name, PLATFORMS[3].name],
    "tolerated": [SOURCES[7], SOURCES[2]],
}


@pytest.mark.parametrize("seed", range(5))
def test_the_most_informative_columns_are_measured(seed: int) -> None:
    rng = np.random.default_rng(seed)
    runs = plan("latency_critical", shapes(), rng, ranking=RANKED)["runs"]
    assert runs[0]["sources"][:2] == [SOURCES[7], SOURCES[2]]
    assert runs[1]["units"] == 16
    assert runs[2]["servers"] == 32
    names = [run["platform"] for run in runs if run["copy"] == 3]
    assert names[:2] == [PLATFORMS[5].name, PLATFORMS[3].name]
    assert len(set(names)) == 4


def test_unranked_columns_follow_in_random_order() -> None:
    plans = [
        plan("latency_critical", shapes(), np.random.default_rng(seed), ranking=RANKED)["runs"]
        for seed in range(100)
    ]
    assert {runs[0]["sources"][2] for runs in plans} == set(SOURCES) - {SOURCES[7], SOURCES[2]}
    assert len({runs[5]["platform"] for runs in plans}) == len(PLATFORMS) - 3


def test_sizes_beyond_the_cluster_are_skipped() -> None:
    small = [PlatformShape("cr1.8xlarge", 3, 8), PlatformShape("m1.small", 1, 1)]
    runs = plan("analytics", small, np.random.default_rng(1), ranking=RANKED)["runs"]
    assert [runs[1]["units"], runs[2]["servers"]] == [4, 2]


@pytest.mark.parametrize(
    ("done", "elapsed_s", "expected"),
    [(0, 500.0, True), (1, 500.0, True), (2, 79.0, True), (2, 79.1, False), (9, 0.0, True)],
)
def test_another_source_is_started_while_it_fits(
    done: int, elapsed_s: float, *, expected: bool
) -> None:
    assert fits_another_source(done, elapsed_s, 90.0, is_alternating=False) is expected


@pytest.mark.parametrize(
    ("done", "elapsed_s", "expected"),
    [(0, 500.0, True), (3, 500.0, True), (4, 84.5, True), (4, 84.6, False)],
)
def test_a_source_with_one_score_takes_half_the_time(
    done: int, elapsed_s: float, *, expected: bool
) -> None:
    assert fits_another_source(done, elapsed_s, 90.0, is_alternating=True) is expected


def test_sizes_are_columns_of_the_matrices() -> None:
    plans = [planned_runs(seed=seed) for seed in range(60)]
    assert {runs[1]["units"] for runs in plans} == SIZES
    assert {runs[2]["servers"] for runs in plans} == SIZES


def test_every_platform_and_source_is_drawn_eventually() -> None:
    plans = [planned_runs(seed=seed) for seed in range(200)]
    assert {runs[3]["platform"] for runs in plans} == {p.name for p in PLATFORMS[1:]}
    assert {runs[0]["sources"][0] for runs in plans} == set(SOURCES)


def test_the_same_seed_draws_the_same_plan() -> None:
    assert planned_runs(seed=3) == planned_runs(seed=3)
    assert planned_runs(seed=3) != planned_runs(seed=4)


def test_nothing_larger_than_the_cluster_is_drawn() -> None:
    small = [PlatformShape("cr1.8xlarge", 3, 8), PlatformShape("m1.small", 1, 1)]
    plans = [planned_runs(seed=seed, platforms=small) for seed in range(40)]
    assert {runs[1]["units"] for runs in plans} == {2, 4, 8}
    assert {runs[2]["servers"] for runs in plans} == {2}


@pytest.mark.parametrize(
    ("platforms", "expected"),
    [
        ([PlatformShape("cr1.8xlarge", 1, 1)], [BASE]),
        ([PlatformShape("cr1.8xlarge", 0, 2)], [BASE, UP]),
        ([PlatformShape("cr1.8xlarge", 2, 1)], [BASE, OUT]),
        ([PlatformShape("cr1.8xlarge", 1, 1), PlatformShape("x", 1, 1)], [BASE, OTHER_PLATFORM]),
    ],
)
def test_a_small_cluster_has_fewer_runs(
    platforms: list[PlatformShape], expected: list[tuple[bool, bool, bool]]
) -> None:
    assert forms(planned_runs(platforms=platforms)) == expected


def test_refuses_a_cluster_without_platforms() -> None:
    with pytest.raises(ValueError, match="cluster that has servers"):
        plan("batch", [], np.random.default_rng(1))


def test_refuses_an_unknown_kind() -> None:
    with pytest.raises(ValueError, match="kind must be one of latency_critical, analytics"):
        plan("unknown", shapes(), np.random.default_rng(1))


@settings(max_examples=60)
@given(kind=st.sampled_from(KINDS), servers=st.integers(1, 2000), seed=st.integers(0, 2**62))
def test_every_plan_is_feasible_and_measures_two_columns_per_matrix(
    kind: str, servers: int, seed: int
) -> None:
    chosen = plan(kind, shapes(servers), np.random.default_rng(seed))
    truth = application_truth(7, "sort", kind, catalogue([p.name for p in PLATFORMS], seed=7))
    runs = [ProbeRun.of(run) for run in chosen["runs"]]
    rng = np.random.default_rng(1)
    result = probe(truth, runs, rng, budget_s=chosen["budget_s"])
    measured = {(cell.matrix, cell.column) for cell in result.cells}
    assert len(measured) == len(result.cells)
    in_matrix = [sum(matrix == name for matrix, _ in measured) for name in MATRICES]
    assert min(in_matrix) >= 2
    assert result.duration_s < chosen["budget_s"] + MAX_SOURCE_S


MATRICES = ("base_rate", "heterogeneity", "scale_up", "tolerated", "caused")
MAX_SOURCE_S = 2 * MAX_SAMPLES * SAMPLE_S  # of which 11 s lie within the budget


def test_analytics_try_framework_settings_within_the_budget() -> None:
    chosen = plan("analytics", shapes(), np.random.default_rng(0))
    labels = [run["setting"] for run in chosen["runs"] if "setting" in run]
    assert len(set(labels)) == len(labels) == 2
    assert DEFAULT_SETTING.label not in labels


def test_settings_are_tried_in_the_order_given() -> None:
    order = {"framework": ["4x2GB", "2x0.5GB+lz4"]}
    chosen = plan("analytics", shapes(), np.random.default_rng(0), ranking=order)
    labels = [run["setting"] for run in chosen["runs"] if "setting" in run]
    assert labels[:2] == order["framework"]


@pytest.mark.parametrize("kind", ["latency_critical", "single_node", "batch"])
def test_other_kinds_have_no_settings(kind: str) -> None:
    chosen = plan(kind, shapes(), np.random.default_rng(0))
    assert not any("setting" in run for run in chosen["runs"])


@pytest.mark.parametrize("kind", KINDS)
def test_a_thorough_plan_measures_every_source(kind: str) -> None:
    chosen = plan(kind, shapes(), np.random.default_rng(1), thorough=True)
    assert sorted(chosen["runs"][0]["sources"]) == sorted(SOURCES)
    assert (chosen["runs"][0]["spare"], chosen["runs"][0]["by_turns"]) == ([], False)
    assert chosen["expected_s"] <= chosen["budget_s"] == THOROUGH_S
