"""Ranking of columns by their value for the profile, used by profiling plans."""

import numpy as np
import pytest

from apps.classification.core.inference import Library
from apps.classification.core.matrix import Matrix, MatrixName, columns_of
from apps.classification.core.ranking import ranking
from apps.common.core.interference import SOURCES
from apps.inventory.core.snapshot import Floats

PLATFORMS = ("best", "twin", "old", "slow")
ROWS = tuple(f"app-{i}" for i in range(20))


def curve(rng: np.random.Generator, columns: int) -> Floats:
    """A first column of 1, and others that go down with one number of the application."""
    steep = rng.uniform(0.05, 0.5, (len(ROWS), 1))
    noise = np.where(np.arange(columns) > 0, rng.normal(0.0, 0.01, (len(ROWS), columns)), 0.0)
    return np.exp(noise - steep * np.arange(columns))


def values(name: MatrixName) -> Floats:
    rng = np.random.default_rng(len(name.value))
    if name in {MatrixName.SCALE_UP, MatrixName.SCALE_OUT, MatrixName.FRAMEWORK}:
        return curve(rng, len(columns_of(name, PLATFORMS)))
    if name in {MatrixName.TOLERATED, MatrixName.CAUSED}:
        return np.clip(rng.normal(50.0, 15.0, (len(ROWS), 2)).repeat(5, axis=1), 0.0, 100.0)
    twin = np.exp(rng.normal(0.0, 0.01, (len(ROWS), 1)))
    old = np.exp(rng.normal(-0.5, 0.3, (len(ROWS), 1)))
    return np.hstack([np.ones((len(ROWS), 1)), twin, old, old * 0.7 * twin])


def library(**changed: Floats) -> Library:
    shown = {
        name: changed.get(name.value, values(name))
        for name in MatrixName
        if name is not MatrixName.BASE_RATE
    }
    return Library(
        1, {n: Matrix(n, ROWS[: len(v)], columns_of(n, PLATFORMS), v) for n, v in shown.items()}
    )


def test_every_column_but_the_reference_is_ranked_once() -> None:
    ranked = ranking(library(), PLATFORMS)
    assert {name: sorted(columns) for name, columns in ranked.items()} == {
        "heterogeneity": sorted(PLATFORMS[1:]),
        "scale_up": sorted(columns_of(MatrixName.SCALE_UP, PLATFORMS)[1:]),
        "scale_out": sorted(columns_of(MatrixName.SCALE_OUT, PLATFORMS)[1:]),
        "framework": sorted(columns_of(MatrixName.FRAMEWORK, PLATFORMS)[1:]),
        "tolerated": sorted(SOURCES),
    }


def test_the_most_informative_column_comes_first() -> None:
    ranked = ranking(library(), PLATFORMS)
    assert ranked["heterogeneity"][0] in {"old", "slow"}
    assert ranked["scale_up"][0] in {"16", "32"}


def test_sources_of_both_independent_halves_come_first() -> None:
    first, second = ranking(library(), PLATFORMS)["tolerated"][:2]
    assert {SOURCES.index(first) // 5, SOURCES.index(second) // 5} == {0, 1}


def test_both_interference_matrices_determine_the_ranking() -> None:
    rng = np.random.default_rng(3)
    flat = 50.0 + rng.normal(0.0, 0.1, (len(ROWS), 10))
    moving = np.clip(rng.normal(50.0, 15.0, (len(ROWS), 2)).repeat([2, 8], axis=1), 0.0, 100.0)
    ranked = ranking(library(tolerated=flat, caused=moving), PLATFORMS)["tolerated"]
    assert {SOURCES.index(source) // 2 > 0 for source in ranked[:2]} == {False, True}


def test_unknown_columns_are_omitted_or_come_last() -> None:
    alone = ranking(library(), PLATFORMS[:1])
    assert "heterogeneity" not in alone
    assert ranking(library(), (*PLATFORMS, "new"))["heterogeneity"][-1] == "new"
    bare = ranking(library(scale_out=np.full((2, 8), np.nan)), PLATFORMS)
    assert "scale_out" not in bare
    assert len(bare["scale_up"]) == 5


def test_sparse_live_rows_are_ignored_by_the_ranking() -> None:
    plain = ranking(library(), PLATFORMS)
    measured = plain["scale_up"][:2]
    live = values(MatrixName.SCALE_UP).repeat(5, axis=0)
    columns = columns_of(MatrixName.SCALE_UP, PLATFORMS)
    live[:, [j for j, column in enumerate(columns) if column not in {"1", *measured}]] = np.nan
    whole = np.vstack([values(MatrixName.SCALE_UP), live])
    rows = tuple(f"row-{i}" for i in range(len(whole)))
    grown = library()
    matrices = dict(grown.matrices)
    matrices[MatrixName.SCALE_UP] = Matrix(MatrixName.SCALE_UP, rows, columns, whole)
    assert ranking(Library(2, matrices), PLATFORMS) == plain


def test_all_rows_are_used_if_none_is_nearly_complete() -> None:
    gaps = values(MatrixName.SCALE_OUT)
    width = gaps.shape[1] - 1
    gaps[np.arange(len(gaps)), 1 + np.arange(len(gaps)) % width] = np.nan
    ranked = ranking(library(scale_out=gaps), PLATFORMS)
    assert len(ranked["scale_out"]) == width


@pytest.mark.parametrize("method", ["informative", "a_optimal", "fixed"])
def test_the_same_library_has_the_same_ranking(method: str) -> None:
    assert ranking(library(), PLATFORMS, method=method) == ranking(
        library(), PLATFORMS, method=method, seed=5
    )


def test_a_random_ranking_follows_its_seed() -> None:
    first = ranking(library(), PLATFORMS, method="random", seed=1)
    assert first == ranking(library(), PLATFORMS, method="random", seed=1)
    assert first != ranking(library(), PLATFORMS, method="random", seed=2)
