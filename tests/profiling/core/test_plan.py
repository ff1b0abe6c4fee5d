"""Plans hold the runs Quasar asks for, and every plan can be carried out."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.common.core.interference import SOURCES
from apps.emulation.core.draws import KINDS, application_truth
from apps.emulation.core.platforms import catalogue
from apps.emulation.core.probe import ProbeRun, probe
from apps.inventory.core.demo import PLATFORMS, platform_counts
from apps.profiling.core.plan import PlatformShape, plan

Runs = list[dict[str, Any]]
SIZES = {2, 4, 8, 16, 32}


def shapes(servers: int = 600) -> list[PlatformShape]:
    """The demo platforms, as many servers of each as a cluster of so many has."""
    return [
        PlatformShape(facts.name, count, facts.cores)
        for facts, count in zip(PLATFORMS, platform_counts(servers), strict=True)
    ]


def drawn(
    kind: str = "analytics", *, seed: int = 1, platforms: Sequence[PlatformShape] = ()
) -> Runs:
    runs: Runs = plan(kind, platforms or shapes(), np.random.default_rng(seed))["runs"]
    return runs


def forms(runs: Runs) -> list[tuple[bool, bool, bool]]:
    """Of each run: on the highest-end platform, of several units, on several servers."""
    best = PLATFORMS[0].name
    return [(r["platform"] == best, r["units"] > 1, r["servers"] > 1) for r in runs]


BASE = (True, False, False)
UP = (True, True, False)
OUT = (True, False, True)
ELSEWHERE = (False, False, False)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("analytics", [BASE, UP, OUT, ELSEWHERE]),
        ("latency_critical", [BASE, UP, OUT, ELSEWHERE]),
        ("single_node", [BASE, UP, ELSEWHERE]),
        ("batch", [BASE, UP, ELSEWHERE]),
    ],
)
@pytest.mark.parametrize("seed", range(5))
def test_a_kind_gets_the_runs_it_can_use(
    kind: str, expected: list[tuple[bool, bool, bool]], seed: int
) -> None:
    assert forms(drawn(kind, seed=seed)) == expected


def test_the_first_run_carries_two_sources_and_no_other_any() -> None:
    first, *others = drawn()
    assert len(set(first["sources"])) == 2
    assert set(first["sources"]) <= set(SOURCES)
    assert [run["sources"] for run in others] == [[], [], []]


def test_sizes_are_columns_of_the_matrices() -> None:
    plans = [drawn(seed=seed) for seed in range(60)]
    assert {runs[1]["units"] for runs in plans} == SIZES
    assert {runs[2]["servers"] for runs in plans} == SIZES


def test_every_other_platform_and_every_source_is_drawn_in_time() -> None:
    plans = [drawn(seed=seed) for seed in range(200)]
    assert {runs[3]["platform"] for runs in plans} == {p.name for p in PLATFORMS[1:]}
    assert {source for runs in plans for source in runs[0]["sources"]} == set(SOURCES)


def test_the_same_seed_draws_the_same_plan() -> None:
    assert drawn(seed=3) == drawn(seed=3)
    assert drawn(seed=3) != drawn(seed=4)


def test_nothing_larger_than_the_cluster_is_drawn() -> None:
    small = [PlatformShape("cr1.8xlarge", 3, 8), PlatformShape("m1.small", 1, 1)]
    plans = [drawn(seed=seed, platforms=small) for seed in range(40)]
    assert {runs[1]["units"] for runs in plans} == {2, 4, 8}
    assert {runs[2]["servers"] for runs in plans} == {2}


@pytest.mark.parametrize(
    ("platforms", "expected"),
    [
        ([PlatformShape("cr1.8xlarge", 1, 1)], [BASE]),
        ([PlatformShape("cr1.8xlarge", 0, 2)], [BASE, UP]),
        ([PlatformShape("cr1.8xlarge", 2, 1)], [BASE, OUT]),
        ([PlatformShape("cr1.8xlarge", 1, 1), PlatformShape("x", 1, 1)], [BASE, ELSEWHERE]),
    ],
)
def test_a_poor_cluster_has_fewer_runs(
    platforms: list[PlatformShape], expected: list[tuple[bool, bool, bool]]
) -> None:
    assert forms(drawn(platforms=platforms)) == expected


def test_refuses_a_cluster_without_platforms() -> None:
    with pytest.raises(ValueError, match="cluster that has servers"):
        plan("batch", [], np.random.default_rng(1))


@settings(max_examples=60, deadline=None)
@given(kind=st.sampled_from(KINDS), servers=st.integers(1, 2000), seed=st.integers(0, 2**62))
def test_every_plan_can_be_carried_out_and_measures_two_columns_a_matrix(
    kind: str, servers: int, seed: int
) -> None:
    runs = drawn(kind, seed=seed, platforms=shapes(servers))
    truth = application_truth(7, "sort", kind, catalogue([p.name for p in PLATFORMS], seed=7))
    asked = [ProbeRun(r["platform"], r["servers"], r["units"], tuple(r["sources"])) for r in runs]
    cells = probe(truth, asked, np.random.default_rng(1)).cells
    measured = {(cell.matrix, cell.column) for cell in cells}
    assert len(measured) == len(cells)
    in_matrix = [sum(matrix == name for matrix, _ in measured) for name in ALWAYS_TWO]
    assert in_matrix == [2] * len(ALWAYS_TWO)


ALWAYS_TWO = ("base_rate", "heterogeneity", "scale_up", "tolerated", "caused")
